"""Right answers of unit 10 in other styles: loops over slices, blocks, gathers, einsum, float64, other patterns."""

import math

import torch
import torch.nn.functional as F


def local_by_slices(q, k, v, w):
    rows = []
    for i in range(q.shape[-2]):
        near = slice(max(i - w, 0), i + w + 1)
        weights = (q[..., i : i + 1, :] @ k[..., near, :].mT / math.sqrt(q.shape[-1])).softmax(-1)
        rows.append(weights @ v[..., near, :])
    return torch.cat(rows, dim=-2)


def local_by_blocks(q, k, v, w):
    n, size, outputs = q.shape[-2], max(w, 1), []
    for start in range(0, n, size):
        stop, first, last = min(start + size, n), max(start - w, 0), min(start + size + w, n)
        scores = q[..., start:stop, :] @ k[..., first:last, :].mT / math.sqrt(q.shape[-1])
        far = (torch.arange(start, stop)[:, None] - torch.arange(first, last)).abs() > w
        outputs.append(scores.masked_fill(far, -math.inf).softmax(-1) @ v[..., first:last, :])
    return torch.cat(outputs, dim=-2)


def local_by_gather(q, k, v, w):
    n = q.shape[-2]
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)
    inside = (keys >= 0) & (keys < n)
    keys = keys.clamp(0, n - 1)
    scores = torch.einsum("...nd,...nsd->...ns", q, k[..., keys, :]) / q.shape[-1] ** 0.5
    weights = F.softmax(scores.masked_fill(~inside, float("-inf")), dim=-1)
    return torch.einsum("...ns,...nsv->...nv", weights, v[..., keys, :])


def local_by_diagonals(q, k, v, w):
    # Slot s of all tokens at once: the keys, shifted by s − w.
    n, shifts = q.shape[-2], range(-w, w + 1)
    place = torch.arange(n)
    scores = torch.stack([(q * k[..., (place + s).clamp(0, n - 1), :]).sum(-1) for s in shifts], dim=-1) / math.sqrt(
        q.shape[-1]
    )
    outside = torch.stack([(place + s < 0) | (place + s >= n) for s in shifts], dim=-1)
    weights = scores.masked_fill(outside, -math.inf).softmax(-1)
    return sum(weights[..., s + w, None] * v[..., (place + s).clamp(0, n - 1), :] for s in shifts)


def local_attention_by_offsets(q, k, v, w):
    n, d = (q.shape[-2], q.shape[-1])
    scores = q.new_full((*q.shape[:-1], 2 * w + 1), -math.inf)
    spans = []
    for s, o in enumerate(range(-w, w + 1)):
        lo, hi = (max(0, -o), min(n, n - o))
        if lo < hi:
            spans.append((s, o, lo, hi))
            scores[..., lo:hi, s] = (q[..., lo:hi, :] * k[..., lo + o : hi + o, :]).sum(-1) / math.sqrt(d)
    p = scores.softmax(-1)
    out = torch.zeros_like(v)
    for s, o, lo, hi in spans:
        out[..., lo:hi, :] += p[..., lo:hi, s, None] * v[..., lo + o : hi + o, :]
    return out


def local_attention_by_halves(q, k, v, w):
    n, d = q.shape[-2:]

    def part(start, stop):
        if stop - start > w + 1:
            mid = (start + stop) // 2
            return torch.cat([part(start, mid), part(mid, stop)], dim=-2)
        lo, hi = (max(0, start - w), min(n, stop + w))
        far = (torch.arange(start, stop)[:, None] - torch.arange(lo, hi)).abs() > w
        logits = (q[..., start:stop, :] @ k[..., lo:hi, :].mT).div(math.sqrt(d)).masked_fill(far, -torch.inf)
        return logits.softmax(-1) @ v[..., lo:hi, :]

    return part(0, n)


def local_by_unfolding(q, k, v, w):
    keys, values = (F.pad(x, (0, 0, w, w)).unfold(-2, 2 * w + 1, 1) for x in (k, v))  # (…, n, d, 2w + 1)
    real = F.pad(torch.ones(q.shape[-2], dtype=torch.bool), (w, w)).unfold(0, 2 * w + 1, 1)
    scores = torch.einsum("...nd,...nds->...ns", q, keys) / math.sqrt(q.shape[-1])
    return torch.einsum("...ns,...nvs->...nv", torch.where(real, scores, -torch.inf).softmax(-1), values)


local_attention = {
    "padded and unfolded": local_by_unfolding,
    "slices in a loop": local_by_slices,
    "blocks with three blocks of keys": local_by_blocks,
    "gathered, einsum": local_by_gather,
    "diagonal after diagonal": local_by_diagonals,
    "float64": lambda q, k, v, w: local_by_gather(q.double(), k.double(), v.double(), w),
    "a loop over the offsets": local_attention_by_offsets,
    "halves of the queries": local_attention_by_halves,
}


