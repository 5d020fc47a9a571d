"""Pictures of unit 02: where attention weights come from, and what moves them."""

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.style import EDGE, KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT, as_text, heatmap, show, waits_for

__all__ = [
    "attention_map",
    "jacobians",
    "mixed_values",
    "permutation_gaps",
    "query_among_keys",
    "score_maps",
    "score_spread",
]


def query_among_keys(query: Sequence[float], keys: Sequence[Sequence[float]]) -> None:
    """A query and some keys as arrows in the plane, each key's shadow on the query's line, and its weight."""
    query, keys = torch.tensor(query, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), width_ratios=[1.2, 1])
    _query_and_weights(*axes, query, keys, 1.25 * torch.cat([keys, query[None]]).norm(dim=1).max().item())
    listed = ", ".join(f"{weight:.2f}" for weight in (keys @ query).softmax(0).tolist())
    show(
        f"A query among {len(keys)} keys in the plane; a key that reaches far in the query's direction gets much "
        f"weight: {listed}."
    )


def _query_and_weights(plane, bars, query: Tensor, keys: Tensor, reach: float) -> None:
    line = reach * query / query.norm()
    plane.plot(*zip((-line).tolist(), line.tolist()), color=QUERY, lw=0.8, alpha=0.5)
    for index, key in enumerate(keys, start=1):
        foot = query * (key @ query) / (query @ query)
        plane.plot(*zip(key.tolist(), foot.tolist()), color=OUTPUT, lw=1, ls=":")
        plane.plot(*foot.tolist(), "o", ms=4, color=OUTPUT)
        _arrow(plane, key, KEY, f"$k_{index}$")
    _arrow(plane, query, QUERY, "q")
    ticks = range(-int(reach), int(reach) + 1)
    plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=ticks, yticks=ticks)
    plane.set_title("score = length of q × shadow of the key on q's line", fontsize=9.5)
    plane.tick_params(labelsize=8, length=0)
    plane.grid(alpha=0.25)
    scores = (keys @ query).tolist()
    names = [f"$k_{index}$, score {score:.1f}" for index, score in enumerate(scores, start=1)]
    drawn = bars.barh(names, torch.tensor(scores).softmax(0), height=0.5, color=WEIGHT)
    bars.bar_label(drawn, fmt=" %.2f")
    bars.set(xlim=(0, 1.15), title="attention weights: they sum to 1", xticks=[0, 0.5, 1])
    bars.title.set_fontsize(9.5)
    bars.invert_yaxis()


def _arrow(axis, tip: Tensor, colour: str, name: str) -> None:
    x, y = tip.tolist()
    axis.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
    axis.annotate(name, (x, y), xytext=(6, 4), textcoords="offset points", color=as_text(colour), fontsize=12)


