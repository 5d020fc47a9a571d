"""Right answers of what_to_store in other styles."""

what_to_store = {"a capital letter": lambda: "C", "in a list": lambda: ["c"]}