def global_by_slices(q, k, v, w, g):
    n, rows = q.shape[-2], []
    for i in range(n):
        keys = list(range(n)) if i < g else [*range(g), *range(max(i - w, g), min(i + w + 1, n))]
        weights = (q[..., i : i + 1, :] @ k[..., keys, :].mT / math.sqrt(q.shape[-1])).softmax(-1)
        rows.append(weights @ v[..., keys, :])
    return torch.cat(rows, dim=-2)


def global_by_gather(q, k, v, w, g):
    n, scale = q.shape[-2], math.sqrt(q.shape[-1])
    place = torch.arange(g, n)
    keys = torch.cat([torch.arange(g).expand(n - g, g), place[:, None] + torch.arange(-w, w + 1)], dim=1)
    fits = torch.cat([torch.ones(n - g, g, dtype=torch.bool), (keys[:, g:] >= g) & (keys[:, g:] < n)], dim=1)
    keys = keys.clamp(0, n - 1)
    scores = torch.einsum("...nd,...nsd->...ns", q[..., g:, :], k[..., keys, :]) / scale
    weights = scores.masked_fill(~fits, -math.inf).softmax(-1)
    rest = torch.einsum("...ns,...nsv->...nv", weights, v[..., keys, :])
    return torch.cat([(q[..., :g, :] @ k.mT / scale).softmax(-1) @ v, rest], dim=-2)


def global_by_powers(q, k, v, w, g):
    # Numerators and denominators of both parts, added: one softmax without a join. The largest score is taken off both.
    n, outputs = q.shape[-2], []
    q, k, v = q.double() / math.sqrt(q.shape[-1]), k.double(), v.double()
    for i in range(n):
        parts = [slice(0, n)] if i < g else [slice(0, g), slice(max(i - w, g), i + w + 1)]
        scores = [q[..., i : i + 1, :] @ k[..., part, :].mT for part in parts]
        top = torch.cat(scores, dim=-1).amax(-1, keepdim=True)
        powers = [torch.exp(score - top) for score in scores]
        above = sum(p @ v[..., part, :] for p, part in zip(powers, parts))
        outputs.append(above / sum(p.sum(-1, keepdim=True) for p in powers))
    return torch.cat(outputs, dim=-2)


def global_local_attention_by_lists(q, k, v, w, g):
    n, d = q.shape[-2:]
    rows = []
    for i in range(n):
        js = range(n) if i < g else sorted(set(range(g)) | set(range(max(0, i - w), min(n, i + w + 1))))
        js = torch.tensor(list(js))
        p = torch.softmax(k[..., js, :] @ q[..., i, :, None] / d**0.5, dim=-2)
        rows.append((p * v[..., js, :]).sum(-2))
    return torch.stack(rows, dim=-2)


def global_local_attention_joined(q, k, v, w, g):
    n, d = q.shape[-2:]
    q = q / math.sqrt(d)
    heads, others = (q[..., :g, :], q[..., g:, :])
    out_heads = torch.softmax(heads @ k.mT, -1) @ v
    t = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    bad = (t < g) | (t >= n)
    t = t.clamp(0, n - 1)
    near = (others.unsqueeze(-2) * k[..., t, :]).sum(-1).masked_fill(bad, -torch.inf)
    out_near = (near.softmax(-1).unsqueeze(-1) * v[..., t, :]).sum(-2)
    if g == 0:
        return out_near
    far = others @ k[..., :g, :].mT
    out_far = far.softmax(-1) @ v[..., :g, :]
    share = torch.sigmoid(near.logsumexp(-1, keepdim=True) - far.logsumexp(-1, keepdim=True))
    return torch.cat([out_heads, share * out_near + (1 - share) * out_far], dim=-2)


global_local = {
    "slices in a loop": global_by_slices,
    "one gather": global_by_gather,
    "numerators and denominators": global_by_powers,
    "lists of keys": global_local_attention_by_lists,
    "two softmaxes joined by their logsumexps": global_local_attention_joined,
}


def strided_with_sets(n):
    step = math.ceil(math.sqrt(n))
    return [
        sorted(set(range(max(0, i - step + 1), min(n, i + step))) | set(range(i % step, n, step))) for i in range(n)
    ]


