"""Right answers of local_attention in other styles."""

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
