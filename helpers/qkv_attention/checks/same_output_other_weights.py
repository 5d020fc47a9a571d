"""The check of `same_output_other_weights`: weights that the output doesn't tell apart from the given ones."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
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


def _system(values: Tensor) -> Tensor:
    """What a direction must be orthogonal to, if it is to keep the output and the sum of the weights."""
    return torch.cat([values, torch.ones(len(values), 1)], dim=1)


def _kept_direction(values) -> Tensor:
    return torch.linalg.svd(_system(values).double().mT).Vh[-1].float()


def one_wide_direction(n: int) -> RandomArg:
    """Values (n, n − 2) for which all directions that keep output and sum are parallel to (1, −1, 1, …); n is even."""

    def make(generator: torch.Generator) -> Tensor:
        direction = torch.tensor([1.0, -1.0] * (n // 2))
        values = torch.randn(n, n - 2, generator=generator)
        return values - torch.outer(direction, direction @ values) / n

    return RandomArg(make)


def near_uniform(n: int) -> RandomArg:
    return RandomArg(lambda g: (lambda w: w / w.sum())(0.5 + torch.rand(n, generator=g)))  # none below 1/(3n)


def _walk(weights, direction, part) -> Tensor:
    """This part of the way on which the first weight falls to 0."""
    return weights + part * (weights / -direction)[direction < 0].min() * direction


def measured_at_the_growing(weights, values) -> Tensor:
    direction = _kept_direction(values)
    return weights + 0.5 * (weights / direction)[direction > 0].min() * direction


def solved_for_the_first(weights, values) -> Tensor:
    d, system = values.shape[1], _system(values).double()
    direction = torch.zeros(len(values), dtype=torch.float64)
    direction[: d + 1] = torch.linalg.solve(system[: d + 1].mT, -system[d + 1])
    direction[d + 1] = 1.0
    return _walk(weights, direction, 0.5).float()


def another_sum(weights, values) -> Tensor:
    """Of the directions that leave the output alone, the one that changes the sum of the weights most."""
    direction = (torch.eye(len(values)) - values @ torch.linalg.pinv(values)) @ torch.ones(len(values))
    return weights + 0.1 * direction / direction.abs().max()


def cut_off(weights, values) -> Tensor:
    moved = (weights + _kept_direction(values)).clamp(min=0)
    return moved / moved.sum()


def along_a_seen_direction(weights, values) -> Tensor:
    """The last row of Vh of the thin decomposition: a direction that V sees."""
    direction = torch.linalg.svd(_system(values).mT, full_matrices=False).Vh[-1]
    return weights + 0.5 * (weights / direction.abs()).min() * direction


def _same_output(other, weights, values) -> bool:
    return (other @ values - weights @ values).abs().max().item() <= 1e-3


def _kept(seen) -> bool:
    return _same_output(seen.output, *seen.args)


def _moved(seen) -> float:
    """By how much the weight that moved most did."""
    return (seen.output - seen.args[0]).abs().max().item()


def _negative(seen) -> bool:
    return seen.output.min().item() < -1e-6 and _kept(seen)


def _measured_at_the_growing(seen) -> bool:
    """Whether the weight that grows most for its size grows by a part of itself that one would write down."""
    weights, moved = seen.args[0], seen.output - seen.args[0]
    part = 1 / (weights / moved)[moved > 1e-6].min().item()
    parts = (0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1)
    return _negative(seen) and any(abs(part - wanted) < 1e-3 for wanted in parts)


def _case(label: str, weights: list[float], values: list[list[float]]) -> Case:
    return explicit_case(label, torch.tensor(weights), torch.tensor(values))


ONE_TWO_THREE = [[1.0], [2.0], [3.0]]
ONE_DIRECTION = "one direction only, which moves all weights alike"

same_output_other_weights = Check(
    reference=constructions.same_output_other_weights,
    cases=[
        explicit_case("n = 6, d = 2", *distribution_and_values(6, 2)),
        explicit_case("n = 9, d = 4", *distribution_and_values(9, 4)),
        explicit_case("n = 5, d = 3: one direction only", *distribution_and_values(5, 3)),
        _case("values 1, 2, 3, a small weight in the middle", [0.2, 0.002, 0.798], ONE_TWO_THREE),
        explicit_case(f"n = 16, d = 14: {ONE_DIRECTION}", distribution_and_values(16, 14)[0], one_wide_direction(16)),
        _case("values 1, 2, 3, a weight of 0.001", [0.2, 0.001, 0.799], ONE_TWO_THREE),
        _case("values 1, 1, 2, 3: two are equal", [0.1, 0.2, 0.3, 0.4], [[1.0], *ONE_TWO_THREE]),
        _case(
            "values on a line, d = 2",
            [0.3, 0.1, 0.15, 0.25, 0.2],
            [[1.0, 2.0], [0.0, 0.0], [-1.0, -2.0], [2.0, 4.0], [3.0, 6.0]],
        ),
        explicit_case(f"n = 200, d = 198: {ONE_DIRECTION}", near_uniform(200), one_wide_direction(200)),
        _case("values 1, 2, 3, small weights at the ends", [0.002, 0.9, 0.098], ONE_TWO_THREE),
    ],
    compare=False,
    properties=[
        Property(
            "one weight for each value",
            lambda other, weights, _: other.shape == weights.shape,
            "There must be as many weights as values.",
        ),
        FINITE,
        Property("the same output", _same_output, "The output has changed: α′V is not αV."),
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
        unmoved=Wrong(lambda weights, values: weights.clone(), recognise=lambda seen: _moved(seen) < 2e-7),
        too_short=Wrong(
            lambda weights, values: weights + 1e-5 * _kept_direction(values),
            recognise=lambda seen: 2e-7 <= _moved(seen) <= 1e-4,
        ),
        measured_at_growing=Wrong(measured_at_the_growing, recognise=_measured_at_the_growing),
        no_inverse=Wrong(solved_for_the_first, raises="_LinAlgError"),
        negative=Wrong(lambda weights, values: _walk(weights, _kept_direction(values), 2), recognise=_negative),
        fixed_length=lambda weights, values: weights + 0.01 * _kept_direction(values),
        another_sum=Wrong(another_sum, recognise=lambda seen: abs(seen.output.sum().item() - 1) > 1e-4 and _kept(seen)),
        another_order=Wrong(
            lambda weights, values: weights.flip(0),
            recognise=lambda seen: (
                torch.allclose(seen.output.sort().values, seen.args[0].sort().values, atol=1e-5) and _moved(seen) > 1e-4
            ),
        ),
        equal=Wrong(
            lambda weights, values: torch.full_like(weights, 1 / len(weights)),
            recognise=lambda seen: (seen.output - 1 / len(seen.output)).abs().max() < 1e-5,
        ),
        cut_off=Wrong(cut_off, recognise=lambda seen: seen.output.min().item() == 0 and not _kept(seen)),
        another_output=Wrong(along_a_seen_direction, recognise=lambda seen: not _kept(seen) and _moved(seen) > 1e-4),
    ),
)
