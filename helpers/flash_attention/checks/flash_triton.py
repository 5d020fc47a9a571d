"""Checks of kernels. The wrong answers are kernels too: one kernel an exercise, told by `SLIP` what to get wrong.

Inputs are views with odd strides in larger tensors (see own_process.py), lengths are no multiples of tiles, and each call
has a process of its own. Answers are compared with attention in float64 by PyTorch, not by a kernel.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, random_case
from helpers.engine.check import Misconception
from helpers.engine.kernel_check import KernelCheck, no_kernel
from helpers.kernels import tl, triton

from .. import flash_triton
from .flash import with_a_key_of_zeros

__all__ = ["triton_backward", "triton_forward", "triton_rows"]

UNMASKED_READ = "The last tile reaches beyond the tensor. There are other numbers, or no memory. Give each load a mask: only rows and columns that exist."
UNMASKED_WRITE = "The last tile reaches beyond the output and overwrites what lies there. A store needs the mask of the rows and columns that exist."
CONTIGUOUS = (
    "The tensor may be a view. In a transposed view columns, not rows, are stored one after the other; in a slice there are gaps. Use the strides of the "
    "tensor: how many elements it is to the next row, and to the next column."
)
KEYS_END_AT_M = "You hide keys from n on, but n counts the queries. There are m keys: hide those from m on, `keys < m`."
WRONG_CORNER = "The n queries are the last n of m positions: query i stands at i + (m − n), in the backward pass too."
OWN_STRIDES = "Q, K and V may lie in memory in different ways. Read each with its own strides: K with `k_strides`, V with `v_strides`."


def _room(shape, dtype, device) -> Tensor:
    """A new tensor with some room behind it, for kernels that write too far."""
    size = math.prod(shape)
    return torch.empty(size + 4096, dtype=dtype, device=device)[:size].view(shape)


# -------------------------------------------------------------------------------------------------------- a first kernel


@triton.jit
def _rows_kernel(
    x_ptr,
    factor_ptr,
    out_ptr,
    x_strides,
    factor_stride,
    out_strides,
    n,
    d,
    SLIP: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SLIP == "all the same":
        rows = tl.arange(0, BLOCK)
    if SLIP == "no tile size":
        rows = tl.program_id(0) + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    row_exists, column_exists = rows[:, None] < n, columns[None, :] < d
    reads = row_exists & column_exists
    if SLIP == "rows unmasked":
        reads = column_exists & (rows[:, None] >= 0)
    if SLIP == "columns unmasked":
        reads = row_exists & (columns[None, :] >= 0)
    if SLIP == "swapped":
        x = tl.load(x_ptr + rows[:, None] * x_strides[1] + columns[None, :] * x_strides[0], mask=reads, other=0.0)
    elif SLIP == "strides of the output":
        x = tl.load(x_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], mask=reads, other=0.0)
    elif SLIP == "columns side by side" or SLIP == "all columns side by side":
        x = tl.load(x_ptr + rows[:, None] * x_strides[0] + columns[None, :], mask=reads, other=0.0)
    elif SLIP == "contiguous":
        x = tl.load(x_ptr + rows[:, None] * d + columns[None, :], mask=reads, other=0.0)
    else:
        x = tl.load(x_ptr + rows[:, None] * x_strides[0] + columns[None, :] * x_strides[1], mask=reads, other=0.0)
    if SLIP == "first factor":
        factor = tl.load(factor_ptr + (tl.program_id(0) * BLOCK + rows * 0) * factor_stride, mask=rows < n, other=0.0)[
            :, None
        ]
    elif SLIP == "factor of the row in the tile":
        factor = tl.load(factor_ptr + tl.arange(0, BLOCK) * factor_stride, mask=tl.arange(0, BLOCK) < n, other=0.0)[
            :, None
        ]
    elif SLIP == "by columns":
        factor = tl.load(factor_ptr + columns * factor_stride, mask=columns < n, other=0.0)[None, :]
    elif SLIP == "factors side by side":
        factor = tl.load(factor_ptr + rows, mask=rows < n, other=0.0)[:, None]
    else:
        factor = tl.load(factor_ptr + rows * factor_stride, mask=rows < n, other=0.0)[:, None]
    writes = row_exists & column_exists
    if SLIP == "stores unmasked":
        writes = (rows[:, None] >= 0) & column_exists
    if SLIP == "output row after row":
        tl.store(out_ptr + rows[:, None] * d + columns[None, :], x * factor, mask=writes)
    elif SLIP == "all columns side by side":
        tl.store(out_ptr + rows[:, None] * out_strides[0] + columns[None, :], x * factor, mask=writes)
    else:
        tl.store(out_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], x * factor, mask=writes)


def _rows(x, factor, slip="", tail=True, out=None) -> Tensor:
    """out: where the result goes, if not into new memory with some room behind it."""
    (n, d), out = x.shape, _room(x.shape, x.dtype, x.device) if out is None else out
    programs = -(-n // 16) if tail else n // 16
    _rows_kernel[(programs,)](
        x, factor, out, x.stride(), factor.stride(0), out.stride(), n, d,
        SLIP=slip, BLOCK=16, WIDTH=triton.next_power_of_2(d),
    )  # fmt: skip
    return out


def rows_without_kernel(x, factor) -> Tensor:
    return x * factor[:, None]


triton_rows = KernelCheck(
    exercise="triton_rows",
    reference=flash_triton.scale_rows,
    oracle=rows_without_kernel,
    layouts=("columns", "gaps"),
    cases=[
        random_case(n=37, d=5),
        random_case(n=48, d=12, label="n = 48, d = 12: whole tiles of rows"),
        random_case(n=21, d=16, label="n = 21, d = 16: whole tiles of columns"),
        random_case(n=7, d=24, label="n = 7, d = 24: more columns than rows"),
        random_case(n=100, d=33),
        random_case(n=64, d=32, label="n = 64, d = 32: whole tiles"),
    ],
    misconceptions=[
        Misconception("tiles read without a mask", lambda x, factor: _rows(x, factor, "rows unmasked"), UNMASKED_READ, raises="UnmaskedRead"),
        Misconception(
            "columns beyond the width", lambda x, factor: _rows(x, factor, "columns unmasked"),
            "A tile's width is a power of two, and d need not be. The mask needs both conditions: rows < n and columns < d.",
            raises="UnmaskedRead",
        ),
        Misconception("tiles written without a mask", lambda x, factor: _rows(x, factor, "stores unmasked"), UNMASKED_WRITE, raises="UnmaskedWrite"),
        Misconception("strides taken for granted", lambda x, factor: _rows(x, factor, "contiguous"), CONTIGUOUS),
        Misconception(
            "factors read as if contiguous", lambda x, factor: _rows(x, factor, "factors side by side"),
            "`factor` may be a view too, such as a column of a matrix: its elements lie `factor_stride` apart.",
        ),
        Misconception(
            "columns taken to lie side by side", lambda x, factor: _rows(x, factor, "columns side by side"),
            "In a transposed view neighbours in a row are far apart in memory. `x_strides[1]` is the way to the next column.",
        ),
        Misconception(
            "columns taken to lie side by side, in the output too",
            lambda x, factor: _rows(x, factor, "all columns side by side", out=torch.empty_like(x)),
            "`torch.empty_like` of a transposed tensor is transposed too. Use `x_strides[1]` and `out_strides[1]` for the way to the next "
            "column.",
        ),
        Misconception(
            "the output taken for contiguous", lambda x, factor: _rows(x, factor, "output row after row", out=torch.empty_like(x)),
            "`torch.empty_like` of a transposed matrix is transposed too, so the next row of the output need not be d elements away. Store with `out_strides`.",
        ),
        Misconception(
            "x read with the strides of the output", lambda x, factor: _rows(x, factor, "strides of the output", out=torch.empty_like(x)),
            "`x` may be a slice of a larger tensor: then its rows or columns lie farther apart than those of the output. Read x with "
            "`x_strides`.",
        ),
        Misconception(
            "strides of rows and columns swapped", lambda x, factor: _rows(x, factor, "swapped"),
            "The first stride is the way from a row to the next one, the second from a column to the next. Multiply row numbers by stride 0 and "
            "column numbers by stride 1.",
            raises="UnmaskedRead",
        ),
        Misconception(
            "every program takes the same rows", lambda x, factor: _rows(x, factor, "all the same"),
            "All programs run the same code. Only `tl.program_id` tells them apart, so a program's rows must depend on it. Rows that no program "
            "writes are NaN here.",
        ),
        Misconception(
            "tiles one row apart", lambda x, factor: _rows(x, factor, "no tile size"),
            "Program 1 starts after the rows of program 0, not at row 1: multiply the program's number by the rows of a tile, BLOCK_N. Rows "
            "that no program writes are NaN here.",
        ),
        Misconception(
            "the last tile not launched", lambda x, factor: _rows(x, factor, tail=False),
            "`n // BLOCK_N` rounds down, so the last rows have no program. `triton.cdiv` rounds up. Rows that no program writes are NaN here.",
        ),
        Misconception(
            "one factor for the whole tile", lambda x, factor: _rows(x, factor, "first factor"),
            "Each row has its own factor. Load as many factors as the tile has rows, and let them broadcast along the columns.",
        ),
        Misconception(
            "the first factors in every tile", lambda x, factor: _rows(x, factor, "factor of the row in the tile"),
            "Row i needs factor[i]. Read the factors at `rows`, the same row numbers as for x.",
        ),
        Misconception(
            "factors along the columns", lambda x, factor: _rows(x, factor, "by columns"),
            "`factor[None, :]` runs along the columns. Row i is multiplied by factor[i], so the factors stand in a column: `factor[:, None]`.",
        ),
        Misconception(
            "no kernel at all", rows_without_kernel,
            "No kernel filled the output. The launcher makes room for it, and a kernel writes it.",
            cost=no_kernel,
        ),
    ],
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- forward


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, *tiles: int) -> tuple[Tensor, Tensor]:
    """Output and logsumexp by PyTorch; a row that sees nothing gives 0 and −∞."""
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.arange(m) > torch.arange(n)[:, None] + (m - n), -math.inf)
    lse = scores.logsumexp(-1)
    return torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None]) @ v, lse


@triton.jit
def _forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, heads, n, m, d, scale,
    CAUSAL: tl.constexpr, SLIP: tl.constexpr, BLOCK: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
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


def _dense_strides(x):
    return x.shape[1] * x.shape[2] * x.shape[3], x.shape[2] * x.shape[3], x.shape[3], 1


def _forward(q, k, v, causal, tiles=(16, 16), slip="", scale=None, strides=None) -> tuple[Tensor, Tensor]:
    (b, h, n, d), m = q.shape, k.shape[2]
    out, lse = _room(q.shape, q.dtype, q.device), torch.empty((b, h, n), device=q.device)
    _forward_kernel[(-(-n // tiles[0]), b * h)](
        q, k, v, out, lse, *(strides or (q.stride(), k.stride(), v.stride())), h, n, m, d, d**-0.5 if scale is None else scale,
        CAUSAL=causal, SLIP=slip, BLOCK=tiles[0], KEYS=tiles[1], WIDTH=max(16, triton.next_power_of_2(d)),
    )  # fmt: skip
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


def _towards(first: float, last: float):
    """Draws queries along one direction, and keys whose scores go from `first` to `last` along the sequence."""

    def tensors(generator: Generator, n: int, m: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (torch.randn(1, 1, length, d, generator=generator) / 4 for length in (n, m, m))
        q[..., 0], k[..., 0] = 4.0, torch.linspace(first, last, m) * math.sqrt(d) / 4
        return q, k, v * 4

    return tensors


def _slope(label: str, first: float, last: float, n: int, m: int, d: int, causal: bool) -> Case:
    return Case(label, lambda _, generator: (*_towards(first, last)(generator, n, m, d), causal, 16, 32))


def _near_1000(label: str, case: Case) -> Case:
    """The same case, with 1000 added to all scores by one column: float16 has only every half there."""

    def draw(*how) -> tuple:
        q, k, *others = case.draw(*how)
        q[..., 0], k[..., 0] = math.sqrt(q.shape[-1]), 1000.0
        return q, k, *others

    return replace(case, label=label, draw=draw)


def in_tiles(*, block_q: int = 16, block_k: int = 16, **sizes) -> Case:
    """A case of `triton_forward`, with the tiles that its launcher is told."""
    return random_case(block_q=block_q, block_k=block_k, **sizes)


triton_forward = KernelCheck(
    reference=flash_triton.triton_forward,
    oracle=attention,
    layouts=("gaps", "heads inside", "columns"),
    names=("output: sequences heads queries features", "logsumexp: sequences heads queries"),
    cases=[
        in_tiles(b=1, h=1, n=36, m=57, d=16, causal=True, scale=1.5, block_q=32, label="causal, n = 36, m = 57, d = 16, tiles of 32 × 16"),
        in_tiles(b=1, h=1, n=40, m=22, d=20, causal=True, label="causal, n = 40, m = 22: the first 18 rows see nothing"),
        with_a_key_of_zeros(in_tiles(b=2, h=3, n=14, m=7, d=16, causal=False, block_k=32, label="b = 2, h = 3, n = 14, m = 7")),
        in_tiles(b=1, h=1, n=32, m=64, d=32, causal=False, scale=2.0, block_k=32, label="n = 32, m = 64, d = 32: whole tiles of 16 × 32"),
        _slope("scores that grow along the keys", -20.0, 110.0, 19, 50, 16, False),
        _slope("scores that fall, all far below 0", -150.0, -420.0, 17, 40, 16, False),
        _near_1000("causal, h = 2, float16, scores near 1000", in_tiles(b=1, h=2, n=18, m=18, d=16, causal=True, dtype=torch.float16)),
    ],
    misconceptions=[
        Misconception(
            "the accumulator not rescaled", _forward_with("acc not rescaled"),
            "The accumulator was computed with the old maximum. Multiply it by exp(m_i − m_new) when the maximum rises.",
        ),
        Misconception(
            "the sum not rescaled", _forward_with("sum not rescaled"),
            "The running sum was computed with the old maximum. Multiply it by exp(m_i − m_new), like the accumulator.",
        ),
        Misconception(
            "nothing rescaled", _forward_with("no rescale"),
            "The maximum can rise from tile to tile. Before you add a tile, multiply the sum and the accumulator by exp(m_i − m_new). (A factor "
            "that is computed after the maximum was overwritten is always 1.)",
        ),
        Misconception(
            "rescaled by the inverse", _forward_with("inverse"),
            "Your factor is exp(m_new − m_i), and right is exp(m_i − m_new). In the first tile m_i is −∞, so yours is ∞, and ∞ · 0 is NaN.",
        ),
        Misconception(
            "rescaled after adding", _forward_with("rescaled too late"),
            "Rescale the accumulator before you add the new tile: the new part already uses the new maximum. In the first tile your factor is "
            "exp(−∞) = 0, so that tile is lost.",
        ),
        Misconception(
            "only the maximum of the tile", _forward_with("maximum of the tile"),
            "Keep the larger of the old maximum and the tile's. With the tile's only, a hidden tile gives −∞, and the next factor, exp(−∞) = 0, "
            "deletes all that came before. In other tiles the factor can overflow.",
        ),
        Misconception(
            "exponentials with the old maximum subtracted", _forward_with("old maximum"),
            "You subtract the old maximum. In the first tile it is −∞, and exp(S + ∞) is ∞, which ends in NaN. Compute m_new first, then exp(S "
            "− m_new).",
        ),
        Misconception(
            "a running maximum that starts at 0", _forward_with("maximum 0"),
            "The maximum of no scores is −∞, not 0. If it starts at 0, scores far below 0 all give exp(S − 0) = 0, and a row without keys gets "
            "logsumexp 0.",
        ),
        Misconception(
            "exponentials without a maximum", _forward_with("no maximum"),
            "exp(89) is more than float32 can hold. Subtract the running maximum, and no exponential is larger than 1.",
        ),
        Misconception(
            "normalised tile by tile", _forward_with("normalised per tile"),
            "A row has one softmax over all keys. Divide once, after the loop, by the sum over all tiles.",
        ),
        Misconception(
            "never normalised", _forward_with("not normalised"),
            "The accumulator holds exponentials times values. The weights sum to 1 only after a division by the running sum.",
        ),
        Misconception(
            "no scale", lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, scale=1.0),
            "Scores are divided by √d before the softmax, in a kernel too.",
        ),
        Misconception(
            "scale by d", lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, scale=1 / q.shape[3]),
            "The variance of a dot product grows with d, so its size grows with √d: divide by √d.",
        ),
        Misconception(
            "queries scaled again in every tile", _forward_with("scaled in the loop"),
            "The queries are loaded once, and divided by √d in every round of the loop. Scale the scores, or the queries once before the loop.",
        ),
        Misconception(
            "scores rounded to the dtype of q", _forward_with("scores in the dtype of q"),
            "`tl.dot` gives float32, and you round the scores to the dtype of q. Near 1000 float16 has only every half, so weights are off by up to a quarter. "
            "Leave the scores in float32: only the operands of `tl.dot` are float16.",
        ),
        Misconception(
            "missing keys with score 0", _forward_with("tail counts"),
            "Keys beyond the end are loaded as zeros and get score 0, so they get a weight. Set the scores of all keys ≥ m to −∞.",
        ),
        Misconception(
            "zeros taken for empty slots", _forward_with("zeros"),
            "A key that exists may have score 0 too: one of zeros, or one at a right angle to the query. Which keys exist is told by `keys < m`.",
        ),
        Misconception(
            "keys compared with the number of queries", _forward_with("keys below n"), KEYS_END_AT_M,
        ),
        Misconception(
            "keys loaded up to the number of queries", _forward_with("loaded below n"),
            "The mask of your loads compares keys with n, as that of q does with rows. There are m keys: with n < m real ones are taken for zeros, with n > m "
            "foreign memory is read.",
            raises="UnmaskedRead",
        ),
        Misconception(
            "the last keys left out", _forward_with("whole tiles"),
            "m need not be a multiple of BLOCK_K. The loop must also visit the last tile, which may be shorter.",
        ),
        Misconception(
            "one tile of keys", _forward_with("first tile"),
            "A program has one tile of queries, but it needs all tiles of keys: loop over them.",
        ),
        Misconception("tiles read without a mask", _forward_with("unmasked"), UNMASKED_READ, raises="UnmaskedRead"),
        Misconception(
            "columns beyond the width", _forward_with("columns unmasked"),
            "A tile is BLOCK_D wide, a power of two, and K and V are d wide. Columns from d on are not part of them. The mask needs both "
            "conditions: keys < m and columns < d.",
            raises="UnmaskedRead",
        ),
        Misconception("tiles written without a mask", _forward_with("stores unmasked"), UNMASKED_WRITE, raises="UnmaskedWrite"),
        Misconception(
            "strides taken for granted",
            lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, strides=tuple(_dense_strides(x) for x in (q, k, v))), CONTIGUOUS,
        ),
        Misconception(
            "strides of the keys taken for granted",
            lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, strides=(q.stride(), _dense_strides(k), v.stride())), CONTIGUOUS,
        ),
        Misconception(
            "strides of the values taken for granted",
            lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, strides=(q.stride(), k.stride(), _dense_strides(v))), CONTIGUOUS,
        ),
        Misconception(
            "values read with the strides of the keys",
            lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, strides=(q.stride(), k.stride(), k.stride())), OWN_STRIDES,
        ),
        Misconception(
            "rows and columns of the values read with the strides of the keys",
            lambda q, k, v, causal, *tiles: _forward(
                q, k, v, causal, tiles, strides=(q.stride(), k.stride(), (*v.stride()[:2], *k.stride()[2:]))
            ), OWN_STRIDES,
            raises="UnmaskedRead",  # or none, where another tensor happens to lie there
        ),
        Misconception(
            "keys read with the strides of the queries",
            lambda q, k, v, causal, *tiles: _forward(q, k, v, causal, tiles, strides=(q.stride(), q.stride(), v.stride())), OWN_STRIDES,
            raises="UnmaskedRead",
        ),
        Misconception(
            "tiles one row apart", _forward_with("no tile size"),
            "Program 1 starts after the rows of program 0, not at row 1: multiply the program's number by the rows of a tile, BLOCK_Q. Rows "
            "that no program writes are NaN here.",
        ),
        Misconception(
            "rows counted in tiles of keys", _forward_with("rows in tiles of keys"),
            "A program has BLOCK_Q queries, so its rows start at tile · BLOCK_Q, not at tile · BLOCK_K. Rows that no program writes are NaN "
            "here.",
        ),
        Misconception(
            "one head for all", _forward_with("one head"),
            "Every program reads head 0. Add h times the head's stride to the pointers of Q, K and V.",
        ),
        Misconception(
            "all sequences stored in one place", _forward_with("stored behind the head"),
            "`pair` counts the heads of all sequences, `h` the heads of one. With `h` all sequences write to the place of the first, and the "
            "places of the others are never written: NaN here.",
        ),
        Misconception(
            "keys instead of values", _forward_with("keys for values"),
            "You multiplied the weights by the keys. The output is the weights times the values.",
        ),
        Misconception(
            "no causal mask", _forward_with("not causal"),
            "With causal=True no query sees a later key, and your scores hide none: set those of later keys to −∞ where CAUSAL is set.",
        ),
        Misconception(
            "a causal mask counted from each tile", _forward_with("per tile"),
            "You compare places inside the tiles. Compare `keys` with `rows`, which count from the start of the sequence.",
        ),
        Misconception(
            "a causal mask at the wrong corner", _forward_with("wrong corner"),
            "The n queries are the last n of m positions: query i stands at i + (m − n), and that is the last key it sees.",
        ),
        Misconception(
            "a token that doesn't see itself", _forward_with("strict"),
            "A query also sees the key at its own position: compare with ≤, not with <.",
        ),
        Misconception(
            "the offset turned round", _forward_with("offset turned round"),
            "The n queries are the last n of m positions, so query i stands at position i + (m − n). You put it at i + (n − m).",
        ),
        Misconception(
            "a causal mask that hides the past", _forward_with("backwards"),
            "Your queries see later keys and not earlier ones. A query may see the keys up to its own position.",
        ),
        Misconception(
            "the diagonal tile skipped", _forward_with("diagonal"),
            "The tile on the diagonal is partly visible, so the loop must visit it: it ends at the last key that the tile's last query sees.",
        ),
        Misconception(
            "a large negative number for −∞", _forward_with("finite"),
            "If all scores of a row in a tile are the same large negative number, its softmax is an average over keys that must not be seen. "
            "With −∞ the row is 0.",
        ),
        Misconception(
            "NaN for a row that sees nothing", _forward_with("empty rows"),
            "−∞ − (−∞) and 0/0 are NaN. Subtract 0 where the maximum is still −∞, and divide by 1 where the sum is 0.",
        ),
        Misconception(
            "−∞ minus −∞ inside the loop", _forward_with("empty rows in the loop"),
            "As long as a row has seen nothing its maximum is −∞, and −∞ − (−∞) is NaN, in the exponent and in the factor. Subtract 0 there instead.",
        ),
        Misconception(
            "logsumexp without the maximum", _forward_with("lse without maximum"),
            "The running sum ℓ holds exp(s − m_i). The logsumexp is m_i + log ℓ: you left out m_i.",
        ),
        Misconception(
            "logsumexp in base 2", _forward_with("lse base 2"),
            "Your logsumexp is a logarithm to base 2, as the powers of 2 in fast kernels give it. Asked for is the natural one: multiply it by "
            "ln 2 before you store it.",
        ),
        Misconception(
            "the maximum in base 2 in the logsumexp", _forward_with("maximum base 2"),
            "Only the logsumexp is wrong. Its maximum is log₂ e times too large, as that of scores for `exp2` is, while log ℓ is natural. Multiply m_i by ln 2 "
            "before you add them.",
        ),
        Misconception(
            "logsumexp without the logarithm", _forward_with("lse without log"),
            "The logsumexp is m_i + log ℓ. Yours is m_i + ℓ.",
        ),
        Misconception(
            "weights of another dtype than the values", _forward_with("weights in float32"),
            "The weights are float32, and the values may be float16. Both operands of `tl.dot` need the same dtype: cast the weights to the "
            "dtype of v.",
            raises="AssertionError",
        ),
        Misconception(
            "no kernel at all", forward_without_kernel,
            "Launch your kernel and return what it wrote.",
            cost=no_kernel,
        ),
    ],
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------------- backward


def gradients(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, ...]:
    """dQ, dK and dV by PyTorch's own differentiation; what `out` and `lse` say is not used."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        n, m = q.shape[-2], k.shape[-2]
        scores = leaves[0] @ leaves[1].mT / math.sqrt(q.shape[-1])
        seen = torch.arange(m) <= torch.arange(n)[:, None] + (m - n) if causal else torch.ones(n, m, dtype=torch.bool)
        weights = scores.masked_fill(~seen, -1e30).softmax(-1) * seen.any(
            -1, keepdim=True
        )  # finite: no NaN in the derivative
        return torch.autograd.grad(weights @ leaves[2], leaves, grad_out)


