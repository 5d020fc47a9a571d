"""Right answers of unit 09 in other styles."""

import math

import torch
import torch.nn.functional as F

from helpers.flash_attention import flash
from helpers.kernels import tl, triton

# ---------------------------------------------------------------- online softmax, flash attention in PyTorch


def online_by_slices(x, block):
    # The maximum starts at the lowest finite number: then −∞ − m is never −∞ − (−∞).
    low = torch.finfo(x.dtype).min
    m_i, l_i = torch.full(x.shape[:-1], low, dtype=x.dtype), torch.zeros(x.shape[:-1], dtype=x.dtype)
    for start in range(0, x.shape[-1], block):
        part = x[..., start : start + block]
        m_new = torch.maximum(m_i, part.max(dim=-1).values)
        l_i = l_i * torch.exp(m_i - m_new) + torch.exp(part - m_new.unsqueeze(-1)).sum(dim=-1)
        m_i = m_new
    return torch.where(l_i == 0, -math.inf, m_i), l_i


def online_beside_the_block(x, block):
    # The running maximum joins the block as one more score, whose exponential weighs the old sum.
    m_i, l_i = torch.full_like(x[..., :1], -math.inf), torch.zeros_like(x[..., :1])
    for part in x.split(block, dim=-1):
        both = torch.cat([m_i, part], dim=-1)
        m_i = both.amax(-1, keepdim=True)
        powers = torch.exp(both - torch.where(m_i.isinf(), 0.0, m_i))
        l_i = powers[..., :1] * l_i + powers[..., 1:].sum(-1, keepdim=True)
    return m_i.squeeze(-1), l_i.squeeze(-1)


def online_in_parts(x, block):
    # Every block by itself; what the blocks found is brought to one maximum at the end.
    parts = x.split(block, dim=-1)
    tops = torch.stack([part.amax(-1) for part in parts])
    shifts = tops.clamp_min(-1e30)
    sums = torch.stack([torch.exp(part - shift[..., None]).sum(-1) for part, shift in zip(parts, shifts)])
    top = tops.amax(0)
    return top, (torch.exp(tops - top.clamp_min(-1e30)) * sums).sum(0)


def online_in_place(x, block):
    m_i, l_i = x.new_full(x.shape[:-1], -math.inf).double(), x.new_zeros(x.shape[:-1]).double()
    for j in range(math.ceil(x.shape[-1] / block)):
        part = x[..., j * block : (j + 1) * block].double()
        m_new = torch.maximum(m_i, part.amax(-1))
        seen = m_new > -math.inf
        l_i *= torch.where(seen, torch.exp(m_i - m_new), 0.0)
        l_i += torch.where(seen[..., None], torch.exp(part - m_new[..., None]), 0.0).sum(-1)
        m_i.copy_(m_new)
    return m_i.to(x.dtype), l_i.to(x.dtype)


def online_with_numbers(x, block):
    tops, sums = [], []
    for row in x.reshape(-1, x.shape[-1]):
        m_i, l_i = -math.inf, 0.0
        for part in row.split(block):
            scores = [s for s in part.tolist() if s > -math.inf]
            m_new = max([m_i, *scores])
            l_i = l_i * math.exp(m_i - m_new) if l_i else 0.0
            l_i += sum(math.exp(s - m_new) for s in scores)
            m_i = m_new
        tops.append(m_i)
        sums.append(l_i)
    return torch.tensor(tops, dtype=x.dtype).view(x.shape[:-1]), torch.tensor(sums, dtype=x.dtype).view(x.shape[:-1])


def _pair_of_a_block(piece):
    top = piece.amax(-1)
    shift = torch.where(torch.isneginf(top), torch.zeros_like(top), top)
    return (top, (piece - shift[..., None]).exp_().sum(-1))


def online_with_two_factors(x, block):
    n = x.shape[-1]
    top, total = _pair_of_a_block(x[..., :block])
    position = block
    while position < n:
        t, s = _pair_of_a_block(x[..., position : position + block])
        larger = torch.maximum(top, t)
        shift = torch.where(torch.isneginf(larger), torch.zeros_like(larger), larger)
        total = total * (top - shift).exp() + s * (t - shift).exp()
        top = larger
        position += block
    return (top, total)


