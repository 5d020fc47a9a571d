"""Keys that are written twice: how far off the newest value four kinds of memory are."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn import functional as F

from helpers.labels import name_lines
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, show, waits_for

__all__ = ["overwritten_keys"]

GAMMA = 0.8
LOOK = {
    "plain sum": ("s", WEIGHT),
    f"decay, γ = {GAMMA}": ("v", KEY),
    "softmax": ("D", QUERY),
    "delta rule": ("o", VALUE),
}


def recall(delta: Callable, decayed: Callable, queries: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
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
    found = recall(delta, decayed, keys[:count], keys, values)
    newest = values[count:]
    return {name: ((output - newest).norm() / newest.norm()).item() for name, output in found.items()}


@waits_for("decayed_attention", "delta_rule")
def overwritten_keys(delta: Callable, decayed: Callable, d: int = 16) -> None:
    """Random keys, each written twice, ever more of them: how far off the newest value each memory is."""
    figure, axis = plt.subplots(figsize=(6.5, 3.7))
    counts = [2, 4, 8, 12, 16, 24, 32]
    errors = mean_errors(delta, decayed, counts, d)
    for name, values in errors.items():
        axis.plot(counts, values, LOOK[name][0] + "-", color=LOOK[name][1])
    axis.axvline(d, color=OUTPUT, ls=":")
    axis.text(d, 0.02, f" d = {d}", color=OUTPUT)
    axis.set(
        xlabel="different keys, random, each written twice", ylabel="relative error", ylim=(0, None), xticks=counts
    )
    axis.set_title(f"how far off the newest value is (d = {d})", fontsize=10, loc="left")
    name_lines(axis, counts[-1], [(name, values[-1], LOOK[name][1]) for name, values in errors.items()], apart=0.085)
    plt.tight_layout()
    ends = "; ".join(f"{name} {values[0]:.2f} and {values[-1]:.2f}" for name, values in errors.items())
    show(
        "The errors of four memories over the number of random keys that were written twice, with "
        f"{counts[0]} and with {counts[-1]} keys: {ends}."
    )
