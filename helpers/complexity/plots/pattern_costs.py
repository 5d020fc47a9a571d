"""Pictures of attention that looks at less: windows of an image, global tokens, channels."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from helpers.style import (
    EDGE,
    HALF_WEIGHT,
    KEY,
    MASKED,
    MAY_ATTEND,
    OUTPUT,
    QUERY,
    VALUE,
    WEIGHT,
    heatmap,
    ink,
    show,
    waits_for,
)

__all__ = ["global_pattern", "patch_windows", "patches_or_channels", "sparse_costs"]


def patch_windows(patches: int, window: int, query: tuple[int, int]) -> None:
    """A grid of patches × patches: which ones a patch (row, column) sees in global attention and in windows."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.3))
    corner = [index // window * window for index in query]
    for axis, (row, column), size, name in ((axes[0], (0, 0), patches, "global"), (axes[1], corner, window, "windows")):
        for i in range(patches):
            for j in range(patches):
                seen = row <= i < row + size and column <= j < column + size
                colour = QUERY if (i, j) == query else KEY if seen else "white"
                alpha = 0.9 if (i, j) == query else 0.4
                axis.add_patch(Rectangle((j, i), 1, 1, facecolor=colour, alpha=alpha, edgecolor=EDGE, lw=0.6))
        for line in range(0, patches + 1, size):
            axis.plot([line, line], [0, patches], [0, patches], [line, line], color=OUTPUT, lw=1.6)
        axis.set(
            title=f"{name}: one query, {size**2} keys",
            xlim=(-0.1, patches + 0.1),
            ylim=(patches + 0.1, -0.1),
            aspect="equal",
        )
        axis.axis("off")
    show()


def global_pattern(n: int, w: int, g: int) -> None:
    """Which pairs of n tokens and g global ones are computed: a band, and stripes for the global tokens."""
    place = torch.arange(n)
    start = (place - w // 2).clamp(0, n - w)[:, None]
    band = ((place >= start) & (place < start + w)).float()  # moved in at the ends, so that there are w keys everywhere
    pattern = torch.full((n + g, n + g), 0.5)
    pattern[g:, g:] = band
    figure, axis = plt.subplots(figsize=(3.9, 3.6))
    words = {"rows": "query (global ones first)", "columns": "key (global ones first)"}
    colours = ListedColormap([MASKED, HALF_WEIGHT, MAY_ATTEND])
    heatmap(axis, pattern, f"n = {n}, window {w}, {g} global tokens", **words, cmap=colours, vmin=0, vmax=1)
    lines = torch.arange(0.5, n + g - 1)
    axis.hlines(lines, -0.5, n + g - 0.5, color="white", lw=0.6)
    axis.vlines(lines, -0.5, n + g - 0.5, color="white", lw=0.6)
    axis.text((n + g) / 2, (g - 1) / 2, "global tokens", ha="center", va="center", fontsize=8, color=ink(HALF_WEIGHT))
    axis.text(0.7 * n, 0.25 * n, "not computed", ha="center", va="center", fontsize=8, color=OUTPUT)
    show()


@waits_for("vit_windows", "global_tokens_cost")
def sparse_costs(vit_windows: Callable, global_tokens_cost: Callable, patch: int, window: int, d: int) -> None:
    """FLOPs of three patterns over the side of the image."""
    sides = [patch * window * times for times in (1, 2, 3, 4, 6, 8, 12, 16)]
    tokens = [(side // patch) ** 2 for side in sides]
    dense, windows = zip(*(vit_windows(side, patch, window, d) for side in sides))
    figure, axis = plt.subplots(figsize=(7, 3))
    axis.loglog(tokens, dense, "o-", color=KEY, label="every patch with every patch")
    both = [global_tokens_cost(n, window**2, 16, d) for n in tokens]
    axis.loglog(tokens, both, "o-", color=WEIGHT, label="windows and 16 global tokens")
    axis.loglog(tokens, windows, "o-", color=QUERY, label=f"windows of {window} × {window}")
    axis.set(xlabel="patches n", ylabel="FLOPs of scores and sum")
    axis.legend(frameon=False)
    show()


@waits_for("channel_attention")
def patches_or_channels(channel_attention: Callable, sizes: Sequence[tuple[int, int]], heads: Sequence[int]) -> None:
    """FLOPs of attention between patches and between channels, over the number of heads, for some (patches, width)."""
    figure, axes = plt.subplots(1, len(sizes), figsize=(4.6 * len(sizes), 3))
    for axis, (n, d) in zip(axes, sizes, strict=True):
        costs = torch.tensor([channel_attention(n, d, h) for h in heads], dtype=torch.float64) / 1e9
        place = torch.arange(len(heads))
        axis.bar(place - 0.2, costs[:, 0], 0.38, color=QUERY, label="between patches")
        axis.bar(place + 0.2, costs[:, 1], 0.38, color=VALUE, label="between channels")
        axis.axhline(8 * n * d**2 / 1e9, color=OUTPUT, ls=":", label="the projections alone")
        axis.set_xticks(place.tolist(), heads)
        axis.set(
            title=f"{n} patches, {d} channels", xlabel="heads", ylabel="GFLOP", ylim=(0, 1.45 * costs.max().item())
        )
    axes[0].legend(frameon=False, fontsize=8.5)
    show()
