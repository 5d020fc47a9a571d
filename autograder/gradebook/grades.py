"""What the gradebook says of every student and unit, as rows for all exports. Every number is the gradebook's."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from autograder import timestamps
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.gradebook import roster as rosters
from autograder.gradebook.database import open_gradebook
from autograder.gradebook.roster import DROPPED, EXCUSED, Roster, Student

GRADED, TO_MARK, REJECTED, MISSING = "graded", "to_mark", "rejected", "missing"


@dataclass(frozen=True)
class Grade:
    """A student's grade of a unit. `score` is None where there is no grade; else it is what nbgrader's own export
    says: all points less the late penalty, and at least 0."""

    unit: str
    student: Student
    status: str
    submitted: datetime | None = None
    due: datetime | None = None
    late: bool = False
    code_score: float | None = None
    written_score: float | None = None
    written_unmarked: int | None = None
    late_penalty: float | None = None
    score: float | None = None
    max_score: float = 0.0


def grades(course: Course, unit: str) -> list[Grade]:
    """A grade for everybody on the roster, in its order, and for everybody else who handed in. Raises CourseError
    where the unit was never graded."""
    roster = rosters.current_roster(course) or Roster({})
    with open_gradebook(course) as book:
        assignment = next((one for one in book.assignments if one.name == unit and one.notebooks), None)
        if assignment is None:
            raise CourseError(f"{unit} has no grades yet: run `attn grade {unit[:2]}`.", BAD_INPUT)
        rows, open_answers = _rows(book, unit), _open(book, unit)
        people = {one.id: one for one in book.students}
        names = dict.fromkeys([*roster.students, *sorted(set(rows) | _handed_in(course, unit))])
        most, due = assignment.max_score, timestamps.from_gradebook(assignment.duedate)
        return [
            _grade(course, unit, _student(name, roster, people), rows.get(name), open_answers.get(name, 0), most, due)
            for name in names
        ]


def units_with_grades(course: Course) -> list[str]:
    """The units in the gradebook. Raises CourseError where there is none."""
    with open_gradebook(course) as book:
        found = {one.name for one in book.assignments if one.notebooks}
    if units := [unit for unit in course.units() if unit in found]:
        return units
    raise CourseError("No unit has grades yet: run `attn grade`.", BAD_INPUT)


def require_all_marked(found: Iterable[Grade]) -> None:
    """Raises CourseError where a written answer waits for its mark."""
    waiting = [one for one in found if one.status == TO_MARK]
    if waiting:
        who, count = [one.student.student_id for one in waiting], sum(one.written_unmarked or 0 for one in waiting)
        answers = f"{count} written answer{'s' * (count > 1)} of {len(who)} student{'s' * (len(who) > 1)}"
        raise CourseError(
            f"{answers} of {waiting[0].unit} {'are' if count > 1 else 'is'} not marked ({shorten_list(who)}): mark "
            f"them in "
            "formgrader, or export what there is with --open."
        )


def warnings(course: Course, found: list[Grade]) -> list[str]:
    """What a person should know before these numbers go out."""
    lines = []
    without = [one.student.student_id for one in found if one.status == REJECTED]
    if without:
        lines.append(f"handed in, but without a grade (`attn grade` says why): {shorten_list(without)}")
    newer = [one.student.student_id for one in found if one.score is not None and _is_newer(course, one)]
    if newer:
        lines.append(f"handed in again since they were graded (run `attn grade`): {shorten_list(newer)}")
    roster = rosters.current_roster(course)
    strangers = [one.student.student_id for one in found if roster and one.student.student_id not in roster.students]
    if strangers:
        lines.append(f"not on the roster: {shorten_list(strangers)}")
    return lines


def shorten_list(names: list[str]) -> str:
    """The first of them."""
    return ", ".join(names[:10]) + ", …" * (len(names) > 10)


def _rows(book, unit: str) -> dict[str, dict]:
    """Student → nbgrader's dictionary, with what it leaves out: the penalty and whether it was late."""
    rows = {row["student"]: row for row in book.submission_dicts(unit)}
    for one in book.assignment_submissions(unit):
        if one.student_id in rows:
            rows[one.student_id] |= {
                "late_penalty": one.late_submission_penalty,
                "late": one.total_seconds_late > 0,
                "due": one.duedate,
            }
    return rows


def _open(book, unit: str) -> dict[str, int]:
    """Student → how many answers wait for a mark."""
    from nbgrader.api import Assignment, SubmittedAssignment, SubmittedNotebook
    from nbgrader.api import Grade as Cell
    from sqlalchemy import func

    found = (
        book.db.query(SubmittedAssignment.student_id, func.count(Cell.id))
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Cell, Cell.notebook_id == SubmittedNotebook.id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .filter(Assignment.name == unit, Cell.needs_manual_grade)
        .group_by(SubmittedAssignment.student_id)
    )
    return dict(found.all())


def _handed_in(course: Course, unit: str) -> set[str]:
    if not course.submitted.is_dir():
        return set()
    return {
        path.name for path in course.submitted.iterdir() if not path.name.startswith(".") and (path / unit).is_dir()
    }


def _student(name: str, roster: Roster, people: dict) -> Student:
    if name in roster.students:
        return roster.students[name]
    known = people.get(name)
    return Student(name, *((getattr(known, what, None) or "") for what in ("last_name", "first_name", "email")))


def _grade(
    course: Course, unit: str, student: Student, row: dict | None, waiting: int, most: float, due: datetime | None
) -> Grade:
    if row is None:
        there = course.submission(student.student_id, unit).parent.is_dir()
        return Grade(unit, student, student.status or (REJECTED if there else MISSING), due=due, max_score=most)
    penalty, status = row["late_penalty"] or 0.0, student.status or (TO_MARK if waiting else GRADED)
    times = timestamps.from_gradebook(row["timestamp"]), timestamps.from_gradebook(row["due"]), row["late"]
    points = row["code_score"], row["written_score"], waiting, penalty, max(0.0, row["score"] - penalty)
    return Grade(unit, student, status, *times, *points, most)


def _is_newer(course: Course, one: Grade) -> bool:
    place = one.student.student_id, one.unit
    handed_in, graded = course.submission(*place), course.graded(*place)
    return handed_in.is_file() and (not graded.is_file() or handed_in.stat().st_mtime > graded.stat().st_mtime)


def exported_score(one: Grade) -> float | None:
    """The score that a learning management system is given: none for who dropped the course, or is excused."""
    return None if one.status in (DROPPED, EXCUSED) else one.score
