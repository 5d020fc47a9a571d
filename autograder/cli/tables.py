"""What `attn grade` and `attn prove` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from autograder.sanitize_terminal import printable

if TYPE_CHECKING:  # what is shown was made elsewhere: to print it, nobody needs torch or nbgrader
    from autograder.grading.grade import Outcome

MOST_ROWS = 25
SHORT = {"misconceptions": "miscon-\nceptions", "alternatives": "alter-\nnatives"}  # 80 columns must do


def a_card(outcome: Outcome) -> Panel | None:
    """What one student reads who made a mistake with a name; None where nobody did."""
    for submission, results in outcome.results.items():
        for result in results:
            if result.score < result.points and result.diagnosis and result.diagnosis in result.message:
                title = (
                    f"{submission.student}, unit {submission.unit[:2]}: {result.exercise} · {result.score:g} of "
                    f"{result.points:g}"
                )
                return Panel(escape(result.message), title=escape(title), title_align="left", width=80)
    return None


def remarks(rows: dict[str, dict], outcome: Outcome, only_problems: bool = False) -> list[str]:
    """One line for each submission that was rejected or could not be graded, repair and note. rows: unit → its
    scores."""
    lines = []
    for submission in outcome.submissions:
        who = f"{submission.student} {submission.unit[:2]}"
        stands = " (the grade of an earlier hand-in stands)" if submission.student in rows[submission.unit] else ""
        for word, reasons in (("rejected", outcome.rejected), ("not graded", outcome.failed)):
            if submission in reasons:
                lines.append(f"{who} {word}: {reasons[submission]}{stands}")
        if only_problems:
            continue
        lines += [f"{who} repaired: {repair}" for repair in outcome.repairs.get(submission, ())]
        lines += [f"{who}: {note}" for note in outcome.notes.get(submission, ())]
    return lines


def misconceptions_table(outcome: Outcome) -> Table:
    """The misconceptions of the class, the most frequent first; the long tail is counted, not listed."""
    found = sorted(outcome.misconceptions().items(), key=lambda item: (-item[1], item[0]))
    rest = f"and {len(found) - MOST_ROWS} more that are as rare or rarer" if len(found) > MOST_ROWS else None
    table = Table(title="Misconceptions found", caption=rest)
    table.add_column("students", justify="right")
    for column in ("unit", "exercise", "misconception"):
        table.add_column(column, overflow="fold")
    for (unit, exercise, name), students in found[:MOST_ROWS]:
        table.add_row(str(students), unit[:2], exercise, name)
    return table


def summary(outcome: Outcome) -> str:
    """What this run did, in a sentence or two."""
    graded = len(outcome.results)
    stored = graded - outcome.recorded
    if graded and not outcome.judged and not outcome.recorded:
        first = f"Nothing new: all {graded} submissions were graded before; none was judged again."
    else:
        first = (
            f"{graded} submissions graded: {outcome.judged} notebooks judged now, {outcome.recorded} grades recorded,"
        )
        first += f" {stored} unchanged since the last run."
    parts = [first, f"{outcome.feedback} feedback pages written."]
    if outcome.rejected:
        parts.append(f"{len(outcome.rejected)} rejected.")
    if outcome.failed:
        parts.append(f"{len(outcome.failed)} could not be graded.")
    return " ".join(parts)


WHERE = {
    "intake": "read, mended, sanitised",
    "kernels": "its two kernels: started, set up, ended",
    "cells": "the student's cells",
    "tests": "the test cells, and the functions they call",
    "border": "fresh copies of the student's kernel for those calls",
    "recording": "nbgrader's autograde, and files",
    "feedback": "the page",
}


def profile_table(outcome: Outcome) -> Table:
    """Where the time went of the submissions that were judged now: seconds and share. Workers work side by side."""
    count, total = max(outcome.judged, 1), sum(outcome.seconds.values()) or 1.0
    table = Table(title="Where a submission's time goes", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    table.add_column("what it is")
    for part, words in WHERE.items():
        seconds = outcome.seconds[part]
        table.add_row(part, f"{seconds / count:.2f}", f"{seconds / total:.0%}", words)
    table.add_row("all", f"{total / count:.2f}", "", f"{outcome.judged} notebooks judged", style="bold")
    return table


def marks_table(marks: dict) -> Table:
    """The items of one notebook, and what was diagnosed, or else went wrong."""
    table = Table(title=f"{marks['unit']}: {marks['score']:g} of {marks['max']:g} points")
    table.add_column("exercise", overflow="fold")
    table.add_column("points", justify="right")
    table.add_column("what was found", overflow="fold")
    for name, item in marks["items"].items():
        points = "✎" if item["score"] is None else f"{item['score']:g}"
        table.add_row(name, f"{points} / {item['max']:g}", escape(printable(item["diagnosis"] or item["message"])))
    return table


def proofs_table(proofs: dict, total: dict[str, int]) -> Table:
    """One row per exercise: how many misconceptions were caught and named, how many alternatives accepted."""
    table = Table(title="The checks, tested", show_footer=True)
    table.add_column("exercise", footer="all", no_wrap=True)
    for name in total:
        table.add_column(SHORT.get(name, name), justify="right", footer=str(total[name]))
    for unit in proofs.values():
        for name, proof in unit.items():
            row = [str(count) for count in proof.counts().values()]
            table.add_row(name, *row, style="red" if proof.misses else None)
    return table


def attempt_table(tried) -> Table:
    """What `attn try` did: a row per exercise with its proof and the points of its model answer."""
    table = Table(title=tried.unit, caption=_ran(tried.played))
    table.add_column("exercise", no_wrap=True)
    for name in ("misconceptions\ncaught, named", "alternatives\naccepted", "model\nanswer"):
        table.add_column(name, justify="right")
    for name, proof in tried.proofs.items():
        slips = f"{proof.caught}, {proof.named} of {proof.misconceptions}"
        right = f"{proof.accepted} of {proof.alternatives}"
        earned, points = tried.played.earned.get(name), tried.points[name]
        model = f"{'–' if earned is None else f'{earned:g}'} / {points:g}"
        table.add_row(name, slips, right, model, style="red" if proof.misses or earned != points else None)
    return table


def _ran(played) -> str:
    pictures = f"{played.pictures} picture{'s' * (played.pictures != 1)}"
    return f"{played.cells} cell{'s' * (played.cells != 1)} run, {pictures} drawn"


def hostile_table(rows: list, total: dict[str, int]) -> Table:
    """One row per hostile or broken notebook: what it tries, and what came of it."""
    table = Table(title="Hostile and broken notebooks", caption=f"{total['held']} of {total['tried']} held")
    for column in ("notebook", "tries", "what came of it"):
        table.add_column(column, overflow="fold")
    for kind in dict.fromkeys(row.kind for row in rows):
        table.add_section()
        table.add_row(f"[bold]{kind}[/]")
        for row in (row for row in rows if row.kind == kind):
            points = ", ".join(f"{score:g}" for score in row.scores.values())
            came = row.problem or f"points {points}. {row.told}" if row.scores else row.problem or row.told
            table.add_row(row.name, row.tries, escape(printable(came)), style=None if row.held else "red")
    return table


def findings_table(findings: list) -> Table:
    """What `attn doctor` found, with advice."""
    table = Table("", "found", "advice", title="This machine")
    for finding in findings:
        words = map(escape, (finding.what, finding.found, finding.advice))
        table.add_row(*words, style="yellow" if finding.advice else None)
    return table
