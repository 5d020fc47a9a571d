"""A check that asks for the way as well: FLOPs are bounded, and a right output at too high a price is named by what was seen.

`Check` tells wrong answers apart by their outputs. Here several slips give the right output (a full score matrix made in
secret, every key scored one row at a time), so they are told apart by what they cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from .cases import Case
from .check import Check
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
        found = None if score.full else self._too_dear(trials)
        if found is None:
            return score
        note = next(trial.note for trial in trials if not trial.passed)
        return Score(float(score), exercise=self.exercise, points=points, items=score.items, diagnosis=found.name,
                     message=f"The output is right, but not the way to it: {found.name}. {note} {found.hint}")  # fmt: skip

    def _too_dear(self, trials: Sequence):
        """The misconception that is recognised where every output is right and only the price is not."""
        if any(t.seen.error or t.seen.forbidden or not self.agrees(t.seen.output, t.expected, t.seen.args) for t in trials):
            return None
        dear = [trial.seen for trial in trials if not trial.passed]
        for misconception in self.misconceptions:
            if misconception.recognise and any(misconception.recognise(seen) for seen in dear):
                return misconception
        return None
