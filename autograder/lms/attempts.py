"""What each student handed in, attempt by attempt: `collected.csv` in the class folder. Of several the last before
the deadline counts; where none was in time, the last."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta

from autograder import csv_files, timestamps
from autograder.course.paths import Course
from autograder.lms.claim import CANVAS, MOODLE

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"(?:\((\d{1,6})\)|-(\d{1,6}))\s*\.ipynb", re.IGNORECASE)


@dataclass(frozen=True)
class Attempt:
    """One notebook of one student. `seen`: when it was first collected; `submitted`: when it was handed in, as
    `time_from` says (`lms`, `file`: when the file was saved, `timestamp.txt`; "": nobody says); `late`: the LMS
    called it late; `lms_id`: the LMS's number of the student (Canvas, Moodle) or of the submission (Gradescope);
    `why`: why it can't be graded, where it can't; `account`: what tells people apart in the LMS."""

    student_id: str
    unit: str
    sha256: str
    name: str
    lms: str = ""
    lms_id: str = ""
    order: int = 0
    seen: datetime = NEVER
    submitted: datetime | None = None
    time_from: str = ""
    late: bool = False
    why: str = ""
    counts: bool = False
    account: str = ""

    @property
    def place(self) -> tuple[str, str]:
        return self.student_id, self.unit

    @property
    def age(self) -> tuple:
        """Sorts by time; at the same time the greater number of upload, or `name (2)`, is the later."""
        number = _NUMBER.search(self.name)
        return (
            self.submitted or self.seen,
            self.order,
            int(next(filter(None, number.groups()))) if number else 0,
            self.name,
        )

    def is_late(self, due: datetime | None) -> bool:
        return self.late or bool(due and self.submitted and self.submitted > due)

    def timestamp(self, due: datetime | None) -> str:
        """What timestamp.txt says of it; "" where the time is not known. A hand-in that the LMS calls late without
        saying by how much gets the first second after the deadline."""
        if self.submitted or not (self.late and due):
            return timestamps.format_timestamp(self.submitted)
        return timestamps.format_timestamp(due + timedelta(seconds=1))


COLUMNS = tuple(column.name for column in fields(Attempt))


def counting_attempt(attempts: Iterable[Attempt], due: datetime | None) -> Attempt:
    """The attempt that counts. What can't be graded never takes the place of what can."""
    attempts = list(attempts)
    attempts = [one for one in attempts if not one.why] or attempts
    in_time = [one for one in attempts if not one.is_late(due)]
    return max(in_time or attempts, key=lambda one: one.age)


def merge_attempts(first: Attempt, again: Attempt) -> Attempt:
    """The same bytes handed in twice: the earlier hand-in stands."""
    times = [one for one in (first, again) if one.submitted]
    early = min(times, key=lambda one: one.submitted or one.seen) if times else first
    newest = again if again.lms_id else first
    return replace(
        first,
        submitted=early.submitted,
        time_from=early.time_from,
        late=first.late and again.late,
        seen=min(first.seen, again.seen),
        lms=newest.lms or first.lms,
        lms_id=newest.lms_id,
        account=newest.account,
    )


def load(course: Course) -> dict[tuple[str, str], dict[str, Attempt]]:
    """All attempts known so far: (student, unit) → hash → attempt."""
    path = course.classroom / "collected.csv"
    known: dict[tuple[str, str], dict[str, Attempt]] = {}
    if not path.is_file():
        return known
    table = csv_files.read_csv(path)
    for line, row in zip(table.lines, table.rows, strict=True):
        try:
            one = _attempt(dict(zip(table.header, map(csv_files.unescape_formula, row), strict=True)))
        except (KeyError, ValueError):
            raise csv_files.unusable_file(
                path, f"line {line} is not as `attn collect` writes it: mend it, or put the file away"
            ) from None
        known.setdefault(one.place, {})[one.sha256] = one
    return known


def save(course: Course, known: dict[tuple[str, str], dict[str, Attempt]]) -> None:
    ordered = sorted((one for group in known.values() for one in group.values()), key=lambda one: (*one.place, one.age))
    csv_files.write_csv(course.classroom / "collected.csv", csv_files.to_csv(COLUMNS, map(_row, ordered)))


def _row(one: Attempt) -> list[str]:
    cells = {name: getattr(one, name) for name in COLUMNS}
    cells |= {
        "seen": timestamps.format_timestamp(one.seen),
        "submitted": timestamps.format_timestamp(one.submitted),
        "order": str(one.order),
    }
    return [("yes" if cell else "") if isinstance(cell, bool) else cell for cell in cells.values()]


def _attempt(cells: dict[str, str]) -> Attempt:
    if "account" not in cells:  # as an earlier version wrote it
        cells["account"] = cells["lms_id"] if cells["lms"] in (CANVAS, MOODLE) else ""
    values: dict = {name: cells[name] for name in COLUMNS}
    values |= {"order": int(values["order"]), "late": values["late"] == "yes", "counts": values["counts"] == "yes"}
    values |= {
        "seen": timestamps.parse_timestamp(values["seen"]) or NEVER,
        "submitted": timestamps.parse_timestamp(values["submitted"]),
    }
    if not re.fullmatch(r"[0-9a-f]{64}", values["sha256"]) or not values["student_id"] or not values["unit"]:
        raise ValueError
    return Attempt(**values)
