"""Attention of one head, as in "Attention Is All You Need" (Vaswani et al., 2017), section 3.2.1.

The references of unit 02. Each is checked in float64 against PyTorch's own operator where there is one.
"""

import math
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from .softmax import softmax


def attention_weights(query: Float[Tensor, "d"], keys: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
    """α = softmax(K q): how one query shares its attention out over n keys."""
    return softmax(keys @ query, dim=0)


def attend(
    query: Float[Tensor, "d"], keys: Float[Tensor, "n d"], values: Float[Tensor, "n d_v"]
) -> Float[Tensor, "d_v"]:
    """c = Σ α_i v_i: the values, mixed by the attention weights of one query."""
    return attention_weights(query, keys) @ values


def qkv_projections(
    x: Float[Tensor, "*batch n d"],
    w_q: Float[Tensor, "d d_k"],
    w_k: Float[Tensor, "d d_k"],
    w_v: Float[Tensor, "d d_v"],
) -> tuple[Float[Tensor, "*batch n d_k"], Float[Tensor, "*batch n d_k"], Float[Tensor, "*batch n d_v"]]:
    """Q = X W_Q, K = X W_K, V = X W_V: three views of the same tokens, a token a row."""
    return x @ w_q, x @ w_k, x @ w_v


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], v: Float[Tensor, "*batch m d_v"]
) -> Float[Tensor, "*batch n d_v"]:
    """softmax(q kᵀ / √d) v, for any leading axes (Vaswani et al., 2017, equation 1)."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (*batch, n, m)
    return softmax(scores, dim=-1) @ v  # (*batch, n, d_v)


def permutation_gap(
    layer: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"], p: Float[Tensor, "n n"]
) -> Float[Tensor, ""]:
    """max |layer(P X) − P layer(X)|: 0 for a layer that doesn't know the order of its tokens."""
    return (layer(p @ x) - p @ layer(x)).abs().max()


def parameter_counts(n: int, d: int) -> tuple[int, int, int, int, int]:
    """Weights and biases of the Q, K, V projections; attention weights; those of a dense n·d → n·d layer."""
    return 3 * d**2, 3 * d, n**2, (n * d) ** 2, n * d
