"""The judge, told what it needs to know of a unit of this course."""

from functools import cache

from nbformat import NotebookNode

from autograder import limited
from autograder.course.reach import exam, room
from autograder.grading import source
from autograder.judge.judge import Limits, judge
from autograder.judge.kernels import Kernels
from helpers import rooms


def judged(notebook: NotebookNode, unit: str, limits: Limits, within: Kernels | None = None) -> NotebookNode:
    """A sanitised notebook of the unit with the outputs of all its code cells."""
    _prepare(unit)
    return judge(notebook, exam(unit), limits, limited.call(source.written, notebook, unit), within)


@cache
def _prepare(unit: str) -> None:
    """Has the unit's checks imported where the source is looked at: that takes longer than looking."""
    here = f"helpers.{room(unit)}."
    limited.prepare(
        *sorted({module for module in rooms.offered("checks").values() if module.startswith(here)}), source.__name__
    )