online_softmax = {
    "slices, from the lowest finite number": online_by_slices,
    "the old maximum as one more score": online_beside_the_block,
    "blocks apart, merged at the end": online_in_parts,
    "in place, float64": online_in_place,
    "Python numbers": online_with_numbers,
    "each block's own pair, then two factors": online_with_two_factors,
}


def merge_by_sigmoid(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid(lse_a - lse_b).nan_to_num(0.0)[..., None]  # −∞ − (−∞): neither counts, and both outputs are 0
    return share * out_a + (1 - share) * out_b, torch.logaddexp(lse_a, lse_b)


def merge_by_softmax(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b], dim=-1)
    shares = F.softmax(both, dim=-1).nan_to_num(0.0)
    return torch.einsum("...ns,...nsd->...nd", shares, torch.stack([out_a, out_b], dim=-2)), both.logsumexp(-1)


def merge_by_sums(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    a, b = torch.exp(lse_a - top).unsqueeze(-1), torch.exp(lse_b - top).unsqueeze(-1)
    total = a + b
    out = (a * out_a + b * out_b) / torch.where(total == 0, torch.ones_like(total), total)
    return out, top + torch.log(total).squeeze(-1)


def merge_by_difference(out_a, lse_a, out_b, lse_b):
    # From the larger part's point of view: it weighs 1, the other e^(−gap). In float64.
    high, low = torch.maximum(lse_a, lse_b).double(), torch.minimum(lse_a, lse_b).double()
    small = torch.exp(torch.where(low == -math.inf, -math.inf, low - high))
    first = (lse_a >= lse_b)[..., None]
    out = torch.where(first, out_a, out_b) + small[..., None] * torch.where(first, out_b, out_a)
    return (out / (1 + small[..., None])).to(out_a), (high + torch.log1p(small)).to(lse_a)


def merged_by_sigmoids(out_a, lse_a, out_b, lse_b):
    gap = torch.nan_to_num(lse_a - lse_b, nan=0.0, posinf=math.inf, neginf=-math.inf)
    share_a = torch.sigmoid(gap).unsqueeze(-1)
    share_b = torch.sigmoid(-gap).unsqueeze(-1)
    return (share_a * out_a + share_b * out_b, torch.logaddexp(lse_a, lse_b))


def merged_by_one_softmax(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b])
    seen = torch.isfinite(both).any(dim=0)
    weights = torch.softmax(torch.where(seen, both, torch.zeros_like(both)), dim=0)
    outs = torch.stack([out_a, out_b])
    return (torch.einsum("p...n,p...nd->...nd", weights, outs), both.logsumexp(dim=0))


merge_partials = {
    "a sigmoid of the difference": merge_by_sigmoid,
    "a softmax of the two logsumexps": merge_by_softmax,
    "sums against the larger one": merge_by_sums,
    "the larger part weighs 1": merge_by_difference,
    "sigmoid of the difference": merged_by_sigmoids,
    "stack, softmax and einsum": merged_by_one_softmax,
}


def forward_from_lowest(q, k, v, causal=False, block_q=64, block_k=64):
    # As in the paper. The maximum starts at the lowest finite number, so that no −∞ is taken from −∞; tiles beyond the diagonal are skipped.
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
    # A column of ones beside the values: the sum comes out as one more value. In float64, and the keys end where nobody sees them.
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


def tiles_by_mask(n, m, block_q, block_k):
    allowed = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return sum(int(tile.any()) for stripe in allowed.split(block_q) for tile in stripe.split(block_k, dim=1))


def tiles_by_corner(n, m, block_q, block_k):
    # A tile is visible if its bottom left corner is.
    count = 0
    for i in range(0, n, block_q):
        for j in range(0, m, block_k):
            count += j <= min(i + block_q, n) - 1 + m - n
    return count


