"""A check: run a student's function on inputs that tell right from wrong, and say what went wrong.

A check knows the right answer (`reference`), inputs that discriminate (`cases`), and the wrong answers that students
really give (`misconceptions`). When an output is wrong, the misconceptions are tried on the same inputs: the one that
gives the student's output is named on the card.
"""

import functools
import inspect
import math
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import FunctionType, NoneType
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_flatten, tree_map

from .anti_gaming import (
    IN_SECRET,
    hidden_come_later,
    kind_of_failure,
    right_by_chance,
    same,
    shown_round,
    shuffled,
    without_details,
)
from .card_content import pictures, words
from .case_result import CaseResult
from .cases import Case
from .check_group import CheckGroup
from .compare import (
    RETURNS_NOTHING,
    TOLERANCE,
    agree,
    as_tensor,
    difference,
    in_float64,
    is_number,
    not_the_answer,
    tolerance,
)
from .diagnose import FORBIDDEN, LEAVES_INPUTS, diagnose
from .misconceptions import Misconception, distinct
from .observe import ASKED, Observation, StudentError, ask_ahead, observe, quiet
from .requirements import Behaviour, Property, exceeded_steps, over_the_limit
from .score import NOT_ATTEMPTED, Item, Score, not_attempted

Drawn = tuple[Case, Generator]  # a case, and what draws its inputs

__all__ = [
    "NOT_ATTEMPTED",
    "Behaviour",
    "Check",
    "CheckGroup",
    "Misconception",
    "Property",
    "StudentError",
    "CaseResult",
]

MOST_KNOWN = 2_000  # outcomes that a check remembers
AGAIN = "a second call, same sizes, other numbers"  # stands on the card only where it goes wrong
GRADIENTS = 10  # times as far off as values: a way back multiplies what the way there has rounded
KEPT = "The first call was right. Is something kept from one call to the next?"
OVERWRITTEN = (
    "Since this call other numbers stand in what an earlier call returned: hand out a tensor of its own each time, "
    "no buffer that is used again."
)
CHANGES_INPUTS = (
    "Your function changes its inputs in place. `x += …`, `x[i] = …` and methods whose names end in `_` write "
    "into x; so they do when they are used on a slice or another view of it."
)
CHANGES_LISTS = (
    "Your function changes a list that it was given: `x[i] = …`, `del`, `pop`, `append` and `sort` do so, and the "
    "caller's list is another one afterwards. Work on a copy, `list(x)`."
)
ASKS_FOR_GRADIENTS = (
    "Your function leaves `requires_grad` switched on (or off) in one of its inputs: the caller's tensor is another "
    "one afterwards. Work on a copy: `x.detach().clone().requires_grad_()`."
)


