"""The check of `mask_then_renormalise`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision, visible_mask
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import masked_attention
from .masks import axis_guessed

__all__ = ["mask_then_renormalise"]


def _renormalised(scores, mask, axis=-1) -> Tensor:
    kept = scores.softmax(-1) * mask
    return kept / kept.sum(axis, keepdim=True)


def _nan_as_0(output) -> tuple[Tensor, Tensor]:
    """Where nothing is left of a row in floating point, 0/0 and a guarded 0 are both as they should be."""
    weights, lost = output
    return weights.nan_to_num(0.0), lost


TOWERS = torch.tensor([[1.0, 1000.0, 0.5], [0.0, 1.0, 2.0]])

TOWERS_MASK = torch.tensor([[True, False, True], [True, True, False]])

HIGH = torch.tensor([[1.0, 40.0, 0.5, 2.0], [0.0, 1.0, 2.0, 45.0]])

HIGH_MASK = torch.tensor([[True, False, True, True], [True, True, True, False]])


def _lost(scores, mask) -> Tensor:
    return (scores.softmax(-1) * ~mask).sum(-1)


def renormalised_without_maximum(scores, mask) -> tuple[Tensor, Tensor]:
    powers = torch.exp(scores)
    weights = powers / powers.sum(-1, keepdim=True)
    kept = weights * mask
    return kept / kept.sum(-1, keepdim=True), (weights * ~mask).sum(-1)


def _with_constant(scores, mask) -> Tensor:
    kept = scores.softmax(-1) * mask
    return kept / (kept.sum(-1, keepdim=True) + 1e-6)


def _sums_below_1(seen) -> bool:
    """The right proportions, the right loss, and rows that sum to less than 1, the less the less is left of them."""
    weights, lost = seen.output
    kept = seen.args[0].double().softmax(-1) * seen.args[1]
    sums, left = weights.double().sum(-1), kept.sum(-1)
    visible = left > 1e-300
    constant = (left / sums - left)[visible]  # the same in all rows, if one was added
    return bool(
        (constant > 0).all()
        and constant.max() < 1e-2
        and (constant.max() - constant.min()) < 0.05 * constant.max() + 1e-9
    )


mask_then_renormalise = Check(
    reference=masked_attention.mask_then_renormalise,
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
        in_single_precision(masked_attention.mask_then_renormalise),
        not_renormalised=lambda scores, mask: (scores.softmax(-1) * mask, _lost(scores, mask)),
        second_softmax_instead_division=lambda scores, mask: (
            (scores.softmax(-1) * mask).softmax(-1),
            _lost(scores, mask),
        ),
        renormalised_over_queries=lambda scores, mask: (_renormalised(scores, mask, -2), _lost(scores, mask)),
        renormalised_over_everything=lambda scores, mask: (_renormalised(scores, mask, (-2, -1)), _lost(scores, mask)),
        share_that_kept_not_one_that_lost=lambda scores, mask: (_renormalised(scores, mask), 1 - _lost(scores, mask)),
        hidden_keys_counted_instead_weighed=lambda scores, mask: (
            _renormalised(scores, mask),
            (~mask).to(scores.dtype).expand(scores.shape).mean(-1),
        ),
        masked_before_softmax=lambda scores, mask: (masked_attention.masked_softmax(scores, mask), _lost(scores, mask)),
        no_axis_given_softmax=lambda scores, mask: (
            lambda weights: (weights * mask / (weights * mask).sum(-1, keepdim=True), (weights * ~mask).sum(-1))
        )(scores.softmax(axis_guessed(scores))),
        what_left_taken_as_1_minus_lost=lambda scores, mask: (
            scores.softmax(-1) * mask / (1 - _lost(scores, mask))[..., None],
            _lost(scores, mask),
        ),
        small_constant_denominator=Wrong(
            lambda scores, mask: (_with_constant(scores, mask), _lost(scores, mask)), recognise=_sums_below_1
        ),
        f_normalize_which_never_divides_by_less=lambda scores, mask: (
            F.normalize(scores.softmax(-1) * mask, p=1, dim=-1),
            _lost(scores, mask),
        ),
        lost_share_measured_after_it_was_taken=lambda scores, mask: (
            _renormalised(scores, mask),
            torch.zeros_like(_lost(scores, mask)),
        ),
        no_maximum_subtracted=renormalised_without_maximum,
        lost_share_with_axis_size_1=lambda scores, mask: (_renormalised(scores, mask), _lost(scores, mask)[..., None]),
        lost_share_whole_matrix=lambda scores, mask: (_renormalised(scores, mask), _lost(scores, mask).sum()),
    ),
)
