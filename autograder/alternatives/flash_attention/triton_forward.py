"""Right answers of triton_forward in other styles."""

import math

import torch

from helpers.kernels import tl, triton


@triton.jit
def load_rows(ptr, strides, places, length, d, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    exists = (places[:, None] < length) & (columns[None, :] < d)
    return tl.load(ptr + places[:, None] * strides[2] + columns[None, :] * strides[3], mask=exists, other=0.0)


@triton.jit
def head_by_head_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):
    # One program for a whole head: it walks through the tiles of queries too. Heads and batches are axes of the grid.
    b, h = tl.program_id(0), tl.program_id(1)
    q_ptr += b * q_strides[0] + h * q_strides[1]
    k_ptr += b * k_strides[0] + h * k_strides[1]
    v_ptr += b * v_strides[0] + h * v_strides[1]
    first = (b * tl.num_programs(1) + h) * n
    columns = tl.arange(0, WIDTH)
    for top in range(0, n, ROWS):
        rows = top + tl.arange(0, ROWS)
        q = load_rows(q_ptr, q_strides, rows, n, d, WIDTH)
        peak = tl.full((ROWS,), -1e30, tl.float32)  # finite: then −∞ − peak is −∞ and never NaN
        total = tl.zeros((ROWS,), tl.float32)
        acc = tl.zeros((ROWS, WIDTH), tl.float32)
        for start in range(0, m, KEYS):
            keys = start + tl.arange(0, KEYS)
            k, v = load_rows(k_ptr, k_strides, keys, m, d, WIDTH), load_rows(v_ptr, v_strides, keys, m, d, WIDTH)
            s = tl.dot(q, k.T, input_precision="ieee") * scale
            s = tl.where(keys[None, :] < m, s, float("-inf"))
            if CAUSAL:
                s = tl.where(keys[None, :] - m <= rows[:, None] - n, s, float("-inf"))
            higher = tl.maximum(peak, tl.max(s, 1))
            p = tl.exp(s - higher[:, None])
            acc = acc * tl.exp(peak - higher)[:, None]
            acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
            total = total * tl.exp(peak - higher) + tl.sum(p, 1)
            peak = higher
        empty = total == 0.0
        acc /= tl.where(empty, 1.0, total)[:, None]
        tl.store(
            out_ptr + (first + rows)[:, None] * d + columns[None, :],
            acc,
            mask=(rows < n)[:, None] & (columns < d)[None, :],
        )
        lse = tl.where(empty, float("-inf"), peak + tl.log(tl.where(empty, 1.0, total)))
        tl.store(lse_ptr + first + rows, lse, mask=rows < n)


def forward_head_by_head(q, k, v, causal=False, block_q=16, block_k=16):
    (b, h, n, d), m = q.shape, k.shape[2]
    out, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(q.shape[:3], device=q.device)
    head_by_head_kernel[(b, h)](
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), n, m, d, 1 / math.sqrt(d),
        CAUSAL=causal, ROWS=32, KEYS=16,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return out, lse


@triton.jit
def base_two_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, heads, tiles, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):
    # A flat grid, powers of 2, keys loaded as columns (transposed), the logsumexp from base 2 at the end.
    pair, top = tl.program_id(0) // tiles, tl.program_id(0) % tiles * ROWS
    b, h = pair // heads, pair % heads
    rows, columns = top + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    q = load_rows(q_ptr + b * q_strides[0] + h * q_strides[1], q_strides, rows, n, d, WIDTH)
    k_ptr += b * k_strides[0] + h * k_strides[1]
    v_ptr += b * v_strides[0] + h * v_strides[1]
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, WIDTH), tl.float32)
    last = tl.minimum(m, top + ROWS + m - n) if CAUSAL else m
    for start in range(0, last, KEYS):
        keys = start + tl.arange(0, KEYS)
        exists = (columns[:, None] < d) & (keys[None, :] < m)
        k = tl.load(k_ptr + columns[:, None] * k_strides[3] + keys[None, :] * k_strides[2], mask=exists, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * (scale * 1.4426950408889634)
        hidden = keys[None, :] >= m
        if CAUSAL:
            hidden = hidden | (keys[None, :] > rows[:, None] + (m - n))
        s = tl.where(hidden, float("-inf"), s)
        higher = tl.maximum(peak, tl.max(s, 1))
        anchor = tl.where(higher > float("-inf"), higher, 0.0)
        shrink, p = tl.exp2(peak - anchor), tl.exp2(s - anchor[:, None])
        v = load_rows(v_ptr, v_strides, keys, m, d, WIDTH)
        acc = tl.dot(p.to(v.dtype), v, acc=acc * shrink[:, None], input_precision="ieee")
        total, peak = total * shrink + tl.sum(p, 1), higher
    lse = tl.where(total > 0.0, (peak + tl.log2(tl.maximum(total, 1e-37))) * 0.6931471805599453, float("-inf"))
    tl.store(lse_ptr + pair * n + rows, lse, mask=rows < n)
    out = acc / tl.maximum(total, 1e-37)[:, None]
    tl.store(
        out_ptr + (pair * n + rows[:, None]) * d + columns[None, :],
        out,
        mask=(rows[:, None] < n) & (columns[None, :] < d),
    )


def forward_base_two(q, k, v, causal=False, block_q=16, block_k=16):
    (b, h, n, d), m = q.shape, k.shape[2]
    out, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(q.shape[:3], device=q.device)
    tiles = triton.cdiv(n, 16)
    base_two_kernel[(b * h * tiles,)](
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), h, tiles, n, m, d, d**-0.5,
        CAUSAL=causal, ROWS=16, KEYS=32,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return out, lse


@triton.jit
def one_step(peak, total, acc, q, k, v, seen):
    s = tl.where(seen, tl.dot(q, tl.trans(k), input_precision="ieee"), float("-inf"))
    higher = tl.maximum(peak, tl.max(s, 1))
    anchor = tl.where(higher == float("-inf"), 0.0, higher)
    p, shrink = tl.exp(s - anchor[:, None]), tl.exp(peak - anchor)
    return (
        higher,
        total * shrink + tl.sum(p, 1),
        acc * shrink[:, None] + tl.dot(p, v.to(tl.float32), input_precision="ieee"),
    )


@triton.jit
def full_then_diagonal_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, strides, heads, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):
    # Tiles that all queries see first, without a causal mask; then the rest. Queries are scaled, all is float32.
    top, pair = tl.program_id(0) * ROWS, tl.program_id(1)
    rows, columns = top + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    q = load_rows(q_ptr + pair * n * d, strides, rows, n, d, WIDTH).to(tl.float32) * scale
    k_ptr += pair * m * d
    v_ptr += pair * m * d
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.full((ROWS,), 0.0, tl.float32)
    acc = tl.full((ROWS, WIDTH), 0.0, tl.float32)
    full = tl.maximum(tl.minimum(m, top + 1 + m - n), 0) // KEYS * KEYS if CAUSAL else m // KEYS * KEYS
    end = tl.minimum(m, top + ROWS + m - n) if CAUSAL else m
    for start in range(0, full, KEYS):
        keys = start + tl.arange(0, KEYS)
        k, v = load_rows(k_ptr, strides, keys, m, d, WIDTH).to(tl.float32), load_rows(v_ptr, strides, keys, m, d, WIDTH)
        peak, total, acc = one_step(peak, total, acc, q, k, v, (rows >= 0)[:, None] & (keys >= 0)[None, :])
    for start in range(full, end, KEYS):
        keys = start + tl.arange(0, KEYS)
        k, v = load_rows(k_ptr, strides, keys, m, d, WIDTH).to(tl.float32), load_rows(v_ptr, strides, keys, m, d, WIDTH)
        seen = (rows >= 0)[:, None] & (keys < m)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + m - n)
        peak, total, acc = one_step(peak, total, acc, q, k, v, seen)
    total = tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + (pair * n + rows[:, None]) * d + columns[None, :], acc / total[:, None],
             mask=(rows[:, None] < n) & (columns[None, :] < d))
    tl.store(lse_ptr + pair * n + rows, peak + tl.log(total), mask=rows < n)


