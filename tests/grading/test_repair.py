"""What students do to a notebook's form is mended and mentioned, and nothing that they do makes mending fail."""

import json
from copy import deepcopy

import nbformat
import pytest
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from autograder import notebooks
from autograder.course.build import solution_notebook
from autograder.grading.repair import NoCourseCells, repair
from autograder.notebooks import grade_id

ORIGINAL = solution_notebook(ROOT / "tests" / "small_course" / "solutions" / "02_small" / "02_small.py")
IDS = [grade_id(cell) for cell in ORIGINAL.cells if grade_id(cell)]
NEEDED = [
    grade_id(cell)
    for cell in ORIGINAL.cells
    if grade_id(cell) and (notebooks.flag(cell, "locked") or notebooks.flag(cell, "grade"))
]


def handed_in():
    notebook = deepcopy(ORIGINAL)
    for cell in notebook.cells:
        if notebooks.is_test(cell):
            cell.source = cell.source.splitlines()[0]
    return notebook


def at(notebook, name):
    return next(index for index, cell in enumerate(notebook.cells) if grade_id(cell) == name)


def ids(notebook):
    return [grade_id(cell) for cell in notebook.cells if grade_id(cell)]


def test_nothing_is_mended_where_nothing_is_amiss():
    notebook = handed_in()
    before = deepcopy(notebook)
    assert repair(notebook, ORIGINAL) == [] and notebook == before


def test_a_copied_cell_is_told_from_the_original_by_its_id():
    for offset in (0, 1):  # before or behind it
        notebook = handed_in()
        copy = new_code_cell("# a try", metadata=deepcopy(notebook.cells[at(notebook, "softmax")].metadata))
        notebook.cells.insert(at(notebook, "softmax") + offset, copy)
        assert repair(notebook, ORIGINAL) == ["a copy of cell softmax was set aside"]
        assert "BEGIN SOLUTION" in notebook.cells[at(notebook, "softmax")].source and grade_id(copy) == ""


def test_without_ids_the_last_copy_that_says_something_is_the_original():
    notebook = handed_in()
    place = at(notebook, "softmax")
    for source in ("second = 2", ""):
        notebook.cells.insert(place + 1, new_code_cell(source, metadata=deepcopy(notebook.cells[place].metadata)))
    notebook.cells[place].id = "other"
    notebook.cells[place + 1], notebook.cells[place + 2] = notebook.cells[place + 2], notebook.cells[place + 1]
    repair(notebook, ORIGINAL)
    assert ids(notebook) == IDS


@pytest.mark.parametrize("name", NEEDED)
def test_a_deleted_cell_comes_back_where_it_stood(name):
    notebook = handed_in()
    del notebook.cells[at(notebook, name)]
    assert repair(notebook, ORIGINAL) == [f"cell {name} was missing and has been put back"]
    assert ids(notebook) == IDS


def test_a_model_answer_is_never_put_back():
    notebook = handed_in()
    del notebook.cells[at(notebook, "why_same_size")]
    repair(notebook, ORIGINAL)
    assert notebook.cells[at(notebook, "why_same_size")].source == ""


@pytest.mark.parametrize("name", IDS)
def test_lost_marks_are_recognised_by_the_cells_id(name):
    notebook = handed_in()
    notebook.cells[at(notebook, name)].metadata.clear()
    assert repair(notebook, ORIGINAL) == [f"cell {name} had lost its marks and was recognised"]
    assert ids(notebook) == IDS


@pytest.mark.parametrize("name", ["softmax", "softmax_test", "attend", "setup"])
def test_without_an_id_a_cell_is_recognised_by_its_text_or_by_what_it_defines(name):
    notebook = handed_in()
    cell = notebook.cells[at(notebook, name)]
    cell.metadata, cell.id = nbformat.NotebookNode(), "lost"
    assert f"cell {name} had lost its marks and was recognised" in repair(notebook, ORIGINAL)
    assert ids(notebook) == IDS


def _beside(notebook, name, above=(), below=()):
    place = at(notebook, name)
    notebook.cells[place + 1 : place + 1] = map(new_markdown_cell, below)
    notebook.cells[place:place] = map(new_markdown_cell, above)


@pytest.mark.parametrize("stub", ["*Your answer here.*", "", None], ids=["left", "emptied", "deleted"])
@pytest.mark.parametrize(
    ("above", "below"),
    [((), ("A dot product.",)), (("A dot product.",), ()), (("A dot",), ("product.", "So there."))],
    ids=["below", "above", "pieces"],
)
def test_a_written_answer_beside_its_place_is_taken_over(stub, above, below):
    notebook = handed_in()
    _beside(notebook, "why_same_size", above, below)
    if stub is None:
        del notebook.cells[at(notebook, "why_same_size")]
    else:
        notebook.cells[at(notebook, "why_same_size")].source = stub
    assert repair(notebook, ORIGINAL)[-1] == (
        "the answer to why_same_size stood in a cell beside its own and was taken over"
    )
    assert notebook.cells[at(notebook, "why_same_size")].source == "\n\n".join(above + below)
    assert len(notebook.cells) == len(ORIGINAL.cells)


def test_what_stands_beside_an_answer_that_was_given_stays_where_it_is():
    notebook = handed_in()
    _beside(notebook, "why_same_size", below=("More.",))
    before = deepcopy(notebook)
    assert repair(notebook, ORIGINAL) == [] and notebook == before


