"""Right answers of flash_attention_forward in other styles."""

import math

import torch
import torch.nn.functional as F


def forward_from_lowest(q, k, v, causal=False, block_q=64, block_k=64):
    # As in the paper. The maximum starts at the lowest finite number, so that −∞ is not taken from −∞.
    n, m, d = q.shape[-2], k.shape[-2], q.shape[-1]
    outs, lses = [], []
    for i in range(0, n, block_q):
        q_i = q[..., i : i + block_q, :]
        row = torch.arange(i, i + q_i.shape[-2])[:, None] + m - n
        m_i = torch.full((*q_i.shape[:-1], 1), torch.finfo(q.dtype).min, dtype=q.dtype)
        l_i, acc = torch.zeros_like(m_i), torch.zeros(*q_i.shape[:-1], v.shape[-1], dtype=q.dtype)
        for j in range(0, m, block_k):
            if causal and j > row.max():
                break
            scores = q_i @ k[..., j : j + block_k, :].transpose(-2, -1) / math.sqrt(d)
            if causal:
                scores = scores.masked_fill(torch.arange(j, j + scores.shape[-1]) > row, -math.inf)
            m_new = torch.maximum(m_i, scores.max(dim=-1, keepdim=True).values)
            p, alpha = torch.exp(scores - m_new), torch.exp(m_i - m_new)
            l_i, acc, m_i = alpha * l_i + p.sum(-1, keepdim=True), alpha * acc + p @ v[..., j : j + block_k, :], m_new
        outs.append(torch.where(l_i > 0, acc / l_i, torch.zeros_like(acc)))
        lses.append((m_i + torch.log(l_i)).squeeze(-1))
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)


def forward_keys_outside(q, k, v, causal=False, block_q=64, block_k=64):
    # The loops the other way round, as in the first paper: state of all queries in memory, changed in place.
    n, m = q.shape[-2], k.shape[-2]
    out, l_i = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype), torch.zeros(*q.shape[:-1], 1, dtype=q.dtype)
    m_i = torch.full_like(l_i, -math.inf)
    for j in range(0, m, block_k):
        k_j, v_j = k[..., j : j + block_k, :], v[..., j : j + block_k, :]
        for i in range(0, n, block_q):
            rows = slice(i, min(i + block_q, n))
            if causal and j > rows.stop - 1 + m - n:
                continue
            scores = torch.einsum("...id,...jd->...ij", q[..., rows, :], k_j) * q.shape[-1] ** -0.5
            if causal:
                keep = torch.arange(j, j + k_j.shape[-2]) <= torch.arange(rows.start, rows.stop)[:, None] + (m - n)
                scores = torch.where(keep, scores, torch.full_like(scores, -math.inf))
            m_new = torch.maximum(m_i[..., rows, :], scores.amax(-1, keepdim=True))
            shift = torch.where(m_new == -math.inf, torch.zeros_like(m_new), m_new)
            p, alpha = torch.exp(scores - shift), torch.exp(m_i[..., rows, :] - shift)
            l_i[..., rows, :] = alpha * l_i[..., rows, :] + p.sum(-1, keepdim=True)
            out[..., rows, :] = alpha * out[..., rows, :] + torch.einsum("...ij,...jd->...id", p, v_j)
            m_i[..., rows, :] = m_new
    return out / l_i.clamp_min(1e-300 if q.dtype == torch.float64 else 1e-38), (m_i + l_i.log()).squeeze(-1)