@triton.jit
def _weights(q, k, lse, rows, keys, n, m, scale, CAUSAL: tl.constexpr, SLIP: tl.constexpr):
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    if SLIP == "P without scale":
        s = s / scale
    seen = (rows[:, None] < n) & (keys[None, :] < m)
    if SLIP == "missing keys":
        seen = (rows[:, None] < n) & (keys[None, :] >= 0)
    if SLIP == "keys below n":
        seen = (rows[:, None] < n) & (keys[None, :] < n)
    if CAUSAL:
        if SLIP == "wrong corner" or SLIP == "wrong corner, empty rows known":
            seen = seen & (keys[None, :] <= rows[:, None])
        elif SLIP == "offset turned round":
            seen = seen & (keys[None, :] <= rows[:, None] + (n - m))
        elif SLIP != "not causal":
            seen = seen & (keys[None, :] <= rows[:, None] + (m - n))
    if SLIP == "mask after the exponential":
        return tl.exp(s - lse[:, None]) * seen.to(tl.float32)
    if SLIP == "P without lse":
        return tl.where(seen, tl.exp(s), 0.0)
    if SLIP == "empty rows":
        return tl.exp(tl.where(seen, s, float("-inf")) - lse[:, None])
    if SLIP == "offset turned round" or SLIP == "wrong corner":  # ∞ where a row that saw nothing now sees something
        return tl.exp(tl.where(seen, s - lse[:, None], float("-inf")))
    return tl.where(seen, tl.exp(s - tl.where(lse == float("-inf"), 0.0, lse)[:, None]), 0.0)


