"""What a card shows of the cases that went wrong: one tensor beside the right one, and in words what no table tells.

The case is the one that tells the slip that was named from the others, where there is one; else the first that can be
drawn. Of a hidden case nothing is shown.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from .axes import axes_of
from .card_picture import Picture, readable, traceable
from .case_result import CaseResult


def pictures(check: Any, trials: Sequence[CaseResult], telling: CaseResult | None = None) -> tuple[Picture, ...]:
    """The first tensor that is wrong in its values, of the telling case first; a right one says nothing."""
    if check.quiz:
        return ()
    cases = ([telling] if telling else []) + [trial for trial in trials if trial is not telling]
    shown = (trial for trial in cases if not (trial.passed or trial.hidden))
    drawn = (_drawn(check, trial, *pair) for trial in shown for pair in _wrong_pairs(check, trial))
    first = next(filter(None, drawn), None)
    return (first,) if first else ()


def words(trials: Sequence[CaseResult], message: str, drawn: bool) -> str:
    """How the first case is off, where there is no table of it; else the error that another case stopped with. "" where
    the message says it."""
    failed = [trial for trial in trials if not (trial.passed or trial.hidden)]
    trial = next((trial for trial in failed if trial.seen.error or not drawn), None)
    if trial is None or _is_said(trial, message):
        return ""
    return f"\nWith {trial.case.label}: {trial.note}"


def _is_said(trial: CaseResult, message: str) -> bool:
    error = trial.seen.error
    return trial.note in message or bool(error and error.message and error.message in message)


def _wrong_pairs(check: Any, trial: CaseResult) -> Iterator[tuple[tuple[str, str], Tensor, Tensor]]:
    """A tensor that is off: its name and its axes, what it should be, and the student's."""
    pairs = list(_pairs(trial.seen.output, trial.expected))
    for name, (got, expected) in zip(_names(check.names, len(pairs)), pairs, strict=True):
        if isinstance(got, Tensor) and got.numel() and not check.agrees(got, expected, trial.seen.args):
            yield name, expected, got


def _drawn(check: Any, trial: CaseResult, name: tuple[str, str], expected: Tensor, got: Tensor) -> Picture | None:
    within = check.tolerated(trial.seen.args)
    if not readable(expected, got, within):
        return None
    called, axes = name
    label = trial.case.label + f" · {called}" * bool(called)
    named = tuple(axes.split()) or axes_of(check.reference, expected)
    return Picture(label, expected, got, within, named, _source(trial, expected, got))


def _source(trial: CaseResult, *outputs: Tensor) -> Tensor | None:
    """The input whose numbers the outputs only hold in other places, if there is one."""
    tensors = [arg for arg in trial.seen.args if isinstance(arg, Tensor)]
    return tensors[0] if len(tensors) == 1 and traceable(tensors[0], *outputs) else None


def _names(names: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """One for each of so many tensors. Names that are too few begin anew, with a number; where there are none, the
    place is told."""
    if not names:
        return [(f"tensor {i} of {count}" * (count > 1), "") for i in range(1, count + 1)]
    if count <= len(names):
        return list(names[:count])
    rounds = (divmod(i, len(names)) for i in range(count))
    return [(f"{names[place][0]} {times + 1}", names[place][1]) for times, place in rounds]


def _pairs(got: Any, expected: Any) -> Iterator[tuple[Any, Tensor]]:
    """What is there and what should be, for every tensor that is expected in an output, a tensor or a tuple with
    tensors in it."""
    if isinstance(expected, (tuple, list)):
        parts = got if isinstance(got, (tuple, list)) else ()
        for place, part in enumerate(expected):
            yield from _pairs(parts[place] if place < len(parts) else None, part)
    elif isinstance(expected, Tensor):
        yield got, expected
