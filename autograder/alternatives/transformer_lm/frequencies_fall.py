"""Right answers of frequencies_fall in other styles."""

frequencies_fall = {"a capital letter": lambda: "B", "in a list": lambda: ["b"]}
