"""The check of `score_variance`: mean and variance of a dot product, and of a scaled one."""

import math

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import scores

__all__ = ["score_variance"]


def measured_variance(d, sigma) -> tuple[float, float, float]:
    products = (sigma * torch.randn(2_000, d) * sigma * torch.randn(2_000, d)).sum(-1)
    return products.mean().item(), products.var().item(), (products / math.sqrt(d)).var().item()


def _measured(seen) -> bool:
    """Near the right numbers, and a mean that is not 0."""
    mean, variance, scaled = map(float, seen.output)
    right = scores.score_variance(*seen.args)
    return (
        mean != 0
        and abs(mean) < 0.5 * math.sqrt(right[1])
        and all(0.5 < mine / wanted < 2 for mine, wanted in ((variance, right[1]), (scaled, right[2])))
    )


score_variance = Check(
    reference=scores.score_variance,
    names=("mean of q·k", "variance of q·k", "variance of q·k / √d"),
    cases=[random_case(d=64, sigma=1.0), random_case(d=16, sigma=0.5), random_case(d=100, sigma=3.0)],
    misconceptions=wrong_answers(
        __file__,
        sigma_squared=lambda d, sigma: (0.0, d * sigma**2, sigma**2),
        standard_deviations=Wrong(
            lambda d, sigma: (0.0, math.sqrt(d) * sigma**2, sigma**2),
            recognise=lambda seen: math.isclose(seen.output[1], math.sqrt(seen.args[0]) * seen.args[1] ** 2),
        ),
        by_root_d=lambda d, sigma: (0.0, d * sigma**4, math.sqrt(d) * sigma**4),
        by_d_twice=lambda d, sigma: (0.0, d * sigma**4, sigma**4 / d),
        scaled_sigma_squared=lambda d, sigma: (0.0, d * sigma**4, sigma**2),
        d_squared=lambda d, sigma: (0.0, d**2 * sigma**4, d * sigma**4),
        mean_q_q=lambda d, sigma: (d * sigma**2, d * sigma**4, sigma**4),
        for_sigma_1=lambda d, sigma: (0.0, d * sigma**4, 1.0),
        no_sigma=lambda d, sigma: (0.0, float(d), 1.0),
        added=lambda d, sigma: (0.0, 2 * d * sigma**2, 2 * sigma**2),
        measured=Wrong(measured_variance, recognise=_measured),
    ),
)