@triton.jit
def _tile(ptr, strides, places, length, d, SLIP: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    exists = (places[:, None] < length) & (columns[None, :] < d)
    if SLIP == "unmasked":
        exists = (places[:, None] >= 0) & (columns[None, :] < d)
    return tl.load(ptr + places[:, None] * strides[2] + columns[None, :] * strides[3], mask=exists, other=0.0)


@triton.jit
def _keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, q_strides, k_strides, v_strides, grad_strides,
    heads, n, m, d, scale, CAUSAL: tl.constexpr, SLIP: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    tile, pair = tl.program_id(0), tl.program_id(1)
    b, h = pair // heads, pair % heads
    keys, columns = tile * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    k = _tile(k_ptr + b * k_strides[0] + h * k_strides[1], k_strides, keys, m, d, SLIP, WIDTH)
    v = _tile(v_ptr + b * v_strides[0] + h * v_strides[1], v_strides, keys, m, d, SLIP, WIDTH)
    dk = tl.full((BLOCK, WIDTH), 0.0, tl.float32)
    dv = tl.full((BLOCK, WIDTH), 0.0, tl.float32)
    first, end = 0, n
    if CAUSAL:  # the notebook gives where the walk begins
        first = tl.maximum(tile * BLOCK - (m - n), 0) // BLOCK * BLOCK
    if SLIP == "from the own tile":
        first = tl.minimum(tile * BLOCK, n)
    if SLIP == "whole tiles":
        end = n // BLOCK * BLOCK
    for start in range(first, end, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q = _tile(q_ptr + b * q_strides[0] + h * q_strides[1], q_strides, rows, n, d, SLIP, WIDTH)
        grad = _tile(grad_ptr + b * grad_strides[0] + h * grad_strides[1], grad_strides, rows, n, d, SLIP, WIDTH)
        lse = tl.load(lse_ptr + pair * n + rows, mask=rows < n, other=0.0)
        delta = tl.load(delta_ptr + pair * n + rows, mask=rows < n, other=0.0)
        p = _weights(q, k, lse, rows, keys, n, m, scale, CAUSAL, SLIP)
        if SLIP == "dV of P not transposed":
            dv += tl.dot(p.to(q.dtype), grad, input_precision="ieee")
        elif SLIP == "dV of scores":
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            dv += tl.dot(tl.trans(scores.to(q.dtype)), grad, input_precision="ieee")
        else:
            dv += tl.dot(tl.trans(p.to(q.dtype)), grad, input_precision="ieee")
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        if SLIP == "dK without D":
            ds = p * dp
        if SLIP == "D along the keys in dK":
            ds = p * (dp - delta[None, :])
        if SLIP == "dS without P":
            ds = tl.where(p > 0.0, dp - delta[:, None], 0.0)
        if SLIP == "dK overwritten":
            dk = tl.full((BLOCK, WIDTH), 0.0, tl.float32)
        if SLIP == "dK not transposed":
            dk += tl.dot(ds.to(q.dtype), q, input_precision="ieee")
        else:
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
    if SLIP != "dK without scale" and SLIP != "no scale":
        dk = dk * scale
    exists = (keys[:, None] < m) & (columns[None, :] < d)
    if SLIP == "stores unmasked":
        exists = (keys[:, None] >= 0) & (columns[None, :] < d)
    places = (pair * m + keys[:, None]) * d + columns[None, :]
    tl.store(dk_ptr + places, dk, mask=exists)
    tl.store(dv_ptr + places, dv, mask=exists)


@triton.jit
def _queries_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, q_strides, k_strides, v_strides, grad_strides,
    heads, n, m, d, scale, CAUSAL: tl.constexpr, SLIP: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    tile, pair = tl.program_id(0), tl.program_id(1)
    b, h = pair // heads, pair % heads
    rows, columns = tile * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    q = _tile(q_ptr + b * q_strides[0] + h * q_strides[1], q_strides, rows, n, d, SLIP, WIDTH)
    grad = _tile(grad_ptr + b * grad_strides[0] + h * grad_strides[1], grad_strides, rows, n, d, SLIP, WIDTH)
    lse = tl.load(lse_ptr + pair * n + rows, mask=rows < n, other=0.0)
    delta = tl.load(delta_ptr + pair * n + rows, mask=rows < n, other=0.0)
    dq = tl.full((BLOCK, WIDTH), 0.0, tl.float32)
    end = m
    if CAUSAL:
        end = tl.minimum(m, (tile + 1) * BLOCK + (m - n))
    for start in range(0, end, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        k = _tile(k_ptr + b * k_strides[0] + h * k_strides[1], k_strides, keys, m, d, SLIP, WIDTH)
        v = _tile(v_ptr + b * v_strides[0] + h * v_strides[1], v_strides, keys, m, d, SLIP, WIDTH)
        p = _weights(q, k, lse, rows, keys, n, m, scale, CAUSAL, SLIP)
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        if SLIP == "dQ without D":
            ds = p * dp
        if SLIP == "D along the keys":
            ds = p * (dp - delta[None, :])
        if SLIP == "dS without P":
            ds = tl.where(p > 0.0, dp - delta[:, None], 0.0)
        if SLIP == "dQ overwritten":
            dq = tl.full((BLOCK, WIDTH), 0.0, tl.float32)
        if SLIP == "dQ transposed":
            dq += tl.dot(tl.trans(ds.to(k.dtype)), k, input_precision="ieee")
        elif SLIP == "dQ from values":
            dq += tl.dot(ds.to(k.dtype), v, input_precision="ieee")
        else:
            dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    if SLIP != "dQ without scale" and SLIP != "no scale":
        dq = dq * scale
    exists = (rows[:, None] < n) & (columns[None, :] < d)
    tl.store(dq_ptr + (pair * n + rows[:, None]) * d + columns[None, :], dq, mask=exists)


def _backward(
    q, k, v, out, lse, grad_out, causal, slip="", delta=None, grad_strides=None
) -> tuple[Tensor, Tensor, Tensor]:
    (b, h, n, d), m = q.shape, k.shape[2]
    delta = (grad_out.float() * out.float()).sum(-1) if delta is None else delta
    dq, dk, dv = (_room(x.shape, x.dtype, x.device) for x in (q, k, v))
    common = (q, k, v, grad_out, lse.contiguous(), delta.contiguous())
    sizes = (q.stride(), k.stride(), v.stride(), grad_strides or grad_out.stride(), h, n, m, d, d**-0.5)
    options = {"CAUSAL": causal, "SLIP": slip, "BLOCK": 16, "WIDTH": max(16, triton.next_power_of_2(d))}
    _keys_kernel[(-(-m // 16), b * h)](*common, dk, dv, *sizes, **options)
    _queries_kernel[(-(-n // 16), b * h)](*common, dq, *sizes, **options)
    return dq, dk, dv


def _backward_with(slip: str) -> Callable:
    """A launcher whose kernels have this slip."""
    return lambda q, k, v, out, lse, grad_out, causal: _backward(q, k, v, out, lse, grad_out, causal, slip)


def D_forgotten(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(q, k, v, out, lse, grad_out, causal, delta=torch.zeros_like(lse))


def D_added(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(q, k, v, out, lse, grad_out, causal, delta=-(grad_out.float() * out.float()).sum(-1))


def D_of_queries(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(q, k, v, out, lse, grad_out, causal, delta=(grad_out.float() * q.float()).sum(-1))


def D_averaged(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(q, k, v, out, lse, grad_out, causal, delta=(grad_out.float() * out.float()).mean(-1))


def grad_strides_of_out(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(q, k, v, out, lse, grad_out, causal, grad_strides=_dense_strides(grad_out))


def backward_without_kernel(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
    n, m, scale = q.shape[2], k.shape[2], q.shape[3] ** -0.5
    q, k, v, out, grad = (x.double() for x in (q, k, v, out, grad_out))
    s = (q[..., :, None, :] * k[..., None, :, :]).sum(-1) * scale
    p = torch.exp(s - lse.double().nan_to_num(neginf=math.inf)[..., None])
    p = p.tril(m - n) if causal else p
    ds = p * ((grad[..., :, None, :] * v[..., None, :, :]).sum(-1) - (grad * out).sum(-1, keepdim=True)) * scale
    dq, dk = (ds[..., None] * k[..., None, :, :]).sum(-2), (ds[..., None] * q[..., :, None, :]).sum(-3)
    return dq.float(), dk.float(), (p[..., None] * grad[..., :, None, :]).sum(-3).float()


def backward_case(label: str = "", scale: float = 1.0, dtype=torch.float32, low: bool = False, **sizes) -> Case:
    """q, k, v and the gradient of the output are drawn; the output and the logsumexp are right. low: scores from −150 to −120."""
    forward = in_tiles(label=label, scale=scale, dtype=dtype, **sizes)

    def draw(_, generator: Generator) -> tuple:
        q, k, v, causal, *_ = forward.draw(flash_triton.triton_forward, generator)
        if low:
            q, k, v = (
                x.expand(*b_h, -1, -1).to(dtype)
                for x, b_h in (
                    (x, q.shape[:2]) for x in _towards(-150.0, -120.0)(generator, q.shape[2], k.shape[2], q.shape[3])
                )
            )
        out, lse = attention(q.double(), k.double(), v.double(), causal)
        # Large keys make large rounding errors.
        grad_out = (0.0015 if low else 1) * torch.randn(q.shape, generator=generator).to(dtype)
        return q, k, v, out.to(dtype), lse.float(), grad_out, causal

    return Case(forward.label, draw)


triton_backward = KernelCheck(
    reference=flash_triton.triton_backward,
    oracle=gradients,
    layouts=("heads inside", "gaps", "columns", "gaps", "dense", "columns"),
    names=("dQ: sequences heads queries features", "dK: sequences heads keys features", "dV: sequences heads keys features"),
    cases=[
        backward_case(b=1, h=1, n=20, m=37, d=16, causal=True, scale=1.5, label="causal, n = 20, m = 37, d = 16"),
        backward_case(b=1, h=1, n=35, m=17, d=20, causal=True, label="causal, n = 35, m = 17: the first 18 rows see nothing"),
        backward_case(b=2, h=3, n=7, m=14, d=16, causal=False, label="b = 2, h = 3, n = 7, m = 14"),
        backward_case(b=1, h=1, n=32, m=32, d=32, causal=False, label="n = m = d = 32: whole tiles"),
        backward_case(b=1, h=1, n=19, m=21, d=16, causal=False, low=True, label="n = 19, m = 21, all scores below −100"),
    ],
    misconceptions=[
        Misconception(
            "D forgotten", D_forgotten,
            "The weights of a row sum to 1: if one grows, the others shrink. So D is subtracted: dS = P ∘ (dP − D), with D = rowsum(dO ∘ O).",
        ),
        Misconception(
            "D forgotten in dK", _backward_with("dK without D"),
            "Both kernels compute dS = P ∘ (dP − D). The one for dK leaves D out.",
        ),
        Misconception(
            "D forgotten in dQ", _backward_with("dQ without D"),
            "Both kernels compute dS = P ∘ (dP − D). The one for dQ leaves D out.",
        ),
        Misconception(
            "D added instead of subtracted", D_added,
            "You add D. Every row of dS must sum to 0, and that holds only for P ∘ (dP − D).",
        ),
        Misconception(
            "D from the queries", D_of_queries,
            "You multiplied dO by Q. D is the row sum of dO ∘ O, the gradient of the output times the output itself.",
        ),
        Misconception(
            "D along the keys in dQ", _backward_with("D along the keys"),
            "There is one D for each query, and queries are the rows of the tile: `delta[:, None]`. `delta[None, :]` gives no error because the "
            "tiles are square.",
        ),
        Misconception(
            "D along the keys in dK", _backward_with("D along the keys in dK"),
            "There is one D for each query, and queries are the rows of the tile: `delta[:, None]`. `delta[None, :]` gives no error because the "
            "tiles are square.",
        ),
        Misconception(
            "hidden weights multiplied by 0", _backward_with("mask after the exponential"),
            "exp(S − L) of a hidden pair can be ∞, and ∞ · 0 is NaN. Set the exponent of hidden pairs to −∞ with `tl.where`, or choose 0 for "
            "their weights with it.",
        ),
        Misconception(
            "dK overwritten by each tile", _backward_with("dK overwritten"),
            "A key gets gradients from every tile of queries: add them up, `dk += …`, as for dv.",
        ),
        Misconception(
            "dQ overwritten by each tile", _backward_with("dQ overwritten"),
            "A query gets gradients from every tile of keys: add them up, `dq += …`.",
        ),
        Misconception(
            "the offset turned round", _backward_with("offset turned round"),
            "As in the forward pass, query i stands at position i + (m − n). You put it at i + (n − m).",
        ),
        Misconception(
            "keys beyond the end not hidden", _backward_with("missing keys"),
            "A key beyond the end is loaded as zeros and gets score 0. If L is far below 0, exp(0 − L) is ∞, and ∞ · 0 is NaN. Hide these keys: "
            "`keys < m`.",
        ),
        Misconception(
            "keys compared with the number of queries", _backward_with("keys below n"), KEYS_END_AT_M,
        ),
        Misconception(
            "D as a mean", D_averaged,
            "D is the sum over the columns of dO ∘ O: a dot product, not a mean.",
        ),
        Misconception(
            "no scale in dQ", _backward_with("dQ without scale"),
            "S = scale · Q Kᵀ, so dQ = scale · dS K. (dK has the factor too.)",
        ),
        Misconception(
            "no scale in dK", _backward_with("dK without scale"),
            "S = scale · Q Kᵀ, so dK = scale · dSᵀ Q. (dQ has the factor too.)",
        ),
        Misconception(
            "no scale in dQ and dK", _backward_with("no scale"),
            "S = scale · Q Kᵀ: by the chain rule dQ and dK get the scale as a factor. (dV does not.)",
        ),
        Misconception(
            "no scale where P is made again", _backward_with("P without scale"),
            "L was computed from scaled scores. Scale the scores here too: P = exp(scale · Q Kᵀ − L).",
        ),
        Misconception(
            "P without the logsumexp", _backward_with("P without lse"),
            "exp(S) is not normalised yet. The logsumexp of each row was kept for this: P = exp(S − L).",
        ),
        Misconception(
            "dS without P", _backward_with("dS without P"),
            "dS = P ∘ (dP − D). You left out the factor P, so weights near 0 get large gradients.",
        ),
        Misconception(
            "dK from dS, not from its transpose", _backward_with("dK not transposed"),
            "dS has one row per query, dK one row per key: dK = scale · dSᵀ Q. There is no error because the tiles are square.",
        ),
        Misconception(
            "dV from P, not from its transpose", _backward_with("dV of P not transposed"),
            "P has one row per query, dV one row per key: dV = Pᵀ dO. There is no error because the tiles are square.",
        ),
        Misconception(
            "dQ from the transpose of dS", _backward_with("dQ transposed"),
            "dQ has one row per query, as dS has: dQ = scale · dS K, without a transpose. There is no error because the tiles are square.",
        ),
        Misconception(
            "dQ from the values", _backward_with("dQ from values"),
            "You multiplied dS by V. The scores come from Q and K, so dQ = scale · dS K.",
        ),
        Misconception(
            "dV from the scores", _backward_with("dV of scores"),
            "The output mixes the values with weights, not with scores: dV = Pᵀ dO.",
        ),
        Misconception(
            "no causal mask", _backward_with("not causal"),
            "P is made again, so it must be masked again: a pair that was hidden in the forward pass has weight 0.",
        ),
        Misconception(
            "a causal mask at the wrong corner", _backward_with("wrong corner"),
            WRONG_CORNER,
        ),
        Misconception(
            "a causal mask at the wrong corner, and 0 for a logsumexp of −∞", _backward_with("wrong corner, empty rows known"), WRONG_CORNER,
        ),
        Misconception(
            "NaN for a row that sees nothing", _backward_with("empty rows"),
            "Its logsumexp L is −∞, and −∞ − (−∞) is NaN. Such a row has weights 0: put −∞ into the whole exponent S − L, or choose 0 with "
            "`tl.where`.",
        ),
        Misconception(
            "queries before the key's tile left out", _backward_with("from the own tile"),
            "Without a causal mask every query sees every key. With one, key j is seen from query j − (m − n) on. Start the loop over queries "
            "there, not at the tile with the key's number.",
        ),
        Misconception(
            "the last queries left out", _backward_with("whole tiles"),
            "n need not be a multiple of BLOCK. The loop over queries must also visit the last tile, which may be shorter.",
        ),
        Misconception(
            "tiles read without a mask",
            _backward_with("unmasked"), UNMASKED_READ,
            raises="UnmaskedRead",
        ),
        Misconception(
            "tiles written without a mask",
            _backward_with("stores unmasked"), UNMASKED_WRITE,
            raises="UnmaskedWrite",
        ),
        Misconception("strides of dO taken for granted", grad_strides_of_out, "dO may be a view. If your kernels read its rows one after the other, hand them `grad_out.contiguous()`; otherwise give them its "
            "strides."),
        Misconception(
            "no kernel at all", backward_without_kernel,
            "Launch your kernels and return what they wrote.",
            cost=no_kernel,
        ),
    ],
)  # fmt: skip
