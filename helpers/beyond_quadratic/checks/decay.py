"""Slips of the decay, made token by token or in chunks, as changes of what is left of token s when token t reads."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Slip

from .. import decayed_attention as reference
from .recurrence import phi


def left_of(gamma: Tensor) -> Tensor:
    """(…, n, n), in float64, where a difference of two sums over a long text has digits to spare."""
    return reference.decay_mask(gamma.double()).to(gamma.dtype)


def all_left(gamma: Tensor) -> Tensor:
    """1 for s ≤ t."""
    return torch.ones(gamma.shape[-1], gamma.shape[-1], dtype=gamma.dtype).tril().expand(*gamma.shape, -1)


@dataclass(frozen=True)
class Decayed:
    score: Callable = lambda q, k: q @ k.mT
    left: Callable = left_of  # γ → (…, n, n)
    output: Callable = lambda scores, left, v: (scores * left) @ v


@composable
def decayed(**changed: Callable) -> Callable:
    steps = Decayed(**changed)
    return lambda q, k, v, gamma, *c: steps.output(steps.score(q, k), steps.left(gamma), v)


def _powers_of(factors: Tensor) -> Tensor:
    """factors: (…, n, 1) or (…, 1, n). Their powers by t − s."""
    place = torch.arange(max(factors.shape[-2:]), dtype=factors.dtype)
    powers = factors ** (place[:, None] - place).clamp(min=0)
    return powers * torch.ones_like(powers).tril()


def _row_above(weights: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(weights[..., :1, :]), weights[..., :-1, :]], dim=-2)


def _mapped(q: Tensor, k: Tensor) -> Tensor:
    return phi(q) @ phi(k).mT


def _normalised(scores: Tensor, left: Tensor, v: Tensor) -> Tensor:
    return (scores * left) @ v / (scores * left).sum(-1, keepdim=True)


def _normaliser_alone_decays(scores: Tensor, left: Tensor, v: Tensor) -> Tensor:
    return scores.tril() @ v / (scores * left).sum(-1, keepdim=True)


class Decay:
    """The old state fades by γ_t, once, and nothing else does."""

    forgotten = Slip(left=all_left)
    on_new_token_too = Slip(left=lambda g: left_of(g) * g[..., None, :])
    of_token_before = Slip(left=lambda g: left_of(g.roll(1, -1)))
    twice = Slip(left=lambda g: left_of(g * g))
    on_new_token_alone = Slip(left=lambda g: all_left(g) * g[..., None, :])
    moving_average = Slip(left=lambda g: left_of(g) * (1 - g[..., None, :]))
    one_minus = Slip(left=lambda g: left_of((1 - g).clamp(min=1e-30)))
    first_for_all = Slip(left=lambda g: left_of(g[..., :1].expand_as(g)))
    powers_of_reader = Slip(left=lambda g: _powers_of(g[..., :, None]))
    powers_of_read = Slip(left=lambda g: _powers_of(g[..., None, :]))
    on_output = Slip(left=lambda g: left_of(g) * g[..., :, None])
    read_before = Slip(left=lambda g: _row_above(left_of(g)))
    itself_left_out = Slip(left=lambda g: left_of(g).tril(-1))
    logarithm = Slip(left=lambda g: left_of(g.exp()))
    second_sigmoid = Slip(left=lambda g: left_of(g.sigmoid()))
    not_causal = Slip(left=lambda g: left_of(g) + left_of(g).mT.triu(1))
    normalised = Slip(output=_normalised)
    normaliser_alone = Slip(output=_normaliser_alone_decays)
    feature_map = Slip(score=_mapped)
    as_before = Slip(score=_mapped, output=_normalised)
    by_root_of_d = Slip(score=lambda q, k: q @ k.mT / q.shape[-1] ** 0.5)


OTHER_WORDS_IN_CHUNKS = (Decay.forgotten, Decay.read_before, Decay.itself_left_out)
IN_BOTH_FORMS = [slip for slip in vars(Decay).values() if isinstance(slip, Slip) and slip not in OTHER_WORDS_IN_CHUNKS]