def last_of_each_block(n):
    # The "fixed" pattern: the own block, and the last token of every block.
    step = math.isqrt(n - 1) + 1
    ends = [min(start + step, n) - 1 for start in range(0, n, step)]
    return [sorted({*range(i // step * step, min(i // step * step + step, n)), *ends}) for i in range(n)]


def own_block_and_column(n):
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if i // step == j // step or (i - j) % step == 0] for i in range(n)]


def rounded_down(n):
    step = math.isqrt(n)
    return [[j for j in range(n) if abs(i - j) < step or (i - j) % step == 0] for i in range(n)]


def gathered_by_loop(q, k, v, keys, allowed):
    rows = []
    for i in range(q.shape[-2]):
        own = keys[i][allowed[i]]
        weights = (q[..., i : i + 1, :] @ k[..., own, :].mT / math.sqrt(q.shape[-1])).softmax(-1)
        rows.append(weights @ v[..., own, :])
    return torch.cat(rows, dim=-2)


def gathered_by_einsum(q, k, v, keys, allowed):
    scores = torch.einsum("...nd,...ncd->...nc", q / math.sqrt(q.shape[-1]), k[..., keys, :])
    weights = F.softmax(torch.where(allowed, scores, torch.tensor(-math.inf, dtype=scores.dtype)), dim=-1)
    return torch.einsum("...nc,...ncv->...nv", weights, v[..., keys, :])


def gathered_by_powers(q, k, v, keys, allowed):
    taken = k.index_select(-2, keys.flatten()).unflatten(-2, keys.shape)
    scores = (q[..., None, :] * taken).sum(-1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~allowed, -torch.inf)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True).clamp_min(-1e30))  # of the allowed ones; none: all are 0
    weights = powers / powers.sum(-1, keepdim=True).clamp_min(1e-30)
    return (weights[..., None] * v.index_select(-2, keys.flatten()).unflatten(-2, keys.shape)).sum(-2)


def strided_keys_of_hubs(n):
    s = max(1, math.isqrt(n))
    hubs = {j for j in range(0, n, s)}
    return [list(hubs | {j for j in range(i - s + 1, i + s) if 0 <= j < n}) for i in range(n)]


def gathered_attention_of_hubs(q, k, v, keys, allowed):
    slots = range(keys.shape[1])
    logits = torch.stack([(q * k[..., keys[:, s], :]).sum(-1) for s in slots], dim=-1) / q.shape[-1] ** 0.5
    p = torch.where(allowed, logits, -torch.inf).softmax(-1)
    return sum(p[..., s, None] * v[..., keys[:, s], :] for s in slots)


strided_sparse = {
    "sets; a loop": (strided_with_sets, gathered_by_loop),
    "the fixed pattern; einsum": (last_of_each_block, gathered_by_einsum),
    "the root rounded down; powers": (rounded_down, gathered_by_powers),
    "block and column; a loop": (own_block_and_column, gathered_by_loop),
    "hubs for all; a loop over the slots": (strided_keys_of_hubs, gathered_attention_of_hubs),
}


def low_rank_by_loop(q, k, v, e, f):
    short_k = torch.stack([(weights[:, None] * k).sum(-2) for weights in e], dim=-2)
    short_v = torch.stack([(weights[:, None] * v).sum(-2) for weights in f], dim=-2)
    return (q @ short_k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ short_v


def low_rank_attention_by_linear(q, k, v, e, f):

    def shorten(x, mix):
        return F.linear(x.transpose(-1, -2), mix).transpose(-1, -2)

    return F.scaled_dot_product_attention(q, shorten(k, e), shorten(v, f))


low_rank_attention = {
    "a loop over the summaries": low_rank_by_loop,
    "einsum": lambda q, k, v, e, f: torch.einsum(
        "...nr,...rv->...nv",
        F.softmax(
            torch.einsum("...nd,...rd->...nr", q, torch.einsum("rm,...md->...rd", e, k)) / q.shape[-1] ** 0.5, -1
        ),
        torch.einsum("rm,...mv->...rv", f, v),
    ),
    "PyTorch's operator on the summaries": lambda q, k, v, e, f: F.scaled_dot_product_attention(q, e @ k, f @ v),
    "float64, queries scaled": lambda q, k, v, e, f: (
        ((q.double() / math.sqrt(q.shape[-1])) @ (e.double() @ k.double()).mT).softmax(-1) @ (f.double() @ v.double())
    ),
    "F.linear, then PyTorch's operator": low_rank_attention_by_linear,
}


def features(x):
    return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))


def linear_by_einsum(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state = torch.einsum("...md,...mv->...dv", k, v)
    return torch.einsum("...nd,...dv->...nv", q, state) / torch.einsum("...nd,...d->...n", q, k.sum(-2))[..., None]


def linear_with_ones(q, k, v):
    # A column of ones beside the values: the normaliser comes out as one more output.
    both = features(q) @ (features(k).mT @ torch.cat([v, torch.ones_like(v[..., :1])], dim=-1))
    return both[..., :-1] / both[..., -1:]


def linear_by_sum(q, k, v):
    q, k = features(q.double()), features(k.double())
    state = sum(k[..., j, :, None] * v[..., j, None, :].double() for j in range(k.shape[-2]))
    return q @ state / (q @ k.sum(-2)[..., None])


def recurrent_in_place(q, k, v):
    q, k = features(q), features(k)
    state = torch.zeros(*q.shape[:-2], q.shape[-1], v.shape[-1], dtype=q.dtype)
    total = torch.zeros(*q.shape[:-2], q.shape[-1], dtype=q.dtype)
    output = torch.empty_like(v)
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :]
        total = total + k[..., t, :]
        output[..., t, :] = (q[..., t, :, None] * state).sum(-2) / (q[..., t, :] * total).sum(-1, keepdim=True)
    return output


def recurrent_by_cumsum(q, k, v):
    q, k = features(q), features(k)
    states = (k[..., :, None] * v[..., None, :]).cumsum(-3)
    return (q[..., None, :] @ states).squeeze(-2) / (q * k.cumsum(-2)).sum(-1, keepdim=True)


def recurrent_with_ones(q, k, v):
    q, k, v = features(q), features(k), torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    state, rows = 0, []
    for q_t, k_t, v_t in zip(q.unbind(-2), k.unbind(-2), v.unbind(-2)):
        state = state + torch.einsum("...d,...v->...dv", k_t, v_t)
        both = torch.einsum("...d,...dv->...v", q_t, state)
        rows.append(both[..., :-1] / both[..., -1:])
    return torch.stack(rows, dim=-2)


def chunked_with_ones(q, k, v, c):
    q, k, v = features(q), features(k), torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    state, parts = torch.zeros_like(k[..., :1, :].mT @ v[..., :1, :]), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        both = q_c @ state + torch.tril(q_c @ k_c.mT) @ v_c
        parts.append(both[..., :-1] / both[..., -1:])
        state = state + k_c.mT @ v_c
    return torch.cat(parts, dim=-2)


def chunked_all_at_once(q, k, v, c):
    # Pad to whole chunks; all squares as one batch; the states before each chunk by a cumulative sum.
    n = q.shape[-2]
    q, k, v = features(q), features(k), torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    q, k, v = (F.pad(x, (0, 0, 0, -n % c)).unflatten(-2, (-1, c)) for x in (q, k, v))
    sums = (k.mT @ v).cumsum(-3)
    before = torch.cat([torch.zeros_like(sums[..., :1, :, :]), sums[..., :-1, :, :]], dim=-3)
    both = (q @ before + (q @ k.mT).tril() @ v).flatten(-3, -2)[..., :n, :]
    return both[..., :-1] / both[..., -1:]


def chunked_in_float64(q, k, v, c):
    q, k, v = features(q.double()), features(k.double()), v.double()
    state, total, output = 0.0, 0.0, torch.zeros_like(v)
    for start in range(0, q.shape[-2], c):
        part = slice(start, start + c)
        scores = q[..., part, :] @ k[..., part, :].mT
        scores = scores * torch.ones(scores.shape[-2:], dtype=scores.dtype).tril()
        above, below = scores @ v[..., part, :], scores.sum(-1, keepdim=True)
        if start:
            above, below = above + q[..., part, :] @ state, below + q[..., part, :] @ total
        output[..., part, :] = above / below
        state = state + k[..., part, :].mT @ v[..., part, :]
        total = total + k[..., part, :].sum(-2)[..., None]
    return output


class Memory:
    def __init__(self, k, v):
        self.S = torch.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), dtype=v.dtype)
        self.z = torch.zeros((*k.shape[:-2], k.shape[-1]), dtype=v.dtype)

    def write(self, fk, v):
        self.S = self.S + torch.einsum("...td,...te->...de", fk, v)
        self.z = self.z + fk.sum(-2)

    def read(self, fq):
        return (torch.einsum("...td,...de->...te", fq, self.S), torch.einsum("...td,...d->...t", fq, self.z))


