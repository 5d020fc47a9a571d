"""The check of `weighted_rows`."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import shapes

__all__ = ["weighted_rows"]


def _positive(*shape: int) -> RandomArg:
    return RandomArg(lambda generator: 0.1 + 2 * torch.rand(shape, generator=generator))


def rows_case(label: str, weights: tuple[int, ...], rows: tuple[int, ...]) -> Case:
    return explicit_case(
        label, _positive(*weights), RandomArg(lambda generator: torch.randn(rows, generator=generator))
    )


def weights_of_all_axes_transposed(weights: Tensor, rows: Tensor) -> Tensor:
    turned = weights.permute(*reversed(range(weights.dim())))
    return turned @ rows / turned.sum(dim=-1, keepdim=True)


weighted_rows = Check(
    reference=shapes.weighted_rows,
    cases=[
        rows_case("m = 2, n = 5, d = 3", (2, 5), (5, 3)),
        rows_case("m = n = d = 4", (4, 4), (4, 4)),
        as_float64(rows_case("a batch of 2: m = 3, n = 4, d = 6", (2, 3, 4), (2, 4, 6))),
        rows_case("two batch axes, m = n = d = 3", (2, 3, 3, 3), (2, 3, 3, 3)),
    ],
    misconceptions=wrong_answers(
        __file__,
        sum_instead_average=lambda weights, rows: weights @ rows,
        divided_by_sums_down_columns=lambda weights, rows: (weights / weights.sum(dim=-2, keepdim=True)) @ rows,
        divided_by_how_many_there=lambda weights, rows: weights @ rows / rows.shape[-2],
        divided_by_sum_all_weights=lambda weights, rows: weights @ rows / weights.sum(),
        softmax_weights=lambda weights, rows: torch.softmax(weights, dim=-1) @ rows,
        plain_mean=lambda weights, rows: rows.mean(dim=-2, keepdim=True).expand(*weights.shape[:-1], -1),
        weights_transposed=Wrong(
            lambda weights, rows: weights.mT @ rows / weights.mT.sum(dim=-1, keepdim=True), raises="RuntimeError"
        ),
        all_axes_weights_reversed=Wrong(weights_of_all_axes_transposed, raises="RuntimeError"),
    ),
)
