"""Attention over a summary: n keys and values are mixed down to r beforehand (Wang et al., 2020, Linformer)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def low_rank_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    e: Float[Tensor, "r m"],
    f: Float[Tensor, "r m"],
) -> Float[Tensor, "*batch n d_v"]:
    """softmax(q (E k)ᵀ / √d) (F v): O(n r d) (Wang et al., 2020, equation 7)."""
    weights = torch.softmax(q @ (e @ k).mT / math.sqrt(q.shape[-1]), dim=-1)  # (*batch, n, r)
    return weights @ (f @ v)


def pooling(r: int, n: int) -> Float[Tensor, "r n"]:
    """A projection that takes the mean of each of r stretches of n positions, as equal in length as can be."""
    stretch = torch.arange(n) * r // n
    member = (stretch == torch.arange(r)[:, None]).float()
    return member / member.sum(dim=1, keepdim=True)
