"""The file that was given out is told from one that somebody worked in, however it was saved."""

import json

import pytest
from conftest import ROOT
from nbformat.v4 import new_code_cell, new_markdown_cell
from test_honest import FORMS

from autograder.course.paths import Course
from autograder.grading.submission_parser import as_released

COURSE = Course(ROOT)
UNIT = "02_qkv_attention"


def _is(unit, data) -> bool:
    return as_released(json.dumps(data).encode(), COURSE.solved(unit).read_text(encoding="utf-8"))["as released"]


def _released(unit):
    return json.loads(COURSE.released(unit).read_text(encoding="utf-8"))


@pytest.mark.parametrize("unit", COURSE.units())
def test_every_released_notebook_is_as_released_and_no_solution_is(unit):
    assert _is(unit, _released(unit))
    assert not _is(unit, json.loads(COURSE.solved(unit).read_text(encoding="utf-8")))


@pytest.mark.parametrize("form", FORMS)
def test_programs_that_save_it_change_nothing(form):
    data = _released(UNIT)
    form(data)
    assert _is(UNIT, data)


def _cell(data, found):
    return next(cell for cell in data["cells"] if found(cell))


def code(data):
    cell = _cell(data, lambda cell: "raise NotImplementedError" in "".join(cell["source"]))
    cell["source"] = "".join(cell["source"]).replace("raise NotImplementedError", "return 1")


def words(data):
    cell = _cell(data, lambda cell: "".join(cell["source"]) == "*Your answer here.*")
    cell["source"] = "Because."


def guess(data):
    cell = _cell(data, lambda cell: "".join(cell["source"]).startswith("guess_"))
    cell["source"] = "".join(cell["source"]).replace("None", "3", 1)


def own_code(data):
    data["cells"].append(new_code_cell("1 + 1"))


def own_text(data):
    data["cells"].append(new_markdown_cell("My notes."))


def answer_deleted(data):
    data["cells"].remove(_cell(data, lambda cell: "raise NotImplementedError" in "".join(cell["source"])))


@pytest.mark.parametrize("change", [code, words, guess, own_code, own_text, answer_deleted])
def test_whatever_a_student_changes_makes_it_another(change):
    data = _released(UNIT)
    change(data)
    assert not _is(UNIT, data)


def test_locked_cells_are_not_the_students_to_change():
    data = _released(UNIT)
    _cell(data, lambda cell: cell["metadata"].get("nbgrader", {}).get("grade_id") == "setup")["source"] = "other"
    assert _is(UNIT, data)
