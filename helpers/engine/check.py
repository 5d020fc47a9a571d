"""A check: run a student's function on inputs that tell right from wrong, and say what went wrong.

A check knows the right answer (`reference`), inputs that discriminate (`cases`), and the wrong answers that students
really give (`misconceptions`). When an output is wrong, the misconceptions are tried on the same inputs: the one that
gives the student's output is named on the card.
"""

import functools
import math
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_flatten, tree_map

from .cases import Case
from .compare import agree, difference, tolerance
from .observe import Observation, StudentError, observe, quiet
from .score import Item, Picture, Score
from .unseen import anew, drawn, says_nothing, what_kind, without_words

NOT_ATTEMPTED = "not attempted"
MOST_KNOWN = 2_000  # outcomes of misconceptions that a check remembers


@dataclass(frozen=True)
class Misconception:
    """A wrong answer with a name. `hint` tells the idea that was missed, not the code.

    recognise: says from one call whether this is it; needed where many different outputs come from one mistake.
    """

    name: str
    function: Callable
    hint: str
    recognise: Callable[[Observation], bool] | None = None


@dataclass(frozen=True)
class Property:
    """Something that must hold of every output: `holds(output, *inputs)`."""

    label: str
    holds: Callable[..., bool]
    note: str = ""


@dataclass(frozen=True)
class Trial:
    """One case, drawn and tried: what the student's function did, and what the reference gives."""

    case: Case
    seen: Observation
    expected: Any
    passed: bool
    note: str
    hidden: bool = False  # then the card says what kind of thing is wrong, and no more


