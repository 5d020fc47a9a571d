"""Right answers of triton_backward in other styles."""

import torch

from autograder.alternatives.flash_attention.triton_forward import load_rows
from helpers.kernels import tl, triton


@triton.jit
def all_gradients_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, strides, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):
    # One kernel: a program owns a tile of keys, and adds its part of dQ atomically.
    keys, pair, columns = tl.program_id(0) * KEYS + tl.arange(0, KEYS), tl.program_id(1), tl.arange(0, WIDTH)
    k = load_rows(k_ptr + pair * m * d, strides, keys, m, d, WIDTH)
    v = load_rows(v_ptr + pair * m * d, strides, keys, m, d, WIDTH)
    dk = tl.zeros((KEYS, WIDTH), tl.float32)
    dv = tl.zeros((KEYS, WIDTH), tl.float32)
    for start in range(0, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        q = load_rows(q_ptr + pair * n * d, strides, rows, n, d, WIDTH)
        grad = load_rows(grad_ptr + pair * n * d, strides, rows, n, d, WIDTH)
        lse = tl.load(lse_ptr + pair * n + rows, mask=rows < n, other=float("inf"))
        lse = tl.where(lse == float("-inf"), float("inf"), lse)  # exp(s − ∞) = 0
        delta = tl.load(delta_ptr + pair * n + rows, mask=rows < n, other=0.0)
        p = tl.exp(tl.dot(q, tl.trans(k), input_precision="ieee") * scale - lse[:, None])
        p = tl.where(keys[None, :] < m, p, 0.0)
        if CAUSAL:
            p = tl.where(keys[None, :] <= rows[:, None] + (m - n), p, 0.0)
        ds = p * (tl.dot(grad, tl.trans(v), input_precision="ieee") - delta[:, None]) * scale
        dv += tl.dot(tl.trans(p).to(grad.dtype), grad, input_precision="ieee")
        dk += tl.dot(tl.trans(ds).to(q.dtype), q, input_precision="ieee")
        part = tl.dot(ds.to(k.dtype), k, input_precision="ieee")
        exists = (rows[:, None] < n) & (columns[None, :] < d)
        tl.atomic_add(dq_ptr + (pair * n + rows[:, None]) * d + columns[None, :], part, mask=exists)
    exists = (keys[:, None] < m) & (columns[None, :] < d)
    tl.store(dk_ptr + (pair * m + keys[:, None]) * d + columns[None, :], dk, mask=exists)
    tl.store(dv_ptr + (pair * m + keys[:, None]) * d + columns[None, :], dv, mask=exists)


def backward_with_atomics(q, k, v, out, lse, grad_out, causal=False):
    delta = (out.float() * grad_out.float()).sum(dim=-1).contiguous()
    q, k, v, lse, grad_out = (x.contiguous() for x in (q, k, v, lse, grad_out))
    (b, h, n, d), m = q.shape, k.shape[2]
    dq, dk, dv = torch.zeros(q.shape, device=q.device), torch.empty_like(k), torch.empty_like(v)
    all_gradients_kernel[(triton.cdiv(m, 16), b * h)](
        q, k, v, grad_out, lse, delta, dq, dk, dv, (0, 0, d, 1), n, m, d, d**-0.5, CAUSAL=causal, ROWS=32, KEYS=16,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return dq.to(q.dtype), dk, dv


@triton.jit
def change_of_scores(q, k, v, grad, lse, delta, seen):
    # P and dS of a pair of tiles, from queries that are scaled already. Powers of 2.
    p = tl.exp2((tl.dot(q, tl.trans(k), input_precision="ieee") - lse[:, None]) * 1.4426950408889634)
    p = tl.where(seen, p, 0.0)
    return p, p * (tl.dot(grad, tl.trans(v), input_precision="ieee") - delta[:, None])


@triton.jit
def one_head_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, dq_ptr, dk_ptr, dv_ptr, strides, n, m, d, scale,
    CAUSAL: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):
    # One program a head, D made inside, and three gradients in two double loops, all in float32.
    pair, columns = tl.program_id(0), tl.arange(0, WIDTH)
    for own_is_key in tl.static_range(2):
        for own_start in range(0, m if own_is_key else n, TILE):
            first = tl.zeros((TILE, WIDTH), tl.float32)  # of dQ, or of dK
            second = tl.zeros((TILE, WIDTH), tl.float32)  # of dV
            for other_start in range(0, n if own_is_key else m, TILE):
                rows = (other_start if own_is_key else own_start) + tl.arange(0, TILE)
                keys = (own_start if own_is_key else other_start) + tl.arange(0, TILE)
                q = load_rows(q_ptr + pair * n * d, strides, rows, n, d, WIDTH).to(tl.float32) * scale
                out = load_rows(out_ptr + pair * n * d, strides, rows, n, d, WIDTH).to(tl.float32)
                grad = load_rows(grad_ptr + pair * n * d, strides, rows, n, d, WIDTH).to(tl.float32)
                k = load_rows(k_ptr + pair * m * d, strides, keys, m, d, WIDTH).to(tl.float32)
                v = load_rows(v_ptr + pair * m * d, strides, keys, m, d, WIDTH).to(tl.float32)
                lse = tl.load(lse_ptr + pair * n + rows, mask=rows < n, other=0.0)
                lse = tl.where(lse == float("-inf"), 0.0, lse)
                seen = (rows[:, None] < n) & (keys[None, :] < m)
                if CAUSAL:
                    seen = seen & (keys[None, :] <= rows[:, None] + (m - n))
                p, ds = change_of_scores(q, k, v, grad, lse, tl.sum(out * grad, 1), seen)
                if own_is_key:
                    first += tl.dot(tl.trans(ds), q, input_precision="ieee")
                    second += tl.dot(tl.trans(p), grad, input_precision="ieee")
                else:
                    first += tl.dot(ds, k, input_precision="ieee") * scale
            own = own_start + tl.arange(0, TILE)
            length = m if own_is_key else n
            places, exists = (
                (pair * length + own[:, None]) * d + columns[None, :],
                (own[:, None] < length) & (columns[None, :] < d),
            )
            tl.store((dk_ptr if own_is_key else dq_ptr) + places, first, mask=exists)
            if own_is_key:
                tl.store(dv_ptr + places, second, mask=exists)


def backward_one_program_a_head(q, k, v, out, lse, grad_out, causal=False):
    q, k, v, out, lse, grad_out = (x.contiguous() for x in (q, k, v, out, lse, grad_out))
    (b, h, n, d), m = q.shape, k.shape[2]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    one_head_kernel[(b * h,)](
        q, k, v, out, grad_out, lse, dq, dk, dv, (0, 0, d, 1), n, m, d, d**-0.5, CAUSAL=causal, TILE=16,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return dq, dk, dv


triton_backward = {
    "one kernel, dQ by atomic additions": backward_with_atomics,
    "one program a head, D inside": backward_one_program_a_head,
}
