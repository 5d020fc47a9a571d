"""Checks of the softmax and of its derivative."""

import torch
from torch import Tensor

from helpers.engine.cases import Drawn, given, sized
from helpers.engine.check import Check, Misconception

from .. import softmax as reference

__all__ = ["softmax", "softmax_jacobian"]


def _levels(generator: torch.Generator) -> Tensor:
    """Rows that lie far apart: each row needs a maximum of its own."""
    return torch.randn(3, 5, generator=generator) + torch.tensor([[1000.0], [0.0], [-1000.0]])


def softmax_of_the_last_axis(x, dim) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def softmax_without_maximum(x, dim) -> Tensor:
    return torch.exp(x) / torch.exp(x).sum(dim, keepdim=True)


def softmax_with_one_maximum(x, dim) -> Tensor:
    powers = torch.exp(x - x.max())
    return powers / powers.sum(dim, keepdim=True)


def softmax_over_everything(x, dim) -> Tensor:
    powers = torch.exp(x - x.max())
    return powers / powers.sum()


def softmax_without_exp(x, dim) -> Tensor:
    return x / x.sum(dim, keepdim=True)


def softmax_without_normalising(x, dim) -> Tensor:
    return torch.exp(x - x.amax(dim, keepdim=True))


softmax = Check(
    reference=reference.softmax,
    cases=[
        sized(shape=(3, 5), dim=1),
        sized(shape=(4, 6), dim=0),
        sized(shape=(2, 3, 4), dim=-2),
        given("one row with 1000 in it", torch.tensor([1000.0, 999.0, 0.0]), 0),
        given("rows near 1000, 0 and −1000", Drawn(_levels), 1),
    ],
    misconceptions=[
        Misconception(
            "no maximum is subtracted", softmax_without_maximum,
            "e^1000 is infinite in floating point, and ∞/∞ is NaN. Subtracting a constant from all entries of a row does not change "
            "its softmax: subtract the row's maximum, and the largest power is e^0 = 1.",
        ),
        Misconception(
            "one maximum for all rows", softmax_with_one_maximum,
            "A row that lies far below the overall maximum becomes e^−2000 = 0 everywhere, and 0/0 is NaN. Each row needs its own "
            "maximum: `amax(dim, keepdim=True)`.",
        ),
        Misconception(
            "always the last axis", softmax_of_the_last_axis,
            "The caller says along which axis the entries must sum to 1. Use `dim` for the maximum and for the sum.",
        ),
        Misconception(
            "one sum over the whole tensor", softmax_over_everything,
            "Every slice along `dim` is a distribution of its own and sums to 1. Yours sum to 1 all together.",
        ),
        Misconception(
            "divided by the sum, without exp", softmax_without_exp,
            "Scores can be negative, and shares of attention can't. The exponential makes every entry positive first.",
        ),
        Misconception(
            "powers that are not normalised", softmax_without_normalising,
            "The exponentials are positive, but they don't sum to 1 yet. Divide by their sum along `dim`.",
        ),
    ],
    forbids=["softmax"],
)  # fmt: skip


def jacobian_without_cross_terms(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y * (1 - y))


def jacobian_with_the_sign_turned(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.outer(y, y) - torch.diag(y)


def jacobian_without_diagonal(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return -torch.outer(y, y)


def jacobian_of_log_softmax(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.eye(len(z)) - y.expand(len(z), -1)


softmax_jacobian = Check(
    reference=reference.softmax_jacobian,
    cases=[
        sized(n=3), sized(n=6), sized(n=4, dtype=torch.float64),
        given("z = (−3, 1, 100, 5, −1): saturated", torch.tensor([-3.0, 1.0, 100.0, 5.0, -1.0])),
    ],
    misconceptions=[
        Misconception(
            "no cross terms", jacobian_without_cross_terms,
            "y_i depends on every z_j through the sum in the denominator: ∂y_i/∂z_j = −y_i y_j for i ≠ j. If one entry of z rises, the "
            "other shares fall.",
        ),
        Misconception(
            "the sign turned round", jacobian_with_the_sign_turned,
            "Raising z_i must raise y_i, so the diagonal is positive: diag(y) − y yᵀ.",
        ),
        Misconception(
            "no diagonal term", jacobian_without_diagonal,
            "For i = j the numerator depends on z_i as well, and adds y_i: ∂y_i/∂z_i = y_i − y_i².",
        ),
        Misconception(
            "the derivative of log-softmax", jacobian_of_log_softmax,
            "δ_ij − y_j is the derivative of log y_i. By the chain rule, ∂y_i/∂z_j is that times y_i.",
        ),
        Misconception(
            "z put in where y belongs", lambda z: torch.diag(z) - torch.outer(z, z),
            "The formula diag(y) − y yᵀ is in terms of the *output* y = softmax(z). Compute y first.",
        ),
    ],
)  # fmt: skip
