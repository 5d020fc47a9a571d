"""Calls that a warm process makes once, so that no kernel has to: PyTorch looks every operation up when it is first watched in a
process, and imports half of itself for the first way back."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from helpers.engine.observe import observe


def _arithmetic(x: torch.Tensor) -> torch.Tensor:
    y = (x - x.amax(-1, keepdim=True)).exp() / (x.square().sum(-1, keepdim=True).sqrt() + 1)
    y = y * 2 + x.mean(-1, keepdim=True) - x.max(-1, keepdim=True).values / 3 + x.abs().log1p() + x.tanh() + x**2 + x.rsqrt()
    return y.sigmoid().log() + x.std(-1, keepdim=True) + x.var(-1, keepdim=True, unbiased=False) + x.norm(dim=-1, keepdim=True)


def _products(x: torch.Tensor) -> torch.Tensor:
    weights = (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1)
    y = weights @ x + torch.einsum("...nm,...md->...nd", weights, x) + F.linear(x, x[0, :1].expand(x.shape[-1], -1))
    return y + torch.bmm(weights, x) + weights.log_softmax(-1)[..., :1] + weights.logsumexp(-1, keepdim=True)


def _vectors(x: torch.Tensor) -> torch.Tensor:
    k = x[0]
    return k @ k[0] + torch.dot(k[0], k[1]) + torch.outer(k[0], k[1]) + torch.cosine_similarity(k[:1], k, dim=-1) + k.T + k.t()


def _masks(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[-2]
    mask = torch.ones(n, n, dtype=torch.bool).tril() & (torch.arange(n)[:, None] >= torch.arange(n)) | ~torch.ones(n, n).triu(1).bool()
    scores = (x @ x.mT).masked_fill(~mask, -torch.inf)
    return torch.where(mask, scores, torch.zeros(())).nan_to_num().clamp(-9, 9) * mask.any(-1, keepdim=True) * mask.all()


def _shapes(x: torch.Tensor) -> torch.Tensor:
    b, n, d = x.shape
    heads = x.reshape(b, n, 2, d // 2).transpose(1, 2).contiguous()
    y = torch.cat([*heads.transpose(1, 2).reshape(b, n, d).chunk(2, -1)], dim=-1) + torch.stack([x, x]).sum(0) + x.flip(-1).roll(1, -1)
    y = y + x.permute(0, 2, 1).transpose(-2, -1).unsqueeze(0).squeeze(0).expand(b, n, d).repeat(1, 1, 1).flatten(1).view(b, n, d)
    return y + x.cumsum(-1) + x.gather(-1, x.argsort(-1)) + x[:, torch.arange(n)] + x.repeat_interleave(1, 0) + x.topk(d, -1).values


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, 0] = x[:, 0]
    y[..., 1:] += x[..., 1:]
    y.mul_(2).add_(x)
    return y + torch.eye(x.shape[-1]) + torch.full_like(x, 2.0) + torch.diag_embed(x) [..., 0] + torch.empty_like(x).copy_(x)


def _layers(x: torch.Tensor) -> torch.Tensor:
    y = F.layer_norm(x, x.shape[-1:]) + F.relu(x) + F.gelu(x) + F.silu(x) + F.dropout(x, 0.0)
    return y + F.embedding(torch.arange(x.shape[-2]), x[0]) + F.cross_entropy(x[0], torch.zeros(x.shape[-2], dtype=torch.long))


CALLS: tuple[Callable, ...] = (_arithmetic, _products, _vectors, _masks, _shapes, _in_place, _layers)


def make_first_calls() -> None:
    """Each in float32 and float64, watched on its way there and back."""
    for call in CALLS:
        for dtype in (torch.float32, torch.float64):
            observe(call, (torch.linspace(0.1, 1, 32, dtype=dtype).view(2, 4, 4),), gradient=True)
