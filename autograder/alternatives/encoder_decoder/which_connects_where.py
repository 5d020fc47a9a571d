"""Right answers of which_connects_where in other styles."""

which_connects_where = {
    "a capital letter": lambda: "B",
    "in a list": lambda: ["b"],
    "with a dot": lambda: " b. ",
    "a tuple": lambda: ("b",),
}
