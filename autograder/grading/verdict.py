"""The judge, told what it needs to know of a unit of this course."""

from nbformat import NotebookNode

from autograder.course.reach import exam
from autograder.grading.source import written
from autograder.judge.judge import Limits, judge
from autograder.judge.kernels import Kernels


def judged(notebook: NotebookNode, unit: str, limits: Limits, within: Kernels | None = None) -> NotebookNode:
    """A sanitised notebook of the unit with the outputs of all its code cells."""
    return judge(notebook, exam(unit), limits, written(notebook, unit), within)
