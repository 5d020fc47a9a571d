"""Pictures of linear attention: where the brackets stand, what is lost, and what is carried along."""

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from helpers.measuring.timing import seconds
from helpers.style import EDGE, KEY, MASKED, OUTPUT, PINK, QUERY, VALUE, WEIGHT, as_text, heatmap, ink, show, waits_for

from .. import linear_attention
from .sparse import counted, growth_panels

__all__ = ["blurred_weights", "brackets", "chunk_sizes", "linear_growth", "state_or_cache", "three_forms"]


def brackets(n: int = 10, d: int = 3) -> None:
    """(q kᵀ) v and q (kᵀ v), drawn to scale, brackets first: what is made in between is n × n or d × d."""
    q, k_t, v, out = (n, d, QUERY, "q"), (d, n, KEY, "kᵀ"), (n, d, VALUE, "v"), (n, d, OUTPUT, "output")
    square, state = (n, n, WEIGHT, "scores"), (d, d, PINK, "state")
    figure, axes = plt.subplots(2, 1, figsize=(10, 5.2))
    ends = []
    for axis, title, first, second in (
        (
            axes[0],
            f"scores first: (q kᵀ) v takes 2 n² d = {2 * n * n * d} multiplications, and makes n² = {n * n} numbers "
            "in between",
            (q, k_t, square),
            (square, v, out),
        ),
        (
            axes[1],
            f"state first: q (kᵀ v) takes 2 n d² = {2 * n * d * d} multiplications, and makes d² = {d * d} numbers in "
            "between",
            (k_t, v, state),
            (q, state, out),
        ),
    ):
        x = _product(axis, 1.6, first, bracketed=True)
        axis.text(x + 2.2, 0, "then", ha="center", va="center", fontsize=11, color=OUTPUT)
        ends.append(_product(axis, x + 4.4, second))
        axis.set_title(title, fontsize=10.5, loc="left")
    for axis in axes:
        axis.set(xlim=(0, max(ends) + 0.3), ylim=(-n / 2 - 1.6, n / 2 + 0.3), aspect="equal")
        axis.axis("off")
    show(
        f"The same product in two orders, for n = {n} and d = {d}: with the scores first a square of {n} by {n} stands "
        f"in between, with the state first one of {d} by {d}."
    )


def _product(axis, x: float, blocks: Sequence[tuple[int, int, str, str]], *, bracketed: bool = False) -> float:
    """Two matrices (rows, columns, colour, name) and their product, from x on. Returns where it ends."""
    height, width = max(rows for rows, *_ in blocks[:2]) / 2, blocks[0][1] + blocks[1][1] + 2.6
    if bracketed:
        for edge, inwards in ((x - 0.6, 0.5), (x + width + 0.6, -0.5)):
            axis.plot(
                [edge + inwards, edge, edge, edge + inwards],
                [height, height - 0.5, 0.5 - height, -height],
                color="black",
                lw=1.6,
            )
    for place, (rows, columns, colour, name) in enumerate(blocks):
        axis.add_patch(Rectangle((x, -rows / 2), columns, rows, facecolor=colour))
        axis.text(x + columns / 2, 0, name, ha="center", va="center", fontsize=9.5, color=ink(colour))
        axis.text(
            x + columns / 2, -rows / 2 - 0.25, f"{rows} × {columns}", ha="center", va="top", fontsize=8.5, color=OUTPUT
        )
        x += columns
        if place < 2:
            gap = 3.6 if bracketed and place else 2.6
            axis.text(x + gap - 1.3, 0, "×="[place], ha="center", va="center", fontsize=12)
            x += gap
    return x


def blurred_weights(n: int = 12, d: int = 16, r: int = 64) -> None:
    """The weights of three kinds for queries that each look for one key: softmax, linear, and linear with r random
    features that estimate the softmax (Choromanski et al., 2021, lemma 1). One scale for all."""
    torch.manual_seed(1)
    k = torch.nn.functional.normalize(torch.randn(n, d), dim=-1) * 4
    features = {"linear, φ = elu + 1": linear_attention.feature_map(k), f"{r} random features": _random_features(k, r)}
    maps = {"softmax": (k @ k.mT / math.sqrt(d)).softmax(-1)}
    maps |= {name: x @ x.mT / (x @ x.mT).sum(-1, keepdim=True) for name, x in features.items()}
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.3))
    right = {name: matrix.diagonal().mean() for name, matrix in maps.items()}
    for axis, (name, matrix) in zip(axes, maps.items()):
        title = f"{name}\nright key: {right[name]:.2f} on average"
        heatmap(axis, matrix, title, rows="query", columns="key", vmin=0, vmax=0.4)
    show(
        "Three maps of weights. With softmax the diagonal, the right key, stands out; with φ = elu + 1 all keys get "
        "nearly the same weight; with random features the diagonal is back, and so is noise: some wrong keys are as "
        "dark as right ones. " + ", ".join(f"{name}: {weight:.2f} for the right key" for name, weight in right.items())
    )


