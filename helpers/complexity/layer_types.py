"""Seven ways to let tokens see each other: how cost, steps and the longest path between two tokens grow.

After Table 1 of Vaswani et al. (2017) and Table 1 of Wang et al. (2020, Linformer). Constants don't matter, and the
projections, which are the same for all, are left out.
"""

import math

ROWS = ("recurrent", "convolution", "self-attention", "strided sparse", "lsh", "low-rank", "linear")
COLUMNS = ("cost", "steps", "path")


def layer_types(n: float, d: float, k: float, r: float) -> dict[str, tuple[float, float, float]]:
    """Row → (cost, sequential steps, longest path). k: kernel width; r: rank. One head of width d."""
    return {
        "recurrent": (n * d**2, n, n),
        "convolution": (k * n * d**2, 1, math.log2(n) / math.log2(k)),
        "self-attention": (n**2 * d, 1, 1),
        "strided sparse": (n * math.sqrt(n) * d, 1, 1),
        "lsh": (n * math.log2(n) * d, math.log2(n), math.log2(n)),
        "low-rank": (n * r * d, 1, 1),
        "linear": (n * d**2, 1, 1),
    }