class Check:
    """Calls a student's function on every case and compares.

    reference: the right answer; its signature gives the shapes, and its name is the exercise's id unless `exercise` is.
    properties: what must hold of the output; with `compare=False` they alone decide.
    forbids: PyTorch functions that may not be used, as patterns of their names (see `observe`).
    within: (relative, absolute) tolerance; by default that of the inputs' dtype.
    drive: for an answer that is no plain function, such as a class: `drive(answer, *inputs)` makes the output.
    """

    def __init__(self, reference: Callable, cases: Sequence[Case], misconceptions: Sequence[Misconception] = (), *,
                 properties: Sequence[Property] = (), forbids: Sequence[str] = (), compare: bool = True,
                 within: tuple[float, float] | None = None, exercise: str = "", drive: Callable | None = None):  # fmt: skip
        self.exercise = exercise or reference.__name__
        self.drive = drive
        self.reference, self.cases, self.misconceptions = reference, tuple(cases), tuple(misconceptions)
        self.properties, self.forbids, self.compare, self.within = tuple(properties), tuple(forbids), compare, within
        self.known: dict[tuple, Observation] = {}  # what misconceptions do, for inputs that came before

    @quiet()
    def __call__(
        self, student: Callable, *, points: float, cases: Sequence[Case] = (), seed: int | None = None
    ) -> Score:
        """Check `student` on the check's own cases and on `cases`; `seed` makes the drawn inputs repeatable."""
        all_cases = (*self.cases, *cases)
        generators, shown = _generators(seed, len(all_cases)), len(self.cases)
        tried: dict[int, Trial] = {}
        for places in (range(shown), range(shown, len(all_cases))):
            if places:
                anew(student)
            for place in drawn(places):
                trial = self._try(student, all_cases[place], generators[place], hidden=place >= shown)
                if trial.seen.error and trial.seen.error.kind == "NotImplementedError":
                    return _not_attempted(self.exercise, points)
                tried[place] = trial
        trials = [tried[place] for place in range(len(all_cases))]
        return self._score(points, [*self._items(trials), *_misuse_items(trials)], trials)

    def wrong_answers(self) -> Iterator[tuple[str, tuple[Callable, ...]]]:
        """Every misconception as (name, the answers to call this check with)."""
        for misconception in self.misconceptions:
            yield misconception.name, (misconception.function,)

    def agrees(self, got: Any, expected: Any, inputs: Any) -> bool:
        """Whether two outputs for `inputs` are the same within the check's tolerance."""
        return agree(got, expected, self.within or tolerance(inputs))

    def observe(self, answer: Callable, args: tuple, gradient: bool = False) -> Observation:
        """Call an answer (a student's, a misconception's, the reference) on `args` and write down what happens."""
        driven = functools.partial(self.drive, answer) if self.drive else answer
        return observe(driven, args, forbids=self.forbids, gradient=gradient)

    def is_misconception(self, answer: Callable) -> bool:
        """Whether an answer is one of this check's own wrong answers, and no student's."""
        return any(answer is misconception.function for misconception in self.misconceptions)

    def recall(self, answer: Callable, args: tuple, gradient: bool) -> Observation:
        """`observe`, which remembers what misconceptions do: a proof of the check meets the same inputs hundreds of times."""
        key = _key(answer, args, gradient) if self.is_misconception(answer) else None
        if key is None:
            return self.observe(answer, args, gradient)
        if key not in self.known:
            if len(self.known) > MOST_KNOWN:
                self.known.clear()
            self.known[key] = self.observe(answer, args, gradient)
        return self.known[key]

    def _try(self, student: Callable, case: Case, generator: Generator, hidden: bool = False) -> Trial:
        args = case.draw(self.reference, generator)
        seen = self.recall(student, args, case.gradient)
        seen = without_words(replace(seen)) if hidden else seen
        expected = self._expected(args)
        note = self._problem(seen, expected, case)
        if hidden and note and not self._is_right(seen, expected):
            note = what_kind(seen, expected)
        return Trial(case, seen, expected, not note, note, hidden)

    def _is_right(self, seen: Observation, expected: Any) -> bool:
        """Whether the values are as they should be: what else is wrong is said in words that are all the check's own."""
        return not seen.error and (not self.compare or self.agrees(seen.output, expected, seen.args))

    def _expected(self, args: tuple) -> Any:
        """In float64, so that rounding is the student's alone."""
        if not self.compare:
            return None
        seen = self.observe(self.reference, tree_map(_in_float64, args))
        if seen.error:
            raise RuntimeError(f"The reference of {self.exercise} failed: {seen.error}")
        return seen.output

    def _problem(self, seen: Observation, expected: Any, case: Case) -> str:
        if seen.error:
            return f"stopped with an error. {seen.error}"
        if self.compare and not self.agrees(seen.output, expected, seen.args):
            return difference(seen.output, expected)
        if case.gradient and (problem := self._gradient_problem(seen)):
            return f"The values are right, but {problem}"
        broken = [rule for rule in self.properties if not _holds(rule, seen)]
        return (broken[0].note or f"This does not hold: {broken[0].label}.") if broken else _over_the_limit(seen, case)

    def _gradient_problem(self, seen: Observation) -> str:
        expected = self.observe(self.reference, seen.args, gradient=True).gradients
        for got, want in zip(seen.gradients, expected, strict=True):
            if got is None:
                return "the gradients don't reach all the inputs, so nothing before this could be trained."
            if not self.agrees(got, want, seen.args):
                return "the gradients are not." if got.isfinite().all() else "a gradient is NaN or infinite."
        return ""

    def _items(self, trials: list[Trial]) -> list[Item]:
        """The cases count; what they have in common (shape, properties) is shown before them and explains."""
        shapes = [_shape_fits(trial) for trial in trials if isinstance(trial.expected, Tensor)]
        common = [Item("shape of the output", all(shapes), counts=False)] if shapes else []
        for rule in self.properties:
            common.append(Item(rule.label, all(_holds(rule, trial.seen) for trial in trials), rule.note, counts=False))
        return [*common, *(Item(trial.case.label, trial.passed, trial.note) for trial in trials)]

    def _score(self, points: float, items: list[Item], trials: list[Trial]) -> Score:
        counting = [item for item in items if item.counts]
        share = sum(item.passed for item in counting) / len(counting)
        forbidden = any(trial.seen.forbidden for trial in trials)
        earns = not forbidden and (share == 1 or not _says_nothing(trials))
        value = _in_quarters(points, share) if earns else 0.0
        if share == 1 and not forbidden:
            return Score(value, exercise=self.exercise, points=points, items=tuple(items))
        from .diagnose import diagnose

        name, message = diagnose(self, trials, items)
        return Score(value, exercise=self.exercise, points=points, items=tuple(items), diagnosis=name, message=message,
                     pictures=_pictures(self, trials))  # fmt: skip


class CheckGroup:
    """One exercise that asks for several functions; each is checked by itself, and its points are shared out equally."""

    def __init__(self, exercise: str, *parts: Check):
        self.exercise, self.parts = exercise, {part.exercise: part for part in parts}

    def __call__(self, *students: Callable, points: float, cases: dict[str, Sequence[Case]] | None = None,
                 seed: int | None = None) -> Score:  # fmt: skip
        """Check the functions, given in the order of `parts`; `cases` holds more cases by the name of a part."""
        if len(students) != len(self.parts):
            raise TypeError(f"check.{self.exercise} takes {len(self.parts)} functions: {', '.join(self.parts)}.")
        share = points / len(self.parts)
        scores = [
            check(student, points=share, cases=(cases or {}).get(name, ()), seed=seed)
            for (name, check), student in zip(self.parts.items(), students, strict=True)
        ]
        return _joined(self.exercise, points, tuple(scores))

    def wrong_answers(self) -> Iterator[tuple[str, tuple[Callable, ...]]]:
        """Every misconception of every part, beside the right answers of the other parts."""
        for part, check in self.parts.items():
            for misconception in check.misconceptions:
                others = {name: other.reference for name, other in self.parts.items()}
                yield misconception.name, tuple({**others, part: misconception.function}.values())


