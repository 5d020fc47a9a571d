"""The check of `causal_attention`: scores, weights and output, where the n queries are the last of m positions."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision, power_before_division
from helpers.engine.answers.mask import Mask
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, Sizes, below_all
from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..masked_attention import causal_attention as reference
from .masks import _ones, axis_guessed

__all__ = ["causal_attention"]


@dataclass(frozen=True)
class Causal(Attention):
    """The steps of attention, with a mask made on the way."""

    visible: Callable = lambda n, m: _ones(n, m).tril(m - n)
    shown: Callable = lambda products, scores, hidden: hidden  # as the scores that went into the softmax


@composable
def causal(**changed: Callable) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """The answer with these steps changed. The d of its sizes is the width of the values."""
    steps = Causal(**changed)

    def answer(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
        mask, sizes = steps.visible(q.shape[-2], k.shape[-2]), Sizes(q.shape[-1], v.shape[-1])
        products = steps.score(q, k)
        scores = steps.scale(products, sizes)
        hidden = steps.hide(scores, mask)
        weights = steps.normalise(hidden, mask, scores)
        return steps.shown(products, scores, hidden), weights, steps.mix(weights, v, sizes)

    return answer


def clamped(hidden, mask, scores) -> Tensor:
    return below_all(scores.clamp(-80, 80), mask).softmax(-1)


def added_in_float32(scores, mask) -> Tensor:
    return scores + torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


def scores_before_scale(products, scores, hidden) -> Tensor:
    return products.masked_fill(hidden.isinf(), -math.inf)


def _one_query_near_0(generator: Generator) -> Tensor:
    """Queries (6, 16) near 5.5. The third is near 0: its scores are small, hidden ones too, and only another row's
    maximum lies far above."""
    queries = 5.5 + 0.3 * torch.randn(6, 16, generator=generator)
    queries[2] *= 0.05
    return queries


def _the_last_keys_ahead(generator: Generator) -> Tensor:
    """Keys (6, 16) that lie opposite to queries near 5.5; the last two lie with them, the last one by about 95 further
    in score: in float32 e^−95 is not yet 0, but e^95 is infinite."""
    middle, spread = torch.tensor([-5.5] * 4 + [1.16, 5.5])[:, None], torch.tensor([1.0] * 4 + [0.1] * 2)[:, None]
    return middle + spread * torch.randn(6, 16, generator=generator)


causal_attention = Check(
    reference=reference,
    names=("scores", "weights", "output"),
    cases=[
        random_case(n=5, m=5, d=4, d_v=3),
        random_case(n=3, m=7, d=5, d_v=2, label="3 queries, the last of 7 positions"),
        random_case(batch=(2, 3), n=4, m=4, d=6, d_v=5, label="two batch axes"),
        explicit_case(
            "scores near −120, those of the last two keys near 25 and 120; all near 0 for query 2",
            *(RandomArg(_one_query_near_0), RandomArg(_the_last_keys_ahead), normal(6, 4)),
        ),
        random_case(batch=(2,), n=4, m=6, d=3, d_v=5, dtype=torch.float64, label="float64"),
        random_case(n=4, m=5, d=6, d_v=3, scale=0.5, dtype=torch.bfloat16, label="bfloat16"),
        random_case(n=5, m=6, d=4, d_v=3, dtype=torch.float16, label="float16"),
        random_case(batch=(3,), n=1, m=1, d=2, d_v=1, label="one token, a batch of 3"),
        on_levels(random_case(n=4, m=6, d=3, d_v=2, dtype=torch.float64), -800.0),
        on_levels(random_case(n=5, m=5, d=3, d_v=2, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(reference),
        in_single_precision(reference),
        *slips(causal, Scale.none, Scale.by_width, Scale.by_root_of_token_width),
        *slips(causal, Mask.ignored, Mask.inverted, Mask.after_softmax, Mask.almost_zero, Mask.plus_infinity),
        *slips(causal, Softmax.over_queries, Softmax.maximum_of_hidden, Softmax.one_maximum),
        own_hidden=causal(visible=lambda n, m: _ones(n, m).tril(m - n - 1)),
        one_too_many=causal(visible=lambda n, m: _ones(n, m).tril(m - n + 1)),
        past_hidden=causal(visible=lambda n, m: _ones(n, m).triu(m - n)),
        wrong_corner=causal(visible=lambda n, m: _ones(n, m).tril()),
        scores_before_mask=causal(shown=lambda products, scores, hidden: scores),
        scores_before_scale=causal(shown=scores_before_scale),
        added_in_float32=Wrong(causal(hide=added_in_float32), raises="RuntimeError"),
        clamped=causal(normalise=clamped),
        one_batch_axis=Wrong(causal(score=lambda q, k: q @ k.transpose(1, 2)), raises="IndexError RuntimeError"),
        axis_1=causal(normalise=lambda hidden, mask, scores: hidden.softmax(1)),
        axis_guessed=causal(normalise=lambda hidden, mask, scores: hidden.softmax(axis_guessed(hidden))),
        weights_as_output=causal(mix=lambda weights, v, sizes: weights),
    ),
    forbids=NO_FUSED_ATTENTION,
)
