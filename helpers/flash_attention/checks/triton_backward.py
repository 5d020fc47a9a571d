"""The gradients of attention in tiles as kernels."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case
from helpers.engine.kernel_check import KernelCheck, no_kernel
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.kernels import tl, triton

from .. import flash_triton
from .flash_triton import attention, dense_strides, in_tiles, room_like, towards

__all__ = ["triton_backward"]


def gradients(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, ...]:
    """dQ, dK and dV by PyTorch's own differentiation; what `out` and `lse` say is not used."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        n, m = q.shape[-2], k.shape[-2]
        scores = leaves[0] @ leaves[1].mT / math.sqrt(q.shape[-1])
        seen = torch.arange(m) <= torch.arange(n)[:, None] + (m - n) if causal else torch.ones(n, m, dtype=torch.bool)
        finite = scores.masked_fill(~seen, -1e30)  # no NaN in the derivative
        weights = finite.softmax(-1) * seen.any(-1, keepdim=True)
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
    q_ptr,
    k_ptr,
    v_ptr,
    grad_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    q_strides,
    k_strides,
    v_strides,
    grad_strides,
    heads,
    n,
    m,
    d,
    scale,
    CAUSAL: tl.constexpr,
    SLIP: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
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
    q_ptr,
    k_ptr,
    v_ptr,
    grad_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    q_strides,
    k_strides,
    v_strides,
    grad_strides,
    heads,
    n,
    m,
    d,
    scale,
    CAUSAL: tl.constexpr,
    SLIP: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
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


def row_sums(grad_out, out, q) -> Tensor:
    return (grad_out * out).sum(-1)


def backward(slip: str = "", delta: Callable = row_sums, strides: Callable = lambda grad: grad.stride()) -> Callable:
    """A launcher whose kernels have this slip, or are told another D or other strides of dO."""

    def launch(q, k, v, out, lse, grad_out, causal) -> tuple[Tensor, Tensor, Tensor]:
        (b, h, n, d), m = q.shape, k.shape[2]
        d_of_rows = delta(grad_out.float(), out.float(), q.float())
        dq, dk, dv = room_like(q), room_like(k), room_like(v)
        common = (q, k, v, grad_out, lse.contiguous(), d_of_rows.contiguous())
        sizes = (q.stride(), k.stride(), v.stride(), strides(grad_out), h, n, m, d, d**-0.5)
        options = {"CAUSAL": causal, "SLIP": slip, "BLOCK": 16, "WIDTH": max(16, triton.next_power_of_2(d))}
        _keys_kernel[(-(-m // 16), b * h)](*common, dk, dv, *sizes, **options)
        _queries_kernel[(-(-n // 16), b * h)](*common, dq, *sizes, **options)
        return dq, dk, dv

    return launch


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
    """Drawn inputs and gradient of the output; its output and logsumexp are right. low: scores from −150 to −120."""
    forward = in_tiles(label, scale=scale, dtype=dtype, **sizes)

    def draw(_, generator: Generator) -> tuple:
        q, k, v, causal, *_ = forward.draw(flash_triton.triton_forward, generator)
        if low:
            drawn = towards(-150.0, -120.0)(generator, q.shape[2], k.shape[2], q.shape[3])
            q, k, v = (x.expand(*q.shape[:2], -1, -1).to(dtype) for x in drawn)
        out, lse = attention(q.double(), k.double(), v.double(), causal)
        # Large keys make large rounding errors.
        grad_out = (0.0015 if low else 1) * torch.randn(q.shape, generator=generator).to(dtype)
        return q, k, v, out.to(dtype), lse.float(), grad_out, causal

    return Case(forward.label, draw)


triton_backward = KernelCheck(
    reference=flash_triton.triton_backward,
    oracle=gradients,
    layouts=("heads inside", "gaps", "columns", "gaps", "dense", "columns"),
    names=(
        "dQ: sequences heads queries features",
        "dK: sequences heads keys features",
        "dV: sequences heads keys features",
    ),
    cases=[
        backward_case("causal, n = 20, m = 37, d = 16", n=20, m=37, d=16, causal=True, scale=1.5),
        backward_case("causal, n = 35, m = 17: the first 18 rows see nothing", n=35, m=17, d=20, causal=True),
        backward_case("b = 2, h = 3, n = 7, m = 14", b=2, h=3, n=7, m=14, d=16, causal=False),
        backward_case("n = m = d = 32: whole tiles", n=32, m=32, d=32, causal=False),
        backward_case("n = 19, m = 21, all scores below −100", n=19, m=21, d=16, causal=False, low=True),
    ],
    misconceptions=wrong_answers(
        __file__,
        d_forgotten=backward(delta=lambda grad_out, out, q: torch.zeros_like(out[..., 0])),
        d_forgotten_in_dk=backward("dK without D"),
        d_forgotten_in_dq=backward("dQ without D"),
        d_added=backward(delta=lambda grad_out, out, q: -(grad_out * out).sum(-1)),
        d_of_queries=backward(delta=lambda grad_out, out, q: (grad_out * q).sum(-1)),
        d_along_keys=backward("D along the keys"),
        d_along_keys_in_dk=backward("D along the keys in dK"),
        hidden_times_0=backward("mask after the exponential"),
        dk_overwritten=backward("dK overwritten"),
        dq_overwritten=backward("dQ overwritten"),
        offset_turned_round=backward("offset turned round"),
        missing_keys=backward("missing keys"),
        keys_below_n=backward("keys below n"),
        d_mean=backward(delta=lambda grad_out, out, q: (grad_out * out).mean(-1)),
        dq_not_scaled=backward("dQ without scale"),
        dk_not_scaled=backward("dK without scale"),
        nothing_scaled=backward("no scale"),
        p_not_scaled=backward("P without scale"),
        no_logsumexp=backward("P without lse"),
        ds_without_p=backward("dS without P"),
        dk_not_transposed=backward("dK not transposed"),
        dv_not_transposed=backward("dV of P not transposed"),
        dq_transposed=backward("dQ transposed"),
        dq_from_values=backward("dQ from values"),
        dv_from_scores=backward("dV of scores"),
        not_causal=backward("not causal"),
        wrong_corner=backward("wrong corner"),
        wrong_corner_lse_0=backward("wrong corner, empty rows known"),
        empty_rows=backward("empty rows"),
        from_own_tile=backward("from the own tile"),
        whole_tiles=backward("whole tiles"),
        unmasked=Wrong(backward("unmasked"), raises="UnmaskedRead"),
        stores_unmasked=Wrong(backward("stores unmasked"), raises="UnmaskedWrite"),
        dense_strides=backward(strides=dense_strides),
        no_kernel=Wrong(backward_without_kernel, cost=no_kernel),
    ),
)
