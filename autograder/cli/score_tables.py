"""The scores of a class: a table that fits the terminal, unit by unit for a large class, a file, and JSON."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from autograder.sanitize_terminal import printable

if TYPE_CHECKING:  # to show what was graded nobody needs torch or nbgrader
    from autograder.grading.grade import Outcome

MANY = 30
"""Students who still have a line each in the terminal."""
SIGNS = "✎ written answers to mark in formgrader   – not graded, see below"
Rows = dict[str, dict[str, dict]]
"""Unit → `record.scores` of it: student → nbgrader's dictionary."""


def scores_table(rows: Rows, outcome: Outcome, kinds: dict[str, str], width: int | None = None) -> Table:
    """One row per student and one column per unit: the points in the gradebook, – where there are none.

    kinds: what each student of a sample class is there to show. width: columns that the table may take; where it needs
    more, the first units are left out, and the caption says so. Names and points stay whole."""
    units = list(rows)
    table = _table(rows, units, outcome, kinds)
    while width and len(units) > 1 and _needs(table) > width:
        units = units[1:]
        table = _table(rows, units, outcome, kinds)
    if left_out := [unit[:2] for unit in rows if unit not in units]:
        table.caption = f"{SIGNS}\nleft out, for {width} columns have no room for them: {left_out[0]}–{left_out[-1]}"
    return table


def _table(rows: Rows, units: list[str], outcome: Outcome, kinds: dict[str, str]) -> Table:
    table = Table(title="Scores", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption=SIGNS)
    table.add_column("student", no_wrap=True)
    for unit in units:
        table.add_column(f"{unit[:2]}\n/ {_most(rows[unit]):g}", justify="right", no_wrap=True)
    if kinds:
        table.add_column("made to show", overflow="fold", min_width=12)
    for student, handed_in in _by_student(outcome).items():
        points = (_points(rows[unit].get(student), handed_in.get(unit), outcome) for unit in units)
        table.add_row(escape(printable(student)), *points, *([escape(kinds.get(student, ""))] if kinds else []))
    return table


def _needs(table: Table) -> int:
    """The columns that a table takes at least, with nothing cut off."""
    wide = Console(width=10_000)
    return wide.measure(table).minimum


def units_table(rows: Rows, outcome: Outcome) -> Table:
    """One row per unit: how many were graded, and how the points are spread."""
    table = Table(title="Scores by unit", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("unit", no_wrap=True)
    for name in ("handed\nin", "graded", "rejected", "to\nmark ✎", "of", "mean", "median", "least", "most"):
        table.add_column(name, justify="right", no_wrap=True)
    for unit, found in rows.items():
        counts = _counts(unit, found, outcome)
        graded = [found[student]["score"] for student in _graded(unit, outcome) & found.keys()]
        spread = [f"{of(graded):.4g}" for of in (statistics.mean, statistics.median, min, max)] if graded else ["–"] * 4
        shown = (counts[name] for name in ("handed_in", "graded", "rejected", "to_mark"))
        table.add_row(unit[:2], *map(str, shown), f"{_most(found):g}", *spread)
    return table


def as_text(rows: Rows, outcome: Outcome, kinds: dict[str, str]) -> str:
    """The whole table for a file, however wide it is."""
    table = scores_table(rows, outcome, kinds)
    paper = Console(width=max(80, _needs(table) + 40), color_system=None, force_terminal=False)
    with paper.capture() as written:
        paper.print(table)
    return "\n".join(line.rstrip() for line in written.get().splitlines()) + "\n"


def as_json(rows: Rows, outcome: Outcome) -> dict[str, Any]:
    """{"units": {unit: {"max", counts, "students": {name: {"status", "score", "to_mark", "why"}}, "misconceptions":
    […]}}, "judged", "recorded", "feedback"}. status: graded, rejected or failed; then "why" says why, and score is None
    where none is on record."""
    found = {unit: _unit_as_json(unit, rows[unit], outcome) for unit in rows}
    return {"units": found, "judged": outcome.judged, "recorded": outcome.recorded, "feedback": outcome.feedback}


def _unit_as_json(unit: str, found: dict[str, dict], outcome: Outcome) -> dict[str, Any]:
    students = {}
    for submission in (one for one in outcome.submissions if one.unit == unit):
        row = found.get(submission.student)
        why = outcome.rejected.get(submission) or outcome.failed.get(submission) or ""
        status = (
            "rejected" if submission in outcome.rejected else "failed" if submission in outcome.failed else "graded"
        )
        students[submission.student] = {
            "status": status,
            "score": row and row["score"],
            "to_mark": bool(row and row["needs_manual_grade"]),
            "why": why,
        }
    named = [
        {"exercise": exercise, "misconception": name, "students": count}
        for (of, exercise, name), count in outcome.misconceptions().most_common()
        if of == unit
    ]
    return {"max": _most(found), **_counts(unit, found, outcome), "students": students, "misconceptions": named}


def _counts(unit: str, found: dict[str, dict], outcome: Outcome) -> dict[str, int]:
    graded = _graded(unit, outcome)
    return {
        "handed_in": sum(one.unit == unit for one in outcome.submissions),
        "graded": len(graded),
        "rejected": sum(one.unit == unit for one in outcome.rejected),
        "failed": sum(one.unit == unit for one in outcome.failed),
        "to_mark": sum(bool(found[student]["needs_manual_grade"]) for student in graded & found.keys()),
    }


def _graded(unit: str, outcome: Outcome) -> set[str]:
    """The students whose hand-in of this unit has a result."""
    return {one.student for one in outcome.results if one.unit == unit}


def _by_student(outcome: Outcome) -> dict[str, dict[str, Any]]:
    by_student: dict[str, dict] = {}
    for submission in outcome.submissions:
        by_student.setdefault(submission.student, {})[submission.unit] = submission
    return dict(sorted(by_student.items()))


def _most(found: dict[str, dict]) -> float:
    return max((row["max_score"] for row in found.values()), default=0)


def _points(row: dict | None, submission: Any, outcome: Outcome) -> str:
    if submission is None or row is None or submission in outcome.failed:
        return "–"
    return f"{row['score']:g}{'✎' if row['needs_manual_grade'] else ''}"


def is_large(outcome: Outcome) -> bool:
    """Whether a class has too many students for a line each."""
    return len(_by_student(outcome)) > MANY
