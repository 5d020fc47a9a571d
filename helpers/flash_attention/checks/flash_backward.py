"""Checks of the tiled backward pass, and of the `torch.autograd.Function` that joins it to the forward pass."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, sized
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.observe import Observation
from helpers.engine.slips import NO_FUSED_ATTENTION

from .. import flash
from .flash import (
    climbing_scores,
    heads_split,
    levelled_scores,
    row_piles_up,
    score_count,
    square_made,
    stripe_made,
    tiled_with_slip,
    tiles_pile_up,
)

__all__ = ["flash_attention_backward"]

# ------------------------------------------------------------------------------------------------------------- inputs


def after_forward(label: str, *, batch=(), n: int, m: int, d: int = 4, d_v: int = 3, causal=False, block_q: int, block_k: int,
                   dtype=torch.float64, climb: float = 0.0, ahead: float = 0.0, **limits) -> Case:  # fmt: skip
    """A case of the backward pass: random q, k, v and grad_out, and the output and logsumexp that belong to them.

    ahead: what the last key scores, for all queries but the last."""

    def draw(_, generator: Generator) -> tuple:
        shapes = [(*batch, n, d), (*batch, m, d), (*batch, m, d_v), (*batch, n, d_v)]
        q, k, v, grad_out = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
        if climb:
            q, k = (x.make(generator).double() for x in climbing_scores(n, m, climb)[:2])
        if ahead:
            towards = lambda i, j: (1.0 * (i < n - 1), ahead * (j == m - 1))
            q, k = (x.make(generator).double() for x in levelled_scores((n, 4), m, d_v, towards)[:2])
        out, lse = flash.flash_attention_forward(q, k, v, causal)
        return *(x.to(dtype) for x in (q, k, v, out, lse, grad_out)), causal, block_q, block_k

    return Case(label, draw, **limits)


def counted_backward(n: int, m: int, d: int, d_v: int, block_q: int, block_k: int, causal: bool = False) -> Case:
    """Many tiles, in long rows or columns. Twice the largest input is enough for every tensor, and less than one row (or column) of tiles for
    all that is held at one time."""
    return after_forward(f"{'causal, ' * causal}n = {n}, m = {m}, tiles of {block_q} × {block_k}: counted",
                          n=n, m=m, d=d, d_v=d_v, causal=causal, block_q=block_q, block_k=block_k,
                          max_flops=8 * n * m * 2 * (d + d_v), max_elements=2 * max(n, m) * max(d, d_v),
                          max_living=3 * max(block_q * m, block_k * n) // 4)  # fmt: skip


# -------------------------------------------------------------------------------------------------- the slips, in tiles


def _weights(q, k, lse, rows, columns, causal, slip) -> Tensor:
    """The tile's weights, made again from the logsumexp, with one thing wrong."""
    scale = 1.0 if slip == "scores not scaled" else q.shape[-1] ** -0.5
    s = scale * q[..., rows, :] @ k[..., columns, :].mT
    i, j = torch.arange(rows.start, rows.stop)[:, None], torch.arange(columns.start, columns.stop)
    offset = k.shape[-2] - q.shape[-2]
    hidden = j > i + offset
    if slip == "aligned per tile":
        hidden = j - columns.start > i - rows.start
    if slip == "offset turned round":
        hidden = j > i - offset
    if slip == "offset never negative":
        hidden = j > i + max(offset, 0)
    if slip == "down from the key's number":
        hidden = hidden | (i < columns.start)
    if causal and slip == "hidden times 0":
        return torch.exp(s - lse[..., rows, None].masked_fill(lse[..., rows, None] == -math.inf, 0.0)) * ~hidden
    if causal and slip != "not causal":
        s = s.masked_fill(hidden, -math.inf)
    if slip == "softmax per tile":
        return s.softmax(-1).nan_to_num(0.0)
    if slip == "no lse":
        return torch.exp(s - s.amax(-1, keepdim=True).clamp_min(-1e30))
    row = lse[..., rows, None]
    return torch.exp(s - (row if slip.startswith("−∞ − −∞") else row.masked_fill(row == -math.inf, math.inf)))