class Check:
    """Calls a student's function on every case and compares.

    reference: the right answer; its signature gives the shapes, and its name is the exercise's id unless `exercise` is.
    properties: what must hold of the output; with `compare=False` they alone decide.
    behaviours: what must hold of the way to it. Right values at too high a price earn half of the points at most.
    forbids: PyTorch functions that may not be used, as patterns of their names (see `observe`).
    within: (relative, absolute) tolerance, or a dict of them by the inputs' dtype; by default that of the inputs'
        dtype.
    drive: for an answer that is no plain function, such as a class: `drive(answer, *inputs)` makes the output.
    view: the part of an output that is compared; by default all of it.
    names: what a card calls the tensors of an output, in their order, and their axes where the signature doesn't tell
        those: ("memory: sequences tokens features", "logits"). Of more tensors than names, "keys" are keys 1, keys 2, …
    counts: whether the way to an output is counted, which takes time; by default where a limit, a behaviour or a mark
        may ask for it.
    steps: the most lines of Python that a call may run, for answers that must not try one thing after the other; 0 for
        any number. A call that runs more ends there. Nothing is known of its values, so it is judged as one that came
        at too high a price.
    quiz: the answer is a choice, and a card must not tell it.
    """

    def __init__(
        self,
        reference: Callable,
        cases: Sequence[Case],
        misconceptions: Sequence[Misconception] = (),
        *,
        properties: Sequence[Property] = (),
        behaviours: Sequence[Behaviour] = (),
        forbids: Sequence[str] = (),
        compare: bool = True,
        within: tuple[float, float] | dict | None = None,
        exercise: str = "",
        drive: Callable | None = None,
        view: Callable | None = None,
        quiz: bool = False,
        names: Sequence[str] = (),
        counts: bool | None = None,
        steps: int = 0,
    ) -> None:
        self.exercise = exercise or reference.__name__
        self.reference, self.cases, self.misconceptions = (
            reference,
            tuple(cases),
            distinct(misconceptions, self.exercise),
        )
        self.properties, self.behaviours, self.forbids = tuple(properties), tuple(behaviours), tuple(forbids)
        self.compare, self.within, self.drive, self.view, self.quiz = compare, within, drive, view, quiz
        self.names = tuple(name.partition(": ")[::2] for name in names)  # what it is called, and its axes
        marked = any(wrong.recognise or wrong.cost for wrong in misconceptions)
        limited = bool(behaviours) or any(case.limited for case in cases)
        self.counts = limited or marked if counts is None else counts
        self.steps = steps
        self.known: dict[tuple, Any] = {}  # what our own answers do, and what is right, for inputs that came before

    @quiet()
    def __call__(
        self, student: Callable, *, points: float, cases: Sequence[Case] = (), seed: int | None = None
    ) -> Score:
        """Check `student` on the check's own cases and on `cases`; `seed` makes the drawn inputs repeatable."""
        all_cases = (*self.cases, *cases)
        if not self.counts and any(case.limited for case in cases):
            raise ValueError(f"{self.exercise} has limits in its hidden cases alone: give its check `counts=True`.")
        drawn = list(zip(all_cases, case_generators(self.exercise, seed, len(all_cases)), strict=True))
        shown, hidden = drawn[: len(self.cases)], drawn[len(self.cases) :]
        trials, again = shown_round(lambda in_secret: self._shown(student, shown, in_secret))
        if hidden_come_later():
            return Score(0.0, exercise=self.exercise, points=points)
        trials = trials if self._not_written(trials) else [*trials, *self._trials(student, hidden, hidden=True), *again]
        if self._not_written(trials):
            return not_attempted(self.exercise, points)
        items = [*self.items(trials), *_misuse_items(trials)]
        if all(item.passed for item in items if item.counts):
            return Score(float(points), exercise=self.exercise, points=points, items=tuple(items))
        found = diagnose(self, student, trials, items)
        tables = pictures(self, trials, found.telling)
        message = found.message + ("" if self.quiz else words(trials, found.message, bool(tables)))
        return Score(
            _value(points, items, trials),
            exercise=self.exercise,
            points=points,
            items=tuple(items),
            diagnosis=found.name,
            message=message,
            pictures=tables,
        )

    def wrong_answers(self) -> Iterator[tuple[str, tuple[Callable, ...]]]:
        """Every misconception as (name, the answers to call this check with)."""
        for misconception in self.misconceptions:
            yield misconception.name, (misconception.function,)

    # ----------------------------------------------------------------- what a check of another kind does in its own way

    def observe(self, answer: Callable, args: tuple, gradient: bool = False) -> Observation:
        """Call an answer (a student's, a misconception's, the reference) on `args` and write down what happens."""
        driven = functools.partial(self.drive, answer) if self.drive else answer
        return observe(driven, args, **self._asked(gradient))

    def _asked(self, gradient: bool) -> dict[str, Any]:
        return {"forbids": self.forbids, "gradient": gradient, "counts": self.counts, "steps": self.steps}

    def _ask_ahead(self, student: Callable, calls: list[tuple[tuple, bool]]) -> None:
        """Tells which calls come next, where a check calls the student's function itself: the process in which it lives
        needn't wait until each of its outputs was looked at. Not where it is given functions: it could try them."""
        functions = any(callable(leaf) for leaf in tree_flatten([args for args, _ in calls])[0])
        if not self.drive and not functions and type(self).observe is Check.observe:
            ask_ahead(student, [(args, self._asked(gradient)) for args, gradient in calls])

    def expected(self, args: tuple) -> Any:
        """The right output. In float64, so that rounding is the student's alone."""
        seen = self.observe(self.reference, tree_map(in_float64, args))
        if seen.error:
            raise RuntimeError(f"The reference of {self.exercise} failed: {seen.error}")
        return seen.output

    def difference(self, seen: Observation, expected: Any) -> str:
        """How an output differs from the right one, in a sentence; "" if it doesn't."""
        within = self.tolerated(seen.args)
        got, want = self._viewed(seen.output, expected)
        if agree(got, want, within):
            return ""
        if self.quiz:
            return not_the_answer(seen.output, expected, within)
        return difference(seen.output, expected, within, [name for name, _ in self.names])

    def items(self, trials: list[CaseResult]) -> list[Item]:
        """The cases count; what they have in common (shape, properties) is shown before them and explains."""
        ended = [trial for trial in trials if not trial.seen.error]  # a call that stopped says nothing of its output
        shapes = [_shape_fits(trial) for trial in ended if isinstance(trial.expected, Tensor)]
        common = [Item("shape of the output", all(shapes), counts=False)] if shapes else []
        rules: list[Property | Behaviour] = [*self.properties, *self.behaviours] if ended else []
        for rule in rules:
            common.append(Item(rule.label, all(rule.of(trial.seen) for trial in ended), rule.note, counts=False))
        return [*common, *(Item(_label(trial), trial.passed, trial.note) for trial in trials)]

    # -------------------------------------------------------------------------------------------------- for a diagnosis

    def agrees(self, got: Any, expected: Any, inputs: Any) -> bool:
        """Whether two outputs for `inputs` are the same, within the check's tolerance."""
        return agree(got, expected, self.tolerated(inputs))

    def tolerated(self, inputs: Any) -> tuple[float, float]:
        """How far (relative, absolute) an output for these inputs may be off."""
        usual = tolerance(inputs)
        if isinstance(self.within, dict):
            return next((within for dtype, within in self.within.items() if usual == TOLERANCE[dtype]), usual)
        return self.within or usual

    def is_misconception(self, answer: Callable) -> bool:
        """Whether an answer is one of this check's own wrong answers, and no student's."""
        return any(answer is one for wrong in self.misconceptions for one in (wrong.function, *wrong.variants))

    def recall(self, answer: Callable, args: tuple, gradient: bool) -> Observation:
        """`observe`, which remembers what the course's own answers do."""
        if answer is self.reference or self.is_misconception(answer):
            return self._once(answer, args, gradient, lambda: self.observe(answer, args, gradient))
        return self.observe(answer, args, gradient)

    def right(self, args: tuple) -> Any:
        """`expected`, which is found once for the same inputs."""
        return self._once("expected", args, False, lambda: self.expected(args))

    def _once(self, what: Any, args: tuple, gradient: bool, find: Callable[[], Any]) -> Any:
        """What `find()` gives, found once for the same inputs: a proof of the check meets them hundreds of times."""
        key = _call_key(what, args, gradient)
        if key is None:
            return find()
        if key not in self.known:
            if len(self.known) > MOST_KNOWN:
                self.known.clear()
            self.known[key] = find()
        return self.known[key]

    # -------------------------------------------------------------------------------------------------------- one trial

    def _shown(
        self, student: Callable, drawn: list[Drawn], in_secret: bool
    ) -> tuple[list[CaseResult], list[CaseResult]]:
        """What came of the cases that a card shows, and of the first of them again. In secret: the card is to show no
        more of these than of hidden ones."""
        trials = self._trials(student, drawn, hidden=in_secret)
        first = [] if self._not_written(trials) else trials[:1]
        return trials, [again for one in first if (again := self._again(student, one))]

    def _trials(self, student: Callable, drawn: list[Drawn], hidden: bool) -> list[CaseResult]:
        """What came of some cases, in their order. They are asked for in a drawn one; what isn't written is asked
        once."""
        order = shuffled(range(len(drawn)))
        inputs = {place: drawn[place][0].draw(self.reference, drawn[place][1]) for place in order}
        self._ask_ahead(student, [(args, drawn[place][0].gradient) for place, args in inputs.items()])
        tried: dict[int, CaseResult] = {}
        for place, args in inputs.items():
            tried[place] = self._try(student, drawn[place][0], args, drawn[place][1], hidden)
            if not self.drive and self._not_written([tried[place]]):
                break
        return [tried[place] for place in sorted(tried)]

    def _try(
        self, student: Callable, case: Case, args: tuple, generator: Generator, hidden: bool = False
    ) -> CaseResult:
        seen = self.recall(student, args, case.gradient)
        seen = without_details(seen) if hidden else seen
        expected = self.right(args) if self.compare else None
        wrong = "" if exceeded_steps(seen) else self._wrong(seen, expected, case, hidden)
        dear = "" if seen.error and wrong else self._dear(seen, case, hidden)  # values that are off can be dear as well
        if hidden and wrong and (seen.error or self.compare):
            wrong = kind_of_failure(seen, expected, right=not seen.error and not self.difference(seen, expected))
        return CaseResult(case, seen, expected, wrong, dear, generator, hidden)

    def _not_written(self, trials: list[CaseResult]) -> bool:
        """Whether the stub stands there still. Of a class, some methods may be written, and some cases be right."""
        stubs = [trial for trial in trials if trial.seen.error and trial.seen.error.kind == "NotImplementedError"]
        return bool(stubs) and not (self.drive and any(trial.passed for trial in trials))

    def _again(self, student: Callable, first: CaseResult) -> CaseResult | None:
        """The first case again, with other numbers of the same sizes; None where that is right, or can't be asked."""
        if not first.passed:
            return None
        args = first.case.draw(self.reference, first.generator)
        if not _other_numbers(first.seen.args, args):
            return None
        case = replace(first.case, label=AGAIN, draw=lambda *_: args)
        trial = self._try(student, case, args, first.generator, first.hidden)
        return None if trial.passed else replace(trial, wrong=f"{trial.note} {KEPT}", dear="")

    def _wrong(self, seen: Observation, expected: Any, case: Case, hidden: bool) -> str:
        if seen.error:
            return f"stopped with an error. {seen.error}" if seen.error.kind else str(seen.error)
        if self.compare and (words := self.difference(seen, expected)):
            return words
        if seen.output is None and self.properties and not self.compare:
            return RETURNS_NOTHING
        broken = next((rule for rule in self.properties if not rule.of(seen)), None)
        if broken:
            return broken.words(seen, hidden)
        if seen.overwrites:
            return OVERWRITTEN
        return self._gradient_difference(seen) if case.gradient else ""

    def _gradient_difference(self, seen: Observation) -> str:
        """What is wrong with the gradients of an output that is right."""
        lead = "The values are right, but"
        if seen.backward_error:
            return (
                f"{lead} their gradient can't be taken: the backward pass stopped with an error. {seen.backward_error}"
            )
        right = self.recall(self.reference, tree_map(in_float64, seen.args), gradient=True).gradients or ()
        mine = seen.gradients or (None,) * len(right)
        for name, got, want in zip(_float_inputs(self.reference, seen.args), mine, right, strict=True):
            relative, absolute = self.tolerated(seen.args)
            largest = want.abs().max().item() if want is not None and want.numel() else 0.0
            within = GRADIENTS * relative, GRADIENTS * absolute + relative * largest
            if got is not None and agree(got, want, within):
                continue
            if cut := self._cut_off(seen):
                why = "on the way to it the numbers were detached, or made anew"
                return f"{lead} no gradient flows back from {cut}: {why}."
            if got is None:
                return f"{lead} no gradient reaches {name}, so nothing before it could be trained."
            words = difference(got, want, within)
            return f"{lead} the gradient of {name} is off. {words.replace('our output', 'our gradient')}"
        return ""

    def _cut_off(self, seen: Observation) -> str:
        """Which of several outputs sends no gradient back, if that explains wrong gradients; "" if it doesn't."""
        count = len(seen.output) if isinstance(seen.output, tuple) and seen.gradients and not self.drive else 0
        for place in range(count if count > 1 else 0):
            rest = functools.partial(_with_one_detached, self.reference, place)
            right = self.observe(rest, tree_map(in_float64, seen.args), gradient=True).gradients
            if right and self.agrees(_as_tensors(seen.gradients or ()), _as_tensors(right), seen.args):
                return f"`{self.names[place][0]}`" if self.names else f"output {place + 1} of {count}"
        return ""

    def _dear(self, seen: Observation, case: Case, hidden: bool) -> str:
        if exceeded_steps(seen):
            return f"Your function ran more than {self.steps:,} lines of Python and was stopped."
        broken = (rule.note for rule in self.behaviours if not rule.of(seen))
        return over_the_limit(seen, case, hidden) or next(broken, "")

    def _viewed(self, *outputs: Any) -> tuple:
        """The parts that are compared; the whole outputs where one has no such part."""
        try:
            return tuple(map(self.view, outputs)) if self.view else outputs
        except Exception:
            return outputs


