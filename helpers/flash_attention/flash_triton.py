"""Flash attention as Triton kernels: forward (output and logsumexp) and backward, compiled on a GPU, else interpreted.

The algorithms are 1 and 2 of FlashAttention-2 (Dao, 2023), with raw pointers, strides and masks. Two things differ from
the page: powers are of 2, for which GPUs have an instruction (e^x = 2^(x log₂ e)), and where SPLIT is set the tiles
that need no mask (all but the diagonal and the last) are visited by a loop of their own. `tiles.py` chooses the sizes.
"""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from helpers.kernels import device, interpreted, tl, triton

from .tiles import TEACHING, TUNED, tiles_for

LOG2E = tl.constexpr(math.log2(math.e))
LN2 = tl.constexpr(math.log(2))

# ------------------------------------------------------------------------------------------------------- a first kernel


@triton.jit
def scale_rows_kernel(
    x_ptr,
    factor_ptr,
    out_ptr,
    x_strides,
    factor_stride,
    out_strides,
    n,
    d,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One program: one tile of BLOCK_N rows and BLOCK_D columns."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = (rows[:, None] < n) & (columns[None, :] < d)
    x = tl.load(x_ptr + rows[:, None] * x_strides[0] + columns[None, :] * x_strides[1], mask=inside)
    factor = tl.load(factor_ptr + rows * factor_stride, mask=rows < n)
    tl.store(
        out_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], x * factor[:, None], mask=inside
    )


def scale_rows(x: Float[Tensor, "n d"], factor: Float[Tensor, "n"]) -> Float[Tensor, "n d"]:
    """Every row of x times its factor. Both may be any view."""
    (n, d), out = x.shape, torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n, 32), triton.cdiv(d, 32))
    strides = x.stride(), factor.stride(0), out.stride()
    scale_rows_kernel[grid](x, factor, out, *strides, n, d, BLOCK_N=32, BLOCK_D=32)
    return out


# ------------------------------------------------------------------------------------------------- what kernels share


