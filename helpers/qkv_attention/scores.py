"""Six ways to score a query against a key. Queries and keys are rows; entry (i, j) is query i against key j."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def cosine_score(q: Float[Tensor, "n d"], k: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """q·k / (‖q‖ ‖k‖), content-based: only directions count (Graves et al., 2014, equation 6)."""
    return (q / q.norm(dim=-1, keepdim=True)) @ (k / k.norm(dim=-1, keepdim=True)).mT


def additive_score(
    q: Float[Tensor, "n d_q"],
    k: Float[Tensor, "m d_k"],
    w_q: Float[Tensor, "d_q a"],
    w_k: Float[Tensor, "d_k a"],
    v: Float[Tensor, "a"],
) -> Float[Tensor, "n m"]:
    """tanh(q W_q + k W_k) · v: a small network with one hidden layer (Bahdanau et al., 2015, section A.1.2)."""
    hidden = torch.tanh((q @ w_q)[:, None] + (k @ w_k)[None])  # (n, m, a)
    return hidden @ v


def location_score(q: Float[Tensor, "n d"], w: Float[Tensor, "d m"]) -> Float[Tensor, "n m"]:
    """q W: the query alone says which position it wants; the keys aren't looked at (Luong et al., 2015, equation 8)."""
    return q @ w


def general_score(
    q: Float[Tensor, "n d_q"], w: Float[Tensor, "d_q d_k"], k: Float[Tensor, "m d_k"]
) -> Float[Tensor, "n m"]:
    """q W kᵀ: a learned bilinear form; q and k may differ in width (Luong et al., 2015, section 3.1)."""
    return q @ w @ k.mT


def dot_score(q: Float[Tensor, "n d"], k: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """q·k (Luong et al., 2015, section 3.1)."""
    return q @ k.mT


def scaled_dot_score(q: Float[Tensor, "n d"], k: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """q·k / √d: the spread of the scores doesn't depend on the width (Vaswani et al., 2017, section 3.2.1)."""
    return dot_score(q, k) / math.sqrt(q.shape[-1])


def score_variance(d: int, sigma: float) -> tuple[float, float, float]:
    """Mean and variance of q·k, and the variance of q·k / √d, for independent entries from N(0, σ²)."""
    return 0.0, d * sigma**4, sigma**4


def two_word_example() -> tuple[float, float]:
    """The weights of two words whose scores are 112 and 96, with d = 64."""
    first, second = torch.softmax(torch.tensor([112.0, 96.0]) / math.sqrt(64), dim=0).tolist()
    return first, second
