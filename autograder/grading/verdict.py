"""The judge, told what it needs to know of a unit of this course."""

import json
from functools import cache

from nbformat import NotebookNode

from autograder import limited
from autograder.course.reach import checks_of, exam
from autograder.errors import CourseError
from autograder.grading import source
from autograder.judge.clock import Clock
from autograder.judge.judge import Limits, judge
from autograder.judge.kernels import Kernels, kernels, patience
from autograder.judge.submission import listen
from autograder.judge.warm import JUDGE

RULES = """
import json
import torch
from helpers import check, registry
parts = lambda found: getattr(found, "parts", {{"": found}}).values()
forbids = {{name: [pattern for one in parts(getattr(check, name)) for pattern in getattr(one, "forbids", ())]
           for name, module in registry.offered("checks").items() if module in {modules}}}
print(json.dumps([forbids, dir(torch.Tensor)]))
"""


def judged(
    notebook: NotebookNode, unit: str, limits: Limits, within: Kernels | None = None, clock: Clock | None = None
) -> NotebookNode:
    """A sanitised notebook of the unit with the outputs of all its code cells."""
    clock, within = clock or Clock(), within or kernels(limits.sandbox)
    prepare()
    known = rules(unit, limits, within)
    return judge(
        notebook, exam(unit), limits, lambda: limited.call(source.written, notebook, unit, known), within, clock
    )


@cache
def prepare() -> None:
    """Has imported, where the source is looked at, what that needs: or each look would import it anew."""
    limited.prepare(source.__name__, "IPython.core.inputtransformer2")


@cache
def rules(unit: str, limits: Limits, within: Kernels) -> source.Rules:
    """What the source of an answer is looked at for. A judge's kernel says it: it has the unit's checks, and PyTorch, imported."""
    kernel, cell = within.ready(within.start(JUDGE, exam(unit), limits)), NotebookNode(outputs=[])
    try:
        kernel.tell({"ask": "setup", "source": RULES.format(modules=checks_of(unit)), "count": 0})
        status = listen(kernel, cell, 60 * patience(), trusted=True)
    finally:
        kernel.close()
    if status != "ok":
        raise CourseError(f"The checks of {unit} can't be used ({status}).")
    forbids, methods = json.loads("".join(output.get("text", "") for output in cell.outputs))
    return source.Rules(forbids, frozenset(methods))
