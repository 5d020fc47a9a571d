"""The check of `attention_weights`."""

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
        scores_instead_weights=lambda query, keys: keys @ query,
        weights_that_not_normalised=lambda query, keys: torch.exp(keys @ query),
        each_weight_by_itself_with_sigmoid=lambda query, keys: torch.sigmoid(keys @ query),
        divided_by_sum_without_exp=lambda query, keys: (keys @ query) / (keys @ query).sum(),
        scaled_already=lambda query, keys: torch.softmax(keys @ query / math.sqrt(len(query)), dim=0),
        no_maximum_subtracted=lambda query, keys: torch.exp(keys @ query) / torch.exp(keys @ query).sum(),
        mean_subtracted_not_maximum=lambda query, keys: mean_subtracted(keys @ query),
        scores_clamped_range=lambda query, keys: torch.softmax((keys @ query).clamp(-80, 80), dim=0),
        keys_made_length_1=lambda query, keys: torch.softmax(F.normalize(keys, dim=-1) @ query, dim=0),
        cosines_instead_dot_products=lambda query, keys: torch.softmax(
            torch.cosine_similarity(keys, query[None], dim=-1), dim=0
        ),
        columns_k_taken_keys=Wrong(lambda query, keys: torch.softmax(keys.T @ query, dim=0), raises="RuntimeError"),
        axis_single_key_dropped=lambda query, keys: torch.softmax((keys @ query).squeeze(), dim=-1),
        logarithm_weights=lambda query, keys: torch.log_softmax(keys @ query, dim=0),
        column_weights=lambda query, keys: torch.softmax(keys @ query[:, None], dim=0),
        softmax_every_score_by_itself=lambda query, keys: torch.softmax((keys @ query)[:, None], dim=1)[:, 0],
        divided_by_number_keys=lambda query, keys: torch.softmax(keys @ query / len(keys), dim=0),
    ),
)