@triton.jit
def _head(pointer, strides, heads):
    """Where the head of this program begins. In 64 bits: all heads together may have more than 2³¹ elements."""
    head = tl.program_id(1).to(tl.int64)
    return pointer + (head // heads) * strides[0] + (head % heads) * strides[1]


@triton.jit
def _load(pointer, strides, rows, length, HEAD_DIM: tl.constexpr, D: tl.constexpr, TAIL: tl.constexpr):
    """These rows of a head as a tile (rows, D): zeros beyond HEAD_DIM columns and, with TAIL, beyond `length` rows."""
    columns = tl.arange(0, D)
    places = pointer + rows[:, None] * strides[2] + columns[None, :] * strides[3]
    if TAIL:
        tile = tl.load(places, mask=(rows[:, None] < length) & (columns[None, :] < HEAD_DIM), other=0.0)
    elif HEAD_DIM < D:
        tile = tl.load(places, mask=columns[None, :] < HEAD_DIM, other=0.0)
    else:
        tile = tl.load(places)
    return tile


@triton.jit
def _store(pointer, strides, rows, length, tile, HEAD_DIM: tl.constexpr, D: tl.constexpr):
    """Writes a tile to these rows of a head, as far as they and its columns exist."""
    columns = tl.arange(0, D)
    places = pointer + rows[:, None] * strides[2] + columns[None, :] * strides[3]
    inside = (rows[:, None] < length) & (columns[None, :] < HEAD_DIM)
    tl.store(places, tile.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _visible(rows, keys, n, m, CAUSAL: tl.constexpr):
    """Which pairs count. Causal: the key stands no later than the query, one of the last n of m (so it exists)."""
    if CAUSAL:
        visible = keys <= rows + (m - n)
    else:
        visible = keys < m
    return visible


@triton.jit
def _key_tiles(first_row, n, m, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    """For the queries from first_row on: where the full tiles of keys that all of them see end, and all keys."""
    full, end = m // BLOCK_K * BLOCK_K, m
    if CAUSAL:
        seen_by_first = tl.maximum(first_row + 1 + (m - n), 0)
        full = tl.minimum(full, seen_by_first // BLOCK_K * BLOCK_K)
        end = tl.minimum(end, first_row + BLOCK_Q + (m - n))  # what the last query of the tile sees
    return full, end


# ------------------------------------------------------------------------------------------------------------ forward


@triton.jit
def _attend(
    m_i, l_i, acc, q, rows, start, end, k_ptr, v_ptr, k_strides, v_strides, n, m, scale,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_K: tl.constexpr, MASKED: tl.constexpr,
):
    """Lets a tile of queries see the keys from start to end: the online softmax, a tile of keys at a time."""
    for first in range(start, end, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        k = _load(k_ptr, k_strides, keys, m, HEAD_DIM, D, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if MASKED:
            scores = tl.where(_visible(rows[:, None], keys[None, :], n, m, CAUSAL), scores, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(scores, 1) * scale)
        shift = m_new
        if MASKED:
            shift = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row that has seen nothing yet: −∞ − (−∞) is NaN
        p = tl.exp2(scores * scale - shift[:, None])
        rescale = tl.exp2(m_i - shift)
        l_i = l_i * rescale + tl.sum(p, 1)
        v = _load(v_ptr, v_strides, keys, m, HEAD_DIM, D, MASKED)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None], input_precision="ieee")
        m_i = m_new
    return m_i, l_i, acc


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, out_strides, heads, n, m, scale,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):
    """One program: one tile of queries of one head, against all the keys that it may see."""
    first_row = (
        tl.num_programs(0) - 1 - tl.program_id(0)
    ) * BLOCK_Q  # the last tiles first: if causal they take longest
    rows = first_row + tl.arange(0, BLOCK_Q)
    k_ptr, v_ptr = _head(k_ptr, k_strides, heads), _head(v_ptr, v_strides, heads)
    q = _load(_head(q_ptr, q_strides, heads), q_strides, rows, n, HEAD_DIM, D, True)

    scale *= LOG2E  # from here on scores are exponents of 2
    m_i = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    l_i = tl.full((BLOCK_Q,), 0.0, tl.float32)
    acc = tl.full((BLOCK_Q, D), 0.0, tl.float32)
    full, end = _key_tiles(first_row, n, m, CAUSAL, BLOCK_Q, BLOCK_K)
    if SPLIT:
        m_i, l_i, acc = _attend(m_i, l_i, acc, q, rows, 0, full, k_ptr, v_ptr, k_strides, v_strides, n, m, scale,
                                HEAD_DIM, D, CAUSAL, BLOCK_K, False)
    else:
        full = 0
    m_i, l_i, acc = _attend(m_i, l_i, acc, q, rows, full, end, k_ptr, v_ptr, k_strides, v_strides, n, m, scale,
                            HEAD_DIM, D, CAUSAL, BLOCK_K, True)

    l_i = tl.where(l_i == 0.0, 1.0, l_i)  # a row that saw nothing: its output is 0 and its logsumexp −∞
    _store(_head(out_ptr, out_strides, heads), out_strides, rows, n, acc / l_i[:, None], HEAD_DIM, D)
    tl.store(lse_ptr + tl.program_id(1).to(tl.int64) * n + rows, (m_i + tl.log2(l_i)) * LN2, mask=rows < n)


def triton_forward(
    q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m d"], causal: bool = False,
    block_q: int | None = None, block_k: int | None = None,
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h n"]]:
    """softmax(q kᵀ / √d) v and the logsumexp of the scaled scores (float32), in one kernel with one plain loop.

    block_q, block_k: rows of a tile of queries and of one of keys; by default those of `tiles.TEACHING`.
    causal: the n queries are the last n of the m positions. A row that sees nothing gives 0 and −∞.
    float32, float16 or (compiled only) bfloat16, with any strides. ValueError for other inputs.
    """
    return _forward(q, k, v, causal, TEACHING, block_q, block_k)


def tuned_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """The same from the same source, with the tiles of `tiles.TUNED`."""
    return _forward(q, k, v, causal, TUNED)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, table: dict, block_q=None, block_k=None
) -> tuple[Tensor, Tensor]:
    (b, h, n, d), m = _checked(q, k, v), k.shape[2]
    out, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty((b, h, n), device=q.device)
    tiles = tiles_for("forward", q, table)
    tiles = replace(tiles, block_q=block_q or tiles.block_q, block_k=block_k or tiles.block_k)
    forward_kernel[(triton.cdiv(n, tiles.block_q), b * h)](
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), out.stride(), h, n, m, d**-0.5,
        HEAD_DIM=d, D=_padded(d), CAUSAL=causal, **tiles.options(),
    )
    return out, lse


# ----------------------------------------------------------------------------------------------------------- backward


@triton.jit
def delta_kernel(
    out_ptr, grad_ptr, delta_ptr, out_strides, grad_strides, heads, n,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr,
):
    """D = rowsum(dO ∘ O): by how much each query's output, as a whole, wants to grow."""
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    out = _load(_head(out_ptr, out_strides, heads), out_strides, rows, n, HEAD_DIM, D, True).to(tl.float32)
    grad = _load(_head(grad_ptr, grad_strides, heads), grad_strides, rows, n, HEAD_DIM, D, True).to(tl.float32)
    tl.store(delta_ptr + tl.program_id(1).to(tl.int64) * n + rows, tl.sum(out * grad, 1), mask=rows < n)


@triton.jit
def _load_rows(lse_ptr, delta_ptr, rows, n):
    """The logsumexp (base 2) and D of some queries. +∞ for one that saw nothing or doesn't exist: weights 0."""
    lse = tl.load(lse_ptr + rows, mask=rows < n, other=float("inf")) * LOG2E
    return tl.where(lse == float("-inf"), float("inf"), lse), tl.load(delta_ptr + rows, mask=rows < n, other=0.0)


@triton.jit
def _collect_keys(
    dk, dv, k, v, keys, start, end, q_ptr, grad_ptr, lse_ptr, delta_ptr, q_strides, grad_strides, n, m, scale,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, MASKED: tl.constexpr,
):
    """Adds to dK and dV of a tile of keys what queries from start to end give. Scores are transposed: a row a key."""
    for first in range(start, end, BLOCK_Q):
        rows = first + tl.arange(0, BLOCK_Q)
        q = _load(q_ptr, q_strides, rows, n, HEAD_DIM, D, True)
        lse, delta = _load_rows(lse_ptr, delta_ptr, rows, n)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")
        weights = tl.exp2(scores * scale - lse[None, :])  # Pᵀ, the weights of the forward pass once more
        if MASKED:
            weights = tl.where(_visible(rows[None, :], keys[:, None], n, m, CAUSAL), weights, 0.0)
        grad = _load(grad_ptr, grad_strides, rows, n, HEAD_DIM, D, True)
        dv = tl.dot(weights.to(grad.dtype), grad, dv, input_precision="ieee")
        change = weights * (tl.dot(v, tl.trans(grad), input_precision="ieee") - delta[None, :])  # dSᵀ = Pᵀ ∘ (dPᵀ − D)
        dk = tl.dot(change.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit
def backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_strides, k_strides, v_strides, grad_strides, dk_strides, dv_strides, heads, n, m, scale,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):
    """One program: dK and dV of one tile of keys, from all the queries that see them."""
    first_key = tl.program_id(0) * BLOCK_K
    keys = first_key + tl.arange(0, BLOCK_K)
    k = _load(_head(k_ptr, k_strides, heads), k_strides, keys, m, HEAD_DIM, D, True)
    v = _load(_head(v_ptr, v_strides, heads), v_strides, keys, m, HEAD_DIM, D, True)
    q_ptr, grad_ptr = _head(q_ptr, q_strides, heads), _head(grad_ptr, grad_strides, heads)
    lse_ptr += tl.program_id(1).to(tl.int64) * n
    delta_ptr += tl.program_id(1).to(tl.int64) * n

    dk = tl.full((BLOCK_K, D), 0.0, tl.float32)
    dv = tl.full((BLOCK_K, D), 0.0, tl.float32)
    start, full = 0, 0  # the first query tile that sees any of the keys, and the first that sees all of them
    if CAUSAL:
        start = tl.maximum(first_key - (m - n), 0) // BLOCK_Q * BLOCK_Q
        full = n
    if CAUSAL and SPLIT:
        full = tl.minimum(n, tl.cdiv(tl.maximum(first_key + BLOCK_K - 1 - (m - n), 0), BLOCK_Q) * BLOCK_Q)
    if CAUSAL:
        dk, dv = _collect_keys(dk, dv, k, v, keys, start, full, q_ptr, grad_ptr, lse_ptr, delta_ptr, q_strides,
                               grad_strides, n, m, scale * LOG2E, HEAD_DIM, D, CAUSAL, BLOCK_Q, True)
    if SPLIT or not CAUSAL:
        dk, dv = _collect_keys(dk, dv, k, v, keys, full, n, q_ptr, grad_ptr, lse_ptr, delta_ptr, q_strides,
                               grad_strides, n, m, scale * LOG2E, HEAD_DIM, D, CAUSAL, BLOCK_Q, False)

    _store(_head(dk_ptr, dk_strides, heads), dk_strides, keys, m, dk * scale, HEAD_DIM, D)
    _store(_head(dv_ptr, dv_strides, heads), dv_strides, keys, m, dv, HEAD_DIM, D)


@triton.jit
def _collect_queries(
    dq, q, grad, lse, delta, rows, start, end, k_ptr, v_ptr, k_strides, v_strides, n, m, scale,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_K: tl.constexpr, MASKED: tl.constexpr,
):
    """Adds to dQ of a tile of queries what the keys from start to end give."""
    for first in range(start, end, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        k = _load(k_ptr, k_strides, keys, m, HEAD_DIM, D, MASKED)
        v = _load(v_ptr, v_strides, keys, m, HEAD_DIM, D, MASKED)
        weights = tl.exp2(tl.dot(q, tl.trans(k), input_precision="ieee") * scale - lse[:, None])
        if MASKED:
            weights = tl.where(_visible(rows[:, None], keys[None, :], n, m, CAUSAL), weights, 0.0)
        change = weights * (tl.dot(grad, tl.trans(v), input_precision="ieee") - delta[:, None])  # dS = P ∘ (dP − D)
        dq = tl.dot(change.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit
def backward_queries_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr,
    q_strides, k_strides, v_strides, grad_strides, dq_strides, heads, n, m, scale,
    HEAD_DIM: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):
    """One program: dQ of one tile of queries, from all the keys that they see."""
    first_row = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_Q
    rows = first_row + tl.arange(0, BLOCK_Q)
    q = _load(_head(q_ptr, q_strides, heads), q_strides, rows, n, HEAD_DIM, D, True)
    grad = _load(_head(grad_ptr, grad_strides, heads), grad_strides, rows, n, HEAD_DIM, D, True)
    head = tl.program_id(1).to(tl.int64) * n
    lse, delta = _load_rows(lse_ptr + head, delta_ptr + head, rows, n)
    k_ptr, v_ptr = _head(k_ptr, k_strides, heads), _head(v_ptr, v_strides, heads)

    dq = tl.full((BLOCK_Q, D), 0.0, tl.float32)
    full, end = _key_tiles(first_row, n, m, CAUSAL, BLOCK_Q, BLOCK_K)
    if SPLIT:
        dq = _collect_queries(dq, q, grad, lse, delta, rows, 0, full, k_ptr, v_ptr, k_strides, v_strides, n, m,
                              scale * LOG2E, HEAD_DIM, D, CAUSAL, BLOCK_K, False)
    else:
        full = 0
    dq = _collect_queries(dq, q, grad, lse, delta, rows, full, end, k_ptr, v_ptr, k_strides, v_strides, n, m,
                          scale * LOG2E, HEAD_DIM, D, CAUSAL, BLOCK_K, True)
    _store(_head(dq_ptr, dq_strides, heads), dq_strides, rows, n, dq * scale, HEAD_DIM, D)


def triton_backward(
    q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m d"],
    out: Float[Tensor, "b h n d"], lse: Float[Tensor, "b h n"], grad_out: Float[Tensor, "b h n d"],
    causal: bool = False,
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"], Float[Tensor, "b h m d"]]:
    """dQ, dK and dV from what `triton_forward` got and gave, and the gradient of its output."""
    return _backward(q, k, v, out, lse, grad_out, causal, TEACHING)


def tuned_backward(q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grad_out: Tensor, causal: bool = False):
    """The same from the same source, with the tiles of `tiles.TUNED`."""
    return _backward(q, k, v, out, lse, grad_out, causal, TUNED)


def _backward(q, k, v, out, lse, grad_out, causal: bool, table: dict) -> tuple[Tensor, Tensor, Tensor]:
    (b, h, n, d), m = _checked(q, k, v), k.shape[2]
    _check_like(q, out=out, grad_out=grad_out)
    _check_lse(q, lse)
    lse, delta = lse.contiguous(), torch.empty((b, h, n), device=q.device)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    shape, scale = {"HEAD_DIM": d, "D": _padded(d)}, d**-0.5
    delta_kernel[(triton.cdiv(n, 64), b * h)](
        out, grad_out, delta, out.stride(), grad_out.stride(), h, n, BLOCK_Q=64, **shape
    )
    tiles = tiles_for("keys", q, table)
    backward_keys_kernel[(triton.cdiv(m, tiles.block_k), b * h)](
        q, k, v, grad_out, lse, delta, dk, dv,
        q.stride(), k.stride(), v.stride(), grad_out.stride(), dk.stride(), dv.stride(), h, n, m, scale,
        CAUSAL=causal, **shape, **tiles.options(),
    )
    tiles = tiles_for("queries", q, table)
    backward_queries_kernel[(triton.cdiv(n, tiles.block_q), b * h)](
        q, k, v, grad_out, lse, delta, dq, q.stride(), k.stride(), v.stride(), grad_out.stride(), dq.stride(),
        h, n, m, scale, CAUSAL=causal, **shape, **tiles.options(),
    )
    return dq, dk, dv


class TritonAttention(torch.autograd.Function):
    """Attention that PyTorch can differentiate: the tuned kernels, forward and backward."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        out, lse = tuned_forward(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out: Tensor):
        q, k, v, out, lse = ctx.saved_tensors
        return *tuned_backward(q, k, v, out, lse, grad_out, ctx.causal), None


def _checked(q: Tensor, k: Tensor, v: Tensor) -> torch.Size:
    """The shape of q. ValueError, one line, for what the kernels don't do."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(f"{name} has {x.dim()} axes, and (batch, heads, length, width) is expected.")
        if x.dtype != q.dtype:
            raise ValueError(f"q is {q.dtype} and {name} {x.dtype}: convert them to one dtype.")
        if x.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {x.device}: move them to one device.")
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"q has {q.shape[0]} sequences and {name} {x.shape[0]}: the batches must be equal.")
        if x.shape[3] != q.shape[3]:
            raise ValueError(
                f"q has heads of width {q.shape[3]} and {name} of width {x.shape[3]}: the kernels take equal widths."
            )
    if k.shape[1] != v.shape[1]:
        raise ValueError(f"k has {k.shape[1]} heads and v {v.shape[1]}: there is a value for every key.")
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"k has length {k.shape[2]} and v {v.shape[2]}: there is a value for every key.")
    if q.shape[1] != k.shape[1]:
        raise ValueError(f"q has {q.shape[1]} heads and k {k.shape[1]}: repeat the keys and values of grouped heads.")
    if q.device.type != device().type:
        raise ValueError(f"Kernels run on {device().type} here: move q, k and v there from {q.device.type}.")
    if q.dtype not in (torch.float32, torch.float16, torch.bfloat16) or (q.dtype == torch.bfloat16 and interpreted()):
        raise ValueError(
            "The kernels take float32, float16 and, compiled, bfloat16 (the interpreter gets that wrong), not "
            f"{q.dtype}."
        )
    if q.shape[3] > 128:
        raise ValueError(f"The kernels take heads up to 128 wide, not {q.shape[3]}.")
    return q.shape


def _check_like(q: Tensor, **others: Tensor) -> None:
    """ValueError, one line, unless these are tensors like q."""
    for name, x in others.items():
        if (x.shape, x.dtype, x.device) != (q.shape, q.dtype, q.device):
            raise ValueError(
                f"{name} is {tuple(x.shape)}, {x.dtype}, on {x.device}, and like q it should be {tuple(q.shape)}, "
                f"{q.dtype}, on {q.device}."
            )


def _check_lse(q: Tensor, lse: Tensor) -> None:
    if (lse.shape, lse.dtype, lse.device) != (q.shape[:3], torch.float32, q.device):
        raise ValueError(
            f"lse is {tuple(lse.shape)}, {lse.dtype}, on {lse.device}, and should be {tuple(q.shape[:3])}, float32, on "
            f"{q.device}."
        )


def _padded(d: int) -> int:
    """The width of a tile: a power of two, and at least what tensor cores take."""
    return max(16, triton.next_power_of_2(d))
