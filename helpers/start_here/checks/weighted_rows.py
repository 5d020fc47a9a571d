"""The check of `weighted_rows`: averages of rows, each with weights of its own."""

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import shapes

__all__ = ["weighted_rows"]


def rows_case(label: str, weights: tuple[int, ...], rows: tuple[int, ...], size: float = 1.0) -> Case:
    positive = RandomArg(lambda generator: size * (0.1 + 2 * torch.rand(weights, generator=generator)))
    return explicit_case(label, positive, normal(*rows))


def all_axes_transposed(weights, rows) -> Tensor:
    turned = weights.permute(*reversed(range(weights.dim())))
    return turned @ rows / turned.sum(dim=-1, keepdim=True)


weighted_rows = Check(
    reference=shapes.weighted_rows,
    cases=[
        rows_case("m = 2, n = 5, d = 3", (2, 5), (5, 3)),
        rows_case("m = n = d = 4, small weights", (4, 4), (4, 4), size=0.1),
        as_float64(rows_case("a batch of 2: m = 3, n = 4, d = 6", (2, 3, 4), (2, 4, 6))),
        rows_case("two batch axes, m = n = d = 3", (2, 3, 3, 3), (2, 3, 3, 3)),
    ],
    misconceptions=wrong_answers(
        __file__,
        sum=lambda weights, rows: weights @ rows,
        column_sums=lambda weights, rows: (weights / weights.sum(dim=-2, keepdim=True)) @ rows,
        by_count=lambda weights, rows: weights @ rows / rows.shape[-2],
        one_sum=lambda weights, rows: weights @ rows / weights.sum(),
        softmax=lambda weights, rows: torch.softmax(weights, dim=-1) @ rows,
        plain_mean=lambda weights, rows: rows.mean(dim=-2, keepdim=True).expand(*weights.shape[:-1], -1),
        transposed=Wrong(
            lambda weights, rows: weights.mT @ rows / weights.mT.sum(dim=-1, keepdim=True), raises="RuntimeError"
        ),
        all_axes_transposed=Wrong(all_axes_transposed, raises="RuntimeError"),
    ),
)
