"""The check of `masked_softmax`: hidden keys have weight 0, and so has a row with nothing allowed."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import visible_mask
from helpers.engine.answers.steps import below_all
from helpers.engine.cases import RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.compare import agree, tolerance
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..masked_attention import masked_softmax as reference
from .masks import axis_guessed

__all__ = ["masked_softmax"]

# A hidden score that towers above the others (in the last row by 89.5: in float32 e^−89.5 is not yet 0, but e^89.5 is
# infinite); scores that are exactly 0 and allowed.
TOWER = torch.tensor([[1.0, 200.0, 0.5, -1.0], [300.0, 0.0, 2.0, 250.0], [0.0, 1.0, 2.0, 90.5]])
TOWER_MASK = torch.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, False]])
HIGHEST = torch.tensor([[1.0, 60_000.0, 0.5, 2.0], [0.0, 1.0, 60_000.0, 0.5]])
HIGHEST_MASK = torch.tensor([[True, False, True, True], [True, True, False, True]])
ZEROS = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 3.0], [-1.0, 0.0, 4.0, 1.0]])
ZEROS_MASK = torch.tensor([[True, True, False, False], [True, True, False, True], [True, True, True, False]])


def _rows_far_below(generator: Generator) -> Tensor:
    """Scores (3, 5): the row in the middle lies above −10,000, the others below."""
    return torch.tensor([[-20_000.0], [-5_000.0], [-20_000.0]]) + torch.randn(3, 5, generator=generator)


# -------------------------------------------------------------------------------------------------------- answers


def _hidden(scores, mask, value=-math.inf) -> Tensor:
    """Hidden keys at `value`; rows with nothing allowed as they are."""
    return scores.masked_fill(~mask & mask.any(-1, keepdim=True), value)


def _largest(scores, mask) -> Tensor:
    """Of the allowed scores of each row; 0 where there are none."""
    largest = below_all(scores, mask).amax(-1, keepdim=True)
    return largest.masked_fill(largest.isinf(), 0.0)


def _shares(powers: Callable) -> Callable[..., Tensor]:
    """The shares of `powers(scores, mask)`, those of hidden keys taken away; 0 where nothing is left."""

    def answer(scores, mask) -> Tensor:
        kept = powers(scores, mask) * mask
        total = kept.sum(-1, keepdim=True)
        return kept / total.masked_fill(total == 0, 1)

    return answer


@composable
def weights(
    hide: Callable = below_all, axis: int = -1, rest: Callable = lambda shares: shares
) -> Callable[..., Tensor]:
    """A softmax of scores whose hidden ones were changed; rest: what becomes of NaN."""
    return lambda scores, mask: rest(hide(scores, mask).softmax(axis))


def no_nan(shares) -> Tensor:
    return shares.nan_to_num(0.0)


def zeros_hidden(scores, mask) -> Tensor:
    product = scores * mask
    return product.masked_fill(product == 0, -math.inf).softmax(-1)


def no_maximum(scores, mask) -> Tensor:
    powers = torch.exp(scores) * mask
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-6)


def one_maximum(scores, mask) -> Tensor:
    hidden = below_all(scores, mask)
    powers = torch.exp(hidden - hidden.max())
    return powers / powers.sum(-1, keepdim=True).masked_fill(~mask.any(-1, keepdim=True), 1)


def visible_raised(scores, mask, by=1e6) -> Tensor:
    return (scores + by * mask).softmax(-1) * mask


def empty_in_all(scores, mask) -> Tensor:
    empty = ~mask.any(-1).reshape(-1, mask.shape[-2]).any(0)
    return below_all(scores, mask).softmax(-1).masked_fill(empty[:, None], 0.0)


def mask_as_index(scores, mask) -> Tensor:
    filled = scores.clone()
    filled[~mask & mask.any(-1, keepdim=True)] = -math.inf
    return filled.softmax(-1) * mask


def powers_thrown_away(scores, mask) -> Tensor:
    powers = torch.where(mask, torch.exp(scores - _hidden(scores, mask).amax(-1, keepdim=True)), 0.0)
    return powers / powers.sum(-1, keepdim=True).clamp_min(0.5)


def in_place(scores, mask) -> Tensor:
    weights = _hidden(scores, mask).softmax(-1)
    weights[~mask.expand(weights.shape)] = 0.0
    return weights


def small_constant(scores, mask) -> Tensor:
    powers = torch.exp(below_all(scores, mask) - _largest(scores, mask))
    return powers / (powers.sum(-1, keepdim=True) + 1e-8)


# ---------------------------------------------------------------------------------------------------------- marks


def _vanishing(dtype) -> float:
    """How far a score must lie below another for hardly a digit of its exponential to be left."""
    return -math.log(torch.finfo(dtype).tiny * torch.finfo(dtype).eps) - 4


def _lost_below(top: Callable, lead: Callable = _vanishing) -> Callable:
    """A mark: only rows are wrong (and some are) whose allowed scores lie by more than `lead(dtype)` below
    `top(scores, best of each row)`, and nothing but 0 or NaN is left there."""

    def shows(seen) -> bool:
        scores, mask = seen.args
        right = reference(scores.double(), mask)
        off = ~torch.isclose(seen.output.double(), right, 1e-2, 1e-3).all(-1)
        best = below_all(scores.double(), mask).amax(-1)
        ahead = top(scores.double(), best) - best
        lost = seen.output.nan_to_num(0.0).abs().amax(-1) < 1e-3
        below = (ahead > lead(scores.dtype)) & ahead.isfinite()  # an empty row lies below nothing
        return bool(off.any() and below[off].all() and lost[off].all())

    return shows


_beside_a_tower = _lost_below(lambda scores, best: scores.amax(-1))
_below_another_row = _lost_below(lambda scores, best: best.max())


def _infinite(seen) -> bool:
    """NaN in rows whose hidden scores lead by so much that their exponentials overflow."""
    lost = _lost_below(lambda scores, best: scores.amax(-1), lambda dtype: math.log(torch.finfo(dtype).max))
    return lost(seen) and bool(seen.output.isnan().any())


def _raised(seen) -> bool:
    """Weights of visible keys that are off as if their scores had been raised by a power of ten, whatever is done with
    hidden ones afterwards."""
    scores, mask = seen.args
    fit, shown = tolerance(seen.args), seen.output * mask
    if agree(shown, reference(scores, mask), fit):
        return False
    return any(agree(shown, visible_raised(scores, mask, 10.0**power), fit) for power in range(4, 13))


def _float32_or_less(seen) -> bool:
    gap = (seen.output.double() - reference(*seen.args)).abs().max().item()
    return seen.args[0].dtype == torch.float64 and 1e-12 < gap < 1e-5


def _a_constant_shows(seen) -> bool:
    """Rows that all lack as much as one constant in every sum takes. (NaN is no mark: it has other causes too.)"""
    scores, mask = seen.args
    got = seen.output.double()
    allowed = below_all(scores.double(), mask)
    sums = (allowed.logsumexp(-1) - allowed.amax(-1)).exp()
    constants = ((1 / got.sum(-1) - 1) * sums)[mask.any(-1).expand(got.shape[:-1])]
    return bool(constants.min() > 1e-12 and constants.max() < 1e-2 and constants.max() < 1.01 * constants.min())


def _along_the_axis_guessed(seen) -> bool:
    scores, mask = seen.args
    axis, got = axis_guessed(scores), seen.output.nan_to_num(0.0) * mask
    tried = (one.softmax(axis) * mask for one in (below_all(scores, mask), _hidden(scores, mask)))
    return any(agree(got, one.nan_to_num(0.0), tolerance(seen.args)) for one in tried)


masked_softmax = Check(
    reference=reference,
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
        after_softmax=lambda scores, mask: scores.softmax(-1) * mask,
        multiplied=weights(hide=lambda scores, mask: scores * mask),
        upside_down=weights(hide=lambda scores, mask: below_all(scores, ~mask)),
        nan_in_empty_rows=weights(),
        added_1_and_0=weights(hide=lambda scores, mask: scores + mask.to(scores.dtype)),
        minus_1e9=Wrong(weights(hide=lambda scores, mask: scores.masked_fill(~mask, -1e9)), raises="RuntimeError"),
        minus_1e4=weights(hide=lambda scores, mask: scores.masked_fill(~mask, -1e4)),
        minus_1e4_but_empty=lambda scores, mask: (
            scores.masked_fill(~mask, -1e4).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0)
        ),
        minus_1e4_then_0=lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1) * mask,
        minus_1e4_added=lambda scores, mask: (scores - 1e4 * ~mask).softmax(-1) * mask,
        nan_in_gradient=lambda scores, mask: (
            (scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)).softmax(-1).nan_to_num(0.0)
        ),
        over_queries=Wrong(weights(axis=-2), variants=(weights(axis=-2), weights(axis=-2, rest=no_nan))),
        axis_guessed=Wrong(
            lambda scores, mask: below_all(scores, mask).softmax(axis_guessed(scores)).nan_to_num(0.0),
            recognise=_along_the_axis_guessed,
        ),
        small_constant=Wrong(small_constant, recognise=_a_constant_shows),
        zeros_hidden=zeros_hidden,
        no_maximum=no_maximum,
        maximum_of_hidden=Wrong(
            _shares(lambda scores, mask: torch.exp(scores - scores.amax(-1, keepdim=True))), recognise=_beside_a_tower
        ),
        powers_of_hidden=Wrong(
            _shares(lambda scores, mask: torch.exp(scores - _largest(scores, mask))), recognise=_infinite
        ),
        one_maximum=Wrong(one_maximum, recognise=_below_another_row),
        visible_raised=Wrong(visible_raised, recognise=_raised),
        clamped=_shares(lambda scores, mask: torch.exp(scores.clamp(-80, 80))),
        empty_by_first_key=lambda scores, mask: (
            _hidden(scores, mask | ~mask[..., :1]).softmax(-1).masked_fill(~mask[..., :1], 0.0)
        ),
        empty_in_all=empty_in_all,
        empty_rows_left=lambda scores, mask: _hidden(scores, mask).softmax(-1),
        equal_shares=lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1),
        empty_rows_along_keys=Wrong(
            lambda scores, mask: _hidden(scores, mask).softmax(-1) * mask.any(-1), raises="RuntimeError"
        ),
        mask_as_index=Wrong(mask_as_index, raises="IndexError"),
        in_place=Wrong(in_place, raises="RuntimeError"),
        powers_thrown_away=powers_thrown_away,
        in_float32=Wrong(
            lambda scores, mask: reference(scores.float(), mask).to(scores.dtype), recognise=_float32_or_less
        ),
    ),
)
