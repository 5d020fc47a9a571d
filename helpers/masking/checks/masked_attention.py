"""Checks of the masked softmax and of attention with a causal mask."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import given, normal, sized
from helpers.engine.check import Check, Misconception
from helpers.engine.driving import choice
from helpers.engine.slips import NO_FUSED_ATTENTION, visible_mask

from .. import masked_attention

__all__ = ["causal_attention", "mask_then_renormalise", "masked_softmax", "what_is_it_for", "why_before_softmax"]


# A hidden score that towers above the others; scores that are exactly 0 and allowed.
TOWER = torch.tensor([[1.0, 200.0, 0.5, -1.0], [300.0, 0.0, 2.0, 250.0], [0.0, 1.0, 2.0, 150.0]])
TOWER_MASK = torch.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, False]])
ZEROS = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 3.0], [-1.0, 0.0, 4.0, 1.0]])
ZEROS_MASK = torch.tensor([[True, True, False, False], [True, True, False, True], [True, True, True, False]])


def scores_with_zeros_dropped(scores, mask) -> Tensor:
    product = scores * mask
    return product.masked_fill(product == 0, -math.inf).softmax(-1)


def powers_without_maximum(scores, mask) -> Tensor:
    powers = torch.exp(scores) * mask
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-6)


def maximum_over_hidden_keys(scores, mask) -> Tensor:
    powers = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-6)


masked_softmax = Check(
    reference=masked_attention.masked_softmax,
    cases=[
        given("n = 4, m = 6", normal(4, 6), visible_mask(4, 6)),
        given("scores 2×3×4×5, one mask for all heads 2×1×4×5", normal(2, 3, 4, 5, scale=2.0), visible_mask(2, 1, 4, 5)),
        given("allowed scores that are exactly 0", ZEROS, ZEROS_MASK),
        given("hidden scores that tower above the rest", TOWER, TOWER_MASK),
        given("all scores near −20 000", normal(3, 5, mean=-20_000.0), visible_mask(3, 5)),
        given("a row with nothing allowed", normal(4, 5), visible_mask(4, 5, empty_row=1)),
        given("float16, a row with nothing allowed", normal(3, 6, dtype=torch.float16), visible_mask(3, 6, empty_row=1)),
        given("gradients, a row with nothing allowed", normal(4, 5, dtype=torch.float64), visible_mask(4, 5, empty_row=1), gradient=True),
    ],
    misconceptions=[
        Misconception(
            "masked after the softmax", lambda scores, mask: scores.softmax(-1) * mask,
            "The hidden keys get 0, but they had their say in the sum: the rest adds up to less than 1. Hide them before the softmax.",
        ),
        Misconception(
            "scores multiplied by the mask", lambda scores, mask: (scores * mask).softmax(-1),
            "A hidden key with score 0 still gets the power e^0 = 1, more than a key with a negative score. What must a score be for its power to be 0?",
        ),
        Misconception(
            "the mask upside down", lambda scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1),
            "True means may attend. You hid exactly what is allowed: `masked_fill` fills where its mask is True, so it wants `~mask`.",
        ),
        Misconception(
            "NaN in rows with nothing allowed", lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1),
            "A row of −∞ alone has the powers 0, 0, … and 0/0 is NaN. Such a row shall get weights 0: nothing to see, nothing seen.",
        ),
        Misconception(
            "the mask added as 1 and 0", lambda scores, mask: (scores + mask.to(scores.dtype)).softmax(-1),
            "Adding 1 to what is allowed only makes it e times likelier. To hide a key, −∞ must be added to its score.",
        ),
        Misconception(
            "−10⁹ instead of −∞", lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-1),
            "float16 ends at 65 504, so −10⁹ can't even be stored there. And where all keys are hidden, equal scores of −10⁹ give each 1/m instead of 0.",
            raises="RuntimeError",
        ),
        Misconception(
            "−10⁴ instead of −∞", lambda scores, mask: scores.masked_fill(~mask, -1e4).softmax(-1),
            "That is low, until the allowed scores are lower still. Only −∞ is below every score.",
        ),
        Misconception(
            "NaN left in the gradient",
            lambda scores, mask: (scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)).softmax(-1).nan_to_num(0.0),
            "The NaN is wiped off the weights, but it was there, and the way back meets it again: 0 · NaN is NaN. Keep the row finite before "
            "the softmax, and set its weights to 0 afterwards.",
        ),
        Misconception(
            "softmax over the queries", lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-2).nan_to_num(0.0),
            "Each query shares its attention out over the keys: the rows sum to 1. Yours sum to 1 down the columns.",
        ),
        Misconception(
            "scores of exactly 0 taken for hidden", scores_with_zeros_dropped,
            "After a multiplication by the mask an allowed 0 looks like a hidden one. Ask the mask, not the score.",
        ),
        Misconception(
            "no maximum is subtracted", powers_without_maximum,
            "Powers of scores overflow (e^200) or vanish (e^−20000). Subtract the largest allowed score of the row, or let `torch.softmax` do it.",
        ),
        Misconception(
            "the maximum taken over hidden keys too", maximum_over_hidden_keys,
            "If a hidden score is 200 above the rest, all allowed powers become e^−200 = 0 in float32. Hide first, then look for the maximum.",
        ),
    ],
)  # fmt: skip


def _renormalised(scores, mask, axis=-1) -> Tensor:
    kept = scores.softmax(-1) * mask
    return kept / kept.sum(axis, keepdim=True)


def _lost(scores, mask) -> Tensor:
    return (scores.softmax(-1) * ~mask).sum(-1)


mask_then_renormalise = Check(
    reference=masked_attention.mask_then_renormalise,
    cases=[
        # Small scores: 1 − lost is a good way too, as long as little is lost.
        given("n = 4, m = 6", normal(4, 6, scale=0.5), visible_mask(4, 6)),
        given("scores 2×3×4×5, one mask 4×5", normal(2, 3, 4, 5, scale=0.5), visible_mask(4, 5)),
        given("n = m = 5", normal(5, 5, scale=0.5), visible_mask(5, 5)),
        given("float64", normal(3, 7, scale=3.0, dtype=torch.float64), visible_mask(3, 7)),
    ],
    misconceptions=[
        Misconception(
            "not renormalised", lambda scores, mask: (scores.softmax(-1) * mask, _lost(scores, mask)),
            "The hidden shares are gone and nobody has got them: the rows sum to less than 1. Divide each row by what is left of it.",
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


causal_attention = Check(
    reference=masked_attention.causal_attention,
    cases=[
        sized(n=5, m=5, d=4, d_v=3),
        sized(n=3, m=7, d=5, d_v=2, label="3 queries, the last of 7 positions"),
        sized(batch=(2, 3), n=4, m=4, d=6, d_v=5, label="two batch axes"),
        sized(n=6, m=6, d=16, d_v=4, scale=8.0, label="large scores"),
        sized(batch=(2,), n=4, m=6, d=3, d_v=5, dtype=torch.float64, label="float64"),
    ],
    misconceptions=[
        Misconception(
            "no mask", without_mask,
            "This is attention as in unit 02: every query sees every key, the future too.",
        ),
        Misconception(
            "its own token hidden", lambda q, k, v: _steps(q, k, v, k.shape[-2] - q.shape[-2] - 1),
            "j < i hides the token itself, and the first query then has nothing to see: NaN. Allow j ≤ i.",
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
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- quizzes

why_before_softmax = Check(
    reference=masked_attention.why_before_softmax,
    quiz=True,
    drive=choice,
    cases=[given("your choice")],
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
    cases=[given("your choice")],
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
