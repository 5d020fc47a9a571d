"""Right answers of new_operations in other styles."""

new_operations = {
    "separated by commas": lambda: "d, g, b, f, a, e, c",
    "a list of letters": lambda: ["d", "g", "b", "f", "a", "e", "c"],
    "arrows and capitals": lambda: "D → G → B → F → A → E → C",
}
