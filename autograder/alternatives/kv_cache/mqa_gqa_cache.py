"""Right answers of mqa_gqa_cache in other styles."""

import math

import torch
import torch.nn.functional as F


def groups_as_an_axis(q, k, v, keys, values):
    b, h, n, d_h = q.shape
    keys, values = torch.cat([keys, k], -2), torch.cat([values, v], -2)
    m = keys.shape[2]
    grouped = q.view(b, k.shape[1], -1, n, d_h)  # (b, h_kv, group, n, d_h)
    scores = torch.einsum("bkgnd,bkmd->bkgnm", grouped, keys) / math.sqrt(d_h)
    scores = scores.masked_fill(torch.arange(m) > torch.arange(m - n, m)[:, None], -torch.inf)
    return torch.einsum("bkgnm,bkmd->bkgnd", scores.softmax(-1), values).flatten(1, 2), keys, values


def groups_by_sdpa(q, k, v, keys, values):
    keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    mask = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - q.shape[2])
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True), keys, values


def groups_by_loop(q, k, v, keys, values):
    keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    size, (n, m) = q.shape[1] // k.shape[1], (q.shape[2], keys.shape[2])
    heads = []
    for i in range(q.shape[1]):
        scores = q[:, i] @ keys[:, i // size].mT / q.shape[-1] ** 0.5 + torch.full((n, m), -torch.inf).triu(m - n + 1)
        heads.append(scores.softmax(-1) @ values[:, i // size])
    return torch.stack(heads, 1), keys, values


def step_with_groups_as_an_axis(q, k, v, keys, values):
    m, n, h_kv = (keys.shape[2], q.shape[2], k.shape[1])
    keys, values = (torch.cat(pair, dim=2) for pair in ((keys, k), (values, v)))
    grouped = q.unflatten(1, (h_kv, -1))
    scores = torch.einsum("bkgie,bkje->bkgij", grouped, keys).div(q.shape[-1] ** 0.5)
    hidden = torch.ones(n, m + n, dtype=torch.bool).triu(m + 1)
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return (torch.einsum("bkgij,bkje->bkgie", weights, values).flatten(1, 2), keys, values)


def a_call_for_each_group(q, k, v, keys, values):
    n, m = q.shape[2], keys.shape[2]
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    allowed = torch.arange(m, m + n).unsqueeze(1) >= torch.arange(m + n)
    outputs = []
    for j, group in enumerate(q.chunk(k.shape[1], dim=1)):
        shared = (t[:, j : j + 1].expand(-1, group.shape[1], -1, -1) for t in (keys, values))
        outputs.append(F.scaled_dot_product_attention(group, *shared, attn_mask=allowed))
    return torch.cat(outputs, dim=1), keys, values


mqa_gqa_cache = {
    "groups as an axis of their own": groups_as_an_axis,
    "with PyTorch's operator": groups_by_sdpa,
    "a loop over the query heads": groups_by_loop,
    "groups as an axis, einsum, nothing repeated": step_with_groups_as_an_axis,
    "PyTorch's operator for each group": a_call_for_each_group,
}
