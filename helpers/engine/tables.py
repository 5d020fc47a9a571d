"""A check of a function that returns a table, a dict of rows: the card has a line for every row, so it says which one is off."""

from collections.abc import Callable
from typing import Any

from .check import Check
from .compare import agree, in_words, is_number
from .observe import Observation
from .score import Item
from .trial import Trial


class Table(Check):
    """Compares row by row. A row is a tuple with one entry per column; rows that nobody asked for are ignored."""

    def __init__(self, *args: Any, columns: tuple[str, ...], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.columns = columns

    def difference(self, seen: Observation, expected: dict) -> str:
        """The first row that is off, and how."""
        if not isinstance(seen.output, dict):
            return f"Your function returns a {type(seen.output).__name__}, and a dict is expected."
        return next((note for row in expected if (note := self._off(row, seen, expected))), "")

    def items(self, trials: list[Trial]) -> list[Item]:
        """A line for every row."""
        return [self._row_item(row, trials) for row in trials[0].expected]

    def _off(self, row: str, seen: Observation, expected: dict) -> str:
        """What is wrong with one row, in a sentence; "" if nothing is."""
        if not isinstance(seen.output, dict) or row not in seen.output:
            return f"The row {row!r} is missing."
        got, want = seen.output[row], expected[row]
        if not isinstance(got, (tuple, list)) or len(got) != len(want):
            return f"Row {row!r} should hold {len(want)} entries: {', '.join(self.columns)}."
        for column, mine, right in zip(self.columns, got, want, strict=True):
            if not self.agrees(mine, right, seen.args):
                return f"Row {row!r}, {column}: {_gap(mine, right)}."
        return ""

    def _row_item(self, row: str, trials: list[Trial]) -> Item:
        notes = [trial.note if trial.seen.error else self._off(row, trial.seen, trial.expected) for trial in trials]
        note = next(filter(None, notes), "")
        return Item(row.replace("_", " "), not note, note)


def _gap(got: Any, expected: Any) -> str:
    """How an entry is off. Of a growth the right one isn't told: it is the answer itself, where a number is only an example."""
    if isinstance(expected, str):
        return f"yours grows like {got}, and it should not"
    mine = in_words(got, expected) if is_number(got) else type(got).__name__
    return f"you have {mine}, and {in_words(expected)} is expected{_factor(got, expected)}"


def _factor(got: Any, expected: Any) -> str:
    """The ratio, where it is one that tells something."""
    if not (is_number(got) and is_number(expected)) or not (got and expected):
        return ""
    ratio = got / expected
    telling = any(abs(times - round(times)) < 1e-9 and 2 <= round(times) <= 128 for times in (ratio, 1 / ratio))
    return f" (yours is {ratio:.4g} times that)" if telling else ""


def in_rows(function: Callable, *rows: str) -> Callable[[Observation], bool]:
    """For `recognise`: the student's rows of these names are those of `function`, whatever the other rows are."""

    def same(seen: Observation) -> bool:
        wrong = function(*seen.args)
        return all(agree(tuple(seen.output[row]), wrong[row], (1e-9, 0.0)) for row in rows)

    return same