def mixed_values(weights: Sequence[float], values: Sequence[Sequence[float]]) -> None:
    """Values as points, as large as their weights; their mixture; and a thousand other mixtures of the same values."""
    alpha, v = torch.tensor(weights, dtype=torch.float64), torch.tensor(values, dtype=torch.float64)
    output = alpha @ v
    shares = -torch.rand(1000, len(v), dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log()
    others = shares / shares.sum(-1, keepdim=True) @ v
    figure, axis = plt.subplots(figsize=(6, 3.8))
    axis.plot(*others.T.tolist(), ".", ms=2, color=EDGE)
    axis.scatter(*v.T.tolist(), s=600 * alpha + 20, color=VALUE, alpha=0.6)
    for index, (weight, point) in enumerate(zip(weights, v.tolist(), strict=True), start=1):
        words, colour = f"$v_{index}$, weight {weight:g}", as_text(VALUE)
        up = 12 if point[1] > v[:, 1].mean() else -24
        axis.annotate(words, point, (0, up), textcoords="offset points", ha="center", color=colour)
    axis.plot(*output.tolist(), "X", ms=12, color="black", mec="white")
    axis.annotate(
        f"output ({output[0]:.1f}, {output[1]:.1f})",
        output.tolist(),
        (0, 11),
        textcoords="offset points",
        ha="center",
        weight="bold",
    )
    axis.margins(0.25)
    axis.grid(alpha=0.3)
    axis.set_title("every mixture lies inside the hull of the values", fontsize=10.5)
    show(
        f"{len(v)} values as points in the plane, and their weighted average, which lies between them. Gray: a "
        "thousand other mixtures; none lies outside the hull of the values."
    )


def attention_map(weights: Tensor, words: Sequence[str]) -> None:
    """Attention weights between the words of a sentence: one row per query, one column per key."""
    figure, axis = plt.subplots(figsize=(3.6, 3.2))
    heatmap(axis, weights, "who looks at whom", rows="query", columns="key", numbers=True, vmin=0, vmax=1)
    axis.set_xticks(range(len(words)), words)
    axis.set_yticks(range(len(words)), words)
    show()


@waits_for("score_functions")
def score_maps(scores: dict[str, Callable[[], Tensor]]) -> None:
    """The softmax of several score functions on the same queries and keys, with how far their scores spread."""
    made = {name: score().detach() for name, score in scores.items()}
    rows = -(-len(made) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(9, 2.7 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(made) :]:
        axis.axis("off")
    for axis, (name, score) in zip(axes.flat, made.items(), strict=False):
        weights = score.softmax(-1)
        heatmap(
            axis,
            weights,
            "",
            rows="query" if axis in axes[:, 0] else "",
            columns="key" if axis in axes[-1] else "",
            vmin=0,
            vmax=1,
        )
        for row, column in enumerate(weights.argmax(-1).tolist()):
            value = weights[row, column].item()
            axis.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if value > 0.5 else "black",
            )
        axis.set_title(f"{name}\nscores spread by {score.std():.2f}", fontsize=9.5)
    spreads = ", ".join(f"{name} {score.std():.2f}" for name, score in made.items())
    show(
        "Maps of attention weights, the largest of each row written in. The further scores spread, the darker one key "
        f"a row: {spreads}."
    )


def score_spread(widths: Sequence[int], queries: int = 200, keys: int = 64) -> None:
    """How dot products spread as vectors get wider, and what that does to the entropy of the softmax."""
    plain = [torch.randn(queries, width) @ torch.randn(width, keys) for width in widths]
    scaled = [scores / math.sqrt(width) for scores, width in zip(plain, widths, strict=True)]
    for width, scores, divided in zip(widths, plain, scaled, strict=True):
        print(f"d = {width:4}: variance of q·k = {scores.var():7.1f}, of q·k/√d = {divided.var():.2f}")
    entropies = {"q·k": [_bits(scores) for scores in plain], "q·k / √d": [_bits(scores) for scores in scaled]}
    figure, (spread, entropy) = plt.subplots(1, 2, figsize=(9.5, 3.2))
    drawn = list(zip(widths, plain, strict=True))[1::2]
    for (width, scores), level in zip(drawn, range(len(drawn), 0, -1), strict=True):
        _spread_of(spread, width, scores.flatten(), level)
    spread.set(
        title="q·k of random vectors: half of them in the box", xlabel="score", yticks=[], ylim=(0.4, len(drawn) + 0.7)
    )
    alike = math.log2(keys)
    for (name, values), colour, down in zip(entropies.items(), (KEY, QUERY), (0.5, -0.55), strict=True):
        entropy.plot(widths, values, "o-", color=colour)
        entropy.text(widths[-1], values[-1] + down, name, color=as_text(colour), ha="right", va="center")
    entropy.axhline(alike, color=OUTPUT, ls=":")
    entropy.text(widths[0], alike + 0.25, f"all {keys} keys alike: {alike:.0f} bits", color=OUTPUT, fontsize=8.5)
    entropy.text(widths[0], 0.2, "one key has it all: 0 bits", color=OUTPUT, fontsize=8.5)
    entropy.set(title="entropy of the softmax", xlabel="width d", ylabel="bits", xscale="log", ylim=(0, alike + 1))
    entropy.set_xticks(widths, widths)
    entropy.minorticks_off()
    show(
        "Dot products of wider vectors spread further; without the scale the entropy of the softmax falls towards 0 "
        "bits, with it it stays."
    )


def _bits(scores: Tensor) -> float:
    return torch.distributions.Categorical(logits=scores).entropy().mean().item() / math.log(2)


def _spread_of(axis, width: int, scores: Tensor, level: int) -> None:
    """Where the scores of one width lie: a box for the middle half, a line for 95 of 100."""
    low, first, third, high = torch.quantile(
        scores, torch.tensor([0.025, 0.25, 0.75, 0.975], dtype=scores.dtype)
    ).tolist()
    axis.plot([low, high], [level, level], color=KEY, lw=2)
    axis.barh(level, third - first, left=first, height=0.4, color=KEY)
    axis.text(0, level + 0.3, f"d = {width}: standard deviation {scores.std():.1f}", ha="center", fontsize=9)


@waits_for("softmax_jacobian")
def jacobians(jacobian: Callable[[Tensor], Tensor], inputs: dict[str, Sequence[float]]) -> None:
    """The Jacobian of the softmax at several points, on one color scale; numbers that aren't 0.00."""
    matrices = {name: jacobian(torch.tensor(z, dtype=torch.float64)) for name, z in inputs.items()}
    figure, axes = plt.subplots(1, len(matrices), figsize=(2.5 * len(matrices), 2.9), layout="constrained")
    for axis, (name, matrix) in zip(axes, matrices.items(), strict=True):
        title = name.replace(": ", "\n") + f"\nlargest entry {_power(matrix.abs().max().item())}"
        heatmap(axis, matrix, title, columns="score j", cmap="RdBu", vmin=-0.25, vmax=0.25)
        seen = matrix.abs().ge(0.005).nonzero().tolist()
        if not seen:
            axis.text(0.5, 0.5, "none reaches 0.005", ha="center", va="center", transform=axis.transAxes, color=OUTPUT)
        for i, j in seen:
            value = matrix[i, j].item()
            colour = "white" if abs(value) > 0.15 else "black"
            axis.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8, color=colour)
    axes[0].set_ylabel("share i")
    largest = "; ".join(f"{name}, {matrix.abs().max():.1g}" for name, matrix in matrices.items())
    show(f"Maps of how much each share moves with each score, and their largest entries. {largest}.")


