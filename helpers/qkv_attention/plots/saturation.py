"""The softmax of scores that grow, as a film: shares that settle, and derivatives that vanish."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch

from helpers.film import film, play
from helpers.style import OUTPUT, WEIGHT

__all__ = ["growing_scores"]

FACTORS = (0.25, 0.5, 1, 2, 4, 8, 16)


def growing_scores(scores: Sequence[float]) -> None:
    """The shares of scores that are multiplied by a factor, and how much each share still moves with its own score."""
    play(_film(torch.tensor(scores, dtype=torch.float64)))


def _film(scores: torch.Tensor) -> str:
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="none")
    figure.subplots_adjust(left=0.06, right=0.98, top=0.88, bottom=0.2)
    names = [f"{score:g}" for score in scores.tolist()]

    def frame(factor: float) -> str:
        shares = (factor * scores).softmax(0)
        slopes = shares * (1 - shares)  # the diagonal of the Jacobian
        panels = (("shares", shares, WEIGHT, 1.15), ("derivative of each share by its own score", slopes, OUTPUT, 0.3))
        for axis, (title, values, colour, top) in zip(axes, panels, strict=True):
            axis.clear()
            axis.bar_label(axis.bar(names, values, color=colour), fmt="%.3f", fontsize=9)
            axis.set(ylim=(0, top), xlabel=f"scores, all multiplied by {factor:g}")
            axis.set_title(title, fontsize=10.5)
        said = (
            f"Scores times {factor:g}: the largest share is {shares.max():.3f}, and no derivative is above "
            f"{slopes.max():.2g}."
        )
        return said + (" Nothing moves any more, whatever the right answer is." if slopes.max() < 0.001 else "")

    described = (
        "Bars of softmax shares and of their derivatives while all scores are multiplied by 0.25 to 16: one "
        "share takes all, and the derivatives vanish."
    )
    return film(figure, frame, FACTORS, described, milliseconds=1500, still=2)
