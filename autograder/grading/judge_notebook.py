"""The judge, told what it needs to know of a unit of this course."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import cache

from nbformat import NotebookNode

from autograder import limited_process
from autograder.course.visibility import checks_of, judge_config
from autograder.errors import CourseError
from autograder.grading import static_checks
from autograder.judge.fork_server import JUDGE
from autograder.judge.judge import InDoubt, Limits, judge
from autograder.judge.kernel_manager import KernelManager, kernel_manager
from autograder.judge.submission import listen
from autograder.judge.timings import Clock
from autograder.judge.wall_time import Deadline

ATTEMPTS = (0, 1)
"""A verdict in doubt is followed by another attempt; of the last it is given, and not kept (see `Submission.doubt`)."""
RULES = """
import json
import torch
from helpers import check, registry
parts = lambda found: getattr(found, "parts", {{"": found}}).values()
forbids = {{name: [pattern for one in parts(getattr(check, name)) for pattern in getattr(one, "forbids", ())]
           for name, module in registry.offered("checks").items() if module in {modules}}}
print(json.dumps([forbids, dir(torch.Tensor)]))
"""


def judge_notebook(
    notebook: NotebookNode, unit: str, limits: Limits, within: KernelManager | None = None, clock: Clock | None = None
) -> list[str]:
    """Gives a sanitised notebook of the unit the outputs of all its code cells, judging it once more where there is a
    doubt. Returns the doubts that are left."""
    for attempt in ATTEMPTS[:-1]:
        with suppress(InDoubt):
            return judge_attempt(notebook, unit, limits, within, clock, attempt)
    return judge_attempt(notebook, unit, limits, within, clock, ATTEMPTS[-1])


def judge_attempt(
    notebook: NotebookNode, unit: str, limits: Limits, within: KernelManager | None, clock: Clock | None, attempt: int
) -> list[str]:
    """One of the ATTEMPTS, each with draws of its own. All but the last raise InDoubt."""
    clock, within = clock or Clock(), within or kernel_manager(limits.sandbox)
    prepare()
    known = static_rules(unit, limits, within)
    return judge(
        notebook,
        judge_config(unit),
        replace(limits, seed=limits.seed + attempt),
        lambda: limited_process.call(static_checks.found_by_exercise, notebook, unit, known),
        within,
        clock,
        final=attempt == ATTEMPTS[-1],
    )


@cache
def prepare() -> None:
    """Has imported, where the source is looked at, what that needs: or each look would import it anew."""
    limited_process.prepare(static_checks.__name__, "IPython.core.inputtransformer2")


@cache
def static_rules(unit: str, limits: Limits, within: KernelManager) -> static_checks.Rules:
    """What the source of an answer is looked at for. A judge's kernel says it: it has imported the unit's checks."""
    kernel, cell = within.ready(within.start(JUDGE, judge_config(unit), limits)), NotebookNode(outputs=[])
    try:
        kernel.tell({"ask": "setup", "source": RULES.format(modules=checks_of(unit)), "count": 0})
        status = listen(kernel, cell, Deadline(60), None)
    finally:
        kernel.close()
    if status != "ok":
        raise CourseError(f"The checks of {unit} can't be used ({status}).")
    forbids, methods = json.loads("".join(output.get("text", "") for output in cell.outputs))
    return static_checks.Rules(forbids, frozenset(methods))
