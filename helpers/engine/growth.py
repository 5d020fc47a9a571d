"""How an answer's number grows with its arguments, beside how the right one does: of a formula that no known slip
explains, it says which product of arguments is missing, or too many."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice
from typing import Any

from torch.utils._pytree import tree_leaves

from .case_result import CaseResult
from .compare import is_number
from .constant_factor import HUGE
from .observe import observe

TOLD = 2  # products, or arguments
CASES = 3  # of which a product must be missing in each
LINES = 50_000  # of Python that a call may run: what tries all paths takes ages for twice as many tokens
GROWS = "With twice the `{}` your number {}, and the right one {}."
MISSING = "The right number has a part that grows with `{}`, and yours has none."
TOO_MANY = "Your number has a part that grows with `{}`, and the right one has none."
POWERS = {4: ", as its square", 8: ", as its cube", 16: ", as its fourth power"}
Number = Callable[..., float]
"""Of how many times an argument is taken, by its name; NaN where a call gives none."""


def growth(check: Any, student: Callable, failed: list[CaseResult]) -> str:
    """Sentences about the first number that is off: the products of arguments that one of the two numbers has and the
    other lacks in all these cases, or the arguments with which it grows otherwise; "" where there is nothing to
    tell."""
    trials = [trial for trial in failed if not (trial.hidden or trial.seen.error)][:CASES]
    if not trials or check.drive or check.quiz or not check.compare:
        return ""
    place = _first_off(check, trials[0])
    if place is None:
        return ""
    compared = [_compared(check, student, trial, place) for trial in trials]
    first, *others = ([*_products(*one)] for one in compared)
    products = [one for one in first if all(one in other for other in others)]
    return " ".join(products[:TOLD] or islice(_otherwise(*compared[0]), TOLD))


def _first_off(check: Any, trial: CaseResult) -> int | None:
    """The place of the first number that is wrong."""
    mine, right = (_numbers(output, trial.expected) for output in (trial.seen.output, trial.expected))
    pairs = enumerate(zip(mine, right, strict=False)) if len(mine) == len(right) else ()
    return next((place for place, pair in pairs if not check.agrees(*pair, trial.seen.args)), None)


def _compared(check: Any, student: Callable, trial: CaseResult, place: int) -> tuple[Number, Number, list[str]]:
    """The student's number and the right one, and the arguments that can be taken twice."""
    named = dict(zip(inspect.signature(check.reference).parameters, trial.seen.args, strict=False))
    yours, wanted = (_number(answer, named, trial.expected, place) for answer in (student, check.reference))
    return yours, wanted, [name for name, arg in named.items() if is_number(arg) and arg]


def _numbers(output: Any, like: Any) -> list[float]:
    """The numbers of an output, in the order of the right one's; [] where it holds anything else."""
    try:
        parts = [output[key] for key in like] if isinstance(like, dict) else output
    except (LookupError, TypeError):
        return []
    leaves = tree_leaves(parts)
    return leaves if all(map(is_number, leaves)) else []


def _number(answer: Callable, named: dict[str, Any], like: Any, place: int) -> Number:
    @functools.cache
    def called(**times: int) -> float:
        args = tuple(times[name] * arg if name in times else arg for name, arg in named.items())
        seen = observe(answer, args, counts=False, steps=LINES)
        number = dict(enumerate([] if seen.error else _numbers(seen.output, like))).get(place, math.nan)
        return float(number) if abs(number) < HUGE else math.nan

    return called


def _products(yours: Number, wanted: Number, names: Sequence[str]) -> Iterator[str]:
    """Only of arguments in which both numbers are sums of products: no quotients, and nothing rounded."""
    names = [name for name in names if _is_polynomial(yours, name) and _is_polynomial(wanted, name)]
    squares = [(name, name) for name in names]
    for product in [*combinations(names, 1), *squares, *combinations(names, 2), *combinations(names, 3)]:
        mine, right = (_has(number, product) for number in (yours, wanted))
        if mine != right and None not in (mine, right):
            written = f"{product[0]}²" if product in squares else "·".join(product)
            yield (MISSING if right else TOO_MANY).format(written)


def _is_polynomial(number: Number, name: str) -> bool:
    """Of degree two at most: its third difference is 0."""
    return _vanishes([(sign, number(**{name: times})) for sign, times in ((1, 4), (-3, 3), (3, 2), (-1, 1))])


def _has(number: Number, product: tuple[str, ...]) -> bool | None:
    """Whether a part of the number has all these factors; None where that can't be told."""
    if len(product) > len(set(product)):
        terms = [(sign, number(**{product[0]: times})) for sign, times in ((1, 3), (-2, 2), (1, 1))]
    else:
        taken = (some for count in range(len(product) + 1) for some in combinations(product, count))
        terms = [((-1) ** len(some), number(**dict.fromkeys(some, 2))) for some in taken]
    return None if any(math.isnan(value) for _, value in terms) else not _vanishes(terms)


def _vanishes(terms: list[tuple[int, float]]) -> bool:
    """Whether a sum is 0, but for rounding."""
    return abs(sum(sign * value for sign, value in terms)) <= 1e-9 * max(abs(value) for _, value in terms)


def _otherwise(yours: Number, wanted: Number, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        mine, right = (number(**{name: 2}) / number() if number() > 0 else 0 for number in (yours, wanted))
        if min(mine, right) > 0 and abs(mine - right) > 0.05 * right:
            yield GROWS.format(name, _said(mine), _said(right))


def _said(times: float) -> str:
    if abs(times - 1) < 0.005:
        return "stays as it is"
    power = next((words for found, words in POWERS.items() if abs(times - found) < 0.001), "")
    return f"becomes {times:.3g} times as large{power}"
