"""`attn override`: points by hand for an exercise that code grades. They stand in the gradebook as a marker's, with the
reason as a comment, and stay when the class is graded again (see grading/kept_marks.py)."""

import math
from datetime import UTC, datetime

from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.gradebook.database import open_gradebook
from autograder.grading import regrade_log
from autograder.grading.gradebook_writer import gradebook_lock
from autograder.grading.regrade_log import Change
from autograder.sanitize_terminal import printable

AUTO = "auto"


def override(course: Course, unit: str, student: str, exercise: str, points: str, reason: str) -> Change:
    """Gives these points of an exercise, or (`auto`) the check's again. Returns what changed. Raises CourseError."""
    from nbgrader.api import MissingEntry

    reason = printable(" ".join(reason.split()))
    if not reason:
        raise CourseError("Say why: the reason goes to the student's page, and into regrades.csv.", BAD_INPUT)
    with gradebook_lock(course), open_gradebook(course) as book:
        try:
            page = book.find_submission_notebook(unit, unit, student)
        except MissingEntry:
            raise CourseError(
                f"{printable(student)} has no grade of {unit} that could be changed.", BAD_INPUT
            ) from None
        grade = _grade(page, exercise)
        old = grade.auto_score if grade.manual_score is None else grade.manual_score
        given = _given(points, grade.max_score)
        grade.manual_score = given
        grade.needs_manual_grade = given is None and grade.auto_score is None
        comment = next((one for one in page.comments if one.name in (exercise, grade.name)), None)
        if comment is not None:
            comment.manual_comment = _said(comment.manual_comment, given, grade.max_score, reason)
        book.db.commit()
        new = grade.auto_score if given is None else given
    change = Change(datetime.now(UTC), unit, student, exercise, old, new, f"by hand: {reason}")
    regrade_log.add(course.regrades, [change])
    return change


def _grade(page, exercise: str):
    names = {grade.name: grade for grade in page.grades}
    for name in (f"{exercise}_test", exercise):
        if name in names:
            return names[name]
    known = ", ".join(sorted(name.removesuffix("_test") for name in names))
    raise CourseError(f"There is no exercise '{printable(exercise)}' in it. Exercises: {known}.", BAD_INPUT)


def _given(points: str, most: float) -> float | None:
    if points == AUTO:
        return None
    try:
        given = float(points)
    except ValueError:
        given = math.nan
    if not 0 <= given <= most:
        raise CourseError(f"'{printable(points)}': give a number from 0 to {most:g}, or {AUTO}.", BAD_INPUT)
    return given


def _said(before: str | None, given: float | None, most: float, reason: str) -> str:
    """The comment, with the newest reason at its end; an earlier reason is replaced."""
    kept = [line for line in (before or "").splitlines() if not line.startswith("Points by hand")]
    line = [] if given is None else [f"Points by hand, {given:g} of {most:g}: {reason}"]
    return "\n".join([*kept, *line])
