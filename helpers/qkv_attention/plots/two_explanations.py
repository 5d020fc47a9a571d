"""Two sets of attention weights that give one output."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.style import KEY, OUTPUT, WEIGHT, as_text, show, waits_for

__all__ = ["two_explanations"]

TRIALS = 50


@waits_for("same_output_other_weights")
def two_explanations(other: Callable[[Tensor, Tensor], Tensor], n: int = 6, d: int = 2) -> None:
    """The weights of each key, given → yours, with the favorite of both ringed; and both outputs, which stay put."""
    pairs = [_drawn(other, seed, n, d) for seed in range(TRIALS)]
    changed = [pair for pair in pairs if pair[0].argmax() != pair[1].argmax()]
    given, yours, values = (changed or pairs)[0]
    figure, (weights, outputs) = plt.subplots(1, 2, figsize=(7.6, 0.36 * n + 1.1), width_ratios=[2, 1])
    _moves(weights, given, yours, [f"key {key + 1}" for key in range(n)])
    for result, colour in ((given, WEIGHT), (yours, KEY)):
        weights.plot(result.max(), result.argmax(), "o", ms=15, mfc="none", mec=as_text(colour), mew=1.6)
    _moves(outputs, given @ values, yours @ values, [f"feature {feature + 1}" for feature in range(d)])
    weights.set(xlabel="attention weight", title="from the given weights (purple) to yours (orange)", xlim=(0, None))
    outputs.set(xlabel="output", title="the outputs", ylim=(n - 0.5, -0.5))
    outputs.margins(x=0.3)
    show(_said(given, yours, (given - yours) @ values, len(changed)))


def _drawn(other: Callable, seed: int, n: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random weights, the answer to them, and the values."""
    generator = torch.Generator().manual_seed(seed)
    weights, values = torch.randn(n, generator=generator).softmax(0), torch.randn(n, d, generator=generator)
    return weights, torch.as_tensor(other(weights, values)), values


def _moves(axis, given: Tensor, yours: Tensor, names: list[str]) -> None:
    for row, (before, after) in enumerate(zip(given.tolist(), yours.tolist(), strict=True)):
        axis.plot([before, after], [row, row], color=OUTPUT, lw=1.4, zorder=1)
        axis.plot(before, row, "o", ms=9, color=WEIGHT)
        axis.plot(after, row, "o", ms=5.5, color=KEY, mec="white", mew=0.6)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", alpha=0.3)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def _said(given: Tensor, yours: Tensor, gap: Tensor, changed: int) -> str:
    first, second = int(given.argmax()) + 1, int(yours.argmax()) + 1
    favorite = f"is key {second} where it was key {first}" if first != second else f"stays key {first}"
    return (
        f"Attention weights, given and yours: the favorite {favorite}. Of {TRIALS} random cases it is another one in "
        f"{changed}. The outputs differ by {gap.abs().max():.1g}."
    )
