"""What makes a check hard to outwit: its cases come in an order that nobody knows beforehand, hidden ones come last of
all, and of a hidden case the card says no more than what kind of thing went wrong.

What an answer returns or raises can carry what it was given: an error message with the inputs in it would show a hidden
case.
"""

import os
import random
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .observe import Observation, StudentError

T = TypeVar("T")
OURS = (
    "KernelDied Timeout TooManySteps BorderError OutOfReach UnmaskedRead UnmaskedWrite StrayPointer CompilationError "
    "NotInterpretable ConfigurationsDisagree"
).split()
"""Errors with names that the course itself gives, or Triton."""
ORDINARY = (
    "AssertionError AttributeError ImportError IndexError KeyError MemoryError ModuleNotFoundError NameError "
    "NotImplementedError OutOfMemoryError OverflowError RecursionError RuntimeError StopIteration TypeError "
    "UnboundLocalError ValueError ZeroDivisionError"
).split()
"""Errors of honest code. A longer list is an alphabet: which of them is raised could be a message."""
IN_SECRET = ""
"""The name of a forbidden function that only a hidden case has seen."""


def shuffled(things: Sequence[T]) -> list[T]:
    """The things in a drawn order. A grader that asks for it (ATTENTION_COURSE_ORDER) gets the same at every run."""
    wanted = os.environ.get("ATTENTION_COURSE_ORDER")
    dice = _dice(wanted) if wanted else random.SystemRandom()
    return dice.sample(list(things), len(things))


@lru_cache(maxsize=1)
def _dice(seed: str) -> random.Random:
    return random.Random(seed)


@dataclass
class Rounds:
    """Where answers live in another process, as while they are graded, all test cells run twice: first for the cases
    that a card shows, then for the hidden ones. What a hidden case gives away finds no shown one to carry it out.

    hidden: whether this is the second round. kept: what came of the shown cases, one for each check that was called."""

    hidden: bool
    kept: list[Any]

    def shown(self, ask: Callable[[bool], T]) -> T:
        if self.hidden:  # nothing is kept where the process of the first round was lost
            return self.kept.pop(0) if self.kept else ask(True)
        self.kept.append(ask(False))
        return self.kept[-1]


ROUNDS: ContextVar[Rounds | None] = ContextVar("rounds", default=None)


def shown_round(ask: Callable[[bool], T]) -> T:
    """What `ask(False)` gives, or has given in the first of two rounds; `ask(True)` where that is lost: hidden cases
    may have been asked for since, so nothing may be told."""
    rounds = ROUNDS.get()
    return rounds.shown(ask) if rounds else ask(False)


def hidden_come_later() -> bool:
    """Whether hidden cases are for the second of two rounds, and this is the first."""
    rounds = ROUNDS.get()
    return rounds is not None and not rounds.hidden


def without_details(seen: Observation) -> Observation:
    """The observation of a hidden case, with nothing of an error but its type, and that only if it is a known one, and
    no name of a forbidden function but that there is one."""
    return replace(
        seen,
        error=_kind_of(seen.error),
        backward_error=_kind_of(seen.backward_error),
        forbidden=(IN_SECRET,) * bool(seen.forbidden),
    )


def _kind_of(error: StudentError | None) -> StudentError | None:
    if error is None:
        return None
    known = error.kind in OURS or error.kind in ORDINARY
    return StudentError(error.kind if known else "Exception", "")


def kind_of_failure(seen: Observation, expected: Any, right: bool) -> str:
    """What is wrong with a hidden case, without a number of it."""
    if seen.error:
        return f"stopped with an error ({seen.error.kind})."
    if right:
        return "the values are right, but not their gradients, or not all that must hold of them."
    if not isinstance(expected, Tensor):
        return "another answer is expected."
    if not isinstance(seen.output, Tensor):
        return "a torch tensor is expected."
    if seen.output.shape != expected.shape:
        return "another shape is expected."
    finite = all(bool(leaf.isfinite().all()) for leaf in tree_leaves(seen.output))
    return "values are off." if finite else "values are NaN or infinite."


def right_by_chance(outputs: Sequence[Any], expected: Sequence[Any], inputs: Sequence[tuple]) -> bool:
    """Whether an answer, which is wrong somewhere, gives one number everywhere, whatever its words are, or always hands
    back the same one of its inputs, the last among them, where the right one does not: what it gets right is chance."""
    if len(outputs) < 2:
        return False
    unknown = all(one is None for one in expected)  # properties decide
    constant = _is_constant(outputs) and (unknown or not _is_constant(expected))
    least = min(map(len, inputs))
    places = [*range(least), -1] if least else []  # of a varying number of inputs: the last one
    return constant or any(
        all(_near(output, args[place]) for output, args in zip(outputs, inputs, strict=True))
        and not all(_near(output, args[place]) for output, args in zip(expected, inputs, strict=True))
        for place in places
    )


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same in all their numbers."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and torch.equal(a.double(), b.double())
    return isinstance(a, (int, float, str)) and isinstance(b, (int, float, str)) and a == b


def _is_constant(outputs: Sequence[Any]) -> bool:
    """Whether some outputs hold one number alone, or words: noise that no check would see makes it no other."""
    if len(_values(outputs)) == 1:
        return True
    leaves = [leaf for leaf in tree_leaves(list(outputs)) if not (isinstance(leaf, str) or _is_empty(leaf))]
    tensors = [leaf.double() for leaf in leaves if _has_numbers(leaf)]
    if not tensors:
        return False
    low, high = min(float(leaf.min()) for leaf in tensors), max(float(leaf.max()) for leaf in tensors)
    others, noise = [leaf for leaf in leaves if not _has_numbers(leaf)], _noise(outputs)
    return high - low <= noise and all(
        isinstance(leaf, (int, float)) and low - noise <= leaf <= high + noise for leaf in others
    )


def _is_empty(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.numel() == 0


def _has_numbers(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and not (_is_empty(leaf) or leaf.is_complex())


def _noise(outputs: Sequence[Any]) -> float:
    """As far apart are numbers that a check takes for one."""
    leaves = [leaf for leaf in tree_leaves(list(outputs)) if isinstance(leaf, Tensor)]
    return 2e-2 if any(leaf.dtype in (torch.float16, torch.bfloat16) for leaf in leaves) else 1e-4


def _near(a: Any, b: Any) -> bool:
    if not (_has_numbers(a) and _has_numbers(b)) or a.shape != b.shape:
        return same(a, b)
    return torch.allclose(a.double(), b.double(), rtol=0.0, atol=_noise([a, b]), equal_nan=True)


def _values(outputs: Sequence[Any]) -> set:
    """The different numbers in some outputs, or words where there are no numbers, three at most."""
    found: set = set()
    leaves = tree_leaves(list(outputs))
    for leaf in [leaf for leaf in leaves if not isinstance(leaf, str)] or leaves:
        plain = isinstance(leaf, Tensor) and not leaf.is_complex()
        found |= set(leaf.double().flatten().unique()[:3].tolist()) if plain else {leaf if _plain(leaf) else id(leaf)}
        if len(found) > 2:
            break
    return found


def _plain(leaf: Any) -> bool:
    return isinstance(leaf, (int, float, str, type(None)))
