"""nbgrader's own autograde takes hand-ins through intake: the command and formgrader's button alike."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.grading import gradebook_writer, intake, worker_pool
from autograder.grading.grade import CHANGED, ResultKeys, Settings, grade
from autograder.grading.submission_discovery import submissions


@pytest.fixture
def handed_in(course):
    right = right_answers(course)
    hand_in(course, "ada", right)
    path = hand_in(course, "bea", right)
    path.rename(path.with_name(f"{UNIT} (1).ipynb"))
    (path.parent / "notes.db").symlink_to(course.classroom / "gradebook.db")
    os.mkfifo(path.parent / "pipe")
    for student in ("eve", "fay"):
        (course.submitted / student / UNIT).mkdir(parents=True)
    course.submission("eve", UNIT).symlink_to(course.solved(UNIT))
    course.submission("fay", UNIT).write_bytes(
        course.released(UNIT).read_bytes().replace(b'"nbformat": 4', b'"x": ' + b"9" * 5_000 + b', "nbformat": 4')
    )
    gradebook_writer.register(course, UNIT)
    return course


def _check(course):
    rows = gradebook_writer.scores(course, UNIT)
    assert {student: row["code_score"] for student, row in rows.items()} == {"ada": 6, "bea": 6}
    assert sorted(path.name for path in course.autograded.iterdir()) == ["ada", "bea"]
    assert os.listdir(course.autograded / "bea" / UNIT) == [f"{UNIT}.ipynb"]
    assert (course.submitted / "bea" / UNIT / "notes.db").is_symlink()


def test_the_command(handed_in):
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [scripts / "nbgrader", "autograde", UNIT], cwd=handed_in.root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"eve was rejected: {UNIT}.ipynb is a link: hand in the notebook itself" in done.stderr
    assert (
        "fay was rejected: not a notebook that Jupyter could read: a number in it has thousands of digits"
        in done.stderr
    )
    assert "bea: beside the notebook, not looked at: notes.db (a link), pipe (a FIFO)" in done.stderr
    _check(handed_in)


def test_formgraders_button(handed_in):
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    settings = nbgrader_steps.settings(handed_in)
    api = NbGraderAPI(coursedir=CourseDirectory(config=settings), config=settings)
    answers = {student: api.autograde(UNIT, student) for student in ("ada", "bea", "eve", "fay")}
    assert {student: answer["success"] for student, answer in answers.items()} == {
        "ada": True,
        "bea": True,
        "eve": False,
        "fay": False,
    }
    assert "is a link" in answers["eve"]["log"]
    _check(handed_in)
    assert api.coursedir.submitted_directory == "autograder/class/submitted"


def test_an_earlier_copy_is_not_graded_once_the_hand_in_is_gone(handed_in):
    shutil.rmtree(handed_in.submitted / "bea")
    (handed_in.staged / "bea" / UNIT).mkdir(parents=True)
    shutil.copy(handed_in.released(UNIT), handed_in.taken_in("bea", UNIT))
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    settings = nbgrader_steps.settings(handed_in)
    api = NbGraderAPI(coursedir=CourseDirectory(config=settings), config=settings)
    assert not api.autograde(UNIT, "bea")["success"]
    assert not handed_in.taken_in("bea", UNIT).exists()


EVE = {"softmax": "def softmax(x, dim):\n    return x", "softmax_test": "2.0"}
"""A wrong answer, and a test cell of the student's own."""
EARNS = 4


def _grade(course):
    return grade(course, [UNIT], Settings(workers=1), Progress(disable=True))


@pytest.mark.parametrize(("lost", "recorded", "judged"), [("autograded", 1, 0), ("results/??", 0, 1)])
def test_what_nbgraders_own_command_staged_is_sanitised_before_it_is_recorded_or_judged(course, lost, recorded, judged):
    """That command leaves a hand-in in the staging folder with the student's own test cells: nothing may come of
    them."""
    hand_in(course, "eve", right_answers(course) | EVE)
    _grade(course)
    before, key = (
        gradebook_writer.scores(course, UNIT)["eve"]["code_score"],
        gradebook_writer.stamp(course, "eve", UNIT)["result"],
    )
    intake.read_and_stage(course, *submissions(course, UNIT, []))
    for folder in course.classroom.glob(lost):
        shutil.rmtree(folder)
    outcome = _grade(course)
    assert (outcome.recorded, outcome.judged) == (recorded, judged) and not outcome.failed and before == 4
    assert gradebook_writer.scores(course, UNIT)["eve"]["code_score"] == before
    assert gradebook_writer.stamp(course, "eve", UNIT)["result"] == key
    assert "2.0" not in [cell.source for cell in notebooks.read(course.graded("eve", UNIT)).cells]


def test_a_staged_file_that_is_spoilt_is_made_anew(course):
    hand_in(course, "eve", right_answers(course) | EVE)
    _grade(course)
    course.taken_in("eve", UNIT).write_text('{"cells": [')
    shutil.rmtree(course.autograded / "eve")
    assert _grade(course).failed == {}
    assert gradebook_writer.scores(course, UNIT)["eve"]["code_score"] == EARNS


def test_what_is_staged_by_others_while_it_waits_is_not_judged(course, monkeypatch):
    hand_in(course, "eve", right_answers(course) | EVE)
    text = ResultKeys.text
    with monkeypatch.context() as patch:
        patch.setattr(
            ResultKeys, "text", lambda door, one, key: (intake.read_and_stage(course, one), text(door, one, key))[1]
        )
        outcome = _grade(course)
    assert outcome.judged == 0 and CHANGED in "".join(outcome.failed.values())
    assert not list(course.results.glob("??/*"))
    assert _grade(course).judged == 1
    assert gradebook_writer.scores(course, UNIT)["eve"]["code_score"] == EARNS


def test_no_text_waits_and_the_class_is_recorded_while_it_is_read(course, monkeypatch):
    """So that a large class takes no more memory than a small one."""
    students, happened, waits = ["ada", "bea"], [], []
    for student in students:
        hand_in(course, student, edit=lambda notebook, student=student: notebook.cells[0].update(source=student))
    submit, autograde, read = worker_pool.ThreadWorkers.submit, nbgrader_steps.autograde, ResultKeys.read

    def submitted(threads, name, function, *arguments, cost):
        waits.extend(arguments if name[0] == "judge" else ())
        submit(threads, name, function, *arguments, cost=cost)

    def noted(what, step):
        def noting(first, one, *more):
            happened.append((what, getattr(one, "student", one)))
            return step(first, one, *more)

        return noting

    monkeypatch.setattr(worker_pool.ThreadWorkers, "submit", submitted)
    monkeypatch.setattr(worker_pool.ThreadWorkers, "ready", worker_pool.ThreadWorkers.results)
    monkeypatch.setattr(nbgrader_steps, "autograde", noted("recorded", autograde))
    monkeypatch.setattr(ResultKeys, "read", noted("read", read))
    _grade(course)
    assert happened == [(what, student) for student in students for what in ("read", "recorded")]
    assert sum(isinstance(one, worker_pool.LazyArgument) for one in waits) == 2
    assert all(len(one) < 1000 for one in waits if isinstance(one, str))
