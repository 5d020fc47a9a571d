"""Checks of attention with one head: one query among keys, then all queries in matrix form."""

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg


def _scores_near_1000(sign: float = 1.0) -> tuple[Tensor, Tensor]:
    """A query (2,) and keys (3, 2) whose dot products 999, 1000, 998 are exact; their exponentials are infinite
    in every dtype, and with the sign −1 all of them are 0."""
    return sign * torch.tensor([10.0, 1.0]), torch.tensor([[100.0, -1.0], [99.0, 10.0], [100.0, -2.0]])


def _far_ahead(*shape: int) -> RandomArg:
    """The first rows of two have a product far above the mean of all: less the mean, it still overflows."""

    def make(generator: torch.Generator) -> Tensor:
        rows = 8 * torch.randn(shape, generator=generator)
        rows.view(-1)[0] = 60
        return rows

    return RandomArg(make)


def mean_subtracted(scores) -> Tensor:
    """A softmax by hand along the last axis, in which the mean takes the place of the maximum."""
    powers = torch.exp(scores - scores.mean(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)
