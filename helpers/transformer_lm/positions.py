"""Where a token stands, said in sines and cosines: added to the token, or turned into its queries and keys.

Both ways use d/2 frequencies 1, …, 1/base that fall along the width, and both pair *neighbouring* features (0, 1), (2,
3), …, as the papers print them. (Some code bases pair feature i with i + d/2 instead: the same idea, the features
reordered.)
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def frequencies(d: int, base: float = 10_000.0) -> Float[Tensor, "d/2"]:
    """θ_i = base^(−2i/d), in float64: a position in the thousands times a rounded frequency is visibly off."""
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def sinusoidal_positions(n: int, d: int, base: float = 10_000.0) -> Float[Tensor, "n d"]:
    """Row t: sin(t θ_0), cos(t θ_0), sin(t θ_1), … (Vaswani et al., 2017, section 3.5). d is even."""
    angles = torch.arange(n, dtype=torch.float64)[:, None] * frequencies(d, base)  # (n, d/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(torch.get_default_dtype())


def binary_positions(n: int, d: int) -> Float[Tensor, "n d"]:
    """Row t: the digits of t in base 2, the last digit first. Column i turns every 2^i positions."""
    return (torch.arange(n)[:, None] // 2 ** torch.arange(d) % 2).to(torch.get_default_dtype())


def shift_rotation(k: int, d: int, base: float = 10_000.0) -> Float[Tensor, "d d"]:
    """M with PE(t + k) = PE(t) M for every t (rows times M): a block [[cos kθ, −sin kθ], [sin kθ, cos kθ]] for each
    pair of columns."""
    angles = k * frequencies(d, base)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack([cos, -sin, sin, cos], dim=-1).unflatten(-1, (2, 2))  # (d/2, 2, 2)
    return torch.block_diag(*blocks).to(torch.get_default_dtype())


def rotary_embedding(
    x: Float[Tensor, "*batch n d"], positions: Int[Tensor, "*#batch n"], base: float = 10_000.0
) -> Float[Tensor, "*batch n d"]:
    """Turn features (2i, 2i + 1) of the token at position t by the angle t θ_i (RoPE: Su et al., 2021, equation 34).

    Queries and keys are turned, values are not: then q_t · k_s depends on t − s only. d is even.
    """
    angles = positions[..., None] * frequencies(x.shape[-1], base).to(x.device)  # (*batch, n, d/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
