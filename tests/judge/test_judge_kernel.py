"""What the judge runs of a test cell."""

import pytest

from autograder import notebooks
from autograder.course.paths import find_course
from autograder.judge.cell_source import without_repeats

HIDDEN = "from autograder.hidden import x as hidden\n"


def test_a_call_that_the_last_line_makes_again_with_more_is_left_out():
    source = f"check.f(f, points=2)\n{HIDDEN}check.f(f, points=2, cases=hidden.f)"
    assert without_repeats(source) == f"{HIDDEN}check.f(f, points=2, cases=hidden.f)"


@pytest.mark.parametrize(
    "before",
    [
        "check.f(g, points=2)",
        "check.g(f, points=2)",
        "check.f(f, points=3)",
        "check.f(f, points=2, seed=1)",
        "score = check.f(f, points=2)",
        "check.f(f, points=2, cases=hidden.f)",
        "print(f)",
        "f",
    ],
)
def test_anything_else_stays(before):
    source = f"{HIDDEN}{before}\ncheck.f(f, points=2, cases=hidden.f)"
    assert without_repeats(source) == source


@pytest.mark.parametrize("source", ["", "check.f(f, points=2)", "check.f(f, points=2)\nx = 1"])
def test_a_cell_without_a_hidden_part_stays(source):
    assert without_repeats(source) == source


def test_every_exercise_is_checked_once():
    course = find_course()
    for unit in course.units():
        for cell in notebooks.tests(notebooks.read(course.solved(unit))):
            assert without_repeats(cell.source).count("check.") == 1, notebooks.grade_id(cell)
