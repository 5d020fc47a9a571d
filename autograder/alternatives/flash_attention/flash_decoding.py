"""Right answers of flash_decoding in other styles."""

import math

import torch
import torch.nn.functional as F


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
