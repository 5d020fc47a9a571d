"""A file that holds the cells of two units, one pasted behind the other. It is graded for the unit that it was handed
in for: cells of the other one would give names of this unit other meanings, and take their time."""

from collections import Counter
from itertools import accumulate

from nbformat import NotebookNode

from autograder.notebooks import grade_id


def units_of(marks: set[str], units: dict[str, list[str]]) -> list[str]:
    """The unit whose cells `marks` has most of, and others of which it has half or more. units: unit → grade_ids."""
    shared = {unit: len(marks & {*ids} - {"setup"}) for unit, ids in units.items()}  # every unit has a setup cell
    found, own = sorted(filter(shared.get, shared), key=lambda unit: -shared[unit]), _own(units)
    return found[:1] + [unit for unit in found[1:] if 2 * len(marks & own[unit]) >= len(own[unit]) > 0]


def leave_out(notebook: NotebookNode, others: list[str], units: dict[str, list[str]]) -> list[str]:
    """Takes the cells of other units out of a notebook. Returns a line for each of these units."""
    owners = _owners(notebook.cells, units)
    notebook.cells = [cell for cell, owner in zip(notebook.cells, owners, strict=True) if owner not in others]
    return [f"the cells of {unit} in this file were left alone: it was handed in for another unit" for unit in others]


def _own(units: dict[str, list[str]]) -> dict[str, set[str]]:
    """The grade_ids that only this unit has."""
    known = Counter(name for ids in units.values() for name in {*ids})
    return {unit: {name for name in ids if known[name] == 1} for unit, ids in units.items()}


def _owners(cells: list[NotebookNode], units: dict[str, list[str]]) -> list[str]:
    """The unit of every cell: of the marked cell it stands behind. What all units have goes with the next marked
    one."""
    of = {name: unit for unit, names in _own(units).items() for name in names}
    owners, following = [""] * len(cells), ""
    for place, cell in reversed([*enumerate(cells)]):
        name = grade_id(cell)
        following = of.get(name, following)
        owners[place] = following if name else ""
    return list(accumulate(owners, _last))


def _last(before: str, own: str) -> str:
    return own or before
