"""The size of a tile as a slider: what it takes on the chip, and what it saves on the way there."""

import math
from collections.abc import Callable

from helpers.board import Board
from helpers.film import film, play
from helpers.style import EDGE, KEY, OUTPUT, QUERY, RED, waits_for

from .. import traffic

__all__ = ["tile_size_film"]

TICKS = [digit * 10**power for power in range(7) for digit in (1, 3)]
TOP, FLOOR = 1.4, 7.8  # of both pictures, in cells of the board

ROWS = (8, 16, 32, 64, 128, 192, 256, 328, 456, 768)
"""128, 328 and 456 rows fill a multiprocessor of a T4, an A100 and an H100 where d = 64 and a number takes 2 bytes."""


@waits_for("hbm_traffic")
def tile_size_film(standard: Callable, tiled: Callable, n: int = 8192, d: int = 64) -> None:
    """The rows B of a tile grow: four tiles fill more of the chip, and keys and values travel less often."""
    play(_film(standard, tiled, n, d))


def _film(standard: Callable, tiled: Callable, n: int, d: int, size: int = 2) -> str:
    held = [4 * rows * d * size for rows in ROWS]  # bytes of a tile each of Q, K, V and O
    moved, far = [tiled(n, d, space, size) for space in held], standard(n, d, size)
    board = Board(19.4, 9.6)

    def frame(i: int) -> str:
        board.wipe()
        _chip(board, held[i] / 1024)
        _way(board, [value / 1e6 for value in moved], far / 1e6, i)
        return _told(ROWS[i], held[i], moved[i], far, -(-n // ROWS[i]))

    described = (
        f"Tiles of {ROWS[0]} to {ROWS[-1]} rows, one after the other: the memory that four of them take on "
        "the chip rises in step, and the bytes that attention moves fall in step."
    )
    return film(board, frame, range(len(ROWS)), described, milliseconds=2500, still=4)


def _chip(board: Board, kilobytes: float) -> None:
    """A bar, under the shared memory of three GPUs."""
    board.text(3.3, 0.6, "four tiles on the chip", colour="black", size=10)
    height = lambda kilobytes: FLOOR - kilobytes / 410 * (FLOOR - TOP)
    board.box(0.6, height(kilobytes), 1.6, FLOOR - height(kilobytes), QUERY)
    board.text(1.4, height(kilobytes) - 0.4, f"{kilobytes:.0f} kB", colour=QUERY, size=10)
    board.line((0.2, FLOOR), (6.4, FLOOR), colour=EDGE, width=1)
    for machine, space in traffic.ON_CHIP.items():
        y, fits = height(space / 1024), kilobytes <= space / 1024
        board.line((0.2, y), (6.4, y), colour=OUTPUT if fits else RED, width=1.5)
        words = f"{machine.name.split()[0]}: {space // 1024} kB{'' if fits else ', too little'}"
        board.text(6.4, y - 0.4, words, ha="right", colour=OUTPUT if fits else RED)


def _way(board: Board, moved: list[float], far: float, now: int) -> None:
    """MB moved over the rows of a tile, both logarithmic; the size of now as a dot."""
    least, most = min(moved) / 1.5, max(*moved, far) * 1.5
    across = lambda rows: 8.4 + 10.6 * math.log(rows / 7) / math.log(1000 / 7)
    height = lambda value: FLOOR - (FLOOR - TOP) * math.log(value / least) / math.log(most / least)
    board.text(13.7, 0.6, "MB moved for one head", colour="black", size=10)
    board.line((8.4, TOP), (8.4, FLOOR), (19, FLOOR), colour=EDGE, width=1)
    for rows in (8, 16, 32, 64, 128, 256, 512):
        board.text(across(rows), FLOOR + 0.5, str(rows))
    board.text(13.7, FLOOR + 1.2, "rows B of a tile")
    for value in (value for value in TICKS if least < value < most):
        board.text(8.2, height(value), f"{value:,.0f}", ha="right")
    board.line((8.4, height(far)), (19, height(far)), colour=KEY, width=3)
    board.text(19, height(far) - 0.5, f"standard: {far:,.0f} MB", ha="right", colour=KEY)
    board.line(*[(across(rows), height(value)) for rows, value in zip(ROWS, moved)], colour=QUERY)
    x, y = across(ROWS[now]), height(moved[now])
    board.text(x, y, "●", size=13, colour=QUERY)
    board.text(x - 0.4, y + 0.5, f"{moved[now]:,.0f} MB", ha="right", colour=QUERY, size=10)


def _told(rows: int, held: int, moved: int, far: int, walks: int) -> str:
    """What is to be seen: where it fits, how often keys and values travel, and against standard attention."""
    names = [machine.name.split()[0] for machine, space in traffic.ON_CHIP.items() if held <= space]
    where = f"fit on {'all three' if len(names) == 3 else ' and '.join(names)}" if names else "fit on none of the three"
    ratio = far / moved
    gain = (
        f"{ratio:.1f} times fewer than"
        if ratio > 1.05
        else f"{1 / ratio:.1f} times as many as"
        if ratio < 0.95
        else "as many as"
    )
    return (
        f"Tiles of {rows} rows take {held / 1024:.0f} kB and {where}. Keys and values travel {walks} times: "
        f"{moved / 1e6:,.0f} MB, {gain} the standard way."
    )
