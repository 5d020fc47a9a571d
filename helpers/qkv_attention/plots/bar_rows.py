"""A film of bars: the same numbers after each step, side by side on one floor; then something changes in the first."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from helpers.board import CELL, Board, number
from helpers.film import film
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


def bars_film(
    rows_of: Callable[[int], list[Row]],
    changes: Sequence[int],
    said: Callable[[int, int, list[Row]], str],
    described: str,
    names: Sequence[str],
    hidden: Sequence[bool] = (),
) -> str:
    """The HTML of a film: rows come one after the other, without a change (0), and then all of them stand there after
    each of `changes`.

    said: of a frame, (rows shown, change, all rows) → what is to be seen. names, hidden: of the bars; hidden ones are
    gray."""
    count = len(rows_of(0))
    board = Board(count * WIDTH + (count - 1) * GAP + 2 * MARGIN, FLOOR + DEEP + 1.3)

    def frame(now: tuple[int, int]) -> str:
        shown, change = now
        rows = rows_of(change)
        _draw(board, rows[:shown], names, hidden)
        return said(shown, change, rows)

    frames = [*((shown, 0) for shown in range(1, count + 1)), *((count, change) for change in changes)]
    return film(board, frame, frames, described, milliseconds=1800, still=count - 1)


def _draw(board: Board, rows: Sequence[Row], names: Sequence[str], hidden: Sequence[bool]) -> None:
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
        board.box(middle - half, min(end, FLOOR), 2 * half, abs(FLOOR - end), colour)
    else:
        board.arrow((middle, FLOOR), (middle, end), colour)
    board.text(middle, end + (-9 if value >= 0 else 9) / CELL[1], number(value), colour="black")
