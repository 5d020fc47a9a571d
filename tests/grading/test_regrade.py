"""A class graded again: who changes by how much is said before and kept after; marks on unchanged answers stay done."""

import csv
import json
import shutil

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.gradebook.override import override
from autograder.grading import feedback, grade, gradebook_writer, regrade_log, result_cache, worker_tasks
from autograder.grading.open_gradebook import OpenGradebook
from autograder.grading.preview import preview
from helpers.engine.mime import MIME

WRITTEN = "why_same_size"
WRONG = "def softmax(x, dim):\n    return 'wrong'"


class Judge:
    """In the place of the judge: all points, but for an answer that says 'wrong' a part of them."""

    def __init__(self, monkeypatch):
        self.part, self.judged, self.version, self.monkeypatch = 0.25, 0, 0, monkeypatch
        monkeypatch.setattr(worker_tasks, "judge_text", self)
        monkeypatch.setattr(worker_tasks, "warm_up", lambda *_: None)

    def mend(self, part: float):
        """The check is mended: it gives another part of the points from now on."""
        self.part, self.version = part, self.version + 1
        self.monkeypatch.setattr(result_cache, "unit_version", lambda *_, version=self.version: str(version))
        self.monkeypatch.setattr(grade, "grader_version", lambda version=self.version: str(version))

    def __call__(self, text, *_):
        self.judged += 1
        notebook = notebooks.parse(text)
        cells = notebooks.by_id(notebook)
        for cell in notebooks.tests(notebook):
            points = notebooks.points(cell)
            score = points * (self.part if "wrong" in cells[notebooks.exercise_id(cell)].source else 1.0)
            data = {"text/plain": repr(score), MIME: {"score": score, "message": "", "diagnosis": None}}
            cell.outputs = [notebooks.nbformat.v4.new_output("execute_result", data=data)]
        return {
            "notebook": notebooks.to_text(notebook),
            "doubts": [],
            "parts": {},
            "cells": {},
            "grader": grade.grader_version(),
        }


@pytest.fixture
def judge(monkeypatch):
    return Judge(monkeypatch)


def _grade(course):
    return grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))


def _preview(course):
    return preview(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))


def _mark(course, student, points, comment="good"):
    """As a marker does it in formgrader."""
    with nbgrader_steps.open_gradebook(course) as gradebook:
        mark = gradebook.find_grade(WRITTEN, UNIT, UNIT, student)
        mark.manual_score, mark.needs_manual_grade = points, False
        gradebook.find_comment(WRITTEN, UNIT, UNIT, student).manual_comment = comment
        gradebook.db.commit()


def _cell(course, student, name=WRITTEN):
    with nbgrader_steps.open_gradebook(course) as gradebook:
        one = gradebook.find_grade(name, UNIT, UNIT, student)
        return one.auto_score, one.manual_score, bool(one.needs_manual_grade)