def linear_attention_of_memory(q, k, v):
    mem = Memory(k, v)
    mem.write(features(k), v)
    top, bottom = mem.read(features(q))
    return top / bottom[..., None]


def recurrent_linear_attention_of_memory(q, k, v):
    mem = Memory(k, v)
    out = torch.empty_like(v)
    for t in range(v.shape[-2]):
        mem.write(features(k[..., [t], :]), v[..., [t], :])
        top, bottom = mem.read(features(q[..., [t], :]))
        out[..., [t], :] = top / bottom[..., None]
    return out


def chunked_linear_attention_of_memory(q, k, v, c):
    mem = Memory(k, v)
    n = v.shape[-2]
    out = torch.empty_like(v)
    start = 0
    while start < n:
        stop = min(start + c, n)
        a, b, x = (features(q[..., start:stop, :]), features(k[..., start:stop, :]), v[..., start:stop, :])
        later = torch.arange(stop - start)[:, None] < torch.arange(stop - start)
        w = torch.einsum("...td,...sd->...ts", a, b).masked_fill(later, 0.0)
        top, bottom = mem.read(a)
        out[..., start:stop, :] = (top + w @ x) / (bottom + w.sum(-1)).unsqueeze(-1)
        mem.write(b, x)
        start = stop
    return out


