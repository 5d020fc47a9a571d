"""The checks are tested too: every known wrong answer loses points and is named, on the visible cases already; every
right answer in another style gets all points, on the hidden cases too. Wrong answers are tried as source in a
notebook's cell, for that is what a sample class hands in (as the functions stand in the course, `attn prove` tries
them); right ones in this form and in that by turns."""

import linecache
import tomllib

import pytest
import torch
from conftest import ROOT

from autograder.course.exercises import companion
from autograder.course.standalone_source import splice
from helpers import check

SOLUTIONS = ROOT / "solutions"
SYLLABUS = tomllib.loads((SOLUTIONS / "syllabus.toml").read_text(encoding="utf-8"))
UNITS = [unit for unit in SYLLABUS if (SOLUTIONS / unit).is_dir()]
EXERCISES = [(unit, name) for unit in UNITS for kind in ("auto", "quiz") for name in SYLLABUS[unit][kind]]

# Some take half a minute of processor time: minutes where others use the machine too.
pytestmark = pytest.mark.timeout(900)

# What hands out the same object at every call keeps it in a name beside the function: no single function of a notebook.
KEEP_AN_OBJECT = {"one tensor for all callers", "one dict for all calls", "sums that go on from call to call"}

every_exercise = pytest.mark.parametrize(("unit", "name"), EXERCISES, ids=[name for _, name in EXERCISES])


def of_unit(package: str, unit: str, name: str):
    return getattr(companion(package, unit, name), name)


def as_written(answers, exercise):
    return answers


def as_in_a_notebook(answers, exercise):
    """The answers made from their source alone; the references among them stay what they are."""
    parts = getattr(exercise, "parts", {exercise.exercise: exercise}).values()
    return tuple(
        answer if answer is part.reference else _spliced(answer, part.exercise)
        for answer, part in zip(answers, parts, strict=True)
    )


def _spliced(answer, name: str):
    source, space = splice(answer, name), {}
    file = f"<cell {hash(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # kernels read their own source
    exec(compile(source, file, "exec"), space)
    return space[name]


@every_exercise
def test_wrong_answers_lose_points_and_are_named(unit, name, monkeypatch):
    """Some of them draw numbers of their own, and one draw in a hundred hides a slip: here they are the same every
    time."""
    exercise = getattr(check, name)
    for wrong, answers in exercise.wrong_answers():
        monkeypatch.setenv("ATTENTION_COURSE_ORDER", f"{name}: {wrong}")
        torch.manual_seed(1)
        form = as_written if wrong in KEEP_AN_OBJECT else as_in_a_notebook
        score = exercise(*form(answers, exercise), points=4, seed=1)
        assert not score.full, f"«{wrong}» gets all points"
        assert score.diagnosis == wrong, f"«{wrong}» is taken for «{score.diagnosis}»"


@every_exercise
def test_right_answers_in_other_styles_get_all_points(unit, name):
    exercise, hidden = getattr(check, name), of_unit("hidden", unit, name)
    alternatives = of_unit("alternatives", unit, name)
    assert len(alternatives) >= 2
    for number, (style, answers) in enumerate(alternatives.items()):
        form = (as_in_a_notebook, as_written)[number % 2]
        answers = answers if isinstance(answers, tuple) else (answers,)
        score = exercise(*form(answers, exercise), points=4, cases=hidden, seed=number)
        assert score.full, f"«{style}»: {score}"


@every_exercise
def test_hints_speak_to_the_student(unit, name):
    parts = getattr(check, name)
    for part in getattr(parts, "parts", {name: parts}).values():
        for misconception in part.misconceptions:
            assert len(misconception.name) < 80 and not misconception.name.endswith("."), misconception.name
            assert misconception.hint.rstrip()[-1] in ".?)", misconception.name
