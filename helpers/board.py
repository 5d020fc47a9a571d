"""A board for worked examples: tables of small numbers with named rows and columns; some cells known, some marked."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

import torch
from matplotlib.colors import to_hex, to_rgb
from torch import Tensor

from helpers import paper
from helpers.style import EDGE, MASKED, OUTPUT, as_text, ink

CELL = 40.3, 31.7
"""Width and height of a cell in pixels."""
POINT = 4 / 3
"""Pixels."""
CELLS, LINES, WORDS = range(3)
ANCHOR = {"left": "start", "center": "middle", "right": "end"}
BASELINE = {"center": 0.36, "bottom": -0.2}
"""How far below a place its letters stand, in heights of a letter."""
FLAT = 0.18  # how strong the colour of a cell is where it says nothing about the number
Marks = dict[str, list]
"""Indices of the cells that get a frame (as for a tensor), by the name of their table."""


@dataclass(frozen=True)
class Table:
    """A matrix on a board, with its upper left corner at (left, top).

    first, last: the steps in which its first and its last number become known; in between one more row in every step
    (by_row), or the framed cells alone.
    shade: the larger a number, the darker its cell (0 is white, 1 is full). Numbers of −∞ are grey: masked.
    written: whether the numbers stand in the cells."""

    left: float
    top: float
    values: Tensor
    name: str
    colour: str
    columns: Sequence[str] = ()
    rows: Sequence[str] = ()
    first: int = 0
    last: int = 0
    shade: bool = False
    by_row: bool = False
    written: bool = True

    def known(self, step: int, marked: list) -> Tensor:
        """Which cells are known in a step."""
        known = torch.full(self.values.shape, step >= self.last)
        if self.by_row:
            known[: max(0, step - self.first + 1)] = True
        elif self.first <= step < self.last:
            for index in marked:
                known[index] = True
        return known


class Board:
    """A drawing whose units are cells, as SVG: x to the right, y downwards."""

    def __init__(self, width: float, height: float) -> None:
        self.size = width, height
        self.wipe()

    @property
    def width(self) -> int:
        """Pixels of the page."""
        return round(self.size[0] * CELL[0])

    def wipe(self) -> None:
        """Take everything off."""
        self.words: list[str] = []
        self._layers: tuple[dict[str, list[str]], ...] = ({}, {}, {})  # cells, lines, words: parts by what they share

    def svg(self) -> str:
        """The drawing as it stands, on white."""
        drawn = "".join(f"{group}{''.join(parts)}</g>" for layer in self._layers for group, parts in layer.items())
        return paper.svg(drawn, self.width, round(self.size[1] * CELL[1]))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 9,
        colour: str = OUTPUT,
        ha: str = "center",
        va: str = "center",
        bold: bool = False,
    ) -> None:
        """Words at a place, in lines. size: in points."""
        self.words.append(words)
        readable = as_text(colour) if colour.startswith("#") else colour
        pixels, lines = size * POINT, words.split("\n")
        first = BASELINE[va] - {"center": 0.6, "bottom": 1.2}[va] * (len(lines) - 1)
        weight = "bold" if bold else "normal"
        group = f'<g fill="{readable}" font-size="{pixels:.3g}" text-anchor="{ANCHOR[ha]}" font-weight="{weight}">'
        for place, line in enumerate(lines):
            left, top = x * CELL[0], y * CELL[1] + (first + 1.2 * place) * pixels
            self._put(WORDS, group, f'<text x="{left:.4g}" y="{top:.4g}">{escape(line)}</text>')

    def line(self, *points: tuple[float, float], colour: str = "#000", width: float = 2.0) -> None:
        """A line from point to point."""
        self._put(LINES, f'<g fill="none" stroke="{colour}" stroke-width="{width}">', f'<path d="{_path(points)}"/>')

    def arrow(self, tail: tuple[float, float], tip: tuple[float, float], colour: str, width: float = 2.6) -> None:
        """A line with a head."""
        (left, top), (x, y) = _pixels(*tail), _pixels(*tip)
        angle = math.atan2(y - top, x - left)
        back = lambda far, turn: f"{x - far * math.cos(angle + turn):.1f} {y - far * math.sin(angle + turn):.1f}"
        shaft = f'<path d="M{left:.1f} {top:.1f}L{back(8, 0)}"/>'
        self._put(LINES, f'<g fill="none" stroke="{colour}" stroke-width="{width}">', shaft)
        self._put(LINES, f'<g fill="{colour}">', f'<path d="M{x:.1f} {y:.1f}L{back(11, 0.4)}L{back(11, -0.4)}z"/>')

    def area(
        self, points: Iterable[tuple[float, float]], colour: str, opacity: float = 1.0, layer: int = CELLS
    ) -> None:
        """A filled polygon."""
        self._put(layer, f'<g fill="{colour}" fill-opacity="{opacity}">', f'<path d="{_path(points)}z"/>')

    def box(
        self, left: float, top: float, width: float, height: float, colour: str, words: str = "", *, size: float = 9
    ) -> None:
        """A filled rectangle, with words in it."""
        self._put(CELLS, f'<g fill="{colour}">', f'<path d="{_box(left, top, width, height)}"/>')
        if words:
            self.text(left + width / 2, top + height / 2, words, colour=ink(colour), size=size)

    def step(self, tables: dict[str, Table], steps: Sequence[Callable[[], tuple[str, Marks]]], step: int) -> str:
        """Draw a step on an empty board. `steps[step]()` gives what it says (returned), and the cells to frame."""
        self.wipe()
        caption, marks = steps[step]()
        self.draw(tables, step, marks)
        return caption

    def draw(self, tables: dict[str, Table], step: int, marks: Marks) -> None:
        """All tables as they stand in a step."""
        for name, table in tables.items():
            marked = marks.get(name, [])
            self.table(table, table.known(step, marked), marked)

    def table(self, table: Table, known: Tensor, marked: list) -> None:
        """One table. Cells that aren't known yet stay empty."""
        values, left, top = table.values, table.left, table.top
        for i, j in _indices(values.shape, [...]):
            ground = _ground(table, values[i, j].item(), bool(known[i, j]))
            words = number(values[i, j].item()) if known[i, j] and table.written else ""
            self.box(left + j + 0.03, top + i + 0.04, 0.94, 0.92, ground, words, size=8.5)
        for i, j in _indices(values.shape, marked):
            box = _box(left + j + 0.05, top + i + 0.06, 0.9, 0.88)
            self._put(LINES, '<g fill="none" stroke="#000" stroke-width="2.4">', f'<path d="{box}"/>')
        above = top - (1.1 if table.columns else 0.4)
        self.text(left + values.shape[1] / 2, above, table.name, colour=table.colour, va="bottom", size=9.5)
        for j, word in enumerate(table.columns):
            self.text(left + j + 0.5, top - 0.4, word, size=8.5)
        for i, word in enumerate(table.rows):
            self.text(left - 0.15, top + i + 0.5, word, ha="right")

    def _put(self, layer: int, group: str, part: str) -> None:
        self._layers[layer].setdefault(group, []).append(part)


