"""How a check lists its wrong answers: `key=answer`, or a family's slips in this exercise's form. Names and hints stand
in the Markdown file beside the check (see hints.py)."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .hints import Hint, hint_for
from .misconceptions import Misconception
from .observe import Observation

Mark = Callable[[Observation], bool]


@dataclass(frozen=True)
class Wrong:
    """A wrong answer of which more is known than the answer: see Misconception for the fields."""

    answer: Callable
    raises: str = ""
    recognise: Mark | None = None
    cost: Mark | None = None
    variants: tuple[Callable, ...] = ()
    key: str = field(default="", kw_only=True)
    hint: Hint | None = field(default=None, kw_only=True)


def shared(module_file: str, key: str, answer: Callable, **known: Any) -> Wrong:
    """A wrong answer of several exercises, whose hint stands beside `module_file`. known: other fields of Wrong."""
    return Wrong(answer, key=key, hint=hint_for(key, module_file), **known)


class Slip:
    """Steps of a right answer that are changed, as an attribute of a family: the same slip in every exercise with these
    steps.

    variants: the same slip with other numbers in it. raises: the errors that it may stop with.
    """

    key = ""

    def __init__(self, *variants: dict[str, Callable], raises: str = "", **steps: Callable) -> None:
        if any(isinstance(step, Slip) for step in steps.values()):
            raise TypeError("a step is a function, not another slip")
        self.variants, self.raises, self.steps = variants, raises, steps

    def __set_name__(self, family: type, key: str) -> None:
        self.key, self.file = key, sys.modules[family.__module__].__dict__["__file__"]

    def made(self, make: Callable[..., Callable], **changes: Any) -> Wrong:
        """The wrong answer that `make(**steps)` builds of it. changes: fields of Wrong that differ here."""
        known: dict[str, Any] = {"raises": self.raises, "variants": tuple(make(**steps) for steps in self.variants)}
        return shared(self.file, self.key, make(**self.steps), **known | changes)


def slips(make: Callable[..., Callable], *which: Slip, **changes: Any) -> Iterator[Wrong]:
    """Slips in the form of one exercise: what `make(**steps)` builds of each."""
    return (slip.made(make, **changes) for slip in which)


def with_methods(right: type, **changed: Any) -> type:
    """A class like `right` with some attributes changed: a wrong answer that has state."""
    return type(right.__name__, (right,), {"__module__": right.__module__, "__changed__": changed, **changed})


def wrong_answers(module_file: str, *others: Wrong, **own: Callable | Wrong) -> list[Misconception]:
    """The misconceptions of a check in `module_file`, in order. An exercise's own hint goes before a family's."""
    keyed = [(one.key, one) for one in others] + list(own.items())
    return [_misconception(module_file, key, one) for key, one in keyed]


def _misconception(module_file: str, key: str, given: Callable | Wrong) -> Misconception:
    wrong = given if isinstance(given, Wrong) else Wrong(given)
    hint = hint_for(key, module_file, wrong.hint)
    return Misconception(
        hint.name, wrong.answer, hint.text, wrong.recognise, wrong.cost, wrong.raises, wrong.variants, key
    )
