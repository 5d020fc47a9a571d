"""Checks of kernels. The wrong answers are kernels too: one kernel an exercise, told by `SLIP` what to get wrong.

Inputs are views with odd strides in larger tensors (see own_process.py), lengths are no multiples of tiles, and each call
has a process of its own. Answers are compared with attention in float64 by PyTorch, not by a kernel.
"""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, random_case


def _room(shape, dtype, device) -> Tensor:
    """A new tensor with some room behind it, for kernels that write too far."""
    size = math.prod(shape)
    return torch.empty(size + 4096, dtype=dtype, device=device)[:size].view(shape)


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, *tiles: int) -> tuple[Tensor, Tensor]:
    """Output and logsumexp by PyTorch; a row that sees nothing gives 0 and −∞."""
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.arange(m) > torch.arange(n)[:, None] + (m - n), -math.inf)
    lse = scores.logsumexp(-1)
    return torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None]) @ v, lse


def _dense_strides(x):
    return x.shape[1] * x.shape[2] * x.shape[3], x.shape[2] * x.shape[3], x.shape[3], 1


def _towards(first: float, last: float):
    """Draws queries along one direction, and keys whose scores go from `first` to `last` along the sequence."""

    def tensors(generator: Generator, n: int, m: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (torch.randn(1, 1, length, d, generator=generator) / 4 for length in (n, m, m))
        q[..., 0], k[..., 0] = 4.0, torch.linspace(first, last, m) * math.sqrt(d) / 4
        return q, k, v * 4

    return tensors


def in_tiles(*, block_q: int = 16, block_k: int = 16, **sizes) -> Case:
    """A case of `triton_forward`, with the tiles that its launcher is told."""
    return random_case(block_q=block_q, block_k=block_k, **sizes)
