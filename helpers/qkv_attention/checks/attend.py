"""The check of `attend`: the values, mixed by the weights of one query."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import explicit_case, normal, random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention
from .attention import _far_ahead, _scores_near_1000, mean_subtracted

__all__ = ["attend"]


def as_wide_as_the_query(query, keys, values) -> Tensor:
    output = torch.zeros_like(query)
    for weight, value in zip(torch.softmax(keys @ query, dim=0), values):
        output += weight * value
    return output


attend = Check(
    reference=attention.attend,
    cases=[
        random_case(n=5, d=3, d_v=4),
        random_case(n=3, d=6, d_v=2),
        explicit_case("large scores", _far_ahead(3), _far_ahead(4, 3), normal(4, 5)),
        random_case(n=4, d=3, d_v=4, label="as many values as entries, n = d_v = 4"),
        random_case(n=5, d=3, d_v=1),
        random_case(n=1, d=5, d_v=3),
        explicit_case("scores of 999, 1,000 and 998", *_scores_near_1000(), normal(3, 2)),
        explicit_case("scores of −999, −1,000 and −998", *_scores_near_1000(-1.0), normal(3, 2)),
    ],
    misconceptions=wrong_answers(
        __file__,
        weighted_by_scores=lambda query, keys, values: (keys @ query) @ values,
        not_normalised=lambda query, keys, values: torch.exp(keys @ query) @ values,
        softmax_twice=lambda query, keys, values: torch.softmax(torch.softmax(keys @ query, dim=0), dim=0) @ values,
        keys_mixed=lambda query, keys, values: torch.softmax(keys @ query, dim=0) @ keys,
        best_only=lambda query, keys, values: values[(keys @ query).argmax()],
        plain_mean=lambda query, keys, values: values.mean(dim=0),
        not_added_up=lambda query, keys, values: torch.softmax(keys @ query, dim=0)[:, None] * values,
        mean_of_weighted=lambda query, keys, values: (torch.softmax(keys @ query, 0)[:, None] * values).mean(0),
        columns_weighted=Wrong(
            lambda query, keys, values: (torch.softmax(keys @ query, 0) * values).sum(0), raises="RuntimeError"
        ),
        scaled=lambda query, keys, values: torch.softmax(keys @ query / math.sqrt(len(query)), dim=0) @ values,
        no_maximum=lambda query, keys, values: torch.exp(keys @ query) @ values / torch.exp(keys @ query).sum(),
        mean_subtracted=lambda query, keys, values: mean_subtracted(keys @ query) @ values,
        clamped=lambda query, keys, values: torch.softmax((keys @ query).clamp(-80, 80), dim=0) @ values,
        squeezed=lambda query, keys, values: (torch.softmax(keys @ query, 0)[None] @ values).squeeze(),
        as_wide_as_query=Wrong(as_wide_as_the_query, raises="RuntimeError"),
        axis_too_many=lambda query, keys, values: torch.softmax(keys @ query, 0)[None] @ values,
        column=lambda query, keys, values: values.T @ torch.softmax(keys @ query, 0)[:, None],
        last_only=lambda query, keys, values: torch.softmax(keys @ query, 0)[-1] * values[-1],
        unit_keys=lambda query, keys, values: torch.softmax(F.normalize(keys, dim=-1) @ query, dim=0) @ values,
    ),
)
