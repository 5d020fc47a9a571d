"""Moodle's grading worksheet: a line for each participant, by the number in the download's folders."""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder import csv_files, timestamps
from autograder.csv_files import CsvFile
from autograder.lms.written_dates import read_date
from autograder.sanitize_terminal import printable

IDENTIFIER = re.compile(r"\D+\s?(\d+)")
WHEN = "Last modified (submission)"


def identifiers(table: CsvFile) -> int:
    """The column of `Participant 900001`, in whatever language. Raises CourseError where there is none."""
    for at in range(len(table.header)):
        if table.rows and all(IDENTIFIER.fullmatch(row[at].strip()) for row in table.rows):
            return at
    raise csv_files.unusable_file(
        table.path, "it is no grading worksheet of Moodle's (no column with 'Participant' and a number in every line)"
    )


def number_of(text: str) -> str:
    """The number of `Participant 900001`."""
    return IDENTIFIER.sub(r"\1", text.strip())


@dataclass(frozen=True)
class Participant:
    """A line. `time`: when the hand-in came, to the minute; the rest says who it is, whatever the display name."""

    email: str
    idnumber: str
    time: datetime | None


def participants(path: Path) -> tuple[dict[str, Participant], list[str]]:
    """Each participant, by the number; and a line for each time that can't be read. Raises CourseError."""
    table = csv_files.read_csv(path)
    at, when = identifiers(table), _submission_column(table)
    email, idnumber = table.column("Email address"), table.column("ID number")
    read, unread = {}, []
    for line, row in zip(table.lines, table.rows, strict=True):
        said, time = row[when].strip(), read_date(row[when])
        read[number_of(row[at])] = Participant(
            _cell(row, email).casefold(), _cell(row, idnumber), time and timestamps.to_utc(time)
        )
        if said.strip("-") and not time:
            unread.append(
                f"{path.name}, line {line}: the time {printable(said)[:40]!r} can't be read, so it is not known"
            )
    return read, unread


def _submission_column(table: CsvFile) -> int:
    """The column of the times of hand-ins: the one with the English name, else the first with dates in it; that of the
    times of grades comes after it. Raises CourseError."""
    named = table.column(WHEN)
    places = range(len(table.header)) if named is None else [named]
    for at in places:
        if any(read_date(row[at]) for row in table.rows):
            return at
    if named is not None and not any(row[named].strip("- ") for row in table.rows):
        return named  # nobody has handed in
    raise csv_files.unusable_file(table.path, "no column has times that can be read: download the worksheet in English")


def _cell(row: list[str], at: int | None) -> str:
    return csv_files.normalize_unicode(row[at]) if at is not None else ""
