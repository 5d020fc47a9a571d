"""The way through the course, as a line of the subway: its units, what is made in each, and what each needs.
`python -m helpers.start_here.plots.course_map FILE.svg` writes it."""

import json
import math
import sys
from pathlib import Path

from helpers.board import CELL, Board
from helpers.film import play
from helpers.paper import image
from helpers.style import EDGE, OUTPUT, QUERY, ink

__all__ = ["course_map"]

UNITS = Path(__file__).parents[2] / "units.json"  # `attn build` makes it
NEEDS = {
    "00": "",
    "01": "00",
    "02": "00",
    "03": "02",
    "04": "02 03",
    "05": "04",
    "06": "05",
    "07": "04",
    "08": "04 05 07",
    "09": "02 07",
    "10": "02 07",
}
COMES_BACK = {"10": "01"}
"""Unit → an earlier one that it doesn't need, and whose idea it takes up again."""
TRACKS = dict(zip(NEEDS, (1, 0, 1, 1, 1, 2, 3, 1, 2, 2, 1), strict=True))
"""The track on which a unit's station lies, from the left."""
MAKES = {
    "00": "your first green card",
    "01": "a layer that waits, one that doesn't, and a scan",
    "02": "attention, from the softmax up",
    "03": "every kind of mask, and a detector of models that peek",
    "04": "many heads, and a circuit that copies, set by hand",
    "05": "a language model that tells stories",
    "06": "a translator, and a map of what it looks at",
    "07": "formulas that count what PyTorch counts",
    "08": "a cache: the same text, sooner",
    "09": "flash attention, with kernels of your own",
    "10": "attention that costs less, and what it forgets",
}
ROW, ACROSS = 1.5, 0.9
"""From station to station and from track to track, in cells."""
LINE, AGAIN, STATION = 6.0, 2.0, 12.0
"""How wide lines are, and a station's radius, in pixels."""


def course_map() -> None:
    """Show the map."""
    needs = "; ".join(f"unit {unit} needs {needs.replace(' ', ' and ')}" for unit, needs in NEEDS.items() if needs)
    again = "; ".join(f"unit {unit} takes up an idea of {earlier}" for unit, earlier in COMES_BACK.items())
    words = (
        f"A map of the course, as a subway line with a station per unit, 00 to 10 from top to bottom: what you make in "
        f"each, and its points. {needs[0].upper()}{needs[1:]}. {again[0].upper()}{again[1:]}, which no unit needs."
    )
    play(image(_drawn().svg().encode(), words, sharp=1))


def _drawn() -> Board:
    units = json.loads(UNITS.read_text(encoding="utf-8"))
    board = Board(13, ROW * len(NEEDS))
    for unit, earlier in COMES_BACK.items():
        board.line(*_way(earlier, unit), colour=EDGE, width=AGAIN)
    for unit in NEEDS:
        for needed in _directly(unit):
            board.line(*_way(needed, unit), colour=QUERY, width=LINE)
    for unit in NEEDS:
        _station(board, unit, units[unit]["title"], sum(one["points"] for one in units[unit]["graded"]))
    return board


def _place(unit: str) -> tuple[float, float]:
    return 0.6 + ACROSS * TRACKS[unit], ROW * (list(NEEDS).index(unit) + 0.5)


def _way(source: str, target: str) -> list[tuple[float, float]]:
    """Down the track of the one, and over to the other at the end."""
    (x, top), (_, y) = _place(source), _place(target)
    return [(x, top), (x, y - 0.9 * ROW), _place(target)]


def _station(board: Board, unit: str, title: str, points: int) -> None:
    (x, y), left = _place(unit), 0.6 + ACROSS * (max(TRACKS.values()) + 0.8)
    turns = [math.tau * step / 24 for step in range(26)]
    ring = [(x + STATION / 2 * math.cos(a) / CELL[0], y + STATION / 2 * math.sin(a) / CELL[1]) for a in turns]
    board.line(*ring, colour=QUERY, width=STATION)  # as wide as far: a disk, above all that is drawn so far
    board.text(x, y, unit, colour=ink(QUERY), bold=True)
    board.text(left, y - 0.3, title, colour="black", ha="left", bold=True)
    board.text(left, y + 0.3, MAKES[unit], colour=OUTPUT, ha="left")
    board.text(board.size[0] - 0.2, y - 0.3, f"{points} points", colour=OUTPUT, ha="right")


def _directly(unit: str) -> list[str]:
    """What a unit needs that isn't needed by something else that it needs."""
    needed = NEEDS[unit].split()
    return [one for one in needed if not any(one in _all(other) for other in needed if other != one)]


def _all(unit: str) -> set[str]:
    """All that comes before a unit."""
    direct = set(NEEDS[unit].split())
    return direct.union(*map(_all, direct)) if direct else set()


def main(file: str) -> None:
    """Write the map as SVG: the same bytes for the same course."""
    Path(file).write_text(_drawn().svg() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
