"""Drive an answer through several calls: a class that is made and used, a step that is taken again and again.

Every call goes through `observe`, so that it is the same whether the answer lives here or in another process.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .compare import RETURNS_NOTHING
from .observe import Observation, StudentError, observe, own


class Stopped(Exception):
    """An error of the student's code on its way through a drive; the card shows it as if it had been raised there."""

    def __init__(self, error: StudentError) -> None:
        super().__init__(str(error))
        self.student_error = error


def call(function: Callable, *args: Any) -> Any:
    """`function(*args)`; tensors are copied, so that later calls can't change what this one returned."""
    return watch(function, *args).output


def watch(function: Callable, *args: Any, reuses: bool = False, counts: bool = False) -> Observation:
    """The same, with all that was observed; what PyTorch did on the way is counted where that is asked for."""
    seen = observe(function, args, reuses=reuses, counts=counts)
    if seen.error:
        raise Stopped(seen.error)
    seen.output = own(seen.output)
    return seen


class Stream:
    """Hands out things one by one, once, to an answer here or in another process, and counts how many were taken."""

    def __init__(self, things: Iterable) -> None:
        self.left, self.taken = iter(things), 0

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        thing = next(self.left)
        self.taken += 1
        return thing

    __call__ = __next__  # what another process is given is a function


def unpack(output: Any, *names: str) -> tuple:
    """What an answer returned, if it is as many values as there are names."""
    if isinstance(output, (tuple, list)) and len(output) == len(names):
        return tuple(output)
    if output is None:
        raise Stopped(StudentError("", RETURNS_NOTHING))
    raise Stopped(StudentError("TypeError", f"{len(names)} values should be returned: {', '.join(names)}."))


def choice(answer: Callable) -> str:
    """The answer to a question with choices, whether it comes as "C", " c" or ["c"]."""
    given = call(answer)
    words = "".join(map(str, given)) if isinstance(given, (list, tuple)) else given
    if not isinstance(words, str):
        raise Stopped(StudentError("TypeError", 'return the letter of your choice in quotes, such as "a".'))
    return "".join(letter for letter in words.lower() if letter.isalpha())
