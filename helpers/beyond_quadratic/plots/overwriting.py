"""A key is written twice: what four kinds of memory return for it."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn import functional as F

from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, show, waits_for

__all__ = ["overwritten_keys"]

WRITTEN = (("A", 2), ("B", 5), ("C", 3), ("D", 4), ("A", 6), ("C", 1), ("A", 7))
GAMMA = 0.8
LOOK = {
    "plain sum": ("s", WEIGHT), f"decay, γ = {GAMMA}": ("v", KEY), "softmax": ("D", QUERY), "delta rule": ("o", VALUE),
}  # fmt: skip


def recalled(delta: Callable, decayed: Callable, d: int = 8) -> dict[str, Tensor]:
    """What each memory returns for A, B, C and D after `WRITTEN`, and the newest values. Keys at right angles, of length 1."""
    names = sorted({name for name, _ in WRITTEN})
    keys = torch.eye(d)[[names.index(name) for name, _ in WRITTEN]]
    values = torch.tensor([[float(value)] for _, value in WRITTEN])
    newest = torch.tensor([float(dict(WRITTEN)[name]) for name in names])
    found = _recall(delta, decayed, torch.eye(d)[: len(names)], keys, values)
    return {name: output.flatten() for name, output in found.items()} | {"newest": newest}


def _recall(delta: Callable, decayed: Callable, queries: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    """Each of m queries after all n tokens, (m, d_v), from each memory. Softmax gets sharp scores: a key that fits has score 12."""
    sequences = queries.shape[0], len(keys)
    q = queries[:, None].expand(*sequences, -1)
    k, v = keys.expand(*sequences, -1), values.expand(*sequences, -1)
    one = torch.ones(sequences)
    outputs = (
        decayed(q, k, v, one), decayed(q, k, v, GAMMA * one), (12 * q @ k.mT).softmax(-1) @ v, delta(q, k, v, one),
    )  # fmt: skip
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
    """Left: four keys at right angles, some written again. Right: random keys, each written twice, ever more of them."""
    figure, (few, many) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=[1, 1.15])
    found = recalled(delta, decayed)
    newest = found.pop("newest")
    for place, value in enumerate(newest.tolist()):
        few.plot(
            [place - 0.38, place + 0.38],
            [value] * 2,
            color="black",
            lw=1.5,
            label="newest value" if not place else None,
        )
    for shift, (name, output) in zip((-0.24, -0.08, 0.08, 0.24), found.items()):
        mark, colour = LOOK[name]
        few.plot(torch.arange(len(output)) + shift, output, mark, color=colour, label=name)
    few.set(
        title="written: " + ", ".join(f"{name}={value}" for name, value in WRITTEN), ylabel="recalled", xlabel="key"
    )
    few.set_xticks(range(len(newest)), sorted({name for name, _ in WRITTEN}))
    counts = [2, 4, 8, 12, 16, 24, 32]
    for name, errors in mean_errors(delta, decayed, counts, d).items():
        many.plot(counts, errors, LOOK[name][0] + "-", color=LOOK[name][1], label=name)
    many.axvline(d, color=OUTPUT, ls=":")
    many.text(d, 0.02, f" d = {d}", color=OUTPUT)
    many.set(
        title=f"random keys, each written twice (d = {d})",
        xlabel="different keys",
        ylabel="relative error of the newest value",
        ylim=(0, None),
    )
    for axis in (few, many):
        axis.title.set_fontsize(10)
    few.legend(frameon=False, fontsize=8, loc="upper right")
    plt.tight_layout()
    show(
        f"Left: the delta rule returns the newest value of each of four keys; a plain sum returns {found['plain sum'][0]:g} for A, "
        f"where {newest[0]:g} is newest, softmax the mean of the three values, and with decay all of them have faded. "
        "Right: the errors of all four over the number of random keys that were written twice; those of the delta rule start lowest and rise as the keys fill the state."
    )
