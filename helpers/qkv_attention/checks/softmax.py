"""Checks of the softmax and of its derivative."""

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import in_single_precision

from .. import softmax as reference

__all__ = ["softmax", "softmax_jacobian"]


def _levels(generator: torch.Generator) -> Tensor:
    """Rows that lie far apart: each row needs a maximum of its own."""
    return torch.randn(3, 5, generator=generator) + torch.tensor([[1000.0], [0.0], [-1000.0]])


def _near_a_million(generator: torch.Generator) -> Tensor:
    """Scores so large that float32 keeps only one digit after the point: a logarithm added to them is lost."""
    return (torch.randn(3, 4, generator=generator) + torch.tensor([[1e6], [0.0], [-1e6]])).float()


def _shares(powers: Tensor, dim: int) -> Tensor:
    return powers / powers.sum(dim, keepdim=True)


def softmax_with_the_maximum_of_the_last_axis(x, dim) -> Tensor:
    return _shares(torch.exp(x - x.amax(-1, keepdim=True)), dim)


def softmax_with_the_mean(x, dim) -> Tensor:
    return _shares(torch.exp(x - x.mean(dim, keepdim=True)), dim)


def softmax_with_the_minimum(x, dim) -> Tensor:
    return _shares(torch.exp(x - x.amin(dim, keepdim=True)), dim)


def softmax_with_the_largest_size(x, dim) -> Tensor:
    return _shares(torch.exp(x - x.abs().amax(dim, keepdim=True)), dim)


def softmax_of_clamped_scores(x, dim) -> Tensor:
    return _shares(torch.exp(x.clamp(-80, 80)), dim)


def softmax_summed_along_the_last_axis(x, dim) -> Tensor:
    return _shares(torch.exp(x - x.amax(dim, keepdim=True)), -1)


def softmax_with_the_axis_put_back_at_the_end(x, dim) -> Tensor:
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim).unsqueeze(-1)


def softmax_without_keepdim(x, dim) -> Tensor:
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim)


def softmax_of_the_last_axis(x, dim) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def softmax_without_maximum(x, dim) -> Tensor:
    return torch.exp(x) / torch.exp(x).sum(dim, keepdim=True)


def softmax_of_cut_scores(x, dim) -> Tensor:
    """Cut off where float32's exponentials end."""
    in_reach = x.to(torch.promote_types(x.dtype, torch.float32)).clamp(-80, 80)
    return softmax_without_maximum(in_reach, dim).to(x.dtype)


def softmax_with_a_threshold(x, dim) -> Tensor:
    return softmax_without_maximum(x - x.amax(dim, keepdim=True) if x.max() > 50 else x, dim)


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


def _constant_in_the_sum(seen) -> bool:
    """Whether every slice sums to less than 1 by what one positive number, added to the sum of its exponentials, takes away."""
    x, dim = seen.args
    powers = torch.exp(x.double() - x.double().amax(dim, keepdim=True)).sum(dim)
    constant = powers * (1 / seen.output.double().sum(dim) - 1)
    return bool(constant.min() > 1e-10 and (constant - constant.mean()).abs().max() < 0.1 * constant.mean())


def _logarithms(seen) -> bool:
    x, dim = seen.args
    return bool(seen.output.max() <= 0) and torch.allclose(
        seen.output.exp().double(), torch.softmax(x.double(), dim), atol=1e-3
    )


