"""What wrong answers are made of again and again: attention with another scale, axis or mask, masks that leave no row empty,
the fused functions that may not be called, and the tolerance of a formula."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_leaves, tree_map

from .cases import Drawn
from .misconceptions import Misconception
from .rules import Property

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


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, axis: int = -1, mask: Tensor | None = None
) -> Tensor:
    """softmax(scale · q kᵀ) v along `axis`, (…, n, d_v); by default it is the right answer. mask: True where a key is visible."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)  # (…, n, m)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(axis) @ v


def whole(output: Any, *_: Any) -> bool:
    """Whether all numbers of an output are of type int."""
    return all(isinstance(leaf, int) for leaf in tree_leaves(output))


WHOLE = Property(
    "whole numbers, of type int", whole, "The numbers are right, but they come as floats: an int is asked for."
)
"""For formulas with `-> int`: a float loses the last digits of a large count."""


def comes_as_float(formula: Callable) -> Misconception:
    """The right formula, with / for //."""
    return Misconception(
        "a float where a whole number is asked for",
        lambda *args: tree_map(float, formula(*args)),
        "`/` makes a float even where nothing is left over, and floats lose the last digits of large numbers. `//` stays with whole numbers.",
        lambda seen: any(isinstance(leaf, float) for leaf in tree_leaves(seen.output)),
    )


def visible_mask(*shape: int, empty_row: int | None = None) -> Drawn:
    """A random mask (…, n, m) with at least one key visible and one hidden in every row; `empty_row` alone sees nothing."""

    def draw(generator: Generator) -> Tensor:
        mask = torch.rand(shape, generator=generator) < 0.5
        kept = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        mask = mask.scatter(-1, (kept + 1) % shape[-1], False).scatter(-1, kept, True)
        if empty_row is not None:
            mask[..., empty_row, :] = False
        return mask

    return Drawn(draw)
