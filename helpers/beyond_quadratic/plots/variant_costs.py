"""All kinds of attention side by side: what is counted, what must fit into memory, and what the clock says."""

import functools
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.engine.observe import observe
from helpers.labels import name_lines
from helpers.measuring import growth
from helpers.measuring.timing import seconds
from helpers.qkv_attention import attention
from helpers.style import KEY, OCHRE, OUTPUT, PINK, QUERY, RED, SKY, VALUE, WEIGHT, section, show, waits_for
from helpers.waiting import waiting

from .. import decayed_attention, delta_rule, linear_attention, low_rank, sparse

__all__ = ["cost_of_all", "formulas_and_counts"]

LOOK = {
    "full": (OUTPUT, "s"),
    "local": (QUERY, "o"),
    "local + global": (SKY, "v"),
    "strided": (VALUE, "D"),
    "low rank": (KEY, "^"),
    "linear": (WEIGHT, "P"),
    "linear, chunked": (PINK, "X"),
    "decay, chunked": (OCHRE, "<"),
    "delta rule": (RED, ">"),
}
EXERCISES = {
    "local": "local_attention",
    "local + global": "global_local",
    "strided": "strided_sparse",
    "low rank": "low_rank_attention",
    "linear": "linear_attention",
    "linear, chunked": "linear_attention",
    "decay, chunked": "decayed_attention",
    "delta rule": "delta_rule",
}
Variants = dict[str, Callable | tuple[Callable, ...]]
"""By the names of `LOOK`; the strided pattern is two functions, the lists of keys and what gathers them."""

OURS: Variants = {
    "local": sparse.local_attention,
    "local + global": sparse.global_local_attention,
    "strided": (sparse.strided_keys, sparse.gathered_attention),
    "low rank": low_rank.low_rank_attention,
    "linear": linear_attention.linear_attention,
    "linear, chunked": linear_attention.chunked_linear_attention,
    "decay, chunked": decayed_attention.chunked_decayed_attention,
    "delta rule": delta_rule.delta_rule,
}


def _calls(variants: Variants, n: int, d: int, w: int, g: int, r: int, c: int) -> dict[str, Callable[[], Tensor]]:
    """One call of full attention and of every variant, all on the same tokens."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    gate, project = torch.full((n,), 0.9), low_rank.pooling(r, n)
    after = {
        "local": (w,),
        "local + global": (w, g),
        "low rank": (project, project),
        "linear": (),
        "linear, chunked": (c,),
        "decay, chunked": (gate, c),
        "delta rule": (gate,),
    }
    calls = {"full": lambda: attention.scaled_dot_product_attention(q, k, v)}
    for name, variant in variants.items():
        if isinstance(variant, tuple):  # the table is made beforehand: it is the same for every layer and every text
            lists, gather = variant
            calls[name] = functools.partial(gather, q, k, v, *sparse.as_table(lists(n)))
        else:
            calls[name] = functools.partial(variant, q, k, v, *after[name])
    return calls


def _that_run(variants: Variants, **sizes: int) -> Variants:
    """The student's functions; where one isn't written yet, or fails, the course's own, and a line that says so."""
    found = {}
    for name, variant in variants.items():
        problem = _problem(name, variant, **sizes)
        if problem:
            print(f"{name}: the course's own function runs in the place of yours, which {problem}.")
        found[name] = OURS[name] if problem else variant
    return found


def _problem(name: str, variant: Callable | tuple[Callable, ...], **sizes: int) -> str:
    """Why a student's function can't take part; "" if it can."""
    try:
        seen = observe(_calls({name: variant}, **sizes)[name])
    except Exception as error:  # the lists of the strided pattern are made outside of what is counted
        return _fate(type(error).__name__, name)
    return _fate(seen.error.kind, name) if seen.error else ""


def _fate(kind: str, name: str) -> str:
    place = section(EXERCISES[name])
    return f"is not written yet ({place})" if kind == "NotImplementedError" else f"stops with {kind} ({place})"


@waits_for("cost_of_all")
def formulas_and_counts(formulas: dict[str, Callable[[], int]], n: int, **sizes: int) -> None:
    """The student's formulas at one set of sizes, beside full attention; lines say whether PyTorch counts the same."""
    flops = {"full": 4 * n * n * sizes["d"]} | {name: formula() for name, formula in formulas.items()}
    calls = _calls(OURS, n, **sizes)
    off = {name: counted for name in formulas if (counted := observe(calls[name]).flops) != flops[name]}
    for name, counted in off.items():
        print(f"{name}: your formula says {flops[name]:,}, PyTorch counts {counted:,}.")
    print(f"{len(formulas) - len(off)} of your {len(formulas)} formulas say what PyTorch counts.")
    figure, axis = plt.subplots(figsize=(8, 3))
    bars = axis.barh(list(flops), [value / 1e6 for value in flops.values()], color=[LOOK[name][0] for name in flops])
    words = [f"{value / 1e6:.1f}, {flops['full'] / max(value, 1):.3g} times fewer" for value in flops.values()]
    words[0] = words[0].partition(",")[0]
    axis.bar_label(bars, words, padding=4)
    axis.set(title=f"n = {n}, d = {sizes['d']}", xlabel="million FLOPs")
    axis.margins(x=0.1)
    axis.invert_yaxis()
    show(f"Bars of million FLOPs. {'; '.join(map(': '.join, zip(flops, words)))}.")


def cost_of_all(variants: Variants, lengths: Sequence[int], **sizes: int) -> None:
    """Counted FLOPs, the largest tensor and the measured time of a student's functions over n, beside full attention.

    variants: by the names of `LOOK`. sizes: d, w, g, r, c.
    """
    panels: dict[str, dict[str, list[float]]] = {
        "FLOPs, counted": {},
        "largest tensor, elements": {},
        "milliseconds, measured": {},
    }
    variants = _that_run(variants, n=lengths[0], **sizes)
    for n in waiting(lengths, len(lengths), "lengths"):
        for name, call in _calls(variants, n, **sizes).items():
            seen = observe(call)
            for panel, value in zip(panels.values(), (seen.flops, seen.largest, 1e3 * seconds(call, tries=2))):
                panel.setdefault(name, []).append(value)
    figure, axes = plt.subplots(3, 1, figsize=(9, 10))
    for axis, (title, curves) in zip(axes, panels.items()):
        for name, values in curves.items():
            colour, mark = LOOK[name]
            axis.loglog(lengths, values, mark + "-", ms=5, color=colour)
        axis.set_title(title, loc="left")
        axis.set_xticks(lengths, lengths)
        axis.minorticks_off()
        name_lines(
            axis, lengths[-1], [(name, values[-1], LOOK[name][0]) for name, values in curves.items()], apart=0.075
        )
    axes[-1].set_xlabel("tokens n")
    show(
        "Three log-log plots over n, one line for each kind of attention: counted FLOPs, elements of the largest "
        "tensor, and measured milliseconds. The exponents are printed below."
    )
    _print_exponents(lengths, panels)


def _print_exponents(lengths: Sequence[int], panels: dict[str, dict[str, list[float]]]) -> None:
    """The exponent of n in every curve, fitted where n is large."""
    half = len(lengths) // 3
    print(f"{'grows like n to the power':>27}  FLOPs  largest tensor  time")
    for name in next(iter(panels.values())):
        slopes = [growth.slope(lengths[half:], curves[name][half:]) for curves in panels.values()]
        print(f"{name:>27}  {slopes[0]:5.2f}  {slopes[1]:14.2f}  {slopes[2]:4.2f}")
