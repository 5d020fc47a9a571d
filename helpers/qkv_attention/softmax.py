"""The softmax and its derivative."""

import torch
from jaxtyping import Float
from torch import Tensor


def softmax(x: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    """exp(x) / Σ exp(x) along `dim`, stable for any finite x: the maximum is subtracted first."""
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)


def softmax_jacobian(z: Float[Tensor, "n"]) -> Float[Tensor, "n n"]:
    """∂y_i/∂z_j = y_i (δ_ij − y_j) with y = softmax(z), that is diag(y) − y yᵀ."""
    y = softmax(z, dim=0)
    return torch.diag(y) - torch.outer(y, y)
