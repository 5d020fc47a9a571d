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


def cache_per_token(heads: dict[str, int], d_h: int) -> None:
    """Bars: how many numbers a layer keeps per token, key and value in every key/value head of width d_h."""
    figure, axis = plt.subplots(figsize=(9.5, 0.6 * len(heads) + 1))
    most = 2 * d_h * max(heads.values())
    for row, h_kv in enumerate(heads.values()):
        axis.barh(row, h_kv * d_h, height=0.62, color=KEY)
        axis.barh(row, h_kv * d_h, left=h_kv * d_h, height=0.62, color=VALUE)
        kept = 2 * h_kv * d_h
        share = f", 1/{most // kept}" if kept < most else ""
        axis.text(kept, row, f"  2 · {h_kv} · {d_h} = {kept:,}{share}", va="center", fontsize=9.5)
    for middle, name, colour in ((0.25, "keys", KEY), (0.75, "values", VALUE)):
        axis.text(middle * most, 0, name, ha="center", va="center", fontsize=9.5, color=ink(colour))
    axis.set_yticks(range(len(heads)), heads)
    axis.tick_params(axis="y", length=0)
    axis.set(xlim=(0, 1.33 * most), ylim=(len(heads) - 0.55, -0.5), xlabel="numbers that one layer keeps per token")
    axis.set_xticks(
        [0, most // 4, most // 2, 3 * most // 4, most],
        [f"{kept:,}" for kept in (0, most // 4, most // 2, 3 * most // 4, most)],
    )
    axis.set_title(f"fewer key/value heads of width {d_h}, fewer numbers to keep and to read", fontsize=10, loc="left")
    show()
