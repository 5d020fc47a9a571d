"""`attn prove --hostile --stock`: the same notebooks once more, handed to `nbgrader autograde` itself. What it writes
into its folder and into the gradebook must be what `attn grade` gives."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder import notebooks
from autograder.course.paths import PACKAGES, Course
from autograder.grading import gradebook_writer
from autograder.judge.kernel_manager import NAMESPACES
from autograder.proofs.hostile import (
    LIMITS,
    UNIT,
    HostileResult,
    canary,
    evaluate,
    fingerprint,
    hand_in,
    listeners,
    notebooks_of_all_kinds,
    temporary_class,
)


def run_through_nbgrader(sandbox: str = NAMESPACES, names: tuple[str, ...] = ()) -> Iterator[HostileResult]:
    """The rows of the table, in its order; `names` picks some. One command grades all of them, one after the other."""
    chosen = [(kind, one) for kind, one in notebooks_of_all_kinds() if not names or one.name in names]
    with temporary_class() as course, listeners() as places, canary():
        for _, one in chosen:
            hand_in(course, one, places)
        before = fingerprint(course, "solutions", "autograder/class/submitted")
        said = _autograde(course, sandbox)
        changed = fingerprint(course, "solutions", "autograder/class/submitted") != before
        recorded = {student: row["code_score"] for student, row in gradebook_writer.scores(course, UNIT).items()}
        for kind, one in chosen:
            row = _row(course, kind, one, said, recorded.get(one.name))
            yield replace(row, problem=row.problem or ("files of the course were changed" if changed else ""))


def _autograde(course: Course, sandbox: str) -> dict[str, str]:
    """Runs the command. Returns why hand-ins were rejected, by student."""
    scripts = Path(sys.executable).parent
    paths = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [
            scripts / "nbgrader",
            "autograde",
            UNIT,
            f"--JudgedExecute.timeout={LIMITS.cell_seconds}",
            f"--JudgedExecute.notebook_timeout={LIMITS.notebook_seconds}",
            f"--JudgedExecute.sandbox={sandbox}",
        ],
        cwd=course.root,
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | {"PATH": paths, "PYTHONPATH": str(PACKAGES)},
    )
    return dict(re.findall(r"ERROR\] (\S+) was rejected: (.*)", done.stderr))


def _row(course: Course, kind: str, one: Any, said: dict[str, str], recorded: float | None) -> HostileResult:
    graded = course.graded(one.name, UNIT)
    if not graded.exists():
        told = said.get(one.name, "")
        wanted = one.rejected and one.says in told
        problem = "" if wanted else f"was not graded: {told or 'nobody is told why'}"
        return HostileResult(one.name, kind, one.tries, {}, told, problem)
    scores, told, problem = evaluate(one, notebooks.read(graded))
    if not problem and recorded != sum(one.expected().values()):
        problem = f"the gradebook has {recorded} points"
    return HostileResult(one.name, kind, one.tries, scores, told, problem)