def tiles_by_columns(n, m, block_q, block_k):
    # Down the columns: the first query that sees key j is j − (m − n).
    total = math.ceil(n / block_q)
    return sum(total - min(max(j - m + n, 0) // block_q, total) for j in range(0, m, block_k))


def tiles_by_rows(n, m, block_q, block_k):
    reach = torch.clamp(torch.clamp(torch.arange(block_q, n + block_q, block_q), max=n) + m - n, min=0)
    return int(((reach + block_k - 1) // block_k).sum())


def tiles_by_their_corners(n, m, block_q, block_k):
    lower_left = ((min(i + block_q, n) - 1, j) for i in range(0, n, block_q) for j in range(0, m, block_k))
    return sum((key <= query + (m - n) for query, key in lower_left))


def tiles_column_by_column(n, m, block_q, block_k):
    rows_of_tiles = -(-n // block_q)
    total = 0
    for j in range(0, m, block_k):
        first_query = j - (m - n)
        if first_query >= n:
            break
        total += rows_of_tiles - max(first_query, 0) // block_q
    return total


causal_tiles = {
    "the mask, cut up; break": (tiles_by_mask, forward_from_lowest),
    "bottom left corners; continue": (tiles_by_corner, forward_keys_outside),
    "column by column; merged tiles": (tiles_by_columns, forward_merging_tiles),
    "row by row, as a tensor; keys cut off": (tiles_by_rows, forward_with_ones),
    "corners; halves": (tiles_by_corner, forward_by_halves),
    "corner of every tile in one sum": (tiles_by_their_corners, flash.flash_attention_forward),
    "columns of tiles, floor division of negatives": (tiles_column_by_column, flash.flash_attention_forward),
}


def tile_weights(q, k, lse, row, column, causal):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(
            torch.arange(column, column + k.shape[-2]) > torch.arange(row, row + q.shape[-2])[:, None], -math.inf
        )
    return torch.where(lse[..., None] == -math.inf, 0.0, torch.exp(scores - lse[..., None]))


def backward_keys_outside(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64):
    n, m, scale = q.shape[-2], k.shape[-2], 1 / math.sqrt(q.shape[-1])
    delta, dq, dks, dvs = (grad_out * out).sum(-1), torch.zeros_like(q), [], []
    for j in range(0, m, block_k):
        k_j, v_j = k[..., j : j + block_k, :], v[..., j : j + block_k, :]
        dk, dv = torch.zeros_like(k_j), torch.zeros_like(v_j)
        for i in range(0, n, block_q):
            rows = slice(i, min(i + block_q, n))
            if causal and j >= rows.stop + m - n:
                continue
            p = tile_weights(q[..., rows, :], k_j, lse[..., rows], i + m - n, j, causal)
            ds = p * (grad_out[..., rows, :] @ v_j.transpose(-2, -1) - delta[..., rows, None]) * scale
            dv = dv + p.transpose(-2, -1) @ grad_out[..., rows, :]
            dk = dk + ds.transpose(-2, -1) @ q[..., rows, :]
            dq[..., rows, :] = dq[..., rows, :] + ds @ k_j
        dks.append(dk)
        dvs.append(dv)
    return dq, torch.cat(dks, dim=-2), torch.cat(dvs, dim=-2)


def backward_in_two_walks(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64):
    # First dQ, a tile of queries at a time; then dK and dV, a tile of keys at a time. Weights are made twice, nothing is shared.
    n, m, gap, scale = q.shape[-2], k.shape[-2], k.shape[-2] - q.shape[-2], q.shape[-1] ** -0.5
    delta = torch.einsum("...nd,...nd->...n", grad_out, out)[..., None]
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    for i in range(0, n, block_q):
        rows = slice(i, i + block_q)
        for j in range(0, m, block_k):
            p = tile_weights(q[..., rows, :], k[..., j : j + block_k, :], lse[..., rows], i + gap, j, causal)
            dp = torch.einsum("...nv,...mv->...nm", grad_out[..., rows, :], v[..., j : j + block_k, :])
            dq[..., rows, :] += torch.einsum(
                "...nm,...md->...nd", p * (dp - delta[..., rows, :]) * scale, k[..., j : j + block_k, :]
            )
    for j in range(0, m, block_k):
        columns = slice(j, j + block_k)
        for i in range(0, n, block_q):
            rows = slice(i, i + block_q)
            p = tile_weights(q[..., rows, :], k[..., columns, :], lse[..., rows], i + gap, j, causal)
            dp = torch.einsum("...nv,...mv->...nm", grad_out[..., rows, :], v[..., columns, :])
            dv[..., columns, :] += torch.einsum("...nm,...nv->...mv", p, grad_out[..., rows, :])
            dk[..., columns, :] += torch.einsum(
                "...nm,...nd->...md", p * (dp - delta[..., rows, :]) * scale, q[..., rows, :]
            )
    return dq, dk, dv


def backward_in_float64(q, k, v, out, lse, grad_out, causal=False, block_q=64, block_k=64):
    # Scaled queries: dK comes out with its factor, dQ gets it at the end.
    dtype, scale = q.dtype, 1 / math.sqrt(q.shape[-1])
    q, k, v, out, grad_out = q.double() * scale, k.double(), v.double(), out.double(), grad_out.double()
    lse = lse.double().masked_fill(lse == -math.inf, 1e300)
    dq, dk, dv, delta = (
        torch.zeros_like(q),
        torch.zeros_like(k),
        torch.zeros_like(v),
        (out * grad_out).sum(-1, keepdim=True),
    )
    for i in range(0, q.shape[-2], block_q):
        q_i, do, gap = q[..., i : i + block_q, :], grad_out[..., i : i + block_q, :], k.shape[-2] - q.shape[-2]
        for j in range(0, k.shape[-2], block_k):
            k_j, v_j = k[..., j : j + block_k, :], v[..., j : j + block_k, :]
            p = torch.exp(q_i @ k_j.mT - lse[..., i : i + block_q, None])
            p = p.tril(i + gap - j) if causal else p
            ds = p * (do @ v_j.mT - delta[..., i : i + block_q, :])
            dq[..., i : i + block_q, :] += scale * ds @ k_j
            dk[..., j : j + block_k, :] += ds.mT @ q_i
            dv[..., j : j + block_k, :] += p.mT @ do
    return dq.to(dtype), dk.to(dtype), dv.to(dtype)


def flash_kept(q, k, v, causal=False):
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal):
            out, lse = forward_from_lowest(q, k, v, causal)
            ctx.save_for_backward(q, k, v, out, lse)
            ctx.causal = causal
            return out

        @staticmethod
        def backward(ctx, grad_out):
            return *backward_keys_outside(*ctx.saved_tensors, grad_out, ctx.causal), None

    return Kept.apply(q, k, v, causal)


def flash_made_again(q, k, v, causal=False):
    # Only the inputs are kept: output and logsumexp are made again on the way back.
    class MadeAgain(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            return forward_keys_outside(q, k, v, causal)[0]

        @staticmethod
        def backward(ctx, grad_out):
            q, k, v = ctx.saved_tensors
            return backward_in_two_walks(q, k, v, *forward_keys_outside(q, k, v, causal), grad_out, causal)

    return MadeAgain.apply(q, k, v)


def flash_with_setup(q, k, v, causal=False):
    class WithSetup(torch.autograd.Function):
        @staticmethod
        def forward(q, k, v, causal):
            return forward_merging_tiles(q, k, v, causal, 32, 48)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:3], *output)
            ctx.mark_non_differentiable(output[1])
            ctx.causal = inputs[3]

        @staticmethod
        def backward(ctx, grad_out, _):
            return *backward_in_float64(*ctx.saved_tensors, grad_out, ctx.causal, 48, 32), None

    return WithSetup.apply(q, k, v, causal)[0]


flash_attention_backward = {
    "keys outside, queries inside": (backward_keys_outside, flash_kept),
    "two walks; output made again": (backward_in_two_walks, flash_made_again),
    "float64, scaled queries; setup_context": (backward_in_float64, flash_with_setup),
    "keys outside; setup_context": (backward_keys_outside, flash_with_setup),
}


def decoding_by_einsum(q, k, v, splits):
    m, size = k.shape[-2], math.ceil(k.shape[-2] / splits)
    k, v = (F.pad(x, (0, 0, 0, size * splits - m)).unflatten(-2, (splits, size)) for x in (k, v))
    scores = torch.einsum("...d,...srd->...sr", q[..., 0, :], k) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(torch.arange(size * splits).view(splits, size) >= m, -math.inf)
    outs = torch.einsum("...sr,...srv->...sv", scores.softmax(-1).nan_to_num(0.0), v)
    return torch.einsum("...s,...sv->...v", scores.logsumexp(-1).softmax(-1), outs)[..., None, :]


def decoding_interleaved(q, k, v, splits):
    # Part s gets the keys s, s + splits, s + 2 splits, … In float64.
    m, size, dtype = k.shape[-2], math.ceil(k.shape[-2] / splits), q.dtype
    k, v = (
        F.pad(x.double(), (0, 0, 0, size * splits - m)).unflatten(-2, (size, splits)).transpose(-3, -2) for x in (k, v)
    )
    scores = (q.double()[..., None, :, :] @ k.mT).squeeze(-2) / math.sqrt(q.shape[-1])
    scores = torch.where(torch.arange(size * splits).view(size, splits).T < m, scores, -math.inf)
    lse = scores.logsumexp(-1, keepdim=True)
    outs = (torch.exp(scores - lse.clamp_min(-1e300))[..., None, :] @ v).squeeze(-2)
    return ((lse - lse.logsumexp(-2, keepdim=True)).exp() * outs).sum(-2, keepdim=True).to(dtype)


def decoding_in_even_parts(q, k, v, splits):
    # Sizes that differ by one at most, gathered; numerators and denominators against each part's maximum.
    m = k.shape[-2]
    edges = torch.arange(splits + 1) * m // splits
    keys = edges[:-1, None] + torch.arange(math.ceil(m / splits))
    real, keys = keys < edges[1:, None], keys.clamp(max=m - 1)
    scores = (k[..., keys, :] * q[..., None, :, :]).sum(-1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~real, -math.inf)
    tops = scores.amax(-1, keepdim=True)
    powers = torch.exp(scores - tops.clamp_min(-1e30))
    outs, sums = (powers[..., None] * v[..., keys, :]).sum(-2), powers.sum(-1, keepdim=True)
    share = torch.exp(tops - tops.amax(-2, keepdim=True))
    return (share * outs).sum(-2, keepdim=True) / (share * sums).sum(-2, keepdim=True)


def decoding_by_one_softmax(q, k, v, splits):
    m, d = k.shape[-2:]
    size = -(-m // splits)
    place = torch.arange(splits * size, device=q.device)
    index = place.clamp(max=m - 1)
    parts_k = k[..., index, :].reshape(*k.shape[:-2], splits, size, d)
    parts_v = v[..., index, :].reshape(*v.shape[:-2], splits, size, v.shape[-1])
    s = torch.einsum("...qd,...psd->...pqs", q * d ** (-0.5), parts_k)
    s = torch.where((place < m).reshape(splits, 1, size), s, -math.inf)
    lse = s.logsumexp(dim=-1, keepdim=True)
    p = torch.exp(s - torch.where(torch.isneginf(lse), 0.0, lse))
    share = lse.softmax(dim=-3)
    return torch.einsum("...pqx,...pqs,...psc->...qc", share, p, parts_v)


flash_decoding = {
    "padded parts, einsum": decoding_by_einsum,
    "interleaved keys, float64": decoding_interleaved,
    "even parts, gathered": decoding_in_even_parts,
    "logsumexp and one softmax over parts": decoding_by_one_softmax,
}

# ---------------------------------------------------------------- kernels in Triton


@triton.jit
def row_by_row_kernel(x_ptr, factor_ptr, out_ptr, row_stride, column_stride, d, STEP: tl.constexpr):
    # One program a row; the columns in steps.
    row = tl.program_id(0)
    factor = tl.load(factor_ptr + row)
    for start in range(0, d, STEP):
        columns = start + tl.arange(0, STEP)
        x = tl.load(x_ptr + row * row_stride + columns * column_stride, mask=columns < d)
        tl.store(out_ptr + row * d + columns, x * factor, mask=columns < d)


def rows_one_by_one(x, factor):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    row_by_row_kernel[(x.shape[0],)](x, factor.contiguous(), out, x.stride(0), x.stride(1), x.shape[1], STEP=8)
    return out


@triton.jit
def flat_kernel(x_ptr, factor_ptr, out_ptr, row_stride, column_stride, d, size, BLOCK: tl.constexpr):
    # The elements, counted through; row and column by division.
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = places // d, places % d
    x = tl.load(x_ptr + row * row_stride + column * column_stride, mask=places < size)
    tl.store(out_ptr + places, x * tl.load(factor_ptr + row, mask=places < size), mask=places < size)


def rows_flat(x, factor):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    flat_kernel[(triton.cdiv(x.numel(), 128),)](
        x, factor.contiguous(), out, *x.stride(), x.shape[1], x.numel(), BLOCK=128
    )
    return out


@triton.jit
def two_axes_kernel(
    x_ptr, factor_ptr, out_ptr, x_strides, out_strides, n, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    # A grid of tiles; what is out of reach is pointed back inside by a remainder, and only stores are masked.
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + (rows % n)[:, None] * x_strides[0] + (columns % d)[None, :] * x_strides[1])
    product = x * tl.load(factor_ptr + rows % n)[:, None]
    exists = (rows < n)[:, None] & (columns < d)[None, :]
    tl.store(out_ptr + rows[:, None] * out_strides[0] + columns[None, :] * out_strides[1], product, mask=exists)


def rows_on_a_grid(x, factor):
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.shape[0], meta["ROWS"]), triton.cdiv(x.shape[1], meta["COLUMNS"]))
    two_axes_kernel[grid](
        x, factor.contiguous(), out, x.stride(), out.stride(), x.shape[0], x.shape[1], ROWS=8, COLUMNS=16
    )
    return out


@triton.jit
def line_kernel(x_ptr, factor_ptr, out_ptr, x_strides, out_strides, n, d, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    # A loop over the rows of a program, with a number for the row's mask.
    columns = tl.arange(0, WIDTH)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        exists = row < n
        factor = tl.load(factor_ptr + row, mask=exists, other=0.0)
        inside = (columns < d) & exists
        line = tl.load(x_ptr + row * x_strides[0] + columns * x_strides[1], mask=inside, other=0.0)
        tl.store(out_ptr + row * out_strides[0] + columns * out_strides[1], line * factor, mask=inside)


def rows_in_a_loop(x, factor):
    out, width = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    line_kernel[(triton.cdiv(x.shape[0], 16),)](
        x, factor.contiguous(), out, x.stride(), out.stride(), *x.shape, ROWS=16, WIDTH=width
    )
    return out


triton_rows = {
    "a loop over rows, with a number for a mask": rows_in_a_loop,
    "one program a row": rows_one_by_one,
    "elements counted through": rows_flat,
    "a grid of tiles, remainders": rows_on_a_grid,
}


@triton.jit
def load_rows(ptr, strides, places, length, d, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    exists = (places[:, None] < length) & (columns[None, :] < d)
    return tl.load(ptr + places[:, None] * strides[2] + columns[None, :] * strides[3], mask=exists, other=0.0)


@triton.jit
def head_by_head_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    # One program for a whole head: it walks through the tiles of queries too. Heads and batches are two axes of the grid.
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
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), n, m, d, 1 / math.sqrt(d), CAUSAL=causal, ROWS=32, KEYS=16,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )  # fmt: skip
    return out, lse


@triton.jit
def base_two_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, q_strides, k_strides, v_strides, heads, tiles, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    # A flat grid, powers of 2, keys loaded as columns (transposed by their addresses), the logsumexp from base 2 at the end.
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
        q, k, v, out, lse, q.stride(), k.stride(), v.stride(), h, tiles, n, m, d, d**-0.5, CAUSAL=causal, ROWS=16, KEYS=32,
        WIDTH=max(16, triton.next_power_of_2(d)),
    )  # fmt: skip
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
):  # fmt: skip
    # Tiles that all queries see first, without a causal mask; then the rest. Queries are scaled, everything is float32, inputs contiguous.
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
             mask=(rows[:, None] < n) & (columns[None, :] < d))  # fmt: skip
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
):  # fmt: skip
    # Two walks over the keys: the logsumexp first, by the online softmax; then the values with finished weights, and no rescaling.
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
    )  # fmt: skip
    return out, lse


