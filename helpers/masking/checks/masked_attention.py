"""Checks of the masked softmax and of attention with a causal mask."""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import (
    CLAMPED,
    NO_FUSED_ATTENTION,
    RAISED,
    in_single_precision,
    power_before_division,
    visible_mask,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.drivers import choice

from .. import masked_attention

__all__ = ["causal_attention", "mask_then_renormalise", "masked_softmax", "what_is_it_for", "why_before_softmax"]


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


def _axis_guessed(scores) -> int:
    """The axis that `F.softmax` takes where none is given."""
    return 0 if scores.dim() in (0, 1, 3) else 1


NO_AXIS_HINT = (
    "Without `dim`, `F.softmax` and `F.log_softmax` guess: axis 0 where a tensor has one or three axes, axis 1 elsewhere (and PyTorch warns). The keys are "
    "the last axis, `dim=-1`."
)


def _along_the_axis_guessed(seen) -> bool:
    scores, mask = seen.args
    axis, fit = _axis_guessed(scores), tolerance(seen.args)
    tried = (scores.masked_fill(~mask, -math.inf), _hidden(scores, mask))
    return any(
        agree(seen.output.nan_to_num(0.0) * mask, (one.softmax(axis) * mask).nan_to_num(0.0), fit) for one in tried
    )


ONE_MAXIMUM = (
    "In a row whose scores all lie far below the largest of all rows every exponential becomes 0, and nothing is left to divide by. Each row has a maximum of its "
    "own: `amax(dim=-1, keepdim=True)`."
)

masked_softmax = Check(
    reference=masked_attention.masked_softmax,
    cases=[
        explicit_case("n = 4, m = 6", normal(4, 6), visible_mask(4, 6)),
        explicit_case("scores 2×3×4×5, one mask for all heads 2×1×4×5", normal(2, 3, 4, 5, scale=2.0), visible_mask(2, 1, 4, 5)),
        explicit_case("allowed scores that are exactly 0", ZEROS, ZEROS_MASK),
        explicit_case("hidden scores that tower above the rest", TOWER, TOWER_MASK),
        explicit_case("scores near −20,000, in one row near −5,000", RandomArg(_rows_far_below), visible_mask(3, 5)),
        explicit_case("a row with nothing allowed", normal(4, 5), visible_mask(4, 5, empty_row=1)),
        explicit_case("float16, scores near −30, a row with nothing allowed", normal(3, 6, mean=-30.0, dtype=torch.float16), visible_mask(3, 6, empty_row=1)),
        explicit_case("no axis for the batch: scores 2×4×3, mask 4×3, a row with nothing allowed", normal(2, 4, 3), visible_mask(4, 3, empty_row=2)),
        explicit_case("one query, one key", normal(3, 1, 1), torch.tensor([[[True]], [[False]], [[True]]])),
        explicit_case("as many queries as keys, a row with nothing allowed", normal(5, 5), visible_mask(5, 5, empty_row=2)),
        explicit_case("gradients, a row with nothing allowed", normal(4, 5, dtype=torch.float64), visible_mask(4, 5, empty_row=1), gradient=True),
        explicit_case("gradients, hidden scores that tower above the rest", 4 * TOWER.double(), TOWER_MASK, gradient=True),
        explicit_case("a hidden score of 60,000, in half precision", HIGHEST.half(), HIGHEST_MASK), explicit_case("hidden scores of a million", torch.where(HIGHEST_MASK, HIGHEST, 1e6), HIGHEST_MASK),
    ],
    misconceptions=[
        Misconception(
            "masked after the softmax", lambda scores, mask: scores.softmax(-1) * mask,
            "The hidden keys get 0, but they had their say in the sum: the rest adds up to less than 1. Hide them before the softmax.",
        ),
        Misconception(
            "scores multiplied by the mask", lambda scores, mask: (scores * mask).softmax(-1),
            "A hidden key with score 0 still gets e^0 = 1, more than a key with a negative score. What must a score be for its exponential to be 0?",
        ),
        Misconception(
            "the mask upside down", lambda scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1),
            "True means may attend. You hid exactly what is allowed: `masked_fill` fills where its mask is True, so it wants `~mask`.",
        ),
        Misconception(
            "NaN in rows with nothing allowed", lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1),
            "A row of −∞ alone has the exponentials 0, 0, … and 0/0 is NaN. Such a row must get weights 0: nothing to see, nothing seen.",
        ),
        Misconception(
            "the mask added as 1 and 0", lambda scores, mask: (scores + mask.to(scores.dtype)).softmax(-1),
            "Adding 1 to what is allowed only makes it e times likelier. To hide a key, −∞ must be added to its score.",
        ),
        Misconception(
            "−10⁹ instead of −∞", lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-1),
            "float16 ends at 65,504, so −10⁹ can't even be stored there. And where all keys are hidden, equal scores of −10⁹ give each 1/m instead of 0.",
            raises="RuntimeError",
        ),
        Misconception(
            "−10⁴ instead of −∞", lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1),
            "That is low, until the allowed scores are lower still. Only −∞ is below every score.",
        ),
        Misconception(
            "−10⁴ instead of −∞, empty rows apart",
            lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0),
            "Your empty rows are right. But −10⁴ is low only until the allowed scores are lower still: then hidden keys win. Only −∞ is below every score.",
        ),
        Misconception(
            "−10⁴ instead of −∞, hidden weights set to 0 afterwards", lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1) * mask,
            "The zeros come too late. −10⁴ is low only until the allowed scores are lower still: then the hidden keys take the whole 1, and "
            "that is thrown away with them. Only −∞ is below every score.",
        ),
        Misconception(
            "−10⁴ added, hidden weights set to 0 afterwards", lambda scores, mask: (scores - 1e4 * ~mask).softmax(-1) * mask,
            "A hidden score may lead by more than 10⁴. Then its key takes the share of the others, and that is thrown away with it. Put −∞ in its place.",
        ),
        Misconception(
            "NaN left in the gradient",
            lambda scores, mask: (scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)).softmax(-1).nan_to_num(0.0),
            "The NaN is wiped off the weights, but it was there, and the backward pass through the sum meets it again: 0 · NaN is NaN. Keep the row "
            "finite before the softmax, and set its weights to 0 afterwards.",
        ),
        Misconception(
            "softmax over the queries", lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-2).nan_to_num(0.0),
            "Each query shares its attention out over the keys: the rows sum to 1. Yours sum to 1 down the columns.",
        ),
        Misconception(
            "no axis given to the softmax", lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(_axis_guessed(scores)).nan_to_num(0.0),
            NO_AXIS_HINT, _along_the_axis_guessed,
        ),
        Misconception(
            "a small constant in the denominator", small_constant_in_the_sum,
            "In float64 it takes digits from every row. In float16 nothing below 3 · 10⁻⁸ is kept: a smaller constant is 0 there, and an empty row is 0/0 again. "
            "Put 1 in place of the sum of an empty row, and add nothing to the others.",
            _a_constant_shows,
        ),
        Misconception(
            "scores of exactly 0 taken for hidden", scores_with_zeros_dropped,
            "After a multiplication by the mask an allowed 0 looks like a hidden one. Ask the mask, not the score.",
        ),
        Misconception(
            "no maximum is subtracted", powers_without_maximum,
            "The exponentials of scores overflow (e^200) or vanish (e^−20000). Subtract the largest allowed score of the row, or let `torch.softmax` do it.",
        ),
        Misconception(
            "the maximum taken over hidden keys too", maximum_over_hidden_keys,
            "If a hidden score is 200 above the rest, all allowed exponentials become e^−200 = 0 in float32. Hide first, then look for the maximum.",
            _nothing_beside_a_tower,
        ),
        Misconception(
            "exponentials of hidden scores too", exponentials_of_hidden_scores,
            "A hidden score may lie far above the allowed ones. Its exponential is infinite then, and ∞ · 0 is NaN: the mask comes too late. Hide the scores first, "
            "then take exponentials.",
            _infinite_beside_a_tower,
        ),
        Misconception("one maximum for all rows", one_maximum_for_all, ONE_MAXIMUM, _far_below_another_row),
        Misconception("visible scores raised by a large number", visible_scores_raised, RAISED, _raised),
        Misconception(
            "scores clamped to a range", clamped_scores,
            "Scores beyond the limit become equal, and so do their weights. Put −∞ where a key is hidden, and let the allowed scores be.",
        ),
        Misconception(
            "rows taken for empty by their first key",
            lambda scores, mask: _hidden(scores, mask | ~mask[..., :1]).softmax(-1).masked_fill(~mask[..., :1], 0.0),
            "You take a row for empty as soon as its key 0 is hidden. It is empty if *all* its keys are: `mask.any(dim=-1, keepdim=True)` asks them all.",
        ),
        Misconception(
            "rows taken for empty only if they are so in all sequences", empty_in_all_sequences,
            "A row may be empty in one sequence of a batch and not in the others, and there yours is still NaN. Ask each row of each sequence: "
            "`mask.any(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "rows with nothing allowed left as they were", lambda scores, mask: _hidden(scores, mask).softmax(-1),
            "You kept such rows finite for the softmax, and that is right. Afterwards their weights must be set to 0: nothing to see, nothing seen.",
        ),
        Misconception(
            "equal shares in rows with nothing allowed", lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1),
            "With one and the same low score for all keys, the softmax gives each of them 1/m. A row with nothing allowed gets 0: set it afterwards.",
        ),
        Misconception(
            "the rows with nothing allowed laid along the keys", rows_found_along_the_wrong_axis,
            "`mask.any(-1)` has one entry for each query, and without `keepdim=True` that row of entries lines up with the keys.",
            raises="RuntimeError",
        ),
        Misconception(
            "a mask of another shape used as an index", mask_as_an_index,
            "Indexing with a boolean tensor doesn't broadcast. `masked_fill` and `torch.where` do; or `expand` the mask to the shape of the scores first.",
            raises="IndexError",
        ),
        Misconception(
            "the result of the softmax changed in place", weights_changed_in_place,
            "The softmax keeps its result for the backward pass. If you write into it, the gradient can't be taken: use `masked_fill` (without `_`) or a product.",
            raises="RuntimeError",
        ),
        Misconception(
            "exponentials of hidden scores thrown away afterwards", exponentials_thrown_away,
            "`torch.where(mask, exp(…), 0)` takes the exponential of hidden scores too. Where that is infinite the weights are right, and the gradient is 0 · ∞. "
            "Hide the scores first, then take exponentials.",
        ),
        Misconception(
            "computed in float32 where the scores are float64", masked_in_float32,
            "float32 keeps 7 of the 16 digits that came in. Leave the dtype as it is.",
            _float32_or_less,
        ),
    ],
)  # fmt: skip


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
    misconceptions=[
        Misconception(
            "not renormalised", lambda scores, mask: (scores.softmax(-1) * mask, _lost(scores, mask)),
            "The hidden shares are gone and no other key has received them: the rows sum to less than 1. Divide each row by what is left of it.",
        ),
        Misconception(
            "a second softmax instead of a division", lambda scores, mask: ((scores.softmax(-1) * mask).softmax(-1), _lost(scores, mask)),
            "The softmax of 0 is not 0, so the hidden keys come back. The weights are positive already: divide them by their sum.",
        ),
        Misconception(
            "renormalised over the queries", lambda scores, mask: (_renormalised(scores, mask, -2), _lost(scores, mask)),
            "Each query has one unit of attention: divide each row by its sum.",
        ),
        Misconception(
            "renormalised over everything", lambda scores, mask: (_renormalised(scores, mask, (-2, -1)), _lost(scores, mask)),
            "Each query has one unit of attention of its own: every row gets its own sum.",
        ),
        Misconception(
            "the share that is kept, not the one that is lost", lambda scores, mask: (_renormalised(scores, mask), 1 - _lost(scores, mask)),
            "The weights are right. The second result is what the mask took away: the shares of the hidden keys, added up.",
        ),
        Misconception(
            "hidden keys counted instead of weighed",
            lambda scores, mask: (_renormalised(scores, mask), (~mask).to(scores.dtype).expand(scores.shape).mean(-1)),
            "The weights are right. How much attention is lost depends on the softmax's shares of the hidden keys, not on their number.",
        ),
        Misconception(
            "masked before the softmax", lambda scores, mask: (masked_attention.masked_softmax(scores, mask), _lost(scores, mask)),
            "That is the good way, 3.3's. Here the other one is to be tried: the softmax over *all* keys first, then the mask. Where a hidden score is 1000 "
            "above the rest, that way must fail, and yours doesn't.",
        ),
        Misconception(
            "no axis given to the softmax", lambda scores, mask: (lambda weights: (
                weights * mask / (weights * mask).sum(-1, keepdim=True), (weights * ~mask).sum(-1)
            ))(scores.softmax(_axis_guessed(scores))),
            NO_AXIS_HINT,
        ),
        in_single_precision(masked_attention.mask_then_renormalise),
        Misconception(
            "what is left taken as 1 − lost", lambda scores, mask: (scores.softmax(-1) * mask / (1 - _lost(scores, mask))[..., None], _lost(scores, mask)),
            "On paper what is left is 1 − lost. In floating point a lost share near 1 leaves 0: add up the weights that are kept.",
        ),
        Misconception(
            "a small constant in the denominator", lambda scores, mask: (_with_constant(scores, mask), _lost(scores, mask)),
            "Where little is left of a row the constant is larger than what is left, and the weights no longer sum to 1. Leave it out.",
            _sums_below_1,
        ),
        Misconception(
            "`F.normalize`, which never divides by less than 10⁻¹²",
            lambda scores, mask: (F.normalize(scores.softmax(-1) * mask, p=1, dim=-1), _lost(scores, mask)),
            "`F.normalize` has a small constant of its own, `eps`. Where less than that is left of a row, its weights don't sum to 1.",
        ),
        Misconception(
            "the lost share measured after it was taken away", lambda scores, mask: (_renormalised(scores, mask), torch.zeros_like(_lost(scores, mask))),
            "Your lost share is 0 everywhere. Was `weights` itself multiplied by the mask, or is another name for it, before you added up the hidden shares?",
        ),
        Misconception(
            "no maximum is subtracted", renormalised_without_maximum,
            "e^1000 is infinite, and ∞/∞ is NaN: the lost share too, which is 1 here. `torch.softmax` subtracts the largest score of each row first.",
        ),
        Misconception(
            "the lost share with an axis of size 1", lambda scores, mask: (_renormalised(scores, mask), _lost(scores, mask)[..., None]),
            "The lost share is one number for each row, (…, n). `keepdim=True` is for the division, not for this sum.",
        ),
        Misconception(
            "the lost share of the whole matrix", lambda scores, mask: (_renormalised(scores, mask), _lost(scores, mask).sum()),
            "Each row loses a share of its own: add up along the keys alone.",
        ),
    ],
)  # fmt: skip


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
        explicit_case("scores near −120, those of the last two keys near 25 and 120; all near 0 for query 2", RandomArg(_one_query_near_0), RandomArg(_the_last_keys_ahead), normal(6, 4)),
        random_case(batch=(2,), n=4, m=6, d=3, d_v=5, dtype=torch.float64, label="float64"),
        random_case(n=4, m=5, d=6, d_v=3, dtype=torch.bfloat16, label="bfloat16"),
        random_case(n=5, m=6, d=4, d_v=3, dtype=torch.float16, label="float16"),
        random_case(batch=(3,), n=1, m=1, d=2, d_v=1, label="one token, a batch of 3"),
        on_levels(random_case(n=4, m=6, d=3, d_v=2, dtype=torch.float64), -800.0), on_levels(random_case(n=5, m=5, d=3, d_v=2, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=[
        Misconception(
            "no mask", without_mask,
            "This is attention as in unit 02: every query sees every key, the future too.",
        ),
        Misconception(
            "its own token hidden", lambda q, k, v: _steps(q, k, v, k.shape[-2] - q.shape[-2] - 1),
            "j < i hides the token itself, and the first query may have nothing left to see: its scores are all −∞, its weights NaN. Allow j ≤ i.",
        ),
        Misconception(
            "one token of the future", lambda q, k, v: _steps(q, k, v, k.shape[-2] - q.shape[-2] + 1),
            "The diagonal is one too high: query i sees key i + 1, which is exactly what it will be asked to predict.",
        ),
        Misconception(
            "the past hidden instead of the future", past_hidden,
            "Row i of the scores is query i. Keep the columns up to i: the lower triangle.",
        ),
        Misconception(
            "aligned to the wrong corner", lambda q, k, v: _steps(q, k, v, 0),
            "The queries are the last n of m positions: the last query sees all m keys. Shift the diagonal by m − n.",
        ),
        Misconception(
            "masked after the softmax", mask_on_the_weights,
            "The rows of your weights sum to less than 1, because the future had its share of the sum. Put the mask on the scores.",
        ),
        Misconception(
            "hidden scores set to 0", zeros_for_hidden_scores,
            "e^0 = 1: a hidden key with score 0 is still in the game. Its score must be −∞.",
        ),
        Misconception(
            "no scale", lambda q, k, v: _steps(q, k, v, scale=1.0),
            "The scores grow with √d (section 2.7). Divide them by √d before the softmax.",
        ),
        Misconception(
            "softmax over the queries", lambda q, k, v: _steps(q, k, v, axis=-2),
            "Each query shares its attention out over the keys. A softmax down the columns also lets later queries change earlier rows: a leak.",
        ),
        Misconception(
            "the scores from before the mask", scores_from_before_the_mask,
            "Weights and output are right. The first result is the scores as they go into the softmax, with −∞ where a key is hidden.",
        ),
        Misconception(
            "the scores from before the scale", scores_without_scale,
            "Weights and output are right. The first result is the scores as they go into the softmax: divided by √d.",
        ),
        Misconception(
            "a mask of float32 added to half precision", mask_added_in_float32,
            "A float32 mask turns half-precision scores into float32, and `weights @ v` then meets two dtypes. Make it with the dtype of the scores, or use `masked_fill`.",
            raises="RuntimeError",
        ),
        Misconception(
            "scaled by the width of the values", lambda q, k, v: _steps(q, k, v, scale=v.shape[-1] ** -0.5),
            "The scores are sums of d terms, and d is the width of queries and keys. The values may have another.",
        ),
        Misconception(
            "scaled by d instead of √d", lambda q, k, v: _steps(q, k, v, scale=1 / q.shape[-1]),
            "The standard deviation of q·k is √d, not d (section 2.7).",
        ),
        Misconception(
            "the maximum taken over the future too", maximum_over_the_future_too,
            "The largest score of a row may be a hidden one. Then all allowed exponentials are 0, and 0/0 is NaN. Hide first, then look for the maximum.",
        ),
        Misconception("one maximum for all rows", one_maximum_in_the_causal_softmax, ONE_MAXIMUM),
        Misconception(
            "scores clamped to a range", clamped_causal_scores, CLAMPED,
        ),
        Misconception(
            "written for one batch axis", written_for_one_batch_axis,
            "`transpose(1, 2)` swaps the last two axes only where there is exactly one batch axis. `*batch` means none, one or several: count from the end, "
            "`transpose(-2, -1)`.",
            raises="IndexError RuntimeError",
        ),
        Misconception(
            "softmax along axis 1", lambda q, k, v: _steps(q, k, v, axis=1),
            "The keys are the *last* axis of the scores. Axis 1 is that only where there is no batch axis. (NaN comes from −∞ all along the wrong axis.)",
        ),
        Misconception("no axis given to the softmax", lambda q, k, v: _steps(q, k, v, axis=_axis_guessed(q)), NO_AXIS_HINT),
        power_before_division(masked_attention.causal_attention),
        in_single_precision(masked_attention.causal_attention),
        Misconception(
            "the weights in place of the output", weights_for_the_output,
            "The third result is weights @ v.",
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- quizzes

why_before_softmax = Check(
    reference=masked_attention.why_before_softmax,
    quiz=True,
    drive=choice,
    cases=[explicit_case("your choice")],
    misconceptions=[
        Misconception(
            "speed", lambda: "a",
            "The softmax runs over all n·m entries either way. (Skipping hidden tiles saves time, in unit 09, but that is not why the mask comes first.)",
        ),
        Misconception(
            "the softmax can't deal with zeros", lambda: "b",
            "It deals with zeros very well, they are scores like any other: and that is the trouble with hidden scores of 0.",
        ),
        Misconception(
            "negative weights", lambda: "d",
            "Weights are never negative, masked before or after. What goes wrong afterwards is their sum.",
        ),
    ],
)  # fmt: skip

what_is_it_for = Check(
    reference=masked_attention.what_is_it_for,
    quiz=True,
    drive=choice,
    cases=[explicit_case("your choice")],
    misconceptions=[
        Misconception(
            "half the work", lambda: "a",
            "That can be a welcome effect, if an implementation skips what is hidden. The plain one computes all n² scores and hides half of them.",
        ),
        Misconception(
            "needed to generate", lambda: "c",
            "While a text is written, the future does not exist yet: there is nothing to hide from the last token. The mask is for training on a finished text.",
        ),
        Misconception(
            "protection from padding", lambda: "d",
            "That is the padding mask's work. The causal mask knows positions only, not which tokens are real.",
        ),
    ],
)  # fmt: skip
