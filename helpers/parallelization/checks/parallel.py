"""Checks of attention as work that can be handed out: token by token, as a matrix product, in chunks."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg
from helpers.engine.observe import Observation


def _near(mean: float, *shape: int) -> RandomArg:
    """Entries around `mean`. Rows of 9 entries around 7 have scores near 147, and e^147 overflows."""
    return RandomArg(lambda generator: mean + torch.randn(shape, generator=generator))


def _scaled_by_values(q, v) -> Tensor:
    return q * math.sqrt(q.shape[1] / v.shape[1])


def _overflowed(seen: Observation) -> bool:
    q, k = seen.args[:2]
    return bool(seen.output.isnan().any() and (q @ k.mT).max() / math.sqrt(q.shape[1]) > 89)
