"""The judge, told what it needs to know of a unit of this course."""

from functools import cache

from nbformat import NotebookNode

from autograder import limited
from autograder.course.reach import checks_of, exam
from autograder.grading import source
from autograder.judge.clock import Clock
from autograder.judge.judge import Limits, judge
from autograder.judge.kernels import Kernels


def judged(
    notebook: NotebookNode, unit: str, limits: Limits, within: Kernels | None = None, clock: Clock | None = None
) -> NotebookNode:
    """A sanitised notebook of the unit with the outputs of all its code cells."""
    clock = clock or Clock()
    with clock.part("border"):
        prepare(unit)
        written = limited.call(source.written, notebook, unit)
    return judge(notebook, exam(unit), limits, written, within, clock)


@cache
def prepare(unit: str) -> None:
    """Has the unit's checks imported where the source is looked at: that takes longer than looking."""
    limited.prepare(*checks_of(unit), source.__name__)
