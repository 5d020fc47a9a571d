"""Pictures of unit 04: how the width is cut into heads, what each head looks at, what heads add and what they cost."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.labels import name_lines
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, heatmap, show, waits_for

__all__ = ["cost_over_heads", "heads_cut", "heads_learned", "parts_add_up"]

TOKENS = (QUERY, KEY, VALUE, WEIGHT)


def heads_cut(n: int, d: int, h: int) -> None:
    """The features of n tokens, cut into h heads correctly, and by a view without a transpose. One color per token."""
    cells = [[(token, feature) for feature in range(d)] for token in range(n)]
    flat, d_h = sum(cells, []), d // h
    right = [[row[head * d_h : (head + 1) * d_h] for row in cells] for head in range(h)]
    view = [[flat[(head * n + row) * d_h : (head * n + row + 1) * d_h] for row in range(n)] for head in range(h)]
    figure, axes = plt.subplots(
        1, 3, figsize=(10, 2.7), width_ratios=[d + 0.8, h * (d_h + 0.3) + 0.8, h * (d_h + 0.3) + 0.8]
    )
    titles = f"x: {n} tokens × {d} features", f"{h} heads, split", f"{h} heads, by only a view"
    for axis, blocks, title in zip(axes, ([cells], right, view), titles, strict=True):
        for number, block in enumerate(blocks):
            _cells(axis, block, number * (d_h + 0.3), f"head {number}" if len(blocks) > 1 else "")
        axis.set(
            xlim=(-0.1, len(blocks) * (len(blocks[0][0]) + 0.3) - 0.2),
            ylim=(n + 0.1, -0.8),
            aspect="equal",
            title=title,
        )
        axis.axis("off")
    show()


def _cells(axis, block: list, x: float, name: str) -> None:
    for row, line in enumerate(block):
        for column, (token, feature) in enumerate(line):
            axis.add_patch(
                Rectangle((x + column, row), 1, 1, facecolor=TOKENS[token % 4], alpha=0.45, edgecolor="white")
            )
            axis.text(
                x + column + 0.5, row + 0.5, f"{'abcd'[token % 4]}{feature}", ha="center", va="center", fontsize=9
            )
    axis.text(x + len(block[0]) / 2, -0.15, name, ha="center", va="bottom", fontsize=9, color=OUTPUT)


def heads_learned(losses: dict[str, Sequence[float]], floor: float, maps: dict[str, Tensor]) -> None:
    """Loss curves of layers with different numbers of heads, and below them what each head has learned to look at."""
    heads = {
        f"{name}: head {i}" if len(weights) > 1 else name: head
        for name, weights in maps.items()
        for i, head in enumerate(weights.detach())
    }
    figure = plt.figure(figsize=(7.6, 5.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.1])
    _losses(above.subplots(), losses, floor)
    for axis, (name, weights) in zip(below.subplots(1, len(heads), squeeze=False)[0], heads.items(), strict=True):
        _asked(axis, weights, name)
    ends = ", ".join(f"{name} {values[-1]:.2g}" for name, values in losses.items())
    shares = "; ".join(f"{name}, {_share(weights)}" for name, weights in heads.items())
    show(f"Losses after training: {ends}. Weight on the first place and on the one before: {shares}.")


def _losses(axis, losses: dict[str, Sequence[float]], floor: float) -> None:
    ends = []
    for (name, values), colour in zip(losses.items(), (KEY, QUERY, VALUE), strict=False):
        axis.plot(values, color=colour)
        ends.append((name, values[-1], colour))
    axis.axhline(floor, color=OUTPUT, ls="--")
    axis.set(xlabel="training step", ylabel="loss", xlim=(0, len(values) - 1), ylim=(0, None))
    axis.set_title("same task, same number of parameters")
    name_lines(axis, len(values) - 1, [*ends, ("the best of one head", floor, OUTPUT)], apart=0.12)


def _asked(axis, weights: Tensor, name: str) -> None:
    """What a head looks at; a ring where an answer stands: at the first place and at the one before."""
    n = len(weights)
    heatmap(axis, weights, name, rows="place that asks", columns="place looked at", vmin=0, vmax=1)
    for row in range(2, n):
        axis.plot([0, row - 1], [row, row], "o", ms=11, mfc="none", mec=KEY, mew=1.6)
    axis.set_xticks(range(n), range(1, n + 1))
    axis.set_yticks(range(n), range(1, n + 1))
    axis.tick_params(length=0)


def _share(weights: Tensor) -> str:
    """How much of the weight lies in each of the two rings, on average."""
    return f"{weights[2:, 0].mean():.2f} and {weights.diagonal(-1)[1:].mean():.2f}"


@waits_for("heads_as_sum")
def parts_add_up(heads_as_sum: Callable, features: Sequence[float], w_o: Sequence[Sequence[float]]) -> None:
    """What heads of width 1 add for one token, as arrows in the plane put tip to tail, and the layer's output."""
    parts, output = heads_as_sum(torch.tensor(features)[None, :, None, None], torch.tensor(w_o))
    tips = torch.cat([torch.zeros(1, 2), parts[0, :, 0].cumsum(0)])
    figure, axis = plt.subplots(figsize=(5.5, 3.8))
    for i, (start, end) in enumerate(zip(tips[:-1].tolist(), tips[1:].tolist(), strict=True)):
        axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "lw": 2, "color": TOKENS[i % 4]})
        (x, y), (dx, dy) = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2), (end[0] - start[0], end[1] - start[1])
        beside = 0.35 / (dx**2 + dy**2) ** 0.5  # to the right of the arrow, as it flies
        axis.text(
            x + beside * dy,
            y - beside * dx,
            f"head {i}",
            color=as_text(TOKENS[i % 4]),
            va="center",
            ha="left" if dy > abs(dx) else "center",
        )
    axis.annotate(
        "", output[0, 0].tolist(), (0, 0), arrowprops={"arrowstyle": "-|>", "lw": 2.5, "color": "black", "ls": "--"}
    )
    low, high = tips.amin(0) - 0.7, tips.amax(0) + 0.9
    axis.set(
        xlim=(low[0], high[0]),
        ylim=(low[1], high[1]),
        aspect="equal",
        xlabel="feature 0",
        ylabel="feature 1",
        title="the heads' parts, and the output (dashed)",
    )
    axis.grid(alpha=0.3)
    show()


@waits_for("head_parameters", "head_flops")
def cost_over_heads(parameters: Callable, flops: Callable, n: int, d: int, heads: Sequence[int]) -> None:
    """Parameters and FLOPs of a layer against the number of heads, of width d/h and of width d."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.9))
    for axis, title, cost in (
        (axes[0], "parameters", lambda h, w: parameters(d, h, w)),
        (axes[1], f"FLOPs, n = {n}", lambda h, w: flops(n, d, h, w)),
    ):
        axis.plot(heads, [cost(h, d) for h in heads], "o-", color=KEY, label="each head of width d")
        axis.plot(heads, [cost(h, d // h) for h in heads], "o-", color=QUERY, label="each head of width d/h")
        axis.set(xscale="log", yscale="log", xlabel="heads h", title=title)
        axis.set_xticks(heads, heads, minor=False)
        axis.minorticks_off()
    axes[0].legend(frameon=False)
    show()