def _ground(table: Table, value: float, known: bool) -> str:
    """The colour of a cell."""
    if not known:
        return MASKED
    if math.isinf(value):
        return EDGE
    strength = min(1.0, max(0.0, value)) if table.shade else FLAT
    return faint(table.colour, strength)


def faint(colour: str, strength: float) -> str:
    """The colour thinned with white: 1 is as it is, 0 white."""
    return to_hex([1 - strength * (1 - part) for part in to_rgb(colour)])


def _box(left: float, top: float, width: float, height: float) -> str:
    x, y, across, down = left * CELL[0], top * CELL[1], width * CELL[0], height * CELL[1]
    return f"M{x:.4g} {y:.4g}h{across:.3g}v{down:.3g}h{-across:.3g}z"


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join("{:.4g} {:.4g}".format(*_pixels(*point)) for point in points)


def _pixels(x: float, y: float) -> tuple[float, float]:
    return x * CELL[0], y * CELL[1]


def _indices(shape: torch.Size, marked: Iterable) -> list[list[int]]:
    """Row and column of every cell that an index in `marked` names."""
    framed = torch.zeros(shape, dtype=torch.bool)
    for index in marked:
        framed[index] = True
    return framed.nonzero().tolist()


def number(value: float) -> str:
    """As it stands in a cell: whole numbers whole, others with two decimals."""
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    text = f"{value:.0f}" if abs(value - round(value)) < 1e-9 else f"{value:.2f}"
    return text.replace("-", "−")


def numbers(row: Tensor) -> str:
    """A row as it stands in a sentence: (0, 2)."""
    return "(" + ", ".join(map(number, row.tolist())) + ")"
