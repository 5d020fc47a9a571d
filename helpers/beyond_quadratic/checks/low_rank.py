"""Checks of attention over a summary of the keys and values."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, normal, random_case, whole
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import (
    attention,
    in_single_precision,
    power_before_division,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.observe import Observation

from .. import low_rank
from .sparse import (
    AXIS_HINT,
    LARGE_HINT,
    MAXIMUM_HINT,
    VALUES_HINT,
    all_pairs_scored,
    one_maximum,
    scaled_by_values,
    square_made,
)

__all__ = ["low_rank_attention"]


def features_projected(q, k, v, e, f):
    return attention(q @ e.mT, k @ e.mT, v @ f.mT)


def scores_projected(q, k, v, e, f) -> Tensor:
    return ((q @ k.mT) @ e.mT / math.sqrt(q.shape[-1])).softmax(-1) @ (f @ v)


def values_projected_last(q, k, v, e, f) -> Tensor:
    return (q @ (e @ k).mT / math.sqrt(q.shape[-1])).softmax(-1) @ f @ v


def both_projected_late(q, k, v, e, f) -> Tensor:
    return ((q @ k.mT) @ e.mT / math.sqrt(q.shape[-1])).softmax(-1) @ f @ v


def _exact_work(scores: bool, values: bool) -> Callable:
    """A mark: an n × m matrix, and the FLOPs of projecting scores (or keys), and of projecting values late (or at once)."""

    def shown(seen: Observation) -> bool:
        q, k, v, e, _ = seen.args
        n, m, d, d_v, r = q.shape[-2], *k.shape[-2:], v.shape[-1], len(e)
        before = n * m * d + n * m * r if scores else r * m * d + n * r * d
        after = n * r * m + n * m * d_v if values else r * m * d_v + n * r * d_v
        return square_made(seen) and seen.flops == 2 * (before + after)

    return shown


def _summary_overflowed(seen: Observation) -> bool:
    q, k, _, e, _ = seen.args
    return bool(seen.output.isnan().any() and (q @ (e @ k).mT).abs().max() / math.sqrt(q.shape[-1]) > 89)


def summary_of_powers(q, k, v, e, f) -> Tensor:
    powers = torch.exp(q @ (e @ k).mT / math.sqrt(q.shape[-1]))
    return powers / powers.sum(-1, keepdim=True) @ (f @ v)


def scores_projected_by_rows(q, k, v, e, f) -> Tensor:
    return torch.cat([scores_projected(row, k, v, e, f) for row in q.split(1, dim=-2)], dim=-2)


def weights_projected(q, k, v, e, f) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ e.mT @ (f @ v)


def pooled(q, k, v, e, f) -> Tensor:
    r, m = e.shape
    member = (torch.arange(m) * r // m == torch.arange(r)[:, None]).to(k)
    member = member / member.sum(-1, keepdim=True).clamp_min(1)
    return attention(q, member @ k, member @ v)


def projected_and_restored(q, k, v, e, f) -> Tensor:
    return attention(q, e.mT @ (e @ k), f.mT @ (f @ v))


def batch_mixed_by_a_reshape(q, k, v, e, f) -> Tensor:
    """Right for a single sequence."""
    keys, values = (
        (matrix @ x.reshape(x.shape[-2], -1)).reshape(*x.shape[:-2], len(e), x.shape[-1])
        for matrix, x in ((e, k), (f, v))
    )
    return attention(q, keys, values)


def _long(n: int, m: int, d: int, d_v: int, r: int) -> Case:
    """Twice what the four products need. Smaller inputs, or E k would make every softmax a choice."""
    return random_case(f"n = {n}, m = {m}, r = {r}: counted, O((n + m) r d)", n=n, m=m, d=d, d_v=d_v, r=r, scale=0.4,
                 max_flops=2 * 2 * (n + m) * r * (d + d_v), max_elements=2 * max(n, m) * r * max(d, d_v))  # fmt: skip


low_rank_attention = Check(
    reference=low_rank.low_rank_attention,
    cases=[
        random_case(n=5, m=9, d=4, d_v=3, r=2),
        random_case(batch=(2, 3), n=4, m=8, d=3, d_v=5, r=6, dtype=torch.float64),
        random_case(n=6, m=6, d=4, d_v=3, r=2, label="as many queries as keys"),
        random_case(n=3, m=5, d=4, d_v=2, r=5, label="r = m = 5"),
        random_case(n=4, m=5, d=5, d_v=5, r=3, label="as many keys as features"),
        _long(300, 350, 4, 3, 6), _long(250, 280, 3, 5, 4),
        random_case(n=4, m=6, d=3, d_v=5, r=1, label="r = 1: one summary"),
        explicit_case("scores of several hundred", whole(5, 4), whole(7, 4), normal(7, 3), whole(3, 7, most=6), normal(3, 7)),
        random_case(batch=(2,), n=3, m=6, d=4, d_v=5, r=2, dtype=torch.float64, gradient=True, label="m = 6, r = 2: gradients, in float64"),
    ],
    misconceptions=[
        Misconception(
            "the scores projected instead of the keys", scores_projected,
            "(q kᵀ) Eᵀ = q (E k)ᵀ: the brackets don't change the result, but they change the price. Project the keys before you take scores.",
            cost=_exact_work(scores=True, values=False),
        ),
        Misconception(
            "the values projected last", values_projected_last,
            "`weights @ f @ v` is `(weights @ f) @ v`: Python goes from left to right, and weights F is n × m. Put brackets round `f @ v`.",
            cost=_exact_work(scores=False, values=True),
        ),
        Misconception(
            "a hidden n × m matrix", both_projected_late,
            "Compute E k and F v first; each has r rows. Then the scores and the weights are n × r, not n × m.",
            cost=square_made,
        ),
        Misconception(
            "every key scored, piece by piece", scores_projected_by_rows,
            "Each query still scores all m keys before the projection, so the work is O(n m). Project the keys once, for all queries.",
            cost=all_pairs_scored,
        ),
        Misconception(
            "features projected instead of positions", features_projected,
            "Fewer features leave just as many scores, n × m. E is r × m and multiplies from the left: it mixes the *rows* of k, the positions.",
            raises="RuntimeError",
        ),
        Misconception(
            "one projection for both", lambda q, k, v, e, f: attention(q, e @ k, e @ v),
            "Keys are projected with E and values with F. (The paper also tries one matrix for both, but here you get two.)",
        ),
        Misconception(
            "E and F swapped", lambda q, k, v, e, f: attention(q, f @ k, e @ v),
            "E is for the keys, F for the values.",
        ),
        Misconception(
            "the keys projected but not the values", lambda q, k, v, e, f: attention(q, e @ k, v),
            "Now there are r weights but m values, and these fit only where r = m. Project both.",
            raises="RuntimeError",
        ),
        Misconception(
            "the queries projected too", lambda q, k, v, e, f: attention(e @ q, e @ k, f @ v),
            "Every token still asks for itself and gets an output of its own: n queries, n rows. Only what is *read* gets shorter.",
            raises="RuntimeError",
        ),
        Misconception(
            "weights projected instead of keys", weights_projected,
            "You have already computed a softmax over all m keys, so nothing is saved, and after E the weights no longer sum to 1. Project first, then "
            "score, then softmax.",
        ),
        Misconception(
            "a mean over stretches instead of the projection", pooled,
            "The mean of each stretch of keys is a projection too, but a fixed one. Use E and F, which are learned.",
        ),
        Misconception(
            "projected down and up again", projected_and_restored,
            "Eᵀ E k has m rows again, so nothing is saved. Leave the keys at r rows.",
        ),
        Misconception(
            "scaled by √r", lambda q, k, v, e, f: attention(q * math.sqrt(q.shape[-1] / len(e)), e @ k, f @ v),
            "A score is still a dot product of d features. The number of keys, now r, plays no role.",
        ),
        Misconception(
            "no scale", lambda q, k, v, e, f: attention(q * math.sqrt(q.shape[-1]), e @ k, f @ v),
            "Divide the scores by √d, as in full attention.",
        ),
        Misconception(
            "softmax over the queries", lambda q, k, v, e, f: (q @ (e @ k).mT / math.sqrt(q.shape[-1])).softmax(-2) @ (f @ v),
            "Each query shares its attention out over the r summaries: the last axis of (…, n, r).",
        ),
        Misconception(
            "the rows of E and F made to sum to 1",
            lambda q, k, v, e, f: attention(q, e / e.sum(-1, keepdim=True) @ k, f / f.sum(-1, keepdim=True) @ v),
            "Use E and F as they are. Their rows need not sum to 1.",
        ),
        Misconception(
            "the rows of E made to sum to 1", lambda q, k, v, e, f: attention(q, e / e.sum(-1, keepdim=True) @ k, f @ v),
            "Use E as it is. Its rows need not sum to 1.",
        ),
        Misconception(
            "a softmax on E and F", lambda q, k, v, e, f: attention(q, e.softmax(-1) @ k, f.softmax(-1) @ v),
            "E and F are learned, and used as they are: their entries may be negative, and their rows need not sum to 1.",
        ),
        Misconception(
            "scaled by the width of the values", lambda q, k, v, e, f: attention(scaled_by_values(q, v), e @ k, f @ v), VALUES_HINT
        ),
        Misconception(
            "the softmax's axis counted from the front", lambda q, k, v, e, f: attention(q, e @ k, f @ v, axis=1), AXIS_HINT,
        ),
        Misconception(
            "one maximum for all rows",
            lambda q, k, v, e, f: one_maximum(q @ (e @ k).mT / math.sqrt(q.shape[-1])) @ (f @ v), MAXIMUM_HINT,
        ),
        Misconception(
            "sequences of a batch mixed by a reshape", batch_mixed_by_a_reshape,
            "`reshape(m, -1)` moves nothing: it cuts the numbers into other rows, and mixes tokens of different sequences. `e @ k` multiplies every "
            "sequence of the batch by itself.",
        ),
        Misconception("exponentials out of range", summary_of_powers, LARGE_HINT, _summary_overflowed),
        power_before_division(low_rank.low_rank_attention),
        in_single_precision(low_rank.low_rank_attention),
        written_for_one_batch_axis(low_rank.low_rank_attention),
        written_without_a_batch(low_rank.low_rank_attention),
    ],
)  # fmt: skip
