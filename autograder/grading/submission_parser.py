"""A handed-in file becomes a notebook that can be graded: parsed, pruned to what grading needs, mended, made harmless.

This is the only place that looks into the bytes of a stranger. It runs in a process with limits (see
limited_process.py): what goes wrong costs this hand-in and is told in a line. Outputs and foreign metadata are
dropped."""

import json
import re
from typing import Any

from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode

from autograder import limited_process, notebooks, size_limits
from autograder.grading.as_released import is_as_released
from autograder.grading.repair import NoCourseCells, repair
from autograder.grading.sanitize_text import sanitize_text_cells
from autograder.grading.skipped_cells import mark_skipped_cells
from autograder.grading.two_units import leave_out, units_of
from autograder.notebooks import STAMP

SECONDS = 2.0  # to colour one cell
PICTURE = re.compile(r"data:image/[^)\s\"'>]*")
IN_TEXT = re.compile(r"\]\(data:(image/[a-z]+);base64,([A-Za-z0-9+/=]+)\)")
"""A picture as Colab pastes it into a text."""
KEPT = ("nbgrader", "id")
"""A cell's metadata that mean something here; Colab keeps a cell's id in them."""
CELL_TYPES = ("code", "markdown", "raw", "heading", "html")


class Rejected(Exception):
    """A submission that can't be graded as it is; the text says why and what to do."""


def units_in(data: bytes, units: dict[str, list[str]]) -> dict:
    """{"units": those that the notebook in a file is of (see two_units.py)}, or {"rejected": why}.

    units: unit → the grade_ids of its cells."""
    try:
        return {"units": _units(_parsed(data), units)}
    except Rejected as reason:
        return {"rejected": str(reason)}


def as_released(data: bytes, original: str) -> dict:
    """{"as released": whether a file is the notebook as it was given out}, or {"rejected": why}."""
    try:
        return {"as released": is_as_released(_parsed(data), notebooks.parse(original))}
    except Rejected as reason:
        return {"rejected": str(reason)}


def parse_submission(data: bytes, unit: str, original: str, units: dict[str, list[str]]) -> dict:
    """{"notebook": its text, mended, "repairs": one line each}, or {"rejected": why}. `original`: the unit's
    solution."""
    try:
        notebook = _parsed(data)
        found = _units(notebook, units)
        _check_unit(found, unit)
        lines = leave_out(notebook, [other for other in found if other != unit], units)
        lines += _made_ready(notebook, notebooks.parse(original))
        return {"notebook": notebooks.to_text(notebook), "repairs": lines}
    except (Rejected, NoCourseCells) as reason:
        return {"rejected": str(reason)}
    except (RecursionError, MemoryError):
        return {"rejected": "not a notebook that Jupyter could read: something in it is nested too deep"}


def _check_unit(found: list[str], unit: str) -> None:
    if not found:
        raise Rejected("no cell can be told to be one of the course's: hand in the course's own notebook")
    if unit not in found:
        raise Rejected(f"this is the notebook of unit {found[0]}, handed in as {unit}")


def _units(notebook: NotebookNode, units: dict[str, list[str]]) -> list[str]:
    return units_of(notebooks.grade_ids(notebook) or _known_without_marks(notebook), units)


def _known_without_marks(notebook: NotebookNode) -> set[str]:
    """What the cells of a notebook whose metadata were stripped are by their ids, and by the checks that they call."""
    checks = (re.findall(r"^check\.(\w+)\(", cell.source, re.MULTILINE) for cell in notebook.cells)
    return {cell.get("id", "") for cell in notebook.cells} | {f"{name}_test" for names in checks for name in names}