def linear_attention_at_once(q, k, v):
    fk = features(k)
    weights = features(q)
    total = (weights * fk.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    return torch.matmul(weights / total, torch.matmul(fk.mT, v))


def recurrent_linear_attention_at_once(q, k, v):
    fq, fk = (features(q), features(k))
    S, z = (0, 0)
    outs = []
    for t in range(q.shape[-2]):
        qt, kt, vt = (fq[..., t : t + 1, :], fk[..., t : t + 1, :], v[..., t : t + 1, :])
        S = S + kt.transpose(-1, -2) @ vt
        z = z + kt.transpose(-1, -2)
        outs.append(qt @ S / (qt @ z))
    return torch.cat(outs, dim=-2)


def chunked_linear_attention_at_once(q, k, v, c):
    n = v.shape[-2]
    c = min(c, n)
    extra = -n % c
    a, b, x = (F.pad(y, (0, 0, 0, extra)).unflatten(-2, (-1, c)) for y in (features(q), features(k), v))
    S, z = (F.pad(y.cumsum(-3), (0, 0, 0, 0, 1, -1)) for y in (b.mT @ x, b.sum(-2, keepdim=True)))
    tri = (a @ b.mT).tril()
    top = (a @ S + tri @ x).flatten(-3, -2)[..., :n, :]
    bottom = ((a * z).sum(-1, keepdim=True) + tri.sum(-1, keepdim=True)).flatten(-3, -2)[..., :n, :]
    return top / bottom


linear_attention = {
    "einsum; in place; float64": (linear_by_einsum, recurrent_in_place, chunked_in_float64),
    "ones beside the values": (linear_with_ones, recurrent_with_ones, chunked_with_ones),
    "a sum; cumulative sums; chunks as a batch": (linear_by_sum, recurrent_by_cumsum, chunked_all_at_once),
    "a memory that is written and read": (
        linear_attention_of_memory,
        recurrent_linear_attention_of_memory,
        chunked_linear_attention_of_memory,
    ),
    "all chunks at once, padded": (
        linear_attention_at_once,
        recurrent_linear_attention_at_once,
        chunked_linear_attention_at_once,
    ),
}


def decayed_in_place(q, k, v, gamma):
    state, out = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), torch.empty_like(v)
    for t in range(q.shape[-2]):
        state = state * gamma[..., t, None, None]
        state = state + k[..., t, :, None] * v[..., t, None, :]
        out[..., t, :] = (q[..., t, :, None] * state).sum(-2)
    return out


def decayed_by_einsum(q, k, v, gamma):
    state, outputs = 0, []
    for q_t, k_t, v_t, g_t in zip(q.unbind(-2), k.unbind(-2), v.unbind(-2), gamma.unbind(-1)):
        state = g_t[..., None, None] * state + torch.einsum("...d,...v->...dv", k_t, v_t)
        outputs.append(torch.einsum("...d,...dv->...v", q_t, state))
    return torch.stack(outputs, dim=-2)


def decayed_in_float64(q, k, v, gamma):
    return decayed_by_einsum(q.double(), k.double(), v.double(), gamma.double()).to(v.dtype)


def decayed_on_its_side(q, k, v, gamma):
    # The state transposed: (d_v, d).
    state, outputs = v.new_zeros(*v.shape[:-2], v.shape[-1], k.shape[-1]), []
    for t in range(v.shape[-2]):
        state = gamma[..., t].reshape(*gamma.shape[:-1], 1, 1) * state + v[..., t : t + 1, :].mT @ k[..., t : t + 1, :]
        outputs.append((state @ q[..., t : t + 1, :].mT).mT)
    return torch.cat(outputs, dim=-2)


def decayed_by_a_scan(q, k, v, gamma):
    # All states at once, in log n rounds: each joins what stands 1, 2, 4, … places before.
    states, gates, n, reach = k[..., :, None] * v[..., None, :], gamma[..., None, None], gamma.shape[-1], 1
    while reach < n:
        old, new, before, own = states[..., :-reach, :, :], states[..., reach:, :, :], gates[..., :-reach, :, :], gates[..., reach:, :, :]  # fmt: skip
        states = torch.cat([states[..., :reach, :, :], new + own * old], dim=-3)
        gates = torch.cat([gates[..., :reach, :, :], own * before], dim=-3)
        reach *= 2
    return (q[..., None, :] @ states).squeeze(-2)


def decayed_by_lerp(q, k, v, gamma):
    # S + (γ − 1) S + kᵀ v
    state, rows = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :]), []
    for t in range(q.shape[-2]):
        state = (
            state
            + (gamma[..., t] - 1)[..., None, None] * state
            + k[..., t, :].unsqueeze(-1) * v[..., t, :].unsqueeze(-2)
        )
        rows.append(torch.matmul(q[..., t, :].unsqueeze(-2), state))
    return torch.cat(rows, -2)