def case_generators(exercise: str, seed: int | None, count: int) -> list[Generator]:
    """One generator per case. Fresh each time, unless the grader asks for the same inputs at every run. Each exercise
    has its own, or one without limits could work out what another, with limits, looks up."""
    seed = int(os.environ.get("ATTENTION_COURSE_SEED", secrets.randbits(32))) if seed is None else seed
    seed += zlib.crc32(exercise.encode()) << 16
    return [Generator().manual_seed(seed + 1_000 * index) for index in range(count)]


def _call_key(what: Any, args: tuple, gradient: bool) -> tuple | None:
    """The same for the same function (or word) and inputs; None for inputs that can't be told apart by their values."""
    leaves, structure = tree_flatten(args)
    if not all(isinstance(leaf, (Tensor, int, float, str, NoneType, FunctionType, torch.dtype)) for leaf in leaves):
        return None
    return what, gradient, str(structure), *map(_plain, leaves)


def _other_numbers(before: tuple, after: tuple) -> bool:
    """Whether two draws of plain inputs, and functions, differ. (A model that is trained is none: it takes long.)"""
    pairs = list(zip(tree_flatten(before)[0], tree_flatten(after)[0], strict=False))
    plain = all(isinstance(leaf, (Tensor, int, float, str, NoneType, FunctionType)) for pair in pairs for leaf in pair)
    return plain and not all(same(a, b) for a, b in pairs if isinstance(a, Tensor))