def merged(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    shift = torch.where(lse == -math.inf, torch.zeros_like(lse), lse)
    return torch.exp(lse_a - shift)[..., None] * out_a + torch.exp(lse_b - shift)[..., None] * out_b, lse


def one_tile(q, k, v, row, column, causal):
    # Attention of one tile by itself: first row and first column say where it stands.
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(
            torch.arange(column, column + k.shape[-2]) > torch.arange(row, row + q.shape[-2])[:, None], -math.inf
        )
    return torch.softmax(scores, dim=-1).nan_to_num(0.0) @ v, torch.logsumexp(scores, dim=-1)


def forward_merging_tiles(q, k, v, causal=False, block_q=64, block_k=64):
    n, m, stripes = q.shape[-2], k.shape[-2], []
    for i in range(0, n, block_q):
        q_i, row = q[..., i : i + block_q, :], i + m - n
        out, lse = q_i.new_zeros(*q_i.shape[:-1], v.shape[-1]), q_i.new_full(q_i.shape[:-1], -math.inf)
        for j in range(0, m, block_k):
            if not causal or j < row + q_i.shape[-2]:
                out, lse = merged(
                    out, lse, *one_tile(q_i, k[..., j : j + block_k, :], v[..., j : j + block_k, :], row, j, causal)
                )
        stripes.append((out, lse))
    return torch.cat([out for out, _ in stripes], dim=-2), torch.cat([lse for _, lse in stripes], dim=-1)


def halves(q, k, v, row, column, causal, block_k):
    # Keys in halves until they fit into a tile.
    if k.shape[-2] <= block_k:
        return one_tile(q, k, v, row, column, causal)
    half = -(-k.shape[-2] // block_k) // 2 * block_k
    left = halves(q, k[..., :half, :], v[..., :half, :], row, column, causal, block_k)
    if causal and column + half >= row + q.shape[-2]:
        return left
    return merged(*left, *halves(q, k[..., half:, :], v[..., half:, :], row, column + half, causal, block_k))


def forward_by_halves(q, k, v, causal=False, block_q=64, block_k=64):
    gap = k.shape[-2] - q.shape[-2]
    stripes = [
        halves(part, k, v, i * block_q + gap, 0, causal, block_k)
        if not causal or i * block_q + part.shape[-2] + gap > 0
        else (part[..., :1] * v[..., :1, :] * 0, torch.full_like(part[..., 0], -math.inf))
        for i, part in enumerate(q.split(block_q, dim=-2))
    ]
    return torch.cat([out for out, _ in stripes], dim=-2), torch.cat([lse for _, lse in stripes], dim=-1)


def forward_with_ones(q, k, v, causal=False, block_q=64, block_k=64):
    # A column of ones beside the values: the sum comes out as one more value. In float64; keys end where none is seen.
    n, m, dtype = q.shape[-2], k.shape[-2], q.dtype
    q, k, v = q.double() / math.sqrt(q.shape[-1]), k.double(), v.double()
    out, lse = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=dtype), torch.zeros(q.shape[:-1], dtype=dtype)
    for i in range(0, n, block_q):
        stop = min(i + block_q, n)
        top, acc = torch.full_like(q[..., i:stop, :1], -1e300), torch.zeros_like(q[..., i:stop, :1])
        for j in range(0, max(0, stop + m - n) if causal else m, block_k):
            values = F.pad(v[..., j : j + block_k, :], (0, 1), value=1.0)
            scores = q[..., i:stop, :] @ k[..., j : j + block_k, :].mT
            if causal:
                scores += torch.full_like(scores[(0,) * (scores.dim() - 2)], -math.inf).triu(i + m - n - j + 1)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            acc, top = torch.exp(top - new) * acc + torch.exp(scores - new) @ values, new
        acc = acc.expand(*acc.shape[:-1], v.shape[-1] + 1)
        out[..., i:stop, :] = (acc[..., :-1] / torch.where(acc[..., -1:] == 0, 1.0, acc[..., -1:])).to(dtype)
        lse[..., i:stop] = (top.squeeze(-1) + acc[..., -1].log()).to(dtype)
    return out, lse


def forward_in_place_keys_outside(q, k, v, causal=False, block_q=64, block_k=64):
    n, m = (q.size(-2), k.size(-2))
    top = q.new_full(q.shape[:-1], -math.inf)
    total = torch.zeros_like(top)
    result = q.new_zeros(q.shape[:-1] + v.shape[-1:])
    for j in range(0, m, block_k):
        kj, vj = (k[..., j : j + block_k, :], v[..., j : j + block_k, :])
        first = max(0, j - (m - n)) // block_q * block_q if causal else 0
        for i in range(first, n, block_q):
            here = slice(i, min(n, i + block_q))
            scores = torch.matmul(q[..., here, :], kj.transpose(-1, -2)).div_(math.sqrt(q.size(-1)))
            if causal:
                hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu_(i + m - n - j + 1)
                scores.masked_fill_(hidden, -math.inf)
            new = torch.maximum(top[..., here], scores.amax(-1))
            shift = torch.where(new.isneginf(), 0.0, new)
            scores.sub_(shift.unsqueeze(-1)).exp_()
            factor = (top[..., here] - shift).exp()
            total[..., here] = total[..., here] * factor + scores.sum(-1)
            result[..., here, :] = result[..., here, :] * factor.unsqueeze(-1) + scores @ vj
            top[..., here] = new
    result /= total.clamp_min(torch.finfo(q.dtype).tiny).unsqueeze(-1)
    return (result, top + total.log())


flash_attention_forward = {
    "from the lowest finite number": forward_from_lowest,
    "keys outside, queries inside, in place": forward_keys_outside,
    "a softmax per tile, merged by logsumexp": forward_merging_tiles,
    "keys in halves, recursively": forward_by_halves,
    "a column of ones, float64": forward_with_ones,
    "keys in the outer loop, state of all rows in place": forward_in_place_keys_outside,
}