def _random_features(x: Tensor, r: int) -> Tensor:
    """Positive features of x whose products are e^(x · y / √d) on average, (n, r)."""
    x = x / x.shape[-1] ** 0.25  # the scale 1/√d, shared out between query and key
    return (x @ torch.randn(x.shape[-1], r) - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(r)


@waits_for("linear_attention")
def three_forms(recurrent: Callable, chunked: Callable, n: int, d: int, c: int) -> None:
    """Which pairs each of the three causal forms gives a weight, and which it reads from the state; how far the outputs
    of the other two are from the first's."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    weights = (linear_attention.feature_map(q) @ linear_attention.feature_map(k).mT).tril()
    parallel = weights / weights.sum(-1, keepdim=True) @ v
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.9), layout="constrained")
    said = []
    for axis, (name, size, output) in zip(
        axes, (("parallel", n, parallel), ("recurrent", 1, recurrent(q, k, v)), ("chunked", c, chunked(q, k, v, c)))
    ):
        steps, gap = -(-n // size), (output - parallel).abs().max().item()
        said.append(f"{name}, {steps} step{'s' * (steps > 1)}" + f", differs by {gap:.0e}" * (name != "parallel"))
        _by_state(axis, n, size, said[-1].replace(", ", "\n", 1))
    axes[0].set(ylabel="query")
    handles = [Patch(color=WEIGHT, label="a weight of its own"), Patch(color=PINK, label="read from the state")]
    figure.legend(handles=handles, frameon=False, ncols=2, loc="outside lower center")
    show(f"The pairs of {n} tokens, in the steps of three forms. {'; '.join(said)}.")


def _by_state(axis, n: int, size: int, title: str) -> None:
    """A triangle of pairs, in steps of `size` queries: keys of earlier steps are in a state, and one key alone too."""
    place, step = torch.arange(n), torch.arange(n) // size
    kinds = (place[:, None] >= place).int() + (step[:, None] >= step + (size > 1)).int()
    axis.imshow(kinds, cmap=ListedColormap([MASKED, WEIGHT, PINK]), vmin=0, vmax=2, extent=(0, n, n, 0))
    axis.hlines(range(size, n, size), 0, n, color="white", lw=0.6)
    axis.set_title(title, fontsize=10)
    axis.set(xlabel="key", xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def state_or_cache(d: int, lengths: Sequence[int]) -> None:
    """Numbers that must be kept to write the next token: all keys and values, or one state."""
    figure, axis = plt.subplots(figsize=(6.5, 3))
    axis.loglog(lengths, [2 * n * d for n in lengths], "o-", color=KEY, label="softmax: keys and values, 2 n d")
    axis.loglog(lengths, [d * (d + 1)] * len(lengths), "o-", color=WEIGHT, label="linear: state and normalizer, d² + d")
    axis.axvline((d + 1) / 2, color=OUTPUT, ls=":")
    axis.text((d + 1) / 2 * 1.1, 2 * lengths[-1] * d / 3, f"n = {(d + 1) / 2:g}", color=OUTPUT)
    axis.set(xlabel="tokens so far", ylabel="numbers kept", title=f"what one head of width {d} carries along")
    axis.legend(frameon=False, fontsize=9)
    show()


@waits_for("linear_attention")
def chunk_sizes(chunked: Callable, sizes: Sequence[int], n: int, d: int) -> None:
    """FLOPs, steps and seconds over the size of a chunk: from an RNN on the left to full attention on the right. The
    fastest is marked."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    work = [counted(chunked, q, k, v, c).flops / 1e6 for c in sizes]
    times = [1e3 * seconds(lambda c=c: chunked(q, k, v, c), tries=5) for c in sizes]
    panels = (
        ("work: million FLOPs", work, QUERY, "{}", "full attention: {}"),
        ("waiting: steps one after the other", [-(-n // c) for c in sizes], OUTPUT, "an RNN: {}", "{}"),
        ("both together: milliseconds here", times, KEY, "{}", "{}"),
    )
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (title, values, colour, *ends) in zip(axes, panels, strict=True):
        axis.loglog(sizes, values, "o-", color=colour)
        axis.set(title=title, xlabel="chunk size c", ylim=(min(values) / 3, 3 * max(values)))
        axis.set_xticks(sizes[::2], sizes[::2])
        axis.yaxis.set_major_formatter("{x:,g}")
        axis.minorticks_off()
        for end, side, said in zip((0, -1), ("left", "right"), ends, strict=True):
            _tell(axis, sizes[end], values[end], said.format(_short(values[end])), side, colour)
    fastest = times.index(min(times))
    axes[2].plot(sizes[fastest], times[fastest], "o", ms=14, mfc="none", mec=EDGE, mew=1.5)
    _tell(
        axes[2],
        sizes[fastest],
        times[fastest] / 1.9,
        f"fastest: c = {sizes[fastest]}, {times[fastest]:.2g}",
        "center",
        KEY,
        "top",
    )
    show()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _tell(axis, x: float, y: float, text: str, side: str, colour: str, upright: str = "bottom") -> None:
    """What a point says, beside it."""
    away = 7 if upright == "bottom" else 0  # points
    axis.annotate(
        text, (x, y), (0, away), textcoords="offset points", ha=side, va=upright, fontsize=9, color=as_text(colour)
    )


@waits_for("linear_attention")
def linear_growth(linear: Callable[[Tensor, Tensor, Tensor], Tensor], lengths: Sequence[int], d: int) -> None:
    """What linear attention costs, beside the same weights as an n × n matrix."""
    curves = {"scores first": [], "yours": []}
    for n in lengths:
        x = [torch.randn(n, d) for _ in range(3)]
        curves["yours"].append(counted(linear, *x))
        curves["scores first"].append(counted(_scores_first, *x))
    growth_panels(curves, lengths)


def _scores_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = linear_attention.feature_map(q) @ linear_attention.feature_map(k).mT
    return weights / weights.sum(-1, keepdim=True) @ v