def _delta(out, grad_out, slip) -> Tensor:
    """D, with one thing wrong."""
    product = grad_out * out
    if slip == "no D":
        return torch.zeros_like(product[..., :1])
    if slip == "D of dO":
        return grad_out.sum(-1, keepdim=True)
    if slip == "D of O":
        return (out * out).sum(-1, keepdim=True)
    if slip == "mean":
        return product.mean(-1, keepdim=True)
    return -product.sum(-1, keepdim=True) if slip == "D added" else product.sum(-1, keepdim=True)


def _tiled(q, k, v, out, lse, grad_out, causal, block_q, block_k, slip="") -> tuple[Tensor, Tensor, Tensor]:
    """The tiled backward pass with one thing wrong, by the name of the slip."""
    n, m, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    dq, dk, dv, delta = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), _delta(out, grad_out, slip)
    keys = m // block_k * block_k if slip == "short tile lost" else m
    dv = torch.zeros_like(k) if slip == "dV like k" else dv
    for i in range(0, n, block_q):
        rows = slice(i, min(i + block_q, n))
        reach = {"ends at the last position": rows.stop - 1 + m - n, "−∞ − −∞, skipping": rows.stop + m - n}
        for j in range(0, min(keys, reach.get(slip, keys)) if causal else keys, block_k):
            columns = slice(j, min(j + (block_q if slip == "keys cut with block_q" else block_k), keys))
            p = _weights(q, k, lse, rows, columns, causal, slip)
            dp = grad_out[..., rows, :] @ v[..., columns, :].mT
            d_row = (dp * p).sum(-1, keepdim=True) if slip == "D of one tile" else delta[..., rows, :]
            ds = {"dP": dp, "P": p, "dS without P": dp - d_row}.get(slip, p * (dp - d_row))
            to_dv = ds if slip == "dV from dS" else p
            add_q = (1.0 if slip in ("dq not scaled", "not scaled") else scale) * ds @ k[..., columns, :]
            to_dk = ds if slip == "dK not transposed" else ds.mT
            add_k = (
                {"dk not scaled": 1.0, "not scaled": 1.0, "dk scaled twice": scale**2}.get(slip, scale)
                * to_dk
                @ q[..., rows, :]
            )
            add_v = (to_dv if slip == "dV not transposed" else to_dv.mT) @ grad_out[..., rows, :]
            dq[..., rows, :] = add_q + (0.0 if slip == "dq overwritten" else dq[..., rows, :])
            dk[..., columns, :] = add_k + (
                0.0 if slip in ("dk overwritten", "dk alone overwritten") else dk[..., columns, :]
            )
            if slip == "dV like k":
                dv[..., columns, :] += add_v
                continue
            dv[..., columns, :] = add_v + (
                0.0 if slip in ("dk overwritten", "dv alone overwritten") else dv[..., columns, :]
            )
    return dq, dk, dv


def in_float32(*args) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(x.float() for x in _tiled(*args))


def _tiles_below(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor, Tensor]:
    """Of each tile of keys the tiles of queries from that on in which the query of the same number is."""
    starts = torch.arange(0, k.shape[-2], block_k) // block_q * block_q
    first = starts.repeat_interleave(block_k)[: k.shape[-2]]
    seen = torch.arange(q.shape[-2])[:, None] >= first
    seen = seen & (torch.arange(k.shape[-2]) <= torch.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2])
    p = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - lse.nan_to_num(neginf=0.0)[..., None])
    p = torch.where(seen, p, 0.0) if causal else p
    ds = p * (grad_out @ v.mT - (grad_out * out).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ grad_out


def tiles_of_a_row_kept(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64) -> tuple:
    """All tiles of weights that a tile of queries meets, then the walk over them."""
    n, m = q.shape[-2], k.shape[-2]
    dq, dk, dv, delta = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), _delta(out, grad_out, "")
    for i in range(0, n, block_q):
        rows = slice(i, min(i + block_q, n))
        places = [slice(j, min(j + block_k, m)) for j in range(0, m, block_k)]
        tiles = [_weights(q, k, lse, rows, columns, causal, "") for columns in places]
        for columns, p in zip(places, tiles):
            ds = p * (grad_out[..., rows, :] @ v[..., columns, :].mT - delta[..., rows, :]) * q.shape[-1] ** -0.5
            dq[..., rows, :] += ds @ k[..., columns, :]
            dk[..., columns, :] += ds.mT @ q[..., rows, :]
            dv[..., columns, :] += p.mT @ grad_out[..., rows, :]
    return dq, dk, dv


