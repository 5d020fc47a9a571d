"""`attn prove --graded`: right answers as they are graded, beside the same answers called here, as in a student's own
notebook. Whatever the border between the two processes does to an answer, no card may be another one."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from autograder import notebooks
from autograder.course.exercises import Exercise, exercises, solved
from autograder.course.paths import PACKAGES, Course
from autograder.course.visibility import HELPERS, companion, judge_config
from autograder.judge.judge import JudgeConfig, Limits, judge
from autograder.judge.kernel_manager import KernelManager
from autograder.judge.outputs import Result, read_result

LIMITS = Limits(notebook_seconds=1800)


@dataclass(frozen=True)
class GradedAnswer:
    """A right answer: its exercise and style, and how its two cards differ ("" if they don't)."""

    exercise: str
    style: str
    problem: str


def graded_answers(
    course: Course, unit: str, kernels: KernelManager, only: str | None = None, most: int | None = None
) -> Iterator[GradedAnswer]:
    """All right alternatives of a unit, or `most` of each exercise. A notebook holds one of each exercise."""
    tests = {notebooks.exercise_id(cell): cell for cell in notebooks.tests(solved(course, unit))}
    waiting = {one: list(one.alternatives().items())[:most] for one in exercises(course, unit, only)}
    setup = notebooks.by_id(solved(course, unit))["setup"]
    while chosen := {one: styles.pop(0) for one, styles in waiting.items() if styles}:
        cells = [[_answer(one, *styled), deepcopy(tests[one.id])] for one, styled in chosen.items()]
        graded = new_notebook(cells=[deepcopy(setup), *(cell for pair in cells for cell in pair)])
        judge(graded, _all_within_reach(unit), LIMITS, dict, kernels)
        results = {result.exercise: result for result in map(read_result, notebooks.tests(graded))}
        for one, (style, answers) in chosen.items():
            yield GradedAnswer(one.id, style, _problem(_own(one, answers), results[one.id]))


def _all_within_reach(unit: str) -> JudgeConfig:
    """The right answers are imported where they stand, and may lean on references."""
    shown = str(HELPERS), str(PACKAGES / "autograder")
    return replace(judge_config(unit), shown=shown, hidden=(), out_of_reach=())


def _answer(exercise: Exercise, style: str, answers: tuple) -> NotebookNode:
    """The cell of a student's that has this answer."""
    module = companion("alternatives", exercise.unit, exercise.id)
    found = f"from {module} import {exercise.id} as _styles\n_found = _styles[{style!r}]\n"
    names = ", ".join(exercise.answers)
    return new_code_cell(f"{found}{names}, = _found if isinstance(_found, tuple) else (_found,)")


def _own(exercise: Exercise, answers: tuple) -> Result:
    cases: Any = exercise.hidden_cases() or ()
    score = exercise.check(*answers, points=exercise.points, cases=cases, seed=LIMITS.seed)
    return Result(exercise.id, float(score), exercise.points, score.diagnosis, score.message)


def _problem(own: Result, graded: Result) -> str:
    pairs = zip(asdict(own).items(), asdict(graded).values(), strict=True)
    return "; ".join(f"{name} {mine!r}, graded {theirs!r}" for (name, mine), theirs in pairs if mine != theirs)
