"""What it costs to write tokens with and without a cache, as formulas. One multiply-add is 2 FLOPs."""


def redundant_projections(n: int, layers: int) -> int:
    """How often a token's key and value are computed again while n tokens are read one after the other without a cache:
    step t computes t of them per layer, and t − 1 are not new."""
    return layers * n * (n - 1) // 2


def decode_cost(n: int, d: int) -> tuple[int, int, int, int]:
    """FLOPs of the matrix products of one attention layer of width d (q, k, v, scores, mixing, output).

    Step n with a cache; step n without; steps 1 … n together with a cache; together without.
    """
    with_cache = 8 * d**2 + 4 * n * d  # four projections of one token; its scores and its mixture
    without = 8 * n * d**2 + 4 * n**2 * d
    all_with = 8 * n * d**2 + 2 * n * (n + 1) * d
    all_without = 4 * n * (n + 1) * d**2 + 2 * n * (n + 1) * (2 * n + 1) * d // 3
    return with_cache, without, all_with, all_without


def cache_bytes(layers: int, h: int, h_kv: int, d: int, n: int, b: int, size: int) -> int:
    """Bytes of the keys and values of n tokens in b texts; `size` bytes a number, h_kv heads of width d/h stored."""
    return 2 * layers * b * n * h_kv * (d // h) * size
