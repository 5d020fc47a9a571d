"""The check of `row_means`: the mean of each row."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import shapes

__all__ = ["row_means"]

# The worked example of the first notebook: not an exercise, but a check like any other, for the student to see red on.
row_means = Check(
    reference=shapes.row_means,
    cases=[random_case(n=3, d=4), random_case(n=2, d=6), random_case(batch=(2,), n=3, d=4, label="a batch: 2 × 3 × 4")],
    misconceptions=wrong_answers(
        __file__,
        columns=lambda x: x.mean(dim=0),
        axis_1=lambda x: x.mean(dim=1),
        sums=lambda x: x.sum(dim=-1),
        one_mean=lambda x: x.mean(),
    ),
)
