"""The judge: one sanitised notebook in, the same notebook with outputs out.

This is the only door to a student's code. Behind it the student's cells run in one sandboxed process and the test cells
in another (see submission.py); nothing outside this folder depends on how."""

from collections.abc import Callable, Mapping
from typing import Any

from nbformat import NotebookNode

from autograder.judge.config import JudgeConfig, Limits
from autograder.judge.kernel_manager import KernelManager, kernel_manager
from autograder.judge.submission import judge_in_two_kernels
from autograder.judge.timings import Clock

__all__ = ["JudgeConfig", "Limits", "Written", "judge"]

Written = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By exercise and function, what was found in the source of an answer: "names" that the exercise forbids, whether
something in it "evades" being watched, and a "note" for whoever reads the card. Names alone cost nothing: they may
never have run. They count where the calls could not be watched."""


def judge(
    notebook: NotebookNode,
    config: JudgeConfig,
    limits: Limits,
    written: Callable[[], Written] = dict,
    within: KernelManager | None = None,
    clock: Clock | None = None,
) -> NotebookNode:
    """The notebook with the outputs of all its code cells; every test cell shows a score or an error.

    Never raises for what a student wrote: a cell that runs too long, or ends its kernel, gets an error as its output
    and the others are run without it. `written` is called while the kernels get ready. `within`: kernels that are kept
    for several notebooks; `clock`: takes down where the time goes. Raises SandboxError where the sandbox does not work
    on this machine."""
    judge_in_two_kernels(notebook, config, limits, within or kernel_manager(limits.sandbox), written, clock)
    return notebook
