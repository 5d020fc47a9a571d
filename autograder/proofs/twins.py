"""`attn prove --twins`: what can be called in `helpers` while a unit is graded, tried as an answer to each of its
exercises. None may be one: whoever imports it hands in a reference under another name.

Left out are exercises without inputs (a value can be found by chance), those whose answer is one of its inputs, and the
pictures that rooms offer, which draw and return nothing."""

import importlib
import inspect
import io
import pkgutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch._dynamo  # in the middle of a call that is given up, an import would break off

import helpers
from autograder.course import visibility
from autograder.course.exercises import Exercise, exercises
from autograder.course.paths import Course
from helpers.engine.anti_gaming import same
from helpers.engine.check import Check, case_generators
from helpers.engine.isolated_call import in_own_process
from helpers.engine.observe import Observation

SEED = 7
SECONDS = 0.2  # of processor time for a call, in which all but the trainings among right answers are done
ENDS_ITS_PROCESS = "helpers.engine.isolated_call._answer"


class _TooLong(BaseException):
    """A call was given up."""


def twins(course: Course, unit: str) -> Iterator[str]:
    """A line for everything within reach that is right where it should not be."""
    within = list(within_reach(unit))
    for exercise in exercises(course, unit):
        for name, part in getattr(exercise.check, "parts", {exercise.id: exercise.check}).items():
            cases = _cases(exercise, name)
            for found in [] if part.quiz else in_own_process(partial(_right, part, cases, within)):
                yield f"{found} is an answer to {exercise.id}" + f" ({name})" * (name != exercise.id)


def within_reach(unit: str) -> Iterator[tuple[str, Callable]]:
    """What a student's kernel can import and call while this unit is graded, by its full name."""
    closed = (*visibility.out_of_reach(unit), *visibility.judge_config(unit).quiet)
    for found in pkgutil.walk_packages(helpers.__path__, "helpers."):
        if f"{found.name}.".startswith(tuple(f"{name}." for name in closed)) or ".checks" in found.name:
            continue
        yield from _callables(importlib.import_module(found.name))


def _callables(module: ModuleType) -> Iterator[tuple[str, Callable]]:
    """What a module defines: functions, classes with their methods, and what lies in its lists and tables."""
    pictures = vars(module).get("__all__", ()) if ".plots" in module.__name__ else ()
    for name, value in vars(module).items():
        if name in pictures:
            continue
        inner: Any = value if isinstance(value, dict) else dict(enumerate(value)) if _is_list(value) else {}
        own = value if getattr(value, "__module__", "") == module.__name__ else None
        methods = vars(own) if isinstance(own, type) else {}
        for key, one in {"": own, **inner, **methods}.items():
            one = one.__func__ if isinstance(one, (staticmethod, classmethod)) else one
            if isinstance(one, (FunctionType, type)):
                yield f"{module.__name__}.{name}" + f".{key}" * (key != ""), one


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) < 1000


def _cases(exercise: Exercise, part: str) -> tuple:
    hidden: Any = exercise.hidden_cases() or ()
    return tuple(hidden.get(part, ()) if isinstance(hidden, dict) else hidden)


def _right(part: Check, hidden: tuple, within: list[tuple[str, Callable]]) -> list[str]:
    """The names of what is right in all cases, among what is right in the first."""
    case, generator = (*part.cases, *hidden)[0], case_generators(part.exercise, SEED, 1)[0]
    args = case.draw(part.reference, generator)
    right = part.right(args) if part.compare else None
    if not args or any(same(right, arg) for arg in args):
        return []
    called = [(name, one) for name, one in within if name != ENDS_ITS_PROCESS and _takes(one, part, args)]
    return [
        name
        for name, one in called
        if _passes(part, one, args, right) and part(one, points=1.0, cases=hidden, seed=SEED).full
    ]


def _takes(one: Callable, part: Check, args: tuple) -> bool:
    """Whether it can be called as the answer is: where a check drives it, one of the same kind with as many inputs."""
    asked = part.reference
    if isinstance(one, type) != isinstance(asked, type):
        return False
    try:
        wanted = inspect.signature(asked).parameters.values() if part.drive else args
        inspect.signature(one).bind(*wanted)
    except (TypeError, ValueError):
        return False
    return True


def _passes(part: Check, one: Callable, args: tuple, right: Any) -> bool:
    """Whether it gives the right output, called once, quickly and unwatched."""
    try:
        with _given_up_after(SECONDS), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), torch.no_grad():
            inputs = deepcopy(args)
            output = part.drive(one, *inputs) if part.drive else one(*inputs)
            seen = Observation(args, {}, output)
            return not (part.compare and part.difference(seen, right)) and all(p.of(seen) for p in part.properties)
    except (Exception, SystemExit, _TooLong):
        return False


@contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
