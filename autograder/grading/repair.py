"""Puts a handed-in notebook back into the form in which it was released, and says what was mended. Without this a
copied cell ends nbgrader's whole batch, a deleted test cell is a silent 0, and so are lost marks (nbgrader's metadata).

Only the form is mended: no answer is changed, and none is made up. A text that stands beside the empty place of a
written answer is the answer."""

import ast
from collections.abc import Iterator
from copy import deepcopy
from itertools import takewhile

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from autograder.course.global_names import names_bound
from autograder.notebooks import grade_id, is_answer, is_written


class NoCourseCells(Exception):
    """A notebook without a single cell that can be told to be one of the unit's; the text says how to mend that."""


MOST_NAMED = 5
"""Cells that are named one by one."""
OF_COLAB = {"id", "colab", "colab_type", "outputId", "base_uri", "executionInfo"}
LOCKED_OR_GRADED = ("locked", "grade")
CODE_STUB, TEXT_STUB = "raise NotImplementedError", "*Your answer here.*"
"""What students find where an answer goes, as nbgrader_config.py has it."""


def repair(notebook: NotebookNode, original: NotebookNode) -> list[str]:
    """Mends `notebook` in place after the instructor's notebook of its unit. Returns one line for each repair.

    Raises NoCourseCells where nothing shows that it is a notebook of the unit at all."""
    wanted = {name: cell for cell in original.cells if (name := grade_id(cell))}
    lines = _tidy(notebook, wanted)
    lines += _tell_copies(notebook, wanted)
    lines += _drop_strangers(notebook, wanted)
    lines += _recover_marks(notebook, wanted)
    if not any(_marked(notebook)):
        raise NoCourseCells(
            "no cell can be told to be one of the course's: copy the answers into a fresh copy of the notebook, and "
            "hand in that"
        )
    lines += _reset(notebook, wanted)
    lines += _put_back(notebook, original, wanted)
    lines += _reorder(notebook, list(wanted))
    return lines + _take_answers_over(notebook, original, wanted)


