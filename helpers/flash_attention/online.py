"""The softmax in one pass: a running maximum, and a running sum that is rescaled whenever the maximum grows.

Parts of a row that were worked through apart are merged by their logsumexps. Both are exact: nothing is approximated.
A row of which nothing was seen has maximum and logsumexp −∞, sum 0 and output 0, and is the neutral element of both.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def online_softmax(x: Float[Tensor, "*batch n"], block: int) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """max x and Σ exp(x − max x) of every row, read once, in blocks (Milakov & Gimelshein, 2018, algorithm 3).

    The last block may be shorter. A row of −∞ gives (−∞, 0).
    """
    m_i, l_i = x.new_full(x.shape[:-1], -math.inf), x.new_zeros(x.shape[:-1])
    for part in x.split(block, dim=-1):
        m_new = torch.maximum(m_i, part.amax(-1))
        shift = finite(m_new)
        l_i = torch.exp(m_i - shift) * l_i + torch.exp(part - shift[..., None]).sum(-1)
        m_i = m_new
    return m_i, l_i


def finite(m_i: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """What to subtract before exp: the maximum, or 0 where it is −∞: −∞ − (−∞) is no number but exp(−∞ − 0) is 0."""
    return m_i.masked_fill(m_i == -math.inf, 0.0)


def merge_partials(
    out_a: Float[Tensor, "*batch n d"],
    lse_a: Float[Tensor, "*batch n"],
    out_b: Float[Tensor, "*batch n d"],
    lse_b: Float[Tensor, "*batch n"],
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch n"]]:
    """Attention over keys a and keys b from attention over each alone: (out, logsumexp) of both together.

    A part counts as much as its share e^lse of all exponentials (Dao et al., 2022, section 3.1; Flash-Decoding, 2023).
    """
    lse = torch.logaddexp(lse_a, lse_b)
    share_a, share_b = torch.exp(lse_a - finite(lse)), torch.exp(lse_b - finite(lse))
    return share_a[..., None] * out_a + share_b[..., None] * out_b, lse
