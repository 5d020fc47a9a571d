"""The check of `triton_forward`."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from helpers.engine.cases import Case
from helpers.engine.kernel_check import KernelCheck, no_kernel
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.kernels import tl, triton

from .. import flash_triton
from .flash_attention_forward import with_a_key_of_zeros
from .flash_triton import _dense_strides, _room, _towards, attention, in_tiles

__all__ = ["triton_forward"]


@triton.jit
def _forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    q_strides,
    k_strides,
    v_strides,
    heads,
    n,
    m,
    d,
    scale,
    CAUSAL: tl.constexpr,
    SLIP: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    tile, pair = tl.program_id(0), tl.program_id(1)
    b, h = pair // heads, pair % heads
    if SLIP == "one head":
        h = 0
    q_ptr += b * q_strides[0] + h * q_strides[1]
    k_ptr += b * k_strides[0] + h * k_strides[1]
    v_ptr += b * v_strides[0] + h * v_strides[1]
    in_tile, key_in_tile = tl.arange(0, BLOCK), tl.arange(0, KEYS)
    rows, columns = tile * BLOCK + in_tile, tl.arange(0, WIDTH)
    if SLIP == "no tile size":
        rows = tile + in_tile
    if SLIP == "rows in tiles of keys":
        rows = tile * KEYS + in_tile
    exists = (rows[:, None] < n) & (columns[None, :] < d)
    q = tl.load(q_ptr + rows[:, None] * q_strides[2] + columns[None, :] * q_strides[3], mask=exists, other=0.0)

    m_i = tl.full((BLOCK,), float("-inf"), tl.float32)
    if SLIP == "maximum 0" or SLIP == "no maximum":
        m_i = tl.full((BLOCK,), 0.0, tl.float32)
    l_i = tl.full((BLOCK,), 0.0, tl.float32)
    acc = tl.full((BLOCK, WIDTH), 0.0, tl.float32)
    end = m
    if SLIP == "whole tiles":
        end = m // KEYS * KEYS
    if SLIP == "first tile":
        end = tl.minimum(m, KEYS)
    if CAUSAL:  # the notebook gives the end of the walk
        end = tl.minimum(end, (tile + 1) * BLOCK + (m - n))
        if SLIP == "diagonal":
            end = tl.minimum(end, tile * BLOCK + (m - n))
    for start in range(0, end, KEYS):
        keys = start + key_in_tile
        reads = (keys[:, None] < m) & (columns[None, :] < d)
        if SLIP == "unmasked":
            reads = (keys[:, None] >= 0) & (columns[None, :] < d)
        if SLIP == "columns unmasked":
            reads = (keys[:, None] < m) & (columns[None, :] >= 0)
        if SLIP == "loaded below n":
            reads = (keys[:, None] < n) & (columns[None, :] < d)
        k = tl.load(k_ptr + keys[:, None] * k_strides[2] + columns[None, :] * k_strides[3], mask=reads, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * v_strides[2] + columns[None, :] * v_strides[3], mask=reads, other=0.0)
        if SLIP == "keys for values":
            v = k
        if SLIP == "scaled in the loop":
            q = (q * scale).to(k.dtype)
            s = tl.dot(q, tl.trans(k), input_precision="ieee")
        else:
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if SLIP == "scores in the dtype of q":
            s = s.to(q.dtype).to(tl.float32)
        seen = (keys[None, :] < m) & (rows[:, None] >= 0)
        if SLIP == "tail counts":
            seen = (keys[None, :] >= 0) & (rows[:, None] >= 0)
        if SLIP == "zeros":
            seen = s != 0.0
        if SLIP == "keys below n":
            seen = (keys[None, :] < n) & (rows[:, None] >= 0)
        if CAUSAL:
            if SLIP == "per tile":
                seen = seen & (key_in_tile[None, :] <= in_tile[:, None])
            elif SLIP == "wrong corner":
                seen = seen & (keys[None, :] <= rows[:, None])
            elif SLIP == "strict":
                seen = seen & (keys[None, :] < rows[:, None] + (m - n))
            elif SLIP == "backwards":
                seen = seen & (keys[None, :] >= rows[:, None] + (m - n))
            elif SLIP == "offset turned round":
                seen = seen & (keys[None, :] <= rows[:, None] + (n - m))
            elif SLIP != "not causal":
                seen = seen & (keys[None, :] <= rows[:, None] + (m - n))
        s = tl.where(seen, s, -1e9 if SLIP == "finite" else float("-inf"))

        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        if SLIP == "maximum of the tile":
            m_new = tl.max(s, axis=1)
        if SLIP == "no maximum":
            m_new = m_i
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        if SLIP == "empty rows" or SLIP == "empty rows in the loop":
            shift = m_new
        p = tl.exp(s - shift[:, None])
        if SLIP == "old maximum":
            p = tl.exp(s - m_i[:, None])
        rescale = tl.exp(m_i - shift)
        if SLIP == "inverse":
            rescale = tl.exp(shift - m_i)
        if SLIP == "no rescale":
            rescale = tl.full((BLOCK,), 1.0, tl.float32)
        sum_rescale = rescale
        if SLIP == "sum not rescaled":
            sum_rescale = tl.full((BLOCK,), 1.0, tl.float32)
        if SLIP == "acc not rescaled":
            rescale = tl.full((BLOCK,), 1.0, tl.float32)
        l_i = l_i * sum_rescale + tl.sum(p, axis=1)
        if SLIP == "normalised per tile":
            p = p / tl.where(tl.sum(p, axis=1) == 0.0, 1.0, tl.sum(p, axis=1))[:, None]
            rescale = tl.full((BLOCK,), 1.0, tl.float32)
        if SLIP != "weights in float32":
            p = p.to(v.dtype)
        if SLIP == "rescaled too late":
            acc = (acc + tl.dot(p, v, input_precision="ieee")) * rescale[:, None]
        else:
            acc = acc * rescale[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_new

    divisor = tl.where(l_i == 0.0, 1.0, l_i)
    if SLIP == "empty rows":
        divisor = l_i
    lse = m_i + tl.log(divisor)
    if SLIP == "lse without maximum":
        lse = tl.log(divisor)
    if SLIP == "lse base 2":
        lse = m_i * 1.4426950408889634 + tl.log2(divisor)
    if SLIP == "maximum base 2":
        lse = m_i * 1.4426950408889634 + tl.log(divisor)
    if SLIP == "lse without log":
        lse = m_i + l_i
    if SLIP == "normalised per tile" or SLIP == "not normalised":
        divisor = tl.full((BLOCK,), 1.0, tl.float32)
    writes = exists
    if SLIP == "stores unmasked":
        writes = (rows[:, None] >= 0) & (columns[None, :] < d)
    if SLIP == "stored behind the head":
        pair = h
    tl.store(out_ptr + (pair * n + rows[:, None]) * d + columns[None, :], acc / divisor[:, None], mask=writes)
    tl.store(lse_ptr + pair * n + rows, lse, mask=rows < n)


def _forward(q, k, v, causal, tiles=(16, 16), slip="", scale=None, strides=None) -> tuple[Tensor, Tensor]:
    (b, h, n, d), m = q.shape, k.shape[2]
    out, lse = _room(q.shape, q.dtype, q.device), torch.empty((b, h, n), device=q.device)
    _forward_kernel[(-(-n // tiles[0]), b * h)](
        q,
        k,
        v,
        out,
        lse,
        *(strides or (q.stride(), k.stride(), v.stride())),
        h,
        n,
        m,
        d,
        d**-0.5 if scale is None else scale,
        CAUSAL=causal,
        SLIP=slip,
        BLOCK=tiles[0],
        KEYS=tiles[1],
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return out, lse


def _forward_with(slip: str) -> Callable:
    """A launcher whose kernel has this slip."""
    return lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, slip)


def forward_without_kernel(q, k, v, causal, *tiles) -> tuple[Tensor, Tensor]:
    n, m = q.shape[2], k.shape[2]
    scores = (q[..., :, None, :] * k[..., None, :, :]).sum(-1).double() / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n), -math.inf)
    peak = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = (scores - peak).exp()
    total = powers.sum(-1, keepdim=True)
    out = (powers[..., None] * v[..., None, :, :]).sum(-2) / total.clamp(min=1e-300)
    return out.to(q.dtype), (peak + total.log()).squeeze(-1).float()


def _slope(label: str, first: float, last: float, n: int, m: int, d: int, causal: bool) -> Case:
    return Case(label, lambda _, generator: (*_towards(first, last)(generator, n, m, d), causal, 16, 32))


def _near_1000(label: str, case: Case) -> Case:
    """The same case, with 1000 added to all scores by one column: float16 has only every half there."""

    def draw(*how) -> tuple:
        q, k, *others = case.draw(*how)
        q[..., 0], k[..., 0] = math.sqrt(q.shape[-1]), 1000.0
        return q, k, *others

    return replace(case, label=label, draw=draw)


triton_forward = KernelCheck(
    reference=flash_triton.triton_forward,
    oracle=attention,
    layouts=("gaps", "heads inside", "columns"),
    names=("output: sequences heads queries features", "logsumexp: sequences heads queries"),
    cases=[
        in_tiles(
            b=1,
            h=1,
            n=36,
            m=57,
            d=16,
            causal=True,
            scale=1.5,
            block_q=32,
            label="causal, n = 36, m = 57, d = 16, tiles of 32 × 16",
        ),
        in_tiles(
            b=1, h=1, n=40, m=22, d=20, causal=True, label="causal, n = 40, m = 22: the first 18 rows see nothing"
        ),
        with_a_key_of_zeros(
            in_tiles(b=2, h=3, n=14, m=7, d=16, causal=False, block_k=32, label="b = 2, h = 3, n = 14, m = 7")
        ),
        in_tiles(
            b=1,
            h=1,
            n=32,
            m=64,
            d=32,
            causal=False,
            scale=2.0,
            block_k=32,
            label="n = 32, m = 64, d = 32: whole tiles of 16 × 32",
        ),
        _slope("scores that grow along the keys", -20.0, 110.0, 19, 50, 16, False),
        _slope("scores that fall, all far below 0", -150.0, -420.0, 17, 40, 16, False),
        _near_1000(
            "causal, h = 2, float16, scores near 1000",
            in_tiles(b=1, h=2, n=18, m=18, d=16, causal=True, dtype=torch.float16),
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        accumulator_not_rescaled=_forward_with("acc not rescaled"),
        sum_not_rescaled=_forward_with("sum not rescaled"),
        nothing_rescaled=_forward_with("no rescale"),
        rescaled_by_inverse=_forward_with("inverse"),
        rescaled_after_adding=_forward_with("rescaled too late"),
        only_maximum_tile=_forward_with("maximum of the tile"),
        exponentials_with_old_maximum=_forward_with("old maximum"),
        running_maximum_that_starts_at_0=_forward_with("maximum 0"),
        exponentials_without_maximum=_forward_with("no maximum"),
        normalised_tile_by_tile=_forward_with("normalised per tile"),
        never_normalised=_forward_with("not normalised"),
        no_scale=lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, scale=1.0),
        scale_by_d=lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, scale=1 / q.shape[3]),
        queries_scaled_again_every_tile=_forward_with("scaled in the loop"),
        scores_rounded_dtype_q=_forward_with("scores in the dtype of q"),
        missing_keys_with_score_0=_forward_with("tail counts"),
        zeros_taken_empty_slots=_forward_with("zeros"),
        keys_compared_with_number_queries=_forward_with("keys below n"),
        keys_loaded_up_number_queries=Wrong(_forward_with("loaded below n"), raises="UnmaskedRead"),
        last_keys_left_out=_forward_with("whole tiles"),
        one_tile_keys=_forward_with("first tile"),
        tiles_read_without_mask=Wrong(_forward_with("unmasked"), raises="UnmaskedRead"),
        columns_beyond_width=Wrong(_forward_with("columns unmasked"), raises="UnmaskedRead"),
        tiles_written_without_mask=Wrong(_forward_with("stores unmasked"), raises="UnmaskedWrite"),
        strides_taken_granted=lambda q, k, v, causal, *tiles: _forward(
            q, k, v, causal, tiles, strides=tuple(_dense_strides(x) for x in (q, k, v))
        ),
        strides_keys_taken_granted=lambda q, k, v, causal, *tiles: _forward(
            q, k, v, causal, tiles, strides=(q.stride(), _dense_strides(k), v.stride())
        ),
        strides_values_taken_granted=lambda q, k, v, causal, *tiles: _forward(
            q, k, v, causal, tiles, strides=(q.stride(), k.stride(), _dense_strides(v))
        ),
        values_read_with_strides_keys=lambda q, k, v, causal, *tiles: _forward(
            q, k, v, causal, tiles, strides=(q.stride(), k.stride(), k.stride())
        ),
        rows_columns_values_read_with_strides=Wrong(
            lambda q, k, v, causal, *tiles: _forward(
                q, k, v, causal, tiles, strides=(q.stride(), k.stride(), (*v.stride()[:2], *k.stride()[2:]))
            ),
            raises="UnmaskedRead",
        ),
        keys_read_with_strides_queries=Wrong(
            lambda q, k, v, causal, *tiles: _forward(
                q, k, v, causal, tiles, strides=(q.stride(), q.stride(), v.stride())
            ),
            raises="UnmaskedRead",
        ),
        tiles_one_row_apart=_forward_with("no tile size"),
        rows_counted_tiles_keys=_forward_with("rows in tiles of keys"),
        one_head_all=_forward_with("one head"),
        all_sequences_stored_one_place=_forward_with("stored behind the head"),
        keys_instead_values=_forward_with("keys for values"),
        no_causal_mask=_forward_with("not causal"),
        causal_mask_counted_from_each_tile=_forward_with("per tile"),
        causal_mask_at_wrong_corner=_forward_with("wrong corner"),
        token_that_doesnt_see_itself=_forward_with("strict"),
        offset_turned_round=_forward_with("offset turned round"),
        causal_mask_that_hides_past=_forward_with("backwards"),
        diagonal_tile_skipped=_forward_with("diagonal"),
        large_negative_number_minus=_forward_with("finite"),
        nan_row_that_sees_nothing=_forward_with("empty rows"),
        minus_minus_minus_inside_loop=_forward_with("empty rows in the loop"),
        logsumexp_without_maximum=_forward_with("lse without maximum"),
        logsumexp_base_2=_forward_with("lse base 2"),
        maximum_base_2_logsumexp=_forward_with("maximum base 2"),
        logsumexp_without_logarithm=_forward_with("lse without log"),
        weights_another_dtype_than_values=Wrong(_forward_with("weights in float32"), raises="AssertionError"),
        no_kernel_at_all=Wrong(forward_without_kernel, cost=no_kernel),
    ),
)
