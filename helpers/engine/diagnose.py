"""Name what went wrong: a misconception is named where it explains all that was seen, and otherwise nothing is.

Three kinds of evidence, each looked for only where the stronger one before it finds nothing:
1. the misconception does in every case what the student's function does, and on fresh inputs too;
2. its mark stands in every output that is wrong, and in no right one;
3. where all values are right: its mark stands on the way to every output that was too dear.
"""

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any, Protocol

from torch import Tensor
from torch.utils._pytree import tree_leaves

from . import two_slips
from .anti_gaming import without_details
from .card import Item
from .case_result import CaseResult
from .compare import Message
from .constant_factor import constant_factor
from .growth import growth
from .half_done import half_done, is_dense
from .in_the_source import never_read, unfinished
from .kernel_bounds import CERTAIN
from .misconceptions import Misconception
from .observe import Observation, StudentError, observe
from .requirements import Behaviour, exceeded_steps
from .unused_inputs import unused_inputs

FORBIDDEN = "written without the forbidden function"  # labels of lines on the card
LEAVES_INPUTS = "leaves its inputs unchanged"
NAME = re.compile("`[^`]*`")
TOO_DEAR = "Your output is right, but it costs too much or is made in a way that the task rules out:"
TOO_LONG = "Your function takes far too many steps:"
ANOTHERS = (
    "With {0} your function gives what is right with {1}: an argument is left out of account, or something is kept "
    "from one call to the next."
)
RANDOM = "Called twice with the same inputs, your function gives different results: is something drawn at random?"
VOUCHES = re.compile(r"^(?:The|Your|Each) [^.,:]* (?:is|are) right(?:[.,] [Bb]ut |\. )")
TWO_SLIPS = "This is exactly what you get with two slips at once:"
ONE_OF_TWO = "This may be two slips at once, of which one is:"
UNCOUNTED = 5  # times as many calls can be tried where nothing is counted
LARGE = 16  # times the smallest: cases of which one slip alone isn't looked for, so that nobody waits
FRESH = 2  # failing cases that are drawn again
Mark = Callable[[Observation], bool]


@dataclass(frozen=True)
class Diagnosis:
    """name: of a misconception, where one fits; message: for the student; telling: the case that tells it apart."""

    name: str | None
    message: str
    telling: CaseResult | None = None


class Subject(Protocol):
    """What a diagnosis needs of a `Check`."""

    reference: Callable
    misconceptions: tuple[Misconception, ...]
    compare: bool
    quiz: bool
    drive: Callable | None
    behaviours: tuple[Behaviour, ...]

    def observe(self, answer: Callable, args: tuple, gradient: bool = False) -> Observation: ...
    def recall(self, answer: Callable, args: tuple, gradient: bool) -> Observation: ...
    def right(self, args: tuple) -> Any: ...
    def agrees(self, got: Any, expected: Any, inputs: Any) -> bool: ...
    def difference(self, seen: Observation, expected: Any) -> str: ...


def diagnose(check: Subject, student: Callable, trials: list[CaseResult], items: list[Item]) -> Diagnosis:
    """What went wrong, under its name where it has one."""
    forbidden = next((item for item in items if item.label == FORBIDDEN), None)
    if forbidden:
        return Diagnosis("forbidden function", f"{forbidden.note} This exercise asks you to do without it.")
    failed = [trial for trial in trials if not trial.passed]
    if not failed:  # every value is right: something else is amiss
        return Diagnosis(None, _first_problem(trials, items))
    found = (
        _by_output(check, student, trials, failed) if any(trial.wrong for trial in failed) else _by_cost(check, failed)
    )
    return found or Diagnosis(None, " ".join(filter(None, _in_plain_words(check, student, trials, items))))


def _by_output(
    check: Subject, student: Callable, trials: list[CaseResult], failed: list[CaseResult]
) -> Diagnosis | None:
    """Two slips that do the same are told apart by a mark; where none has one, neither is named. An error may have
    other words (the same slip can be written with `einsum` or with `@`) where outputs are wrong too: these tell."""
    if check.quiz:  # its questions have nothing to do with one another
        trials = failed
    words = all(trial.seen.error or not trial.wrong for trial in failed)
    apart = [(wrong, _first_apart(check, wrong, trials, words)) for wrong in check.misconceptions]
    same = [wrong for wrong, place in apart if place is None]
    same = [wrong for wrong in same if not (mark := _mark(check, wrong)) or any(_shows(mark, t.seen) for t in failed)]
    same = _still_the_same(check, student, same, failed, words)
    same = [wrong for wrong in same if _breaks_the_same_rules(check, wrong, failed)]
    same = [wrong for wrong in same if _mark(check, wrong)] or same
    if len(same) == 1:
        message = f"{_lead(check, failed)} {same[0].name}. {same[0].hint}"
        return Diagnosis(same[0].name, message, _telling(trials, [place for _, place in apart if place is not None]))
    return (
        _by_half(check, trials, failed)
        or _by_source(check, student, trials, failed)
        or _by_mark(check, failed)
        or _by_guard(check, trials, failed)
        or _by_two(check, student, trials, failed)
        or _by_multiple(check, trials, failed)
        or _by_one_case(check, trials, failed)
    )


