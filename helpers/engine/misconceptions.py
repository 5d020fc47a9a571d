"""A wrong answer that students really give, under a name, and what tells it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .observe import Observation


@dataclass(frozen=True)
class Misconception:
    """A wrong answer with a name. `hint` tells the idea that was missed, not the code.

    function: the wrong answer itself; a student's function that does the same in every case has this misconception.
    recognise: a mark in the output, for a mistake that many different outputs come from. (It gets the observation of a
        call.)
    cost: a mark on the way to a right output: what it took or made. It is looked for where all values are right.
    raises: the kind of error ("RuntimeError") that `function` stops with in some case, or several kinds ("IndexError
        RuntimeError"); without it, an error is a slip of ours.
    variants: the same slip with other numbers in it: an output that is off, and is what one of them gives, shows it.
    key: under which its name and hint stand in the Markdown file beside the check.
    """

    name: str
    function: Callable
    hint: str
    recognise: Callable[[Observation], bool] | None = None
    cost: Callable[[Observation], bool] | None = None
    raises: str = ""
    variants: tuple[Callable, ...] = ()
    key: str = ""

    def may_raise(self, kind: str) -> bool:
        """Whether it owns to errors of this kind."""
        return kind in self.raises.split()


def distinct(misconceptions: Sequence[Misconception], exercise: str) -> tuple[Misconception, ...]:
    """The misconceptions, if their names are all different."""
    names = [misconception.name for misconception in misconceptions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ValueError(f"{exercise} has two misconceptions called {twice!r}: rename one of them.")
    return tuple(misconceptions)