def decayed_one_after_the_other(q, k, v, gamma):
    if q.dim() > 2:
        return torch.stack([decayed_one_after_the_other(*one) for one in zip(q, k, v, gamma)])
    state, out = torch.zeros(k.shape[1], v.shape[1], dtype=v.dtype), []
    for t in range(len(q)):
        state = gamma[t] * state + torch.outer(k[t], v[t])
        out.append(q[t] @ state)
    return torch.stack(out)


def decayed_as_chunks_of_one(q, k, v, gamma):
    return chunked_decay_by_differences(q, k, v, gamma, 1)


def _differences(gamma):
    total = torch.log(gamma).cumsum(dim=-1)
    allowed = torch.tril(torch.ones(gamma.shape[-1], gamma.shape[-1], dtype=torch.bool))
    gap = total.unsqueeze(-1) - total.unsqueeze(-2)
    return torch.exp(torch.where(allowed, gap, torch.full_like(gap, -math.inf)))


def chunked_decay_by_differences(q, k, v, gamma, c):
    state, outputs = 0, []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        total = gamma[..., start : start + c].log().cumsum(-1)
        inside = (q_c @ k_c.mT) * _differences(gamma[..., start : start + c]) @ v_c
        outputs.append(inside if start == 0 else inside + total.exp()[..., None] * (q_c @ state))
        kept = (total[..., -1:] - total).exp()[..., None] * k_c
        state = total[..., -1].exp()[..., None, None] * state + kept.mT @ v_c
    return torch.cat(outputs, dim=-2)


def _segments(gamma):
    # Products of the factors between: each column multiplies from the token after its own.
    c = gamma.shape[-1]
    columns = gamma[..., :, None].expand(*gamma.shape, c)
    below = torch.ones(c, c, dtype=torch.bool).tril(-1)
    return torch.where(below, columns, torch.ones_like(columns)).cumprod(-2).tril()


def chunked_decay_by_segments(q, k, v, gamma, c):
    state = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype)
    outputs, start = [], 0
    while start < q.shape[-2]:
        stop = min(start + c, q.shape[-2])
        part = slice(start, stop)
        mask = _segments(gamma[..., part])
        before = torch.cumprod(gamma[..., part], dim=-1)
        old = torch.einsum("...t,...td,...dv->...tv", before, q[..., part, :], state)
        outputs.append(
            old
            + torch.einsum("...td,...sd,...ts,...sv->...tv", q[..., part, :], k[..., part, :], mask, v[..., part, :])
        )
        state = before[..., -1, None, None] * state + torch.einsum(
            "...s,...sd,...sv->...dv", mask[..., -1, :], k[..., part, :], v[..., part, :]
        )
        start = stop
    return torch.cat(outputs, dim=-2)  # fmt: skip


def chunked_decay_in_float64(q, k, v, gamma, c):
    return chunked_decay_by_differences(q.double(), k.double(), v.double(), gamma.double(), c).to(v.dtype)


def chunked_decay_at_once(q, k, v, gamma, c):
    # All chunks as a batch; padding tokens have keys of zeros and forget nothing. Only the states wait for each other.
    n = q.shape[-2]
    c = min(c, n)
    q, k, v = (F.pad(x, (0, 0, 0, -n % c)).unflatten(-2, (-1, c)) for x in (q, k, v))
    gamma = F.pad(gamma, (0, -n % c), value=1.0).unflatten(-1, (-1, c))
    mask, before = _differences(gamma), gamma.cumprod(-1)
    added = (mask[..., -1, :, None] * k).mT @ v
    states = [torch.zeros_like(added[..., 0, :, :])]
    for chunk in range(added.shape[-3] - 1):
        states.append(before[..., chunk, -1, None, None] * states[-1] + added[..., chunk, :, :])
    old = before[..., None] * (q @ torch.stack(states, dim=-3))
    return (old + (q @ k.mT * mask) @ v).flatten(-3, -2)[..., :n, :]


def chunked_decay_of_scaled_values(q, k, v, gamma, c):
    # The decay goes with the values instead of the keys, and with the output instead of the queries.
    state, outputs = 0, []
    for q_c, k_c, v_c, g_c in zip(*(x.split(c, dim=-2) for x in (q, k, v, gamma.unsqueeze(-1)))):
        mask, passed = _segments(g_c.squeeze(-1)), g_c.cumprod(dim=-2)
        outputs.append((mask * (q_c @ k_c.mT)) @ v_c + passed * (q_c @ state if outputs else 0))
        state = passed[..., -1:, :] * state + k_c.mT @ (v_c * mask[..., -1:, :].mT)
    return torch.cat(outputs, dim=-2)


