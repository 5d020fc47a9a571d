"""A check of a function that launches kernels."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from helpers.kernels import UNAVAILABLE, device

from . import kernel_bounds, kernel_interpreter
from .cases import Case
from .check import Behaviour, Check, Misconception
from .compare import in_float64
from .observe import KERNEL, Observation, observe
from .score import Score, not_attempted

IN_THE_LAUNCHER = tuple("matmul ^mm$ bmm addmm einsum softmax logsumexp scaled_dot_product tensordot".split())
"""What PyTorch may not do beside the kernel: the kernel's own work."""
BLIND = (
    "On a GPU nobody sees a load or a store that leaves its tensor. Grading sees it, for it interprets the kernel. "
    "To look as closely, put `%env TRITON_INTERPRET=1` above the first cell of the notebook, restart, and run this "
    "check again."
)

TF32 = (
    "This GPU rounds the float32 inputs of `tl.dot` to TF32, with 10 bits after the point instead of 23, unless it is "
    'told `input_precision="ieee"`. That alone makes results differ from the fourth digit on.'
)


def _rounds_to_tf32(source: str) -> bool:
    """Whether a kernel leaves the precision of its products to a GPU that has TF32 (from Ampere on)."""
    return bool(re.search(r"\bdot\((?!.*input_precision)", source)) and torch.cuda.get_device_capability() >= (8, 0)


def no_kernel(seen: Observation) -> bool:
    """Whether no kernel was launched, so that PyTorch made the output."""
    return not seen.operations[KERNEL]


class KernelCheck(Check):
    """A `Check` of a function that launches kernels.

    oracle: the right answer in PyTorch, called in float64 (the reference is a kernel itself).
    layouts: how the tensors that go in lie in memory, in order (see isolated_call.py).
    """

    def __init__(
        self,
        reference: Callable,
        cases: Sequence[Case],
        misconceptions: Sequence[Misconception],
        *,
        oracle: Callable,
        layouts: tuple[str, ...],
        exercise: str = "",
        names: Sequence[str] = (),
    ) -> None:
        launched = Behaviour("launches a kernel", lambda seen: not no_kernel(seen), "No kernel was launched.")
        super().__init__(
            reference,
            cases,
            misconceptions,
            behaviours=[launched],
            forbids=IN_THE_LAUNCHER,
            exercise=exercise,
            names=names,
        )
        self.oracle, self.layouts = oracle, layouts

    def __call__(
        self, student: Callable, *, points: float, cases: Sequence[Case] = (), seed: int | None = None
    ) -> Score:
        """As `Check`; 0 points and what to do where no kernel runs, and what a GPU doesn't show where all is right."""
        if UNAVAILABLE:
            return not_attempted(self.exercise, points, f"Not attempted here. {UNAVAILABLE}")
        kernel_bounds.sources.clear()
        score = super().__call__(student, points=points, cases=cases, seed=seed)
        if device().type == "cuda" and score.full:
            score.message = BLIND
        elif device().type == "cuda" and not score.diagnosis and any(map(_rounds_to_tf32, kernel_bounds.sources)):
            score.message = f"{score.message}\n{TF32}".strip()
        return score

    def observe(self, answer: Callable, args: tuple, gradient: bool = False) -> Observation:
        """Misconceptions write nowhere but into their own outputs: they need no process of their own. On a GPU they
        aren't compiled."""
        places = [place for place, wrong in enumerate(self.misconceptions) if wrong.function is answer]
        if places and device().type == "cuda" and (seen := kernel_interpreter.observed(self.exercise, places[0], args)):
            return seen
        return observe(answer, args, forbids=self.forbids, layouts=self.layouts, trusted=bool(places))

    def expected(self, args: tuple) -> Any:
        """What the oracle gives in float64."""
        return self.oracle(*tree_map(in_float64, args))