softmax = Check(
    reference=reference.softmax,
    cases=[
        random_case(shape=(3, 5), dim=1),
        random_case(shape=(4, 6), dim=0),
        random_case(shape=(2, 3, 4), dim=-2, dtype=torch.float64),
        explicit_case("one row with 1000 in it", torch.tensor([1000.0, 999.0, 0.0]), 0),
        explicit_case("rows near 1000, 0 and −1000", RandomArg(_levels), 1),
        explicit_case("one score 150 below the rest", torch.tensor([0.0, 0.5, -150.0, -0.5]), 0),
        explicit_case("rows near a million, 0 and minus a million", RandomArg(_near_a_million), 1),
        explicit_case("float16, up to 50,000", RandomArg(lambda g: (50_000 * torch.rand(3, 4, generator=g)).half()), -1),
        random_case(shape=(1, 4), dim=0, label="a single row, dim = 0"),
        explicit_case("all scores near −1000", normal(3, 4, mean=-1000.0), 1),
        explicit_case("float16, a score of 20 in each row", torch.tensor([[20.0, 0.0, 1.0], [-1.0, 0.5, 20.0]]).half(), 1),
    ],
    misconceptions=[
        Misconception(
            "no maximum is subtracted", softmax_without_maximum,
            "e^1000 is infinite in floating point, and ∞/∞ is NaN. Subtracting a constant from all entries of a row does not change "
            "its softmax: subtract the row's maximum, and the largest exponential is e^0 = 1.",
        ),
        Misconception(
            "the maximum subtracted only from large scores", softmax_with_a_threshold,
            "Where all scores lie far below 0, every exponential is 0, and 0/0 is NaN; and float16 ends at e^11. Subtract the maximum of each row always.",
        ),
        Misconception(
            "scores cut off at a limit", softmax_of_cut_scores,
            "Scores of 1000 and 999 both become the limit, and share ½ and ½. Only differences count: subtract the maximum of each row, and nothing has to be cut off.",
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
            "exponentials that are not normalised", softmax_without_normalising,
            "The exponentials are positive, but they don't sum to 1 yet. Divide by their sum along `dim`.",
        ),
        Misconception(
            "the mean subtracted, not the maximum", softmax_with_the_mean,
            "A score can lie far above the mean of its row, and then its exponential still overflows. Only with the maximum is no exponent above 0.",
        ),
        Misconception(
            "the smallest score subtracted", softmax_with_the_minimum,
            "Then all exponents are positive, and the larger they are the sooner they overflow. Subtract the largest score: no exponent is above 0.",
        ),
        Misconception(
            "the largest absolute value subtracted", softmax_with_the_largest_size,
            "A row of large negative scores is pushed down twice, and all its exponentials vanish: 0/0. Take the maximum with its sign.",
        ),
        Misconception(
            "scores clamped to a range", softmax_of_clamped_scores,
            "Clamped scores may not overflow, but all scores beyond the limit become equal. Subtracting the maximum keeps their differences.",
        ),
        Misconception(
            "powers of 2 instead of e", lambda x, dim: _shares(torch.exp2(x - x.amax(dim, keepdim=True)), dim),
            "The softmax takes e to the power of the scores: `torch.exp`, not `torch.exp2`.",
        ),
        Misconception(
            "scores divided by the largest", lambda x, dim: _shares(torch.exp(x / x.abs().amax(dim, keepdim=True)), dim),
            "Only *differences* of scores count, and a division changes them. Subtract the maximum.",
        ),
        Misconception(
            "the logarithm of the shares", lambda x, dim: torch.log(_shares(torch.exp(x.double() - x.double().amax(dim, keepdim=True)), dim)),
            "What you return are the logarithms of the shares, none of them positive. Take the exponential.",
            lambda seen: _logarithms(seen),
        ),
        Misconception(
            "the maximum along the last axis", softmax_with_the_maximum_of_the_last_axis,
            "The sum follows `dim`, the maximum does not. Only what is the same for all entries along `dim` cancels: both run along `dim`.",
        ),
        Misconception(
            "the sum along the last axis", softmax_summed_along_the_last_axis,
            "The maximum follows `dim`, the sum does not. Both run along `dim`.",
        ),
        Misconception(
            "the summed axis put back at the end", softmax_with_the_axis_put_back_at_the_end,
            "The axis that you summed over was `dim`, and `unsqueeze(-1)` puts it at the end. `keepdim=True` leaves it where it was.",
            raises="RuntimeError",
        ),
        Misconception(
            "the summed axis dropped", softmax_without_keepdim,
            "`sum(dim)` drops the axis, and what is left lines up with the wrong axis or with none. `keepdim=True` keeps it, with size 1.",
            raises="RuntimeError",
        ),
        Misconception(
            "a logarithm added to large scores", lambda x, dim: torch.exp(x - torch.logsumexp(x, dim, keepdim=True)),
            "`logsumexp` adds a small logarithm to a large maximum, and near a million float32 rounds it away: the shares no longer sum to 1. "
            "Subtract the maximum from the scores first.",
        ),
        Misconception(
            "a constant in the denominator", lambda x, dim: softmax_without_normalising(x, dim) / (softmax_without_normalising(x, dim).sum(dim, keepdim=True) + 1e-3),
            "The shares no longer sum to 1. After the maximum is subtracted the sum is at least e^0 = 1: no constant is needed against a division by 0.",
            _constant_in_the_sum,
        ),
        in_single_precision(reference.softmax),
    ],
    forbids=["softmax"],
)  # fmt: skip


