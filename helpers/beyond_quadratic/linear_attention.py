"""Attention without a softmax: with features φ(q)·φ(k) instead, brackets can be moved (Katharopoulos et al., 2020).

One function in three forms: all tokens at once, a recurrence with a state of fixed size, and chunks that mix the two.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def feature_map(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """φ(x) = elu(x) + 1, positive everywhere (Katharopoulos et al., 2020, equation 7)."""
    return F.elu(x) + 1


def linear_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], v: Float[Tensor, "*batch m d_v"]
) -> Float[Tensor, "*batch n d_v"]:
    """φ(q) (φ(k)ᵀ v) / (φ(q) · Σ φ(k)): O((n + m) d d_v) (Katharopoulos et al., 2020, equation 5)."""
    q, k = feature_map(q), feature_map(k)
    state, total = k.mT @ v, k.sum(-2, keepdim=True)  # (*batch, d, d_v), (*batch, 1, d)
    return q @ state / (q * total).sum(-1, keepdim=True)


def _empty(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The state (*batch, d, d_v) and the normaliser (*batch, 1, d) of no tokens."""
    return k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), k.new_zeros(*k.shape[:-2], 1, k.shape[-1])


def recurrent_linear_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"]
) -> Float[Tensor, "*batch n d_v"]:
    """The causal form as an RNN: token t adds φ(k_t)ᵀ v_t to a state and reads it (Katharopoulos et al., 2020, 3.4)."""
    q, k = feature_map(q), feature_map(k)
    state, total, outputs = *_empty(k, v), []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        state, total = state + k_t.mT @ v_t, total + k_t
        outputs.append(q_t @ state / (q_t * total).sum(-1, keepdim=True))
    return torch.cat(outputs, dim=-2)


def chunked_linear_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch n d"], v: Float[Tensor, "*batch n d_v"], c: int
) -> Float[Tensor, "*batch n d_v"]:
    """The causal form in chunks of c: a c × c triangle inside a chunk, the state between chunks (Hua et al., 2022)."""
    q, k = feature_map(q), feature_map(k)
    state, total, outputs = *_empty(k, v), []
    for q_c, k_c, v_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2)):
        scores = (q_c @ k_c.mT).tril()  # (*batch, c, c): the earlier tokens of the chunk, and the token itself
        size = (q_c * total).sum(-1, keepdim=True) + scores.sum(-1, keepdim=True)
        outputs.append((q_c @ state + scores @ v_c) / size)
        state, total = state + k_c.mT @ v_c, total + k_c.sum(-2, keepdim=True)
    return torch.cat(outputs, dim=-2)
