"""The judge: one sanitised notebook in, the same notebook with outputs out.

This is the only door to a student's code. Behind it the student's cells run in one sandboxed process and the test cells
in another (see judging.py); nothing else in the package depends on how."""

from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.judging import judge_split
from autograder.kernels import NAMESPACES, kernels


@dataclass(frozen=True)
class Limits:
    """What a submission may use, where it runs, and the seed of the inputs that the checks draw; the same for the whole
    class."""

    cell_seconds: int = 60
    notebook_seconds: int = 600
    seed: int = 20_617
    sandbox: str = NAMESPACES


def judge(notebook: NotebookNode, unit: str, limits: Limits) -> NotebookNode:
    """The notebook with the outputs of all its code cells; every test cell shows a score or an error.

    Never raises for what a student wrote: a cell that runs too long, or ends its kernel, gets an error as its output
    and the others are run without it. Raises SandboxError where the sandbox does not work on this machine.
    """
    judge_split(notebook, unit, limits, kernels(limits.sandbox))
    return notebook