def jacobian_with_ones(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.eye(len(z)).to(z) - torch.outer(y, y)


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


def jacobian_by_quotients(z, ahead=1e-3, behind=0.0) -> Tensor:
    """Column j: how far the shares move from `behind` z_j to `ahead` of it, divided by that way."""
    moved = [
        torch.softmax(z + ahead * unit, 0) - torch.softmax(z - behind * unit, 0) for unit in torch.eye(len(z)).to(z)
    ]
    return torch.stack(moved, dim=1) / (ahead + behind)


def _off_like_a_quotient(seen) -> bool:
    """Near the right numbers. In float64, where rounding hides nothing, off by a multiple of what a quotient is off by: one to the
    right, to the left, or to both sides."""
    z = seen.args[0].double()
    off = seen.output.double() - reference.softmax_jacobian(z)
    if seen.args[0].dtype != torch.float64:
        return 1e-6 < off.abs().max().item() < 0.02
    quotients = [jacobian_by_quotients(z, *steps) for steps in ((1e-3, 0.0), (0.0, 1e-3), (1e-3, 1e-3))]
    expected = [(quotient - reference.softmax_jacobian(z)).flatten() for quotient in quotients]
    return any(torch.cosine_similarity(off.flatten(), one, dim=0).abs() > 0.99 for one in expected)


def jacobian_by_own_powers(z) -> Tensor:
    y = torch.exp(z) / torch.exp(z).sum()
    return torch.diag(y) - torch.outer(y, y)


def jacobian_with_a_number(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) - y @ y


def jacobian_with_squares(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) - y * y


def jacobian_with_y_i_twice(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) - (y * y)[:, None]


def jacobian_with_a_plus(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) + torch.outer(y, y)


def jacobian_summed_up(z) -> Tensor:
    return reference.softmax_jacobian(z).diagonal()


softmax_jacobian = Check(
    reference=reference.softmax_jacobian,
    cases=[
        random_case(n=3), random_case(n=6), random_case(n=4, dtype=torch.float64), random_case(n=1),
        explicit_case("z = (−3, 1, 100, 5, −1): saturated", torch.tensor([-3.0, 1.0, 100.0, 5.0, -1.0])),
        explicit_case("z near −300", normal(4, mean=-300.0)),
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
            "1 on the diagonal in place of y", jacobian_with_ones,
            "y_i (δ_ij − y_j) is y_i δ_ij − y_i y_j: the factor y_i belongs to δ_ij as well. The diagonal holds y_i − y_i².",
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
        Misconception(
            "y · y, a single number", jacobian_with_a_number,
            "`y @ y` of two vectors is one number, and so is `y @ y.T`. The matrix y yᵀ of all products is `torch.outer(y, y)`.",
        ),
        Misconception(
            "the squares of y instead of all products", jacobian_with_squares,
            "`y * y` is a vector, n squares, and subtracting it repeats it in every row. Entry (i, j) of y yᵀ is y_i times y_j: `torch.outer`.",
        ),
        Misconception(
            "1 − y in place of δ − y", lambda z: torch.outer(torch.softmax(z, 0), 1 - torch.softmax(z, 0)),
            "δ_ij is 1 on the diagonal and 0 elsewhere. With a 1 everywhere the entries off the diagonal are positive, and no row sums to 0.",
        ),
        Misconception(
            "the square taken off the diagonal twice", lambda z: torch.diag(torch.softmax(z, 0) * (1 - torch.softmax(z, 0))) - torch.outer(torch.softmax(z, 0), torch.softmax(z, 0)),
            "y yᵀ has the squares y_i² on its own diagonal. diag(y) − y yᵀ takes them off once: put y on the diagonal, not y (1 − y).",
        ),
        Misconception(
            "y_i subtracted instead of y_j", jacobian_with_y_i_twice,
            "Inside the bracket of y_i (δ_ij − y_j) stands y_j, the share of the *column*: `y[None, :]`. With y_i every row holds the same number off the "
            "diagonal, and no longer sums to 0.",
        ),
        Misconception(
            "the products added instead of subtracted", jacobian_with_a_plus,
            "If z_j rises, the *other* shares fall: off the diagonal the entries are negative, and every row sums to 0.",
        ),
        Misconception(
            "the diagonal alone", jacobian_summed_up,
            "Every one of n outputs depends on every one of n inputs: that makes n × n derivatives, and you return n of them.",
        ),
        Misconception(
            "no maximum is subtracted", jacobian_by_own_powers,
            "e^100 is infinite in float32, and ∞/∞ is NaN. Take `torch.softmax`, or subtract the maximum first.",
        ),
        Misconception(
            "a difference quotient instead of the formula", lambda z: jacobian_by_quotients(z),
            "(f(z + h) − f(z))/h is near the derivative, and so is (f(z + h) − f(z − h))/2h, but neither is equal to it, and a small h makes rounding large. The formula "
            "is exact.",
            _off_like_a_quotient,
        ),
        Misconception(
            "computed in float32 where the input is float64", lambda z: reference.softmax_jacobian(z.float()),
            "float32 keeps 7 digits of the 16 that came in. Make new tensors with the dtype of z.",
            lambda seen: seen.args[0].dtype == torch.float64 and 1e-12 < (
                seen.output.double() - reference.softmax_jacobian(seen.args[0])
            ).abs().max().item() < 1e-6,
        ),
    ],
)  # fmt: skip
