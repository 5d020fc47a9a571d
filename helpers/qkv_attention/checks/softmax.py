"""The check of `softmax`."""

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import softmax as reference

__all__ = ["softmax"]


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
        explicit_case(
            "float16, up to 50,000", RandomArg(lambda g: (50_000 * torch.rand(3, 4, generator=g)).half()), -1
        ),
        random_case(shape=(1, 4), dim=0, label="a single row, dim = 0"),
        explicit_case("all scores near −1000", normal(3, 4, mean=-1000.0), 1),
        explicit_case(
            "float16, a score of 20 in each row", torch.tensor([[20.0, 0.0, 1.0], [-1.0, 0.5, 20.0]]).half(), 1
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.softmax),
        no_maximum_subtracted=softmax_without_maximum,
        maximum_subtracted_only_from_large=softmax_with_a_threshold,
        scores_cut_off_at_limit=softmax_of_cut_scores,
        one_maximum_all_rows=softmax_with_one_maximum,
        always_last_axis=softmax_of_the_last_axis,
        one_sum_over_whole_tensor=softmax_over_everything,
        divided_by_sum_without_exp=softmax_without_exp,
        exponentials_that_not_normalised=softmax_without_normalising,
        mean_subtracted_not_maximum=softmax_with_the_mean,
        smallest_score_subtracted=softmax_with_the_minimum,
        largest_absolute_value_subtracted=softmax_with_the_largest_size,
        scores_clamped_range=softmax_of_clamped_scores,
        powers_2_instead_e=lambda x, dim: _shares(torch.exp2(x - x.amax(dim, keepdim=True)), dim),
        scores_divided_by_largest=lambda x, dim: _shares(torch.exp(x / x.abs().amax(dim, keepdim=True)), dim),
        logarithm_shares=Wrong(
            lambda x, dim: torch.log(_shares(torch.exp(x.double() - x.double().amax(dim, keepdim=True)), dim)),
            recognise=lambda seen: _logarithms(seen),
        ),
        maximum_along_last_axis=softmax_with_the_maximum_of_the_last_axis,
        sum_along_last_axis=softmax_summed_along_the_last_axis,
        summed_axis_put_back_at_end=Wrong(softmax_with_the_axis_put_back_at_the_end, raises="RuntimeError"),
        summed_axis_dropped=Wrong(softmax_without_keepdim, raises="RuntimeError"),
        logarithm_added_large_scores=lambda x, dim: torch.exp(x - torch.logsumexp(x, dim, keepdim=True)),
        constant_denominator=Wrong(
            lambda x, dim: (
                softmax_without_normalising(x, dim)
                / (softmax_without_normalising(x, dim).sum(dim, keepdim=True) + 1e-3)
            ),
            recognise=_constant_in_the_sum,
        ),
    ),
    forbids=["softmax"],
)
