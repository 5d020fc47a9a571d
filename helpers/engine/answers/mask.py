"""Slips of the mask: a hidden key has no weight, whatever its score; those of the others are a softmax over them."""

import torch

from ..wrong_answers import Slip
from .steps import below_all


def _filled_with(score):
    return lambda scores, mask: scores.masked_fill(~mask, score)


def _hidden_highest(scores, mask):
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).max)


def _visible_raised(by):
    return lambda scores, mask: scores + by * mask


def _hidden_afterwards(hidden, mask, scores):
    weights = torch.softmax(scores, dim=-1)
    return weights if mask is None else weights * mask


class Mask:
    """True means: this query may attend to this key."""

    ignored = Slip(hide=lambda scores, mask: scores)
    inverted = Slip(hide=lambda scores, mask: below_all(scores, ~mask))
    after_softmax = Slip(normalise=_hidden_afterwards)
    almost_zero = Slip({"hide": _filled_with(1e-9)}, hide=_filled_with(0.0))
    minus_100 = Slip(hide=_filled_with(-100.0))
    plus_infinity = Slip({"hide": _hidden_highest}, hide=_filled_with(torch.inf))
    causal = Slip(hide=lambda scores, mask: below_all(scores, torch.ones_like(mask).tril()))
    visible_raised = Slip(*({"hide": _visible_raised(10.0**k)} for k in range(4, 13)), hide=_visible_raised(1e6))
