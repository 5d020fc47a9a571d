"""The check of `mask_then_renormalise`: a softmax over all keys, those allowed divided by what is left of them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.answers.common_misconceptions import in_single_precision, visible_mask
from helpers.engine.cases import explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..masked_attention import mask_then_renormalise as reference
from ..masked_attention import masked_softmax
from .masks import axis_guessed

__all__ = ["mask_then_renormalise"]


TOWERS = torch.tensor([[1.0, 1000.0, 0.5], [0.0, 1.0, 2.0]])
TOWERS_MASK = torch.tensor([[True, False, True], [True, True, False]])
HIGH = torch.tensor([[1.0, 40.0, 0.5, 2.0], [0.0, 1.0, 2.0, 45.0]])
HIGH_MASK = torch.tensor([[True, False, True, True], [True, True, True, False]])


def _kept(scores, mask) -> Tensor:
    return scores.softmax(-1) * mask


def _lost(scores, mask) -> Tensor:
    return _kept(scores, ~mask).sum(-1)


def _shares(kept, axis=-1) -> Tensor:
    return kept / kept.sum(axis, keepdim=True)


@composable
def pair(
    weights: Callable = lambda scores, mask: _shares(_kept(scores, mask)), lost: Callable = _lost
) -> Callable[..., tuple[Tensor, Tensor]]:
    """The answer with other weights or another lost share."""
    return lambda scores, mask: (weights(scores, mask), lost(scores, mask))


def of_softmax(softmax: Callable) -> Callable[..., tuple[Tensor, Tensor]]:
    """The answer with another softmax."""

    def answer(scores, mask) -> tuple[Tensor, Tensor]:
        weights = softmax(scores)
        return _shares(weights * mask), (weights * ~mask).sum(-1)

    return answer


def with_constant(scores, mask) -> Tensor:
    kept = _kept(scores, mask)
    return kept / (kept.sum(-1, keepdim=True) + 1e-6)


def _nan_as_0(output) -> tuple[Tensor, Tensor]:
    """Where nothing is left of a row in floating point, 0/0 and a guarded 0 are both as they should be."""
    weights, lost = output
    return weights.nan_to_num(0.0), lost


def _sums_below_1(seen) -> bool:
    """The right proportions, the right loss, and rows that sum to less than 1, the less the less is left of them."""
    weights, lost = seen.output
    kept = seen.args[0].double().softmax(-1) * seen.args[1]
    sums, left = weights.double().sum(-1), kept.sum(-1)
    visible = left > 1e-300
    constant = (left / sums - left)[visible]  # the same in all rows, if one was added
    small = (constant > 0).all() and constant.max() < 1e-2
    return bool(small and constant.max() - constant.min() < 0.05 * constant.max() + 1e-9)


mask_then_renormalise = Check(
    reference=reference,
    view=_nan_as_0,
    names=("weights", "lost share"),
    cases=[
        explicit_case("n = 4, m = 6", normal(4, 6, scale=0.5), visible_mask(4, 6)),
        explicit_case("scores 2×3×4×5, one mask 4×5", normal(2, 3, 4, 5, scale=0.5), visible_mask(4, 5)),
        explicit_case("n = m = 5", normal(5, 5, scale=0.5), visible_mask(5, 5)),
        explicit_case("float64", normal(3, 7, scale=3.0, dtype=torch.float64), visible_mask(3, 7)),
        explicit_case("hidden scores 40 above the rest", HIGH, HIGH_MASK),
        explicit_case("a hidden score 1000 above the rest", TOWERS, TOWERS_MASK),
        explicit_case("nothing hidden", normal(3, 5, scale=0.5), torch.ones(3, 5, dtype=torch.bool)),
        explicit_case("scores near −1000", normal(3, 5, mean=-1000.0), visible_mask(3, 5)),
        explicit_case("one query, m = 3", normal(2, 1, 3, scale=0.5), visible_mask(2, 1, 3)),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference),
        not_renormalised=pair(_kept),
        second_softmax=pair(lambda scores, mask: _kept(scores, mask).softmax(-1)),
        over_queries=pair(lambda scores, mask: _shares(_kept(scores, mask), -2)),
        over_everything=pair(lambda scores, mask: _shares(_kept(scores, mask), (-2, -1))),
        share_kept=pair(lost=lambda scores, mask: 1 - _lost(scores, mask)),
        counted=pair(lost=lambda scores, mask: (~mask).to(scores.dtype).expand(scores.shape).mean(-1)),
        masked_before=pair(masked_softmax),
        hidden_scores_0=pair(lambda scores, mask: (scores * mask).softmax(-1)),
        axis_guessed=of_softmax(lambda scores: scores.softmax(axis_guessed(scores))),
        one_minus_lost=pair(lambda scores, mask: _kept(scores, mask) / (1 - _lost(scores, mask))[..., None]),
        small_constant=Wrong(pair(with_constant), recognise=_sums_below_1),
        f_normalize=pair(lambda scores, mask: F.normalize(_kept(scores, mask), p=1, dim=-1)),
        lost_afterwards=pair(lost=lambda scores, mask: torch.zeros_like(_lost(scores, mask))),
        no_maximum=of_softmax(lambda scores: _shares(torch.exp(scores))),
        lost_with_axis=pair(lost=lambda scores, mask: _lost(scores, mask)[..., None]),
        lost_of_all=pair(lost=lambda scores, mask: _lost(scores, mask).sum()),
    ),
)
