"""All kinds of attention side by side: what is counted, what must fit into memory, and what the clock says."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.engine.observe import observe
from helpers.measuring import growth
from helpers.measuring.timing import seconds
from helpers.qkv_attention import attention
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, waits_for

from .. import linear_attention, low_rank, sparse

__all__ = ["cost_of_all", "formulas_and_counts"]

COLOURS = {
    "full": OUTPUT, "local": QUERY, "local + global": "#4fa3d1", "strided": VALUE, "low rank": KEY, "linear": WEIGHT,
    "linear, chunked": "#c2549d",
}  # fmt: skip


def _calls(n: int, d: int, w: int, g: int, r: int, c: int) -> dict[str, Callable[[], Tensor]]:
    """One call of every reference on the same tokens."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    table = sparse.as_table(sparse.strided_keys(n))
    project = low_rank.pooling(r, n)
    return {
        "full": lambda: attention.scaled_dot_product_attention(q, k, v),
        "local": lambda: sparse.local_attention(q, k, v, w),
        "local + global": lambda: sparse.global_local_attention(q, k, v, w, g),
        "strided": lambda: sparse.gathered_attention(q, k, v, *table),
        "low rank": lambda: low_rank.low_rank_attention(q, k, v, project, project),
        "linear": lambda: linear_attention.linear_attention(q, k, v),
        "linear, chunked": lambda: linear_attention.chunked_linear_attention(q, k, v, c),
    }  # fmt: skip


@waits_for("cost_of_all")
def formulas_and_counts(formulas: dict[str, Callable[[], int]], n: int, **sizes: int) -> None:
    """The student's formulas at one set of sizes as bars, and what PyTorch's counter says as lines across them."""
    predicted = {name: formula() for name, formula in formulas.items()}
    calls = _calls(n, **sizes)
    figure, axis = plt.subplots(figsize=(8, 2.8))
    for row, (name, flops) in enumerate(predicted.items()):
        counted = observe(calls[name]).flops
        axis.barh(row, flops / 1e6, color=COLOURS[name], alpha=0.7)
        axis.plot([counted / 1e6] * 2, [row - 0.4, row + 0.4], color="black", lw=2)
        axis.text(
            max(flops, counted) / 1e6,
            row,
            f"  {flops:,} · {'exact' if flops == counted else f'counted {counted:,}'}",
            va="center",
            fontsize=9,
        )
    axis.set(title=f"formula (bar) and count (line) at n = {n}, d = {sizes['d']}", xlabel="million FLOPs")
    axis.set_yticks(range(len(predicted)), predicted)
    axis.margins(x=0.4)
    axis.invert_yaxis()
    plt.show()


def cost_of_all(lengths: Sequence[int], **sizes: int) -> None:
    """Counted FLOPs, the largest tensor and the measured time of all variants over n. `sizes`: d, w, g, r, c."""
    panels: dict[str, dict[str, list[float]]] = {
        "FLOPs, counted": {},
        "largest tensor, elements": {},
        "milliseconds, measured": {},
    }
    for n in lengths:
        for name, call in _calls(n, **sizes).items():
            seen = observe(call)
            for panel, value in zip(panels.values(), (seen.flops, seen.largest, 1e3 * seconds(call, tries=2))):
                panel.setdefault(name, []).append(value)
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.4))
    for axis, (title, curves) in zip(axes, panels.items()):
        for name, values in curves.items():
            axis.loglog(lengths, values, "o-", ms=4, color=COLOURS[name], label=name)
        axis.set(title=title, xlabel="n")
        axis.set_xticks(lengths, lengths)
        axis.minorticks_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=7, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    plt.show()
    _print_exponents(lengths, panels)


def _print_exponents(lengths: Sequence[int], panels: dict[str, dict[str, list[float]]]) -> None:
    """The exponent of n in every curve, fitted where n is large."""
    half = len(lengths) // 3
    print(f"{'grows like n to the power':>27}  FLOPs  largest tensor  time")
    for name in COLOURS:
        slopes = [growth.slope(lengths[half:], curves[name][half:]) for curves in panels.values()]
        print(f"{name:>27}  {slopes[0]:5.2f}  {slopes[1]:14.2f}  {slopes[2]:4.2f}")
