"""Whose folders are that the roster can't place: what the instructor says with `--alias`, kept in `aliases.csv`."""

from collections.abc import Iterable

from autograder import csv_files
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.gradebook.roster import Roster
from autograder.sanitize_terminal import printable

HEADER = ("folder", "student_id")


def parse_aliases(texts: Iterable[str], roster: Roster | None) -> dict[str, str]:
    """Folder, or a part of its name → student, of `unit-02-octocat=alove1`. Raises CourseError."""
    found = {}
    for text in texts:
        folder, _, student = (part.strip() for part in csv_files.normalize_unicode(text).rpartition("="))
        if not folder or not student:
            raise CourseError(f"--alias is FOLDER=student_id, not '{printable(text)[:60]}'.", BAD_INPUT)
        if roster and student not in roster.students:
            raise CourseError(f"--alias: there is no student '{printable(student)[:40]}' on the roster.", BAD_INPUT)
        found[folder] = student
    return found


def load_aliases(course: Course) -> dict[str, str]:
    """Those of earlier runs. Raises CourseError."""
    path = course.classroom / "aliases.csv"
    if not path.is_file():
        return {}
    table = csv_files.read_csv(path)
    if tuple(table.header) != HEADER:
        raise csv_files.unusable_file(path, f"its columns are not {' and '.join(HEADER)}")
    return {csv_files.unescape_formula(folder): csv_files.unescape_formula(student) for folder, student in table.rows}


def save_aliases(course: Course, aliases: dict[str, str]) -> None:
    """Keeps them for the next time."""
    csv_files.write_csv(course.classroom / "aliases.csv", csv_files.to_csv(HEADER, sorted(aliases.items())))
