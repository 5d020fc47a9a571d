"""Where a student stands: the points that the checks of this kernel gave, what is open, what a person will mark.

It is kept in memory alone and says so: a restarted kernel begins at nothing, and running all cells brings it back. A
file would turn up among what is handed in, and would tell points of answers that have been changed since."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from . import cells, registry

UNITS = Path(__file__).with_name("units.json")  # `attn build` makes it from the notebooks
LOADING = "Loading the checks: a few seconds, before the first one only …"
PATIENCE = 10.0  # seconds
STILL_RUNNING = "Still running after 10 seconds. If a loop never ends, interrupt (■): the card then says where it was."
WRITTEN, FULL, PART, NONE, OPEN = "marked by a person", "done", "in part", "no points yet", "open"
SIGNS = {WRITTEN: "✎", FULL: "✓", PART: "◐", NONE: "✗", OPEN: "○"}
GREEN = "#1a7f4b"
NOTHING_SEEN = (
    "No check has run since this kernel started. Run some, or all cells from the top; "
    "`check.progress(unit=2)` shows the table of a unit at once."
)
_seen: dict[str, float | None] = {}
"""What every exercise earned when it was checked last, the latest at the end; None where nobody has tried it yet."""


@dataclass(frozen=True)
class Graded:
    """An exercise or a written answer, and what is known of it now."""

    id: str
    number: str
    title: str
    points: float
    written: bool

    @property
    def earned(self) -> float:
        return _seen.get(self.id) or 0.0

    @property
    def state(self) -> str:
        if self.written:
            return WRITTEN
        if _seen.get(self.id) is None:
            return OPEN
        return FULL if self.earned >= self.points else PART if self.earned else NONE


class Progress:
    """The table of one unit, drawn when it is shown. `print` it for plain text."""

    def __init__(self, unit: str) -> None:
        self.unit, self.title = unit, _units()[unit]["title"]
        self.graded = graded(unit)

    def __repr__(self) -> str:
        width = max(len(one.title) for one in self.graded)
        rows = [
            f"{SIGNS[one.state]} {one.number:>5}  {one.title:<{width}}  {_share(one):>9}  {one.state}"
            for one in self.graded
        ]
        return "\n".join([f"{self.unit} · {self.title}: {self.summary()}", *rows, self.advice()])

    def _repr_html_(self) -> str:
        return _page(self)

    def summary(self) -> str:
        """The sum, in a sentence."""
        return f"{_sum(self.graded)} since this kernel started."

    def advice(self) -> str:
        """The next step, and what the numbers leave out."""
        following = next((one for one in self.graded if one.state not in (FULL, WRITTEN)), None)
        hand = sum(one.points for one in self.graded if one.written)
        words = [
            f"Next: {following.number} {following.title}." if following else "All checks are green: save, and hand in."
        ]
        waits = "waits" if hand == 1 else "wait"
        words += [f"{_points(hand)} {waits} for a person who reads what you wrote."] * bool(hand)
        return " ".join(
            [
                *words,
                "The grader also tries a few more inputs. After a restart, run all cells to see your points again.",
            ]
        )


def progress(unit: int | str | None = None) -> Progress | str:
    """What you have earned in a unit since this kernel started. unit: its number; else that of the last check."""
    if unit is None:
        found = next((one for name in reversed(_seen) if (one := _unit_of(name))), None)
        return Progress(found) if found else _Words(NOTHING_SEEN)
    wanted = str(unit)[:2].zfill(2)
    return (
        Progress(wanted) if wanted in _units() else _Words(f"There is no unit {unit}: there are {', '.join(_units())}.")
    )


class _Words(str):
    """A sentence that a notebook shows without quotes."""

    __repr__ = str.__str__


class Door:
    """A check as a notebook calls it: the first one says that it is loading, and each notes what came out."""

    first = True

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *answers: Any, **options: Any) -> Any:
        from .engine.score import NOT_ATTEMPTED, not_attempted  # brings PyTorch along: not before it is needed

        with _loading() if Door.first else contextlib.nullcontext():
            Door.first = False
            try:
                with _patience():
                    score = registry.find("checks", self._name)(*answers, **options)
            except KeyboardInterrupt as error:
                return not_attempted(self._name, options.get("points", 0), cells.where_stopped(error))
        score.message = "\n".join(filter(None, (cells.said_of(answers), score.message)))
        if "cases" not in options:  # the grader's own inputs are no progress of a student's
            score.below = noted(self._name, None if score.diagnosis == NOT_ATTEMPTED else float(score))
        return score

    def __getattr__(self, name: str) -> Any:
        return getattr(registry.find("checks", self._name), name)


def noted(exercise: str, earned: float | None) -> str:
    """Takes down what a check gave; None where nobody tried. Returns the line for below its card; "" for what earns
    no points."""
    unit = _unit_of(exercise)
    if unit is None:
        return ""
    _seen.pop(exercise, None)
    _seen[exercise] = earned
    items = graded(unit)
    place = next(place for place, one in enumerate(items) if one.id == exercise)
    line = _sum(items)
    if items[place].state == FULL:
        waiting = [one for one in items[place:] + items[:place] if one.state not in (FULL, WRITTEN)]
        line += f"; next: {waiting[0].number} {waiting[0].title}" if waiting else "; all checks of this unit are green"
    return line


def in_notebook() -> bool:
    """Whether a kernel runs this for somebody who looks on. (The grader runs cells without one.)"""
    return getattr(shell(), "kernel", None) is not None


def shell() -> Any:
    """What runs the cells; None outside of IPython."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def graded(unit: str) -> list[Graded]:
    """The exercises and written answers of a unit, in order. unit: "02"."""
    return [Graded(**entry) for entry in _units()[unit]["graded"]]


