"""A submission put back into the form that nbgrader can sanitise: copies told from originals, locked cells that are
gone brought back, metadata that was changed reset. Without it, a copied cell ends nbgrader's whole batch, a deleted
test cell is a silent 0, and a cell of another unit fails the notebook.

It is a step of nbgrader's own (see nbgrader_config.py), so `nbgrader autograde` and formgrader have it too."""

from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder import notebooks


class Repair(NbGraderPreprocessor):
    """Repairs a submission against the instructor's notebook of its assignment, where that one is at hand."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        course, assignment = self.parent.parent.coursedir, resources["nbgrader"]["assignment"]
        folder = course.format_path(course.source_directory, ".", assignment)
        original = Path(folder) / f"{resources['nbgrader']['notebook']}.ipynb"
        if original.is_file():
            for line in repair(nb, notebooks.read(original)):
                self.log.info("%s: %s", resources["nbgrader"]["student"], line)
        return nb, resources


def repair(notebook: NotebookNode, original: NotebookNode) -> list[str]:
    """Repairs the notebook in place. Returns one line for each thing that was mended."""
    wanted = notebooks.by_id(original)
    lines = _drop_copies(notebook, wanted)
    lines += _restore_metadata(notebook, wanted)
    return lines + _restore_cells(notebook, original)


def _drop_copies(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Only the last of several cells with one id stays marked, as in nbgrader: its definitions are those that count."""
    lines, seen = [], set()
    for cell in reversed(notebook.cells):
        name = notebooks.grade_id(cell)
        if "nbgrader" in cell.metadata and (name in seen or name not in wanted):
            del cell.metadata["nbgrader"]
            if name:
                lines.append(
                    f"a copy of cell {name} was set aside" if name in seen else f"cell {name} is of another unit"
                )
        seen.add(name)
    return lines


def _restore_metadata(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Every marked cell gets the type and the nbgrader metadata that it was released with."""
    lines = []
    for index, cell in enumerate(notebook.cells):
        name = notebooks.grade_id(cell)
        if name is None:
            continue
        if cell.cell_type != wanted[name].cell_type:
            notebook.cells[index] = cell = _retyped(cell, wanted[name].cell_type)
            lines.append(f"cell {name} was turned back into a {cell.cell_type} cell")
        cell.metadata["nbgrader"] = deepcopy(wanted[name].metadata["nbgrader"])
    return lines


def _restore_cells(notebook: NotebookNode, original: NotebookNode) -> list[str]:
    """Locked and graded cells that are gone come back where they stood: after the marked cell that was before them."""
    lines, before = [], None
    here = {notebooks.grade_id(cell) for cell in notebook.cells}
    for cell in original.cells:
        name = notebooks.grade_id(cell)
        if name is None:
            continue
        if name not in here and (notebooks.flag(cell, "locked") or notebooks.flag(cell, "grade")):
            notebook.cells.insert(_place_after(notebook, before), _blank(cell))
            lines.append(f"cell {name} was missing and has been put back")
            here.add(name)
        before = name if name in here else before
    return lines


def _place_after(notebook: NotebookNode, name: str | None) -> int:
    """The position after the cell with this id; the top of the notebook where there is none."""
    return next(
        (index + 1 for index, cell in enumerate(notebook.cells) if name and notebooks.grade_id(cell) == name), 0
    )


def _blank(cell: NotebookNode) -> NotebookNode:
    """The cell as released, but an answer is left empty: nobody is handed the model answer as their own."""
    copy = deepcopy(cell)
    if notebooks.flag(cell, "solution"):
        copy.source = ""
    return copy


def _retyped(cell: NotebookNode, cell_type: str) -> NotebookNode:
    make = new_code_cell if cell_type == "code" else new_markdown_cell
    return make(cell.source, metadata=cell.metadata, id=cell.id)
