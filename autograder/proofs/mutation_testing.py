"""`attn prove --mutants`: which of the wrong answers that a machine invents (see mutants.py) a check lets pass, and
which it accuses of something that they don't do.

Every mutant gets a seed's cases, those that students see and, if it passes them, the hidden ones too. One that earns
all points has survived: either the check has a hole, or the mutant is right after all and stands in
`autograder/equivalent_mutants/<unit>.py` with the reason. One that a card names is asked again on fresh inputs, by
other code than the engine's: it must do what the card says.

Mutants of one exercise share a forked process, which has limits of time and memory: one that never ends is caught."""

import json
import os
import random
import re
import resource
import select
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator
from torch.utils._pytree import tree_leaves

from autograder.course.exercises import Exercise, companion, exercises
from autograder.course.paths import Course
from autograder.proofs.mutants import AGAIN, Mutant, mutants
from autograder.proofs.mutation_targets import MODEL, MutationTarget, mutation_targets
from helpers.engine.diagnose import mark_in_output
from helpers.engine.kernel_bounds import CERTAIN

POINTS = 8.0
SEED = 20261122
MOST = {True: 24, False: 6}
"""How many mutants are drawn of a model solution, and of a right alternative; from all kinds of changes alike."""
SECONDS = 12.0  # of processor time for one mutant, at most; the slowest right answer takes three
LEAST = 2.0  # seconds that each mutant gets at least
SILENT = 600.0  # seconds after which a process that says nothing is ended: it sleeps, or SECONDS would have ended it
MEMORY = 4 << 30


