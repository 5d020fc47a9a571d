"""`regrades.csv` in the class folder: every change of an earlier score. Lines are only added."""

import csv
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autograder.whole_files import encoded

COLUMNS = ("time", "unit", "student_id", "exercise", "old", "new", "why")


@dataclass(frozen=True)
class Change:
    """A score that became another one. new: None where a person must mark the answer again."""

    time: datetime
    unit: str
    student: str
    exercise: str
    old: float | None
    new: float | None
    why: str

    def line(self) -> str:
        old, new = (
            "–" if self.old is None else f"{self.old:g}",
            "to mark again" if self.new is None else f"{self.new:g}",
        )
        return f"{self.student} {self.unit[:2]} {self.exercise}: {old} → {new} ({self.why})"


def add(path: Path, changes: list[Change]) -> None:
    """Adds lines at the end of the file, all at once."""
    if not changes:
        return
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if not path.is_file():
        writer.writerow(COLUMNS)
    elif not path.read_bytes().endswith(b"\n"):  # the end of its last line was lost
        out.write("\n")
    writer.writerows(map(_row, changes))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(encoded(out.getvalue()))


def read(path: Path) -> list[Change]:
    """All changes so far, but lines of which a part was lost."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    return [change for row in csv.DictReader(io.StringIO(text, newline="")) if (change := _change(row))]


def _row(one: Change) -> list[str]:
    time = f"{one.time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    texts = (_harmless(text) for text in (one.unit, one.student, one.exercise))
    return [
        time,
        *texts,
        *("" if points is None else repr(points) for points in (one.old, one.new)),
        _harmless(one.why),
    ]


def _harmless(text: str) -> str:
    """No spreadsheet runs it as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _change(row: dict[str, str]) -> Change | None:
    try:
        time = datetime.strptime(row["time"], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
        old, new = (float(row[name]) if row[name] else None for name in ("old", "new"))
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(row["why"], str):
        return None
    return Change(time, row["unit"], row["student_id"].removeprefix("'"), row["exercise"], old, new, row["why"])
