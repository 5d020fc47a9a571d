"""Attention in tiles as a kernel."""

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
from .flash_triton import attention, dense_strides, in_tiles, room_like, towards

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
        if SLIP == "in bfloat16":
            p, v = p.to(tl.bfloat16), v.to(tl.bfloat16)
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


def strides_of(q, k, v) -> tuple[tuple[int, ...], ...]:
    return q.stride(), k.stride(), v.stride()


def forward(slip: str = "", scale: Callable = lambda d: d**-0.5, strides: Callable = strides_of) -> Callable:
    """A launcher whose kernel has this slip, or is told another scale or other strides."""

    def launch(q, k, v, causal, block_q, block_k) -> tuple[Tensor, Tensor]:
        (b, h, n, d), m = q.shape, k.shape[2]
        out, lse = room_like(q), torch.empty((b, h, n), device=q.device)
        options = {"CAUSAL": causal, "SLIP": slip, "BLOCK": block_q, "KEYS": block_k}
        width = max(16, triton.next_power_of_2(d))
        tensors = (q, k, v, out, lse, *strides(q, k, v))
        _forward_kernel[(-(-n // block_q), b * h)](*tensors, h, n, m, d, scale(d), **options, WIDTH=width)
        return out, lse

    return launch


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
    return Case(label, lambda _, generator: (*towards(first, last)(generator, n, m, d), causal, 16, 32))


def _near_1000(case: Case) -> Case:
    """The same case, with 1000 added to all scores by one column: float16 has only every half there."""

    def draw(*how) -> tuple:
        q, k, *others = case.draw(*how)
        q[..., 0], k[..., 0] = math.sqrt(q.shape[-1]), 1000.0
        return q, k, *others

    return replace(case, draw=draw)


triton_forward = KernelCheck(
    reference=flash_triton.triton_forward,
    oracle=attention,
    layouts=("gaps", "heads inside", "columns"),
    names=("output: sequences heads queries features", "logsumexp: sequences heads queries"),
    cases=[
        in_tiles(
            "causal, n = 36, m = 57, d = 16, tiles of 32 × 16", n=36, m=57, d=16, causal=True, scale=1.5, block_q=32
        ),
        in_tiles("causal, n = 40, m = 22: the first 18 rows see nothing", n=40, m=22, d=20, causal=True),
        with_a_key_of_zeros(
            in_tiles("b = 2, h = 3, n = 14, m = 7", b=2, h=3, n=14, m=7, d=16, causal=False, block_k=32)
        ),
        in_tiles(
            "n = 32, m = 64, d = 32: whole tiles of 16 × 32", n=32, m=64, d=32, causal=False, scale=2.0, block_k=32
        ),
        _slope("scores that grow along the keys", -20.0, 110.0, 19, 50, 16, False),
        _slope("scores that fall, all far below 0", -150.0, -420.0, 17, 40, 16, False),
        _near_1000(
            in_tiles(
                "causal, h = 2, float16, scores near 1000", h=2, n=18, m=18, d=16, causal=True, dtype=torch.float16
            )
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        acc_not_rescaled=forward("acc not rescaled"),
        sum_not_rescaled=forward("sum not rescaled"),
        nothing_rescaled=forward("no rescale"),
        inverse=forward("inverse"),
        rescaled_too_late=forward("rescaled too late"),
        maximum_of_tile=forward("maximum of the tile"),
        old_maximum=forward("old maximum"),
        maximum_from_0=forward("maximum 0"),
        no_maximum=forward("no maximum"),
        normalised_per_tile=forward("normalised per tile"),
        never_normalised=forward("not normalised"),
        no_scale=forward(scale=lambda d: 1.0),
        scale_by_d=forward(scale=lambda d: 1 / d),
        scaled_in_loop=forward("scaled in the loop"),
        scores_rounded=forward("scores in the dtype of q"),
        tail_counts=forward("tail counts"),
        zeros_for_empty=forward("zeros"),
        keys_below_n=forward("keys below n"),
        loaded_below_n=Wrong(forward("loaded below n"), raises="UnmaskedRead"),
        whole_tiles=forward("whole tiles"),
        first_tile=forward("first tile"),
        unmasked=Wrong(forward("unmasked"), raises="UnmaskedRead"),
        columns_unmasked=Wrong(forward("columns unmasked"), raises="UnmaskedRead"),
        stores_unmasked=Wrong(forward("stores unmasked"), raises="UnmaskedWrite"),
        dense_strides=forward(strides=lambda q, k, v: (dense_strides(q), dense_strides(k), dense_strides(v))),
        dense_keys=forward(strides=lambda q, k, v: (q.stride(), dense_strides(k), v.stride())),
        dense_values=forward(strides=lambda q, k, v: (q.stride(), k.stride(), dense_strides(v))),
        values_like_keys=forward(strides=lambda q, k, v: (q.stride(), k.stride(), k.stride())),
        values_inside_like_keys=Wrong(
            forward(strides=lambda q, k, v: (q.stride(), k.stride(), (*v.stride()[:2], *k.stride()[2:]))),
            raises="UnmaskedRead",  # or none, where another tensor happens to lie there
        ),
        keys_like_queries=Wrong(
            forward(strides=lambda q, k, v: (q.stride(), q.stride(), v.stride())), raises="UnmaskedRead"
        ),
        no_tile_size=forward("no tile size"),
        rows_in_tiles_of_keys=forward("rows in tiles of keys"),
        one_head=forward("one head"),
        stored_behind_head=forward("stored behind the head"),
        keys_for_values=forward("keys for values"),
        not_causal=forward("not causal"),
        mask_per_tile=forward("per tile"),
        wrong_corner=forward("wrong corner"),
        hides_itself=forward("strict"),
        offset_turned_round=forward("offset turned round"),
        hides_past=forward("backwards"),
        diagonal_skipped=forward("diagonal"),
        large_negative=forward("finite"),
        empty_rows=forward("empty rows"),
        empty_rows_in_loop=forward("empty rows in the loop"),
        lse_without_maximum=forward("lse without maximum"),
        lse_base_2=forward("lse base 2"),
        lse_maximum_base_2=forward("maximum base 2"),
        lse_without_log=forward("lse without log"),
        in_bfloat16=forward("in bfloat16"),
        weights_in_float32=Wrong(forward("weights in float32"), raises="AssertionError"),
        no_kernel=Wrong(forward_without_kernel, cost=no_kernel),
    ),
)
