"""What attention costs when it looks at less, or along the other axis: windows of an image, global tokens, channels.

FLOPs of scores and weighted sum: a pair of query and key costs 2d for its score and 2d for its share of the sum.
"""


def vit_windows(side: int, patch: int, window: int, d: int) -> tuple[int, int]:
    """A square image in patches: each attends to all, or to its own window × window patches (Liu et al., 2021)."""
    n = (side // patch) ** 2
    return 4 * n * n * d, 4 * n * window**2 * d


def global_tokens_cost(n: int, w: int, g: int, d: int) -> int:
    """n tokens that see w neighbours and g global tokens; g more that see all n + g (as in Beltagy et al., 2020)."""
    pairs = n * (w + g) + g * (n + g)
    return 4 * pairs * d


def channel_attention(n: int, d: int, h: int) -> tuple[int, int]:
    """Attention between n patches, and between d channels (El-Nouby et al., 2021), with their four d → d projections.

    With h heads, a channel sees the d/h channels of its own head.
    """
    projections = 8 * n * d**2
    return projections + 4 * n**2 * d, projections + 4 * n * d**2 // h
