"""FLOPs of the matrix products of each kind of attention, for n tokens of width d: a multiply-add is 2.

They are those of the references beside this file, to the digit; sums, softmaxes and masks are left out, as PyTorch's
counter does.
"""

import math


def local_flops(n: int, d: int, w: int) -> int:
    """Every token scores 2w + 1 slots and mixes as many."""
    return 4 * n * (2 * w + 1) * d


def global_local_flops(n: int, d: int, w: int, g: int) -> int:
    """n − g tokens with g global keys and a window; g tokens with all n keys."""
    return 4 * d * ((n - g) * (2 * w + 1 + g) + g * n)


def strided_flops(n: int, d: int) -> int:
    """A token in the middle reads 2(√n − 1) + 1 neighbours and √n − 1 more of its column. n must be a square number."""
    return 4 * n * (3 * math.isqrt(n) - 2) * d


def low_rank_flops(n: int, d: int, r: int) -> int:
    """Two projections (2 r n d each), then r keys for every query."""
    return 8 * n * r * d


def linear_flops(n: int, d: int) -> int:
    """The state φ(k)ᵀ v, and reading it: 2 n d² each."""
    return 4 * n * d**2


def chunked_flops(n: int, d: int, c: int) -> int:
    """The same, and a c × c square in each of the n/c chunks. c must divide n."""
    return 4 * n * d**2 + 4 * n * c * d