def _breaks_the_same_rules(check: Subject, wrong: Misconception, failed: list[CaseResult]) -> bool:
    """Whether the way to an output is judged alike: of two that return the same one may have gone another way."""
    pairs = [(trial.seen, _outcome(check, wrong, trial.seen.args, trial)) for trial in failed if not trial.seen.error]
    return all(rule.of(mine) == rule.of(other) for mine, other in pairs if other for rule in check.behaviours)


def _by_half(check: Subject, trials: list[CaseResult], failed: list[CaseResult]) -> Diagnosis | None:
    """Work that was only begun: it has no name, and what is off in the first case stands behind it."""
    words = half_done(check, trials, failed)
    return Diagnosis(None, f"{words} {_first_problem(trials, [])}") if words else None


def _by_source(
    check: Subject, student: Callable, trials: list[CaseResult], failed: list[CaseResult]
) -> Diagnosis | None:
    """What must be unfinished, whatever its output looks like."""
    words = "" if all(trial.seen.error for trial in failed) else unfinished(student, check.reference)
    return Diagnosis(None, f"{words} {_first_problem(trials, [])}") if words else None


def _by_two(check: Subject, student: Callable, trials: list[CaseResult], failed: list[CaseResult]) -> Diagnosis | None:
    """Two slips together, where one pair alone does what the student's function does."""
    if check.quiz or any(trial.seen.error for trial in failed):
        return None
    ordered = [
        *sorted(failed, key=attrgetter("elements")),
        *(trial for trial in trials if trial.passed),
    ]  # quick ones first
    most = min(two_slips.MOST, UNCOUNTED * _affordable(check, ordered[0]))
    for tried in (islice(two_slips.pairs(check.misconceptions), most), two_slips.of_numbers(check, ordered)):
        likely = [pair for pair in tried if _gives(check, pair.both, ordered[0])]
        likely = [pair for pair in likely if _first_apart(check, pair.both, ordered, False) is None]
        same = _still_the_same(check, student, [pair.both for pair in likely], failed, False)
        slips = two_slips.likeliest([pair for pair in likely if pair.both in same])
        if slips:
            name = ", and ".join(slip.name for slip in slips)
            hint = " And: ".join(_vouching_for_nothing(slip.hint) for slip in slips)
            return Diagnosis(name, f"{TWO_SLIPS if len(slips) == 2 else ONE_OF_TWO} {name}. {hint}")
    return None


def _vouching_for_nothing(hint: str) -> str:
    """A hint of a slip that doesn't stand alone: the rest need not be right."""
    rest = VOUCHES.sub("", hint)
    return rest[:1].upper() + rest[1:]


def _by_multiple(check: Subject, trials: list[CaseResult], failed: list[CaseResult]) -> Diagnosis | None:
    """A slip whose output the student's is a multiple of, in every case: another factor came on top."""
    if (
        len(failed) < len(trials)
        or not check.compare
        or check.quiz
        or not all(_telling_numbers(trial.seen.output) for trial in failed)
    ):
        return None
    same = [wrong for wrong in check.misconceptions if all(_is_multiple(check, wrong, trial) for trial in failed)]
    if len(same) != 1:
        return None
    lead = "Apart from a factor this is what you get with this slip:"
    return Diagnosis(None, f"{lead} {same[0].name}. {same[0].hint} {_first_problem(failed, [])}")


def _is_multiple(check: Subject, wrong: Misconception, trial: CaseResult) -> bool:
    mine, other = trial.seen.output, check.recall(wrong.function, trial.seen.args, False).output
    if not all(isinstance(x, Tensor) and x.is_floating_point() for x in (mine, other)) or mine.shape != other.shape:
        return False
    one, two = mine.double().flatten(), other.double().flatten()
    factor = (one @ two / (two @ two)).item()
    return abs(factor) > 1e-3 and check.agrees(one, factor * two, trial.seen.args)


