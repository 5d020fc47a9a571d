"""The check of `softmax`: along any axis, by hand."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check
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


def _powers(x: Tensor, dim: int) -> Tensor:
    return torch.exp(x - x.amax(dim, keepdim=True))


def _less(subtracted: Callable) -> Callable:
    """A softmax that takes `subtracted(x, dim)` off the scores."""
    return lambda x, dim: _shares(torch.exp(x - subtracted(x, dim)), dim)


def cut_off(x, dim) -> Tensor:
    """Cut off where float32's exponentials end."""
    in_reach = x.to(torch.promote_types(x.dtype, torch.float32)).clamp(-80, 80)
    return _shares(torch.exp(in_reach), dim).to(x.dtype)


def _constant_in_the_sum(seen) -> bool:
    """Whether one positive number, added to the sums of exponentials, explains what each slice lacks to 1."""
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
        explicit_case("float16, a score of 20 in each row", torch.tensor([[20.0, 0, 1], [-1, 0.5, 20]]).half(), 1),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.softmax),
        no_maximum=_less(lambda x, dim: 0.0),
        above_50_only=_less(lambda x, dim: x.amax(dim, keepdim=True) if x.max() > 50 else 0.0),
        cut_off=cut_off,
        one_maximum=_less(lambda x, dim: x.max()),
        last_axis=lambda x, dim: reference.softmax(x, -1),
        one_sum=lambda x, dim: torch.exp(x - x.max()) / torch.exp(x - x.max()).sum(),
        one_sum_of_powers=lambda x, dim: torch.exp(x) / torch.exp(x).sum(),
        no_exp=_shares,
        not_normalised=_powers,
        mean_subtracted=_less(lambda x, dim: x.mean(dim, keepdim=True)),
        minimum_subtracted=_less(lambda x, dim: x.amin(dim, keepdim=True)),
        largest_size_subtracted=_less(lambda x, dim: x.abs().amax(dim, keepdim=True)),
        clamped=lambda x, dim: _shares(torch.exp(x.clamp(-80, 80)), dim),
        powers_of_2=lambda x, dim: _shares(torch.exp2(x - x.amax(dim, keepdim=True)), dim),
        divided_by_largest=lambda x, dim: _shares(torch.exp(x / x.abs().amax(dim, keepdim=True)), dim),
        logarithm=Wrong(lambda x, dim: torch.log(_shares(_powers(x.double(), dim), dim)), recognise=_logarithms),
        maximum_along_last_axis=_less(lambda x, dim: x.amax(-1, keepdim=True)),
        sum_along_last_axis=lambda x, dim: _shares(_powers(x, dim), -1),
        axis_put_back_at_end=Wrong(
            lambda x, dim: _powers(x, dim) / _powers(x, dim).sum(dim).unsqueeze(-1), raises="RuntimeError"
        ),
        axis_dropped=Wrong(lambda x, dim: _powers(x, dim) / _powers(x, dim).sum(dim), raises="RuntimeError"),
        logarithm_added=lambda x, dim: torch.exp(x - torch.logsumexp(x, dim, keepdim=True)),
        constant_added=Wrong(
            lambda x, dim: _powers(x, dim) / (_powers(x, dim).sum(dim, keepdim=True) + 1e-3),
            recognise=_constant_in_the_sum,
        ),
    ),
    forbids=["softmax"],
)