triton_forward = {
    "one program a head, a finite start": forward_head_by_head,
    "powers of 2, keys as columns, a flat grid": forward_base_two,
    "full tiles, then the diagonal": forward_full_then_diagonal,
    "two walks over the keys": forward_two_walks,
}


@triton.jit
def all_gradients_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, strides, n, m, d, scale,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
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
    )  # fmt: skip
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
):  # fmt: skip
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
    )  # fmt: skip
    return dq, dk, dv


triton_backward = {
    "one kernel, dQ by atomic additions": backward_with_atomics,
    "one program a head, D inside": backward_one_program_a_head,
}

# ---------------------------------------------------------------- traffic and rotation


def standard_tensor_by_tensor(n, d, itemsize):
    q, k, v, o = (torch.empty(n, d, device="meta") for _ in range(4))
    s = p = torch.empty(n, n, device="meta")
    moved = [q, k, s] + [s, p] + [p, v, o]  # the three steps: what each reads and writes
    return sum(x.numel() for x in moved) * itemsize


def tiled_walked_through(n, d, on_chip, itemsize):
    rows, moved = on_chip // (4 * d * itemsize), 0
    for start in range(0, n, rows):
        queries = min(rows, n - start)
        moved += queries * d  # the tile of Q comes
        for first in range(0, n, rows):
            moved += 2 * min(rows, n - first) * d  # the tiles of K and V
        moved += queries * d + queries  # O and the logsumexps leave
    return moved * itemsize


