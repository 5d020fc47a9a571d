"""Right answers of enc_dec_cost_terms in other styles."""

enc_dec_cost_terms = {
    "capital letters": lambda: "CEBFD",
    "separated by commas": lambda: "c, e, b, f, d",
    "a list": lambda: ["c", "e", "b", "f", "d"],
}
