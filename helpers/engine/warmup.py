"""A check that will be called many times with the same seed, as for every student of a class, does beforehand what is
the same each time: it finds out what is right, and what each of its misconceptions does. It remembers that (see
`Check.known`)."""

import time
from collections.abc import Iterator
from typing import Any

from torch.utils._pytree import tree_map

from .check import Check, case_generators
from .check_group import CheckGroup
from .compare import in_float64

QUICK = 0.05  # seconds for a misconception: slower ones are tried when they are needed


def rehearse(check: Check | CheckGroup, cases: Any, seed: int) -> Iterator[None]:
    """Step by step, so that other things can be done in between. cases: hidden ones, as the check is given them."""
    if isinstance(check, CheckGroup):
        for name, part in check.parts.items():
            yield from rehearse(part, (cases or {}).get(name, ()), seed)
    else:
        yield from _rehearse(check, (*check.cases, *(cases or ())), seed)


def _rehearse(check: Check, cases: tuple, seed: int) -> Iterator[None]:
    first: Any = None
    for case, generator in zip(cases, case_generators(check.exercise, seed, len(cases)), strict=True):
        for _ in range(1 if first else 2):  # the first case comes twice, see `Check._again`
            args = case.draw(check.reference, generator)
            first = first or (args, case.gradient)
            if check.compare:
                check.right(args)
            if case.gradient:
                check.recall(check.reference, tree_map(in_float64, args), gradient=True)
            yield
    for wrong in check.misconceptions if first else ():
        start = time.process_time()
        check.recall(wrong.function, *first)
        yield
        if time.process_time() - start > QUICK:
            return