@cache
def _units() -> dict[str, dict]:
    return json.loads(UNITS.read_text(encoding="utf-8"))


def _unit_of(exercise: str) -> str | None:
    return next((unit for unit in _units() if any(one.id == exercise for one in graded(unit))), None)


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Says a word when a check takes long."""
    word = threading.Timer(PATIENCE, print, (STILL_RUNNING,))
    word.daemon = True
    word.start()
    try:
        yield
    finally:
        word.cancel()


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """Says that it takes a while, and takes the words away when it is done."""
    from IPython.display import HTML, display

    handle = display(HTML(f'<span style="opacity:.75">{LOADING}</span>'), display_id=True)
    try:
        yield
    finally:
        handle.update(HTML(""))


def _sum(items: list[Graded]) -> str:
    return f"{_number(sum(one.earned for one in items))} of {_points(sum(one.points for one in items))}"


def _points(number: float) -> str:
    return f"{_number(number)} point{'s' * (number != 1)}"


def _share(one: Graded) -> str:
    return f"{'–' if one.written else _number(one.earned)} of {_number(one.points)}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


# ---------------------------------------------------------------- as HTML, in the colours of the page, light or dark

_LINE = "border-top:1px solid rgba(128,128,128,.3);padding:3px 14px 3px 0;text-align:left;background:none"


def _page(table: Progress) -> str:
    possible = sum(one.points for one in table.graded)
    share = 100 * sum(one.earned for one in table.graded) / possible if possible else 0
    rows = "".join(map(_row, table.graded))
    return (
        '<div style="max-width:52rem;font:14px/1.5 system-ui,sans-serif;color:inherit">'
        f'<div style="font-weight:600">{table.unit} · {escape(table.title)}: {escape(table.summary())}</div>'
        '<div style="height:8px;border-radius:4px;background:rgba(128,128,128,.25);margin:6px 0 8px">'
        f'<div style="height:8px;border-radius:4px;background:{GREEN};width:{share:.0f}%"></div></div>'
        f'<table style="border-collapse:collapse;margin:0;color:inherit">{rows}</table>'
        f'<div style="margin-top:8px">{escape(table.advice())}</div></div>'
    )


def _row(one: Graded) -> str:
    faded = ";opacity:.7" if one.state in (OPEN, WRITTEN) else ""
    cells = (f"{SIGNS[one.state]} {one.number}", one.title, one.id, _share(one), one.state)
    drawn = "".join(
        f'<td style="{_LINE}{style}">{escape(words)}</td>' for words, style in zip(cells, _STYLES, strict=True)
    )
    return f'<tr style="background:none{faded}">{drawn}</tr>'


_STYLES = (";white-space:nowrap", "", ";font:12px ui-monospace,monospace", ";white-space:nowrap", ";white-space:nowrap")
