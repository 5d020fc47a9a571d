"""A board for worked examples: tables of small numbers with named rows and columns; some cells known, some marked."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.style import EDGE, MASKED, OUTPUT, as_text, ink

CELL = 0.42, 0.33
"""Width and height of a cell in inches."""
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
    """A figure whose units are cells: x to the right, y downwards."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = plt.figure(figsize=(width * CELL[0], height * CELL[1]), layout="none")
        self.size = width, height
        self.wipe()

    def wipe(self) -> None:
        """Take everything off."""
        self.figure.clear()
        self.axis = self.figure.add_axes((0, 0, 1, 1))
        self.axis.set(xlim=(0, self.size[0]), ylim=(self.size[1], 0))
        self.axis.axis("off")

    def text(self, x: float, y: float, words: str, *, size: float = 9, colour: str = OUTPUT, **how) -> None:
        """Words at a place; centred, unless `how` says otherwise."""
        readable = as_text(colour) if colour.startswith("#") else colour
        self.axis.text(x, y, words, fontsize=size, color=readable, **{"ha": "center", "va": "center"} | how)

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
        strength = values.nan_to_num().clamp(0, 1) if table.shade else torch.full(values.shape, FLAT)
        faces = self._cells(table, known, strength)
        for i, j in _indices(values.shape, marked):
            self.axis.add_patch(Rectangle((left + j + 0.05, top + i + 0.06), 0.9, 0.88, fill=False, lw=1.8))
        for i, j in known.nonzero().tolist() if table.written else ():
            words, colour = number(values[i, j].item()), ink(to_hex(faces[i, j].tolist()))
            self.text(left + j + 0.5, top + i + 0.52, words, colour=colour, size=8.5)
        above = top - (1.1 if table.columns else 0.4)
        self.text(left + values.shape[1] / 2, above, table.name, colour=table.colour, va="bottom", size=9.5)
        for j, word in enumerate(table.columns):
            self.text(left + j + 0.5, top - 0.4, word, size=8)
        for i, word in enumerate(table.rows):
            self.text(left - 0.15, top + i + 0.5, word, ha="right")

    def _cells(self, table: Table, known: Tensor, strength: Tensor) -> Tensor:
        """Draws the boxes of a table as one artist, which is quick. Returns their colours, (rows, columns, 3)."""
        faces = torch.tensor(to_rgb(table.colour)) * strength[..., None] + 1 - strength[..., None]
        faces[table.values.isinf()] = torch.tensor(to_rgb(EDGE), dtype=faces.dtype)
        faces[~known] = torch.tensor(to_rgb(MASKED), dtype=faces.dtype)
        corners = [(table.left + j + 0.03, table.top + i + 0.04) for i, j in _indices(known.shape, [...])]
        boxes = [Rectangle(corner, 0.94, 0.92) for corner in corners]
        self.axis.add_collection(PatchCollection(boxes, facecolors=faces.flatten(0, 1).tolist(), lw=0), autolim=False)
        return faces


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
