"""Right answers of merge_partials in other styles."""

import math

import torch
import torch.nn.functional as F


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
