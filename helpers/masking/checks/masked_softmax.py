"""The check of `masked_softmax`."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import visible_mask
from helpers.engine.compare import agree, tolerance
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import masked_attention
from .masked_attention import _axis_guessed

__all__ = ["masked_softmax"]

# A hidden score that towers above the others (in the last row by 89.5: in float32 e^−89.5 is not yet 0, but e^89.5 is infinite); scores
# that are exactly 0 and allowed.
TOWER = torch.tensor([[1.0, 200.0, 0.5, -1.0], [300.0, 0.0, 2.0, 250.0], [0.0, 1.0, 2.0, 90.5]])

TOWER_MASK = torch.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, False]])

HIGHEST = torch.tensor([[1.0, 60_000.0, 0.5, 2.0], [0.0, 1.0, 60_000.0, 0.5]])

HIGHEST_MASK = torch.tensor([[True, False, True, True], [True, True, False, True]])

ZEROS = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 3.0], [-1.0, 0.0, 4.0, 1.0]])

ZEROS_MASK = torch.tensor([[True, True, False, False], [True, True, False, True], [True, True, True, False]])


def _rows_far_below(generator: Generator) -> Tensor:
    """Scores (3, 5): the row in the middle lies above −10,000, the others below."""
    return torch.tensor([[-20_000.0], [-5_000.0], [-20_000.0]]) + torch.randn(3, 5, generator=generator)


def scores_with_zeros_dropped(scores, mask) -> Tensor:
    product = scores * mask
    return product.masked_fill(product == 0, -math.inf).softmax(-1)


def powers_without_maximum(scores, mask) -> Tensor:
    powers = torch.exp(scores) * mask
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-6)


def maximum_over_hidden_keys(scores, mask) -> Tensor:
    powers = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


def exponentials_of_hidden_scores(scores, mask) -> Tensor:
    powers = torch.exp(scores - _finite(scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True))) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


def _off_below(seen, lead) -> bool:
    """Whether only rows are wrong (and some are) whose hidden scores lead by more than `lead(dtype)`, and nothing but 0 or NaN is left there."""
    scores, mask = seen.args
    right = masked_attention.masked_softmax(scores.double(), mask)
    off = ~torch.isclose(seen.output.double(), right, 1e-2, 1e-3).all(-1)
    ahead = scores.double().amax(-1) - scores.double().masked_fill(~mask, -math.inf).amax(-1)
    lost = seen.output.nan_to_num(0.0).abs().amax(-1) < 1e-3
    return bool(off.any() and ((ahead > lead(scores.dtype)) & ahead.isfinite())[off].all() and lost[off].all())


def _vanishing(dtype) -> float:
    """How far a score must lie below another for hardly a digit of its exponential to be left."""
    return -math.log(torch.finfo(dtype).tiny * torch.finfo(dtype).eps) - 4


def _nothing_beside_a_tower(seen) -> bool:
    return _off_below(seen, _vanishing)


def _infinite_beside_a_tower(seen) -> bool:
    """NaN in rows whose hidden scores lead by so much that their exponentials overflow."""
    return _off_below(seen, lambda dtype: math.log(torch.finfo(dtype).max)) and bool(seen.output.isnan().any())


def clamped_scores(scores, mask) -> Tensor:
    powers = torch.exp(scores.clamp(-80, 80)) * mask
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


def one_maximum_for_all(scores, mask) -> Tensor:
    hidden = scores.masked_fill(~mask, -math.inf)
    powers = torch.exp(hidden - hidden.max())
    return powers / powers.sum(-1, keepdim=True).masked_fill(~mask.any(-1, keepdim=True), 1)


def _far_below_another_row(seen) -> bool:
    """Whether only rows are wrong (and some are) whose scores lie far below the largest visible one, and nothing but 0 or NaN is left there."""
    scores, mask = seen.args
    right = masked_attention.masked_softmax(scores.double(), mask)
    off = ~torch.isclose(seen.output.double(), right, 1e-2, 1e-3).all(-1)
    best = scores.double().masked_fill(~mask, -math.inf).amax(-1)
    lost = seen.output.nan_to_num(0.0).abs().amax(-1) < 1e-3
    below = best.isfinite() & (best.max() - best > _vanishing(scores.dtype))  # an empty row lies below nothing
    return bool(off.any() and below[off].all() and lost[off].all())


def visible_scores_raised(scores, mask, by=1e6) -> Tensor:
    return (scores + by * mask).softmax(-1) * mask


def _raised(seen) -> bool:
    """Weights of visible keys that are off as if their scores had been raised by a power of ten, whatever is done with hidden ones afterwards."""
    scores, mask = seen.args
    fit, shown = tolerance(seen.args), seen.output * mask
    if agree(shown, masked_attention.masked_softmax(scores, mask), fit):
        return False
    return any(agree(shown, visible_scores_raised(scores, mask, 10.0**power), fit) for power in range(4, 13))


def masked_in_float32(scores, mask) -> Tensor:
    return masked_attention.masked_softmax(scores.float(), mask).to(scores.dtype)


def _float32_or_less(seen) -> bool:
    scores, mask = seen.args
    gap = (seen.output.double() - masked_attention.masked_softmax(scores, mask)).abs().max().item()
    return scores.dtype == torch.float64 and 1e-12 < gap < 1e-5


def _hidden(scores, mask, value=-math.inf) -> Tensor:
    """Hidden keys at `value`; rows with nothing allowed as they are."""
    return scores.masked_fill(~mask & mask.any(-1, keepdim=True), value)


def rows_found_along_the_wrong_axis(scores, mask) -> Tensor:
    return _hidden(scores, mask).softmax(-1) * mask.any(-1)


def empty_in_all_sequences(scores, mask) -> Tensor:
    empty = ~mask.any(-1).reshape(-1, mask.shape[-2]).any(0)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(empty[:, None], 0.0)


def mask_as_an_index(scores, mask) -> Tensor:
    filled = scores.clone()
    filled[~mask & mask.any(-1, keepdim=True)] = -math.inf
    return filled.softmax(-1) * mask


def exponentials_thrown_away(scores, mask) -> Tensor:
    largest = _hidden(scores, mask).amax(-1, keepdim=True)
    powers = torch.where(mask, torch.exp(scores - largest), 0.0)
    return powers / powers.sum(-1, keepdim=True).clamp_min(0.5)


def weights_changed_in_place(scores, mask) -> Tensor:
    weights = _hidden(scores, mask).softmax(-1)
    weights[~mask.expand(weights.shape)] = 0.0
    return weights


def small_constant_in_the_sum(scores, mask) -> Tensor:
    hidden = scores.masked_fill(~mask, -math.inf)
    powers = torch.exp(hidden - _finite(hidden.amax(-1, keepdim=True)))
    return powers / (powers.sum(-1, keepdim=True) + 1e-9)


def _finite(largest) -> Tensor:
    return largest.masked_fill(largest.isinf(), 0.0)


def _a_constant_shows(seen) -> bool:
    """Rows that all lack as much as one constant in every sum takes. (NaN is no mark: it has other causes too.)"""
    scores, mask = seen.args
    got = seen.output.double()
    empty = ~mask.any(-1).expand(got.shape[:-1])
    allowed = scores.double().masked_fill(~mask, -math.inf)
    sums = (allowed.logsumexp(-1) - allowed.amax(-1)).exp()
    constants = ((1 / got.sum(-1) - 1) * sums)[~empty]
    return bool(constants.min() > 1e-12 and constants.max() < 1e-2 and constants.max() < 1.01 * constants.min())


def _along_the_axis_guessed(seen) -> bool:
    scores, mask = seen.args
    axis, fit = _axis_guessed(scores), tolerance(seen.args)
    tried = (scores.masked_fill(~mask, -math.inf), _hidden(scores, mask))
    return any(
        agree(seen.output.nan_to_num(0.0) * mask, (one.softmax(axis) * mask).nan_to_num(0.0), fit) for one in tried
    )


masked_softmax = Check(
    reference=masked_attention.masked_softmax,
    cases=[
        explicit_case("n = 4, m = 6", normal(4, 6), visible_mask(4, 6)),
        explicit_case(
            "scores 2×3×4×5, one mask for all heads 2×1×4×5", normal(2, 3, 4, 5, scale=2.0), visible_mask(2, 1, 4, 5)
        ),
        explicit_case("allowed scores that are exactly 0", ZEROS, ZEROS_MASK),
        explicit_case("hidden scores that tower above the rest", TOWER, TOWER_MASK),
        explicit_case("scores near −20,000, in one row near −5,000", RandomArg(_rows_far_below), visible_mask(3, 5)),
        explicit_case("a row with nothing allowed", normal(4, 5), visible_mask(4, 5, empty_row=1)),
        explicit_case(
            "float16, scores near −30, a row with nothing allowed",
            normal(3, 6, mean=-30.0, dtype=torch.float16),
            visible_mask(3, 6, empty_row=1),
        ),
        explicit_case(
            "no axis for the batch: scores 2×4×3, mask 4×3, a row with nothing allowed",
            normal(2, 4, 3),
            visible_mask(4, 3, empty_row=2),
        ),
        explicit_case("one query, one key", normal(3, 1, 1), torch.tensor([[[True]], [[False]], [[True]]])),
        explicit_case(
            "as many queries as keys, a row with nothing allowed", normal(5, 5), visible_mask(5, 5, empty_row=2)
        ),
        explicit_case(
            "gradients, a row with nothing allowed",
            normal(4, 5, dtype=torch.float64),
            visible_mask(4, 5, empty_row=1),
            gradient=True,
        ),
        explicit_case(
            "gradients, hidden scores that tower above the rest", 4 * TOWER.double(), TOWER_MASK, gradient=True
        ),
        explicit_case("a hidden score of 60,000, in half precision", HIGHEST.half(), HIGHEST_MASK),
        explicit_case("hidden scores of a million", torch.where(HIGHEST_MASK, HIGHEST, 1e6), HIGHEST_MASK),
    ],
    misconceptions=wrong_answers(
        __file__,
        masked_after_softmax=lambda scores, mask: scores.softmax(-1) * mask,
        scores_multiplied_by_mask=lambda scores, mask: (scores * mask).softmax(-1),
        mask_upside_down=lambda scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1),
        nan_rows_with_nothing_allowed=lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1),
        mask_added_as_1_0=lambda scores, mask: (scores + mask.to(scores.dtype)).softmax(-1),
        minus_109_instead_minus=Wrong(
            lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-1), raises="RuntimeError"
        ),
        minus_104_instead_minus=lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1),
        minus_104_instead_minus_empty_rows=lambda scores, mask: (
            scores.masked_fill(~mask, -1e4).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0)
        ),
        minus_104_instead_minus_hidden_weights=lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1) * mask,
        minus_104_added_hidden_weights_set_0=lambda scores, mask: (scores - 1e4 * ~mask).softmax(-1) * mask,
        nan_left_gradient=lambda scores, mask: (
            (scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)).softmax(-1).nan_to_num(0.0)
        ),
        softmax_over_queries=lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-2).nan_to_num(0.0),
        no_axis_given_softmax=Wrong(
            lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(_axis_guessed(scores)).nan_to_num(0.0),
            recognise=_along_the_axis_guessed,
        ),
        small_constant_denominator=Wrong(small_constant_in_the_sum, recognise=_a_constant_shows),
        scores_exactly_0_taken_hidden=scores_with_zeros_dropped,
        no_maximum_subtracted=powers_without_maximum,
        maximum_taken_over_hidden_keys_too=Wrong(maximum_over_hidden_keys, recognise=_nothing_beside_a_tower),
        exponentials_hidden_scores_too=Wrong(exponentials_of_hidden_scores, recognise=_infinite_beside_a_tower),
        one_maximum_all_rows=Wrong(one_maximum_for_all, recognise=_far_below_another_row),
        visible_scores_raised_by_large_number=Wrong(visible_scores_raised, recognise=_raised),
        scores_clamped_range=clamped_scores,
        rows_taken_empty_by_their_first_key=lambda scores, mask: (
            _hidden(scores, mask | ~mask[..., :1]).softmax(-1).masked_fill(~mask[..., :1], 0.0)
        ),
        rows_taken_empty_only_if_they_so_all=empty_in_all_sequences,
        rows_with_nothing_allowed_left_as_they=lambda scores, mask: _hidden(scores, mask).softmax(-1),
        equal_shares_rows_with_nothing_allowed=lambda scores, mask: scores.masked_fill(
            ~mask, torch.finfo(scores.dtype).min
        ).softmax(-1),
        rows_with_nothing_allowed_laid_along=Wrong(rows_found_along_the_wrong_axis, raises="RuntimeError"),
        mask_another_shape_used_as_index=Wrong(mask_as_an_index, raises="IndexError"),
        result_softmax_changed_place=Wrong(weights_changed_in_place, raises="RuntimeError"),
        exponentials_hidden_scores_thrown_away=exponentials_thrown_away,
        computed_float32_where_scores_float64=Wrong(masked_in_float32, recognise=_float32_or_less),
    ),
)
