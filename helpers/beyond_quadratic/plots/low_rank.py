"""When can keys and values be summed up? A picture of what a summary loses."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.qkv_attention import attention
from helpers.style import KEY, MASKED, QUERY, VALUE, WEIGHT, ink, show, waits_for

from .. import low_rank

__all__ = ["summary_error", "summary_shapes"]


def summary_shapes(n: int = 12, r: int = 3, d: int = 4) -> None:
    """E k as cells: each row of E takes the mean of some keys, and these keys have the color of their summary."""
    e = low_rank.pooling(r, n)
    used, colours = e > 0, (QUERY, KEY, VALUE, WEIGHT)
    summaries = [[colours[i % 4]] * d for i in range(r)]
    figure, axis = plt.subplots(figsize=(8, 4))
    _cells(axis, 0, [[colours[i % 4] if one else MASKED for one in row] for i, row in enumerate(used)], f"E, {r}×{n}")
    _cells(axis, n + 3, [summaries[row.int().argmax()] for row in used.T], f"k, {n}×{d}")
    _cells(axis, n + d + 6, summaries, f"E k, {r}×{d}")
    for i, j in used.nonzero().tolist():
        share = f"1/{1 / e[i, j]:.0f}"
        axis.text(j + 0.5, i - r / 2 + 0.5, share, ha="center", va="center", color=ink(colours[i % 4]), fontsize=9)
    for x, sign in ((n + 1.5, "×"), (n + d + 4.5, "=")):
        axis.text(x, 0, sign, ha="center", va="center", fontsize=14)
    axis.set(xlim=(0, n + 2 * d + 6), ylim=(n / 2, -n / 2 - 1.2), aspect="equal")
    axis.axis("off")
    counts = ", ".join(str(int(row.sum())) for row in used)
    show(f"E k as cells: {n} keys become {r} summaries, the means of {counts} keys, each in a color of its own.")


def _cells(axis, x: float, rows: Sequence[Sequence[str]], name: str) -> None:
    """Cells of these colors, to the right of x."""
    top = -len(rows) / 2
    for i, row in enumerate(rows):
        for j, colour in enumerate(row):
            axis.add_patch(plt.Rectangle((x + j, top + i), 1, 1, facecolor=colour, edgecolor="white", lw=1.5))
    axis.text(x + len(rows[0]) / 2, top - 0.3, name, ha="center", va="bottom")


def _smooth(n: int, d: int, reach: int) -> Tensor:
    """n rows of variance 1 that change slowly: a moving mean over `reach` independent ones."""
    noise = torch.randn(n + reach - 1, d)
    return noise.unfold(0, reach, 1).sum(-1) / reach**0.5


@waits_for("low_rank_attention")
def summary_error(low_rank_attention: Callable, ranks: Sequence[int], n: int = 256, d: int = 16) -> None:
    """The error against full attention over r, for keys and values that resemble their neighbors and for others."""
    figure, axis = plt.subplots(figsize=(6.5, 3.2))
    cases = {"every token on its own": (1, QUERY), "neighbors alike (over 32 tokens)": (32, KEY)}
    for name, (reach, colour) in cases.items():
        q, k, v = torch.randn(n, d), _smooth(n, d, reach), _smooth(n, d, reach)
        full = attention.scaled_dot_product_attention(q, k, v)
        short = [low_rank_attention(q, k, v, *2 * [low_rank.pooling(r, n)]) for r in ranks]
        axis.plot(ranks, [((s - full).norm() / full.norm()).item() for s in short], "o-", color=colour, label=name)
    axis.set(
        xscale="log",
        ylim=(0, None),
        xlabel=f"r, the summaries of n = {n} keys",
        ylabel="relative error",
        title="mean pooling as E and F",
    )
    axis.set_xticks(ranks, ranks)
    axis.minorticks_off()
    axis.legend(frameon=False)
    show()
