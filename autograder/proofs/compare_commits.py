"""`attn prove --against COMMIT`: every card of this tree beside that of another commit, byte for byte.

Counts hide changes: a wrong answer can lose other points, or a mutant get another name, while as many are caught and
named. So each tree writes down, in a process of its own, what every wrong answer, right alternative and mutant gets,
from the same seeds. What a commit says never changes and is kept beside git's own files."""

import difflib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autograder.course.exercises import Exercise, exercises
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError

POINTS = 8.0
SEEDS = (1, 2)
Record = dict[str, Any]


def differences(course: Course, ref: str, units: list[str], only: str | None, mutants: bool) -> list[str]:
    """What differs from the commit `ref`, in lines for a reader."""
    commit = _git(course, "rev-parse", "--verify", f"{ref}^{{commit}}")
    with ThreadPoolExecutor(2) as pool:
        before = pool.submit(_of_commit, course, commit, units, only, mutants)
        after = pool.submit(_of_tree, course.root, units, only, mutants)
        return [line for unit in units for line in _compared(before.result()[unit], after.result()[unit], only)]


def _of_commit(course: Course, commit: str, units: list[str], only: str | None, mutants: bool) -> Record:
    """What another commit's tree records: from an earlier run, or from a worktree made for it. Whole units are kept."""
    folder = Path(_git(course, "rev-parse", "--path-format=absolute", "--git-common-dir"), "attn-against")
    kept = {unit: folder / f"{commit[:16]}_{unit}{'_mutants' if mutants else ''}.json" for unit in units}
    missing, found = [unit for unit, path in kept.items() if not path.is_file()], {}
    if missing:
        with _worktree(course, commit) as tree:
            found = _of_tree(tree, missing, only, mutants)
        folder.mkdir(exist_ok=True)
        for unit in [] if only else missing:
            kept[unit].write_text(json.dumps(found[unit]), encoding="utf-8")
    return found | {unit: json.loads(kept[unit].read_text(encoding="utf-8")) for unit in units if unit not in found}


@contextmanager
def _worktree(course: Course, commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        _git(course, "worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git(course, "worktree", "remove", "--force", str(tree))


def _git(course: Course, *words: str) -> str:
    done = subprocess.run(["git", "-C", course.root, *words], capture_output=True, text=True)
    if done.returncode:
        raise CourseError(f"git {words[0]}: {done.stderr.strip().splitlines()[-1]}", BAD_INPUT)
    return done.stdout.strip()


def _of_tree(tree: Path, units: list[str], only: str | None, mutants: bool) -> Record:
    """What the course in a folder records, in a process of its own that imports nothing of this one."""
    env = {**os.environ, "PYTHONPATH": str(tree), "ATTENTION_COURSE_ORDER": "1", "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-m", __spec__.name, json.dumps([units, only, mutants])]
    done = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE)
    if done.returncode:
        raise CourseError(f"{tree}: its cards could not be made (see above)")
    return json.loads(done.stdout)


# ----------------------------------------------------------------------------------------------------- what is compared


def record(course: Course, units: list[str], only: str | None, mutants: bool) -> Record:
    """{unit: {exercise: {what was tried: what came of it}}}"""
    return {
        unit: {
            one.id: dict(_cards(one)) | dict(_mutants(course, one) if mutants else ())
            for one in exercises(course, unit, only)
        }
        for unit in units
    }


def _cards(exercise: Exercise) -> Iterator[tuple[str, str]]:
    tried = [("wrong: " + name, answers) for name, answers in exercise.wrong_answers()]
    tried += [("right: " + style, answers) for style, answers in exercise.alternatives().items()]
    for seed in SEEDS:
        for name, answers in tried:
            for which, cases in (("shown", ()), ("hidden", exercise.hidden_cases() or ())):
                _begin(seed)
                score = exercise.check(*answers, points=POINTS, cases=cases, seed=seed)
                yield f"{name} (seed {seed}, {which})", score._repr_mimebundle_()["text/html"]


def _begin(seed: int) -> None:
    """From here on all that is drawn is the same in both trees, whatever came before."""
    import torch

    from helpers.engine import anti_gaming

    random.seed(seed)
    torch.manual_seed(seed)
    anti_gaming._dice.cache_clear()


def _mutants(course: Course, exercise: Exercise) -> Iterator[tuple[str, str]]:
    from autograder.proofs import mutation_testing

    for tried, outcome in mutation_testing.outcomes(course, exercise):
        told = {key: outcome.get(key) for key in ("caught", "named", "false")}
        yield f"mutant: {tried.program.style}, {tried.mutant.kind}: {tried.mutant}", json.dumps(told)


# ------------------------------------------------------------------------------------------------------------ comparing


def _compared(before: Record, after: Record, only: str | None) -> Iterator[str]:
    """A line for all that is in one tree only, a few for each that is another one."""
    for name in [only] if only else sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        yield from (f"{name}: only before: {key}" for key in old if key not in new)
        yield from (f"{name}: only now: {key}" for key in new if key not in old)
        for key in old:
            if key in new and old[key] != new[key]:
                yield f"{name}: differs: {key}\n{_changed(old[key], new[key])}"


def _changed(old: str, new: str) -> str:
    """The lines that differ of two cards, a tag a line."""
    a, b = ([f"{line}>"[:300] for line in page.split(">")] for page in (old, new))
    lines = [line for line in difflib.unified_diff(a, b, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    return "\n".join(f"    {line}" for line in lines[:8])


if __name__ == "__main__":
    json.dump(record(Course(Path.cwd()), *json.loads(sys.argv[1])), sys.stdout)
