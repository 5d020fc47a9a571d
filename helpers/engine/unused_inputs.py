"""Inputs that an answer never reads: its output stays the same when one of them changes, and the right one doesn't."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .anti_gaming import same
from .case_result import CaseResult
from .compare import listed
from .half_done import is_dense

UNUSED = "What is off stays the same whatever {} {}. Should it not depend on {}?"


def unused_inputs(check: Any, student: Callable, failed: list[CaseResult]) -> str:
    """A sentence that names them; "" where all that matter are read, or nothing can be told."""
    telling = [trial for trial in failed if not (trial.hidden or trial.seen.error) and trial.wrong]
    if check.drive or check.quiz or not check.compare or not telling:
        return ""
    names = [f"`{name}`" for name in _unread(check, student, telling[0])]
    return UNUSED.format(listed(names), *(("is", "it") if len(names) == 1 else ("are", "them"))) if names else ""


def _unread(check: Any, student: Callable, trial: CaseResult) -> Iterator[str]:
    args, off = trial.seen.args, _off(check, trial)
    for place, (name, arg) in enumerate(zip(inspect.signature(check.reference).parameters, args, strict=False)):
        others = _others(arg)
        changed = ((*args[:place], other, *args[place + 1 :]) for other in others)
        if off and others and all(_unmoved(check, student, trial, inputs, off) for inputs in changed):
            yield name


def _others(arg: Any) -> tuple:
    """Other values of an input: of a mask one that hides nothing, so that no row is empty."""
    if not isinstance(arg, Tensor):
        return (not arg,) if isinstance(arg, bool) else ()
    if arg.dtype == torch.bool:
        return (torch.ones_like(arg),)
    if not (arg.numel() and (arg.dim() or arg.is_floating_point())):
        return ()
    if not arg.is_floating_point():  # in another order, and one of its numbers everywhere: others may be out of range
        shuffled = arg.flatten()[torch.randperm(arg.numel())].view(arg.shape)
        return arg.flip(-1), shuffled, torch.full_like(arg, int(arg.min()))
    return -arg, torch.rand_like(arg) + arg.abs().amax()  # where a maximum lies moves with one of them


def _unmoved(check: Any, student: Callable, trial: CaseResult, changed: tuple, off: list[int]) -> bool:
    """Whether these parts of the output are as they were, and the right ones aren't."""
    mine, right = (check.observe(answer, changed) for answer in (student, check.reference))
    if mine.error or right.error:
        return False
    then, now, wanted = (tree_leaves(output) for output in (trial.seen.output, mine.output, right.output))
    before = tree_leaves(trial.expected)
    return all(same(now[i], then[i]) and not check.agrees(wanted[i], before[i], changed) for i in off)


def _off(check: Any, trial: CaseResult) -> list[int]:
    """Which parts of an output are off, where each holds several numbers: one number may be the same by chance."""
    got, want = tree_leaves(trial.seen.output), tree_leaves(trial.expected)
    if len(got) != len(want):
        return []
    off = [i for i, pair in enumerate(zip(got, want, strict=True)) if not check.agrees(*pair, trial.seen.args)]
    return off if all(isinstance(got[i], Tensor) and is_dense(got[i]) and len(got[i].unique()) > 2 for i in off) else []
