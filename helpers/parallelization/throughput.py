"""How fast a machine multiplies."""


def matmul_gflops(m: int, k: int, n: int, seconds: float) -> float:
    """GFLOP/s of an (m, k) @ (k, n) product: 2 m k n operations (one multiply-add is 2) in so many seconds."""
    return 2 * m * k * n / seconds / 1e9
