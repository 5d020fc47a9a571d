"""Attention with linear biases, ALiBi (Press et al., 2022): scores fall with the distance, each head's at its slope."""

import torch
from jaxtyping import Float
from torch import Tensor


def alibi_bias(n: int, h: int) -> Float[Tensor, "h n n"]:
    """What ALiBi adds to the scores of h heads on n tokens: −m_k (i − j) for query i, key j ≤ i and head k = 1 … h,
    where m_k = 2^(−8k/h); −∞ for later keys. Press et al., 2022 (arXiv 2108.12409), section 3."""
    slopes = 2.0 ** (-8 * torch.arange(1, h + 1) / h)
    distance = torch.arange(n)[:, None] - torch.arange(n)  # (n, n): i − j
    return torch.where(distance >= 0, -slopes[:, None, None] * distance, -torch.inf)
