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
from autograder.gradebook import grades
from autograder.gradebook.grades import Grade
from autograder.gradebook.roster import EXCUSED
from autograder.lms import attempts, moodle_worksheet
from autograder.lms.identify_student import name_key
from autograder.sanitize_terminal import printable

CANVAS, MOODLE = "canvas", "moodle"


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
    match = _Matching(course, found, "canvas")
    places = _columns(table, sis_user_id="SIS User ID", sis_login_id="SIS Login ID")
    notes = _possible(table, target, found)

    def find(row: list[str]) -> Grade | None:
        said = {what: row[at] for what, at in places.items()}
        return match.find(row[ids], said, row[0]) if row[ids].strip() else None

    write = _writer(table, assignments)
    filled = _fill(
        table, target, find, lambda one: "EX" if one.status == EXCUSED else write(grades.exported_score(one))
    )
    return filled, table.header[target], notes + match.left(found)


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
    match = _Matching(course, found, "moodle")
    places = _columns(table, email="Email address", moodle_idnumber="ID number", name="Full name")
    locked, most = table.column("Grade can be changed"), table.column("Maximum Grade")

    def find(row: list[str]) -> Grade | None:
        if locked is not None and row[locked].strip().casefold() == "no":
            return None
        said = {what: row[at] for what, at in places.items()}
        name = said.pop("name", "")
        return match.find(moodle_worksheet.number_of(row[identifier]), said, name)

    notes = _other_maximum(table.rows[0][most], found, "Moodle") if most is not None else []
    write = _writer(table, [at for at in (target, most) if at is not None])
    filled = _fill(table, target, find, lambda one: write(grades.exported_score(one)))
    return filled, table.header[target], notes + match.left(found)


def _writer(table: CsvFile, columns: list[int]) -> Callable[[float | None], str]:
    """Writes numbers as these columns have them: with a decimal comma where the site has one."""
    comma = any(re.fullmatch(r"\d+,\d+", row[at].strip()) for row in table.rows for at in columns)
    return lambda value: format_cell(value).replace(".", "," if comma else ".")


def _columns(table: CsvFile, **titles: str) -> dict[str, int]:
    """Where the columns are that the table has."""
    return {what: at for what, title in titles.items() if (at := table.column(title)) is not None}


def _fill(
    table: CsvFile, target: int, find: Callable[[list[str]], Grade | None], points: Callable[[Grade], str]
) -> int:
    """Writes what there is to write; returns how many."""
    filled = 0
    for row in table.rows:
        one = find(row)
        if one and (text := points(one)):
            row[target], filled = text, filled + 1
    return filled


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


class _Matching:
    """Finds the student of a line: by the number of the collected hand-in, by the roster, by a name that only one
    has."""

    def __init__(self, course: Course, found: list[Grade], lms: str) -> None:
        self.by: dict[tuple[str, str], Grade] = {}
        self.named: dict[str, list[Grade]] = {}
        self.matched: set[str] = set()
        known = attempts.load(course)
        for one in found:
            who = one.student
            for attempt in known.get((who.student_id, one.unit), {}).values():
                if attempt.lms == lms and attempt.lms_id:
                    self.by["number", attempt.lms_id] = one
            own = {
                "sis_user_id": who.sis_user_id,
                "sis_login_id": who.sis_login_id,
                "email": who.email.casefold(),
                "moodle_idnumber": who.moodle_idnumber,
            }
            self.by |= {(name, text): one for name, text in own.items() if text}
            if lms == CANVAS:
                self.by["number", who.canvas_id or who.student_id] = one
            for name in {name_key(who.first_name + who.last_name), name_key(who.last_name + who.first_name)} - {""}:
                self.named.setdefault(name, []).append(one)

    def find(self, lms_number: str, said: dict[str, str], name: str) -> Grade | None:
        said = {"number": lms_number} | said
        places = [(what, text.strip().casefold() if what == "email" else text.strip()) for what, text in said.items()]
        found = next((self.by[place] for place in places if place in self.by), None)
        if found is None and len(self.named.get(name_key(name), [])) == 1:
            found = self.named[name_key(name)][0]
        if found:
            self.matched.add(found.student.student_id)
        return found

    def left(self, found: list[Grade]) -> list[str]:
        """A line about grades for which the file has no line."""
        names = [
            one.student.student_id
            for one in found
            if grades.exported_score(one) is not None and one.student.student_id not in self.matched
        ]
        return [f"with a grade, but not in the file: {grades.shorten_list(names)}"] if names else []
