"""Whatever a submission does to the grader, at whichever step, costs that submission alone and is named."""

import os
import shutil

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder import limited_process
from autograder.cli.score_tables import scores_table
from autograder.cli.tables import remarks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.grading import feedback, grade, gradebook_writer, intake, worker_tasks
from autograder.grading.result_cache import Store, grader_version

WEAK = "bea"
TEXT = "spoilt \x1b[31m on purpose"


def _grade(course, **settings):
    return grade.grade(course, [UNIT], grade.Settings(workers=1, **settings), Progress(disable=True))


@pytest.fixture(scope="module")
def class_of_three(built, tmp_path_factory):
    """Three students, judged once, so that every test below only records; bea's text tells her work from the
    others'."""
    folder = tmp_path_factory.mktemp("robust") / "course"
    shutil.copytree(built.root, folder, ignore=shutil.ignore_patterns("class"))
    course = Course(folder.resolve())
    right = right_answers(course)
    for student in ("ada", "cem"):
        hand_in(course, student, right)
    hand_in(course, WEAK, right | {"attend": right["attend"] + "\n# bea"})
    _grade(course)
    return course


@pytest.fixture
def course(class_of_three, tmp_path):
    """A copy without gradebook, autograded notebooks and intake's memory."""
    shutil.copytree(class_of_three.root, tmp_path / "course")
    copy = Course((tmp_path / "course").resolve())
    for folder in (copy.autograded, copy.feedback, copy.staged):
        shutil.rmtree(folder)
    for file in (copy.classroom / "gradebook.db", *copy.results.glob("*.json")):
        file.unlink()
    return copy


STEPS = [
    (intake, "read", lambda args: args[1].student == WEAK),
    (intake, "stage", lambda args: args[1].student == WEAK),
    (nbgrader_steps, "sanitize", lambda args: args[1] == WEAK),
    (nbgrader_steps, "autograde", lambda args: args[1] == WEAK),
    (gradebook_writer, "is_recorded", lambda args: args[1] == WEAK),
    (gradebook_writer, "repairs", lambda args: args[1] == WEAK),
    (grade.ResultKeys, "_fingerprint", lambda args: args[1].student == WEAK),
]


ERRORS = [RuntimeError, RecursionError, UnicodeDecodeError, KeyError, OSError, MemoryError, ValueError]


@pytest.mark.parametrize(("kind", "step"), zip(ERRORS, STEPS), ids=lambda value: getattr(value, "__name__", ""))
def test_an_exception_at_any_step_costs_one_submission(course, monkeypatch, kind, step):
    where, name, hers = step
    step = getattr(where, name)

    def spoilt(*args, **kwargs):
        if hers(args):
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, TEXT) if kind is UnicodeDecodeError else kind(TEXT)
        return step(*args, **kwargs)

    monkeypatch.setattr(where, name, spoilt)
    outcome = _grade(course)
    assert {one.student for one in outcome.results} == {"ada", "cem"}
    ((submission, reason),) = {**outcome.failed, **outcome.rejected}.items()
    assert submission.student == WEAK and kind.__name__ in reason and "purpose" in reason and "\n" not in reason
    scores = gradebook_writer.scores(course, UNIT)
    assert scores["ada"]["code_score"] == scores["cem"]["code_score"] == 6


def test_a_verdict_that_can_not_be_kept_costs_those_it_is_for(course, monkeypatch):
    shutil.rmtree(course.results)
    monkeypatch.setattr(
        worker_tasks,
        "judge_text",
        lambda text, *_: {"notebook": text, "doubts": [], "parts": {}, "cells": {}, "grader": grader_version()},
    )
    monkeypatch.setattr(Store, "put", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    outcome = _grade(course)
    assert {one.student: reason for one, reason in outcome.failed.items()} == dict.fromkeys(
        ("ada", "bea", "cem"), "OSError: disk full"
    )


@pytest.mark.parametrize(
    "error", [limited_process.LimitExceeded("it takes too long"), limited_process.CallFailed("ValueError: x")]
)
def test_feedback_that_fails_is_no_failed_grade(course, monkeypatch, error):
    call, material = limited_process.call, nbgrader_steps.page_material

    def marked(course, student, unit):
        text, grades = material(course, student, unit)
        return text, grades | {"notebook": student}

    def spoilt(function, *args, **kwargs):
        if function is feedback.render and args[1]["notebook"] == WEAK:
            raise error
        return call(function, *args, **kwargs)

    monkeypatch.setattr(nbgrader_steps, "page_material", marked)
    monkeypatch.setattr(limited_process, "call", spoilt)
    outcome = _grade(course)
    assert {one.student for one in outcome.results} == {"ada", "bea", "cem"} and not outcome.failed
    (note,) = next(lines for one, lines in outcome.notes.items() if one.student == WEAK)
    assert "graded, but the feedback page could not be written" in note and str(error) in note
    page = (course.feedback / WEAK / UNIT / f"{UNIT}.html").read_text()
    assert "could not be made" in page and "<td>softmax_test</td><td>2 / 2</td>" in page
    assert "Score" in (course.feedback / "ada" / UNIT / f"{UNIT}.html").read_text()


def test_no_control_character_of_a_strangers_is_printed(course, attn):
    hand_in(course, "eve\x1b[31m\u202e[bold]", right_answers(course))
    hand_in(course, os.fsdecode(b"stud\xff"), right_answers(course))
    (course.submission("ada", UNIT).parent / "x\x1b[2J.txt").write_text("x")
    done = attn(course, "grade", "--workers", "1")
    assert done.exit_code == 3, done.output
    assert "\x1b" not in done.output and "\u202e" not in done.output
    assert "eve\\x1b[31m\\u202e[bold]" in done.output and "x\\x1b[2J.txt" in done.output
    assert (
        "stud\\xff 02 rejected: nbgrader can't take '\\udcff' in the name of the student's folder: rename it"
        in done.output
    )


def test_remarks_and_tables_bear_any_name(course):
    outcome = _grade(course)
    rows = {UNIT: gradebook_writer.scores(course, UNIT)}
    assert remarks(rows, outcome) == [] and scores_table(rows, outcome, {}).row_count == 3
