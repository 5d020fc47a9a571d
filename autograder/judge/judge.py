"""The judge: one sanitised notebook in, its outputs out.

This is the only door to a student's code. Behind it the student's cells run in one sandboxed process and the test cells
in another (see submission.py); nothing outside this folder depends on how."""

from collections.abc import Callable, Mapping
from typing import Any

from nbformat import NotebookNode

from autograder.judge.config import JudgeConfig, Limits
from autograder.judge.kernel_manager import KernelManager, kernel_manager
from autograder.judge.submission import InDoubt, judge_in_two_kernels
from autograder.judge.timings import Clock

__all__ = ["InDoubt", "JudgeConfig", "Limits", "Written", "judge"]

Written = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By exercise and function, what was found in the source of an answer: "names" that the exercise forbids, whether
something in it "evades" being watched, a "note" for whoever reads the card, and its "source". Names alone cost
nothing: they may never have run. They count where the calls could not be watched."""


def judge(
    notebook: NotebookNode,
    config: JudgeConfig,
    limits: Limits,
    written: Callable[[], Written] = dict,
    within: KernelManager | None = None,
    clock: Clock | None = None,
    final: bool = True,
) -> list[str]:
    """Gives the notebook the outputs of all its code cells; every test cell shows a score or an error. Returns why that
    may not be the submission's own doing: such a verdict is not to be kept.

    Never raises for what a student wrote: a cell that runs too long, or ends its kernel, gets an error as its output
    and the others are run without it. `written` is called while the kernels get ready. `within`: kernels that are kept
    for several notebooks; `clock`: takes down where the time goes. Raises SandboxError where the sandbox does not work
    on this machine; and unless it is `final`, InDoubt at the first doubt, for another run with other draws."""
    kernels = within or kernel_manager(limits.sandbox)
    return judge_in_two_kernels(notebook, config, limits, kernels, written, clock, final)
