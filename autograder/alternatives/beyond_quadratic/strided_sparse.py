"""Right answers of strided_sparse in other styles."""

import math

import torch
import torch.nn.functional as F


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
