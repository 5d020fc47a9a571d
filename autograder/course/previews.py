"""Pictures that a released notebook shows before anybody has run it: what its cells draw without an answer.

`attn build --pictures` draws them (see render_previews.py) and keeps them beside the unit's source, as files and a list
of them. `attn build` only puts them in: that is quick, and its bytes don't depend on the version of matplotlib. A
picture belongs to a cell by the cell's id, which is made of its text: a cell that was changed has none until it is
drawn again, and lint says so."""

import ast
import builtins
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import notebooks
from autograder.course import dependencies
from autograder.course.global_names import names_bound, names_read

FOLDER = "pictures"
"""The folder beside a unit's source; nbgrader is told to leave it out (nbgrader_config.py)."""
LIST = "pictures.json"
SHARP = 1.5
"""Pixels of a picture to one of the page."""
LIMIT = 300_000
"""Characters that the pictures of a unit may add to its notebook."""


def add_previews(notebook: NotebookNode, folder: Path) -> None:
    """Gives the cells of a released notebook the pictures that are kept for them below the unit's folder."""
    kept = read(folder)
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.get("id") in kept:
            cell.outputs = [_output(folder / FOLDER, picture) for picture in kept[cell.id]["pictures"]]


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What is kept for a unit: a cell's id → drawn_from (a digest) and pictures (file and alt)."""
    path = folder / FOLDER / LIST
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def problems(notebook: NotebookNode, folder: Path, number: str) -> Iterator[str]:
    """One line where the pictures kept are not those that would be drawn now."""
    wanted, kept = drawn_from(notebook), {name: one["drawn_from"] for name, one in read(folder).items()}
    changed = [name for name in wanted | kept if wanted.get(name) != kept.get(name)]
    if changed:
        sources = {cell.id: cell.source.split("\n")[0] for cell in notebook.cells}
        yield (
            f"its pictures are not what its cells draw now ({len(changed)} of them, the first: "
            f"`{sources.get(changed[0], 'a cell that is gone')}`): run `attn build --pictures {number}` and look at "
            f"them"
        )


def drawn_from(notebook: NotebookNode) -> dict[str, str]:
    """The cells that draw without an answer, by id, and a digest of their text and of what draws it."""
    return {cell.id: _digest(cell.source) for cell in drawing(notebook)}


def drawing(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that call pictures and need nothing but the setup cell for it. Cells that import, loop or define
    something do more than draw: they train a model, say, or measure a time, and no two machines show the same. A
    picture directly below a prediction would tell what is to be guessed."""
    setup = notebooks.by_id(notebook).get("setup")
    if setup is None:
        return []
    known, above = names_bound(setup.source) | set(dir(builtins)), [None, *notebook.cells]
    return [
        cell
        for cell, before in zip(notebook.cells, above)
        if _only_draws(cell, known) and not _asks_for_a_guess(before)
    ]


def _asks_for_a_guess(cell: NotebookNode | None) -> bool:
    """Whether it holds a variable for a prediction: `guess_slope = None  # a number`."""
    return (
        cell is not None
        and cell.cell_type == "code"
        and bool(re.search(r"^guess_\w+ = None", cell.source, re.MULTILINE))
    )


def _only_draws(cell: NotebookNode, known: set[str]) -> bool:
    if cell.cell_type != "code" or notebooks.nbgrader_metadata(cell) or not dependencies.named_pictures(cell.source):
        return False
    try:
        plain = all(isinstance(statement, ast.Assign | ast.Expr) for statement in ast.parse(cell.source).body)
        return plain and names_read(cell.source) - names_bound(cell.source) <= known
    except SyntaxError:  # a magic
        return False


def _digest(source: str) -> str:
    digest = hashlib.sha256(source.encode())
    for path in dependencies.picture_files(dependencies.named_pictures(source)):
        digest.update(_without_comments(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def _without_comments(code: str) -> str:
    """A module's lines, without those that are blank or only a comment."""
    return "\n".join(line for line in code.split("\n") if line.strip() and not line.strip().startswith("#"))


def _output(folder: Path, picture: dict[str, Any]) -> NotebookNode:
    from helpers import paper  # brings PyTorch along: not before it is needed

    shown = paper.image((folder / picture["file"]).read_bytes(), picture["alt"], SHARP)
    return new_output("display_data", data={"text/html": shown, "text/plain": picture["alt"]})
