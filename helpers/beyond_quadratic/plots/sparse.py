"""Pictures of attention that leaves pairs out: which pairs, and what that saves."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from helpers.engine.observe import Observation, observe
from helpers.measuring import growth
from helpers.style import KEY, MASK, MAY_ATTEND, OUTPUT, QUERY, heatmap, ink, show, waits_for

from .. import sparse

__all__ = ["attention_patterns", "hops", "local_growth", "strided_growth", "two_layers", "window_slots"]


def attention_patterns(n: int = 25, w: int = 2, g: int = 1) -> None:
    """Full, banded, banded with global tokens, strided: the allowed pairs as dark cells, with their number."""
    patterns = {
        "full": torch.ones(n, n, dtype=torch.bool),
        f"local, w = {w}": sparse.band(n, w),
        f"local and {g} global": sparse.band_with_globals(n, w, g),
        "strided, step 5": sparse.as_mask(sparse.strided_keys(n)),
    }
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.9))
    for axis, (name, mask) in zip(axes, patterns.items()):
        _cells(axis, mask, f"{name}\n{int(mask.sum())} of {n * n} pairs")
    axes[0].set(xlabel="key", ylabel="query")
    show()


def _cells(axis, mask: Tensor, title: str) -> None:
    axis.pcolormesh(mask.flip(0).float(), cmap=MASK, vmin=0, vmax=1, edgecolors="white", linewidth=0.4)
    axis.set(title=title, aspect="equal", xticks=[], yticks=[])
    axis.title.set_fontsize(10)


def window_slots(n: int, w: int) -> None:
    """The band as a table: row i holds the keys of token i, one slot per column. Slots beyond the ends are gray."""
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)
    inside = (keys >= 0) & (keys < n)
    figure, (square, table) = plt.subplots(1, 2, figsize=(7.5, 3), width_ratios=[1.3, 1])
    for axis, mask in ((square, sparse.band(n, w)), (table, inside)):
        axis.imshow(mask, cmap=MASK, vmin=0, vmax=1, aspect="auto")
        axis.set(yticks=range(n), ylabel="query i")
    for i, j in inside.nonzero().tolist():
        table.text(j, i, int(keys[i, j]), ha="center", va="center", fontsize=9, color=ink(MAY_ATTEND))
        square.text(keys[i, j], i, int(keys[i, j]), ha="center", va="center", fontsize=9, color=ink(MAY_ATTEND))
    for i, j in (~inside).nonzero().tolist():
        table.text(j, i, "–", ha="center", va="center", color=OUTPUT)
    square.set(title=f"n × n: {n * n} cells, {int(inside.sum())} used", xticks=range(n), xlabel="key j")
    table.set(title=f"n × (2w + 1): {inside.numel()} slots", xlabel="slot", xticks=range(2 * w + 1))
    plt.tight_layout()
    show()


def counted(function: Callable, *args) -> Observation:
    """One counted call; an answer that isn't written yet, or fails, says so as if it had been called directly."""
    seen = observe(function, args)
    if seen.error:
        raise NotImplementedError if seen.error.kind == "NotImplementedError" else RuntimeError(str(seen.error))
    return seen


def growth_panels(curves: dict[str, Sequence[Observation]], lengths: Sequence[int]) -> None:
    """FLOPs and the largest tensor over n, with the exponent of every curve."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.2))
    for (name, seen), colour, mark in zip(curves.items(), (OUTPUT, QUERY, KEY), "so^"):
        for axis, values in ((axes[0], [s.flops for s in seen]), (axes[1], [s.largest for s in seen])):
            axis.loglog(
                lengths, values, mark + "-", color=colour, label=f"{name}: n^{growth.slope(lengths, values):.1f}"
            )
    for axis, title in zip(axes, ("FLOPs of matrix products", "elements of the largest tensor")):
        axis.set(title=title, xlabel="n", xticks=lengths)
        axis.set_xticks(lengths, lengths)
        axis.minorticks_off()
        axis.legend(frameon=False, fontsize=9)
    show()


def _sequence(n: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(n, d), torch.randn(n, d), torch.randn(n, d)


@waits_for("local_attention")
def local_growth(local_attention: Callable, lengths: Sequence[int], d: int, w: int) -> None:
    """What a band costs, beside the full square with a mask: counted while both run on the same tokens."""
    curves = {"full, then masked": [], "yours": []}
    for n in lengths:
        x = _sequence(n, d)
        curves["yours"].append(counted(local_attention, *x, w))
        curves["full, then masked"].append(counted(_masked, *x, sparse.band(n, w)))
    growth_panels(curves, lengths)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


@waits_for("global_local")
def hops(global_local_attention: Callable, n: int, w: int) -> None:
    """How far news from token 0 … n − 1 travels per layer: which outputs change when one token does, by layer."""
    source, width = n // 4, 4
    rows = {}
    for name, g in (("only a window", 0), ("with 1 global token", 1)):
        x = torch.randn(n, width, dtype=torch.float64)
        moved = x.clone()
        moved[source] += 1
        reached = []
        for _ in range(4):
            x, moved = (global_local_attention(t, t, t, w, g) for t in (x, moved))
            reached.append((x - moved).abs().amax(-1) > 1e-12)
        rows[name] = torch.stack(reached)
    figure, axes = plt.subplots(2, 1, figsize=(9, 2.8), sharex=True)
    for axis, (name, reached) in zip(axes, rows.items()):
        heatmap(
            axis,
            reached.float(),
            f"{name}: who has heard from token {source}",
            cmap="Blues",
            vmin=0,
            vmax=1.3,
            aspect="auto",
        )
        axis.set_yticks(range(4), [f"layer {layer}" for layer in range(1, 5)])
    axes[1].set(xlabel="token", xticks=range(0, n, 4))
    plt.tight_layout()
    show()


@waits_for("strided_sparse")
def two_layers(strided_keys: Callable[[int], list[list[int]]], n: int) -> None:
    """Pairs connected after one and after two layers: only a window, and the student's pattern."""
    lists = strided_keys(n)
    step = max(1, round(n**0.5))
    patterns = {"only a window": sparse.band(n, step - 1), "yours": sparse.as_mask(lists)}
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.9))
    for place, (name, mask) in enumerate(patterns.items()):
        both = mask.float() @ mask.float() > 0
        _cells(axes[2 * place], mask, f"{name}, 1 layer\n{mask.float().mean():.0%} of pairs")
        _cells(axes[2 * place + 1], both, f"{name}, 2 layers\n{both.float().mean():.0%} of pairs")
    show()


@waits_for("strided_sparse")
def strided_growth(strided_keys: Callable, gathered_attention: Callable, lengths: Sequence[int], d: int) -> None:
    """Both answers together: equal to masked attention, and cheaper by √n."""
    curves, gap = {"full, then masked": [], "yours": []}, 0.0
    for n in lengths:
        x, lists = _sequence(n, d), strided_keys(n)
        curves["yours"].append(counted(gathered_attention, *x, *sparse.as_table(lists)))
        curves["full, then masked"].append(counted(_masked, *x, sparse.as_mask(lists)))
        dense = scaled_dot_product_attention(*(t[None] for t in x), sparse.as_mask(lists))[0]
        gap = max(gap, (curves["yours"][-1].output - dense).abs().max().item())
    print(f"Largest difference from masked attention: {gap:.1g}")
    growth_panels(curves, lengths)
