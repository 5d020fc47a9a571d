"""What is asked of a call besides equal values: properties of the output, behaviour on the way to it, its cost."""

from collections.abc import Callable
from dataclasses import dataclass

from .cases import Case
from .observe import Observation, TooManySteps


@dataclass(frozen=True)
class Property:
    """Something that must hold of every output: `holds(output, *inputs)`. `note` says what is wrong where it doesn't,
    and `example(output, *inputs)` where: a sentence about this very output, which a hidden case doesn't get."""

    label: str
    holds: Callable[..., bool]
    note: str = ""
    example: Callable[..., str] | None = None

    def of(self, seen: Observation) -> bool:
        """Whether it holds. Of an error, or of an output of another form than it expects, it doesn't."""
        return _true(lambda: self.holds(seen.output, *seen.args), seen)

    def words(self, seen: Observation, hidden: bool) -> str:
        """What is wrong with an output of which it doesn't hold."""
        note = self.note or f"This does not hold: {self.label}."
        if hidden or not self.example:
            return note
        try:
            return f"{note} {self.example(seen.output, *seen.args)}"
        except Exception:  # an output of another form has no such place
            return note


@dataclass(frozen=True)
class Behaviour:
    """Something that must hold of how an output was made: `holds(observation)`, where the values are right."""

    label: str
    holds: Callable[[Observation], bool]
    note: str

    def of(self, seen: Observation) -> bool:
        """Whether it holds; see `Property.of`."""
        return _true(lambda: self.holds(seen), seen)


def _true(question: Callable[[], bool], seen: Observation) -> bool:
    if seen.error:
        return False
    try:
        return bool(question())
    except Exception:  # an output of the wrong form: whatever it is, the rule does not hold of it
        return False


def exceeded_steps(seen: Observation) -> bool:
    """Whether the call was stopped because it ran more lines of Python than it may. (For `cost`.)"""
    return seen.error is not None and seen.error.kind == TooManySteps.__name__


def over_the_limit(seen: Observation, case: Case, hidden: bool = False) -> str:
    """Which limit of the case the call went beyond, in a sentence; "" if it kept to all of them. Of a hidden case it
    isn't said by how much: the number can be a message."""
    operations, backward = sum(seen.operations.values()), sum(seen.backward_operations.values())
    measured = (
        (operations, case.max_operations, "Your function took {} tensor operations; the limit is {}."),
        (seen.largest, case.max_elements, "Your function made a tensor of {} elements; the limit is {}."),
        (
            seen.living,
            case.max_living,
            "Your function held tensors of {} elements together at one time; the limit is {}.",
        ),
        (
            seen.elementwise,
            case.max_elementwise,
            "Your function went through {} numbers one by one (products, sums, exponentials); the limit is {}.",
        ),
        (seen.flops, case.max_flops, "Your function took {} FLOPs; the limit is {}."),
        (seen.saved, case.max_saved, "Your function kept {} numbers for the backward pass; the limit is {}."),
        (backward, case.max_backward_operations, "The backward pass took {} tensor operations; the limit is {}."),
        (
            seen.backward_largest,
            case.max_backward_elements,
            "The backward pass made a tensor of {} elements; the limit is {}.",
        ),
        (seen.backward_flops, case.max_backward_flops, "The backward pass took {} FLOPs; the limit is {}."),
    )
    for used, allowed, words in measured:
        if allowed is not None and used > allowed:
            return words.format("more" if hidden else f"{used:,}", f"{allowed:,}")
    return ""
