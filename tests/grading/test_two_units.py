"""A file with the cells of two units is graded for the one that it was handed in for, as if it held that one alone."""

import json
import shutil
import zipfile

import pytest
from conftest import ROOT
from test_saved_elsewhere import COURSE, _answer, _handed_in

from autograder import notebooks
from autograder.course.paths import Course
from autograder.judge.config import SPARE
from autograder.lms.collect import collect

FIRST, SECOND = "02_qkv_attention", "03_masking"


def _both(first=FIRST, second=SECOND) -> dict:
    """What comes of copying all cells of one notebook behind those of another."""
    data, other = json.loads(_handed_in(first)), json.loads(_handed_in(second))
    for number, cell in enumerate(other["cells"]):
        cell["id"] = f"pasted-{number}"
    return data | {"cells": data["cells"] + other["cells"]}


def _code(unit, data):
    """The code that the judge would get, with its marks, and what was said."""
    answer = _answer(unit, data)
    assert "rejected" not in answer, answer
    cells = [cell for cell in notebooks.parse(answer["notebook"]).cells if cell.cell_type == "code"]
    return [(cell.source, notebooks.grade_id(cell), SPARE in cell.metadata) for cell in cells], answer["repairs"]


@pytest.mark.parametrize("unit", [FIRST, SECOND])
def test_the_judge_gets_the_cells_of_the_unit_it_was_handed_in_for(unit):
    plain, _ = _code(unit, json.loads(_handed_in(unit)))
    other = FIRST if unit == SECOND else SECOND
    for data in (_both(), _both(SECOND, FIRST)):
        found, said = _code(unit, data)
        assert found == plain
        assert said == [f"the cells of {other} in this file were left alone: it was handed in for another unit"]


def test_a_few_cells_of_another_unit_are_the_students_own():
    data, other = json.loads(_handed_in(FIRST)), json.loads(_handed_in(SECOND))
    pasted = [cell for cell in other["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == "causal_mask"]
    found, said = _code(FIRST, data | {"cells": data["cells"] + pasted})
    assert found[-1][0] == "".join(pasted[0]["source"]) and len(pasted) == 1
    assert said == ["cell causal_mask is not of this unit and counts for nothing"]


def test_a_third_unit_is_refused_as_before():
    said = _answer("04_multi_head", _both())["rejected"]
    assert said == f"this is the notebook of unit {FIRST}, handed in as 04_multi_head"


@pytest.mark.parametrize("unit", [FIRST, SECOND])
def test_it_is_collected_for_the_unit_that_the_download_is_of(unit, tmp_path):
    course = Course(tmp_path.resolve() / "course")
    for one in (FIRST, SECOND):
        shutil.copytree(COURSE.solutions / one, course.solutions / one)
    shutil.copy(ROOT / "nbgrader_config.py", course.root)
    files = {f"x_{number}_1_a.ipynb": _handed_in(unit).encode() + b" " * number for number in (101, 102)}
    files["x_103_1_both.ipynb"] = json.dumps(_both()).encode()
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    plan = collect(course, [tmp_path / "in.zip"], dry_run=True)
    assert {step.chosen.unit for step in plan.steps} == {unit} and len(plan.steps) == 3
