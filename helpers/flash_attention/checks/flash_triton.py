"""Checks of kernels. The wrong answers are kernels too: one kernel an exercise, told by `SLIP` what to get wrong.

Inputs are views with odd strides in larger tensors (see isolated_call.py), lengths are no multiples of tiles, and each
call has a process of its own. Answers are compared with attention in float64 by PyTorch, not by a kernel.
"""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, random_case


def room_like(x: Tensor) -> Tensor:
    """A new tensor like x with some room behind it, for kernels that write too far."""
    return torch.empty(x.numel() + 4096, dtype=x.dtype, device=x.device)[: x.numel()].view(x.shape)


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, *tiles: int) -> tuple[Tensor, Tensor]:
    """Output and logsumexp by PyTorch; a row that sees nothing gives 0 and −∞."""
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.arange(m) > torch.arange(n)[:, None] + (m - n), -math.inf)
    lse = scores.logsumexp(-1)
    return torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None]) @ v, lse


def dense_strides(x: Tensor) -> tuple[int, ...]:
    _, h, n, d = x.shape
    return h * n * d, n * d, d, 1


def towards(first: float, last: float):
    """Draws queries along one direction, and keys whose scores go from `first` to `last` along the sequence."""

    def tensors(generator: Generator, n: int, m: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (torch.randn(1, 1, length, d, generator=generator) / 4 for length in (n, m, m))
        q[..., 0], k[..., 0] = 4.0, torch.linspace(first, last, m) * math.sqrt(d) / 4
        return q, k, v * 4

    return tensors


def in_tiles(label: str, *, b: int = 1, h: int = 1, block_q: int = 16, block_k: int = 16, **sizes) -> Case:
    """A case of `triton_forward`, with the tiles that its launcher is told."""
    return random_case(label, b=b, h=h, block_q=block_q, block_k=block_k, **sizes)
