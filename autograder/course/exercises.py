"""What a unit's notebook and the packages know of an exercise, brought together: its answers' names and points from the
test cell; its check, hidden cases, wrong answers and right alternatives by its id."""

import ast
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course import visibility
from autograder.course.paths import Course
from autograder.errors import CourseError


@dataclass(frozen=True)
class Call:
    """A call of a check in a test cell: `check.softmax(softmax, points=2)`."""

    check: str
    answers: tuple[str, ...]
    points: float | None
    cases: str = ""  # what `cases=` is given, as source: `hidden.softmax`; "" in the call that students see

    @property
    def hidden(self) -> bool:
        return bool(self.cases)


@dataclass(frozen=True)
class Exercise:
    """An exercise that code grades. `answers` are the names of the functions its check is called with, in order."""

    unit: str
    id: str
    answers: tuple[str, ...]
    points: float
    check: Any

    def hidden_cases(self) -> Any:
        """More cases, as the check's `cases=` takes them; None where there is no such list."""
        return getattr(companion("hidden", self.unit, self.id), self.id, None)

    def wrong_answers(self) -> Iterator[tuple[str, tuple[Callable, ...]]]:
        """Every misconception: its name, and the answers to call the check with."""
        return self.check.wrong_answers()

    def alternatives(self) -> dict[str, tuple[Callable, ...]]:
        """Every right answer in another style, by the style's name."""
        found = getattr(companion("alternatives", self.unit, self.id), self.id, {})
        return {style: answers if isinstance(answers, tuple) else (answers,) for style, answers in found.items()}

    def references(self) -> tuple[Callable, ...]:
        """The reference for each answer: what a wrong answer of several functions leaves right."""
        parts = getattr(self.check, "parts", None)
        return tuple(part.reference for part in parts.values()) if parts else (self.check.reference,)


def exercises(course: Course, unit: str, only: str | None = None) -> list[Exercise]:
    """The exercises of a unit that code grades, in the order of the notebook; or the one with the id `only`."""
    cells = notebooks.tests(solved(course, unit))
    return [_exercise(unit, cell) for cell in cells if only in (None, notebooks.exercise_id(cell))]


def solved(course: Course, unit: str) -> NotebookNode:
    """The solution notebook of a unit."""
    try:
        return notebooks.read(course.solved(unit))
    except FileNotFoundError:
        raise CourseError(f"{unit} has not been built yet: run `attn build {unit[:2]}` first.") from None


def calls(cell: NotebookNode) -> list[Call]:
    """The calls of checks in a test cell, in order. Raises SyntaxError for a cell that is no Python."""
    found: list[Any] = [node for node in ast.walk(ast.parse(cell.source)) if _is_check_call(node)]
    return [_call(node) for node in sorted(found, key=lambda node: node.lineno)]


def find_check(name: str) -> Any | None:
    """The check of an exercise, or None. CourseError where the module that offers it can't be imported."""
    from helpers import registry  # here, for it brings torch along: build and intake need none

    module = registry.offered("checks").get(name)
    if module is None:
        return None
    try:
        found = registry.find("checks", name)
    except Exception as error:
        raise CourseError(_unloaded(module, error)) from error
    return found if callable(found) else None


def load(module: str) -> ModuleType | None:
    """A module that may be there or not. CourseError where it is there and can't be imported."""
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            return None
        raise CourseError(_unloaded(module, error)) from error


def _unloaded(module: str, error: Exception) -> str:
    words = " ".join(str(error).split())
    return f"{module.replace('.', '/')}.py can't be imported: {type(error).__name__}: {words}"


def _exercise(unit: str, cell: NotebookNode) -> Exercise:
    name = notebooks.exercise_id(cell)
    found, check = calls(cell), find_check(name)
    if not found or check is None:
        missing = f"there is no check.{name} in helpers/*/checks" if found else "its test cell calls no check"
        raise CourseError(f"{unit}, exercise {name}: {missing}.")
    return Exercise(unit, name, found[0].answers, notebooks.points(cell), check)


def _is_check_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "check"
    )


def _call(node: Any) -> Call:
    options = {option.arg: option.value for option in node.keywords}
    points = options.get("points")
    value: Any = points.value if isinstance(points, ast.Constant) else None
    cases = ast.unparse(options["cases"]) if "cases" in options else ""
    return Call(node.func.attr, tuple(ast.unparse(answer) for answer in node.args), value, cases)


def companion(kind: str, unit: str, exercise: str) -> ModuleType | None:
    """The module in a folder of `autograder` with what belongs to an exercise, or None (visibility.companion)."""
    return load(visibility.companion(kind, unit, exercise))
