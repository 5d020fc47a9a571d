"""Right answers of what_is_trained in other styles."""

what_is_trained = {
    "capitals with commas": lambda: "A, C, E, G",
    "a list in another order": lambda: ["g", "e", "c", "a"],
}
