"""The rounds of a scan as a film: sums that double their reach."""

from helpers.board import Board
from helpers.film import film, play
from helpers.style import KEY, MASKED, OUTPUT, QUERY

__all__ = ["scan_film"]

NUMBERS = (3, 1, 4, 1, 5, 9, 2, 6)
WIDE, HIGH = 2.2, 2.6
"""From number to number and from round to round, in cells of the board."""


def scan_film() -> None:
    """Running sums of eight numbers in three rounds (Hillis & Steele, 1986), one round per frame."""
    play(_film())


def rounds(numbers: tuple[int, ...] = NUMBERS) -> list[list[int]]:
    """The row of partial sums before the first round and after each."""
    rows, reach = [list(numbers)], 1
    while reach < len(numbers):
        last = rows[-1]
        rows.append([value + (last[i - reach] if i >= reach else 0) for i, value in enumerate(last)])
        reach *= 2
    return rows


def _film() -> str:
    rows = rounds()
    board = Board(19.4, HIGH * len(rows) - 0.6)

    def frame(now: int) -> str:
        board.wipe()
        for step, row in enumerate(rows[: now + 1]):
            board.text(1.7, HIGH * step + 1, f"round {step}" if step else "start", ha="right")
            for i, value in enumerate(row):
                complete = QUERY if i < 2**step else MASKED
                board.box(2.2 + WIDE * i, HIGH * step + 0.5, 1.2, 1, complete, str(value), size=11)
                if step and i >= 2 ** (step - 1):
                    _arrow(board, i - 2 ** (step - 1), i, step, KEY)
                    _arrow(board, i, i, step, OUTPUT)
        return _said(now, rows)

    described = (
        "Eight numbers, and below them the rows of partial sums after each of three rounds; the share that is "
        "complete doubles."
    )
    return film(board, frame, range(len(rows)), described, milliseconds=2500, still=1)


def _arrow(board: Board, source: int, target: int, step: int, colour: str) -> None:
    tail, tip = (2.8 + WIDE * source, HIGH * (step - 1) + 1.6), (2.8 + WIDE * target, HIGH * step + 0.4)
    board.arrow(tail, tip, colour, width=1.6)


def _said(now: int, rows: list[list[int]]) -> str:
    if now == 0:
        return f"Eight numbers. Wanted: all running sums. The first one, {rows[0][0]}, is complete as it stands (blue)."
    reach, n = 2 ** (now - 1), len(rows[0])
    last = f"{rows[now - 1][-1 - reach]} + {rows[now - 1][-1]} = {rows[now][-1]}"
    said = (
        f"Round {now}: every number adds "
        f"{f'the one {reach} places to its left' if reach > 1 else 'its left neighbor'}, all at once; the last is "
        f"{last}. A number covers up to {2 * reach} elements now, and {min(2 * reach, n)} of {n} are complete."
    )
    return said + (f" A chain would need {n - 1} rounds." if 2 * reach >= n else "")
