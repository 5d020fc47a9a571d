"""What many checks share: wrong answers made of any reference, masks that leave no row empty, the fused functions that
may not be called, and the tolerance of a formula."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ..cases import RandomArg
from ..compare import TOLERANCE, agree, in_float64, tolerance
from ..observe import Observation
from ..wrong_answers import Wrong, shared

NO_FUSED_ATTENTION = (
    "scaled_dot_product",
    "multi_head_attention",
    "flex_attention",
    "flash_attention",
    "_safe_softmax",
)
"""For `forbids`: PyTorch's own attention under all its names."""


EXACT = (1e-12, 0.0)
"""For `within`: a formula is right or wrong. So little is for the rounding of answers that come as floats."""


def visible_mask(*shape: int, empty_row: int | None = None) -> RandomArg:
    """A random mask (…, n, m), at least one key visible and one hidden in each row; only `empty_row` sees nothing."""

    def draw(generator: Generator) -> Tensor:
        mask = torch.rand(shape, generator=generator) < 0.5
        kept = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        mask = mask.scatter(-1, (kept + 1) % shape[-1], False).scatter(-1, kept, True)
        if empty_row is not None:
            mask[..., empty_row, :] = False
        return mask

    return RandomArg(draw)


def in_single_precision(reference: Callable) -> Wrong:
    """The right answer, with float32 on the way of float64 inputs: right to seven digits, and to no more."""

    def rounded(*args: Any) -> Any:
        return reference(*tree_map(lambda x: x.float() if isinstance(x, Tensor) and x.is_floating_point() else x, args))

    def shown(seen: Observation) -> bool:
        exact, (relative, absolute) = TOLERANCE[torch.float64], TOLERANCE[torch.float32]
        if tolerance(seen.args) != exact:
            return False
        right = reference(*tree_map(in_float64, seen.args))
        off = 3 * _largest_gap(rounded(*seen.args), right)  # scores of −800 cost more digits
        return agree(seen.output, right, (relative, max(absolute, off))) and not agree(seen.output, right, exact)

    return shared(__file__, "in_single_precision", rounded, recognise=shown)


def _largest_gap(got: Any, expected: Any) -> float:
    """The largest distance between two outputs' numbers, 0 where there is none."""
    pairs = zip(tree_leaves(got), tree_leaves(expected), strict=True)
    gaps = [(one.double() - other).abs() for one, other in pairs if isinstance(other, Tensor)]
    return max((gap.nan_to_num(0, 0).max().item() for gap in gaps if gap.numel()), default=0.0)


def power_before_division(reference: Callable) -> Wrong:
    """Another divisor than √d: what Python makes of `d ** 1/2`. The reference takes q first."""

    def divided_by(divisor: Callable, q: Tensor, *others: Any) -> Any:
        return reference(q * (math.sqrt(q.shape[-1]) / divisor(q.shape[-1])), *others)

    def shown(seen: Observation) -> bool:
        args, within = tree_map(in_float64, seen.args), tolerance(seen.args)
        wrong = (divided_by(divisor, *args) for divisor in (lambda d: d / 2, lambda d: 2 * d))
        return any(agree(seen.output, one, within) for one in wrong) and not agree(
            seen.output, reference(*args), within
        )

    return shared(__file__, "power_before_division", lambda *args: divided_by(lambda d: d / 2, *args), recognise=shown)


def constant_in_the_denominator(reference: Callable) -> Wrong:
    """The right answer with weights that sum to a little less than 1."""

    def shrunk(*args: Any) -> Any:
        return reference(*args) / (1 + 1e-8)

    def shown(seen: Observation) -> bool:
        lost = 1 - seen.output.double() / reference(
            *tree_map(in_float64, seen.args)
        )  # of a row the same in all entries
        uneven = (lost - lost.mean(-1, keepdim=True)).abs().max()
        return bool(0 < lost.min() and lost.max() < 0.1 and uneven < 0.1 * lost.min())

    return shared(__file__, "constant_in_the_denominator", shrunk, recognise=shown)


def axes_of_size_1_dropped(reference: Callable) -> Wrong:
    """The right answer, and a `squeeze()` after it."""
    return shared(__file__, "axes_of_size_1_dropped", lambda *args: reference(*args).squeeze())


def written_for_one_batch_axis(reference: Callable) -> Wrong:
    """The right answer where there is exactly one batch axis."""

    def three_axes(first: Tensor, *others: Any) -> Any:
        _b, _n, _d = first.shape
        return reference(first, *others)

    return shared(__file__, "written_for_one_batch_axis", three_axes, raises="ValueError")


def written_without_a_batch(reference: Callable) -> Wrong:
    """The right answer where there is no batch axis."""

    def two_axes(first: Tensor, *others: Any) -> Any:
        _n, _d = first.shape
        return reference(first, *others)

    return shared(__file__, "written_without_a_batch", two_axes, raises="ValueError")
