"""The check of `same_output_other_weights`."""

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import constructions
from .constructions import FINITE

__all__ = ["same_output_other_weights"]


def distribution_and_values(n: int, d: int) -> tuple[RandomArg, RandomArg]:
    return (
        RandomArg(lambda g: torch.softmax(torch.randn(n, generator=g).clamp(-2, 2), dim=0)),  # none below 0.001
        RandomArg(lambda g: torch.randn(n, d, generator=g)),
    )


def _null_direction(constraints: Tensor) -> Tensor:
    """A unit vector z with constraintsᵀ z = 0."""
    return torch.linalg.svd(constraints.double().mT).Vh[-1].float()


def _kept_direction(values) -> Tensor:
    return _null_direction(torch.cat([values, torch.ones(len(values), 1)], dim=1))


def one_wide_direction(n: int) -> RandomArg:
    """Values (n, n − 2) for which all directions that keep output and sum are parallel to (1, −1, 1, −1, …); n is even."""

    def make(generator: torch.Generator) -> Tensor:
        direction = torch.tensor([1.0, -1.0] * (n // 2))
        values = torch.randn(n, n - 2, generator=generator)
        return values - torch.outer(direction, direction @ values) / n

    return RandomArg(make)


def near_uniform(n: int) -> RandomArg:
    return RandomArg(lambda g: (lambda w: w / w.sum())(0.5 + torch.rand(n, generator=g)))  # none below 1/(3n)


def a_step_too_far(weights, values) -> Tensor:
    direction = _kept_direction(values)
    longest = (weights / -direction)[direction < 0].min()
    return weights + 2 * longest * direction


def measured_at_the_growing(weights, values) -> Tensor:
    direction = _kept_direction(values)
    return weights + 0.5 * (weights / direction)[direction > 0].min() * direction


def _measured_at_the_growing(seen) -> bool:
    """Whether the weight that grows most for its size grows by a part of itself that one would write down."""
    weights, moved = seen.args[0], seen.output - seen.args[0]
    part = 1 / (weights / moved)[moved > 1e-6].min().item()
    return (
        seen.output.min().item() < -1e-6
        and not _changes_the_output(*seen.args, seen.output)
        and any(abs(part - wanted) < 1e-3 for wanted in (0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1))
    )


def solved_for_the_first(weights, values) -> Tensor:
    d = values.shape[1]
    system = torch.cat([values, torch.ones(len(values), 1)], dim=1).double()
    direction = torch.zeros(len(values), dtype=torch.float64)
    direction[: d + 1] = torch.linalg.solve(system[: d + 1].mT, -system[d + 1])
    direction[d + 1] = 1.0
    return (weights + 0.5 * (weights / -direction)[direction < 0].min() * direction).float()


def a_step_that_changes_the_sum(weights, values) -> Tensor:
    # Of the directions that leave the output alone, the one that changes the sum of the weights most.
    projector = torch.eye(len(values)) - values @ torch.linalg.pinv(values)
    direction = projector @ torch.ones(len(values))
    return weights + 0.1 * direction / direction.abs().max()


def _changes_the_output(weights, values, other) -> bool:
    return (other @ values - weights @ values).abs().max().item() > 1e-3


def _moved(seen) -> float:
    """By how much the weight that moved most did."""
    return (seen.output - seen.args[0]).abs().max().item()


def clipped(weights, values) -> Tensor:
    moved = (weights + _kept_direction(values)).clamp(min=0)
    return moved / moved.sum()


def along_a_seen_direction(weights, values) -> Tensor:
    """The last row of Vh of the thin decomposition: a direction that V sees."""
    direction = torch.linalg.svd(torch.cat([values, torch.ones(len(values), 1)], dim=1).mT, full_matrices=False).Vh[-1]
    return weights + 0.5 * (weights / direction.abs()).min() * direction


same_output_other_weights = Check(
    reference=constructions.same_output_other_weights,
    cases=[
        explicit_case("n = 6, d = 2", *distribution_and_values(6, 2)),
        explicit_case("n = 9, d = 4", *distribution_and_values(9, 4)),
        explicit_case("n = 5, d = 3: one direction only", *distribution_and_values(5, 3)),
        explicit_case(
            "values 1, 2, 3, a small weight in the middle",
            torch.tensor([0.2, 0.002, 0.798]),
            torch.tensor([[1.0], [2.0], [3.0]]),
        ),
        explicit_case(
            "n = 16, d = 14: one direction only, which moves all weights alike",
            distribution_and_values(16, 14)[0],
            one_wide_direction(16),
        ),
        explicit_case(
            "values 1, 2, 3, a weight of 0.001", torch.tensor([0.2, 0.001, 0.799]), torch.tensor([[1.0], [2.0], [3.0]])
        ),
        explicit_case(
            "values 1, 1, 2, 3: two are equal",
            torch.tensor([0.1, 0.2, 0.3, 0.4]),
            torch.tensor([[1.0], [1.0], [2.0], [3.0]]),
        ),
        explicit_case(
            "values on a line, d = 2",
            torch.tensor([0.3, 0.1, 0.15, 0.25, 0.2]),
            torch.tensor([[1.0, 2.0], [0.0, 0.0], [-1.0, -2.0], [2.0, 4.0], [3.0, 6.0]]),
        ),
        explicit_case(
            "n = 200, d = 198: one direction only, which moves all weights alike",
            near_uniform(200),
            one_wide_direction(200),
        ),
        explicit_case(
            "values 1, 2, 3, small weights at the ends",
            torch.tensor([0.002, 0.9, 0.098]),
            torch.tensor([[1.0], [2.0], [3.0]]),
        ),
    ],
    compare=False,
    properties=[
        Property(
            "one weight for each value",
            lambda other, weights, _: other.shape == weights.shape,
            "There must be as many weights as values.",
        ),
        FINITE,
        Property(
            "the same output",
            lambda other, weights, values: not _changes_the_output(weights, values, other),
            "The output has changed: α′V is not αV.",
        ),
        Property("no weight is negative", lambda other, *_: other.min().item() > -1e-6, "A weight is negative."),
        Property(
            "the weights sum to 1", lambda other, *_: abs(other.sum().item() - 1) < 1e-4, "The weights don't sum to 1."
        ),
        Property(
            "other weights than the given ones",
            lambda other, weights, _: (other - weights).abs().max().item() > 1e-4,
            "No weight moved by more than 0.0001.",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        given_weights_again=Wrong(lambda weights, values: weights.clone(), recognise=lambda seen: _moved(seen) < 2e-7),
        step_that_too_short=Wrong(
            lambda weights, values: weights + 1e-5 * _kept_direction(values),
            recognise=lambda seen: 2e-7 <= _moved(seen) <= 1e-4,
        ),
        way_0_measured_at_weights_that_grow=Wrong(measured_at_the_growing, recognise=_measured_at_the_growing),
        inverse_that_need_not_exist=Wrong(solved_for_the_first, raises="_LinAlgError"),
        negative_weights=Wrong(
            a_step_too_far,
            recognise=lambda seen: (
                seen.output.min().item() < -1e-6 and not _changes_the_output(*seen.args, seen.output)
            ),
        ),
        step_fixed_length=lambda weights, values: weights + 0.01 * _kept_direction(values),
        weights_that_dont_sum_1=Wrong(
            a_step_that_changes_the_sum,
            recognise=lambda seen: (
                abs(seen.output.sum().item() - 1) > 1e-4 and not _changes_the_output(*seen.args, seen.output)
            ),
        ),
        same_weights_another_order=Wrong(
            lambda weights, values: weights.flip(0),
            recognise=lambda seen: (
                torch.allclose(seen.output.sort().values, seen.args[0].sort().values, atol=1e-5) and _moved(seen) > 1e-4
            ),
        ),
        equal_weights=Wrong(
            lambda weights, values: torch.full_like(weights, 1 / len(weights)),
            recognise=lambda seen: torch.allclose(
                seen.output, torch.full_like(seen.output, 1 / len(seen.output)), atol=1e-5
            ),
        ),
        negative_weights_cut_off=Wrong(
            clipped,
            recognise=lambda seen: seen.output.min().item() == 0 and _changes_the_output(*seen.args, seen.output),
        ),
        weights_that_give_another_output=Wrong(
            along_a_seen_direction,
            recognise=lambda seen: (
                _changes_the_output(*seen.args, seen.output) and (seen.output - seen.args[0]).abs().max().item() > 1e-4
            ),
        ),
    ),
)
