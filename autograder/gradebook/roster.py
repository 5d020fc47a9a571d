"""The roster: who is in the class, by which names the learning management system knows them. A CSV file of the
instructor's; the copy that is used lies in the class folder."""

import shutil
import unicodedata
from dataclasses import astuple, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path

from autograder import csv_files
from autograder.course.paths import Course
from autograder.gradebook.database import open_gradebook
from autograder.grading.submission_discovery import invalid_character
from autograder.sanitize_terminal import printable

ACTIVE, DROPPED, EXCUSED = "", "dropped", "excused"
STATUSES = {"": ACTIVE, "active": ACTIVE, "enrolled": ACTIVE, DROPPED: DROPPED, EXCUSED: EXCUSED}
ONE_STUDENT_EACH = ("student_id", "email", "canvas_id", "sis_user_id", "sis_login_id", "moodle_idnumber")
"""Columns that tell students apart: no value may stand there twice, in whatever way it is written."""


@dataclass(frozen=True)
class Student:
    """A line of the roster. `student_id` is the name in the gradebook and of the folder in `submitted/`; the rest is
    optional."""

    student_id: str
    last_name: str = ""
    first_name: str = ""
    email: str = ""
    canvas_id: str = ""
    sis_user_id: str = ""
    sis_login_id: str = ""
    moodle_idnumber: str = ""
    section: str = ""
    team: str = ""
    status: str = ACTIVE


LONGEST = 120
"""Bytes of a student_id: nbgrader's gradebook has 128 characters for it."""

COLUMNS = tuple(column.name for column in fields(Student))


@dataclass
class Roster:
    """The students by id, in the order of the file. `notes`: what was read, but not used."""

    students: dict[str, Student]
    notes: list[str] = field(default_factory=list)

    def active(self) -> list[str]:
        """The ids of those from whom something is expected."""
        return [name for name, student in self.students.items() if student.status == ACTIVE]


def read_roster(path: Path) -> Roster:
    """Reads a roster. Raises CourseError, in a line that says where the file is wrong."""
    table = csv_files.read_csv(path)
    titles = [_title(title) for title in table.header]
    if "student_id" not in titles:
        found = ", ".join(printable(title)[:30] for title in table.header[:8])
        raise csv_files.unusable_file(path, f"no column is called student_id (found: {found})")
    if twice := next((title for title in titles if title in COLUMNS and titles.count(title) > 1), None):
        raise csv_files.unusable_file(path, f"two columns are called {twice}")
    students: dict[str, Student] = {}
    seen: dict[tuple[str, str], tuple[int, str]] = {}
    for line, row in zip(table.lines, table.rows, strict=True):
        student = _student(path, line, dict(zip(titles, row, strict=True)))
        _tell_apart(path, line, student, seen)
        students[student.student_id] = student
    if not students:
        raise csv_files.unusable_file(path, "it has a header and no student")
    unknown = [printable(title)[:30] for title in table.header if title.strip() and _title(title) not in COLUMNS]
    return Roster(students, [f"columns not used: {', '.join(unknown)}"] if unknown else [])


def _title(text: str) -> str:
    """`Student ID` is student_id."""
    return "_".join(text.strip().casefold().replace("-", " ").replace("_", " ").split())


def _student(path: Path, line: int, cells: dict[str, str]) -> Student:
    values = {
        name: csv_files.normalize_unicode(csv_files.unescape_formula(cells.get(name, "").strip())) for name in COLUMNS
    }
    if not values["student_id"]:
        raise csv_files.unusable_file(path, f"line {line} has no student_id")
    if why := why_unusable(values["student_id"]):
        raise csv_files.unusable_file(path, f"line {line}: student_id {printable(values['student_id'])[:40]!r} {why}")
    if (status := values["status"].casefold()) not in STATUSES:
        raise csv_files.unusable_file(
            path, f"line {line}: status '{printable(status)[:30]}' is none of active, dropped, excused"
        )
    for name in ("canvas_id", "sis_user_id", "moodle_idnumber"):  # spreadsheets make 123.0 of 123
        values[name] = values[name].removesuffix(".0") if values[name].removesuffix(".0").isdecimal() else values[name]
    return Student(**values | {"status": STATUSES[status], "email": values["email"].casefold()})


def fold(text: str) -> str:
    """A text in the form in which the same looks the same: small letters, ss for ß, one way to write é."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", text).casefold())


def _tell_apart(path: Path, line: int, student: Student, seen: dict[tuple[str, str], tuple[int, str]]) -> None:
    for name in ONE_STUDENT_EACH:
        value = getattr(student, name)
        if not value or (earlier := seen.setdefault((name, fold(value)), (line, value)))[0] == line:
            continue
        if earlier[1] == value:
            raise csv_files.unusable_file(
                path, f"{name} {printable(value)[:40]} stands in lines {earlier[0]} and {line}"
            )
        raise csv_files.unusable_file(
            path,
            f"{name} {printable(earlier[1])[:40]} (line {earlier[0]}) and {printable(value)[:40]} (line {line}) "
            "differ only in how they are written: no system tells them apart for sure",
        )


def why_unusable(student_id: str) -> str:
    """Why a text can't be a student_id, which is the name of a folder; "" where it can."""
    if odd := invalid_character(student_id):
        return f"holds {odd!r}, which nbgrader can't take"
    if "/" in student_id or "\\" in student_id or student_id.startswith("."):
        return "can't be the name of a folder"
    return "is too long" if len(student_id.encode("utf-8", "replace")) > LONGEST else ""


# ---------------------------------------------------------------- the class's own copy


def roster_path(course: Course) -> Path:
    """Where the roster in use lies."""
    return course.classroom / "roster.csv"


def current_roster(course: Course) -> Roster | None:
    """The roster of the class; None where none has been given yet."""
    return read_roster(roster_path(course)) if roster_path(course).is_file() else None


def save_roster(course: Course, roster: Roster) -> list[str]:
    """Makes this the roster of the class, its names and e-mails those of the gradebook. An earlier one that says
    something else goes to `history/`. Returns lines about who is not on it any more."""
    before = current_roster(course)
    if before is None or before.students != roster.students:
        if before is not None:
            _keep_earlier(course)
        csv_files.write_csv(roster_path(course), csv_files.to_csv(COLUMNS, map(astuple, roster.students.values())))
    _into_gradebook(course, roster)
    gone = [name for name in (before.students if before else {}) if name not in roster.students]
    return [f"not on the roster any more: {', '.join(gone[:10])}{', …' * (len(gone) > 10)}"] if gone else []


def _into_gradebook(course: Course, roster: Roster) -> None:
    """Names and e-mails; what the roster doesn't say stays as it is."""
    with open_gradebook(course) as book:
        known = {student.id: student for student in book.students}
        for student in roster.students.values():
            said = {name: getattr(student, name) for name in ("first_name", "last_name", "email")}
            new = {
                name: text
                for name, text in said.items()
                if text and getattr(known.get(student.student_id), name, None) != text
            }
            if new or student.student_id not in known:
                book.update_or_create_student(student.student_id, **new)


def _keep_earlier(course: Course) -> None:
    history = course.classroom / "history"
    history.mkdir(parents=True, exist_ok=True)
    shutil.copy2(roster_path(course), history / f"roster-{datetime.now(UTC):%Y-%m-%dT%H%M%S%f}.csv")
