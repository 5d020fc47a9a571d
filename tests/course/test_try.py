"""`attn try` and the solution notebooks, run from top to bottom: model answers earn all points, pictures draw."""

import re

import pytest
from conftest import ROOT, UNIT

from autograder.course import build
from autograder.course.paths import Course
from autograder.proofs.run_solution import run_solution

UNITS = Course(ROOT).units()


def _play(course, old: str = "", new: str = "", only: str | None = None):
    source = course.source(UNIT)
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new, 1))
    return run_solution(build.solution_notebook(source), only)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.timeout(900)  # the training of unit 05 takes two minutes alone on the machine
def test_every_solution_notebook_runs_to_its_end(real_course, unit):
    notebook = build.solution_notebook(real_course.source(unit))
    played = run_solution(notebook)
    assert played.misses == []
    assert played.cells == sum(cell.cell_type == "code" for cell in notebook.cells)
    assert (
        played.pictures
        >= len(re.findall(r"^plots\.", "\n".join(cell.source for cell in notebook.cells), re.MULTILINE)) / 2
    )


def test_the_small_course_earns_all_points(fresh_course):
    played = _play(fresh_course)
    assert played.misses == [] and played.earned == {"softmax": 2, "attend": 3, "two_word_example": 1}


@pytest.mark.parametrize(
    ("old", "new", "name", "says"),
    [
        ("e.sum(dim=dim", "e.sum(dim=0", "softmax", "the model answer gets"),
        ("e.sum(dim=dim", "f.sum(dim=dim", "softmax", "NameError: name 'f' is not defined"),
        (
            "check.attend(attend, points=3)\n",
            "print(1, file=__import__('sys').stderr)\ncheck.attend(attend, points=3)\n",
            "attend",
            "writes to stderr",
        ),
        ("import math\n", "import maths\n", "setup", "cell setup raises ModuleNotFoundError in line 1"),
    ],
)
def test_what_goes_wrong_is_a_line(fresh_course, old, new, name, says):
    misses = dict(reversed(_play(fresh_course, old, new).misses))
    assert says in misses[name], misses


PICTURE = (
    "# %%\nfrom helpers import plots\nplots.jacobians({function}, {{'here': [0.0, 1.0]}})\n\n# %% [markdown]\n"
    "# ## 2.2 Attend"
)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("lambda x: x.no_such_thing", "cell number 7 raises AttributeError in line 3"),
        ("unwritten", "needs your answer to exercise"),
    ],
)
def test_a_picture_that_does_not_draw_is_a_miss(fresh_course, function, says):
    cell = PICTURE.format(function=function).replace("# %%\n", "# %%\ndef unwritten(x): raise NotImplementedError\n", 1)
    misses = _play(fresh_course, "# %% [markdown]\n# ## 2.2 Attend", cell).misses
    assert any(says in miss for _, miss in misses), misses


def test_of_one_exercise_only_what_it_needs_is_run(fresh_course):
    played = _play(fresh_course, only="attend")
    assert played.earned == {"attend": 3} and played.misses == [] and played.cells == 3


def test_the_command_prints_a_table_and_the_misses(course, attn):
    done = attn(course, "try", "2", "attend")
    assert done.exit_code == 0 and "attend" in done.output and "softmax" not in done.output and "3 / 3" in done.output
    source = course.source(UNIT)
    source.write_text(source.read_text().replace("keys @ query", "keys @ query * 2", 1))
    done = attn(course, "try", "2", "attend")
    assert done.exit_code == 1 and "✗ attend: the model answer gets" in done.output


def test_a_mistake_that_lint_finds_is_all_that_try_says(course, attn):
    source = course.source(UNIT)
    source.write_text(source.read_text().replace("hidden.softmax", "hidden.attend"))
    done = attn(course, "try", "2")
    assert done.exit_code == 1 and len(done.output.strip().splitlines()) == 1 and "cases=hidden.softmax" in done.output


def test_an_exercise_that_is_not_there(course, attn):
    for command in (["try", "2", "atend"], ["prove", "--only", "atend"]):
        done = attn(course, *command)
        assert done.exit_code == 2 and "There is no exercise atend" in done.output and "is it attend?" in done.output
