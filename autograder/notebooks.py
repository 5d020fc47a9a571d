"""Reading, writing and looking into notebooks: what this package knows of nbformat and of nbgrader's cell metadata."""

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.whole_files import SHARED, write_whole

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

STAMP = "attention_course"
"""Where a graded notebook's metadata say what was repaired in it, and which result it shows."""


def read(path: Path) -> NotebookNode:
    """The notebook in a file, as nbformat 4. Raises what nbformat raises when it is none."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> NotebookNode:
    with warnings.catch_warnings():  # notebooks without cell ids, or with doubled ones, are mended as they are read
        warnings.simplefilter("ignore")
        return nbformat.reads(text, as_version=4)


def write(notebook: NotebookNode, path: Path) -> None:
    write_whole(path, to_text(notebook), SHARED)


def to_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def nbgrader_metadata(cell: NotebookNode) -> dict:
    """nbgrader's metadata of the cell; nothing where it has none, or where they have been spoilt."""
    found = cell.metadata.get("nbgrader")
    return found if isinstance(found, dict) else {}


def grade_id(cell: NotebookNode) -> str:
    """The cell's grade_id; "" where it has no well-formed one."""
    found = nbgrader_metadata(cell).get("grade_id")
    return found if isinstance(found, str) else ""


def flag(cell: NotebookNode, name: str) -> bool:
    """Whether nbgrader's metadata of the cell says so: `grade`, `solution`, `locked` or `task`."""
    return bool(nbgrader_metadata(cell).get(name, False))


def is_test(cell: NotebookNode) -> bool:
    """Whether code grades this cell."""
    return cell.cell_type == "code" and flag(cell, "grade") and not flag(cell, "solution")


def is_answer(cell: NotebookNode) -> bool:
    """Whether code is to be written in this cell."""
    return cell.cell_type == "code" and flag(cell, "solution")


def is_written(cell: NotebookNode) -> bool:
    """Whether a person grades this cell."""
    return flag(cell, "grade") and (flag(cell, "solution") or cell.cell_type == "markdown")


def points(cell: NotebookNode) -> float:
    return float(cell.metadata.nbgrader.get("points", 0))


def exercise_id(cell: NotebookNode) -> str:
    """The id that the syllabus uses: a test cell's grade_id without `_test`."""
    return grade_id(cell).removesuffix("_test")


def tests(notebook: NotebookNode) -> Iterator[NotebookNode]:
    return (cell for cell in notebook.cells if is_test(cell))


def grade_ids(notebook: NotebookNode) -> set[str]:
    return {grade_id(cell) for cell in notebook.cells if grade_id(cell)}


def by_id(notebook: NotebookNode) -> dict[str, NotebookNode]:
    return {grade_id(cell): cell for cell in notebook.cells if grade_id(cell)}


def assign_cell_ids(cells: Iterable[NotebookNode]) -> None:
    """Gives every cell an id that depends on nothing but the notebook's text: its grade_id, else a hash of its source
    and of how many equal cells come before it. jupytext draws ids at random, so no build would be like another."""
    seen: dict[tuple[str, str], int] = {}
    for cell in cells:
        text = (cell.cell_type, cell.source)
        seen[text] = seen.get(text, 0) + 1
        digest = hashlib.sha256("\0".join((*text, str(seen[text]))).encode()).hexdigest()[:12]
        cell.id = re.sub(r"[^A-Za-z0-9_-]", "-", grade_id(cell) or digest)[:64]
