"""Pictures of unit 02: where attention weights come from, and what moves them."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, heatmap, show, waits_for

__all__ = [
    "attention_flow",
    "attention_map",
    "jacobians",
    "permutation_gaps",
    "query_among_keys",
    "score_maps",
    "score_spread",
    "softmax_steps",
    "two_explanations",
]


def softmax_steps(scores: Sequence[float]) -> None:
    """Scores → exponentials → shares of 1, as three rows of bars."""
    scores = torch.tensor(scores, dtype=torch.float64)
    steps = {"scores": scores, "exp(score − max)": torch.exp(scores - scores.max()), "softmax": scores.softmax(0)}
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.3))
    for axis, (name, values), colour in zip(axes, steps.items(), (QUERY, OUTPUT, WEIGHT), strict=True):
        bars = axis.bar(range(len(values)), values, color=colour)
        axis.bar_label(bars, labels=[f"{value:.3g}" for value in values.tolist()], fontsize=9)
        axis.set(title=name, xticks=[])
        axis.margins(y=0.2)
    show()


def query_among_keys(query: Sequence[float], keys: Sequence[Sequence[float]]) -> None:
    """A query and some keys as arrows in the plane, and the attention weight of each key beside it."""
    query, keys = torch.tensor(query, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64)
    weights = torch.softmax(keys @ query, dim=0)
    figure, (plane, bars) = plt.subplots(1, 2, figsize=(8, 3.2), width_ratios=[1.2, 1])
    _arrow(plane, query, QUERY, "q")
    for index, key in enumerate(keys, start=1):
        _arrow(plane, key, KEY, f"$k_{index}$")
    reach = 1.25 * torch.cat([keys, query[None]]).norm(dim=1).max().item()
    plane.set(
        xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title="a query among keys", xticks=[0], yticks=[0]
    )
    plane.grid(alpha=0.4)
    names = [f"$k_{index}$: q·k = {score:.1f}" for index, score in enumerate((keys @ query).tolist(), start=1)]
    drawn = bars.barh(names, weights, color=WEIGHT)
    bars.bar_label(drawn, fmt=" %.2f")
    bars.set(xlim=(0, 1.15), title="attention weights", xticks=[0, 0.5, 1])
    bars.invert_yaxis()
    show()


def _arrow(axis, tip: Tensor, colour: str, name: str) -> None:
    x, y = tip.tolist()
    axis.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
    axis.annotate(name, (x, y), xytext=(6, 4), textcoords="offset points", color=as_text(colour), fontsize=12)


def attention_flow(n: int, m: int, d: int, d_v: int) -> None:
    """Q, K, scores, weights, V and the output as blocks of cells, drawn to scale, with their shapes."""
    figure, axis = plt.subplots(figsize=(10, 2.8))
    blocks = [
        ("Q", n, d, QUERY, "×"), ("Kᵀ", d, m, KEY, "/√d ="), ("scores", n, m, OUTPUT, "→\nsoftmax"),
        ("weights", n, m, WEIGHT, "×"), ("V", m, d_v, VALUE, "="), ("output", n, d_v, QUERY, ""),
    ]  # fmt: skip
    x = 0.0
    for name, rows, columns, colour, sign in blocks:
        _block(axis, x, rows, columns, colour, f"{name}\n{rows}×{columns}")
        axis.text(x + columns + 1.1, 0, sign, ha="center", va="center", fontsize=11)
        x += columns + 2.2
    axis.set(xlim=(-0.3, x - 1.7), ylim=(-max(d, m) / 2 - 0.3, max(d, m) / 2 + 1.9), aspect="equal")
    axis.axis("off")
    show()


def _block(axis, x: float, rows: int, columns: int, colour: str, label: str) -> None:
    for row in range(rows):
        for column in range(columns):
            axis.add_patch(
                Rectangle((x + column, row - rows / 2), 1, 1, facecolor=colour, alpha=0.35, edgecolor="white")
            )
    axis.text(x + columns / 2, rows / 2 + 0.25, label, ha="center", va="bottom", fontsize=10)


def attention_map(weights: Tensor, words: Sequence[str]) -> None:
    """Attention weights between the words of a sentence: a row a query, a column a key."""
    figure, axis = plt.subplots(figsize=(3.6, 3.2))
    heatmap(axis, weights, "who looks at whom", rows="query", columns="key", numbers=True, vmin=0, vmax=1)
    axis.set_xticks(range(len(words)), words)
    axis.set_yticks(range(len(words)), words)
    show()


@waits_for("score_functions")
def score_maps(scores: dict[str, Callable[[], Tensor]]) -> None:
    """The softmax of several score functions on the same queries and keys, side by side."""
    maps = {name: score().detach().softmax(-1) for name, score in scores.items()}
    figure, axes = plt.subplots(1, len(maps), figsize=(1.75 * len(maps), 2.2))
    for axis, (name, weights) in zip(axes, maps.items(), strict=True):
        heatmap(axis, weights, name, rows="query" if axis is axes[0] else "", columns="key", vmin=0, vmax=1)
        axis.title.set_fontsize(9)
    show()


def score_spread(
    widths: Sequence[int], plain: Sequence[Tensor], entropies: dict[str, Sequence[float]], keys: int
) -> None:
    """How dot products spread as vectors get wider, and what that does to the entropy of the softmax."""
    figure, (spread, entropy) = plt.subplots(1, 2, figsize=(9, 3))
    for width, scores in list(zip(widths, plain, strict=True))[1::2]:
        counts, edges = torch.histogram(scores.flatten(), bins=60)
        spread.plot((edges[1:] + edges[:-1]) / 2, counts / counts.max(), lw=1.6, label=f"d = {width}")
    spread.set(title="q·k of random vectors", xlabel="score", yticks=[], ylabel="how often (peak = 1)")
    spread.legend(frameon=False)
    for (name, values), colour in zip(entropies.items(), (KEY, QUERY), strict=True):
        entropy.plot(widths, values, "o-", color=colour, label=name)
    entropy.axhline(torch.tensor(float(keys)).log2().item(), color=OUTPUT, ls=":", label=f"all {keys} keys alike")
    entropy.set(title="entropy of the softmax (bits)", xlabel="width d", xscale="log", ylim=(0, None))
    entropy.legend(frameon=False, fontsize=9)
    show()


@waits_for("softmax_jacobian")
def jacobians(jacobian: Callable[[Tensor], Tensor], inputs: dict[str, Sequence[float]]) -> None:
    """The Jacobian of the softmax at several points, on one colour scale."""
    matrices = {name: jacobian(torch.tensor(z, dtype=torch.float64)) for name, z in inputs.items()}
    figure, axes = plt.subplots(1, len(matrices), figsize=(3.4 * len(matrices), 3.1))
    for axis, (name, matrix) in zip(axes, matrices.items(), strict=True):
        heatmap(axis, matrix, f"{name}\nlargest entry {matrix.abs().max():.1g}", rows="output i", columns="input j", numbers=True,
                cmap="RdBu", vmin=-0.25, vmax=0.25)  # fmt: skip
    show()


@waits_for("permutation_equivariance")
def permutation_gaps(gap: Callable, layers: dict[str, Callable[[Tensor], Tensor]], x: Tensor, trials: int = 50) -> None:
    """The gap of each layer over many random orders of the same tokens."""
    orders = [torch.eye(len(x))[torch.randperm(len(x))] for _ in range(trials)]
    figure, axis = plt.subplots(figsize=(7, 2.2))
    for row, layer in enumerate(layers.values()):
        gaps = torch.tensor([float(gap(layer, x, p)) for p in orders])
        axis.plot(gaps.clamp_min(1e-9), [row] * trials, "|", ms=18, color=(QUERY, KEY)[row % 2])
    axis.set(xscale="log", xlabel="max |layer(PX) − P layer(X)|, one mark an order", ylim=(-0.6, len(layers) - 0.4))
    axis.set_yticks(range(len(layers)), layers)
    show()


@waits_for("same_output_other_weights")
def two_explanations(other: Callable[[Tensor, Tensor], Tensor], weights: Tensor, values: Tensor) -> None:
    """Two sets of attention weights as bars, and the one output that both give."""
    found = other(weights, values)
    figure, (bars, outputs) = plt.subplots(1, 2, figsize=(9, 2.6), width_ratios=[2, 1])
    place = torch.arange(len(weights))
    bars.bar(place - 0.2, weights, 0.4, color=WEIGHT, label="given")
    bars.bar(place + 0.2, found, 0.4, color=KEY, label="yours")
    bars.set(title="attention weights", xlabel="key", xticks=place.tolist())
    bars.legend(frameon=False)
    heatmap(outputs, torch.stack([weights @ values, found @ values]), "the outputs", numbers=True, cmap="Greens")
    outputs.set_yticks([0, 1], ["given", "yours"])
    show()
