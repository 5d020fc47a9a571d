"""What a Transformer costs: FLOPs of its matrix products and elements moved, as functions of the sizes.

One multiply-add is 2 FLOPs. An operation moves every operand and every result once, weights included. The tables follow
the way of counting of Shazeer (2019), sections 2.3 and 2.4, with the constants kept. Rows are checked against PyTorch's
FLOP counter.
"""

import torch

Row = tuple[int, int]  # FLOPs, elements moved


def matmul_flops(n: int, m: int, k: int) -> int:
    """FLOPs of an (n, m) matrix times an (m, k) matrix."""
    return 2 * n * m * k


def matmul_io(n: int, m: int, k: int) -> int:
    """Elements that an (n, m) times (m, k) product moves: both operands are read, the result is written."""
    return n * m + m * k + n * k


def arithmetic_intensity(n: int, m: int, k: int, dtype: torch.dtype) -> float:
    """FLOPs for every byte that is moved."""
    return matmul_flops(n, m, k) / (matmul_io(n, m, k) * dtype.itemsize)


def training_table(b: int, n: int, d: int, h: int, d_ff: int) -> dict[str, Row]:
    """One layer's forward pass over b sequences of n tokens, all at once."""
    return with_total(
        {
            "qkv": product(b * n, d, d, times=3),
            "scores": product(n, d // h, n, times=b * h),
            "softmax": (0, 2 * b * h * n**2),
            "weighted_sum": product(n, n, d // h, times=b * h),
            "output": product(b * n, d, d),
            "ffn": both(product(b * n, d, d_ff), product(b * n, d_ff, d)),
        }
    )


def decode_table(b: int, n: int, d: int, h: int, d_ff: int) -> dict[str, Row]:
    """One layer for one new token in each of b sequences, whose cache holds n keys and values, with the new ones."""
    return with_total(
        {
            "qkv": product(b, d, d, times=3),
            "scores": product(1, d // h, n, times=b * h),
            "softmax": (0, 2 * b * h * n),
            "weighted_sum": product(1, n, d // h, times=b * h),
            "output": product(b, d, d),
            "ffn": both(product(b, d, d_ff), product(b, d_ff, d)),
        }
    )


def product(n: int, m: int, k: int, times: int = 1) -> Row:
    """The row of `times` products of this shape."""
    return times * matmul_flops(n, m, k), times * matmul_io(n, m, k)


def both(first: Row, second: Row) -> Row:
    """The row of two operations together."""
    return first[0] + second[0], first[1] + second[1]


def with_total(rows: dict[str, Row]) -> dict[str, Row]:
    """The rows, and under "total" their sum."""
    return rows | {"total": (sum(flops for flops, _ in rows.values()), sum(moved for _, moved in rows.values()))}


def crossover(d: int, d_ff: int) -> int:
    """The n at which scores and weighted sum (4 n² d) cost as much as projections and FFN (8 n d² + 4 n d d_ff)."""
    return 2 * d + d_ff


def model_flops(b: int, n: int, layers: int, d: int, d_ff: int, vocabulary: int) -> int:
    """FLOPs of a training step of a decoder LM on b texts of n tokens: 6 · weights · tokens, and 12 b n² d a layer."""
    weights = (
        layers * (4 * d**2 + 2 * d * d_ff) + vocabulary * d
    )  # in matrix products; the head is one, looking up is none
    return 6 * weights * b * n + 12 * layers * b * n**2 * d
