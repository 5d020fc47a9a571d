"""Rows of bars side by side: the same numbers after each step, on one floor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from helpers.board import CELL, Board, number
from helpers.style import EDGE, OUTPUT

WIDTH, GAP, MARGIN = 4.0, 0.8, 0.3  # of a row, between two, and beside all, in cells
FLOOR, DEEP = 4.6, 2.0  # where all bars stand, and how far down is −∞
SCORE, SHARE = 0.5, 3.0  # how high one point of score and the whole of 1 are


@dataclass(frozen=True)
class Row:
    """The numbers after a step, with the height of 1 and their colour."""

    name: str
    values: Tensor
    unit: float
    colour: str


def bar_board(rows: int) -> Board:
    """An empty board with room for some rows."""
    return Board(rows * WIDTH + (rows - 1) * GAP + 2 * MARGIN, FLOOR + DEEP + 1.3)


def draw_rows(board: Board, rows: Sequence[Row], names: Sequence[str], hidden: Sequence[bool] = ()) -> None:
    """Draw rows on an empty board, with the names of the bars below; hidden ones are gray."""
    board.wipe()
    for index, row in enumerate(rows):
        left = MARGIN + index * (WIDTH + GAP)
        board.text(left + WIDTH / 2, 0.5, row.name, colour=row.colour, bold=True)
        board.line((left, FLOOR), (left + WIDTH, FLOOR), colour=EDGE, width=1)
        pitch = WIDTH / len(names)
        for place, (name, value) in enumerate(zip(names, row.values.tolist(), strict=True)):
            middle = left + (place + 0.5) * pitch
            colour = EDGE if hidden and hidden[place] else row.colour
            _bar(board, middle, 0.38 * pitch, value, row.unit, colour)
            board.text(middle, board.size[1] - 0.4, name, colour=OUTPUT)


def _bar(board: Board, middle: float, half: float, value: float, unit: float, colour: str) -> None:
    """A bar with its number at its end; −∞ is an arrow that goes on."""
    end = FLOOR - unit * value if math.isfinite(value) else FLOOR + DEEP - 0.4
    if math.isfinite(value):
        low, high = middle - half, middle + half
        board.area([(low, FLOOR), (high, FLOOR), (high, end), (low, end)], colour)
    else:
        board.arrow((middle, FLOOR), (middle, end), colour)
    board.text(middle, end + (-9 if value >= 0 else 9) / CELL[1], number(value), colour="black")
