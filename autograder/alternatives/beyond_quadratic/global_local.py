"""Right answers of global_local in other styles."""

import math

import torch


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