def tiles_of_weights_kept(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64) -> tuple:
    """All tiles of weights first, and the walk afterwards."""
    n, m = q.shape[-2], k.shape[-2]
    places = [
        (slice(i, min(i + block_q, n)), slice(j, min(j + block_k, m)))
        for i in range(0, n, block_q)
        for j in range(0, m, block_k)
    ]
    tiles = [_weights(q, k, lse, rows, columns, causal, "") for rows, columns in places]
    dq, dk, dv, delta = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), _delta(out, grad_out, "")
    for (rows, columns), p in zip(places, tiles):
        ds = p * (grad_out[..., rows, :] @ v[..., columns, :].mT - delta[..., rows, :]) * q.shape[-1] ** -0.5
        dq[..., rows, :] += ds @ k[..., columns, :]
        dk[..., columns, :] += ds.mT @ q[..., rows, :]
        dv[..., columns, :] += p.mT @ grad_out[..., rows, :]
    return dq, dk, dv


DOWN_HINT = (
    "Your walk down the queries begins at the number of the tile's first key. With m > n earlier queries see it too: query i stands at i + (m − n), so "
    "key j is seen from query j − (m − n) on."
)

backward = Check(
    reference=flash.flash_attention_backward,
    names=("dQ", "dK", "dV"),
    cases=[
        after_forward("n = 4, m = 9, tiles of 2 × 3", n=4, m=9, d=5, d_v=2, block_q=2, block_k=3),
        heads_split(after_forward("2×3 sequences, n = 5, m = 3, tiles of 3 × 2: ragged", batch=(2, 3), n=5, m=3, d=3, d_v=6, block_q=3, block_k=2)),
        after_forward("everything square", n=8, m=8, d=4, d_v=4, block_q=4, block_k=4),
        after_forward("causal, n = m = 7, tiles of 4 × 3", batch=(2,), n=7, m=7, causal=True, block_q=4, block_k=3),
        after_forward("causal, the last 6 of 13 positions", n=6, m=13, d=3, d_v=5, causal=True, block_q=4, block_k=5),
        after_forward("causal, 7 queries, 5 keys: rows that see nothing", n=7, m=5, causal=True, block_q=3, block_k=2),
        after_forward("causal, 8 queries, 3 keys: a whole tile of queries sees nothing", n=8, m=3, d=5, d_v=6, causal=True, block_q=4, block_k=2),
        after_forward("scores that climb and fall by 2 a key, float32", n=4, m=7, block_q=4, block_k=3, climb=2.0, dtype=torch.float32),
        after_forward("causal, a last key that scores 200, float32", n=6, m=8, block_q=4, block_k=3, causal=True, ahead=200.0, dtype=torch.float32),
        counted_backward(200, 200, 2, 2, 50, 7, causal=True), counted_backward(200, 200, 2, 2, 7, 50),
    ],
    misconceptions=[
        Misconception(
            "D forgotten",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "no D"
            ),
            "Raising one score lowers all other weights of its row. That is what D takes off: dS = P ∘ (dP − D).",
        ),
        Misconception(
            "D added instead of taken off",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "D added"
            ),
            "Every row of dS sums to 0, since the softmax doesn't change when a number is added to all scores. That needs dP − D.",
        ),
        Misconception(
            "D from the gradient alone",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "D of dO"
            ),
            "D is the sum of dO ∘ O along a row: gradient and output, entry by entry.",
        ),
        Misconception(
            "D from the output alone",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "D of O"
            ),
            "D is the sum of dO ∘ O along a row: gradient and output, entry by entry.",
        ),
        Misconception(
            "D as a mean",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "mean"
            ),
            "D is a dot product of two rows, dO and O: a sum over d_v terms, and not their mean.",
        ),
        Misconception(
            "D from one tile alone",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "D of one tile"
            ),
            "The row sum of dP ∘ P runs over all keys, and a tile holds only some. rowsum(dO ∘ O) is the same number, and known beforehand.",
        ),
        Misconception(
            "scale missing in dQ",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dq not scaled"
            ),
            "The scores are q kᵀ / √d, so that a change of q reaches them divided by √d. dK has the factor already. (The paper of "
            "FlashAttention-2 leaves it out.)",
        ),
        Misconception(
            "scale missing in dK",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk not scaled"
            ),
            "The scores are q kᵀ / √d, so that a change of k reaches them divided by √d. dQ has the factor already.",
        ),
        Misconception(
            "scale missing in dQ and dK",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "not scaled"
            ),
            "dS is the gradient of the *scaled* scores. On the way to q and k it passes the factor 1/√d. (The paper of FlashAttention-2 leaves "
            "it out.)",
        ),
        Misconception(
            "scale twice in dK",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk scaled twice"
            ),
            "If the queries were scaled when the tile was loaded, dSᵀ q has its 1/√d already.",
        ),
        Misconception(
            "no scale in the scores made again",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "scores not scaled"
            ),
            "P = exp(S − lse) with the same S as on the way forward, divided by √d: lse was taken of those.",
        ),
        Misconception(
            "transposed dK",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dK not transposed"
            ),
            "Row j of dK collects from all queries: column j of dS. So dK = dSᵀ Q, where dQ = dS K.",
            raises="RuntimeError",
        ),
        Misconception(
            "transposed dV",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dV not transposed"
            ),
            "Row j of dV collects from all queries that read value j: column j of P. So dV = Pᵀ dO.",
            raises="RuntimeError",
        ),
        Misconception(
            "dV from dS",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dV from dS"
            ),
            "The output is P V, so the values' gradient is Pᵀ dO: weights, not gradients of scores.",
        ),
        Misconception(
            "the softmax left out in the backward pass",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dP"
            ),
            "dP is the gradient of the weights. The scores come before the softmax: dS = P ∘ (dP − D).",
        ),
        Misconception(
            "P in place of dS",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "P"
            ),
            "P mixes values on the way forward. What goes back to q and k is dS = P ∘ (dP − D).",
        ),
        Misconception(
            "dS without P",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dS without P"
            ),
            "A score with no weight has no influence: each entry of dP − D counts by its weight, dS = P ∘ (dP − D).",
        ),
        Misconception(
            "weights normalised again in each tile",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "softmax per tile"
            ),
            "A softmax of one tile knows nothing of the others. The logsumexp of the whole row does: P = exp(S − lse).",
        ),
        Misconception(
            "exponentials without the logsumexp",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "no lse"
            ),
            "With the tile's own maximum the exponentials are not weights yet. P = exp(S − lse), and they sum to 1 over the row.",
        ),
        Misconception(
            "dQ overwritten by each tile",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dq overwritten"
            ),
            "A query gets gradients from every tile of keys: add them up.",
        ),
        Misconception(
            "dK and dV overwritten by each tile",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk overwritten"
            ),
            "A key and its value get gradients from every tile of queries: add them up.",
        ),
        Misconception(
            "dK overwritten by each tile",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk alone overwritten"
            ),
            "A key gets gradients from every tile of queries: add them up, as you do for dV.",
        ),
        Misconception(
            "dV overwritten by each tile",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dv alone overwritten"
            ),
            "A value gets gradients from every tile of queries: add them up, as you do for dK.",
        ),
        Misconception(
            "tiles of keys cut with block_q",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "keys cut with block_q"
            ),
            "The walk over the keys goes in steps of block_k, and each of its tiles has block_k keys. With block_q some are counted twice or left out.",
        ),
        Misconception(
            "hidden weights multiplied by 0",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "hidden times 0"
            ),
            "exp(S − lse) of a hidden pair can be infinite, and ∞ · 0 is NaN. Hide before the exponential: S = −∞ gives the weight 0.",
        ),
        Misconception(
            "the offset turned round",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "offset turned round"
            ),
            "Query i stands at position i + (m − n), and not at i + (n − m), as on the way forward.",
        ),
        Misconception(
            "an offset that is never negative",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "offset never negative"
            ),
            "With n > m the offset m − n is negative, and that is right: the first queries stand before all keys and see nothing.",
        ),
        Misconception(
            "causal ignored in the backward pass",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "not causal"
            ),
            "Scores that were hidden on the way forward have weight 0 now as well: set them to −∞ before exp(S − lse).",
        ),
        Misconception(
            "causal mask aligned per tile",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "aligned per tile"
            ),
            "Your mask starts a new diagonal in each tile. What counts are the positions in the sequence, as on the way forward.",
        ),
        Misconception(
            "minus −∞",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "−∞ − −∞"
            ),
            "The logsumexp of a row that saw nothing is −∞, and exp(S − (−∞)) is not 0. All weights of that row are 0.",
        ),
        Misconception(
            "minus −∞ in the tiles that are visited",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "−∞ − −∞, skipping"
            ),
            "The logsumexp of a row that saw nothing is −∞, and exp(S − (−∞)) is not 0. All weights of that row are 0.",
        ),
        Misconception(
            "the last position taken for the end",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "ends at the last position"
            ),
            "The key at the last query's own position is seen too, so the walk over the keys ends one further on: `range` leaves its end out.",
        ),
        Misconception(
            "dV made like K",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dV like k"
            ),
            "dV has the shape of V, and V may be wider or narrower than K.",
            raises="RuntimeError",
        ),
        Misconception(
            "the last short tile lost",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "short tile lost"
            ),
            "m need not be a multiple of block_k. The last tile of keys is shorter, and its keys have gradients too.",
        ),
        Misconception(
            "a secret n × m matrix",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, q.shape[-2], k.shape[-2]
            ),
            "A tensor with an entry for each of the n · m pairs stood in memory: all weights, or a mask for all of them. Make one tile at a time, "
            "weights from lse and mask from positions, use it up, and go on.",
            cost=square_made,
        ),
        Misconception(
            "all keys of a stripe at once",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, k.shape[-2]
            ),
            "A tile of one side met all of the other at once: its weights, or a mask for them. They grow with the sequence and no longer fit on chip.",
            cost=stripe_made,
        ),
        Misconception(
            "all tiles of weights kept", tiles_of_weights_kept,
            "No tensor is larger than a tile, but you keep the tiles, and all tiles together are the n × m weights again. Use a tile up before the "
            "next one is made.",
            cost=tiles_pile_up,
        ),
        Misconception(
            "the tiles of a row kept", tiles_of_a_row_kept,
            "No tensor is larger than a tile, but you keep tiles until a whole row or column of them is there, and that grows with the sequence. Use a tile "
            "up before the next one is made: D and the logsumexp are all that it needs of the others.",
            cost=row_piles_up,
        ),
        Misconception(
            "gradients in float32 whatever goes in", in_float32,
            "`torch.zeros` makes float32 tensors unless told otherwise, and float64 gradients are rounded. They have the dtype of the inputs: "
            "`torch.zeros_like(q)`.",
        ),
        Misconception(
            "down from the query that has the key's number",
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "down from the key's number"
            ),
            DOWN_HINT,
        ),
        Misconception(
            "down from the tile of queries that has the key's number", _tiles_below,
            DOWN_HINT,
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

# --------------------------------------------------------------------------------- forward and backward as one operation


def _attention(q, k, v, causal) -> tuple[Tensor, Tensor]:
    """Weights, output and logsumexp as a whole; rows that see nothing are 0."""
    n, m = q.shape[-2], k.shape[-2]
    hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1) & torch.tensor(causal)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0), scores.logsumexp(-1)