def _joined(exercise: str, points: float, scores: tuple[Score, ...]) -> Score:
    wrong = [score for score in scores if not score.full]
    if not wrong:
        return Score(points, exercise=exercise, points=points, parts=scores)
    if all(score.diagnosis == NOT_ATTEMPTED for score in scores):
        return _not_attempted(exercise, points)
    named = [score for score in wrong if score.diagnosis not in (None, NOT_ATTEMPTED)] or wrong
    message = "\n".join(f"{score.exercise}: {score.message}" for score in wrong)
    value = math.floor(sum(map(float, scores)) * 4 + 1e-6) / 4
    return Score(value, exercise=exercise, points=points, diagnosis=named[0].diagnosis, message=message, parts=scores)


def _not_attempted(exercise: str, points: float) -> Score:
    message = "Not attempted yet: replace `raise NotImplementedError` with your answer and run both cells again."
    return Score(0.0, exercise=exercise, points=points, diagnosis=NOT_ATTEMPTED, message=message)


def _generators(seed: int | None, count: int) -> list[Generator]:
    """One generator per case. Fresh each time, unless the grader asks for the same inputs at every run."""
    seed = int(os.environ.get("ATTENTION_COURSE_SEED", secrets.randbits(32))) if seed is None else seed
    return [Generator().manual_seed(seed + 1_000 * index) for index in range(count)]


def _key(function: Callable, args: tuple, gradient: bool) -> tuple | None:
    """The same for the same function and inputs; None for inputs that can't be told apart by their values."""
    leaves, structure = tree_flatten(args)
    if not all(isinstance(leaf, (Tensor, int, float, str, NoneType)) for leaf in leaves):
        return None
    return function, gradient, str(structure), *map(_value, leaves)


def _value(leaf: Any) -> tuple:
    if not isinstance(leaf, Tensor):
        return type(leaf), leaf
    return leaf.dtype, leaf.shape, leaf.detach().flatten().view(torch.uint8).numpy().tobytes()


def _in_float64(leaf: Any) -> Any:
    return leaf.to(torch.float64) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _over_the_limit(seen: Observation, case: Case) -> str:
    operations = sum(seen.operations.values())
    if case.max_operations is not None and operations > case.max_operations:
        return f"It took {operations} tensor operations; {case.max_operations} are enough, whatever the length."
    if case.max_elements is not None and seen.largest > case.max_elements:
        return f"It made a tensor of {seen.largest:,} elements; {case.max_elements:,} are enough."
    return ""


def _shape_fits(trial: Trial) -> bool:
    return isinstance(trial.seen.output, Tensor) and trial.seen.output.shape == trial.expected.shape


def _misuse_items(trials: list[Trial]) -> list[Item]:
    """Lines that stand on the card only where something is amiss."""
    modified = any(trial.seen.modified for trial in trials)
    forbidden = sorted({name for trial in trials for name in trial.seen.forbidden})
    items = []
    if modified:
        items.append(Item("leaves its inputs unchanged", False, "Your function changes its inputs in place."))
    if forbidden:
        public = [name for name in forbidden if not name.startswith("_")] or forbidden
        items.append(Item("written without the forbidden function", False, f"It calls `{'`, `'.join(public)}`."))
    return items


def _holds(rule: Property, seen: Observation) -> bool:
    if seen.error:
        return False
    try:
        return bool(rule.holds(seen.output, *seen.args))
    except Exception:  # an output of the wrong form: whatever it is, the property does not hold of it
        return False


def _says_nothing(trials: list[Trial]) -> bool:
    """Whether an answer that is wrong somewhere is right elsewhere by chance alone."""
    compared = [trial for trial in trials if trial.seen.error is None]
    try:
        return says_nothing(*zip(*((t.seen.output, t.expected, t.seen.args) for t in compared), strict=True))
    except Exception:  # an output of a kind that has no plain numbers: then it is no number either
        return False


def _in_quarters(points: float, share: float) -> float:
    """Partial credit in steps of a quarter point, rounded down: full points only where everything passes."""
    return float(points) if share == 1 else math.floor(points * share * 4) / 4


def _pictures(check: Check, trials: list[Trial]) -> tuple[Picture, ...]:
    """The first tensor that is wrong in its values; one that is right in all of them says nothing."""
    for trial in trials:
        for got, expected in _pairs(trial.seen.output, trial.expected):
            if not (trial.passed or trial.hidden) and got.numel() and not check.agrees(got, expected, trial.seen.args):
                return (Picture(trial.case.label, expected, got),)
    return ()


def _pairs(got: Any, expected: Any) -> list[tuple[Tensor, Tensor]]:
    """Tensors and what they should be, from an output that is a tensor or a tuple with tensors in it."""
    if isinstance(got, (tuple, list)) and isinstance(expected, (tuple, list)):
        return [pair for g, e in zip(got, expected, strict=False) for pair in _pairs(g, e)]
    return [(got, expected)] if isinstance(got, Tensor) and isinstance(expected, Tensor) else []


__all__ = ["Check", "CheckGroup", "Misconception", "Property", "StudentError", "NOT_ATTEMPTED"]
