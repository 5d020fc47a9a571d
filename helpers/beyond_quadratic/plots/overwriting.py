"""A key is written twice: what four kinds of memory return for it."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch import Tensor
from torch.nn import functional as F

from helpers.labels import name_lines
from helpers.style import EDGE, KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, ink, show, waits_for

__all__ = ["overwritten_keys"]

WRITTEN = (("A", 2), ("B", 5), ("C", 3), ("D", 4), ("A", 6), ("C", 1), ("A", 7))
GAMMA = 0.8
LOOK = {
    "plain sum": ("s", WEIGHT),
    f"decay, γ = {GAMMA}": ("v", KEY),
    "softmax": ("D", QUERY),
    "delta rule": ("o", VALUE),
}


def recalled(delta: Callable, decayed: Callable, d: int = 8) -> dict[str, Tensor]:
    """What each memory returns for A, B, C and D after `WRITTEN`, and the newest values. Keys are orthonormal."""
    names = sorted({name for name, _ in WRITTEN})
    keys = torch.eye(d)[[names.index(name) for name, _ in WRITTEN]]
    values = torch.tensor([[float(value)] for _, value in WRITTEN])
    newest = torch.tensor([float(dict(WRITTEN)[name]) for name in names])
    found = _recall(delta, decayed, torch.eye(d)[: len(names)], keys, values)
    return {name: output.flatten() for name, output in found.items()} | {"newest": newest}


def _recall(delta: Callable, decayed: Callable, queries: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    """Each of m queries after all n tokens, (m, d_v), from each memory. Softmax gets sharp scores: a key that fits has
    score 12."""
    sequences = queries.shape[0], len(keys)
    q = queries[:, None].expand(*sequences, -1)
    k, v = keys.expand(*sequences, -1), values.expand(*sequences, -1)
    one = torch.ones(sequences)
    outputs = (
        decayed(q, k, v, one),
        decayed(q, k, v, GAMMA * one),
        (12 * q @ k.mT).softmax(-1) @ v,
        delta(q, k, v, one),
    )
    return {name: output[:, -1] for name, output in zip(LOOK, outputs)}


def mean_errors(
    delta: Callable, decayed: Callable, counts: list[int], d: int, tries: int = 8
) -> dict[str, list[float]]:
    """Mean error of the newest value, relative to a value's size, if `count` random keys are each written twice."""
    errors: dict[str, list[float]] = {name: [] for name in LOOK}
    for count in counts:
        found = [_errors_of(delta, decayed, count, d) for _ in range(tries)]
        for name in LOOK:
            errors[name].append(sum(one[name] for one in found) / tries)
    return errors


def _errors_of(delta: Callable, decayed: Callable, count: int, d: int) -> dict[str, float]:
    keys, values = F.normalize(torch.randn(count, d), dim=-1).repeat(2, 1), torch.randn(2 * count, d)
    found = _recall(delta, decayed, keys[:count], keys, values)
    newest = values[count:]
    return {name: ((output - newest).norm() / newest.norm()).item() for name, output in found.items()}


@waits_for("decayed_attention", "delta_rule")
def overwritten_keys(delta: Callable, decayed: Callable, d: int = 16) -> None:
    """Left: what each memory returns for four keys at right angles, some written again; green where it is the newest
    value. Right: random keys, each written twice, ever more of them."""
    figure, (few, many) = plt.subplots(1, 2, figsize=(11.5, 3.7), width_ratios=[1.1, 1])
    found = recalled(delta, decayed)
    newest = found.pop("newest")
    _table(few, found, newest)
    counts = [2, 4, 8, 12, 16, 24, 32]
    errors = mean_errors(delta, decayed, counts, d)
    for name, values in errors.items():
        many.plot(counts, values, LOOK[name][0] + "-", color=LOOK[name][1])
    many.axvline(d, color=OUTPUT, ls=":")
    many.text(d, 0.02, f" d = {d}", color=OUTPUT)
    many.set(
        xlabel="different keys, random, each written twice", ylabel="relative error", ylim=(0, None), xticks=counts
    )
    many.set_title(f"how far off the newest value is (d = {d})", fontsize=10, loc="left")
    name_lines(many, counts[-1], [(name, values[-1], LOOK[name][1]) for name, values in errors.items()], apart=0.085)
    plt.tight_layout()
    show(
        "Left: the delta rule returns the newest value of each of four keys; a plain sum returns "
        f"{found['plain sum'][0]:g} for A, where {newest[0]:g} is newest, softmax the mean of the three values, and "
        "with decay all of them have faded. Right: the errors of all four over the number of random keys that were "
        "written twice; those of the delta rule start lowest and rise as the keys fill the state."
    )


def _table(axis, found: dict[str, Tensor], newest: Tensor) -> None:
    """One row per memory, one column per key, with the values written to it, the newest last, above."""
    for column, name in enumerate(sorted({name for name, _ in WRITTEN})):
        written = ", ".join(str(value) for key, value in WRITTEN if key == name)
        axis.text(column + 0.5, -0.12, f"{name}\n{written}", ha="center", va="bottom", fontsize=10, linespacing=1.4)
    for row, (name, output) in enumerate(found.items()):
        axis.text(-0.1, row + 0.5, name, ha="right", va="center", fontsize=10, color=as_text(LOOK[name][1]))
        for column, (value, right) in enumerate(zip(output.tolist(), newest.tolist())):
            ground = VALUE if abs(value - right) < 0.01 else "white"
            axis.add_patch(Rectangle((column + 0.03, row + 0.05), 0.94, 0.9, facecolor=ground, edgecolor=EDGE))
            axis.text(
                column + 0.5,
                row + 0.5,
                f"{value:.3g}",
                ha="center",
                va="center",
                fontsize=11,
                color=ink(ground) if ground == VALUE else "black",
            )
    axis.text(-0.1, -0.12, "key\nwritten", ha="right", va="bottom", fontsize=10, color=OUTPUT, linespacing=1.4)
    axis.set(xlim=(-1.5, len(newest)), ylim=(len(found), -0.95))
    axis.set_title("recalled after all was written; green: the newest value", fontsize=10, loc="left")
    axis.axis("off")
