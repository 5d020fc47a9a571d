"""Two slips at once: wrong answers that one maker builds of changed steps can be put together."""

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from .misconceptions import Misconception

MOST, WORK = 800, 20_000
"""Pairs that are tried, and tensor operations that they may take together: about a second."""


def composable(make: Callable) -> Callable:
    """A function that builds wrong answers of steps, `make(**steps)`: its answers remember theirs."""

    @functools.wraps(make)
    def maker(*args, **steps):
        answer = make(*args, **steps)
        if not args:
            answer.__made__ = maker, steps
        return answer

    return maker


def pairs(misconceptions: Iterable[Misconception]) -> Iterator[Misconception]:
    """Both slips of any two that change different steps, as one misconception; those that stand first in the check,
    which are the usual ones, come first."""
    made = [(wrong, *wrong.function.__made__) for wrong in misconceptions if hasattr(wrong.function, "__made__")]
    for i, j in sorted(combinations(range(len(made)), 2), key=sum):
        (one, maker, first), (other, another, second) = made[i], made[j]
        if maker is another and first and second and not first.keys() & second.keys():
            name, hint = f"{one.name}, and {other.name}", f"{one.hint} And: {other.hint}"
            yield Misconception(name, maker(**first, **second), hint, raises=f"{one.raises} {other.raises}")
