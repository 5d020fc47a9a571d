"""The softmax of scores that grow, as a film: shares that settle, and derivatives that vanish."""

from collections.abc import Sequence

import torch

from helpers.board import Board
from helpers.film import film, play
from helpers.style import EDGE, OUTPUT, WEIGHT

__all__ = ["growing_scores"]

FACTORS = (0.25, 0.5, 1, 2, 4, 8, 16)


def growing_scores(scores: Sequence[float]) -> None:
    """The shares of scores that are multiplied by a factor, and how much each share still moves with its own score."""
    play(_film(torch.tensor(scores, dtype=torch.float64)))


def _film(scores: torch.Tensor) -> str:
    board = Board(19.4, 8.4)

    def frame(factor: float) -> str:
        shares = (factor * scores).softmax(0)
        slopes = shares * (1 - shares)  # the diagonal of the Jacobian
        board.wipe()
        for left, title, values, colour, top in (
            (0.5, "shares", shares, WEIGHT, 1),
            (10.2, "derivative of each share by its own score", slopes, OUTPUT, 0.25),
        ):
            board.text(left + 4.3, 0.5, title, colour="black", size=10)
            board.line((left, 6.6), (left + 8.6, 6.6), colour=EDGE, width=1)
            _bars(board, left, scores.tolist(), values.tolist(), top, colour)
            board.text(left + 4.3, 7.9, f"scores, all multiplied by {factor:g}")
        said = (
            f"Scores times {factor:g}: the largest share is {shares.max():.3f}, and no derivative is above "
            f"{slopes.max():.2g}."
        )
        return said + (" Nothing moves any more, whatever the right answer is." if slopes.max() < 0.001 else "")

    described = (
        "Bars of softmax shares and of their derivatives while all scores are multiplied by 0.25 to 16: one "
        "share takes all, and the derivatives vanish."
    )
    return film(board, frame, FACTORS, described, milliseconds=1500, still=2)


def _bars(board: Board, left: float, scores: list[float], values: list[float], top: float, colour: str) -> None:
    """top: the value of the tallest bar that can be."""
    wide = 8.6 / len(scores)
    for i, (score, value) in enumerate(zip(scores, values, strict=True)):
        high = 4.6 * value / top
        board.box(left + wide * (i + 0.15), 6.6 - high, 0.7 * wide, high, colour)
        board.text(left + wide * (i + 0.5), 6.1 - high, f"{value:.3f}", colour="black")
        board.text(left + wide * (i + 0.5), 7.1, f"{score:g}".replace("-", "−"))
