"""What an encoder layer and a decoder layer cost, term by term: FLOPs of the products, a multiply-add counted as 2."""


def enc_dec_cost(n: int, m: int, d: int) -> dict[str, tuple[int, int]]:
    """One encoder layer over m source tokens and one decoder layer over n target tokens, with d_ff = 4d.

    Each row: FLOPs of scores and mixing, FLOPs of the products with weights. Masked scores are computed too.
    """
    return {
        "encoder_self_attention": (4 * m * m * d, 8 * m * d * d),
        "encoder_feed_forward": (0, 16 * m * d * d),
        "decoder_self_attention": (4 * n * n * d, 8 * n * d * d),
        "cross_attention": (4 * n * m * d, 4 * n * d * d + 4 * m * d * d),
        "decoder_feed_forward": (0, 16 * n * d * d),
    }


def decoder_alone_cost(n: int, m: int, d: int) -> tuple[int, int]:
    """Two layers of a decoder alone over source and target, m + n tokens: scores and mixing, products with weights."""
    return 2 * 4 * (m + n) ** 2 * d, 2 * 24 * (m + n) * d * d


def enc_dec_cost_terms() -> str:
    """Where n²d, nd², m²d, md² and nmd come from, as letters."""
    return "cebfd"