def _gradients(q, k, v, grad_out, causal, slip="") -> tuple[Tensor, Tensor, Tensor]:
    p, _ = _attention(q, k, v, causal and slip != "not causal")
    if slip == "causal lost":  # the logsumexp is that of the causal rows
        lse = _attention(q, k, v, causal)[1].nan_to_num(neginf=0.0)
        p = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - lse[..., None])
    dp, scale = grad_out @ v.mT, q.shape[-1] ** -0.5
    delta = 0.0 if slip == "no D" else (p * dp).sum(-1, keepdim=True)
    ds = p * (dp - delta) * (1.0 if slip == "not scaled" else scale)
    return ds @ k, ds.mT @ q, p.mT @ grad_out


def _with_slip(q, k, v, causal, slip) -> Tensor:
    """Right values; in the backward pass something is wrong."""

    class Slipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v) -> Tensor:
            ctx.save_for_backward(q, k, v)
            if slip == "tiled forward":
                return flash.flash_attention_forward(q, k, v, causal)[0]
            return _attention(q, k, v, causal and slip != "not causal at all")[0] @ v

        @staticmethod
        def backward(ctx, grad_out):
            grad_out = torch.ones_like(grad_out) if slip == "ones" else grad_out
            if slip == "causal lost, empty rows known":
                seen = flash.flash_attention_forward(*ctx.saved_tensors, causal)
                return flash.flash_attention_backward(*ctx.saved_tensors, *seen, grad_out, False)
            if slip == "causal lost":
                return flash.flash_attention_backward(
                    *ctx.saved_tensors, *_seen_causally(ctx.saved_tensors, causal), grad_out, False
                )
            dq, dk, dv = _gradients(*ctx.saved_tensors, grad_out, causal, slip)
            kept = {
                "values alone": (None, None, dv),
                "order": (dk, dq, dv),
                "too few": (dq, dk),
                "queries alone": (dq, None, None),
            }
            return kept.get(slip, (dq, dk, dv))

    return Slipped.apply(q, k, v)


