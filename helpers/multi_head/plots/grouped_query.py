"""Who shares keys and values with whom: multi-head, grouped-query and multi-query attention, drawn."""

from collections.abc import Sequence

import matplotlib.pyplot as plt

from helpers.style import KEY, OUTPUT, QUERY, VALUE, as_text, ink, show

__all__ = ["cache_per_token", "shared_heads"]


def shared_heads(h: int, groups: Sequence[int], names: Sequence[str]) -> None:
    """h query heads above, their key/value heads below, a line from each to the one that it uses."""
    figure, axes = plt.subplots(1, len(groups), figsize=(3.3 * len(groups), 2.4))
    for axis, h_kv, name in zip(axes, groups, names, strict=True):
        size = h // h_kv
        for i in range(h):
            home = (i // size) * size + (size - 1) / 2  # below the middle of its group
            axis.plot([i, home], [1, 0], color=OUTPUT, lw=1, zorder=1)
            axis.scatter(i, 1, s=170, color=QUERY, zorder=2)
            axis.text(i, 1, i, color=ink(QUERY), ha="center", va="center", fontsize=8)
        for group in range(h_kv):
            middle = group * size + (size - 1) / 2
            axis.scatter(middle, 0, s=200, color=KEY, marker="s", zorder=2)
            axis.text(middle, 0, group, color=ink(KEY), ha="center", va="center", fontsize=8)
        axis.set(xlim=(-0.8, h - 0.2), ylim=(-0.5, 1.4), title=name)
        axis.axis("off")
    axes[0].text(-0.6, 1.3, "query heads", color=QUERY, fontsize=9)
    axes[0].text(-0.6, -0.48, "key/value heads", color=as_text(KEY), fontsize=9)
    show()


def cache_per_token(sizes: dict[str, int]) -> None:
    """Bars: how many numbers a layer must keep of each token."""
    figure, axis = plt.subplots(figsize=(7, 0.55 * len(sizes) + 0.7))
    bars = axis.barh(list(sizes), list(sizes.values()), color=VALUE)
    axis.bar_label(bars, fmt=" {:,.0f}")
    axis.set(title="numbers kept of each token, one layer", xticks=[])
    axis.margins(x=0.15)
    axis.invert_yaxis()
    show()
