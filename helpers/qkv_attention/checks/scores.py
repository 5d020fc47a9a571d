"""Checks of the six score functions, and of how the spread of a dot product grows with the width."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import given, sized
from helpers.engine.check import Check, CheckGroup, Misconception

from .. import scores

__all__ = ["score_functions", "score_variance", "two_word_example"]

WIDE = (sized(n=3, m=5, d=4), sized(n=4, m=2, d=16, scale=3.0))

cosine_score = Check(
    reference=scores.cosine_score,
    cases=WIDE,
    misconceptions=[
        Misconception(
            "the norms left out", lambda q, k: q @ k.mT,
            "The cosine is the dot product of *directions*: divide by the length of the query and by the length of the key.",
        ),
        Misconception(
            "the key's norm left out", lambda q, k: (q @ k.mT) / q.norm(dim=-1, keepdim=True),
            "You divide by the length of the query alone: longer keys still score higher.",
        ),
        Misconception(
            "the query's norm left out", lambda q, k: (q @ k.mT) / k.norm(dim=-1),
            "You divide by the length of the key alone: longer queries still give higher scores.",
        ),
        Misconception(
            "the norm of the whole matrix", lambda q, k: (q @ k.mT) / (q.norm() * k.norm()),
            "`q.norm()` without an axis is one number for all queries. Every row has a length of its own: `norm(dim=-1)`.",
        ),
        Misconception(
            "squared norms", lambda q, k: (q @ k.mT) / ((q * q).sum(-1)[:, None] * (k * k).sum(-1)),
            "The length is the square root of Σ x²: a vector and itself must have cosine 1.",
        ),
    ],
    forbids=["cosine_similarity"],
)  # fmt: skip


def tanh_after_v(q, k, w_q, w_k, v) -> Tensor:
    return torch.tanh(((q @ w_q)[:, None] + (k @ w_k)[None]) @ v)


def no_tanh(q, k, w_q, w_k, v) -> Tensor:
    return ((q @ w_q)[:, None] + (k @ w_k)[None]) @ v


def tanh_of_each_term(q, k, w_q, w_k, v) -> Tensor:
    return (torch.tanh(q @ w_q)[:, None] + torch.tanh(k @ w_k)[None]) @ v


def product_of_projections(q, k, w_q, w_k, v) -> Tensor:
    return torch.tanh((q @ w_q)[:, None] * (k @ w_k)[None]) @ v


additive_score = Check(
    reference=scores.additive_score,
    cases=[sized(n=3, m=5, d_q=4, d_k=2, a=6), sized(n=4, m=3, d_q=3, d_k=3, a=3)],
    misconceptions=[
        Misconception(
            "tanh after v", tanh_after_v,
            "v weighs the hidden units after their nonlinearity: tanh(…) · v. With tanh outermost, no score could leave (−1, 1).",
        ),
        Misconception(
            "no tanh", no_tanh,
            "Without the nonlinearity the score falls apart into a query part and a key part, and every query ranks the keys alike.",
        ),
        Misconception(
            "tanh of each term by itself", tanh_of_each_term,
            "Add first, then tanh: only so do query and key meet inside the nonlinearity.",
        ),
        Misconception(
            "the projections multiplied", product_of_projections,
            "It is called additive for a reason: q W_q + k W_k.",
        ),
    ],
)  # fmt: skip

location_score = Check(
    reference=scores.location_score,
    cases=[sized(n=3, d=4, m=5), sized(n=2, d=3, m=3)],
    misconceptions=[
        Misconception(
            "weights instead of scores", lambda q, w: torch.softmax(q @ w, dim=-1),
            "The softmax comes later, once, for all scores alike. Return q W itself.",
        ),
        Misconception(
            "transposed W", lambda q, w: q @ w.mT,
            "W is (d, m): column j belongs to position j. No transpose.",
            raises="RuntimeError",
        ),
    ],
)  # fmt: skip

general_score = Check(
    reference=scores.general_score,
    cases=[sized(n=3, d_q=4, d_k=2, m=5), sized(n=3, d_q=3, d_k=3, m=4)],
    misconceptions=[
        Misconception(
            "transposed W", lambda q, w, k: q @ w.mT @ k.mT,
            "W is (d_q, d_k): the query meets its rows, the key its columns: q W kᵀ.",
            raises="RuntimeError",
        ),
        Misconception(
            "W left out", lambda q, w, k: q @ k.mT,
            "Without W this is the plain dot product, and it needs d_q = d_k.",
            raises="RuntimeError",
        ),
        Misconception(
            "the result transposed", lambda q, w, k: (q @ w @ k.mT).mT.contiguous(),
            "Entry (i, j) is query i against key j: rows are queries.",
        ),
    ],
)  # fmt: skip

dot_score = Check(
    reference=scores.dot_score,
    cases=WIDE,
    misconceptions=[
        Misconception(
            "the result transposed", lambda q, k: k @ q.mT,
            "Entry (i, j) is query i against key j: rows are queries.",
        ),
        Misconception(
            "weights instead of scores", lambda q, k: torch.softmax(q @ k.mT, dim=-1),
            "The softmax comes later, once, for all scores alike. Return the dot products.",
        ),
    ],
)  # fmt: skip

scaled_dot_score = Check(
    reference=scores.scaled_dot_score,
    cases=WIDE,
    misconceptions=[
        Misconception(
            "no scale", lambda q, k: q @ k.mT,
            "This is the dot score. Divide it by √d.",
        ),
        Misconception(
            "scaled by d instead of √d", lambda q, k: q @ k.mT / q.shape[-1],
            "The standard deviation of a sum of d terms grows with √d: divide by √d.",
        ),
        Misconception(
            "multiplied by √d", lambda q, k: q @ k.mT * math.sqrt(q.shape[-1]),
            "The scale must make the scores of wide vectors smaller: divide.",
        ),
    ],
)  # fmt: skip

score_functions = CheckGroup(
    "score_functions", cosine_score, additive_score, location_score, general_score, dot_score, scaled_dot_score
)

score_variance = Check(
    reference=scores.score_variance,
    cases=[sized(d=64, sigma=1.0), sized(d=16, sigma=0.5), sized(d=100, sigma=3.0)],
    misconceptions=[
        Misconception(
            "dσ² instead of dσ⁴", lambda d, sigma: (0.0, d * sigma**2, sigma**2),
            "One term q_i k_i is a product of *two* random numbers, each of variance σ²: its variance is σ² · σ² = σ⁴.",
        ),
        Misconception(
            "standard deviations instead of variances", lambda d, sigma: (0.0, math.sqrt(d) * sigma**2, sigma**2),
            "These are the standard deviations. The variances are their squares.",
            lambda seen: math.isclose(seen.output[1], math.sqrt(seen.args[0]) * seen.args[1] ** 2),
        ),
        Misconception(
            "the variance divided by √d only", lambda d, sigma: (0.0, d * sigma**4, math.sqrt(d) * sigma**4),
            "If a random number is divided by c, its variance is divided by c². Here c = √d, so c² = d.",
        ),
        Misconception(
            "the scaled variance left at σ²", lambda d, sigma: (0.0, d * sigma**4, sigma**2),
            "Divide dσ⁴ by (√d)² = d: σ⁴ is left.",
        ),
        Misconception(
            "d² instead of d", lambda d, sigma: (0.0, d**2 * sigma**4, d * sigma**4),
            "The variances of d independent terms add up: d times the variance of one.",
        ),
    ],
)  # fmt: skip

two_word_example = Check(
    reference=scores.two_word_example,
    quiz=True,
    cases=[given("both weights, to two digits")],
    within=(0.0, 0.006),
    misconceptions=[
        Misconception(
            "shares of the scores, without exp", lambda: (0.54, 0.46),
            "112/208 = 0.54: that shares the scores out in proportion. The softmax compares e^14 with e^12.",
        ),
        Misconception(
            "the two weights swapped", lambda: (0.12, 0.88),
            "The higher score gets the higher weight. 112 belongs to the first word.",
        ),
        Misconception(
            "no scale", lambda: (1.0, 0.0),
            "Divide by √64 = 8 before the softmax: the scores are 14 and 12, not 112 and 96.",
        ),
        Misconception(
            "scaled by d instead of √d", lambda: (0.56, 0.44),
            "√64 is 8. Divided by 64 the scores would be 1.75 and 1.5, and the weights nearly equal.",
        ),
    ],
)  # fmt: skip
