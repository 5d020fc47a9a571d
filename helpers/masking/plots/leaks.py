"""Pictures of unit 03: which output depends on which token, and the board of the game of the nine models."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import LogNorm
from torch import Tensor

from helpers.style import KEY, OUTPUT, VALUE, as_text, show, waits_for

from ..peekers import influence, nine_models

__all__ = ["influences", "which_peek"]

SMALLEST = 1e-6  # what is smaller is drawn as nothing: it may be rounding


def influences(models: dict[str, Callable[[Tensor], Tensor]], n: int = 9, d: int = 4) -> None:
    """For each model, how far output i moves when token j is changed. Color above the line is a leak."""
    x = _tokens(n, d)
    figure, axes = plt.subplots(1, len(models), figsize=(2.5 * len(models) + 0.6, 2.9))
    for axis, (name, model) in zip(axes, models.items(), strict=True):
        _influence(axis, influence(model, x), name)
        axis.set(xlabel="token j")
    axes[0].set(ylabel="output i")
    axes[0].text(n - 0.7, -0.3, "above the line:\nthe future", ha="right", va="top", fontsize=8.5, color=as_text(KEY))
    show()


@waits_for("leaks_future")
def which_peek(detector: Callable, guess: str = "", n: int = 9, d: int = 4) -> None:
    """The nine models: what you guessed, what your detector says, and the influence of every token on every output."""
    x = _tokens(n, d)
    verdicts = {letter: bool(detector(model, x)) for letter, (model, _) in nine_models(d).items()}
    figure, axes = plt.subplots(2, 5, figsize=(10, 5))
    right = 0
    for axis, (letter, (model, peeks)) in zip(axes.flat, nine_models(d).items(), strict=False):
        _influence(axis, influence(model, x), "")
        said, right = verdicts[letter], right + (verdicts[letter] == peeks)
        mark = "✓" if said == peeks else "✗"
        axis.set_title(
            f"{letter}: {'peeks' if said else 'sound'} {mark}",
            color=as_text(VALUE if said == peeks else KEY),
            fontsize=11,
        )
    axes.flat[-1].axis("off")
    axes.flat[-1].text(
        0, 0.5, _summary(right, guess, {k: peeks for k, (_, peeks) in nine_models(d).items()}), va="center", fontsize=10
    )
    show()


def _summary(right: int, guess: str, truth: dict[str, bool]) -> str:
    lines = ["row: output i", "column: token j", "above the line:", "the future", "", f"detector: {right} of 9"]
    if guess:
        hits = sum((letter in guess.upper()) == peeks for letter, peeks in truth.items())
        lines.append(f"your guess: {hits} of 9")
    return "\n".join(lines)


def _tokens(n: int, d: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(n, d, dtype=torch.float64)  # rounding stays far below what is drawn


def _influence(axis, moved: Tensor, title: str) -> None:
    axis.imshow(moved.clamp(SMALLEST, 1), cmap="Purples", norm=LogNorm(SMALLEST, 1))
    steps = [value - 0.5 for value in range(len(moved) + 1)]
    axis.plot([x for x in steps for _ in (0, 1)][1:], [y for y in steps for _ in (0, 1)][:-1], color=KEY, lw=1.5)
    axis.set(title=title, xlabel="", xticks=[], yticks=[])
    axis.spines[:].set_color(OUTPUT)