def chunked_decay_with_an_old_token(q, k, v, gamma, c):
    # The state as d tokens in front of the chunk: their keys are the unit vectors, their values its rows.
    d = k.shape[-1]
    units = torch.eye(d, dtype=k.dtype).expand(*k.shape[:-2], d, d)
    state, outputs = torch.zeros_like(units @ v.new_zeros(*k.shape[:-2], d, v.shape[-1])), []
    for q_c, k_c, v_c, g_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.split(c, -1)):
        mask = torch.cat([g_c.cumprod(-1)[..., None].expand(*g_c.shape, d), _differences(g_c)], dim=-1)
        keys, values = torch.cat([units, k_c], dim=-2), torch.cat([state, v_c], dim=-2)
        outputs.append((q_c @ keys.mT * mask) @ values)
        state = (mask[..., -1, :, None] * keys).mT @ values
    return torch.cat(outputs, dim=-2)


def chunked_decay_by_inverse(q, k, v, gamma, c):
    # The mask is the inverse of a matrix with 1 on the diagonal and −γ_t below it.
    state, outputs = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x.narrow(-2, start, min(c, x.shape[-2] - start)) for x in (q, k, v))
        g_c = gamma[..., start : start + c]
        eye = torch.eye(g_c.shape[-1], dtype=g_c.dtype)
        step = eye - torch.diag_embed(g_c[..., 1:], offset=-1)
        mask = torch.linalg.solve_triangular(step, eye.expand_as(step), upper=False)
        old = g_c[..., :1, None] * mask[..., :, :1] * (q_c @ state)
        outputs.append(old + ((q_c @ k_c.mT) * mask) @ v_c)
        last = mask[..., -1, :, None]
        state = g_c[..., :1, None] * last[..., :1, :] * state + (k_c * last).mT @ v_c
    return torch.cat(outputs, dim=-2)


class Fading:
    """A state that fades for a number of tokens, is read, and is written to."""

    def __init__(self, k, v):
        self.state = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=v.dtype)

    def read(self, q, log):
        return torch.exp(log.cumsum(-1)).unsqueeze(-1) * torch.matmul(q, self.state)

    def write(self, k, v, log):
        after = log.sum(-1, keepdim=True) - log.cumsum(-1)
        self.state = self.state * log.sum(-1).exp()[..., None, None] + torch.einsum(
            "...s,...sd,...sv->...dv", after.exp(), k, v
        )


def chunked_decay_of_an_object(q, k, v, gamma, c):
    fading, outputs = Fading(k, v), []
    for a, b, x, log in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.log().split(c, -1)):
        later = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool()
        between = (log.cumsum(-1)[..., None] - log.cumsum(-1)[..., None, :]).masked_fill(later, -1e9).exp()
        outputs.append(fading.read(a, log) + torch.einsum("...td,...sd,...ts,...sv->...tv", a, b, between, x))
        fading.write(b, x, log)
    return torch.cat(outputs, dim=-2)


decayed_attention = {
    "in place; differences of logarithms": (decayed_in_place, chunked_decay_by_differences),
    "einsum; products of the factors between": (decayed_by_einsum, chunked_decay_by_segments),
    "float64": (decayed_in_float64, chunked_decay_in_float64),
    "the state on its side; all chunks at once": (decayed_on_its_side, chunked_decay_at_once),
    "a scan; the decay on the values": (decayed_by_a_scan, chunked_decay_of_scaled_values),
    "what is lost is taken away; the state as old tokens": (decayed_by_lerp, chunked_decay_with_an_old_token),
    "one sequence after the other; the mask as an inverse": (decayed_one_after_the_other, chunked_decay_by_inverse),
    "chunks of one token; an object that is read and written": (decayed_as_chunks_of_one, chunked_decay_of_an_object),
}


def delta_with_normalize(q, k, v, beta):
    k = F.normalize(k, dim=-1)
    state, out = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), torch.empty_like(v)
    for t in range(q.shape[-2]):
        old = (k[..., t, :, None] * state).sum(-2)
        wrong_by = beta[..., t, None] * (v[..., t, :] - old)
        state = state + k[..., t, :, None] * wrong_by[..., None, :]
        out[..., t, :] = (q[..., t, :, None] * state).sum(-2)
    return out


def delta_by_einsum(q, k, v, beta):
    k = k / torch.linalg.vector_norm(k, dim=-1, keepdim=True)
    state, outputs = torch.zeros_like(torch.einsum("...d,...v->...dv", k[..., 0, :], v[..., 0, :])), []
    for q_t, k_t, v_t, b_t in zip(q.unbind(-2), k.unbind(-2), v.unbind(-2), beta.unbind(-1)):
        old = torch.einsum("...d,...dv->...v", k_t, state)
        new = b_t[..., None] * v_t + (1 - b_t[..., None]) * old
        state = state + torch.einsum("...d,...v->...dv", k_t, new - old)
        outputs.append(torch.einsum("...d,...dv->...v", q_t, state))
    return torch.stack(outputs, dim=-2)