def test_retyped_and_changed_cells_are_reset():
    notebook = handed_in()
    place = at(notebook, "softmax")
    notebook.cells[place] = new_markdown_cell(notebook.cells[place].source, metadata=notebook.cells[place].metadata)
    notebook.cells[at(notebook, "attend_test")].metadata.nbgrader.points = 100
    lines = repair(notebook, ORIGINAL)
    assert "cell softmax was turned back into a code cell" in lines
    assert "the marks of cell attend_test had been changed and were reset" in lines
    assert notebook.cells[at(notebook, "attend_test")].metadata.nbgrader.points == 3


def test_moved_cells_go_back_and_take_the_students_own_cells_along():
    notebook = handed_in()
    place = at(notebook, "softmax")
    own = new_code_cell("own = 1")
    notebook.cells.insert(place + 1, own)
    notebook.cells = notebook.cells[place + 2 :] + notebook.cells[: place + 2]
    assert "cells had been moved and were put into their order again" in repair(notebook, ORIGINAL)
    assert ids(notebook) == IDS and notebook.cells[at(notebook, "softmax") + 1] is own


def test_colabs_additions_go_without_a_word():
    notebook = handed_in()
    for cell in notebook.cells:
        cell.metadata |= {"id": cell.id, "outputId": "1", "colab": {}}
        cell.id = "x" + cell.id[:60]
    notebook.cells.insert(0, new_markdown_cell("badge", metadata={"id": "view-in-github", "colab_type": "text"}))
    notebook.metadata["colab"] = {}
    assert repair(notebook, ORIGINAL) == []
    assert notebook.cells[0].source != "badge" and not any("outputId" in cell.metadata for cell in notebook.cells)


def test_a_cell_of_another_unit_counts_for_nothing():
    notebook = handed_in()
    marks = {
        "grade": True,
        "grade_id": "bonus_test",
        "locked": True,
        "points": 9,
        "schema_version": 3,
        "solution": False,
    }
    notebook.cells.append(new_code_cell("9.0", metadata={"nbgrader": marks}))
    assert repair(notebook, ORIGINAL) == ["cell bonus_test is not of this unit and counts for nothing"]


# ---------------------------------------------------------------- fuzzing

place = st.integers(0, 200)
garbage = (
    st.none()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(
        st.sampled_from(["grade_id", "grade", "locked", "points", "solution", "cell_type", "schema_version"]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from([*IDS, "", "of another"])
        | st.lists(st.integers(), max_size=1),
        max_size=4,
    )
)
acts = st.one_of(
    st.tuples(
        st.sampled_from(["delete", "copy", "raw", "markdown", "code", "strip", "new id", "no id", "colab"]), place
    ),
    st.tuples(st.just("move"), place, place),
    st.tuples(st.just("marks"), place, garbage),
    st.tuples(st.just("source"), place, st.text(max_size=20)),
)
MAKE = {"raw": new_raw_cell, "markdown": new_markdown_cell, "code": new_code_cell}


def do(notebook, act) -> None:
    if not notebook.cells:
        return
    name, index = act[0], act[1] % len(notebook.cells)
    cell = notebook.cells[index]
    if name == "delete":
        del notebook.cells[index]
    elif name == "copy":
        notebook.cells.insert(index, deepcopy(cell))
    elif name in MAKE:
        notebook.cells[index] = MAKE[name](cell.source, metadata=cell.metadata, id=cell.get("id", "none"))
    elif name == "strip":
        cell.metadata = nbformat.NotebookNode()
    elif name in ("new id", "no id"):
        cell.pop("id", None)
        if name == "new id":
            cell["id"] = f"new-{index}"
    elif name == "colab":
        cell.metadata["id"] = cell.get("id") or "view-in-github"
    elif name == "move":
        notebook.cells.insert(act[2] % len(notebook.cells), notebook.cells.pop(index))
    elif name == "marks":
        cell.metadata["nbgrader"] = nbformat.from_dict(act[2])
    else:
        cell.source = act[2]


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(acts, max_size=12))
def test_whatever_is_done_to_it_the_notebook_can_be_mended(doings):
    notebook = handed_in()
    for act in doings:
        do(notebook, act)
    marked = any(grade_id(cell) in IDS for cell in notebook.cells)
    try:
        repair(notebook, ORIGINAL)
    except NoCourseCells as reason:
        assert not marked and "fresh copy" in str(reason)
        return
    found = ids(notebook)
    assert found == [name for name in IDS if name in found] and set(NEEDED) <= set(found)
    for cell in notebook.cells:
        if grade_id(cell):
            original = ORIGINAL.cells[at(ORIGINAL, grade_id(cell))]
            assert cell.cell_type == original.cell_type and cell.metadata.nbgrader == original.metadata.nbgrader
    assert repair(notebook, ORIGINAL) == []


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["cells", "metadata", "nbgrader", "grade_id", "source", "cell_type", "nbformat", "worksheets", "id"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_json_that_is_no_notebook_is_refused_by_nbformat_or_mended(data):
    data = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [], **(data if isinstance(data, dict) else {})}
    try:
        notebook = notebooks.parse(json.dumps(data))
        nbformat.validate(notebook)
    except Exception:  # submission_discovery says so
        return
    with pytest.raises(NoCourseCells):
        repair(notebook, ORIGINAL)
