"""Attention as work that can be handed out: by token, by matrix product, by chunks of queries."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def attention_one_token(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"], i: int
) -> Float[Tensor, "d_v"]:
    """The output of token i: its query against all keys, softmax, mean of the values with these weights."""
    return attention_all_tokens(q[i : i + 1], k, v)[0]


def attention_all_tokens(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"]
) -> Float[Tensor, "n d_v"]:
    """softmax(q kᵀ / √d) v: all tokens in two matrix products (Vaswani et al., 2017, equation 1)."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def attention_chunk(
    q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"], start: int, stop: int
) -> Float[Tensor, "c d_v"]:
    """Rows start … stop − 1 of the output. They need their own queries and all keys and values."""
    return attention_all_tokens(q[start:stop], k, v)


def chunked_attention(
    task: Callable[[int, int], Float[Tensor, "c d_v"]], n: int, size: int, order: Sequence[int]
) -> Float[Tensor, "n d_v"]:
    """Run task(start, stop) for every chunk, in the given order, and put the rows where they belong."""
    parts = {chunk: task(chunk * size, min(n, (chunk + 1) * size)) for chunk in order}
    return torch.cat([parts[chunk] for chunk in sorted(parts)])
