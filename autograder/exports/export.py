"""`attn export`: grades as a long table of ours, as Gradescope's own download has them, or filled into the tables
that Canvas and Moodle take back."""

from datetime import UTC, datetime
from pathlib import Path

from autograder import csv_files, timestamps
from autograder.course.paths import Course
from autograder.csv_files import format_cell
from autograder.errors import BAD_INPUT, CourseError
from autograder.exports.lms_tables import CANVAS, MOODLE, FilledTable, fill_table
from autograder.exports.questions import questions_table
from autograder.gradebook import grades
from autograder.gradebook.grades import Grade
from autograder.lms import attempts
from autograder.lms.claim import GRADESCOPE
from autograder.sanitize_terminal import printable
from autograder.whole_files import encoded

CSV = "csv"
FORMATS = (CSV, CANVAS, MOODLE, GRADESCOPE)
LONG = (
    *("unit", "student_id", "last_name", "first_name", "email", "section", "status", "submitted", "due", "late"),
    *("code_score", "written_score", "written_unmarked", "late_penalty", "score", "max_score"),
)
OF_GRADESCOPE = (
    *("First Name", "Last Name", "SID", "Email", "Sections", "Total Score", "Max Points", "Status", "Submission ID"),
    *("Submission Time", "Lateness (H:M:S)", "View Count", "Submission Count"),
)


def export(
    course: Course,
    units: list[str],
    format: str,
    into: Path | None,
    column: str | None,
    with_open: bool,
    questions: bool = False,
) -> FilledTable:
    """Writes the units' grades. into: for csv and gradescope the file to write; for canvas and moodle the file from
    there; questions: with a column an exercise. Raises CourseError, and then nothing is written."""
    if format not in FORMATS:
        raise CourseError(f"There is no format '{printable(format)[:30]}': choose {', '.join(FORMATS)}.", BAD_INPUT)
    if questions and format != CSV:
        raise CourseError(f"--questions makes a table of its own: leave --format {format} out.", BAD_INPUT)
    if format != CSV and len(units) != 1:
        raise CourseError(f"--format {format} is for one unit: name it.", BAD_INPUT)
    found = {unit: grades.grades(course, unit) for unit in units}
    for of_unit in found.values() if not with_open else ():
        grades.require_all_marked(of_unit)
    notes = [line for of_unit in found.values() for line in grades.warnings(course, of_unit)]
    if questions:
        done = _with_questions(course, found, into)
    elif format in (CSV, GRADESCOPE):
        done = _own_table(course, found, format, into)
    else:
        done = fill_table(course, found[units[0]], format, into, column)
    done.notes[:0] = notes
    return done


# ---------------------------------------------------------------- tables of our own


def _own_table(course: Course, found: dict[str, list[Grade]], format: str, into: Path | None) -> FilledTable:
    path = into or course.classroom / ("grades.csv" if format == CSV else f"gradescope-{next(iter(found))}.csv")
    every = [one for of_unit in found.values() for one in of_unit]
    if format == CSV:
        text = csv_files.to_csv(LONG, map(_long, every))
    else:
        known = attempts.load(course)
        text = csv_files.to_csv(
            OF_GRADESCOPE, [_gradescope(one, known.get((one.student.student_id, one.unit), {})) for one in every]
        )
    _write(path, text)
    return FilledTable(path, sum(one.score is not None for one in every))


def _with_questions(course: Course, found: dict[str, list[Grade]], into: Path | None) -> FilledTable:
    text, count = questions_table(course, found)
    path = into or course.classroom / "questions.csv"
    _write(path, text)
    return FilledTable(path, count)


def _long(one: Grade) -> list[str]:
    who = one.student
    person = [who.student_id, who.last_name, who.first_name, who.email, who.section]
    times = [timestamps.format_timestamp(one.submitted), timestamps.format_timestamp(one.due), "yes" * one.late]
    numbers = one.code_score, one.written_score, one.written_unmarked, one.late_penalty, one.score, one.max_score
    return [one.unit, *person, one.status, *times, *map(format_cell, numbers)]


def _gradescope(one: Grade, known: dict[str, attempts.Attempt]) -> list[str]:
    """A line as in Gradescope's own download of grades; what only Gradescope knows is empty."""
    who, chosen = one.student, next((attempt for attempt in known.values() if attempt.counts), None)
    status = "Missing" if one.score is None else "Ungraded" if one.status == grades.TO_MARK else "Graded"
    person = [who.first_name, who.last_name, who.sis_user_id or who.student_id, who.email, who.section]
    number_there = chosen.lms_id if chosen and chosen.lms == GRADESCOPE else ""
    points = [format_cell(grades.exported_score(one)), format_cell(one.max_score), status]
    return [
        *person,
        *points,
        number_there,
        timestamps.format_timestamp(one.submitted),
        _lateness(one),
        "",
        str(len(known) or ""),
    ]


def _lateness(one: Grade) -> str:
    """Hours, minutes and seconds."""
    if one.score is None:
        return ""
    seconds = int((one.submitted - one.due).total_seconds()) if one.late and one.submitted and one.due else 0
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _write(path: Path, text: str) -> None:
    if not (path.is_file() and path.read_bytes() == encoded(text)):
        _keep_copy(path)
        csv_files.write_csv(path, text)


def _keep_copy(path: Path) -> None:
    """A file that lies there gets another name."""
    if path.exists():
        try:
            path.rename(path.with_name(f"{path.stem}.before-{datetime.now(UTC):%Y-%m-%dT%H%M%S%f}{path.suffix}"))
        except OSError as error:
            raise CourseError(f"{path} can't be put aside ({error.strerror}).") from None
