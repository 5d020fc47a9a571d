"""The gradebook's side of grading: a unit registered, a submission's result recorded, its feedback written. Only the
process that runs `attn` does this, one student after the other: nbgrader's gradebook bears one writer."""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from nbgrader.api import MissingEntry

from autograder import limited, notebooks
from autograder.course import stock
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.grading.store import write_whole
from autograder.notebooks import STAMP

PAGE_SECONDS = 30.0  # of processor time for one feedback page; 1 is usual


@contextmanager
def only_writer(course: Course) -> Iterator[None]:
    """Holds the gradebook for this process; a second run is told to wait, not left to spoil the first one's work."""
    course.classroom.mkdir(parents=True, exist_ok=True)
    with open(course.classroom / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CourseError("Another `attn grade` is at work on this gradebook: wait until it is done.") from None
        yield


def register(course: Course, unit: str) -> str:
    """Writes the unit's cells into the gradebook if its solution notebook has changed. Returns the notebook's hash."""
    solved(course, unit)
    digest = hashlib.sha256(course.solved(unit).read_bytes()).hexdigest()
    notes = Notes(course, "registered")
    if notes.get(unit) != digest or not _in_gradebook(course, unit):
        try:  # the release that comes out is not wanted: `attn build` makes it
            stock.generate_assignment(course, unit, release="autograder/class/registered")
        except stock.StepFailed as error:
            raise CourseError(_refusal(unit, str(error))) from error
        notes.put(unit, digest)
    return digest


def _refusal(unit: str, reason: str) -> str:
    if "submissions associated" not in reason:
        return f"{unit} can't be registered in the gradebook: {reason}"
    return (f"{unit} has graded submissions, and cells were added to it or taken away since: undo that, or start its "
            f"grades anew with `nbgrader db assignment remove {unit} --force`.")  # fmt: skip


def _in_gradebook(course: Course, unit: str) -> bool:
    with stock.open_gradebook(course) as gradebook:
        return any(assignment.name == unit and assignment.notebooks for assignment in gradebook.assignments)


def is_recorded(course: Course, student: str, unit: str, key: str, known: set[str]) -> bool:
    """Whether the gradebook (`known`: who has a submission there) already shows this result of this hand-in."""
    graded = course.graded(student, unit)
    if student not in known or not graded.is_file():
        return False
    try:
        stamp = json.loads(graded.read_text(encoding="utf-8"))["metadata"].get(STAMP, {}).get("result")
    except (ValueError, KeyError):
        return False
    return stamp == key and _timestamp(graded.parent) == _timestamp(course.taken_in(student, unit).parent)


def repairs(course: Course, student: str, unit: str) -> list[str]:
    """What had to be mended in a student's notebook before it could be graded."""
    return notebooks.read(course.graded(student, unit)).metadata.get(STAMP, {}).get("repairs", [])


def graded_students(course: Course, unit: str) -> set[str]:
    """The students with a submission of the unit in the gradebook."""
    with stock.open_gradebook(course) as gradebook:
        return {submission.student_id for submission in gradebook.assignment_submissions(unit)}


def write_feedback(course: Course, student: str, unit: str) -> bool:
    """Writes a student's feedback page, if a grade or a comment has changed since the last. Returns whether it did."""
    notes, name = Notes(course, "feedback"), f"{student}/{unit}"
    state = _grades_and_comments(course, student, unit)
    if notes.get(name) == state and (course.feedback / student / unit / f"{unit}.html").is_file():
        return False
    try:
        limited.call(stock.generate_feedback, course, student, unit, seconds=PAGE_SECONDS)
    except (limited.TooMuch, limited.Failed) as reason:
        _plain_page(course, student, unit)
        notes.put(name, state)
        raise CourseError(str(reason)) from None
    notes.put(name, state)
    return True


def _plain_page(course: Course, student: str, unit: str) -> None:
    """A page with the points alone, where the whole one could not be made."""
    with stock.open_gradebook(course) as gradebook:
        grades = gradebook.find_submission_notebook(unit, unit, student).grades
        rows = "".join(
            f"<tr><td>{escape(grade.name)}</td><td>{grade.score:g} / {grade.max_score:g}</td></tr>" for grade in grades
        )
    write_whole(
        course.feedback / student / unit / f"{unit}.html",
        f"""<!DOCTYPE html><meta charset="utf-8"><title>{unit}</title>
<p>The page with your notebook could not be made: something in it is too large to be shown. Your points:</p><table>{rows}</table>""",
    )


def _grades_and_comments(course: Course, student: str, unit: str) -> str:
    """A hash of everything on a feedback page that can change: the result shown, and what markers wrote."""
    with stock.open_gradebook(course) as gradebook:
        try:
            page = gradebook.find_submission_notebook(unit, unit, student)
        except MissingEntry:
            raise stock.StepFailed("the gradebook has no such submission") from None
        grades = sorted((grade.name, grade.auto_score, grade.manual_score, grade.extra_credit) for grade in page.grades)
        comments = sorted((comment.name, comment.auto_comment, comment.manual_comment) for comment in page.comments)
        late = page.late_submission_penalty
    shown = notebooks.read(course.graded(student, unit)).metadata.get(STAMP, {})
    return hashlib.sha256(repr((grades, comments, late, shown.get("result"))).encode()).hexdigest()


def add_student(course: Course, student: str) -> None:
    """A student whose work was rejected stands in the gradebook all the same."""
    with stock.open_gradebook(course) as gradebook:
        gradebook.update_or_create_student(student)


def scores(course: Course, unit: str) -> dict[str, dict]:
    """The gradebook's rows of a unit: student → nbgrader's dictionary (score, max_score, needs_manual_grade, …)."""
    with stock.open_gradebook(course) as gradebook:
        return {row["student"]: row for row in gradebook.submission_dicts(unit)}


def _timestamp(folder: Path) -> str:
    path = folder / "timestamp.txt"
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""


class Notes:
    """A small JSON file of what was done last, beside the results."""

    def __init__(self, course: Course, name: str) -> None:
        self.path = course.results / f"{name}.json"

    def get(self, name: str) -> str | None:
        return self._all().get(name)

    def put(self, name: str, value: str) -> None:
        write_whole(self.path, json.dumps(self._all() | {name: value}, indent=1, sort_keys=True))

    def _all(self) -> dict[str, str]:
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