def _seen_causally(saved, causal) -> tuple[Tensor, Tensor]:
    """Output and logsumexp of the forward pass; 0 for the logsumexp of a row that saw nothing, as in most ways to write it."""
    out, lse = flash.flash_attention_forward(*saved, causal)
    return out, lse.nan_to_num(neginf=0.0)


def _kept_on_the_class(*elsewhere: str, unseen_0: bool = False) -> Callable:
    """Right but for where some of what the backward pass needs is kept: on the class, where the next call overwrites it.

    unseen_0: the backward pass takes 0 for the logsumexp of a row that saw nothing, as most do."""

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal) -> Tensor:
            out, lse = flash.flash_attention_forward(q, k, v, causal)
            lse = lse.masked_fill(lse == -math.inf, 0.0) if unseen_0 else lse
            for name, value in {"inputs": (q, k, v), "sums": (out, lse), "causal": causal}.items():
                setattr(Kept if name in elsewhere else ctx, name, value)
            return out

        @staticmethod
        def backward(ctx, grad_out):
            inputs, sums, causal = (
                getattr(Kept if name in elsewhere else ctx, name) for name in ("inputs", "sums", "causal")
            )
            return *flash.flash_attention_backward(*inputs, *sums, grad_out, causal), None

    return lambda q, k, v, causal=False: Kept.apply(q, k, v, causal)