def _gives(check: Subject, wrong: Misconception, trial: CaseResult) -> bool:
    """Whether it gives this output, in a call of which nothing is counted: that takes a fifth of the time."""
    answer = functools.partial(check.drive, wrong.function) if check.drive else wrong.function
    seen = observe(answer, trial.seen.args, counts=False)
    return seen.error is None and check.agrees(seen.output, trial.seen.output, trial.seen.args)


def _affordable(check: Subject, trial: CaseResult) -> int:
    """How many calls like this one may be tried, so that nobody waits: it is counted in operations, not in seconds."""
    right = check.recall(check.reference, trial.seen.args, trial.case.gradient)
    return two_slips.WORK // max(1, right.operations.total())


def _by_one_case(check: Subject, trials: list[CaseResult], failed: list[CaseResult]) -> Diagnosis | None:
    """A slip that alone explains the whole output of one case, where no other slip does and no passing case refutes it.
    It has no name: other cases show something else. Small cases don't count: much that differs is alike there."""
    passed = [trial for trial in trials if trial.passed]
    quick = sorted(failed, key=attrgetter("elements"))
    quick = [trial for trial in quick[len(quick) // 2 :] if not _has_short_axis(trial)]
    quick = [trial for trial in quick if trial.elements <= LARGE * quick[0].elements]
    most = max(1, _affordable(check, quick[0]) // max(1, len(check.misconceptions))) if quick else 0
    for trial in quick[:most] if check.compare and not check.quiz else ():
        if trial.hidden or trial.seen.error or not all(map(_telling_numbers, (trial.expected, trial.seen.output))):
            continue
        same = [wrong for wrong in check.misconceptions if _same_outcome(check, wrong, trial, False)]
        if len(same) == 1 and not same[0].cost and _first_apart(check, same[0], passed, False) is None:
            lead = f"With {trial.case.label} your output is exactly what you get with this slip:"
            hint = _vouching_for_nothing(same[0].hint)
            return Diagnosis(None, f"{lead} {same[0].name}. {hint} Other cases may show more.")
    return None


def _has_short_axis(trial: CaseResult) -> bool:
    return any(isinstance(leaf, Tensor) and 1 in leaf.shape for leaf in tree_leaves((trial.seen.args, trial.expected)))


def _first_apart(check: Subject, wrong: Misconception, trials: list[CaseResult], words: bool) -> int | None:
    """The first case in which a misconception does something else than the student's function, or None."""
    return next((i for i, trial in enumerate(trials) if not _same_outcome(check, wrong, trial, words)), None)


def _telling(trials: list[CaseResult], apart: list[int]) -> CaseResult | None:
    """The failing case that a card can show which was the last to rule out another slip."""
    return next((trials[i] for i in sorted(apart, reverse=True) if not (trials[i].passed or trials[i].hidden)), None)


def _still_the_same(
    check: Subject, student: Callable, candidates: list[Misconception], failed: list[CaseResult], words: bool
) -> list[Misconception]:
    """Those that do what the student's function does on fresh inputs as well."""
    for trial in failed[:FRESH] if candidates else ():
        args = trial.case.draw(check.reference, trial.generator)
        mine = check.recall(student, args, trial.case.gradient)
        candidates = [
            wrong for wrong in candidates if _same(check, mine, _outcome(check, wrong, args, trial), trial, words)
        ]
    return candidates


def _by_mark(check: Subject, failed: list[CaseResult]) -> Diagnosis | None:
    wrong = _marked(check, failed, mark_in_output)
    return Diagnosis(wrong.name, f"This looks like: {wrong.name}. {wrong.hint}") if wrong else None


def _by_cost(check: Subject, failed: list[CaseResult]) -> Diagnosis | None:
    wrong = _marked(check, failed, lambda _, wrong: wrong.cost)
    lead = TOO_LONG if any(exceeded_steps(trial.seen) for trial in failed) else TOO_DEAR
    return Diagnosis(wrong.name, f"{lead} {wrong.name}. {failed[0].note} {wrong.hint}") if wrong else None


def _marked(check: Subject, failed: list[CaseResult], mark_of: Callable[..., Mark | None]) -> Misconception | None:
    """The first misconception whose mark every failing trial shows, and the right answer in none of them."""
    for wrong in check.misconceptions:
        mark = mark_of(check, wrong)
        if mark and all(_shows(mark, trial.seen) for trial in failed) and not _innocent(check, mark, failed):
            return wrong
    return None


def _innocent(check: Subject, mark: Mark, failed: list[CaseResult]) -> bool:
    """Whether the right answer shows the mark too."""
    return any(_shows(mark, check.recall(check.reference, trial.seen.args, trial.case.gradient)) for trial in failed)


def _by_guard(check: Subject, trials: list[CaseResult], failed: list[CaseResult]) -> Diagnosis | None:
    """Errors that our own guard of kernels raises say what happened, if whole tiles go well (there no mask is needed,
    but strides are) and the misconception goes astray in the very same cases."""
    if len(failed) == len(trials):
        return None
    for trial in failed:
        error = trial.seen.error
        for wrong in check.misconceptions:
            if (
                error
                and error.kind in CERTAIN
                and wrong.may_raise(error.kind)
                and _astray_where_it_is(check, wrong, trials)
            ):
                said = (f"This looks like: {wrong.name}.", error.message, wrong.hint)
                return Diagnosis(wrong.name, " ".join(filter(None, said)))
    return None


def _astray_where_it_is(check: Subject, wrong: Misconception, trials: list[CaseResult]) -> bool:
    """Whether a misconception stops with an error in just the cases in which the student's function does."""
    others = (_outcome(check, wrong, trial.seen.args, trial) for trial in trials)
    return all(
        other and _kind(other.error) == _kind(trial.seen.error) for other, trial in zip(others, trials, strict=True)
    )


def _kind(error: StudentError | None) -> str | None:
    return error.kind if error else None


def _mark(check: Subject, wrong: Misconception) -> Mark | None:
    return mark_in_output(check, wrong) or wrong.cost


def mark_in_output(check: Subject, wrong: Misconception) -> Mark | None:
    """A misconception's own mark; else, of one with variants, that an output is off, and is theirs or its own."""
    if wrong.recognise or not wrong.variants:
        return wrong.recognise
    return lambda seen: (
        not check.agrees(seen.output, check.right(seen.args), seen.args)
        and any(
            check.agrees(seen.output, check.recall(one, seen.args, False).output, seen.args)
            for one in (wrong.function, *wrong.variants)
        )
    )


def _shows(mark: Mark, seen: Observation) -> bool:
    try:
        return (seen.error is None or exceeded_steps(seen)) and bool(mark(seen))
    except Exception:  # an output of another form than the mark expects does not show it
        return False


def _same_outcome(check: Subject, wrong: Misconception, trial: CaseResult, words: bool) -> bool:
    other = _outcome(check, wrong, trial.seen.args, trial)
    return _same(check, trial.seen, without_details(other) if other and trial.hidden else other, trial, words)


def _outcome(check: Subject, wrong: Misconception, args: tuple, trial: CaseResult) -> Observation | None:
    """What a misconception does; None where it stops with an error that it doesn't own to: then it proves nothing."""
    seen = check.recall(wrong.function, args, trial.case.gradient)
    error = seen.error or seen.backward_error
    return None if error and not wrong.may_raise(error.kind) else seen


def _same(check: Subject, mine: Observation, other: Observation | None, trial: CaseResult, words: bool) -> bool:
    if other is None:
        return False
    if mine.error or other.error:
        return _same_error(mine.error, other.error) if words else _kind(mine.error) == _kind(other.error)
    if mine.output is None or not check.agrees(mine.output, other.output, mine.args):
        return False
    return not trial.case.gradient or _same_gradients(check, mine, other)


def _same_error(mine: StudentError | None, other: StudentError | None) -> bool:
    """Of one kind and in the same words. What stands in backticks is a name, and everybody gives their own."""
    if not (mine and other) or mine.kind != other.kind:
        return False
    return NAME.sub("``", mine.message) == NAME.sub("``", other.message)


def _same_gradients(check: Subject, mine: Observation, other: Observation) -> bool:
    if mine.backward_error or other.backward_error:
        return _same_error(mine.backward_error, other.backward_error)
    if mine.gradients is None or other.gradients is None:
        return False
    pairs = zip(mine.gradients, other.gradients, strict=True)
    return all((a is None) == (b is None) and (a is None or check.agrees(a, b, mine.args)) for a, b in pairs)


def _lead(check: Subject, failed: list[CaseResult]) -> str:
    if check.quiz:
        return "That is not right:"
    if all(trial.seen.error for trial in failed):
        return "Your function stops with the same error as one with this slip:"
    if all(trial.seen.backward_error for trial in failed):
        return "Your output is right, and its backward pass stops with the same error as with this slip:"
    if all(trial.case.gradient and _right_output(check, trial) for trial in failed):
        return "Your output is right, and its gradients are what you get with this slip:"
    if any(_is_off(check, trial) for trial in failed):
        return "This is exactly what you get with this slip:"
    return "Your answer does what one with this slip does:"


def _is_off(check: Subject, trial: CaseResult) -> bool:
    """Whether numbers of the output are wrong, and not what was noted beside them."""
    pairs = zip(tree_leaves(trial.seen.output), tree_leaves(trial.expected), strict=False)
    return trial.seen.error is None and any(
        isinstance(want, (Tensor, int, float))
        and not (isinstance(got, Message) or check.agrees(got, want, trial.seen.args))
        for got, want in pairs
    )


def _right_output(check: Subject, trial: CaseResult) -> bool:
    return check.compare and not trial.seen.error and not check.difference(trial.seen, trial.expected)


def _of_another_case(check: Subject, trials: list[CaseResult]) -> str:
    """That a wrong output is the right one of another case: one that was called before, or has other values of what is
    not read."""
    ended = [trial for trial in trials if not trial.seen.error]
    for trial in ended:
        for other in ended:
            if trial.wrong and other.passed and _telling_numbers(other.expected) and _is_right_for(check, trial, other):
                return ANOTHERS.format(trial.case.label, other.case.label)
    return ""


def _telling_numbers(expected: Any) -> bool:
    """Whether an output would hardly come about by chance: a table, or a dict of rows, with different numbers in it."""
    leaves = tree_leaves(expected)
    rows = {leaf for leaf in leaves if isinstance(leaf, (int, float))} if isinstance(expected, dict) else ()
    return len(rows) > 2 or any(
        isinstance(leaf, Tensor) and is_dense(leaf) and len(leaf.unique()) > 1 for leaf in leaves
    )


def _is_right_for(check: Subject, trial: CaseResult, other: CaseResult) -> bool:
    """Whether the output of a trial is what the other one expects, and not what it should be."""
    right, mine = (
        check.agrees(trial.seen.output, wanted, trial.seen.args) for wanted in (other.expected, trial.expected)
    )
    return right and not mine


def _in_plain_words(check: Subject, student: Callable, trials: list[CaseResult], items: list[Item]) -> Iterator[str]:
    """Where no misconception is named: what is wrong, and what all shown cases together tell of it."""
    if any(trial.wrong for trial in trials):
        yield from (item.note for item in items if item.label == LEAVES_INPUTS)
    first = _first_problem(trials, items)
    ended = [trial.seen for trial in trials if not trial.seen.error and trial.seen.output is not None]
    for rule in check.behaviours:
        if not all(map(rule.of, ended)) and rule.note not in first:
            yield rule.note
    ran = any(trial.wrong and not trial.seen.error for trial in trials)
    yield unused_inputs(check, student, [trial for trial in trials if not trial.passed]) or (
        never_read(student, check.reference) if ran and not check.quiz else ""
    )
    yield first
    if not check.quiz:
        shown = [trial for trial in trials if not trial.hidden]
        yield _of_another_case(check, shown)
        yield RANDOM * _differs_by_itself(check, student, shown)
        yield _contrast(shown)
        yield constant_factor(check.reference, shown) or growth(check, student, [t for t in shown if not t.passed])


def _differs_by_itself(check: Subject, student: Callable, trials: list[CaseResult]) -> bool:
    """Whether a second call with the same inputs gives other numbers."""
    trial = next((trial for trial in trials if trial.wrong and not trial.seen.error), None)
    if trial is None or not check.compare or not all(map(_is_numeric, tree_leaves(trial.seen.output))):
        return False
    args, before = trial.seen.args, trial.seen.output
    again = check.observe(student, args)
    return not again.error and check.agrees(before, before, args) and not check.agrees(again.output, before, args)


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, int, float))


def _contrast(trials: list[CaseResult]) -> str:
    """A case that goes well, where others don't: what sets them apart is where to look."""
    well = [trial.case.label for trial in trials if trial.passed]
    return f"With {well[0]} nothing is off." if well and len(well) < len(trials) else ""


def _first_problem(trials: list[CaseResult], items: list[Item]) -> str:
    for trial in trials:
        if not trial.passed:
            return f"With {trial.case.label}: {trial.note}"
    notes = [item.note or f"This does not hold: {item.label}." for item in items if not item.passed]
    return notes[0] if notes else ""
