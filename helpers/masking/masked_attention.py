"""Attention in which some keys are forbidden: the mask acts on the scores, before the softmax."""

import math

from jaxtyping import Bool, Float
from torch import Tensor

from helpers.qkv_attention.softmax import softmax

from .masks import causal_mask


def masked_softmax(
    scores: Float[Tensor, "*batch n m"], mask: Bool[Tensor, "*#batch n m"]
) -> Float[Tensor, "*batch n m"]:
    """The softmax of each row over its allowed keys. Hidden keys get 0, and so does a row with nothing allowed."""
    empty = ~mask.any(-1, keepdim=True)
    hidden = scores.masked_fill(~mask & ~empty, -math.inf)  # an empty row stays finite: no NaN, in the gradient either
    return softmax(hidden, dim=-1).masked_fill(empty, 0)


def mask_then_renormalise(
    scores: Float[Tensor, "*batch n m"], mask: Bool[Tensor, "*#batch n m"]
) -> tuple[Float[Tensor, "*batch n m"], Float[Tensor, "*batch n"]]:
    """Softmax over all keys, hidden ones set to 0, each row divided by what is left; and the share taken away."""
    weights = softmax(scores, dim=-1)
    kept = weights * mask
    return kept / kept.sum(-1, keepdim=True), (weights * ~mask).sum(-1)


def causal_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], v: Float[Tensor, "*batch m d_v"]
) -> tuple[Float[Tensor, "*batch n m"], Float[Tensor, "*batch n m"], Float[Tensor, "*batch n d_v"]]:
    """Masked scores, weights and output; queries are the last n of m positions (Vaswani et al., 2017, 3.2.3)."""
    mask = causal_mask(q.shape[-2], k.shape[-2])
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    weights = masked_softmax(scores, mask)
    return scores, weights, weights @ v


def why_before_softmax() -> str:
    """Hidden keys then get exactly 0, and the rest is a softmax over the allowed keys."""
    return "c"


def what_is_it_for() -> str:
    """All n next-token predictions of a text are trained in one pass, each as if the rest were not there yet."""
    return "b"