def _contents(course) -> dict:
    """Every file of the class, but for what grading may keep for the next time."""
    return {
        path.relative_to(course.classroom).as_posix(): path.read_bytes()
        for path in sorted(course.classroom.rglob("*"))
        if path.is_file() and "results" not in path.parts and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def graded_once(built, tmp_path_factory):
    """Two students, graded and marked. Tests change copies of it."""
    course = Course((tmp_path_factory.mktemp("graded") / "course").resolve())
    shutil.copytree(built.root, course.root, ignore=shutil.ignore_patterns("class"))
    right = right_answers(course)
    hand_in(course, "ada", right)
    hand_in(course, "bea", right | {"softmax": WRONG, WRITTEN: "Because of the dot product."})
    with pytest.MonkeyPatch.context() as patch:
        Judge(patch)
        _grade(course)
    _mark(course, "ada", 3.0)
    _mark(course, "bea", 2.0, "name it")
    return course


@pytest.fixture
def graded(graded_once, judge, tmp_path):
    shutil.copytree(graded_once.root, tmp_path / "course")
    return Course((tmp_path / "course").resolve())


def test_a_preview_says_what_grading_will_do_and_changes_nothing(graded, judge):
    judge.mend(0.5)
    before, judged = _contents(graded), judge.judged
    outcome, changes = _preview(graded)
    assert _contents(graded) == before and judge.judged == judged + 2 == judged + outcome.judged
    assert [one.line() for one in changes] == ["bea 02 softmax: 0.5 → 1 (the grader was changed)"]
    assert outcome.recorded == 2
    _grade(graded)
    assert judge.judged == judged + 2, "what was judged for the preview is not judged again"
    kept = regrade_log.read(graded.regrades)
    assert [one.line() for one in kept] == [one.line() for one in changes]
    assert _cell(graded, "bea", "softmax_test")[0] == 1.0


def test_a_preview_of_nothing_new(graded, judge):
    outcome, changes = _preview(graded)
    assert changes == [] and outcome.recorded == 0 and outcome.judged == 0


def test_marks_and_comments_on_unchanged_answers_stay_done(graded, judge):
    judge.mend(0.5)
    _grade(graded)
    assert _cell(graded, "ada") == (None, 3.0, False) and _cell(graded, "bea") == (None, 2.0, False)
    with nbgrader_steps.open_gradebook(graded) as gradebook:
        assert gradebook.find_comment(WRITTEN, UNIT, UNIT, "bea").manual_comment == "name it"


def test_a_changed_answer_is_opened_again_and_shows_the_old_text_and_its_mark(graded, judge):
    hand_in(graded, "bea", right_answers(graded) | {"softmax": WRONG, WRITTEN: "I don't know."})
    _grade(graded)
    assert _cell(graded, "bea") == (None, 2.0, True) and _cell(graded, "ada") == (None, 3.0, False)
    shown = notebooks.read(graded.graded("bea", UNIT))
    (earlier,) = [cell for cell in shown.cells if feedback.EARLIER in cell.metadata.get("tags", [])]
    assert "marked 2" in earlier.source and "Because of the dot product." in earlier.source
    assert shown.cells[shown.cells.index(earlier) + 1].source == "I don't know."
    assert "An earlier answer" not in (graded.feedback / "bea" / UNIT / f"{UNIT}.html").read_text()
    assert [one.line() for one in regrade_log.read(graded.regrades)] == [
        f"bea 02 {WRITTEN}: 2 → to mark again (the answer was changed)"
    ]
    judge.mend(0.25)  # graded again before anybody has marked it: the old text is still there
    _grade(graded)
    assert "Because of the dot product." in graded.graded("bea", UNIT).read_text()
    _mark(graded, "bea", 1.0)
    judge.mend(0.25)
    _grade(graded)
    assert _cell(graded, "bea") == (None, 1.0, False) and feedback.EARLIER not in graded.graded("bea", UNIT).read_text()


def test_a_change_elsewhere_in_the_notebook_is_not_called_the_graders(graded, judge):
    def tries_something(notebook):
        notebook.cells.insert(3, notebooks.nbformat.v4.new_code_cell("torch.manual_seed(1)"))

    judge.part = 0.5
    hand_in(
        graded,
        "bea",
        right_answers(graded) | {"softmax": WRONG, WRITTEN: "Because of the dot product."},
        edit=tries_something,
    )
    _, changes = _preview(graded)
    assert [one.line() for one in changes] == ["bea 02 softmax: 0.5 → 1 (other cells of the notebook were changed)"]


@pytest.mark.parametrize("answer", [None, "I don't know."])
def test_a_run_that_dies_before_the_gradebook_is_written_leaves_no_line_and_takes_no_answer_for_seen(
    graded, judge, monkeypatch, answer
):
    if answer:
        hand_in(graded, "bea", right_answers(graded) | {"softmax": WRONG, WRITTEN: answer})
    judge.mend(0.5)
    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(OpenGradebook, "keep", _dies)
        _grade(graded)
    assert regrade_log.read(graded.regrades) == []
    _grade(graded)
    lines = [one.line() for one in regrade_log.read(graded.regrades)]
    assert sum("softmax: 0.5 → 1" in line for line in lines) == 1 and len(lines) == len(set(lines)) == 1 + bool(answer)
    assert _cell(graded, "bea")[2] == bool(answer)


def _dies(*_):
    raise KeyboardInterrupt


def test_what_nbgrader_takes_back_is_not_logged(graded, judge, monkeypatch):
    """A step after ours fails: the rows are dropped, and so are the lines about them."""
    judge.mend(0.5)
    with monkeypatch.context() as broken:
        broken.setattr("nbgrader.preprocessors.latesubmissions.AssignLatePenalties.preprocess", _fails)
        assert len(_grade(graded).failed) == 2
    assert regrade_log.read(graded.regrades) == [] and _cell(graded, "bea", "softmax_test")[0] == 0.5
    _grade(graded)
    assert len(regrade_log.read(graded.regrades)) == 1


def _fails(*_):
    raise RuntimeError("no")


def test_an_earlier_answer_is_text_and_no_page(graded, judge):
    hand_in(graded, "bea", right_answers(graded) | {WRITTEN: "</pre><script>alert(1)</script>"})
    _grade(graded)
    _mark(graded, "bea", 1.0)
    hand_in(graded, "bea", right_answers(graded) | {WRITTEN: "other"})
    _grade(graded)
    assert "<script>alert" not in graded.graded("bea", UNIT).read_text()


def test_an_override_survives_and_says_why(graded, judge):
    change = override(graded, UNIT, "bea", "softmax", "1.5", "  the sheet was\nunclear ")
    assert change.line() == "bea 02 softmax: 0.5 → 1.5 (by hand: the sheet was unclear)"
    judge.mend(0.0)
    _grade(graded)
    assert _cell(graded, "bea", "softmax_test") == (0.0, 1.5, False)
    assert gradebook_writer.scores(graded, UNIT)["bea"]["score"] == 1.5 + 3 + 1 + 2
    page = (graded.feedback / "bea" / UNIT / f"{UNIT}.html").read_text()
    assert "Points by hand, 1.5 of 2: the sheet was unclear" in page
    rows = list(csv.DictReader(graded.regrades.open(encoding="utf-8")))
    assert [row["new"] for row in rows] == ["1.5"], "a score that stays is no change"
    override(graded, UNIT, "bea", "softmax", "2", "once more")
    override(graded, UNIT, "bea", "softmax", "auto", "back")
    assert _cell(graded, "bea", "softmax_test") == (0.0, None, False)


@pytest.mark.parametrize(
    ("student", "exercise", "points", "reason", "told"),
    [
        ("nobody", "softmax", "1", "x", "nobody has no grade"),
        ("bea", "sofmax", "1", "x", "Exercises: attend, softmax"),
        ("bea", "softmax", "3", "x", "from 0 to 2"),
        ("bea", "softmax", "nan", "x", "from 0 to 2"),
        ("bea", "softmax", "1", " \n", "Say why"),
    ],
)
def test_an_override_that_can_not_be_is_one_line(graded, student, exercise, points, reason, told):
    before = (graded.classroom / "gradebook.db").read_bytes()
    with pytest.raises(CourseError, match=told):
        override(graded, UNIT, student, exercise, points, reason)
    assert (graded.classroom / "gradebook.db").read_bytes() == before and not graded.regrades.exists()


def test_the_commands(graded, judge, attn):
    judge.mend(0.5)
    said = attn(graded, "grade", "--preview", "--workers", "1")
    assert said.exit_code == 0 and "bea 02 softmax: 0.5 → 1 (the grader was changed)" in said.output
    assert "1 earlier scores would change" in said.output and "Nothing was written" in said.output
    assert [
        one["new"] for one in json.loads(attn(graded, "grade", "--preview", "--json", "--workers", "1").stdout)
    ] == [1.0]
    assert "1 earlier score changed, and stands in" in attn(graded, "grade", "--workers", "1").output
    done = attn(graded, "override", "02", "ada", "softmax", "0", "handed in by a friend")
    assert done.exit_code == 0 and "ada 02 softmax: 2 → 0" in done.output
    assert attn(graded, "override", "02", "ada", "softmax", "7", "x").exit_code == 2


def test_nbgraders_own_command_keeps_marks_too(graded, judge, tmp_path):
    copy = Course((tmp_path / "copy").resolve())
    shutil.copytree(graded.root, copy.root)
    nbgrader_steps.autograde(copy, "bea", UNIT)
    assert _cell(copy, "bea") == (None, 2.0, False)


def test_lines_come_back_as_they_were_written(tmp_path):
    change = regrade_log.Change(
        regrade_log.datetime(2026, 11, 22, tzinfo=regrade_log.UTC), UNIT, "=1+1", "softmax", 1 / 3, None, 'a "b", c'
    )
    regrade_log.add(tmp_path / "r.csv", [change])
    regrade_log.add(tmp_path / "r.csv", [change])
    assert regrade_log.read(tmp_path / "r.csv") == [change, change] and ",'=1+1," in (tmp_path / "r.csv").read_text()
