"""Keys and values as whole numbers of one byte: a scale a channel for keys, whose channels differ in size, a scale a
token for values (KIVI: Liu et al., 2024)."""

import torch
from jaxtyping import Float, Int8
from torch import Tensor


def _quantize(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(dim=dim, keepdim=True) / 127
    scale = scale.masked_fill(scale == 0, 1)  # where all is 0 any step will do
    return torch.round(x / scale).to(torch.int8), scale


def quantize_keys(k: Float[Tensor, "b h n d_h"]) -> tuple[Int8[Tensor, "b h n d_h"], Float[Tensor, "b h 1 d_h"]]:
    """Codes from −127 to 127 and a scale for each channel of each head: k ≈ codes · scale, off by half a step at
    most."""
    return _quantize(k, dim=-2)


def quantize_values(v: Float[Tensor, "b h n d_h"]) -> tuple[Int8[Tensor, "b h n d_h"], Float[Tensor, "b h n 1"]]:
    """The same with one scale for each token of each head."""
    return _quantize(v, dim=-1)


def quantized_bytes(b: int, h: int, n: int, d_h: int, size: int) -> int:
    """Bytes of the codes and scales of keys and values in one layer; a scale takes `size` bytes."""
    codes = 2 * b * h * n * d_h
    scales = b * h * d_h + b * h * n  # a channel of the keys, a token of the values
    return codes + size * scales
