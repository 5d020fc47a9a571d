"""A check that asks for the way as well: FLOPs are bounded, and a right output at too high a price is named by what was seen.

`Check` tells wrong answers apart by their outputs. Here several slips give the right output (a full score matrix made in
secret, every key scored one row at a time), so they are told apart by what they cost. The way is what such an exercise is
about: a right output at too high a price earns half of the points at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from .cases import Case
from .check import Check, _in_quarters
from .observe import Observation
from .score import Item, Score


@dataclass(frozen=True)
class Bounded(Case):
    """A case that also bounds the FLOPs of matrix products."""

    max_flops: int | None = None


def bounded(case: Case, *, flops: int, elements: int, operations: int | None = None) -> Bounded:
    """The same case, with these limits on the call."""
    drawn = {field.name: getattr(case, field.name) for field in fields(Case)}
    return Bounded(**{**drawn, "max_elements": elements, "max_operations": operations}, max_flops=flops)


def _limited(case: Case) -> bool:
    return any(
        limit is not None for limit in (case.max_operations, case.max_elements, getattr(case, "max_flops", None))
    )


class CountedCheck(Check):
    """A `Check` that obeys `Bounded` cases and names a right answer that costs too much by its `recognise`."""

    def _problem(self, seen: Observation, expected, case: Case) -> str:
        limit = getattr(case, "max_flops", None)
        problem = super()._problem(seen, expected, case)
        if not problem and limit is not None and seen.flops > limit:
            return f"It took {seen.flops:,} FLOPs; {limit:,} are enough."
        return problem

    def _score(self, points: float, items: list[Item], trials: Sequence) -> Score:
        score = super()._score(points, items, trials)
        if score.full or not self._right_outputs(trials):
            return score
        value, found = min(float(score), _in_quarters(points, 0.5)), self._too_dear(trials)
        note = next(trial.note for trial in trials if not trial.passed)
        lead = (
            f"The output is right, but not the way to it: {found.name}. {note} {found.hint}" if found else score.message
        )
        return Score(value, exercise=self.exercise, points=points, items=score.items, message=lead,
                     diagnosis=found.name if found else score.diagnosis)  # fmt: skip

    def _right_outputs(self, trials: Sequence) -> bool:
        """Whether every output is right and only a price is not."""
        right = all(
            not t.seen.error and not t.seen.forbidden and self.agrees(t.seen.output, t.expected, t.seen.args)
            for t in trials
        )
        failed = [trial.case for trial in trials if not trial.passed]
        return right and bool(failed) and all(_limited(case) for case in failed)

    def _too_dear(self, trials: Sequence):
        """The misconception that is recognised by the price."""
        dear = [trial.seen for trial in trials if not trial.passed]
        for misconception in self.misconceptions:
            if misconception.recognise and any(misconception.recognise(seen) for seen in dear):
                return misconception
        return None
