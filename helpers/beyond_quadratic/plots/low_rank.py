"""When can keys and values be summed up? A picture of what a summary loses."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.qkv_attention import attention
from helpers.style import KEY, OUTPUT, QUERY, show, waits_for

from .. import low_rank

__all__ = ["summary_error", "summary_shapes"]


def summary_shapes(n: int = 12, r: int = 3, d: int = 4) -> None:
    """E k as blocks of cells: r rows, each a mixture of all n keys."""
    figure, axis = plt.subplots(figsize=(9, 3.4))
    x, middle = 0.0, n / 2
    for name, rows, columns, colour, sign in (("E", r, n, OUTPUT, "×"), ("k", n, d, KEY, "="), ("E k", r, d, KEY, "")):
        for row in range(rows):
            for column in range(columns):
                place = (x + column, middle - rows / 2 + row)
                axis.add_patch(plt.Rectangle(place, 1, 1, facecolor=colour, alpha=0.35, edgecolor="white"))
        axis.text(x + columns / 2, middle + rows / 2 + 0.3, f"{name}\n{rows}×{columns}", ha="center", va="bottom")
        axis.text(x + columns + 0.9, middle, sign, ha="center", va="center", fontsize=13)
        x += columns + 1.8
    axis.set(xlim=(-0.2, x), ylim=(-0.2, n + 2.4), aspect="equal")
    axis.axis("off")
    show()


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
