"""Right answers of linear_attention in other styles."""

import torch
import torch.nn.functional as F


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
