"""Attention in tiles: the n × m scores are never stored (FlashAttention, Dao et al., 2022; FlashAttention-2, Dao,
2023).

m_i, l_i and acc are the running maximum, sum and output of a tile of queries, lse = m_i + log l_i the logsumexp of a
row of scaled scores. With `causal` the n queries are the last n of the m positions. A row that sees no key: output 0,
lse −∞.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .online import finite

TILE = 256  # rows and columns of a tile of scores: on a CPU small enough for the cache, large enough for fast products


def tiles(length: int, block: int) -> list[slice]:
    """0 … length − 1 in blocks; the last may be shorter."""
    return [slice(start, min(start + block, length)) for start in range(0, length, block)]


def keys_in_reach(rows: slice, n: int, m: int, causal: bool) -> int:
    """How many keys the queries of a tile see together: if causal the first rows.stop + m − n, by the last query."""
    return max(0, rows.stop + m - n) if causal else m


def causal_tiles(n: int, m: int, block_q: int, block_k: int) -> int:
    """Tiles with a pair j ≤ i + m − n: those that a causal pass visits, about half of all (Dao, 2023, 3.1.1)."""
    return sum(len(tiles(keys_in_reach(rows, n, m, causal=True), block_k)) for rows in tiles(n, block_q))


@torch.no_grad()
def flash_attention_forward(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    causal: bool = False,
    block_q: int = TILE,
    block_k: int = TILE,
) -> tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n"]]:
    """softmax(q kᵀ / √d) v and the logsumexp of each row of q kᵀ / √d (Dao, 2023, algorithm 1).

    The largest tensors are the output and one tile of scores, (*batch, block_q, block_k). Cuts the graph:
    `flash_attention` is the function that can be differentiated.
    """
    n, m = q.shape[-2], k.shape[-2]
    out, lse = q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(q.shape[:-1])
    for rows in tiles(n, block_q):
        scaled = q[..., rows, :] / math.sqrt(q.shape[-1])  # d numbers a row instead of m
        m_i, l_i, acc = _nothing_seen(out[..., rows, :])
        for columns in tiles(keys_in_reach(rows, n, m, causal), block_k):
            scores = _hide(scaled @ k[..., columns, :].mT, rows, columns, m - n, causal)
            m_i, l_i, acc = _update(m_i, l_i, acc, scores, v[..., columns, :])
        out[..., rows, :] = acc / l_i.masked_fill(l_i == 0, 1.0)  # a row that saw nothing stays 0
        lse[..., rows] = (m_i + l_i.log()).squeeze(-1)
    return out, lse


def _nothing_seen(out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """m_i, l_i, acc of a tile of queries before any tile of keys: twice (*batch, rows, 1), (*batch, rows, d_v)."""
    column = (*out.shape[:-1], 1)
    return out.new_full(column, -math.inf), out.new_zeros(column), torch.zeros_like(out)


def _update(m_i: Tensor, l_i: Tensor, acc: Tensor, scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One tile of keys: what was gathered is rescaled to the new maximum. Overwrites `scores`, the one large tensor."""
    m_new = torch.maximum(m_i, scores.amax(-1, keepdim=True))
    shift = finite(m_new)
    alpha = torch.exp(m_i - shift)
    p = scores.sub_(shift).exp_()
    return m_new, alpha * l_i + p.sum(-1, keepdim=True), alpha * acc + p @ v


def _hide(scores: Tensor, rows: slice, columns: slice, offset: int, causal: bool) -> Tensor:
    """−∞ where key j > query i + offset. Only a tile that the diagonal crosses needs it."""
    diagonal = (
        rows.start + offset - columns.start
    )  # of the tile: entry (0, diagonal) is the last that its first query sees
    if not causal or diagonal >= scores.shape[-1] - 1:
        return scores
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(diagonal + 1)
    return scores.masked_fill_(hidden, -math.inf)


@torch.no_grad()
def flash_attention_backward(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    out: Float[Tensor, "*batch n d_v"],
    lse: Float[Tensor, "*batch n"],
    grad_out: Float[Tensor, "*batch n d_v"],
    causal: bool = False,
    block_q: int = TILE,
    block_k: int = TILE,
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch m d"], Float[Tensor, "*batch m d_v"]]:
    """Gradients (dq, dk, dv): weights are made again as exp(S − lse), tile by tile (Dao, 2023, algorithm 2, plus 1/√d).

    D = rowsum(dO ∘ O) stands for the row sums of dP ∘ P, which would need whole rows.
    """
    n, m, scale = q.shape[-2], k.shape[-2], 1 / math.sqrt(q.shape[-1])
    delta = (grad_out * out).sum(-1, keepdim=True)  # D, (*batch, n, 1)
    lse = lse.masked_fill(lse == -math.inf, math.inf)[
        ..., None
    ]  # of a row that saw nothing all weights are exp(−∞) = 0
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows in tiles(n, block_q):
        q_i, do_i, lse_i, delta_i = (x[..., rows, :] for x in (q, grad_out, lse, delta))
        for columns in tiles(keys_in_reach(rows, n, m, causal), block_k):
            k_j, v_j = k[..., columns, :], v[..., columns, :]
            p = _hide(scale * q_i @ k_j.mT, rows, columns, m - n, causal).sub_(lse_i).exp_()
            ds = (do_i @ v_j.mT).sub_(delta_i).mul_(p)
            dv[..., columns, :] += p.mT @ do_i
            dq[..., rows, :] += scale * (ds @ k_j)
            dk[..., columns, :] += scale * (ds.mT @ q_i)
    return dq, dk, dv


class FlashAttention(torch.autograd.Function):
    """Tiled forward and backward as one operation: q, k, v, out and lse are kept for the way back, and no weights."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        out, lse = flash_attention_forward(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        return *flash_attention_backward(*ctx.saved_tensors, grad_out, ctx.causal), None


def flash_attention(
    q: Float[Tensor, "*batch n d"],
    k: Float[Tensor, "*batch m d"],
    v: Float[Tensor, "*batch m d_v"],
    causal: bool = False,
) -> Float[Tensor, "*batch n d_v"]:
    """softmax(q kᵀ / √d) v with gradients, in memory that grows with n and not with n²."""
    return FlashAttention.apply(q, k, v, causal)


def flash_decoding(
    q: Float[Tensor, "*batch 1 d"], k: Float[Tensor, "*batch m d"], v: Float[Tensor, "*batch m d_v"], splits: int
) -> Float[Tensor, "*batch 1 d_v"]:
    """Attention of one query, its keys in `splits` parts, side by side (Flash-Decoding, Dao et al., 2023).

    Each part gives an output and a logsumexp; the parts are merged by these. Parts at the end may be short or empty.
    """
    m, size = k.shape[-2], -(-k.shape[-2] // splits)
    k, v = (F.pad(x, (0, 0, 0, splits * size - m)).unflatten(-2, (splits, size)) for x in (k, v))
    padding = torch.arange(splits * size, device=q.device).view(splits, 1, size) >= m
    scores = (q[..., None, :, :] @ k.mT / math.sqrt(q.shape[-1])).masked_fill(
        padding, -math.inf
    )  # (*batch, splits, 1, size)
    lse = scores.logsumexp(-1, keepdim=True)  # of each part: (*batch, splits, 1, 1)
    out = torch.exp(scores - finite(lse)) @ v  # of each part: (*batch, splits, 1, d_v)
    share = torch.exp(lse - finite(lse.logsumexp(-3, keepdim=True)))
    return (share * out).sum(-3)