@dataclass
class MutationResult:
    """What came of one exercise's mutants. `survivors`, `accused` and `excused` (equivalents, with the reason) are
    lines for a reader, `stale` equivalents that were caught."""

    mutants: int = 0
    killed: int = 0
    survivors: list[dict[str, str]] = field(default_factory=list)
    accused: list[dict[str, str]] = field(default_factory=list)
    excused: list[dict[str, str]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {
            "mutants": self.mutants,
            "killed": self.killed,
            "equivalent": len(self.excused),
            "survived": len(self.survivors),
            "false_accusations": len(self.accused),
        }


@dataclass(frozen=True)
class Task:
    """One mutant, and the parts of its exercise that it may change."""

    program: MutationTarget
    statement: int
    mutant: Mutant
    parts: tuple[int, ...]


def mutation_test(
    course: Course, units: list[str], only: str | None = None, most: dict[bool, int] | None = None, seed: int = SEED
) -> Iterator[tuple[str, MutationResult]]:
    """Every exercise's id and what came of its mutants. Quizzes have none: their answers are choices."""
    for unit in units:
        for exercise in exercises(course, unit, only):
            parts = list(_parts(exercise))
            if not any(part.quiz for part in parts):
                yield exercise.id, mutation_test_exercise(course, exercise, most or MOST, seed)


def mutation_test_exercise(
    course: Course, exercise: Exercise, most: dict[bool, int] = MOST, seed: int = SEED
) -> MutationResult:
    """All mutants of one exercise, in their order."""
    tried, reasons = (
        MutationResult(),
        getattr(companion("equivalent_mutants", exercise.unit, exercise.id), exercise.id, {}),
    )
    wrong, slowest = _unchanged(course, exercise, seed)
    tried.misses = [f"unchanged, it loses points: {style}" for style in wrong]
    for task, outcome in outcomes(course, exercise, slowest, most, seed):
        listed, line = _reason(reasons, task.mutant), str(task.mutant)
        about = {"answer": task.program.style, "kind": task.mutant.kind, "diff": line}
        tried.mutants += 1
        if outcome["caught"]:
            tried.killed += 1
            tried.stale += [line] if listed else []
        elif listed:
            tried.excused.append(about | {"reason": listed})
        else:
            tried.survivors.append(about)
        if outcome.get("false"):
            tried.accused.append(about | {"named": outcome["named"], "refuted by": outcome["false"]})
    return tried


def outcomes(
    course: Course, exercise: Exercise, slowest: float = SECONDS, most: dict[bool, int] = MOST, seed: int = SEED
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Every mutant of an exercise and what the check says of it. slowest: seconds of the slowest right answer."""
    tasks = list(_tasks(course, exercise, most, seed))
    return zip(tasks, _outcomes(exercise, tasks, seed, min(SECONDS, LEAST + 4 * slowest)), strict=True)


def totals(tried: dict[str, MutationResult]) -> dict[str, int]:
    """The counts of all exercises together."""
    return {name: sum(one.counts()[name] for one in tried.values()) for name in MutationResult().counts()}


def as_json(tried: dict[str, MutationResult]) -> dict[str, Any]:
    """{"exercises": {id: counts, survivors, false accusations, equivalents with reasons}, "total": counts}"""
    found = {
        name: one.counts()
        | {"survivors": one.survivors, "accused": one.accused, "excused": one.excused, "stale": one.stale}
        for name, one in tried.items()
    }
    return {"exercises": found, "total": totals(tried)}


def complaints(tried: MutationResult) -> list[str]:
    """What is to be mended, a line each."""
    lines = [f"survived: {one['answer']}, {one['kind']}: {one['diff']}" for one in tried.survivors]
    lines += [
        f"falsely called '{one['named']}': {one['answer']}, {one['kind']}: {one['diff']}" for one in tried.accused
    ]
    lines += [f"is caught, and listed as equivalent: {line}" for line in tried.stale]
    return lines + tried.misses


def _reason(reasons: dict, mutant: Mutant) -> str:
    """Why a mutant is as right as what it was made of; "" where nobody says so. A key is the change ("before → after"),
    the line as it stands then, both as they are printed, or a pattern of both."""
    found = (
        reason
        for key, reason in reasons.items()
        if (
            key.search(str(mutant)) if isinstance(key, re.Pattern) else key in (mutant.change, mutant.line, str(mutant))
        )
    )
    return next(found, "")


# -------------------------------------------------------------------------------------------------------- which mutants


def _unchanged(course: Course, exercise: Exercise, seed: int) -> tuple[list[str], float]:
    """Answers that lose points as they are (their mutants would show nothing), and the slowest answer's seconds."""
    wrong, slowest = [], 0.0
    for program in mutation_targets(course, exercise):
        begun = _processor_time()
        score = exercise.check(*program.run(), points=POINTS, cases=exercise.hidden_cases() or (), seed=seed)
        slowest = max(slowest, _processor_time() - begun)
        wrong += [] if score.full else [program.style]
    return wrong, slowest


def _processor_time() -> float:
    """Of this process and of the forks in which kernels have run."""
    return sum(os.times()[:4])


def _tasks(course: Course, exercise: Exercise, most: dict[bool, int], seed: int) -> Iterator[Task]:
    """The mutants to try, in the order of their source. A statement that several answers share is changed once."""
    met: set[str] = set()
    for program in mutation_targets(course, exercise):
        found = []
        for i in program.changeable:
            if program.statements[i] not in met:
                met.add(program.statements[i])
                parts = tuple(part for part in range(len(program.wanted)) if i in program.needs(part))
                found += [Task(program, i, mutant, parts) for mutant in mutants(program.statements[i])]
        yield from _drawn(found, most[program.style == MODEL], random.Random(f"{seed} {exercise.id} {program.style}"))


def _drawn(tasks: list[Task], most: int, dice: random.Random) -> list[Task]:
    """At most so many, in turn one of each kind of change."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        kinds[task.mutant.kind].append(place)
    queues = [dice.sample(places, len(places)) for places in dice.sample(list(kinds.values()), len(kinds))]
    chosen: list[int] = []
    while len(chosen) < most and any(queues):
        chosen += [queue.pop() for queue in queues if queue]
    return [tasks[place] for place in sorted(chosen[:most])]


# ---------------------------------------------------------------------------------------------------------- one process


class MutantTimeout(BaseException):
    """A mutant has used up its time. No `Exception`: what watches students' calls must let it through."""


def _outcomes(exercise: Exercise, tasks: list[Task], seed: int, seconds: float) -> Iterator[dict[str, Any]]:
    """What came of every task, from a fork. Where it ends early, the task was caught and a new fork goes on."""
    done = 0
    while done < len(tasks):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(exercise, tasks[done:], seed, seconds, writing)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            for line in _lines(pipe):
                yield json.loads(line)
                done += 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if done < len(tasks):
            yield {"caught": True, "by": "the process ended, or never would have"}
            done += 1


def _lines(pipe: Any) -> Iterator[bytes]:
    """Lines as they come, until there is an end, or nothing for long."""
    rest = b""
    while select.select([pipe], [], [], SILENT)[0]:
        more = os.read(pipe.fileno(), 1 << 16)
        if not more:
            return
        *whole, rest = (rest + more).split(b"\n")
        yield from whole


def _work(exercise: Exercise, tasks: list[Task], seed: int, seconds: float, target: int) -> None:
    """In the fork: try all, a line for each."""
    status, start = 1, lambda: signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY,) * 2)
        signal.signal(signal.SIGPROF, _expire)
        os.register_at_fork(after_in_child=start)  # kernels run in forks, whose time is not that of this process
        os.environ["ATTENTION_COURSE_ORDER"] = str(seed)
        _silent()
        for task in tasks:
            start()
            os.write(target, json.dumps(_tried(exercise, task, seed)).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _silent() -> None:
    """What a mutant prints, or a library in C for it, goes nowhere: `--json` has the terminal for itself."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _expire(*_: Any) -> None:
    raise MutantTimeout


def _tried(exercise: Exercise, task: Task, seed: int) -> dict[str, Any]:
    """What the check says of one mutant."""
    torch.manual_seed(seed)  # a mutant that draws numbers of its own draws the same ones at every run
    random.seed(seed)
    try:
        answers = task.program.run(task.statement, task.mutant.source, **{AGAIN: first_output_again})
        parts, hidden = list(_parts(exercise)), exercise.hidden_cases() or ()
        for place in task.parts:
            part, answer = parts[place], answers[place]
            cases = hidden.get(part.exercise, ()) if isinstance(hidden, dict) else hidden
            for more in ((), cases) if cases else ((),):  # what falls on the cases that students see needs no others
                score = part(answer, points=POINTS, cases=more, seed=seed)
                if not score.full:
                    false = _refuted(part, score.diagnosis, answer, cases, seed) if score.diagnosis else ""
                    return {"caught": True, "named": score.diagnosis, "false": false, "message": score.message}
        return {"caught": False}
    except MutantTimeout:
        return {"caught": True, "by": "time"}
    except Exception as error:  # a name that is missing, a default that can't be computed
        return {"caught": True, "by": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def first_output_again(function: Callable) -> Callable:
    """A function that computes once for inputs of the same shapes, and from then on gives the same output."""
    known: dict[str, Any] = {}

    def answer(*args: Any, **kwargs: Any) -> Any:
        key = str([leaf if isinstance(leaf, (int, str)) else getattr(leaf, "shape", "") for leaf in tree_leaves(args)])
        if key not in known:
            known[key] = function(*args, **kwargs)
        return known[key]

    return answer


def _parts(exercise: Exercise) -> Iterator[Any]:
    yield from getattr(exercise.check, "parts", {"": exercise.check}).values()


def _size() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


# --------------------------------------------------------------------------------------------------- is the card right?


def _refuted(check: Any, name: str, answer: Callable, cases: Any, seed: int) -> str:
    """The case on whose fresh inputs an answer differs from the misconception it is called; "" if there is none."""
    wrong = next((wrong for wrong in check.misconceptions if wrong.name == name), None)
    if wrong is None:  # a forbidden function: seen, not inferred
        return ""
    for number, case in enumerate((*check.cases, *cases)):
        args = case.draw(check.reference, Generator().manual_seed(seed + 7_919 * (number + 1)))
        mine, other = (check.recall(one, args, case.gradient) for one in (answer, wrong.function))
        if not (_agree(check, mine, other) or _marked(check, wrong, mine, args, case)):
            return case.label
    return ""


def _agree(check: Any, mine: Any, other: Any) -> bool:
    """Whether two calls ended alike: the same error, or the same values."""
    if mine.error or other.error:
        return bool(mine.error and other.error) and mine.error.kind == other.error.kind
    return check.agrees(mine.output, other.output, mine.args)


def _marked(check: Any, wrong: Any, mine: Any, args: tuple, case: Any) -> bool:
    """Whether the call shows the misconception's mark and the right answer's doesn't, or is right all the way: a mark
    is looked for in calls that went wrong. A price is told only of right values."""
    mark = mark_in_output(check, wrong)
    if mine.error:  # says nothing of a mark, which is in the outputs
        return bool(mark) or (mine.error.kind in CERTAIN and wrong.may_raise(mine.error.kind))
    right = not check.compare or not check.difference(mine, check.expected(args))
    if wrong.cost and right:
        return True
    if right and not any(not rule.of(mine) for rule in check.properties):
        return bool(mark)
    seen = check.recall(check.reference, args, case.gradient)
    return bool(mark and mark(mine) and not mark(seen))
