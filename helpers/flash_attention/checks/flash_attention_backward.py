"""Checks of the tiled backward pass, and of the `torch.autograd.Function` that joins it to the forward pass."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision
from helpers.engine.compare import TOLERANCE, agree
from helpers.engine.observe import Observation, observe
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import flash
from .flash import score_count, square_made, tiled_with_slip
from .flash_attention_forward import (
    climbing_scores,
    heads_split,
    levelled_scores,
    row_piles_up,
    stripe_made,
    tiles_pile_up,
)

__all__ = ["flash_attention_backward"]


def after_forward(
    label: str,
    *,
    batch=(),
    n: int,
    m: int,
    d: int = 4,
    d_v: int = 3,
    causal=False,
    block_q: int,
    block_k: int,
    dtype=torch.float64,
    climb: float = 0.0,
    ahead: float = 0.0,
    **limits,
) -> Case:
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
    return after_forward(
        f"{'causal, ' * causal}n = {n}, m = {m}, tiles of {block_q} × {block_k}: counted",
        n=n,
        m=m,
        d=d,
        d_v=d_v,
        causal=causal,
        block_q=block_q,
        block_k=block_k,
        max_flops=8 * n * m * 2 * (d + d_v),
        max_elements=2 * max(n, m) * max(d, d_v),
        max_living=3 * max(block_q * m, block_k * n) // 4,
    )


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
    if slip == "early tiles unmasked" and columns.start < rows.start + offset:
        hidden = torch.zeros_like(hidden)
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
            if slip == "down from the key's tile" and causal and i < j // block_q * block_q:
                continue
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


backward = Check(
    reference=flash.flash_attention_backward,
    names=("dQ: queries features", "dK: keys features", "dV: keys features"),
    cases=[
        after_forward("n = 4, m = 9, tiles of 2 × 3", n=4, m=9, d=5, d_v=2, block_q=2, block_k=3),
        heads_split(
            after_forward(
                "2×3 sequences, n = 5, m = 3, tiles of 3 × 2: ragged",
                batch=(2, 3),
                n=5,
                m=3,
                d=3,
                d_v=6,
                block_q=3,
                block_k=2,
            )
        ),
        after_forward("everything square", n=8, m=8, d=4, d_v=4, block_q=4, block_k=4),
        after_forward("causal, n = m = 7, tiles of 4 × 3", batch=(2,), n=7, m=7, causal=True, block_q=4, block_k=3),
        after_forward("causal, the last 6 of 13 positions", n=6, m=13, d=3, d_v=5, causal=True, block_q=4, block_k=5),
        after_forward("causal, 7 queries, 5 keys: rows that see nothing", n=7, m=5, causal=True, block_q=3, block_k=2),
        after_forward(
            "causal, 8 queries, 3 keys: a whole tile of queries sees nothing",
            n=8,
            m=3,
            d=5,
            d_v=6,
            causal=True,
            block_q=4,
            block_k=2,
        ),
        after_forward(
            "scores that climb and fall by 2 a key, float32",
            n=4,
            m=7,
            block_q=4,
            block_k=3,
            climb=2.0,
            dtype=torch.float32,
        ),
        after_forward(
            "causal, a last key that scores 200, float32",
            n=6,
            m=8,
            block_q=4,
            block_k=3,
            causal=True,
            ahead=200.0,
            dtype=torch.float32,
        ),
        counted_backward(200, 200, 2, 2, 50, 7, causal=True),
        counted_backward(200, 200, 2, 2, 7, 50),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(flash.flash_attention_backward),
        d_forgotten=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "no D"
        ),
        d_added_instead_subtracted=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "D added"
        ),
        d_from_gradient_only=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "D of dO"
        ),
        d_from_output_only=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "D of O"
        ),
        d_as_mean=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "mean"
        ),
        d_from_one_tile_only=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "D of one tile"
        ),
        scale_missing_dq=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dq not scaled"
        ),
        scale_missing_dk=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk not scaled"
        ),
        scale_missing_dq_dk=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "not scaled"
        ),
        scale_twice_dk=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk scaled twice"
        ),
        scores_made_again_without_scale=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: (
            _tiled(q, k, v, out, lse, grad_out, causal, block_q, block_k, "scores not scaled")
        ),
        ds_not_transposed_dk=Wrong(
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dK not transposed"
            ),
            raises="RuntimeError",
        ),
        p_not_transposed_dv=Wrong(
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dV not transposed"
            ),
            raises="RuntimeError",
        ),
        dv_from_ds=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dV from dS"
        ),
        softmax_left_out_backward_pass=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dP"
        ),
        p_place_ds=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "P"
        ),
        ds_without_p=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dS without P"
        ),
        weights_normalised_again_each_tile=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: (
            _tiled(q, k, v, out, lse, grad_out, causal, block_q, block_k, "softmax per tile")
        ),
        exponentials_without_logsumexp=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "no lse"
        ),
        dq_overwritten_by_each_tile=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dq overwritten"
        ),
        dk_dv_overwritten_by_each_tile=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk overwritten"
        ),
        dk_overwritten_by_each_tile=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dk alone overwritten"
        ),
        dv_overwritten_by_each_tile=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "dv alone overwritten"
        ),
        tiles_keys_cut_with_block_q=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "keys cut with block_q"
        ),
        hidden_weights_multiplied_by_0=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "hidden times 0"
        ),
        offset_turned_round=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "offset turned round"
        ),
        offset_that_never_negative=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "offset never negative"
        ),
        causal_ignored_backward_pass=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "not causal"
        ),
        causal_mask_aligned_per_tile=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "aligned per tile"
        ),
        tiles_that_begin_before_queries_left=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: (
            _tiled(q, k, v, out, lse, grad_out, causal, block_q, block_k, "early tiles unmasked")
        ),
        minus_minus_minus=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "−∞ − −∞"
        ),
        minus_minus_minus_inside_loop=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "−∞ − −∞, skipping"
        ),
        last_position_taken_end=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "ends at the last position"
        ),
        dv_made_like_k=Wrong(
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, block_k, "dV like k"
            ),
            raises="RuntimeError",
        ),
        last_short_tile_lost=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "short tile lost"
        ),
        n_m_matrix_memory=Wrong(
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, q.shape[-2], k.shape[-2]
            ),
            cost=square_made,
        ),
        whole_row_or_column_tiles_at_once=Wrong(
            lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
                q, k, v, out, lse, grad_out, causal, block_q, k.shape[-2]
            ),
            cost=stripe_made,
        ),
        all_tiles_weights_kept=Wrong(tiles_of_weights_kept, cost=tiles_pile_up),
        tiles_row_kept=Wrong(tiles_of_a_row_kept, cost=row_piles_up),
        queries_skipped_from_top_left=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: _tiled(
            q, k, v, out, lse, grad_out, causal, block_q, block_k, "down from the key's number"
        ),
        tiles_queries_skipped_from_top_left=lambda q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64: (
            _tiled(q, k, v, out, lse, grad_out, causal, block_q, block_k, "down from the key's tile")
        ),
    ),
    forbids=NO_FUSED_ATTENTION,
)


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
                "float32": (dq.float(), dk.float(), dv.float()),
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
    return random_case(f"gradients, {label}", dtype=torch.float64, gradient=True, **sizes)


def long_gradients(n: int, m: int, causal: bool) -> Case:
    """Tiles up to half of n × m are welcome, forward and backward; kept for the backward pass are the output and a number a row."""
    words = f"long: n = {n}, m = {m}{', causal' * causal}"
    half = n * m // 2
    return random_case(
        words,
        n=n,
        m=m,
        d=4,
        d_v=3,
        causal=causal,
        dtype=torch.float64,
        gradient=True,
        max_elements=half,
        max_saved=half,
        max_backward_elements=half,
    )


def _weights_kept(seen: Observation) -> bool:
    """Whether as many numbers were kept for the backward pass as there are weights."""
    return not _large_square_made(seen) and seen.saved >= score_count(seen)


def _dense_way_back(seen: Observation) -> bool:
    """Whether all weights stood in memory at once in the backward pass, and only there."""
    return not _large_square_made(seen) and seen.saved < score_count(seen) <= seen.backward_largest


def _gradients_rounded(seen: Observation) -> bool:
    """A mark: the gradients of float64 inputs are right to as many digits as float32 has, and to no more."""
    right = observe(flash.flash_attention, seen.args, gradient=True).gradients
    rounded, exact = (agree(seen.gradients, right, TOLERANCE[dtype]) for dtype in (torch.float32, torch.float64))
    return rounded and not exact


def tiles_left_to_autograd(q, k, v, causal=False) -> Tensor:
    return tiled_with_slip(q, k, v, causal, flash.TILE, flash.TILE)[0]


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
    misconceptions=wrong_answers(
        __file__,
        d_forgotten=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "no D"),
        scale_missing_dq_dk_2=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "not scaled"),
        causal_forgotten_backward_pass=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "not causal"),
        incoming_gradient_ignored=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "ones"),
        gradients_wrong_order=Wrong(
            lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "order"), raises="RuntimeError"
        ),
        too_few_gradients_returned=Wrong(
            lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "too few"), raises="RuntimeError"
        ),
        gradients_values_only=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "values alone"),
        gradients_queries_only=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "queries alone"),
        gradients_rounded_float32=Wrong(
            lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "float32"), recognise=_gradients_rounded
        ),
        cut_off_from_gradient=cut_off,
        causal_ignored=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "not causal at all"),
        n_m_matrix_memory_2=Wrong(
            lambda q, k, v, causal=False: _attention(q, k, v, causal)[0] @ v, cost=_large_square_made
        ),
        tiles_that_autograd_differentiates=Wrong(tiles_left_to_autograd, cost=_weights_kept),
        causal_lost_between_forward_backward=lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "causal lost"),
        causal_lost_between_forward_backward_2=lambda q, k, v, causal=False: _with_slip(
            q, k, v, causal, "causal lost, empty rows known"
        ),
        tiles_forward_full_matrix_backward_pass=Wrong(
            lambda q, k, v, causal=False: _with_slip(q, k, v, causal, "tiled forward"), cost=_dense_way_back
        ),
        tensors_kept_on_class=_kept_on_the_class("inputs", "sums"),
        tensors_causal_kept_on_class=_kept_on_the_class("inputs", "sums", "causal"),
        output_logsumexp_kept_on_class=_kept_on_the_class("sums"),
        causal_kept_on_class=_kept_on_the_class("causal"),
        causal_kept_on_class_not_ctx=_kept_on_the_class("causal", unseen_0=True),
    ),
    forbids=NO_FUSED_ATTENTION,
)

flash_attention_backward = CheckGroup("flash_attention_backward", backward, flash_attention)
