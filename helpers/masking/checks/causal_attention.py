"""The check of `causal_attention`."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision, power_before_division
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import masked_attention
from .masked_attention import _axis_guessed

__all__ = ["causal_attention"]


def _steps(q, k, v, offset=None, *, scale=None, axis=-1) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention in three steps; `offset` moves the diagonal away from where it belongs."""
    n, m = q.shape[-2], k.shape[-2]
    mask = torch.ones(n, m, dtype=torch.bool).tril(m - n if offset is None else offset)
    scores = (q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)).masked_fill(~mask, -math.inf)
    weights = scores.softmax(axis)
    return scores, weights, weights @ v


def without_mask(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores, scores.softmax(-1), scores.softmax(-1) @ v


def _causal(q, k) -> Tensor:
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])


def mask_on_the_weights(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = scores.softmax(-1) * _causal(q, k)
    return scores.masked_fill(~_causal(q, k), -math.inf), weights, weights @ v


def zeros_for_hidden_scores(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = q @ k.mT / math.sqrt(q.shape[-1]) * _causal(q, k)
    return scores, scores.softmax(-1), scores.softmax(-1) @ v


def past_hidden(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    offset = k.shape[-2] - q.shape[-2]
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(offset)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return scores, scores.softmax(-1), scores.softmax(-1) @ v


def scores_from_before_the_mask(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    return (q @ k.mT / math.sqrt(q.shape[-1]), *_steps(q, k, v)[1:])


def mask_added_in_float32(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    bias = torch.zeros(q.shape[-2], k.shape[-2]).masked_fill(~_causal(q, k), -math.inf)
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias
    return scores, scores.softmax(-1), scores.softmax(-1) @ v


def scores_without_scale(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    return ((q @ k.mT).masked_fill(~_causal(q, k), -math.inf), *_steps(q, k, v)[1:])


def written_for_one_batch_axis(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).masked_fill(~_causal(q, k), -math.inf)
    return scores, scores.softmax(-1), scores.softmax(-1) @ v


def weights_for_the_output(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores, weights, _ = _steps(q, k, v)
    return scores, weights, weights


def maximum_over_the_future_too(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    powers = torch.exp(scores - scores.amax(-1, keepdim=True)) * _causal(q, k)
    weights = powers / powers.sum(-1, keepdim=True)
    return scores.masked_fill(~_causal(q, k), -math.inf), weights, weights @ v


def one_maximum_in_the_causal_softmax(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~_causal(q, k), -math.inf)
    powers = torch.exp(scores - scores.max())
    weights = powers / powers.sum(-1, keepdim=True)
    return scores, weights, weights @ v


def clamped_causal_scores(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~_causal(q, k), -math.inf)
    weights = torch.exp(scores.clamp(-80, 80)) * _causal(q, k)
    weights = weights / weights.sum(-1, keepdim=True)
    return scores, weights, weights @ v


def _one_query_near_0(generator: Generator) -> Tensor:
    """Queries (6, 16) near 5.5. The third is near 0: its scores are small, hidden ones too, and only another row's maximum lies far above."""
    queries = 5.5 + 0.3 * torch.randn(6, 16, generator=generator)
    queries[2] *= 0.05
    return queries


def _the_last_keys_ahead(generator: Generator) -> Tensor:
    """Keys (6, 16) that lie opposite to queries near 5.5; the last two lie with them, the last one by about 95 further in score: in float32
    e^−95 is not yet 0, but e^95 is infinite."""
    middle, spread = torch.tensor([-5.5] * 4 + [1.16, 5.5])[:, None], torch.tensor([1.0] * 4 + [0.1] * 2)[:, None]
    return middle + spread * torch.randn(6, 16, generator=generator)


causal_attention = Check(
    reference=masked_attention.causal_attention,
    names=("scores", "weights", "output"),
    cases=[
        random_case(n=5, m=5, d=4, d_v=3),
        random_case(n=3, m=7, d=5, d_v=2, label="3 queries, the last of 7 positions"),
        random_case(batch=(2, 3), n=4, m=4, d=6, d_v=5, label="two batch axes"),
        explicit_case(
            "scores near −120, those of the last two keys near 25 and 120; all near 0 for query 2",
            RandomArg(_one_query_near_0),
            RandomArg(_the_last_keys_ahead),
            normal(6, 4),
        ),
        random_case(batch=(2,), n=4, m=6, d=3, d_v=5, dtype=torch.float64, label="float64"),
        random_case(n=4, m=5, d=6, d_v=3, dtype=torch.bfloat16, label="bfloat16"),
        random_case(n=5, m=6, d=4, d_v=3, dtype=torch.float16, label="float16"),
        random_case(batch=(3,), n=1, m=1, d=2, d_v=1, label="one token, a batch of 3"),
        on_levels(random_case(n=4, m=6, d=3, d_v=2, dtype=torch.float64), -800.0),
        on_levels(random_case(n=5, m=5, d=3, d_v=2, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(masked_attention.causal_attention),
        in_single_precision(masked_attention.causal_attention),
        no_mask=without_mask,
        own_token_hidden=lambda q, k, v: _steps(q, k, v, k.shape[-2] - q.shape[-2] - 1),
        one_token_future=lambda q, k, v: _steps(q, k, v, k.shape[-2] - q.shape[-2] + 1),
        past_hidden_instead_future=past_hidden,
        aligned_wrong_corner=lambda q, k, v: _steps(q, k, v, 0),
        masked_after_softmax=mask_on_the_weights,
        hidden_scores_set_0=zeros_for_hidden_scores,
        no_scale=lambda q, k, v: _steps(q, k, v, scale=1.0),
        softmax_over_queries=lambda q, k, v: _steps(q, k, v, axis=-2),
        scores_from_before_mask=scores_from_before_the_mask,
        scores_from_before_scale=scores_without_scale,
        mask_float32_added_half_precision=Wrong(mask_added_in_float32, raises="RuntimeError"),
        scaled_by_width_values=lambda q, k, v: _steps(q, k, v, scale=v.shape[-1] ** -0.5),
        scaled_by_d_instead_root_d=lambda q, k, v: _steps(q, k, v, scale=1 / q.shape[-1]),
        maximum_taken_over_future_too=maximum_over_the_future_too,
        one_maximum_all_rows=one_maximum_in_the_causal_softmax,
        scores_clamped_range=clamped_causal_scores,
        written_one_batch_axis=Wrong(written_for_one_batch_axis, raises="IndexError RuntimeError"),
        softmax_along_axis_1=lambda q, k, v: _steps(q, k, v, axis=1),
        no_axis_given_softmax=lambda q, k, v: _steps(q, k, v, axis=_axis_guessed(q)),
        weights_place_output=weights_for_the_output,
    ),
    forbids=NO_FUSED_ATTENTION,
)
