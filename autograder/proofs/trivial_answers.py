"""`attn prove --constants`: answers that look at nothing, or hand back what they were given, tried on every exercise.
None may earn a point, unless it is the right answer all the way (an RNN of n tokens takes n steps: its number of
inputs).

The functions of one exercise are scored apart from one another, so one call shows what each earns, whatever the others
are."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from autograder.course.exercises import Exercise, exercises
from autograder.course.paths import Course

POINTS = 8.0
SEED = 7

VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "0": 0,
    "1": 1,
    "0.5": 0.5,
    "''": "",
    "'a'": "a",
    "[]": [],
    "()": (),
    "{}": {},
    "a tensor of 0": torch.zeros(()),
    "a tensor of 1": torch.ones(()),
}


@dataclass
class TrivialResult:
    """What constant answers earned at one exercise. `earned`: lines that say which got points that it should not."""

    tried: int = 0
    earned: list[str] = field(default_factory=list)


def try_trivial_answers(course: Course, units: list[str]) -> dict[str, dict[str, TrivialResult]]:
    """What constants earn: unit → exercise id → Swept."""
    return {unit: {exercise.id: try_on_exercise(exercise) for exercise in exercises(course, unit)} for unit in units}


def try_on_exercise(exercise: Exercise) -> TrivialResult:
    """Every constant, with the cases that students see and the hidden ones."""
    swept, tables = TrivialResult(), [trivial_answers(reference) for reference in exercise.references()]
    parts = list(getattr(exercise.check, "parts", {exercise.id: exercise.check}).values())
    for words in tables[0]:
        answers = tuple(table[words] for table in tables)
        score = exercise.check(*answers, points=POINTS, cases=exercise.hidden_cases() or (), seed=SEED)
        for part, own in zip(parts, score.parts or (score,), strict=True):
            swept.tried += 1
            if float(own) > 0 and not (own.full and part.compare):
                swept.earned.append(f"{words} earns {float(own):g} of {own.points:g} as {part.exercise}")
    return swept


def trivial_answers(reference: Callable) -> dict[str, Callable]:
    """Functions that ignore what they are given, or all but its form. (The reference gets a copy: it may train it.)"""
    fixed = {words: (lambda *_, value=value, **__: value) for words, value in VALUES.items()}
    return fixed | {
        "zeros of the right form": lambda *args: _filled(reference(*deepcopy(args)), 0),
        "ones of the right form": lambda *args: _filled(reference(*deepcopy(args)), 1),
        "the first input": lambda *args: args[0] if args else None,
        "the last input": lambda *args: args[-1] if args else None,
        "the mean of the inputs": lambda *args: _mean(args),
    }


def _filled(output: Any, number: int) -> Any:
    """Something of the same form in which every number is the same."""

    def leaf(value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.full_like(value, number)
        return type(value)(number) if isinstance(value, (bool, int, float)) else value

    return tree_map(leaf, output)


def _mean(args: tuple) -> Any:
    numbers = [float(arg.double().mean()) if isinstance(arg, Tensor) and arg.numel() else arg for arg in args]
    numbers = [number for number in numbers if isinstance(number, (int, float))]
    return sum(numbers) / len(numbers) if numbers else 0.0
