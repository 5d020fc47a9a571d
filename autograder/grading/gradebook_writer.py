"""The gradebook's side of grading: a unit registered, a submission's result recorded, its feedback written. Only the
process that runs `attn` does this, one student after the other: nbgrader's gradebook bears one writer."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from autograder.course import nbgrader_steps
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.grading.open_gradebook import OPEN
from autograder.notebooks import STAMP
from autograder.whole_files import write_whole


class Notes:
    """A small JSON file of what was done last, beside the results. One process writes it, and reads it once."""

    def __init__(self, course: Course, name: str) -> None:
        self.path = course.results / f"{name}.json"
        try:
            self.all: dict[str, str] = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.all = {}

    def get(self, name: str) -> str | None:
        return self.all.get(name)

    def put(self, name: str, value: str) -> None:
        self.all[name] = value
        write_whole(self.path, json.dumps(self.all, indent=1, sort_keys=True))


@contextmanager
def gradebook_lock(course: Course) -> Iterator[None]:
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
            nbgrader_steps.generate_assignment(course, unit, release="autograder/class/registered")
        except nbgrader_steps.StepFailed as error:
            raise CourseError(_refusal(unit, str(error))) from error
        notes.put(unit, digest)
    return digest


def _refusal(unit: str, reason: str) -> str:
    if "submissions associated" not in reason:
        return f"{unit} can't be registered in the gradebook: {reason}"
    return (
        f"{unit} has graded submissions, and cells were added to it or taken away since: undo that, or start its "
        f"grades anew with `nbgrader db assignment remove {unit} --force` (marks and comments go too: run `attn "
        f"backup` before)."
    )


def _in_gradebook(course: Course, unit: str) -> bool:
    with nbgrader_steps.open_gradebook(course) as gradebook:
        return any(assignment.name == unit and assignment.notebooks for assignment in gradebook.assignments)


def stamp(course: Course, student: str, unit: str) -> dict:
    """What a graded notebook says of itself: "result", the key of what it shows, and "repairs"; or nothing."""
    try:
        return json.loads(course.graded(student, unit).read_text(encoding="utf-8"))["metadata"].get(STAMP, {})
    except (OSError, ValueError, KeyError):
        return {}


def is_recorded(course: Course, student: str, unit: str, key: str, known: set[str]) -> bool:
    """Whether the gradebook (`known`: who has a submission there) already shows this result of this hand-in."""
    if student not in known or stamp(course, student, unit).get("result") != key:
        return False
    return _timestamp(course.graded(student, unit).parent) == _timestamp(course.taken_in(student, unit).parent)


def repairs(course: Course, student: str, unit: str) -> list[str]:
    """What had to be mended in a student's notebook before it could be graded."""
    return stamp(course, student, unit).get("repairs", [])


def graded_students(course: Course, unit: str) -> set[str]:
    """The students with a submission of the unit in the gradebook."""
    with _gradebook(course) as gradebook:
        return {submission.student_id for submission in gradebook.assignment_submissions(unit)}


def outdated_page(course: Course, student: str, unit: str, notes: Notes) -> str:
    """What a student's feedback page should show, if a grade or comment has changed since the last; else ""."""
    state = _grades_and_comments(course, student, unit)
    there = (course.feedback / student / unit / f"{unit}.html").is_file()
    return "" if there and notes.get(f"{student}/{unit}") == state else state


def write_page(course: Course, student: str, unit: str, page: str) -> None:
    """Puts a feedback page where nbgrader would, with the files that lie beside the graded notebook."""
    folder = course.feedback / student / unit
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(course.graded(student, unit).parent, folder, ignore=shutil.ignore_patterns("*.ipynb"))
    write_whole(folder / f"{unit}.html", page or _plain_page(course, student, unit))
    for file in folder.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def _plain_page(course: Course, student: str, unit: str) -> str:
    """A page with the points alone, where the whole one could not be made."""
    with _gradebook(course) as gradebook:
        grades = gradebook.find_submission_notebook(unit, unit, student).grades
        rows = "".join(
            f"<tr><td>{escape(grade.name)}</td><td>{grade.score:g} / {grade.max_score:g}</td></tr>" for grade in grades
        )
    return f"""<!DOCTYPE html><meta charset="utf-8"><title>{unit}</title>
<p>The page with your notebook could not be made: something in it is too large to be shown. Your points:</p>
<table>{rows}</table>"""


def _grades_and_comments(course: Course, student: str, unit: str) -> str:
    """A hash of everything on a feedback page that can change: the result shown, and what markers wrote."""
    with _gradebook(course) as gradebook:
        try:
            page = gradebook.find_submission_notebook(unit, unit, student)
        except MissingEntry:
            raise nbgrader_steps.StepFailed("the gradebook has no such submission") from None
        grades = sorted(
            (grade.name, grade.auto_score, grade.manual_score, grade.extra_credit, bool(grade.needs_manual_grade))
            for grade in page.grades
        )
        comments = sorted((comment.name, comment.auto_comment, comment.manual_comment) for comment in page.comments)
        late = page.late_submission_penalty
    shown = stamp(course, student, unit).get("result")
    return hashlib.sha256(repr((grades, comments, late, shown)).encode()).hexdigest()


@contextmanager
def _gradebook(course: Course) -> Iterator[Gradebook]:
    """The one that is open, where one is (see open_gradebook.py)."""
    if OPEN:
        yield OPEN[-1]
    else:
        with nbgrader_steps.open_gradebook(course) as gradebook:
            yield gradebook


def add_student(course: Course, student: str) -> None:
    """A student whose work was rejected stands in the gradebook all the same."""
    with _gradebook(course) as gradebook:
        gradebook.update_or_create_student(student)


def scores(course: Course, unit: str) -> dict[str, dict]:
    """The gradebook's rows of a unit: student → nbgrader's dictionary (score, max_score, needs_manual_grade, …)."""
    with nbgrader_steps.open_gradebook(course) as gradebook:
        return {row["student"]: row for row in gradebook.submission_dicts(unit)}


def _timestamp(folder: Path) -> str:
    path = folder / "timestamp.txt"
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""
