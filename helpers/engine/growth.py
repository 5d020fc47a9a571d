"""How an answer's number grows with each argument, beside how the right one does: of a formula that no known slip
explains, it says which argument plays another part."""

import inspect
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from torch.utils._pytree import tree_leaves

from .case_result import CaseResult
from .compare import is_number
from .observe import observe

TOLD = 2  # arguments
LINES = 50_000  # of Python that a call may run: what tries all paths takes ages for twice as many tokens
GROWS = "With twice the `{}` your number {}, and the right one {}."


def growth(check: Any, student: Callable, failed: list[CaseResult]) -> str:
    """Sentences about the arguments with which the first number that is off grows otherwise; "" where there is none."""
    trial = next((trial for trial in failed if not (trial.hidden or trial.seen.error)), None)
    if trial is None or check.drive or check.quiz or not check.compare:
        return ""
    mine, right = (_numbers(output, trial.expected) for output in (trial.seen.output, trial.expected))
    if not right or len(mine) != len(right):
        return ""
    off = [i for i, pair in enumerate(zip(mine, right, strict=True)) if not check.agrees(*pair, trial.seen.args)]
    if not off:
        return ""
    return " ".join(islice(_otherwise(check, student, trial, off[0], mine[off[0]], right[off[0]]), TOLD))


def _numbers(output: Any, like: Any) -> list[float]:
    """The numbers of an output, in the order of the right one's; [] where it holds anything else."""
    try:
        parts = [output[key] for key in like] if isinstance(like, dict) else output
    except (LookupError, TypeError):
        return []
    leaves = tree_leaves(parts)
    return leaves if all(map(is_number, leaves)) else []


def _otherwise(
    check: Any, student: Callable, trial: CaseResult, place: int, mine: float, right: float
) -> Iterator[str]:
    args = trial.seen.args
    for at, (name, arg) in enumerate(zip(inspect.signature(check.reference).parameters, args, strict=False)):
        if not is_number(arg) or not arg:
            continue
        doubled = (*args[:at], 2 * arg, *args[at + 1 :])
        yours, wanted = (_number(answer, doubled, trial, place) for answer in (student, check.reference))
        if min(mine, right, yours, wanted) > 0 and abs(yours / mine - wanted / right) > 0.05 * wanted / right:
            yield GROWS.format(name, _said(yours / mine), _said(wanted / right))


def _number(answer: Callable, args: tuple, trial: CaseResult, place: int) -> float:
    """This number of its output; 0 where there is none."""
    seen = observe(answer, args, counts=False, steps=LINES)
    numbers = [] if seen.error else _numbers(seen.output, trial.expected)
    return numbers[place] if place < len(numbers) else 0


def _said(times: float) -> str:
    return "stays as it is" if abs(times - 1) < 0.005 else f"becomes {times:.3g} times as large"
