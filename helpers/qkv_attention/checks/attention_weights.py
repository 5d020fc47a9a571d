"""The check of `attention_weights`: how one query shares its attention out over the keys."""

import math

import torch
import torch.nn.functional as F

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention
from .attention import _far_ahead, _scores_near_1000, mean_subtracted

__all__ = ["attention_weights"]

attention_weights = Check(
    reference=attention.attention_weights,
    cases=[
        random_case(n=5, d=3),
        random_case(n=4, d=6),
        explicit_case("large scores", _far_ahead(4), _far_ahead(3, 4)),
        random_case(n=1, d=4),
        random_case(n=4, d=4, label="as many keys as entries, n = d = 4"),
        explicit_case("scores of 999, 1,000 and 998", *_scores_near_1000()),
        explicit_case("scores of −999, −1,000 and −998", *_scores_near_1000(-1.0)),
    ],
    misconceptions=wrong_answers(
        __file__,
        scores=lambda query, keys: keys @ query,
        not_normalised=lambda query, keys: torch.exp(keys @ query),
        sigmoid=lambda query, keys: torch.sigmoid(keys @ query),
        no_exp=lambda query, keys: (keys @ query) / (keys @ query).sum(),
        scaled=lambda query, keys: torch.softmax(keys @ query / math.sqrt(len(query)), dim=0),
        no_maximum=lambda query, keys: torch.exp(keys @ query) / torch.exp(keys @ query).sum(),
        mean_subtracted=lambda query, keys: mean_subtracted(keys @ query),
        clamped=lambda query, keys: torch.softmax((keys @ query).clamp(-80, 80), dim=0),
        unit_keys=lambda query, keys: torch.softmax(F.normalize(keys, dim=-1) @ query, dim=0),
        cosines=lambda query, keys: torch.softmax(torch.cosine_similarity(keys, query[None], dim=-1), dim=0),
        columns_for_keys=Wrong(lambda query, keys: torch.softmax(keys.T @ query, dim=0), raises="RuntimeError"),
        squeezed=lambda query, keys: torch.softmax((keys @ query).squeeze(), dim=-1),
        logarithm=lambda query, keys: torch.log_softmax(keys @ query, dim=0),
        column=lambda query, keys: torch.softmax(keys @ query[:, None], dim=0),
        each_by_itself=lambda query, keys: torch.softmax((keys @ query)[:, None], dim=1)[:, 0],
        by_keys=lambda query, keys: torch.softmax(keys @ query / len(keys), dim=0),
    ),
)
