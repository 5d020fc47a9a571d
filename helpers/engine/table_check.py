"""A check of a function that returns a table, a dict of rows: the card has a line for every row."""

from collections.abc import Callable
from typing import Any

from .case_result import CaseResult
from .check import Check
from .compare import RETURNS_NOTHING, agree, in_words, is_number
from .observe import Observation
from .score import Item


class Table(Check):
    """Compares row by row. A row is a tuple with one entry per column, or a number where there is one column; rows that
    nobody asked for are ignored.

    follows: rows that are computed from others, each with a function of the student's rows and the inputs. Where it
    gives what the student has, such a row earns its share though those others are off, if at least half of the others
    are right.
    """

    def __init__(
        self, *args: Any, columns: tuple[str, ...], follows: dict[str, Callable] | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.columns, self.follows = columns, follows or {}

    def difference(self, seen: Observation, expected: dict) -> str:
        """The first row that is off, and how."""
        if seen.output is None:
            return RETURNS_NOTHING
        if not isinstance(seen.output, dict):
            return f"Your function returns a {type(seen.output).__name__}, and a dict is expected."
        return next((note for row in expected if (note := self._off(row, seen, expected))), "")

    def items(self, trials: list[CaseResult]) -> list[Item]:
        """A line for every row."""
        return [self._row_item(row, trials) for row in trials[0].expected]

    def _off(self, row: str, seen: Observation, expected: dict) -> str:
        """What is wrong with one row, in a sentence; "" if nothing is."""
        if not isinstance(seen.output, dict) or row not in seen.output:
            return f"The row {row!r} is missing."
        got, want = _entries(seen.output[row]), _entries(expected[row])
        if len(got) != len(want):
            entries = f"{len(want)} entries: {', '.join(self.columns)}" if len(want) > 1 else "one number"
            return f"Row {row!r} should hold {entries}."
        for column, mine, right in zip(self.columns, got, want, strict=True):
            if not self.agrees(mine, right, seen.args):
                return f"Row {row!r}, {column}: {_gap(mine, right)}."
        return ""

    def _row_item(self, row: str, trials: list[CaseResult]) -> Item:
        notes = [
            trial.note if trial.seen.error else self._off_alone(row, trial.seen, trial.expected) for trial in trials
        ]
        note = next(filter(None, notes), "")
        return Item(row.replace("_", " "), not note, note)

    def _off_alone(self, row: str, seen: Observation, expected: dict) -> str:
        """What is wrong with one row beyond what it takes over from others."""
        note = self._off(row, seen, expected)
        return "" if note and self._follows(row, seen, expected) else note

    def _follows(self, row: str, seen: Observation, expected: dict) -> bool:
        if row not in self.follows or not isinstance(seen.output, dict) or row not in seen.output:
            return False
        others = [other for other in expected if other != row]
        if sum(not self._off(other, seen, expected) for other in others) < len(others) / 2:
            return False
        try:
            own = self.follows[row](seen.output, *seen.args)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # rows that can't be computed with
            return False
        pairs = _entries(seen.output[row]), _entries(own)
        return len(pairs[0]) == len(pairs[1]) and all(
            self.agrees(*pair, seen.args) for pair in zip(*pairs, strict=True)
        )


def column_sums(rows: dict[str, Any], *_: Any) -> tuple:
    """For `follows`: the total of all rows but "total" itself."""
    return tuple(map(sum, zip(*(row for name, row in rows.items() if name != "total"), strict=True)))


def _entries(row: Any) -> tuple:
    return tuple(row) if isinstance(row, (tuple, list)) else (row,)


def _gap(got: Any, expected: Any) -> str:
    """How an entry is off. Of a growth the right one isn't told: it is the answer, where a number is an example."""
    if isinstance(expected, str):
        if " or " in str(got):  # one of them may be the right one
            return f"it is off, though from this setting alone it could be {got}"
        return f"yours is {got}, and that is not how it grows"
    if not is_number(got):
        return f"you have {type(got).__name__}, and {in_words(expected)} is expected"
    return f"you have {in_words(got, expected)}, and {in_words(expected, got)} is expected{_factor(got, expected)}"


def _factor(got: float, expected: float) -> str:
    """The ratio, where it is one that tells something."""
    if not (got and expected):
        return ""
    ratio = got / expected
    telling = any(abs(times - round(times)) < 1e-9 and 2 <= round(times) <= 128 for times in (ratio, 1 / ratio))
    return f" (yours is {ratio:.4g} times that)" if telling else ""


def in_rows(function: Callable, *rows: str) -> Callable[[Observation], bool]:
    """For `recognise`: the student's rows of these names are those of `function`, whatever the other rows are."""

    def same(seen: Observation) -> bool:
        wrong = function(*seen.args)
        return all(agree(_entries(seen.output[row]), _entries(wrong[row]), (1e-9, 0.0)) for row in rows)

    return same


def in_some_row(function: Callable, reference: Callable, *rows: str) -> Callable[[Observation], bool]:
    """For `recognise`: one of the student's rows of these names is that of `function`, and not right."""

    def same(seen: Observation) -> bool:
        wrong, right = function(*seen.args), reference(*seen.args)
        return any(
            row in seen.output
            and agree(_entries(seen.output[row]), _entries(wrong[row]), (1e-9, 0.0))
            and not agree(_entries(wrong[row]), _entries(right[row]), (1e-9, 0.0))
            for row in rows
        )

    return same
