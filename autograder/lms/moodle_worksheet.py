"""Moodle's grading worksheet: a line for each participant, by the number in the download's folders."""

import re
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


def submission_times(path: Path) -> dict[str, datetime]:
    """When each participant handed in, to the minute; its clock is taken for this machine's. Raises CourseError."""
    table = csv_files.read_csv(path)
    at, when = identifiers(table), table.column(WHEN)
    if when is None:
        raise csv_files.unusable_file(path, f"no column is called '{WHEN}': download the worksheet in English")
    read = {number_of(row[at]): _time(row[when]) for row in table.rows}
    if any(row[when].strip() not in ("", "-") for row in table.rows) and not any(read.values()):
        raise csv_files.unusable_file(path, f"the times in '{WHEN}' can't be read: download the worksheet in English")
    return {number: time for number, time in read.items() if time}


def _time(text: str) -> datetime | None:
    """`Sunday, 22 November 2026, 10:15 AM`."""
    try:
        return timestamps.to_utc(datetime.strptime(text.partition(", ")[2], "%d %B %Y, %I:%M %p"))
    except (ValueError, OverflowError):
        return None
