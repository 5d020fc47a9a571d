"""Pictures of unit 09: softmax in one pass, and merging parts."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from helpers.style import HALF_KEY, KEY, MASKED, OUTPUT, QUERY, WEIGHT, as_text, show

__all__ = ["merging", "online_softmax_steps"]


def online_softmax_steps(scores: Sequence[float], block: int) -> None:
    """The running maximum and the running sum, block after block: bars that shrink when a larger maximum turns up."""
    x = torch.tensor(scores, dtype=torch.float64)
    ends = range(block, len(x) + block, block)
    figure, axes = plt.subplots(2, len(ends), figsize=(9.5, 4.6), sharex=True, sharey="row")
    m, total = -math.inf, 0.0
    for (above, below), end in zip(axes.T, ends):
        seen = x[:end]
        new = max(m, x[end - block : end].max().item())
        factor, fresh = math.exp(m - new), torch.exp(x[end - block : end] - new).sum().item()
        _scores_so_far(above, x, end - block, end, new)
        _powers_so_far(below, seen, end - block, m, new)
        below.set_xlabel(
            f"$\\ell$ = {factor:.3g} · {total:.3f} + {fresh:.3f} = {factor * total + fresh:.3f}", fontsize=10
        )
        m, total = new, factor * total + fresh
    axes[0, 0].set_ylabel("score x")
    axes[1, 0].set_ylabel("$e^{\\,x - m}$")
    show()


def _scores_so_far(axis, x: Tensor, start: int, end: int, m: float) -> None:
    colours = [KEY if start <= i < end else HALF_KEY if i < start else MASKED for i in range(len(x))]
    axis.bar(range(len(x)), x.clamp_min(0.06), color=colours)
    axis.axhline(m, color=WEIGHT, ls="--", lw=1.4)
    axis.text(-0.45, m + 0.12, f"m = {m:g}", color=WEIGHT, fontsize=10, va="bottom")
    axis.set(
        title="block " + ", ".join(f"{value:g}" for value in x[start:end].tolist()),
        xticks=[],
        ylim=(0, x.max().item() + 1),
    )


def _powers_so_far(axis, seen: Tensor, start: int, before: float, m: float) -> None:
    """The powers of what was seen. The dotted outline is what an old power was before the maximum rose."""
    powers = torch.exp(seen - m)
    axis.bar(range(len(seen)), powers, color=[HALF_KEY] * start + [KEY] * (len(seen) - start))
    if start and before < m:
        axis.bar(range(start), torch.exp(seen[:start] - before), fill=False, edgecolor=OUTPUT, ls=":", lw=1)
        axis.text(
            -0.45, 1.07, f"old ones × $e^{{{before:g}-{m:g}}}$ = {math.exp(before - m):.3f}", fontsize=9, color=OUTPUT
        )
    elif start:
        axis.text(-0.45, 1.07, "old ones × $e^0$ = 1: they stay", fontsize=9, color=OUTPUT)
    axis.set(ylim=(0, 1.25), xticks=[], yticks=[0, 0.5, 1])


def merging(parts: dict[str, tuple[float, float]]) -> None:
    """Partial results as weights on a beam: `parts` maps a name to (output, e^logsumexp). The beam balances at the
    merged output."""
    places, weights = zip(*parts.values())
    merged = sum(p * w for p, w in parts.values()) / sum(weights)
    low, high = min(places), max(places)
    figure, axis = plt.subplots(figsize=(7, 2.6))
    axis.plot([low - 3, high + 3], [0, 0], color=OUTPUT, lw=4, solid_capstyle="round")
    for (name, (place, weight)), colour in zip(parts.items(), (QUERY, KEY)):
        width, height = 2 * math.sqrt(weight), 0.8 * math.sqrt(weight)  # the area is the weight
        axis.add_patch(Rectangle((place - width / 2, 0.12), width, height, facecolor=colour))
        axis.text(
            place,
            height + 0.3,
            f"{name}: output {place:g}, weight $e^L$ = {weight:g}",
            ha="center",
            fontsize=10,
            color=as_text(colour),
        )
    axis.add_patch(Polygon([(merged, -0.12), (merged - 0.9, -1), (merged + 0.9, -1)], color=WEIGHT))
    axis.text(merged, -1.5, f"merged: {merged:g}", ha="center", color=WEIGHT, fontsize=11)
    mean = sum(places) / len(places)
    axis.plot([mean] * 2, [-0.3, 0.3], color="black", lw=1.5)
    axis.text(mean, 0.45, f"plain mean: {mean:g}", ha="center", fontsize=9)
    axis.set(xlim=(low - 7, high + 7), ylim=(-1.7, 2.1))
    axis.axis("off")
    show()
