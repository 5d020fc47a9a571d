"""`attn mark`: one notebook, graded as in a class, with no gradebook touched."""

import json

import pytest
from conftest import UNIT, hand_in, right_answers


def _mark(attn, course, path):
    done = attn(course, "mark", str(path), "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_partly_right_notebook(course, attn):
    wrong = "def softmax(x, dim):\n    return torch.exp(x) / torch.exp(x).sum(dim, keepdim=True)"
    marks = _mark(attn, course, hand_in(course, "ada", right_answers(course) | {"softmax": wrong, "attend": "x ="}))
    assert (marks["unit"], marks["max"]) == (UNIT, 9)
    items = marks["items"]
    assert list(items) == ["softmax", "attend", "two_word_example", "why_same_size"]
    assert items["softmax"]["diagnosis"] == "no maximum is subtracted" and 0 < items["softmax"]["score"] < 2
    assert items["softmax"]["message"]
    assert (items["attend"]["score"], items["attend"]["max"]) == (0, 3)
    assert items["two_word_example"] == {"score": 1, "max": 1, "diagnosis": None, "message": ""}
    assert items["why_same_size"]["score"] is None
    assert marks["score"] == sum(item["score"] or 0 for item in items.values())


def test_the_gradebook_and_the_store_are_left_alone(course, attn):
    _mark(attn, course, course.released(UNIT))
    assert not course.classroom.exists() or not any(course.classroom.iterdir())


def test_a_file_of_any_name_is_recognised_by_its_cells(course, attn, tmp_path):
    path = tmp_path / "my homework (2).ipynb"
    path.write_bytes(course.released(UNIT).read_bytes())
    marks = _mark(attn, course, path)
    assert marks["unit"] == UNIT and marks["score"] == 0
    assert {item["diagnosis"] for item in marks["items"].values() if item["score"] is not None} == {"not attempted"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"<html>", "not a notebook"),
        (b"[1, 2]", "no cells"),
        (b"\xff\xfe\x00", "no text"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b'{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook of this course"),
        (b'{"cells": [{"cell_type": "code"', "no valid JSON"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_file_that_is_no_notebook_of_the_course_is_one_line_and_status_2(course, attn, tmp_path, content, says):
    path = tmp_path / "file.ipynb"
    path.write_bytes(content)
    done = attn(course, "mark", str(path))
    assert done.exit_code == 2 and says in done.output
    assert len(done.output.strip().splitlines()) == 1 and "Traceback" not in done.output


def test_a_missing_file_is_one_line_and_status_2(course, attn):
    done = attn(course, "mark", "nowhere.ipynb")
    assert done.exit_code == 2 and "no file nowhere.ipynb" in done.output


def _units():
    from conftest import ROOT

    from autograder.course.paths import Course

    return Course(ROOT).units()


@pytest.mark.parametrize("unit", _units())
def test_the_solution_of_a_real_unit_has_full_marks_and_the_release_none(real_course, unit):
    from autograder.grading.mark import mark

    solved, released = (
        mark(real_course, path)["items"] for path in (real_course.solved(unit), real_course.released(unit))
    )
    assert {name: item for name, item in solved.items() if item["score"] not in (None, item["max"])} == {}
    items = [item for item in released.values() if item["score"] is not None]
    assert items and {(item["score"], item["diagnosis"]) for item in items} == {(0, "not attempted")}


def test_a_mark_is_the_grade(course):
    """Every student of the small class by `attn grade` with nbgrader's steps, and by `attn mark` without them."""
    from rich.progress import Progress

    from autograder.errors import CourseError
    from autograder.grading import gradebook_writer
    from autograder.grading.grade import Settings, grade
    from autograder.grading.mark import mark
    from autograder.proofs.sample_class import small_class

    small_class(course, 0)
    outcome = grade(course, [UNIT], Settings(workers=1), Progress(disable=True))
    totals = gradebook_writer.scores(course, UNIT)
    assert len(outcome.results) > 10 and len(outcome.rejected) == 1
    for submission, results in outcome.results.items():
        (path,) = submission.path.parent.iterdir()
        marks = mark(course, path)
        graded = {one.exercise: (one.score, one.points, one.diagnosis, one.message) for one in results}
        marked = {name: tuple(item.values()) for name, item in marks["items"].items() if item["score"] is not None}
        assert marked == graded, submission.student
        total = totals[submission.student]
        assert (marks["score"], marks["max"]) == (total["score"], total["max_score"]), submission.student
    for submission in outcome.rejected:
        with pytest.raises(CourseError, match="not a notebook, or one cut off"):
            mark(course, submission.path)


def test_the_limits_are_those_that_nbgrader_reads(course):
    from autograder.course.settings import limits
    from autograder.grading.grade import limits as of_nbgrader

    assert limits(course) == of_nbgrader(course)
    config = course.root / "nbgrader_config.py"
    text = config.read_text()
    config.write_text(text + "\nc.Execute.timeout = 7\nc.JudgedExecute.sandbox = 'none'\n")
    assert limits(course) == of_nbgrader(course) and limits(course).cell_seconds == 7
    config.write_text(text.replace("c.Execute.timeout = 60", "").replace("c.JudgedExecute.notebook_timeout = 600", ""))
    assert limits(course) == of_nbgrader(course)