def _marked(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    return ((name, cell) for cell in notebook.cells if (name := grade_id(cell)))


# ---------------------------------------------------------------- the steps


def _tidy(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Colab's additions go without a word; marks that are no marks go, and are mentioned."""
    lines = []
    notebook.cells = [cell for cell in notebook.cells if not is_badge(cell)]
    notebook.metadata.pop("colab", None)
    for cell in notebook.cells:
        of_colab = cell.metadata.get("id")
        if isinstance(of_colab, str) and of_colab in {wanted[name].get("id") for name in wanted}:
            cell["id"] = of_colab
        for key in OF_COLAB & cell.metadata.keys():
            del cell.metadata[key]
        if "nbgrader" in cell.metadata and not grade_id(cell):
            del cell.metadata["nbgrader"]
            lines.append("a cell's marks could not be read and were taken off")
    return lines


def is_badge(cell: NotebookNode) -> bool:
    return cell.metadata.get("id") == "view-in-github" or cell.get("id") == "view-in-github"


def _tell_copies(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Of several cells with one mark the original keeps it: the one with the released id, else the last that says
    anything. The others stay as cells of the student's own, but an untouched stub beside an answer goes: it would take
    the answer back (somebody worked in two copies, and pasted the cells of one into the other)."""
    groups: dict[str, list[NotebookNode]] = {}
    for name, cell in _marked(notebook):
        groups.setdefault(name, []).append(cell)
    lines = []
    for name, cells in groups.items():
        if len(cells) > 1 and name in wanted:
            answered = [cell for cell in cells if not _is_untouched(cell, wanted[name])]
            original = _original_of(answered or cells, wanted[name])
            stubs = [cell for cell in cells if answered and not any(cell is one for one in answered)]
            notebook.cells = [cell for cell in notebook.cells if not any(cell is stub for stub in stubs)]
            for cell in cells:
                if cell is not original:
                    del cell.metadata["nbgrader"]
            lines.append(f"a copy of cell {name} was set aside")
    return lines


def _is_untouched(cell: NotebookNode, original: NotebookNode) -> bool:
    """Whether an answer cell says what it said when it was released."""
    if not original.metadata["nbgrader"].get("solution"):
        return False
    if original.cell_type == "markdown":
        return cell.source.strip() in (TEXT_STUB, "")
    left = "".join(cell.source.replace(CODE_STUB, "").split())
    return CODE_STUB in cell.source and left == visible(original.source)


def _original_of(cells: list[NotebookNode], original: NotebookNode) -> NotebookNode:
    by_id = [cell for cell in cells if _same_id(cell, original)]
    with_text = [cell for cell in cells if cell.source.strip()]
    return (by_id or with_text[::-1] or cells)[0]


def _drop_strangers(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    lines = []
    for name, cell in list(_marked(notebook)):
        if name not in wanted:
            del cell.metadata["nbgrader"]
            lines.append(f"cell {name[:60]} is not of this unit and counts for nothing")
    return lines


def _recover_marks(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """A cell without marks that must be a missing one gets them again: by its id, text, or what it defines."""
    found_again, here = [], {name for name, _ in _marked(notebook)}
    for name, original in wanted.items():
        if name in here:
            continue
        free = [cell for cell in notebook.cells if not grade_id(cell)]
        found = next((cell for test in _TESTS for cell in reversed(free) if test(cell, original)), None)
        if found is not None:
            found.metadata["nbgrader"] = deepcopy(original.metadata["nbgrader"])
            found_again.append(name)
    if len(found_again) > MOST_NAMED:
        return [f"{len(found_again)} cells had lost their marks and were recognised"]
    return [f"cell {name} had lost its marks and was recognised" for name in found_again]


def _same_id(cell: NotebookNode, original: NotebookNode) -> bool:
    return bool(cell.get("id")) and cell.get("id") == original.get("id")


def _same_text(cell: NotebookNode, original: NotebookNode) -> bool:
    locked = original.metadata["nbgrader"].get("locked")
    text = visible(original.source)
    return bool(locked) and bool(text) and text == "".join(cell.source.split())


def _same_definitions(cell: NotebookNode, original: NotebookNode) -> bool:
    if cell.cell_type != "code" or not is_answer(original):
        return False
    try:
        return _asked_for(original) <= names_bound(cell.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _asked_for(original: NotebookNode) -> set[str]:
    """The functions and classes that an answer defines, or the variable."""
    defined = {
        node.name for node in ast.parse(original.source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return defined or {grade_id(original)}


_TESTS = (_same_id, _same_text, _same_definitions)


def visible(source: str) -> str:
    """The text as students got it, without what is between nbgrader's markers, and without white space."""
    kept, hidden = [], False
    for line in source.splitlines():
        if line.strip().startswith(("### BEGIN", "<!-- BEGIN")):
            hidden = True
        elif line.strip().startswith(("### END", "<!-- END")):
            hidden = False
        elif not hidden:
            kept.append(line)
    return "".join("".join(kept).split())


def _reset(notebook: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Every marked cell gets the type and the marks that it was released with."""
    lines = []
    for index, cell in enumerate(notebook.cells):
        name = grade_id(cell)
        if not name:
            continue
        if cell.cell_type != wanted[name].cell_type:
            notebook.cells[index] = cell = _retyped(cell, wanted[name].cell_type)
            lines.append(f"cell {name} was turned back into a {cell.cell_type} cell")
        changed = _meaning(cell) != _meaning(wanted[name])
        cell.metadata["nbgrader"] = deepcopy(wanted[name].metadata["nbgrader"])
        if changed:
            lines.append(f"the marks of cell {name} had been changed and were reset")
    return lines


def _meaning(cell: NotebookNode) -> dict:
    """A cell's marks without what nbgrader itself adds to them when it releases a notebook."""
    marks = cell.metadata["nbgrader"]
    return {key: value for key, value in marks.items() if key not in ("checksum", "cell_type", "schema_version")}


def _retyped(cell: NotebookNode, cell_type: str) -> NotebookNode:
    make = {"code": new_code_cell, "markdown": new_markdown_cell}.get(cell_type, new_raw_cell)
    made = make(cell.source, metadata=cell.metadata)
    made["id"] = cell.get("id", made.get("id"))
    return made


def _put_back(notebook: NotebookNode, original: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """Locked and graded cells that are gone come back, each behind the nearest of those that stood before it."""
    lines, here = [], {name for name, _ in _marked(notebook)}
    for name, cell in wanted.items():
        if name not in here and any(cell.metadata["nbgrader"].get(flag) for flag in LOCKED_OR_GRADED):
            notebook.cells.insert(_place_of(name, notebook, original), _blank(cell))
            lines.append(f"cell {name} was missing and has been put back")
    return lines


def _place_of(name: str, notebook: NotebookNode, original: NotebookNode) -> int:
    places = {_sign(cell): index for index, cell in enumerate(notebook.cells)}
    before = takewhile(lambda cell: grade_id(cell) != name, original.cells)
    return next((places[_sign(cell)] + 1 for cell in reversed([*before]) if _sign(cell) in places), 0)


def _sign(cell: NotebookNode) -> str:
    """What a cell of the release is known by."""
    return grade_id(cell) or visible(cell.source)


def _blank(original: NotebookNode) -> NotebookNode:
    """The cell as released, but an answer is left empty: nobody is handed the model answer as their own."""
    copy = deepcopy(original)
    if original.metadata["nbgrader"].get("solution"):
        copy.source = ""
    return copy


def _reorder(notebook: NotebookNode, order: list[str]) -> list[str]:
    """Marked cells stand in the order of the release; the student's own cells follow the cell they stood behind."""
    present = [name for name, _ in _marked(notebook)]
    if present == [name for name in order if name in present]:
        return []
    groups: dict[str | None, list[NotebookNode]] = {None: []}
    current = None
    for cell in notebook.cells:
        current = grade_id(cell) or current
        groups.setdefault(current, []).append(cell)
    notebook.cells = [cell for name in (None, *order) for cell in groups.get(name, [])]
    return ["cells had been moved and were put into their order again"]


def _take_answers_over(notebook: NotebookNode, original: NotebookNode, wanted: dict[str, NotebookNode]) -> list[str]:
    """An empty place for a written answer gets what the student wrote in Markdown cells beside it."""
    released, lines = {_sign(cell) for cell in original.cells}, []
    for name, cell in [(name, cell) for name, cell in _marked(notebook) if is_written(cell)]:
        if cell.cell_type == "markdown" and _is_untouched(cell, wanted[name]):
            place = next(index for index, one in enumerate(notebook.cells) if one is cell)
            own = lambda one: one.cell_type == "markdown" and _sign(one) not in released  # noqa: E731
            above = [*takewhile(own, reversed(notebook.cells[:place]))][::-1]
            below = [*takewhile(own, notebook.cells[place + 1 :])]
            if texts := [one.source for one in above + below if one.source.strip()]:
                cell.source = "\n\n".join(texts)
                taken = {id(one) for one in above + below}
                notebook.cells = [one for one in notebook.cells if id(one) not in taken]
                lines.append(f"the answer to {name} stood in a cell beside its own and was taken over")
    return lines
