"""Checks of attention over a summary of the keys and values."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import Case, sized
from helpers.engine.check import Check, Misconception
from helpers.engine.slips import attention

from .. import low_rank
from .sparse import all_pairs_scored, square_made

__all__ = ["low_rank_attention"]


def features_projected(q, k, v, e, f):
    return attention(q @ e.mT, k @ e.mT, v @ f.mT)


def scores_projected(q, k, v, e, f) -> Tensor:
    return ((q @ k.mT) @ e.mT / math.sqrt(q.shape[-1])).softmax(-1) @ (f @ v)


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


def _long(n: int, m: int, d: int, d_v: int, r: int) -> Case:
    """Twice what the four products need. Smaller inputs, or E k would make every softmax a choice."""
    return sized(f"n = {n}, m = {m}, r = {r}: counted, O((n + m) r d)", n=n, m=m, d=d, d_v=d_v, r=r, scale=0.4,
                 max_flops=2 * 2 * (n + m) * r * (d + d_v), max_elements=2 * max(n, m) * r * max(d, d_v))  # fmt: skip


low_rank_attention = Check(
    reference=low_rank.low_rank_attention,
    cases=[
        sized(n=5, m=9, d=4, d_v=3, r=2),
        sized(batch=(2, 3), n=4, m=8, d=3, d_v=5, r=6, dtype=torch.float64),
        sized(n=6, m=6, d=4, d_v=3, r=2, label="as many queries as keys"),
        sized(n=3, m=5, d=4, d_v=2, r=5, label="r = m = 5"),
        sized(n=4, m=5, d=5, d_v=5, r=3, label="as many keys as features"),
        _long(300, 350, 4, 3, 6), _long(250, 280, 3, 5, 4),
    ],
    misconceptions=[
        Misconception(
            "a hidden n × m matrix", scores_projected,
            "(q kᵀ) Eᵀ = q (E k)ᵀ: the brackets don't change the result, but they change the price. Project the keys before you take scores.",
            cost=square_made,
        ),
        Misconception(
            "every key scored, one row at a time", scores_projected_by_rows,
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
            "Keys are projected with E and values with F. (The paper also tries sharing them, but here both are given.)",
        ),
        Misconception(
            "E and F swapped", lambda q, k, v, e, f: attention(q, f @ k, e @ v),
            "E is for the keys, F for the values.",
        ),
        Misconception(
            "the keys projected but not the values", lambda q, k, v, e, f: attention(q, e @ k, v),
            "Now there are r keys and m values, and each weight needs its value. Project both.",
            raises="RuntimeError",
        ),
        Misconception(
            "the queries projected too", lambda q, k, v, e, f: attention(e @ q, e @ k, f @ v),
            "Every token still asks for itself and gets an output of its own: n queries, n rows. Only what is *read* gets shorter.",
            raises="RuntimeError",
        ),
        Misconception(
            "weights projected instead of keys", weights_projected,
            "The softmax over all m keys has been paid for already, and E mixes weights that should stay a distribution. Project first, then "
            "score, then softmax.",
        ),
        Misconception(
            "a mean over stretches instead of the projection", pooled,
            "Pooling is one projection of many, with fixed weights. Use the E and F that are given: they are learned.",
        ),
        Misconception(
            "projected down and up again", projected_and_restored,
            "Eᵀ E k has m rows again, so nothing is saved. Leave the keys at r rows.",
        ),
        Misconception(
            "scaled by √r", lambda q, k, v, e, f: attention(q * math.sqrt(q.shape[-1] / len(e)), e @ k, f @ v),
            "A score is still a dot product of d features. The number of keys, r now, has no part in it.",
        ),
        Misconception(
            "no scale", lambda q, k, v, e, f: attention(q * math.sqrt(q.shape[-1]), e @ k, f @ v),
            "Divide the scores by √d, as in full attention.",
        ),
        Misconception(
            "softmax over the queries", lambda q, k, v, e, f: (q @ (e @ k).mT / math.sqrt(q.shape[-1])).softmax(-2) @ (f @ v),
            "Each query shares its attention out over the r summaries: the last axis of (…, n, r).",
        ),
    ],
)  # fmt: skip
