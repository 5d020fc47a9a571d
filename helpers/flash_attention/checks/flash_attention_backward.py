"""Checks of the tiled backward pass, and of the `torch.autograd.Function` that joins it to the forward pass."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision
from helpers.engine.cases import Case, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.compare import TOLERANCE, agree
from helpers.engine.observe import Observation, observe
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import flash
from ..online import finite
from .flash import (
    Diagonal,
    Tiles,
    Walk,
    dense,
    hide,
    last_seen,
    scaled_by,
    score_count,
    square_made,
    tile_sizes,
    tiled,
    walk,
)
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
    label, batch=(), *, n, m, d=4, d_v=3, causal=False, block_q, block_k, dtype=torch.float64, drawn=(), **limits
) -> Case:
    """A case of the backward pass: random q, k, v and grad_out, and the output and logsumexp that belong to them.

    drawn: q and k, where they are to have certain scores."""

    def draw(_, generator: Generator) -> tuple:
        shapes = [(*batch, n, d), (*batch, m, d), (*batch, m, d_v), (*batch, n, d_v)]
        q, k, v, grad_out = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
        if drawn:
            q, k = (x.make(generator).double() for x in drawn[:2])
        out, lse = flash.flash_attention_forward(q, k, v, causal)
        return *(x.to(dtype) for x in (q, k, v, out, lse, grad_out)), causal, block_q, block_k

    return Case(label, draw, **limits)


def counted_backward(n: int, m: int, d: int, d_v: int, block_q: int, block_k: int, causal: bool = False) -> Case:
    """Many tiles, in long rows or columns. Twice the largest input is enough for every tensor, and less than one row
    (or column) of tiles for all that is held at one time."""
    return after_forward(
        f"{'causal, ' * causal}n = {n}, m = {m}, tiles of {block_q} × {block_k}: counted",
        **tile_sizes(n, m, d, d_v, causal, block_q, block_k),
        max_flops=8 * n * m * 2 * (d + d_v),
        max_elements=2 * max(n, m) * max(d, d_v),
        max_living=3 * max(block_q * m, block_k * n) // 4,
    )


@dataclass(frozen=True)
class Backward(Walk):
    """The steps of the tiled backward pass. (scale: 1/√d.)"""

    delta: Callable = lambda out, grad_out: (grad_out * out).sum(-1, keepdim=True)  # D
    weigh: Callable = lambda s, lse, unhidden: torch.exp(s - lse.masked_fill(lse == -math.inf, math.inf))
    ds: Callable = lambda p, dp, d: p * (dp - d)
    dq: Callable = lambda ds, k, scale: scale * ds @ k
    dk: Callable = lambda ds, q, scale: scale * ds.mT @ q
    dv: Callable = lambda p, ds, grad_out: p.mT @ grad_out
    dv_like: Callable = lambda k, v: v
    overwritten: str = ""  # of q, k, v those whose gradient isn't added up


@composable
def backward_pass(**changed) -> Callable:
    """The tiled backward pass with these steps changed."""
    steps = Backward(**changed)

    def backward(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor, Tensor]:
        dq, dk, dv, delta = *(torch.zeros_like(x) for x in (q, k, steps.dv_like(k, v))), steps.delta(out, grad_out)
        scale = q.shape[-1] ** -0.5
        for row, tiles in walk(steps, q, k, v, causal, block_q, block_k)[1]:
            rows = row.rows
            for at, unhidden in tiles:
                p = steps.weigh(hide(steps, unhidden, at), lse[..., rows, None], unhidden)
                ds = steps.ds(p, grad_out[..., rows, :] @ v[..., at.columns, :].mT, delta[..., rows, :])
                _gather(dq, rows, steps.dq(ds, k[..., at.columns, :], scale), "q" in steps.overwritten)
                _gather(dk, at.columns, steps.dk(ds, q[..., rows, :], scale), "k" in steps.overwritten)
                _gather(dv, at.columns, steps.dv(p, ds, grad_out[..., rows, :]), "v" in steps.overwritten)
        return dq, dk, dv

    return backward


def _gather(total, places, new, overwritten: bool) -> None:
    if overwritten:
        total[..., places, :] = new
    else:
        total[..., places, :] += new


def hidden_times_0(s, lse, unhidden) -> Tensor:
    return torch.exp(unhidden - finite(lse)) * (s > -math.inf)


def last_key_200(i, j) -> tuple[Tensor, Tensor]:
    """For all queries but the last."""
    return 1.0 * (i < len(i) - 1), 200.0 * (j == len(j) - 1)


backward = Check(
    reference=flash.flash_attention_backward,
    names=("dQ: queries features", "dK: keys features", "dV: keys features"),
    cases=[
        after_forward("n = 4, m = 9, tiles of 2 × 3", n=4, m=9, d=5, d_v=2, block_q=2, block_k=3),
        heads_split(
            after_forward(
                "2×3 sequences, n = 5, m = 3, tiles of 3 × 2: ragged", (2, 3), **tile_sizes(5, 3, 3, 6, False, 3, 2)
            )
        ),
        after_forward("everything square", n=8, m=8, d=4, d_v=4, block_q=4, block_k=4),
        after_forward("causal, n = m = 7, tiles of 4 × 3", batch=(2,), n=7, m=7, causal=True, block_q=4, block_k=3),
        after_forward("causal, the last 6 of 13 positions", n=6, m=13, d=3, d_v=5, causal=True, block_q=4, block_k=5),
        after_forward("causal, 7 queries, 5 keys: rows that see nothing", n=7, m=5, causal=True, block_q=3, block_k=2),
        after_forward(
            "causal, 8 queries, 3 keys: a whole tile of queries sees nothing", **tile_sizes(8, 3, 5, 6, True, 4, 2)
        ),
        after_forward(
            "scores that climb and fall by 2 per key, float32",
            **tile_sizes(4, 7, 4, 3, False, 4, 3),
            dtype=torch.float32,
            drawn=climbing_scores(4, 7, 2.0),
        ),
        after_forward(
            "causal, a last key that scores 200, float32",
            **tile_sizes(6, 8, 4, 3, True, 4, 3),
            dtype=torch.float32,
            drawn=levelled_scores((6, 4), 8, 3, last_key_200),
        ),
        counted_backward(200, 200, 2, 2, 50, 7, causal=True),
        counted_backward(200, 200, 2, 2, 7, 50),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(flash.flash_attention_backward),
        *slips(backward_pass, Tiles.keys_cut_with_block_q, Tiles.last_lost, Tiles.ends_at_last_position),
        *slips(backward_pass, Tiles.early_unmasked, Diagonal.aligned_per_tile, Diagonal.offset_turned_round),
        *slips(backward_pass, Diagonal.offset_never_negative, Diagonal.ignored),
        Tiles.whole.made(backward_pass, cost=square_made),
        Tiles.whole_rows.made(backward_pass, cost=stripe_made),
        Tiles.all_kept.made(backward_pass, cost=tiles_pile_up),
        Tiles.row_kept.made(backward_pass, cost=row_piles_up),
        d_forgotten=backward_pass(ds=lambda p, dp, d: p * dp),
        brackets_left_out=backward_pass(ds=lambda p, dp, d: p * dp - d),
        d_added=backward_pass(ds=lambda p, dp, d: p * (dp + d)),
        d_of_gradient=backward_pass(delta=lambda out, grad_out: grad_out.sum(-1, keepdim=True)),
        d_of_output=backward_pass(delta=lambda out, grad_out: (out * out).sum(-1, keepdim=True)),
        d_mean=backward_pass(delta=lambda out, grad_out: (grad_out * out).mean(-1, keepdim=True)),
        d_of_one_tile=backward_pass(ds=lambda p, dp, d: p * (dp - (dp * p).sum(-1, keepdim=True))),
        dq_not_scaled=backward_pass(dq=lambda ds, k, scale: ds @ k),
        dk_not_scaled=backward_pass(dk=lambda ds, q, scale: ds.mT @ q),
        nothing_scaled=backward_pass(dq=lambda ds, k, scale: ds @ k, dk=lambda ds, q, scale: ds.mT @ q),
        dk_scaled_twice=backward_pass(dk=lambda ds, q, scale: scale**2 * ds.mT @ q),
        scores_not_scaled=backward_pass(score=scaled_by(lambda at: 1.0)),
        dk_not_transposed=Wrong(backward_pass(dk=lambda ds, q, scale: scale * ds @ q), raises="RuntimeError"),
        dv_not_transposed=Wrong(backward_pass(dv=lambda p, ds, grad_out: p @ grad_out), raises="RuntimeError"),
        dv_from_ds=backward_pass(dv=lambda p, ds, grad_out: ds.mT @ grad_out),
        dv_like_k=Wrong(backward_pass(dv_like=lambda k, v: k), raises="RuntimeError"),
        dp_for_ds=backward_pass(ds=lambda p, dp, d: dp),
        p_for_ds=backward_pass(ds=lambda p, dp, d: p),
        ds_without_p=backward_pass(ds=lambda p, dp, d: dp - d),
        softmax_per_tile=backward_pass(weigh=lambda s, lse, unhidden: s.softmax(-1).nan_to_num(0.0)),
        no_logsumexp=backward_pass(
            weigh=lambda s, lse, unhidden: torch.exp(s - s.amax(-1, keepdim=True).clamp_min(-1e30))
        ),
        hidden_times_0=backward_pass(weigh=hidden_times_0),
        minus_infinity_twice=backward_pass(weigh=lambda s, lse, unhidden: torch.exp(s - lse)),
        minus_infinity_twice_in_loop=backward_pass(weigh=lambda s, lse, unhidden: torch.exp(s - lse), end=last_seen),
        dq_overwritten=backward_pass(overwritten="q"),
        dk_dv_overwritten=backward_pass(overwritten="kv"),
        dk_overwritten=backward_pass(overwritten="k"),
        dv_overwritten=backward_pass(overwritten="v"),
        queries_skipped=backward_pass(hidden=lambda i, j, at: (j > i + at.offset) | (i < at.columns.start)),
        tiles_skipped=backward_pass(skip=lambda at: at.rows.start < at.columns.start // at.block_q * at.block_q),
    ),
    forbids=NO_FUSED_ATTENTION,
)


@dataclass(frozen=True)
class Joined:
    """The steps of an `autograd.Function` of both passes."""

    lse: Callable = lambda lse: lse  # as it is kept
    on_class: tuple[str, ...] = ()  # what of "inputs", "sums" and "causal" is kept on the class, not on ctx
    handed: Callable = lambda grad_out: grad_out
    way_back: Callable = flash.flash_attention_backward
    returned: Callable = lambda dq, dk, dv: (dq, dk, dv, None)


class OnClass:
    """What is kept on a class, for all calls."""


@composable
def joined(**changed) -> Callable:
    """Flash attention with gradients, with these steps changed."""
    steps = Joined(**changed)

    def answer(q, k, v, causal=False) -> Tensor:
        class FlashAttention(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v, causal) -> Tensor:
                out, lse = flash.flash_attention_forward(q, k, v, causal)
                for name, value in {"inputs": (q, k, v), "sums": (out, steps.lse(lse)), "causal": causal}.items():
                    setattr(OnClass if name in steps.on_class else ctx, name, value)
                return out

            @staticmethod
            def backward(ctx, grad_out):
                names = ("inputs", "sums", "causal")
                inputs, sums, causal = (getattr(OnClass if name in steps.on_class else ctx, name) for name in names)
                return steps.returned(*steps.way_back(*inputs, *sums, steps.handed(grad_out), causal))

        return FlashAttention.apply(q, k, v, causal)

    return answer


def causal_forgotten(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    return flash.flash_attention_backward(q, k, v, *flash.flash_attention_forward(q, k, v), grad_out)


def causal_lost(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    """The output and the logsumexp are those of the causal rows."""
    return flash.flash_attention_backward(q, k, v, out, lse, grad_out)


def _large_square_made(seen: Observation) -> bool:
    """Whether a tensor of n × m elements was made where that is more than any tile has."""
    q, k = seen.args[:2]
    return seen.largest >= q.shape[-2] * k.shape[-2] > 2 * flash.TILE**2


def with_gradients(label: str, **sizes) -> Case:
    return random_case(f"gradients, {label}", dtype=torch.float64, gradient=True, **sizes)


def long_gradients(n: int, m: int, causal: bool) -> Case:
    """Tiles up to half of n × m are welcome, forward and backward; what is kept are the output and a number a row."""
    limits = dict.fromkeys(("max_elements", "max_saved", "max_backward_elements"), n * m // 2)
    sizes = {"n": n, "m": m, "d": 4, "d_v": 3, "causal": causal}
    words = f"long: n = {n}, m = {m}{', causal' * causal}"
    return random_case(words, dtype=torch.float64, gradient=True, **sizes, **limits)


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
        d_forgotten=joined(way_back=backward_pass(ds=lambda p, dp, d: p * dp)),
        not_scaled=joined(way_back=backward_pass(dq=lambda ds, k, scale: ds @ k, dk=lambda ds, q, scale: ds.mT @ q)),
        causal_forgotten=joined(way_back=causal_forgotten),
        causal_lost=joined(lse=finite, way_back=causal_lost),
        causal_lost_empty_rows_known=joined(way_back=causal_lost),
        causal_ignored=lambda q, k, v, causal=False: joined()(q, k, v),
        gradient_ignored=joined(handed=torch.ones_like),
        wrong_order=Wrong(joined(returned=lambda dq, dk, dv: (dk, dq, dv, None)), raises="RuntimeError"),
        too_few=Wrong(joined(returned=lambda dq, dk, dv: (dq, dk, dv)), raises="RuntimeError"),
        values_only=joined(returned=lambda dq, dk, dv: (None, None, dv, None)),
        queries_only=joined(returned=lambda dq, dk, dv: (dq, None, None, None)),
        rounded=Wrong(
            joined(returned=lambda dq, dk, dv: (dq.float(), dk.float(), dv.float(), None)), recognise=_gradients_rounded
        ),
        cut_off=lambda q, k, v, causal=False: dense(q.detach(), k.detach(), v.detach(), causal)[0],
        dense=Wrong(lambda q, k, v, causal=False: dense(q, k, v, causal)[0], cost=_large_square_made),
        left_to_autograd=Wrong(
            lambda q, k, v, causal=False: tiled()(q, k, v, causal, flash.TILE, flash.TILE)[0], cost=_weights_kept
        ),
        dense_way_back=Wrong(joined(way_back=backward_pass(**Tiles.whole.steps)), cost=_dense_way_back),
        tensors_on_class=joined(on_class=("inputs", "sums")),
        all_on_class=joined(on_class=("inputs", "sums", "causal")),
        sums_on_class=joined(on_class=("sums",)),
        causal_on_class=joined(on_class=("causal",)),
        causal_on_class_lse_0=joined(on_class=("causal",), lse=finite),
    ),
    forbids=NO_FUSED_ATTENTION,
)

flash_attention_backward = CheckGroup("flash_attention_backward", backward, flash_attention)