def _made_ready(notebook: NotebookNode, original: NotebookNode) -> list[str]:
    unchanged = is_as_released(notebook, original)
    lines = repair(notebook, original)
    lines += [line for cell in notebook.cells if cell.cell_type == "markdown" for line in _pictures(cell)]
    lines += _cut(notebook)
    released = {cell.source for cell in original.cells}
    sanitize_text_cells(notebook, released)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if len(cell.source) > 2_000 and cell.source not in released:
                lines += _coloured(cell)
    mark_skipped_cells(notebook, original)
    notebook.metadata = NotebookNode(kernelspec=notebooks.KERNEL, language_info={"name": "python"})
    notebook.metadata[STAMP] = {"repairs": lines} | ({"as released": True} if unchanged else {})
    return lines


# ---------------------------------------------------------------- from bytes to cells


def _parsed(data: bytes) -> NotebookNode:
    content = _json(data)
    pruned = _pruned(content)
    try:
        notebook = notebooks.parse(_encodable(json.dumps(pruned, ensure_ascii=False)))
        notebooks.to_text(notebook)
    except Exception as error:  # nbformat stumbles in many ways over JSON that is no notebook
        raise Rejected(f"not a notebook that Jupyter could read ({type(error).__name__})") from None
    for cell in notebook.cells:
        cell.source = cell.source.replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads them
    return notebook


def _json(data: bytes) -> dict:
    if not data:
        raise Rejected("the file is empty: hand the notebook in again")
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Rejected("not a notebook: the file is no text") from None
    except json.JSONDecodeError as error:
        raise Rejected(f"not a notebook, or one cut off: no valid JSON at line {error.lineno}") from None
    except ValueError:  # Python reads no integers of more than 4,300 digits
        raise Rejected("not a notebook that Jupyter could read: a number in it has thousands of digits") from None
    except RecursionError:
        raise Rejected("not a notebook: its JSON is nested too deep") from None
    if not isinstance(content, dict) or not ("cells" in content or "worksheets" in content):
        raise Rejected("not a notebook: the JSON has no cells")
    return content


def _pruned(content: dict) -> dict:
    """The parts of a notebook's JSON that grading needs. What has no known form is left to nbformat to refuse."""
    kept = {key: content[key] for key in ("nbformat", "nbformat_minor") if type(content.get(key)) is int} | {
        "metadata": {}
    }
    if "cells" in content:
        return kept | {"cells": _cells(content["cells"])}
    sheets = content["worksheets"]
    sheet = sheets[0] if isinstance(sheets, list) and sheets and isinstance(sheets[0], dict) else {}
    return kept | {"metadata": {"name": ""}, "worksheets": [{"metadata": {}, "cells": _cells(sheet.get("cells", []))}]}


def _cells(cells: Any) -> list[dict]:
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise Rejected("not a notebook that Jupyter could read: its cells are no list of cells")
    if len(cells) > size_limits.CELLS:
        raise Rejected(
            f"the notebook has {len(cells):,} cells, more than {size_limits.CELLS:,}: take the empty ones out"
        )
    kept = [_cell(cell) for cell in cells]
    if (size := sum(_size(cell) for cell in kept)) > size_limits.TEXT:
        raise Rejected(
            f"its cells hold {size:,} characters of text, more than {size_limits.TEXT:,}: take out what is no answer"
        )
    return kept


def _cell(cell: dict) -> dict:
    """A cell without outputs and without foreign metadata."""
    metadata = cell.get("metadata")
    kept = {"cell_type": cell.get("cell_type"), "metadata": _marks(metadata if isinstance(metadata, dict) else {})}
    for key in ("source", "input"):  # format 3 says input
        if key in cell:
            kept[key] = _text(cell[key])
    if isinstance(cell.get("id"), str) and re.fullmatch(r"[\w-]{1,64}", cell["id"], re.ASCII):
        kept["id"] = cell["id"]
    if kept["cell_type"] == "code":
        kept |= {"outputs": []} | (
            {"language": "python", "prompt_number": None, "collapsed": False}
            if "input" in kept
            else {"execution_count": None}
        )
    elif kept["cell_type"] not in CELL_TYPES:
        raise Rejected(f"not a notebook that Jupyter could read: a cell of type {str(cell.get('cell_type'))[:30]!r}")
    elif isinstance(cell.get("attachments"), dict):
        kept["attachments"] = _attachments(cell["attachments"])
    if kept["cell_type"] == "heading":
        kept["level"] = cell["level"] if cell.get("level") in range(1, 7) else 1
    return kept


