"""Writing token by token with a cache: the layer's step, the same with grouped heads, and the loop around a model."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.transformer_lm.positions import rotary_embedding


def _causal_attention(q: Tensor, keys: Tensor, values: Tensor) -> Float[Tensor, "b h n d_h"]:
    """The queries are the newest n of m tokens: row i is token m − n + i and sees the columns up to its own."""
    n, m = q.shape[2], keys.shape[2]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -torch.inf)  # (b, h, n, m)
    return scores.softmax(dim=-1) @ values


def decode_step(
    x: Float[Tensor, "b n d"],
    keys: Float[Tensor, "b h m d_h"],
    values: Float[Tensor, "b h m d_h"],
    w_q: Float[Tensor, "d d"],
    w_k: Float[Tensor, "d d"],
    w_v: Float[Tensor, "d d"],
    w_o: Float[Tensor, "d d"],
) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b h m+n d_h"], Float[Tensor, "b h m+n d_h"]]:
    """Causal self-attention of n new tokens after m old ones (m may be 0), with rotary positions m … m + n − 1.

    Returns the outputs of the new tokens, and the keys (turned already) and values of all.
    """
    n, m, h = x.shape[1], keys.shape[2], keys.shape[1]
    q, k, v = ((x @ w).unflatten(-1, (h, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))  # (b, h, n, d_h)
    positions = torch.arange(m, m + n)
    q, k = rotary_embedding(q, positions), rotary_embedding(k, positions)
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    return _causal_attention(q, keys, values).transpose(1, 2).flatten(2) @ w_o, keys, values


def grouped_decode_step(
    q: Float[Tensor, "b h n d_h"],
    k: Float[Tensor, "b h_kv n d_h"],
    v: Float[Tensor, "b h_kv n d_h"],
    keys: Float[Tensor, "b h_kv m d_h"],
    values: Float[Tensor, "b h_kv m d_h"],
) -> tuple[Float[Tensor, "b h n d_h"], Float[Tensor, "b h_kv m+n d_h"], Float[Tensor, "b h_kv m+n d_h"]]:
    """The same for grouped heads (Ainslie et al., 2023): query head i reads head i // (h / h_kv) of h_kv."""
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    size = q.shape[1] // k.shape[1]
    return _causal_attention(q, *(t.repeat_interleave(size, dim=1) for t in (keys, values))), keys, values


def generate_cached(model: Callable, prompt: Int[Tensor, "b p"], n: int) -> Int[Tensor, "b n"]:
    """n ≥ 1 new tokens, always the likeliest. `model(tokens, start, cache)` reads tokens that stand at start, start +
    1, …, after those in the cache (None at first), and returns their logits and the cache with them in it."""
    logits, cache = model(prompt, 0, None)
    written = [logits[:, -1].argmax(dim=-1, keepdim=True)]
    while len(written) < n:
        logits, cache = model(written[-1], prompt.shape[1] + len(written) - 1, cache)
        written.append(logits[:, -1].argmax(dim=-1, keepdim=True))
    return torch.cat(written, dim=1)


def change_of_old_outputs(
    layer: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"], new: Float[Tensor, "1 d"]
) -> Float[Tensor, ""]:
    """max |layer([x; new])[:n] − layer(x)|: how much the outputs of n old tokens change when one is added."""
    return (layer(torch.cat([x, new]))[: len(x)] - layer(x)).abs().max()
