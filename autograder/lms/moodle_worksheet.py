"""Moodle's grading worksheet: a line for each participant, by the number in the download's folders."""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder import csv_files, timestamps
from autograder.csv_files import CsvFile

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


def participants(path: Path) -> dict[str, Participant]:
    """Each participant, by the number; the clock is taken for this machine's. Raises CourseError."""
    table = csv_files.read_csv(path)
    at, when = identifiers(table), table.column(WHEN)
    if when is None:
        raise csv_files.unusable_file(path, f"no column is called '{WHEN}': download the worksheet in English")
    email, idnumber = table.column("Email address"), table.column("ID number")
    read = {
        number_of(row[at]): Participant(_cell(row, email).casefold(), _cell(row, idnumber), _time(row[when]))
        for row in table.rows
    }
    told = any(one.time for one in read.values())
    if any(row[when].strip() not in ("", "-") for row in table.rows) and not told:
        raise csv_files.unusable_file(path, f"the times in '{WHEN}' can't be read: download the worksheet in English")
    return read


def _cell(row: list[str], at: int | None) -> str:
    return csv_files.normalize_unicode(row[at]) if at is not None else ""


def _time(text: str) -> datetime | None:
    """`Sunday, 22 November 2026, 10:15 AM`."""
    try:
        return timestamps.to_utc(datetime.strptime(text.partition(", ")[2], "%d %B %Y, %I:%M %p"))
    except (ValueError, OverflowError):
        return None