@waits_for("scaled_dot_product_attention", "permutation_equivariance")
def permutation_gaps(gap: Callable, layers: dict[str, Callable[[Tensor], Tensor]], x: Tensor, trials: int = 50) -> None:
    """The gap of each layer over many random orders of the tokens: one dot per order, and what rounding would give."""
    orders = [torch.eye(len(x))[torch.randperm(len(x))] for _ in range(trials)]
    aside = (torch.arange(trials) * 0.618) % 1 - 0.5  # dots of like gaps don't hide each other
    figure, axis = plt.subplots(figsize=(8.5, 2.7))
    axis.axvspan(1e-8, 1e-5, color=MASKED, lw=0)
    axis.text(1.3e-8, len(layers) - 0.52, "rounding of float32", va="top", fontsize=8.5, color=OUTPUT)
    for row, (layer, colour) in enumerate(zip(layers.values(), (QUERY, KEY))):
        gaps = torch.tensor([float(gap(layer, x, p)) for p in orders]).clamp_min(1.3e-8)  # 0 has no place on this axis
        axis.plot(gaps, row + 0.45 * aside, "o", ms=4.5, color=colour, mec="white", mew=0.4)
        said = " … ".join(map(_power, (gaps.min().item(), gaps.max().item())))
        axis.text(gaps.median(), row + 0.34, said, ha="center", fontsize=9, color=as_text(colour))
    axis.set(xscale="log", xlim=(1e-8, 100), ylim=(-0.45, len(layers) - 0.45))
    axis.set(xlabel="largest |layer(PX) − P layer(X)|: 0 if the outputs only change places")
    axis.set_title(f"{trials} random orders P of the same {len(x)} tokens X, a dot for each", fontsize=10, loc="left")
    axis.set_yticks(range(len(layers)), layers)
    axis.tick_params(axis="y", length=0)
    show()


def _power(x: float) -> str:
    """12, 0.3 or 3 · 10⁻⁷."""
    digit, power = f"{x:.0e}".split("e")
    return f"{x:.2g}" if x >= 0.01 else f"{digit} · $10^{{{int(power)}}}$"