def _large_square_made(seen: Observation) -> bool:
    """Whether a tensor of n × m elements was made where that is more than any tile has."""
    q, k = seen.args[:2]
    return seen.largest >= q.shape[-2] * k.shape[-2] > 2 * flash.TILE**2


def cut_off(q, k, v, causal=False) -> Tensor:
    return _attention(q.detach(), k.detach(), v.detach(), causal)[0] @ v.detach()


def with_gradients(label: str, **sizes) -> Case:
    return sized(f"gradients, {label}", dtype=torch.float64, gradient=True, **sizes)


def long_gradients(n: int, m: int, causal: bool) -> Case:
    """Tiles up to half of n × m are welcome, forward and backward; kept for the backward pass are the output and a number a row."""
    words = f"n = {n}, m = {m}{', causal' * causal}: no n × m matrix"
    half = n * m // 2
    return sized(words, n=n, m=m, d=4, d_v=3, causal=causal, dtype=torch.float64, gradient=True,
                 max_elements=half, max_saved=half, max_backward_elements=half)  # fmt: skip


def _weights_kept(seen: Observation) -> bool:
    """Whether as many numbers were kept for the backward pass as there are weights."""
    return not _large_square_made(seen) and seen.saved >= score_count(seen)


def _dense_way_back(seen: Observation) -> bool:
    """Whether all weights stood in memory at once in the backward pass, and only there."""
    return not _large_square_made(seen) and seen.saved < score_count(seen) <= seen.backward_largest


def tiles_left_to_autograd(q, k, v, causal=False) -> Tensor:
    return tiled_with_slip(q, k, v, causal, flash.TILE, flash.TILE)[0]


OF_ONE_CALL = (
    "What one call needs in its backward pass belongs to that call: `ctx.save_for_backward(…)`, and `ctx.causal = causal`. On the class, or in a "
    "global, a second call overwrites what the first one kept."
)