def _text(source: Any) -> str:
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        raise Rejected("not a notebook that Jupyter could read: the source of a cell is no text")
    return source


def _marks(metadata: dict) -> dict:
    """What is kept of a cell's metadata. Marks of more than a few flat entries are none, and mending says so."""
    kept = {key: metadata[key] for key in KEPT if key in metadata}
    if not isinstance(kept.get("id", ""), str) or len(kept.get("id", "")) > 100:
        del kept["id"]
    marks = kept.get("nbgrader")
    if "nbgrader" in kept and not (isinstance(marks, dict) and len(marks) < 20 and all(map(_is_flat, marks.values()))):
        kept["nbgrader"] = {}
    return kept


def _is_flat(value: Any) -> bool:
    return (
        value is None or isinstance(value, (bool, float)) or (isinstance(value, (int, str)) and len(str(value)) < 200)
    )


def _attachments(found: dict) -> dict:
    """Pictures pasted into a markdown cell: name → {MIME type: base64}."""
    return {
        name: {mime: data for mime, data in kinds.items() if mime.startswith("image/") and _is_base64(data)}
        for name, kinds in found.items()
        if isinstance(kinds, dict)
        and any(mime.startswith("image/") and _is_base64(data) for mime, data in kinds.items())
    }


def _is_base64(data: Any) -> bool:
    return isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data) is not None


def _encodable(text: str) -> str:
    """Text that can be written to a file: halves of characters, which JSON can hold, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


# ---------------------------------------------------------------- what is too large


def _size(cell: dict) -> int:
    return len(PICTURE.sub("", cell.get("source") or cell.get("input") or ""))


def _pictures(cell: NotebookNode) -> list[str]:
    """Pictures out of the text: the renderer is slow on long lines. What is larger than one may be is set aside."""
    pictures = cell.get("attachments", {})
    for number, (kind, data) in enumerate(IN_TEXT.findall(cell.source)):
        name = f"in-text-{number}.{kind.removeprefix('image/')}"
        cell.source = IN_TEXT.sub(f"](attachment:{name})", cell.source, count=1)
        pictures[name] = {kind: data}
    sizes = {name: max(map(len, kinds.values()), default=0) for name, kinds in pictures.items()}
    cell.attachments = {name: kinds for name, kinds in pictures.items() if sizes[name] <= size_limits.PICTURE}
    return [
        f"a picture in {notebooks.grade_id(cell) or 'a text of the student'} was left out: it has "
        f"{size / 1_333_333:.1f} MB, more than {size_limits.PICTURE / 1_333_333:.0f}"
        for size in sizes.values()
        if size > size_limits.PICTURE
    ]


def _cut(notebook: NotebookNode) -> list[str]:
    """Puts a line in the place of what is larger than a cell may be."""
    lines = []
    for cell in notebook.cells:
        most = size_limits.CODE if cell.cell_type == "code" else size_limits.MARKDOWN
        if (size := _size(cell)) > most:
            lines += _leave_out(cell, f"it has {size:,} characters, more than {most:,}")
    return lines


def _coloured(cell: NotebookNode) -> list[str]:
    """Tries what formgrader and feedback will do to a code cell."""
    try:
        limited_process.cpu_time_limit(SECONDS, Highlight2HTML(pygments_lexer="ipython3"), cell.source)
    except TimeoutError:
        return _leave_out(cell, "showing it takes too long")
    except Exception as error:
        return _leave_out(cell, f"it can't be shown ({type(error).__name__})")
    return []


def _leave_out(cell: NotebookNode, reason: str) -> list[str]:
    cell.source = (
        f"# (This cell is left out: {reason}.)" if cell.cell_type == "code" else f"*(This text is left out: {reason}.)*"
    )
    return [f"cell {notebooks.grade_id(cell) or 'of the student'} was left out: {reason}"]