def delta_by_erasing_matrix(q, k, v, beta):
    # S ← (1 − β kᵀ k) S + β kᵀ v
    k = k / (k * k).sum(-1, keepdim=True).sqrt()
    eye, state, outputs = torch.eye(k.shape[-1], dtype=k.dtype), None, []
    for t in range(q.shape[-2]):
        k_t, b_t = k[..., t : t + 1, :], beta[..., t, None, None]
        write = b_t * k_t.mT @ v[..., t : t + 1, :]
        state = write if state is None else (eye - b_t * k_t.mT @ k_t) @ state + write
        outputs.append(q[..., t : t + 1, :] @ state)
    return torch.cat(outputs, dim=-2)


def delta_in_float64(q, k, v, beta):
    return delta_by_einsum(q.double(), k.double(), v.double(), beta.double()).to(v.dtype)


def delta_on_its_side(q, k, v, beta):
    k = F.normalize(k, p=2, dim=-1, eps=0.0)
    state, outputs = v.new_zeros(*v.shape[:-2], v.shape[-1], k.shape[-1]), []
    for t in range(v.shape[-2]):
        k_t = k[..., t, :].unsqueeze(-1)
        state = (
            state - beta[..., t].reshape(*beta.shape[:-1], 1, 1) * (state @ k_t - v[..., t, :].unsqueeze(-1)) @ k_t.mT
        )
        outputs.append((state @ q[..., t, :].unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, dim=-2)


def delta_one_after_the_other(q, k, v, beta):
    if q.dim() > 2:
        return torch.stack([delta_one_after_the_other(*one) for one in zip(q, k, v, beta)])
    state, out = torch.zeros(k.shape[1], v.shape[1], dtype=v.dtype), []
    for t in range(len(q)):
        key = k[t] / k[t].norm()
        state = state + beta[t] * torch.outer(key, v[t] - key @ state)
        out.append(q[t] @ state)
    return torch.stack(out)


def delta_in_chunks(q, k, v, beta, c=8):
    # The corrections of a chunk solve a triangle of equations; then it is linear attention of the corrections (Yang et al., 2024).
    k = F.normalize(k, dim=-1)
    state, outputs = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        b_c = beta[..., start : start + c, None]
        triangle = (b_c * (k_c @ k_c.mT)).tril(-1) + torch.eye(k_c.shape[-2], dtype=k.dtype)
        written = torch.linalg.solve_triangular(triangle, b_c * (v_c - k_c @ state), upper=False, unitriangular=True)
        outputs.append(q_c @ state + (q_c @ k_c.mT).tril() @ written)
        state = state + k_c.mT @ written
    return torch.cat(outputs, dim=-2)


def delta_as_gradient_descent(q, k, v, beta):
    # A step of gradient descent on ½ |k S − v|² with the rate β. The slope is written out.
    keys = k / k.square().sum(-1, keepdim=True).pow(0.5)
    state, rows = 0 * (keys[..., 0, :, None] * v[..., 0, None, :]), []
    for t in range(q.shape[-2]):
        key, value, query = (x[..., t, :].unsqueeze(-2) for x in (keys, v, q))
        slope = key.transpose(-1, -2) @ (key @ state - value)
        state = state - beta[..., t, None, None] * slope
        rows.append(query @ state)
    return torch.cat(rows, -2)


delta_rule = {
    "in place, with F.normalize": delta_with_normalize,
    "einsum, old and new values mixed": delta_by_einsum,
    "a matrix that erases": delta_by_erasing_matrix,
    "float64": delta_in_float64,
    "the state on its side": delta_on_its_side,
    "one sequence after the other": delta_one_after_the_other,
    "chunks that solve a triangle": delta_in_chunks,
    "a step of gradient descent": delta_as_gradient_descent,
}

cost_of_all = {
    "term by term": (
        lambda n, d, w: 2 * n * (2 * w + 1) * d + 2 * n * (2 * w + 1) * d,
        lambda n, d, w, g: 4 * d * n * (2 * w + 1 + g) + 4 * d * g * (n - (2 * w + 1 + g)),
        lambda n, d: 4 * n * (2 * (math.isqrt(n) - 1) + 1 + math.isqrt(n) - 1) * d,
        lambda n, d, r: 2 * (2 * r * n * d) + 2 * (2 * n * r * d),
        lambda n, d: sum((2 * d * n * d, 2 * n * d * d)),
        lambda n, d, c: n // c * (4 * c * d * d + 4 * c * c * d),
    ),
    "as floats": (
        lambda n, d, w: 4.0 * n * d * (1 + 2 * w),
        lambda n, d, w, g: 4.0 * d * (n - g) * (2 * w + 1 + g) + 4.0 * d * g * n,
        lambda n, d: 4 * n * d * (3 * n**0.5 - 2),
        lambda n, d, r: 8.0 * d * n * r,
        lambda n, d: 4.0 * d**2 * n,
        lambda n, d, c: 4.0 * n * d * (c + d),
    ),
}