flash_attention = Check(
    reference=flash.flash_attention,
    cases=[
        with_gradients("2×3 sequences, n = 5, m = 7", batch=(2, 3), n=5, m=7, d=4, d_v=3, causal=False),
        with_gradients("everything square", n=6, m=6, d=6, d_v=6, causal=False),
        with_gradients("causal, the last 4 of 9 positions", batch=(2,), n=4, m=9, d=3, d_v=5, causal=True),
        with_gradients("causal, 8 queries, 5 keys", n=8, m=5, d=4, d_v=3, causal=True),
        with_gradients("several tiles, n = 75, m = 140, causal", n=75, m=140, d=4, d_v=3, causal=True),
        long_gradients(400, 500, causal=False),
    ],
    misconceptions=[
        Misconception(
            "D forgotten", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "no D"),
            "Raising one score lowers all other weights of its row. That is what D takes off: dS = P ∘ (dP − D).",
        ),
        Misconception(
            "scale missing in dQ and dK", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "not scaled"),
            "dS is the gradient of the *scaled* scores. On the way to q and k it passes the factor 1/√d.",
        ),
        Misconception(
            "causal forgotten in the backward pass", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "not causal"),
            "`backward` gets the gradient and `ctx`, nothing else. What it must know of the way forward is kept there: `ctx.causal = causal`.",
        ),
        Misconception(
            "the incoming gradient ignored", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "ones"),
            "`backward` gets dO, the gradient of what comes after. Yours are the gradients of the plain sum of the output.",
        ),
        Misconception(
            "gradients in the wrong order", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "order"),
            "`backward` returns one gradient for every input of `forward`, in the same order: dq, dk, dv, and None for causal.",
            raises="RuntimeError",
        ),
        Misconception(
            "a gradient too few", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "too few"),
            "`backward` returns one gradient for every input of `forward`, with None for those that have no gradient, such as causal.",
            raises="RuntimeError",
        ),
        Misconception(
            "gradients for the values alone", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "values alone"),
            "The weights depend on q and k, so these have gradients too: return dq and dk in place of None.",
        ),
        Misconception(
            "gradients for the queries alone", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "queries alone"),
            "Keys and values are inputs like the queries, and have gradients too: return dk and dv in place of None.",
        ),
        Misconception(
            "cut off from the gradient", cut_off,
            "The graph ends here: nothing before this could be trained. Call the function through "
            "`FlashAttention.apply(…)`, not through its `forward`.",
        ),
        Misconception(
            "causal ignored", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "not causal at all"),
            "causal=True has to reach the forward pass: hand it on to `apply`.",
        ),
        Misconception(
            "a secret n × m matrix", lambda q, k, v, causal=False: _attention(q, k, v, causal)[0] @ v,
            "All n · m weights stood in memory at once. Use the tiled passes.",
            cost=_large_square_made,
        ),
        Misconception(
            "tiles that autograd differentiates", tiles_left_to_autograd,
            "Autograd keeps the weights of every tile, and all tiles together are n · m numbers. Keep q, k, v, the output and lse, and make the "
            "weights again in the backward pass: that is what the `autograd.Function` is for.",
            cost=_weights_kept,
        ),
        Misconception(
            "causal lost between forward and backward", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "causal lost"),
            "`backward` gets the gradient and `ctx`, nothing else. Keep `ctx.causal = causal` on the way forward, and hand it to your backward pass.",
        ),
        Misconception(
            "causal lost between forward and backward, but for rows that see nothing",
            lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "causal lost, empty rows known"),
            "The forward pass hides the later keys, and the backward pass of the same call doesn't: keep `causal` in `ctx` and hand it on.",
        ),
        Misconception(
            "tiles forward, a full matrix in the backward pass", lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "tiled forward"),
            "`backward` makes all n · m weights again at once. It needs them tile by tile only: call your tiled backward pass.",
            cost=_dense_way_back,
        ),
        Misconception(
            "tensors kept on the class", _kept_on_the_class("inputs", "sums"), OF_ONE_CALL,
        ),
        Misconception(
            "tensors and `causal` kept on the class", _kept_on_the_class("inputs", "sums", "causal"), OF_ONE_CALL,
        ),
        Misconception(
            "output and logsumexp kept on the class", _kept_on_the_class("sums"), OF_ONE_CALL,
        ),
        Misconception(
            "`causal` kept on the class", _kept_on_the_class("causal"), OF_ONE_CALL,
        ),
        Misconception(
            "`causal` kept on the class, and 0 for the logsumexp of rows that see nothing", _kept_on_the_class("causal", unseen_0=True), OF_ONE_CALL,
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

flash_attention_backward = CheckGroup("flash_attention_backward", backward, flash_attention)
