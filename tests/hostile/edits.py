"""Edits that turn the released small notebook, honestly solved, into a hostile or a broken one."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

FULL = {"softmax": 2.0, "attend": 3.0, "two_word_example": 1.0}


@dataclass(frozen=True)
class Hostile:
    """One notebook. `tries`: what it is after. `edits` change the notebook in turn; the last may return bytes instead.

    scores: what items must come out at, where that is not full marks. `says`: words that the instructor must find in
    the outputs, the messages or the rejection. `rejected`: the notebook can't be graded at all.
    """

    name: str
    tries: str
    edits: tuple[Callable, ...]
    scores: dict[str, float] = field(default_factory=dict)
    says: str = ""
    rejected: bool = False

    def expected(self) -> dict[str, float]:
        return {**FULL, **self.scores}

    def make(self, base: NotebookNode) -> bytes:
        """The file that is handed in."""
        made = deepcopy(base)
        for edit in self.edits:
            changed = edit(made)
            made = made if changed is None else changed
        return made if isinstance(made, bytes) else nbformat.writes(made).encode()


def find(notebook: NotebookNode, name: str) -> int:
    """The position of the cell with this grade_id."""
    return next(i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def answer(name: str, source: str) -> Callable:
    """Another answer in the cell of an exercise."""

    def edit(notebook):
        notebook.cells[find(notebook, name)].source = source.strip("\n")

    return edit


def early(source: str) -> Callable:
    """A code cell of the student's own after the setup cell."""
    return lambda notebook: notebook.cells.insert(find(notebook, "setup") + 1, new_code_cell(source.strip("\n")))


def late(source: str) -> Callable:
    """A code cell of the student's own at the end."""
    return lambda notebook: notebook.cells.append(new_code_cell(source.strip("\n")))


def text(source: str) -> Callable:
    """A markdown cell of the student's own at the end."""
    return lambda notebook: notebook.cells.append(new_markdown_cell(source))


def on_cell(name: str, change: Callable) -> Callable:
    """`change(cell)` on the cell with a grade_id."""

    def edit(notebook):
        change(notebook.cells[find(notebook, name)])

    return edit


def on_json(change: Callable) -> Callable:
    """`change(data)` on the notebook as JSON; returns the file."""

    def edit(notebook):
        data = json.loads(nbformat.writes(notebook))
        return json.dumps(change(data) or data).encode()

    return edit


ZEROS = "def softmax(x, dim):\n    return torch.zeros_like(x)\n"
