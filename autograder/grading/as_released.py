"""Whether a hand-in is the file that was given out: students hand in the one they downloaded instead of the one they
saved."""

from collections.abc import Iterator

from nbformat import NotebookNode

from autograder import notebooks
from autograder.grading.repair import CODE_STUB, TEXT_STUB, is_badge, visible


def is_as_released(notebook: NotebookNode, original: NotebookNode) -> bool:
    """Whether it says what the release of `original` says in all cells that a student may change."""
    locked = {_said(visible(cell.source)) for cell in original.cells if notebooks.flag(cell, "locked")}
    free = {_said(_released(cell)) for cell in _free(original)}
    return {_said(cell.source) for cell in _free(notebook)} - locked - {""} == free - locked - {""}


def _free(notebook: NotebookNode) -> Iterator[NotebookNode]:
    return (cell for cell in notebook.cells if not (notebooks.flag(cell, "locked") or is_badge(cell)))


def _released(cell: NotebookNode) -> str:
    return TEXT_STUB if notebooks.is_written(cell) else visible(cell.source)


def _said(text: str) -> str:
    """Without white space, and without the stub, which is in the release alone."""
    return "".join(text.split()).replace("".join(CODE_STUB.split()), "")
