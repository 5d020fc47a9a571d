"""The tables of learning management systems, filled: one column of a file that the instructor downloaded. Everything
else in it stays as it was, and a student without a grade keeps what stands there."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder import csv_files
from autograder.course.paths import Course
from autograder.csv_files import CsvFile, format_cell, format_number
from autograder.errors import BAD_INPUT, CourseError
from autograder.exports.match_lines import Line, match_lines
from autograder.gradebook import grades
from autograder.gradebook import roster as rosters
from autograder.gradebook.grades import Grade
from autograder.gradebook.roster import EXCUSED
from autograder.lms import attempts, moodle_worksheet
from autograder.lms.accounts import counting_attempts
from autograder.lms.claim import CANVAS, MOODLE
from autograder.lms.identify_student import name_key
from autograder.sanitize_terminal import printable


@dataclass
class FilledTable:
    """How many lines of a column were filled, and lines about what a person should know."""

    path: Path
    grades: int
    column: str = ""
    notes: list[str] = field(default_factory=list)


def fill_table(course: Course, found: list[Grade], format: str, into: Path | None, column: str | None) -> FilledTable:
    """Writes NAME.filled.csv beside the file. Raises CourseError where it is not as Canvas or Moodle make it."""
    if into is None:
        what = (
            "gradebook (Grades → Export)"
            if format == CANVAS
            else "grading worksheet (View all submissions → Download grading worksheet)"
        )
        raise CourseError(
            f"--format {format} fills a file of {format.title()}'s: download its {what}, and name it with --into.",
            BAD_INPUT,
        )
    table = csv_files.read_csv(into)
    filled, title, notes = (_canvas if format == CANVAS else _moodle)(course, table, found, column)
    if not filled:
        raise csv_files.unusable_file(
            into, f"no line of it is one of a student with a grade of {found[0].unit if found else 'the unit'}"
        )
    target = into.with_name(f"{into.stem}.filled{into.suffix}")
    csv_files.write_csv(target, table.text())
    return FilledTable(target, filled, title, notes)


def _canvas(course: Course, table: CsvFile, found: list[Grade], column: str | None) -> tuple[int, str, list[str]]:
    """Canvas finds students by `ID`; the line of points possible and the test student have none of ours."""
    ids = table.column("ID")
    if table.column("Student") != 0 or ids is None:
        raise csv_files.unusable_file(table.path, "it is no gradebook of Canvas's (its columns begin with Student, ID)")
    assignments = [at for at, title in enumerate(table.header) if re.search(r"\(\d+\)\s*$", title)]
    target = _chosen_column(table, assignments, found[0].unit if found else "", column)
    places = _columns(table, sis_user_id="SIS User ID", sis_login_id="SIS Login ID")
    lines = {at: _line(row, row[ids], places, row[0]) for at, row in enumerate(table.rows) if row[ids].strip()}
    matched = match_lines(CANVAS, lines, found, _numbers(course, found, CANVAS))
    write = _writer(table, assignments)
    filled = _fill(
        table, target, matched.of, lambda one: "EX" if one.status == EXCUSED else write(grades.exported_score(one))
    )
    return filled, table.header[target], _possible(table, target, found) + matched.notes(found)


def _possible(table: CsvFile, target: int, found: list[Grade]) -> list[str]:
    row = next((row for row in table.rows if row[0].strip().casefold() == "points possible"), None)
    return _other_maximum(row[target] if row else "", found, "Canvas")


def _other_maximum(text: str, found: list[Grade], where: str) -> list[str]:
    try:
        most = float(text.replace(",", "."))
    except ValueError:
        return []
    ours = found[0].max_score if found else most
    return [
        f"{where} gives {format_number(most)} points for this, the unit {format_number(ours)}: the points are written "
        f"as they are"
    ] * (most != ours)


def _moodle(course: Course, table: CsvFile, found: list[Grade], column: str | None) -> tuple[int, str, list[str]]:
    """Moodle finds students by `Identifier`, `Participant 900001`; the number is that of the folder in its download."""
    identifier = moodle_worksheet.identifiers(table)
    target = _chosen_column(table, [at for at in [table.column("Grade")] if at is not None], "", column)
    places = _columns(table, email="Email address", moodle_idnumber="ID number")
    locked, most, name = (table.column(title) for title in ("Grade can be changed", "Maximum Grade", "Full name"))
    lines = {
        at: _line(row, moodle_worksheet.number_of(row[identifier]), places, "" if name is None else row[name])
        for at, row in enumerate(table.rows)
    }
    matched = match_lines(MOODLE, lines, found, _numbers(course, found, MOODLE))
    if locked is not None:
        matched.of = {at: one for at, one in matched.of.items() if table.rows[at][locked].strip().casefold() != "no"}
    notes = _other_maximum(table.rows[0][most], found, "Moodle") if most is not None else []
    write = _writer(table, [at for at in (target, most) if at is not None])
    filled = _fill(table, target, matched.of, lambda one: write(grades.exported_score(one)))
    return filled, table.header[target], notes + matched.notes(found)


def _line(row: list[str], number: str, places: dict[str, int], name: str) -> Line:
    return Line(number.strip(), {what: row[at].strip() for what, at in places.items()}, name)


def _numbers(course: Course, found: list[Grade], lms: str) -> dict[str, str]:
    """Student → the LMS's number, of the attempt that counts."""
    counting = counting_attempts(
        attempts.load(course), found[0].unit if found else "", lms, rosters.current_roster(course)
    )
    return {student: one.lms_id for student, one in counting.items()}


def _writer(table: CsvFile, columns: list[int]) -> Callable[[float | None], str]:
    """Writes numbers as these columns have them: with a decimal comma where the site has one."""
    comma = any(re.fullmatch(r"\d+,\d+", row[at].strip()) for row in table.rows for at in columns)
    return lambda value: format_cell(value).replace(".", "," if comma else ".")


def _columns(table: CsvFile, **titles: str) -> dict[str, int]:
    """Where the columns are that the table has."""
    return {what: at for what, title in titles.items() if (at := table.column(title)) is not None}


def _fill(table: CsvFile, target: int, of: dict[int, Grade], points: Callable[[Grade], str]) -> int:
    """Writes what there is to write; returns how many."""
    texts = {at: text for at, one in of.items() if (text := points(one))}
    for at, text in texts.items():
        table.rows[at][target] = text
    return len(texts)


def _chosen_column(table: CsvFile, candidates: list[int], unit: str, column: str | None) -> int:
    """The column that is named, or the only one that can be meant."""
    if column is not None:
        if (at := table.column(column)) is None:
            raise csv_files.unusable_file(table.path, f"no column is called '{printable(column)[:60]}'")
        return at
    meant = [at for at in candidates if _is_meant(table.header[at], unit)] if unit else candidates
    if len(meant) == 1:
        return meant[0]
    shown = ", ".join(
        f"'{printable(table.header[at])[:60]}'" for at in (meant or candidates or range(len(table.header)))[:8]
    )
    raise csv_files.unusable_file(
        table.path, f"which column is {unit or 'the grade'}'s can't be told: name it with --column (there are {shown})"
    )


def _is_meant(title: str, unit: str) -> bool:
    """Whether an assignment's title has the unit's number or name: `Unit 2 (345)`, `02 QKV attention (345)`."""
    words = re.sub(r"\(\d+\)\s*$", "", title).casefold()
    return name_key(unit[3:]) in name_key(words) or any(
        int(digits) == int(unit[:2]) for digits in re.findall(r"\d{1,4}", words)
    )
