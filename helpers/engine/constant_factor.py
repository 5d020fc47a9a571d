"""By what product of the arguments a count is off, in all cases alike: "2·n·d too small", "h/d times the right one".

A count that is wrong in one case says little. The same gap in all of them, as a product of what the function was called
with, is the term that was left out, counted twice, or taken for another.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from .case_result import CaseResult

LEAST = 3  # cases: two can agree by chance
FACTORS = ((1, LEAST), (2, LEAST), (3, 5))
"""Different arguments in a product, and the cases that must bear it out: of thousands of products of three, some fit
three cases by chance."""
SUMMANDS, RATIOS = (1, 2, 3), (-2, -1, 1, 2)  # powers of an argument in a term, in a ratio
LARGEST, DIVISOR = 24, 8  # of the number before a product, p/q
HUGE = 1e100  # beyond it, and of NaN, nothing is computed: a quotient of what is below it is finite
POWERS = {1: "", 2: "²", 3: "³"}

Call = tuple[dict[str, int], Any, Any]  # arguments, the student's number, the right one
Powers = dict[str, int]


def constant_factor(reference: Callable, trials: Sequence[CaseResult]) -> str:
    """A sentence about the first number that is off in these cases; "" where no product of the arguments explains all
    of them, or more than one does."""
    names = list(inspect.signature(reference).parameters)
    if len(trials) < LEAST or any(trial.seen.error for trial in trials):
        return ""
    shown = next((trial for trial in trials if not trial.passed), trials[0])  # the one that the card speaks of
    for path in _paths(shown.expected):
        off = _call(names, shown, path)
        if off is None:
            return ""
        if not _alike(*off[1:]):
            calls = [call for trial in trials if (call := _call(names, trial, path))]
            return _told(calls) if len(calls) == len(trials) else ""
    return ""


def _paths(expected: Any, path: tuple = ()) -> Iterator[tuple]:
    """The way to each number of an output."""
    parts = expected.items() if isinstance(expected, dict) else enumerate(expected) if _is_row(expected) else ()
    if not isinstance(expected, dict) and not _is_row(expected):
        yield path
    for key, part in parts:
        yield from _paths(part, (*path, key))


def _is_row(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _call(names: list[str], trial: CaseResult, path: tuple) -> Call | None:
    """None where the arguments or the outputs aren't numbers."""
    got, want = trial.seen.output, trial.expected
    try:
        for key in path:
            got, want = got[key], want[key]
    except (LookupError, TypeError):
        return None
    named = dict(zip(names, trial.seen.args, strict=False))
    if not all(map(_is_number, (*named.values(), got, want))):
        return None
    return named | {f"({name} − 1)": value - 1 for name, value in named.items() if type(value) is int}, got, want


def _is_number(value: Any) -> bool:
    """Truth values are numbers too: a term that only some calls have."""
    return isinstance(value, (int, float)) and abs(value) < HUGE


def _told(calls: list[Call]) -> str:
    term = _only(calls, [got - want for _, got, want in calls], SUMMANDS)
    if term:
        size, way = term.removeprefix("−"), "small" if term.startswith("−") else "large"
        return f"In all {len(calls)} cases this number is too {way} by {size}."
    if not all(got and want for _, got, want in calls):
        return ""
    ratio = _only(calls, [got / want for _, got, want in calls], RATIOS)
    return f"In all {len(calls)} cases this number is {ratio} times the right one." if ratio else ""


def _only(calls: list[Call], gaps: Sequence[float], powers: Sequence[int]) -> str:
    """The one product that all gaps are; "" where there is none, or more than one."""
    found = [
        (factor, product)
        for product in _products(calls, powers)
        if (factor := _factor(calls, gaps, product)) is not None
    ]
    return _written(*found[0]) if len(found) == 1 else ""


def _products(calls: list[Call], powers: Sequence[int]) -> Iterator[Powers]:
    names = list(calls[0][0])
    allowed = {name: (1,) if all(numbers[name] in (0, 1) for numbers, *_ in calls) else powers for name in names}
    for count in (0, *(count for count, cases in FACTORS if len(calls) >= cases)):
        for chosen in itertools.combinations(names, count):
            for exponents in itertools.product(*(allowed[name] for name in chosen)):
                yield dict(zip(chosen, exponents, strict=True))


def _factor(calls: list[Call], gaps: Sequence[float], product: Powers) -> Fraction | None:
    """The simple number which times the product is the gap of every call, of two at least not as both are 0."""
    if any(power < 0 and not numbers[name] for name, power in product.items() for numbers, *_ in calls):
        return None
    values = (math.prod(numbers[name] ** power for name, power in product.items()) for numbers, *_ in calls)
    factor, telling = None, 0
    for value, gap in zip(values, gaps, strict=True):  # most products end at the second call
        if bool(value) != bool(gap) or (factor and not _alike(factor * value, gap)):
            return None
        factor = factor or (gap / value if gap else None)
        telling += bool(gap)
    largest, divisor = (LARGEST, DIVISOR) if product else (10**10, 10**10)  # one number is no chance in all cases
    simple = Fraction(factor or 0).limit_denominator(divisor)
    fits = telling > 1 and abs(simple.numerator) <= largest and _alike(float(simple), factor or 0)
    return simple if fits else None


def _alike(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9)


def _written(factor: Fraction, product: Powers) -> str:
    """For example 2·n·d², n/d, −3."""
    above = [f"{name}{POWERS[power]}" for name, power in product.items() if power > 0]
    below = [f"{name}{POWERS[-power]}" for name, power in product.items() if power < 0]
    above = [str(abs(factor.numerator))] * (abs(factor.numerator) != 1 or not above) + above
    below = [str(factor.denominator)] * (factor.denominator != 1) + below
    divisor = f"({'·'.join(below)})" if len(below) > 1 else "".join(below)
    return "−" * (factor < 0) + "·".join(above) + (f"/{divisor}" if divisor else "")
