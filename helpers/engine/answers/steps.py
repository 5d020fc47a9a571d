"""Attention in named steps. A wrong answer is the right one with a step changed, and two slips at once
are two.

An exercise brings an adapter: a dataclass with the steps that its own form adds, and a function that builds the answer
around them, `loop(**changed)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..two_slips import composable


@dataclass(frozen=True)
class Sizes:
    """d_h: the width of queries and keys. d: of a token. h: how many heads."""

    d_h: int
    d: int = 0
    h: int = 1


def dot_products(q: Tensor, k: Tensor) -> Tensor:
    """q kᵀ, (…, n, m)."""
    return q @ k.mT


def by_root_of_width(products: Tensor, sizes: Sizes) -> Tensor:
    """Divided by √d_h."""
    return products / math.sqrt(sizes.d_h)


def below_all(scores: Tensor, mask: Tensor) -> Tensor:
    """−∞ where the mask is False."""
    return scores.masked_fill(~mask, -torch.inf)


def softmax(hidden: Tensor, mask: Tensor | None, scores: Tensor) -> Tensor:
    """Along the keys."""
    return torch.softmax(hidden, dim=-1)


def weighted_sum(weights: Tensor, v: Tensor, sizes: Sizes) -> Tensor:
    """Weights times values, (…, n, d_v)."""
    return weights @ v


@dataclass(frozen=True)
class Attention:
    """The steps of scaled dot-product attention ("Attention Is All You Need", section 3.2.1), with a mask."""

    score: Callable = dot_products  # (q, k) → products
    scale: Callable = by_root_of_width  # (products, sizes) → scores
    hide: Callable = below_all  # (scores, mask) → scores; where there is a mask
    normalise: Callable = softmax  # (hidden scores, mask, scores before they were hidden) → weights
    mix: Callable = weighted_sum  # (weights, v, sizes) → output


def attend(
    steps: Attention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, sizes: Sizes | None = None
) -> tuple[Tensor, Tensor]:
    """Output (…, n, d_v) and weights (…, n, m). mask: True where a key is visible. sizes: by default q's width."""
    sizes = sizes or Sizes(q.shape[-1])
    scores = steps.scale(steps.score(q, k), sizes)
    hidden = scores if mask is None else steps.hide(scores, mask)
    weights = steps.normalise(hidden, mask, scores)
    return steps.mix(weights, v, sizes), weights


@composable
def attention(**changed: Callable) -> Callable[..., Tensor]:
    """Attention of (q, k, v) or (q, k, v, mask) with these steps changed."""
    steps = Attention(**changed)

    def answer(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return attend(steps, q, k, v, mask)[0]

    return answer