def _plain(leaf: Any) -> tuple:
    if not isinstance(leaf, Tensor):
        return type(leaf), leaf
    return leaf.dtype, leaf.shape, leaf.detach().flatten().view(torch.uint8).numpy().tobytes()


def _with_one_detached(reference: Callable, place: int, *args: Any) -> tuple:
    """What the reference returns, with no gradient through the output at this place."""
    return tuple(
        tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, output) if i == place else output
        for i, output in enumerate(reference(*args))
    )


def _as_tensors(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    """0 in the place of each gradient that doesn't exist."""
    return tuple(torch.zeros(()) if gradient is None else gradient for gradient in gradients)


def _float_inputs(reference: Callable, args: tuple) -> list[str]:
    """The names of the inputs that have gradients, one per tensor."""
    names = [f"`{name}`" for name in inspect.signature(reference).parameters]
    leaves = [(name, leaf) for name, arg in zip(names, args, strict=False) for leaf in tree_flatten(arg)[0]]
    return [name for name, leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _shape_fits(trial: CaseResult) -> bool:
    got = as_tensor(trial.seen.output) if is_number(trial.seen.output) else trial.seen.output
    return isinstance(got, Tensor) and got.shape == trial.expected.shape


def _label(trial: CaseResult) -> str:
    """The case; of one whose cost is limited it is said where its values are off: the limit may well have been kept."""
    return trial.case.label + " (values are off)" * (trial.case.limited and bool(trial.wrong) and not trial.seen.error)


def _misuse_items(trials: list[CaseResult]) -> list[Item]:
    """Lines that stand on the card only where something is amiss."""
    modified = {key for trial in trials for key in trial.seen.modified}
    forbidden = sorted({name for trial in trials for name in trial.seen.forbidden})
    items = []
    if modified:
        items.append(Item(LEAVES_INPUTS, False, _what_changed(trials, modified)))
    if forbidden:
        seen = [name for name in forbidden if name != IN_SECRET]
        public = [name for name in seen if not name.startswith("_")] or seen
        calls = f"`{'`, `'.join(public)}`" if public else "what this exercise forbids"
        items.append(Item(FORBIDDEN, False, f"It calls {calls}, itself or through another function."))
    return items


def _what_changed(trials: list[CaseResult], modified: set[int | str]) -> str:
    """How inputs were changed in place, of which kind they are."""
    if modified == {ASKED}:
        return ASKS_FOR_GRADIENTS
    changed = [
        dict[Any, Any](enumerate(trial.seen.args)).get(key)
        for trial in trials
        for key in trial.seen.modified
        if key != ASKED
    ]
    return CHANGES_LISTS if all(isinstance(one, list) for one in changed) else CHANGES_INPUTS


def _value(points: float, items: list[Item], trials: list[CaseResult]) -> float:
    """Partial credit in steps of a quarter point, rounded down; half at most where values come too dear, right or not:
    nobody earns less by mending them."""
    if any(trial.seen.forbidden for trial in trials) or _says_nothing(trials):
        return 0.0
    counting = [item for item in items if item.counts]
    share = sum(item.passed for item in counting) / len(counting)
    if any(trial.dear for trial in trials):
        share = min(share, 0.5)
    return math.floor(points * share * 4) / 4


def _says_nothing(trials: list[CaseResult]) -> bool:
    """Whether an answer that is wrong somewhere is right elsewhere by chance alone."""
    compared = [trial for trial in trials if trial.seen.error is None]
    if not any(trial.wrong for trial in trials):
        return False
    try:
        return right_by_chance(*zip(*((t.seen.output, t.expected, t.seen.args) for t in compared), strict=True))
    except Exception:  # an output of a kind that has no plain numbers: then it is no number either
        return False
