"""Two slips at once: wrong answers that one maker builds of changed steps can be put together, and so can those whose
outputs are numbers: what the one adds, or the factor by which it is off, comes on top of the other's."""

import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

from torch.utils._pytree import tree_leaves, tree_map

from .case_result import CaseResult
from .compare import is_number
from .misconceptions import Misconception

MOST, WORK = 2000, 40_000
"""Pairs that are tried, and tensor operations that they may take together: about a second."""


def composable(make: Callable) -> Callable:
    """A function that builds wrong answers of steps, `make(**steps)`: its answers remember theirs."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def maker(*args, **steps):
        answer = make(*args, **steps)
        given = signature.bind(*args, **steps)
        named = dict(given.arguments)
        answer.__made__ = maker, named.pop(_rest(signature), {}) | named
        return answer

    return maker


def _rest(signature: inspect.Signature) -> str:
    """What a function calls its other keywords."""
    return next((one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), "")


class Pair(NamedTuple):
    """Two slips, and a misconception that makes both."""

    slips: tuple[Misconception, Misconception]
    both: Misconception


def pairs(misconceptions: Iterable[Misconception]) -> Iterator[Pair]:
    """Any two slips that change different steps; those that stand first in the check, which are the usual ones, come
    first."""
    made = [(wrong, *wrong.function.__made__) for wrong in misconceptions if hasattr(wrong.function, "__made__")]
    for i, j in sorted(combinations(range(len(made)), 2), key=sum):
        (one, maker, first), (other, another, second) = made[i], made[j]
        if maker is another and first and second and not first.keys() & second.keys():
            yield _both(one, other, maker(**first, **second))


def _both(one: Misconception, other: Misconception, answer: Callable) -> Pair:
    return Pair((one, other), Misconception("", answer, "", raises=f"{one.raises} {other.raises}"))


def likeliest(found: list[Pair]) -> tuple[Misconception, ...]:
    """Of pairs that explain an answer alike: both slips of the one that has most in common with the others, else the
    one slip that all of them have, else nothing."""
    counts = Counter(slip.name for pair in found for slip in pair.slips)
    weights = [sum(counts[slip.name] for slip in pair.slips) for pair in found]
    best = [pair for pair, weight in zip(found, weights, strict=True) if weight == max(weights)]
    if len(best) == 1:
        return best[0].slips
    return tuple(slip for slip in best[0].slips if counts[slip.name] == len(found)) if best else ()


def _added(right: float, one: float, other: float) -> float:
    return one + other - right


def _multiplied(right: float, one: float, other: float) -> float:
    return one * other / right if right else 0.0


def of_numbers(check: Any, trials: list[CaseResult]) -> Iterator[Pair]:
    """Pairs that together give just the numbers of the student's outputs."""
    mine = _numbers(trial.seen.output for trial in trials)
    right = _numbers(trial.expected for trial in trials)
    known = [(wrong, _numbers(_outputs(check, wrong, trials))) for wrong in check.misconceptions] if mine else []
    known = [(wrong, numbers) for wrong, numbers in known if len(numbers) == len(right) and not _alike(numbers, right)]
    for (one, first), (other, second) in combinations(known, 2):
        joined = _multiplied if _is_factor(right, first) or _is_factor(right, second) else _added
        if _alike([*map(joined, right, first, second)], mine):
            yield _both(one, other, _together(check.reference, one.function, other.function, joined))


def _is_factor(right: list[float], wrong: list[float]) -> bool:
    """Whether all numbers are off by the same factor: then a second slip is multiplied by it too."""
    return all(right) and _alike(
        [one / two for one, two in zip(wrong, right, strict=True)], [wrong[0] / right[0]] * len(right)
    )


def _outputs(check: Any, wrong: Misconception, trials: list[CaseResult]) -> Iterator[Any]:
    return (check.recall(wrong.function, trial.seen.args, False).output for trial in trials)


def _numbers(outputs: Iterable[Any]) -> list[float]:
    """All numbers of some outputs; [] where one is made of anything else."""
    leaves = [leaf for output in outputs for leaf in tree_leaves(output)]
    return leaves if all(map(is_number, leaves)) else []


def _alike(some: list[float], others: list[float]) -> bool:
    """Within rounding."""
    return len(some) == len(others) and all(map(functools.partial(math.isclose, rel_tol=1e-9), some, others))


def _together(reference: Callable, one: Callable, other: Callable, joined: Callable) -> Callable:
    return lambda *args: tree_map(joined, *(answer(*args) for answer in (reference, one, other)))
