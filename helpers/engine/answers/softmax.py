"""Slips of the softmax: over the keys, less each row's own largest score, of scores that were hidden before."""

import torch

from ..wrong_answers import Slip
from .steps import below_all

LIMITS = (20.0, 30.0, 40.0, 50.0, 60.0, 64.0, 70.0, 80.0, 85.0, 88.0, 90.0, 100.0)
"""At which scores are clamped, so that no exponential overflows."""


def _shares(powers):
    return powers / powers.sum(dim=-1, keepdim=True)


def _far_below(scores, mask):
    return scores.masked_fill(~mask, -1e9)


def _over_queries(hidden, mask, scores):
    return torch.softmax(hidden, dim=-2)


def _powers_less(largest):
    """Exponentials of all scores, less their largest; hidden ones are made 0 afterwards."""

    def normalise(hidden, mask, scores):
        powers = torch.exp(scores - largest(scores))
        return _shares(powers if mask is None else powers * mask)

    return normalise


def _powers_thrown_away(hidden, mask, scores):
    powers = torch.exp(scores - hidden.amax(dim=-1, keepdim=True))
    return _shares(powers if mask is None else torch.where(mask, powers, 0.0))


def _clamped(limit):
    def normalise(hidden, mask, scores):
        scores = scores.clamp(-limit, limit)
        return torch.softmax(scores if mask is None else below_all(scores, mask), dim=-1)

    return normalise


class Softmax:
    """One unit of attention for each query, shared out over the keys."""

    over_queries = Slip(
        {"normalise": _over_queries, "hide": _far_below},  # so there is no NaN
        normalise=_over_queries,
    )
    no_maximum = Slip(normalise=_powers_less(lambda scores: 0.0))
    maximum_of_hidden = Slip(normalise=_powers_less(lambda scores: scores.amax(dim=-1, keepdim=True)))
    one_maximum = Slip(
        {"normalise": _powers_less(lambda scores: scores.max())},
        normalise=lambda hidden, mask, scores: _shares(torch.exp(hidden - hidden.max())),
    )
    powers_thrown_away = Slip(normalise=_powers_thrown_away)
    clamped = Slip(*({"normalise": _clamped(limit)} for limit in LIMITS), normalise=_clamped(50.0))
    never_normalised = Slip(normalise=lambda hidden, mask, scores: hidden)
