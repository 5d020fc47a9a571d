"""Calls that a warm process makes once, so that no kernel has to: PyTorch looks every operation up when it is first
watched in a process, and imports half of itself for the first way back."""

import importlib.metadata
from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.observe import observe
from helpers.environment import too_old, triton_mode


def elementwise(x: Tensor) -> list[Tensor]:
    """x: (2, 4, 4), as in all of them, and above 0."""
    return [x + 1, x - x, 2 * x, x / 2, x**2, -x, x.exp(), x.log(), x.log1p(), x.sqrt(), x.rsqrt(), x.square(), x.abs(),
            x.tanh(), x.sigmoid(), x.clamp(0, 1), F.relu(x), F.gelu(x), F.silu(x),
            F.dropout(x, 0.0)]  # fmt: skip # a drawn table


def reductions(x: Tensor) -> list[Tensor]:
    return [x.sum(-1), x.sum(), x.mean(-1), x.amax(-1, keepdim=True), x.max(-1).values, x.std(-1),
            x.var(-1, unbiased=False), x.norm(dim=-1), x.cumsum(-1), x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1),
            x.topk(2, -1).values, x.sort(-1).values, x.gather(-1, x.argsort(-1)),
            F.layer_norm(x, x.shape[-1:])]  # fmt: skip # a drawn table


def products(x: Tensor) -> list[Tensor]:
    k = x[0]
    return [x @ x.mT, torch.bmm(x, x), torch.einsum("bnd,bmd->bnm", x, x), F.linear(x, k), k @ k, k @ k[0],
            torch.dot(k[0], k[1]), torch.outer(k[0], k[1]), torch.cosine_similarity(k[:1], k, dim=-1),
            F.embedding(torch.arange(4), k), F.cross_entropy(k, torch.arange(4))]  # fmt: skip # a drawn table


def masks(x: Tensor) -> list[Tensor]:
    causal = torch.ones(4, 4, dtype=torch.bool).tril() & (torch.arange(4)[:, None] >= torch.arange(4))
    hidden = ~causal | torch.ones(4, 4).triu(1).bool()
    return [x.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num(), torch.where(causal, x, torch.zeros(())),
            x * causal.any(-1, keepdim=True) * causal.all()]  # fmt: skip # a drawn table


def shapes(x: Tensor) -> list[Tensor]:
    heads = x.reshape(2, 4, 2, 2).transpose(1, 2).contiguous()
    return [heads.transpose(1, 2).reshape(2, 4, 4), torch.cat([*x.chunk(2, -1)], dim=-1), torch.stack([x, x]),
            x.permute(0, 2, 1), x.unsqueeze(0).squeeze(0), x.expand(2, 4, 4), x.repeat(1, 2, 1),
            x.repeat_interleave(2, 0), x.flatten(1).view(2, 4, 4), x.flip(-1), x.roll(1, -1), x[:, torch.arange(4)],
            x[..., 1:], x[0].T]  # fmt: skip # a drawn table


def in_place(x: Tensor) -> list[Tensor]:
    made = torch.zeros_like(x)
    made[:, 0] = x[:, 0]
    made[..., 1:] += x[..., 1:]
    return [made.mul_(2).add_(x), torch.empty_like(x).copy_(x) + torch.full_like(x, 2.0) + torch.eye(4)]


CALLS: tuple[Callable[[Tensor], list[Tensor]], ...] = elementwise, reductions, products, masks, shapes, in_place


def warm_up_torch() -> None:
    """Each in float32 and float64, watched there and back. And packages' versions, which setup cells ask for: while
    notebooks are graded they stay what they are."""
    for name in ("version", "requires"):
        setattr(importlib.metadata, name, cache(getattr(importlib.metadata, name)))
    too_old(), triton_mode()
    for call in CALLS:
        for dtype in (torch.float32, torch.float64):
            observe(call, (torch.linspace(0.1, 1, 32, dtype=dtype).view(2, 4, 4),), gradient=True)
