"""The check of `pairwise_dot`: every row of a with every row of b."""

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import shapes

__all__ = ["pairwise_dot"]

pairwise_dot = Check(
    reference=shapes.pairwise_dot,
    cases=[
        random_case(n=3, m=5, d=4),
        random_case(n=4, m=4, d=4, label="everything square"),
        random_case(n=1, m=6, d=2, dtype=torch.float64),
    ],
    misconceptions=wrong_answers(
        __file__,
        transposed=lambda a, b: b @ a.mT,
        elementwise=Wrong(lambda a, b: a * b, raises="RuntimeError"),
        row_by_row=Wrong(lambda a, b: (a * b).sum(dim=-1), raises="RuntimeError"),
        no_transpose=Wrong(lambda a, b: a @ b, raises="RuntimeError"),
        b_reshaped=lambda a, b: a @ b.reshape(b.shape[1], b.shape[0]),
        columns=Wrong(lambda a, b: a.mT @ b, raises="RuntimeError"),
        cosines=lambda a, b: a @ b.mT / (a.norm(dim=-1)[:, None] * b.norm(dim=-1)),
    ),
)
