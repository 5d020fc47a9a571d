"""Which cells need not run while a notebook is graded: those that only draw or measure. They are most of the time.

Such a cell stands in the notebook as it was released, has no mark of nbgrader's, and defines nothing that a cell which
does run reads. A student's own cells, and released ones that a student changed, always run."""

from nbformat import NotebookNode

from autograder.course.global_names import names_bound, names_read
from autograder.judge.config import SPARE


def mark_skipped_cells(notebook: NotebookNode, original: NotebookNode) -> None:
    """Marks the cells of `notebook` that need not run. None is marked where a cell can't be read as plain Python."""
    for cell in notebook.cells:
        cell.metadata.pop(SPARE, None)
    released = {cell.source for cell in original.cells if _is_plain(cell)}
    drawing = [cell for cell in notebook.cells if _is_plain(cell) and cell.source in released]
    running = [cell for cell in notebook.cells if cell.cell_type == "code" and not any(cell is one for one in drawing)]
    try:
        for cell in _spare(drawing, running):
            cell.metadata[SPARE] = True
    except (SyntaxError, ValueError, RecursionError):  # a magic, or a slip: nobody knows what it reads
        return


def _spare(drawing: list[NotebookNode], running: list[NotebookNode]) -> list[NotebookNode]:
    """The cells of `drawing` on which no running cell depends, directly or through another."""
    wanted = set().union(*(names_read(cell.source) for cell in running))
    while needed := [cell for cell in drawing if names_bound(cell.source) & wanted]:
        drawing = [cell for cell in drawing if not any(cell is one for one in needed)]
        wanted = wanted.union(*(names_read(cell.source) for cell in needed))
    return drawing


def _is_plain(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and "nbgrader" not in cell.metadata
