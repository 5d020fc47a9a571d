"""Right answers of online_softmax in other styles."""

import math

import torch


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
