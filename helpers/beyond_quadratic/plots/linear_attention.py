"""Pictures of linear attention: where the brackets stand, what is lost, and what is carried along."""

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.measuring.timing import seconds
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, heatmap, show, waits_for

from .. import linear_attention
from .sparse import counted, growth_panels

__all__ = ["blurred_weights", "brackets", "chunk_sizes", "linear_growth", "state_or_cache", "three_forms"]


def brackets(n: int = 10, d: int = 3) -> None:
    """(q kᵀ) v and q (kᵀ v), one product after the other and drawn to scale: what is made in between is n × n or d × d."""
    q, k_t, v, out = (n, d, QUERY, "q"), (d, n, KEY, "kᵀ"), (n, d, VALUE, "v"), (n, d, OUTPUT, "output")
    square, state = (n, n, WEIGHT, f"scores\n{n} × {n}"), (d, d, WEIGHT, f"state\n{d} × {d}")
    orders = {
        f"scores first: (q kᵀ) v takes 2 n² d = {2 * n * n * d} multiplications, and keeps {n * n} numbers": [
            q,
            k_t,
            square,
            v,
            out,
        ],
        f"state first: q (kᵀ v) takes 2 n d² = {2 * n * d * d} multiplications, and keeps {d * d} numbers": [
            k_t,
            v,
            state,
            q,
            state,
            out,
        ],
    }
    figure, axes = plt.subplots(2, 1, figsize=(9, 5.4))
    for axis, (title, blocks) in zip(axes, orders.items(), strict=True):
        x, signs = 0.0, ("", "×", "=", "×", "=") if blocks[2] is square else ("", "×", "=", "then", "×", "=")
        for sign, (rows, columns, colour, name) in zip(signs, blocks, strict=True):
            axis.text(x + 1.6, 0, sign, ha="center", va="center", fontsize=12)
            x += 3.2 if sign else 0.2
            axis.add_patch(Rectangle((x, -rows / 2), columns, rows, facecolor=colour, alpha=0.45))
            axis.text(x + columns / 2, 0, name, ha="center", va="center", fontsize=9.5)
            x += columns
        axis.set(xlim=(-0.2, 2.2 + 4 * 3.2 + 3 * d + 2 * n), ylim=(-n / 2 - 0.3, n / 2 + 0.3), aspect="equal")
        axis.set_title(title, fontsize=10, loc="left")
        axis.axis("off")
    show(
        f"The same product in two orders, for n = {n} and d = {d}: with the scores first a square of {n} by {n} stands in between, with the state first one of "
        f"{d} by {d}."
    )


def blurred_weights(n: int = 12, d: int = 16, r: int = 64) -> None:
    """The weights of three kinds for queries that each look for one key: softmax, linear, and linear with r random features
    that estimate the softmax (Choromanski et al., 2021, lemma 1). One scale for all."""
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
        "Three maps of weights. With softmax the diagonal, the right key, stands out; with φ = elu + 1 all keys get nearly the same "
        "weight; with random features the diagonal is back, and so is noise: some wrong keys are as dark as right ones. "
        + ", ".join(f"{name}: {weight:.2f} for the right key" for name, weight in right.items())
    )


def _random_features(x: Tensor, r: int) -> Tensor:
    """Positive features of x whose products are e^(x · y / √d) on average, (n, r)."""
    x = x / x.shape[-1] ** 0.25  # the scale 1/√d, shared out between query and key
    return (x @ torch.randn(x.shape[-1], r) - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(r)


@waits_for("linear_attention")
def three_forms(recurrent: Callable, chunked: Callable, n: int, d: int, c: int) -> None:
    """One feature of the causal output over time, in all three forms, and the largest difference between them."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    weights = (linear_attention.feature_map(q) @ linear_attention.feature_map(k).mT).tril()
    parallel = weights / weights.sum(-1, keepdim=True) @ v
    outputs = {f"recurrent: {n} steps": recurrent(q, k, v), f"chunked: {-(-n // c)} steps": chunked(q, k, v, c)}
    figure, axis = plt.subplots(figsize=(9, 2.6))
    axis.plot(parallel[:, 0], color=OUTPUT, lw=6, alpha=0.35, label="parallel, n × n: 1 step")
    for (name, output), style, colour in zip(outputs.items(), ("--", ":"), (QUERY, KEY)):
        gap = (output - parallel).abs().max().item()
        axis.plot(output[:, 0], style, color=colour, lw=2, label=f"{name}, differs by {gap:.0e}")
    axis.set(xlabel="token", title="one feature of the output")
    axis.legend(frameon=False, fontsize=9)
    show()


def state_or_cache(d: int, lengths: Sequence[int]) -> None:
    """Numbers that must be kept to write the next token: all keys and values, or one state."""
    figure, axis = plt.subplots(figsize=(6.5, 3))
    axis.loglog(lengths, [2 * n * d for n in lengths], "o-", color=KEY, label="softmax: keys and values, 2 n d")
    axis.loglog(lengths, [d * (d + 1)] * len(lengths), "o-", color=WEIGHT, label="linear: state and normaliser, d² + d")
    axis.axvline((d + 1) / 2, color=OUTPUT, ls=":")
    axis.text((d + 1) / 2 * 1.1, 2 * lengths[-1] * d / 3, f"n = {(d + 1) / 2:g}", color=OUTPUT)
    axis.set(xlabel="tokens so far", ylabel="numbers kept", title=f"what one head of width {d} carries along")
    axis.legend(frameon=False, fontsize=9)
    show()


@waits_for("linear_attention")
def chunk_sizes(chunked: Callable, sizes: Sequence[int], n: int, d: int) -> None:
    """FLOPs, steps and seconds over the size of a chunk: from an RNN on the left to full attention on the right."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    flops = [counted(chunked, q, k, v, c).flops for c in sizes]
    times = [1e3 * seconds(lambda c=c: chunked(q, k, v, c), tries=2) for c in sizes]
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8))
    panels = (
        ("FLOPs, counted", flops, QUERY),
        ("steps one after the other", [-(-n // c) for c in sizes], OUTPUT),
        ("milliseconds", times, KEY),
    )
    for axis, (title, values, colour) in zip(axes, panels):
        axis.loglog(sizes, values, "o-", color=colour)
        axis.set(title=title, xlabel="chunk size c")
        axis.set_xticks(sizes[::3], sizes[::3])
        axis.minorticks_off()
    plt.tight_layout()
    show()


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
