"""One exercise that asks for several functions."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .cases import Case
from .score import NOT_ATTEMPTED, Score, not_attempted


class CheckGroup:
    """One exercise that asks for several functions; each is checked by itself, and its points are shared out equally.

    parts: checks (see `Check`), in the order in which their functions are handed in.
    """

    def __init__(self, exercise: str, *parts: Any) -> None:
        self.exercise, self.parts = exercise, {part.exercise: part for part in parts}

    def __call__(
        self,
        *students: Callable,
        points: float,
        cases: dict[str, Sequence[Case]] | None = None,
        seed: int | None = None,
    ) -> Score:
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
        right = {name: part.reference for name, part in self.parts.items()}
        for part, check in self.parts.items():
            for misconception in check.misconceptions:
                yield misconception.name, tuple({**right, part: misconception.function}.values())


def _joined(exercise: str, points: float, scores: tuple[Score, ...]) -> Score:
    wrong = [score for score in scores if not score.full]
    if not wrong:
        return Score(points, exercise=exercise, points=points, parts=scores)
    if all(score.diagnosis == NOT_ATTEMPTED for score in scores):
        return not_attempted(exercise, points)
    named = [score for score in wrong if score.diagnosis not in (None, NOT_ATTEMPTED)] or wrong
    right = [f"`{score.exercise}` is right." for score in scores if score.full]
    message = "\n".join([*right, *(f"{score.exercise}: {score.message}" for score in wrong)])
    value = math.floor(sum(map(float, scores)) * 4 + 1e-6) / 4
    return Score(value, exercise=exercise, points=points, diagnosis=named[0].diagnosis, message=message, parts=scores)
