"""Incoherent rotation (FlashAttention-3, Shah et al., 2024): queries and keys turned by the same orthogonal matrix have
the same scores, and an outlier that would waste the range of FP8 is shared out over all features."""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor

LARGEST = torch.finfo(torch.float8_e4m3fn).max  # 448


def hadamard(d: int) -> Float[Tensor, "d d"]:
    """Sylvester's matrix, entries ±1/√d, orthonormal: H₁ = (1), H₂ₙ = [[Hₙ, Hₙ], [Hₙ, −Hₙ]]. d is a power of two."""
    signs = torch.ones(1, 1)
    while len(signs) < d:
        above, below = torch.cat([signs, signs], dim=1), torch.cat([signs, -signs], dim=1)
        signs = torch.cat([above, below])
    return signs / math.sqrt(d)


def rotate(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], signs: Float[Tensor, "d"]
) -> tuple[Float[Tensor, "*batch n d"], Float[Tensor, "*batch m d"]]:
    """(q ∘ signs) H and (k ∘ signs) H: the same rotation for both, so q kᵀ stays. `signs` is ±1 for each feature."""
    turn, signs = hadamard(len(signs)).to(q), signs.to(q)
    return (q * signs) @ turn, (k * signs) @ turn


def with_outliers(*shape: int, generator: Generator | None = None) -> Tensor:
    """N(0, 1), and at one place in a thousand N(0, 100) on top: the test of FlashAttention-3."""
    usual, rare = (torch.randn(shape, generator=generator) for _ in range(2))
    return usual + 10 * rare * (torch.rand(shape, generator=generator) < 1e-3)


def random_signs(d: int, generator: Generator | None = None) -> Float[Tensor, "d"]:
    """+1 or −1 for each of d features."""
    return 2.0 * torch.randint(2, (d,), generator=generator) - 1


def to_fp8(x: Tensor) -> Tensor:
    """The nearest FP8 numbers (e4m3: 3 bits after the point), with one scale for the tensor, so that its largest entry
    becomes 448."""
    scale = LARGEST / x.abs().amax()
    return (x * scale).to(torch.float8_e4m3fn).to(x.dtype) / scale


def fp8_attention(
    q: Float[Tensor, "*batch n d"], k: Float[Tensor, "*batch m d"], v: Float[Tensor, "*batch m d_v"]
) -> Float[Tensor, "*batch n d_v"]:
    """Attention as FP8 units compute it: the operands of both products are rounded, sums are kept in float32."""
    scores = to_fp8(q) @ to_fp8(k).mT / math.sqrt(q.shape[-1])
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return to_fp8(powers) @ to_fp8(v) / powers.sum(dim=-1, keepdim=True)
