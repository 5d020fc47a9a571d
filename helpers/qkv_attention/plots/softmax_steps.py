"""The softmax step by step, as rows of bars that turn into one another; then a constant is added: nothing happens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from helpers.board import number
from helpers.film import play
from helpers.style import OUTPUT, QUERY, WEIGHT

from .bar_rows import SCORE, SHARE, Row, bars_film

__all__ = ["softmax_steps"]

CONSTANTS = (1, 2, 3, 4)
"""What is added to all scores once the shares are there."""


def softmax_steps(scores: Sequence[float]) -> None:
    """Scores → less the largest → exponentials → shares of 1, as rows of bars, and the same with a constant added."""
    play(_film(torch.tensor(scores, dtype=torch.float64)))


def _film(scores: Tensor) -> str:
    described = (
        f"{len(scores)} scores as bars, step by step: the largest is taken off, exponentials, shares of 1. Then a "
        "constant is added to all scores, and the shares stay."
    )
    names = [f"x{place}" for place in range(1, len(scores) + 1)]
    return bars_film(lambda constant: _rows(scores, constant), CONSTANTS, _said, described, names)


def _rows(scores: Tensor, constant: int) -> list[Row]:
    moved = scores + constant
    less = moved - moved.max()
    return [
        Row(f"scores + {constant}" if constant else "scores", moved, SCORE, QUERY),
        Row("less the largest", less, SCORE, QUERY),
        Row("e to that power", less.exp(), SHARE, OUTPUT),
        Row("divided by their sum", less.softmax(0), SHARE, WEIGHT),
    ]


def _said(shown: int, constant: int, rows: list[Row]) -> str:
    scores, _, powers, shares = (row.values for row in rows)
    before, after = (", ".join(map(number, values.tolist())) for values in (scores, shares))
    sum_ = number(powers.sum().item())
    if constant:
        return f"{constant} more for all scores: {before}. Nothing happens to the rest: the shares stay {after}."
    return (
        f"{len(scores)} scores: {before}. They may be any numbers.",
        f"Take the largest, {number(scores.max().item())}, off all of them: now none is above 0.",
        f"e to that power: the largest becomes 1, and all are positive. Their sum is {sum_}.",
        f"Divided by their sum, {sum_}: {after}. Now they are shares, which sum to 1.",
    )[shown - 1]