def forward_full_then_diagonal(q, k, v, causal=False, block_q=16, block_k=16):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (b, h, n, d), m = q.shape, k.shape[2]
    out, lse = torch.empty_like(q), torch.empty((b, h, n), device=q.device)
    full_then_diagonal_kernel[(triton.cdiv(n, 32), b * h)](
        q,
        k,
        v,
        out,
        lse,
        (0, 0, d, 1),
        h,
        n,
        m,
        d,
        d**-0.5,
        CAUSAL=causal,
        ROWS=32,
        KEYS=16,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return out, lse


@triton.jit
def two_walks_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, heads, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):
    # Two walks over the keys: the logsumexp first, by the online softmax; then the values with finished weights.
    top, pair = tl.program_id(0) * ROWS, tl.program_id(1)
    rows, columns = top + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    q = load_rows(q_ptr + pair // heads * q_strides[0] + pair % heads * q_strides[1], q_strides, rows, n, d, WIDTH)
    k_ptr += pair // heads * k_strides[0] + pair % heads * k_strides[1]
    v_ptr += pair // heads * v_strides[0] + pair % heads * v_strides[1]
    lse = tl.full((ROWS,), float("-inf"), tl.float32)
    acc = tl.full((ROWS, WIDTH), 0.0, tl.float32)
    for walk in tl.static_range(2):
        for start in range(0, m, KEYS):
            keys = start + tl.arange(0, KEYS)
            s = tl.dot(q, tl.trans(load_rows(k_ptr, k_strides, keys, m, d, WIDTH)), input_precision="ieee") * scale
            seen = keys[None, :] < m
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + (m - n))
            s = tl.where(seen, s, float("-inf"))
            if walk == 0:
                peak = tl.maximum(tl.max(s, 1), lse)
                peak = tl.where(peak == float("-inf"), 0.0, peak)
                total = tl.sum(tl.exp(s - peak[:, None]), 1) + tl.exp(lse - peak)
                lse = tl.where(total == 0.0, float("-inf"), peak + tl.log(tl.where(total == 0.0, 1.0, total)))
            else:
                p = tl.exp(s - tl.where(lse == float("-inf"), 0.0, lse)[:, None])
                v = load_rows(v_ptr, v_strides, keys, m, d, WIDTH)
                acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
    tl.store(
        out_ptr + (pair * n + rows[:, None]) * d + columns[None, :],
        acc,
        mask=(rows[:, None] < n) & (columns[None, :] < d),
    )
    tl.store(lse_ptr + pair * n + rows, lse, mask=rows < n)


def forward_two_walks(q, k, v, causal=False, block_q=16, block_k=16):
    (b, h, n, d), m = q.shape, k.shape[2]
    out, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(q.shape[:3], device=q.device)
    two_walks_kernel[(triton.cdiv(n, 16), b * h)](
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), h, n, m, d, d**-0.5, CAUSAL=causal, ROWS=16, KEYS=64,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )
    return out, lse


triton_forward = {
    "one program a head, a finite start": forward_head_by_head,
    "powers of 2, keys as columns, a flat grid": forward_base_two,
    "full tiles, then the diagonal": forward_full_then_diagonal,
    "two walks over the keys": forward_two_walks,
}