def tiled_rounded_by_minus(n, d, on_chip, itemsize):
    rows = int(on_chip / itemsize / d / 4)
    return itemsize * n * (2 * d * (1 - -n // rows) + 1)


def tiled_with_divmod(n, d, on_chip, itemsize):
    full, rest = divmod(n, on_chip // (4 * d * itemsize))
    return itemsize * (2 * n * d + n + (full + (rest > 0)) * 2 * n * d)


def standard_traffic_as_a_table(n, d, itemsize):
    thin, square = (n * d, n**2)
    steps = [
        {"reads": [thin, thin], "writes": [square]},
        {"reads": [square], "writes": [square]},
        {"reads": [square, thin], "writes": [thin]},
    ]
    return itemsize * sum(sum(step["reads"]) + sum(step["writes"]) for step in steps)


def tiled_traffic_walked(n, d, on_chip, itemsize):
    rows = on_chip // itemsize // d // 4
    moved = 0
    start = 0
    while start < n:
        here = min(rows, n - start)
        moved += here * d
        moved += 2 * n * d
        moved += here * d + here
        start += rows
    return moved * itemsize


hbm_traffic = {
    "tensor by tensor, tile by tile": (standard_tensor_by_tensor, tiled_walked_through),
    "factored, rounded up by a minus": (lambda n, d, itemsize: 4 * n * (n + d) * itemsize, tiled_rounded_by_minus),
    "term by term, with divmod": (
        lambda n, d, itemsize: 4 * n * n * itemsize + 4 * n * d * itemsize,
        tiled_with_divmod,
    ),
    "walk simulated, table of journeys": (standard_traffic_as_a_table, tiled_traffic_walked),
}


def hadamard_by_kron(d):
    h, two = torch.ones(1, 1), torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    while h.shape[0] < d:
        h = torch.kron(two, h)
    return h


def rotate_by_kron(q, k, signs):
    turn = (torch.diag(signs) @ hadamard_by_kron(len(signs))).to(q)
    return q @ turn, k @ turn


def hadamard_by_bits(d):
    common = [[bin(i & j).count("1") for j in range(d)] for i in range(d)]
    return (-1.0) ** torch.tensor(common) * d**-0.5


def rotate_one_by_one(q, k, signs):
    h = hadamard_by_bits(q.shape[-1]).double()
    return [torch.einsum("...i,i,ij->...j", x.double(), signs.double(), h).to(q.dtype) for x in (q, k)]


def hadamard_in_place(d):
    h = torch.empty(d, d)
    h[0, 0], width = 1, 1
    while width < d:
        h[:width, width : 2 * width] = h[:width, :width]
        h[width : 2 * width, :width] = h[:width, :width]
        h[width : 2 * width, width : 2 * width] = -h[:width, :width]
        width *= 2
    return h / d**0.5


def walsh_hadamard_transform(x):
    """d log d additions instead of d² products."""
    d, width = x.shape[-1], 1
    while width < d:
        pairs = x.reshape(*x.shape[:-1], -1, 2, width)
        x = torch.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], dim=-2).reshape(
            x.shape
        )
        width *= 2
    return x / d**0.5


def rotate_by_butterflies(q, k, signs):
    return walsh_hadamard_transform(q * signs.to(q)), walsh_hadamard_transform(k * signs.to(k))


def hadamard_in_walsh_order(d):
    h = hadamard_in_place(d)
    return h[(h.diff(dim=-1) != 0).sum(-1).argsort()]  # by the number of sign changes


def rotate_in_walsh_order(q, k, signs):
    turn = hadamard_in_walsh_order(signs.numel()).to(q)
    both = torch.cat([q, k], dim=-2) * signs.to(q) @ turn
    return both[..., : q.shape[-2], :], both[..., q.shape[-2] :, :]


def hadamard_recursive(d):
    if d == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    h = hadamard_recursive(d // 2) / math.sqrt(2)
    return torch.vstack([torch.hstack([h, h]), torch.hstack([-h, h])])  # the minus in another corner


def rotate_by_a_recursive_matrix(q, k, signs):
    turn = (signs[:, None] * hadamard_recursive(len(signs))).to(q.dtype)
    return torch.matmul(q, turn), torch.matmul(k, turn)


def hadamard_from_bits(d):
    return torch.tensor([[(-1.0) ** bin(i & j).count("1") for j in range(d)] for i in range(d)]) / d**0.5


def rotated_by_signed_matrix(q, k, signs):
    turn = (signs[:, None] * hadamard_from_bits(signs.numel()).to(device=q.device, dtype=torch.float64)).to(q.dtype)
    return tuple(torch.einsum("...i,ij->...j", x, turn) for x in (q, k))


def hadamard_by_kron_and_recursion(d):
    if d == 1:
        return torch.ones(1, 1)
    two = torch.tensor([[1.0, 1.0], [1.0, -1.0]]) * 2 ** (-0.5)
    return torch.kron(two, hadamard_by_kron_and_recursion(d // 2))


def _butterflies_in_turn(x):
    d = x.shape[-1]
    width = 1
    while width < d:
        pairs = x.reshape(*x.shape[:-1], d // (2 * width), 2, width)
        a, b = pairs.unbind(dim=-2)
        x = torch.stack((a + b, a - b), dim=-2).flatten(-3)
        width *= 2
    return x / math.sqrt(d)


def rotated_by_butterflies_in_turn(q, k, signs):
    return (_butterflies_in_turn(q * signs.to(q)), _butterflies_in_turn(k * signs.to(k)))


incoherent_rotation = {
    "Kronecker products, signs on the diagonal of a matrix": (hadamard_by_kron, rotate_by_kron),
    "bits, float64": (hadamard_by_bits, rotate_one_by_one),
    "in place, fast transform": (hadamard_in_place, rotate_by_butterflies),
    "rows in Walsh's order, both at once": (hadamard_in_walsh_order, rotate_in_walsh_order),
    "recursive, the minus in another corner": (hadamard_recursive, rotate_by_a_recursive_matrix),
    "entries from bits, signs folded into the matrix": (hadamard_from_bits, rotated_by_signed_matrix),
    "recursion with kron, fast butterflies": (hadamard_by_kron_and_recursion, rotated_by_butterflies_in_turn),
}
