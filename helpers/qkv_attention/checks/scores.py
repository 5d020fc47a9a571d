"""Checks of the six score functions, and of how the spread of a dot product grows with the width."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.common_misconceptions import axes_of_size_1_dropped, in_single_precision, power_before_division
from helpers.engine.compare import agree, tolerance

from .. import scores

__all__ = ["score_functions", "score_variance", "two_word_example"]

WIDE = (
    random_case(n=3, m=5, d=4),
    random_case(n=4, m=2, d=16, scale=3.0),
    random_case(n=3, m=3, d=5),
    random_case(n=1, m=1, d=6),
    random_case(n=5, m=3, d=6, dtype=torch.float64),
)


def paired_off(q, k, w_q, w_k, v) -> Tensor:
    return torch.tanh(q @ w_q + k @ w_k) @ v


def one_axis_dropped(q, k, w_q, w_k, v) -> Tensor:
    return scores.additive_score(q, k, w_q, w_k, v).squeeze()


def _lost_in_half_precision(seen) -> bool:
    """Whether short vectors in float16 went wrong. (Those of ordinary length are a case of their own, which tells what else may.)"""
    q, k = seen.args
    short = q.dtype == torch.float16 and max(q.norm(dim=-1).max(), k.norm(dim=-1).max()) < 0.1
    return bool(short) and not agree(seen.output, scores.cosine_score(q.double(), k.double()), tolerance(seen.args))


def _constant_beside_the_norms(seen) -> bool:
    """Whether one positive number, added to the norms of q, of k, of both or to their product, explains every entry. (In float16 too few
    digits are left to tell: there it is enough that they are off.)"""
    if seen.args[0].dtype == torch.float16:
        return _lost_in_half_precision(seen)
    q, k = seen.args[0].norm(dim=-1)[:, None].double(), seen.args[1].norm(dim=-1).double()
    factor = scores.cosine_score(*seen.args).double() / seen.output.double()  # what the norms were multiplied by
    both = (-(q + k) + ((q + k) ** 2 + 4 * q * k * (factor - 1)).sqrt()) / 2
    constants = [q * (factor - 1), k * (factor - 1), q * k * (factor - 1), both]
    return any(
        bool(c.min() > 0 and c.max() < 0.1 and (c - c.median()).abs().max() < 0.1 * c.median()) for c in constants
    )


cosine_score = Check(
    reference=scores.cosine_score,
    cases=(*WIDE, random_case(n=2, m=4, d=5, scale=1e-3, label="vectors of length 0.002"),
           random_case(n=3, m=2, d=5, dtype=torch.float16, label="float16"),
           random_case(n=4, m=6, d=5, scale=1e-3, dtype=torch.float16, label="float16, vectors of length 0.002")),
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
            "the norms of the columns", lambda q, k: (q / q.norm(dim=0)) @ (k / k.norm(dim=0)).mT,
            "A vector is a *row*: its length is `norm(dim=-1, keepdim=True)`. Along axis 0 you get the length of each column.",
        ),
        Misconception(
            "squared norms", lambda q, k: (q @ k.mT) / ((q * q).sum(-1)[:, None] * (k * k).sum(-1)),
            "The length is the square root of Σ x²: a vector and itself must have cosine 1.",
        ),
        Misconception(
            "squares of short vectors in half precision", lambda q, k: (q @ k.mT) / (q.norm(dim=-1)[:, None] * k.norm(dim=-1)),
            "Numbers near 0.001 have squares and products near 0.000001, where float16 keeps a digit or two. Normalise the rows first, with `norm`, or compute in a "
            "higher dtype.",
            _lost_in_half_precision,
        ),
        Misconception(
            "a constant added to the norms", lambda q, k: (q @ k.mT) / (q.norm(dim=-1)[:, None] * k.norm(dim=-1) + 1e-6),
            "For short vectors the constant is no longer small, and the cosine must not depend on length. No vector is zero here: leave it out.",
            _constant_beside_the_norms,
        ),
        Misconception(
            "the result transposed", lambda q, k: scores.cosine_score(k, q),
            "Entry (i, j) is query i against key j: rows are queries.",
        ),
        Misconception(
            "the sum of the entries for the norm", lambda q, k: (q @ k.mT) / (q.abs().sum(-1)[:, None] * k.abs().sum(-1)),
            "The length is the square root of Σ x², not Σ |x|: a vector and itself must have cosine 1.",
        ),
        axes_of_size_1_dropped(scores.cosine_score),
        in_single_precision(scores.cosine_score),
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
    cases=[
        random_case(n=3, m=5, d_q=4, d_k=2, a=6), random_case(n=4, m=3, d_q=3, d_k=3, a=3), random_case(n=1, m=4, d_q=2, d_k=3, a=5), random_case(n=3, m=3, d_q=3, d_k=2, a=4),
        random_case(n=2, m=4, d_q=3, d_k=5, a=6, dtype=torch.float64),
    ],
    misconceptions=[
        Misconception(
            "tanh after v", tanh_after_v,
            "v weighs the hidden units after their nonlinearity: tanh(…) · v. With tanh outermost, no score could leave (−1, 1).",
        ),
        Misconception(
            "a ReLU instead of tanh", lambda q, k, w_q, w_k, v: torch.relu((q @ w_q)[:, None] + (k @ w_k)[None]) @ v,
            "The nonlinearity is tanh, whose values lie between −1 and 1.",
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
            "The two projections are added, q W_q + k W_k: that is why the score is called additive.",
        ),
        Misconception(
            "row i paired with row i", paired_off,
            "Every query meets every key. Give each side an axis of its own: (n, 1, a) + (1, m, a) is (n, m, a).",
            raises="RuntimeError",
        ),
        Misconception(
            "the result transposed", lambda q, k, w_q, w_k, v: scores.additive_score(k, q, w_k, w_q, v),
            "Entry (i, j) is query i against key j: rows are queries.",
        ),
        Misconception(
            "axes of size 1 dropped", one_axis_dropped,
            "`squeeze()` drops every axis of size 1, that of a single query or key too. Name the axis: `squeeze(-1)`.",
        ),
        Misconception(
            "the hidden units added up without v", lambda q, k, w_q, w_k, v: torch.tanh((q @ w_q)[:, None] + (k @ w_k)[None]).sum(-1),
            "v weighs the hidden units: a dot product with v, not a plain sum.",
        ),
        Misconception(
            "weights instead of scores", lambda q, k, w_q, w_k, v: scores.additive_score(q, k, w_q, w_k, v).softmax(-1),
            "The softmax comes later, once, for all scores alike.",
        ),
        in_single_precision(scores.additive_score),
    ],
)  # fmt: skip

location_score = Check(
    reference=scores.location_score,
    names=("scores: queries positions",),
    cases=[random_case(n=3, d=4, m=5), random_case(n=2, d=3, m=3), random_case(n=1, d=2, m=1), random_case(n=4, d=2, m=5, dtype=torch.float64)],
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
        Misconception(
            "the result transposed", lambda q, w: (q @ w).mT.contiguous(),
            "Entry (i, j) is query i against position j: rows are queries.",
        ),
        axes_of_size_1_dropped(scores.location_score),
        in_single_precision(scores.location_score),
    ],
)  # fmt: skip

general_score = Check(
    reference=scores.general_score,
    cases=[random_case(n=3, d_q=4, d_k=2, m=5), random_case(n=3, d_q=3, d_k=3, m=4), random_case(n=1, d_q=2, d_k=3, m=1), random_case(n=2, d_q=5, d_k=3, m=4, dtype=torch.float64)],
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
            "a tanh in between", lambda q, w, k: torch.tanh(q @ w) @ k.mT,
            "The general score has no nonlinearity: q W kᵀ. The tanh is that of the additive score.",
        ),
        Misconception(
            "weights instead of scores", lambda q, w, k: torch.softmax(q @ w @ k.mT, dim=-1),
            "The softmax comes later, once, for all scores alike. Return q W kᵀ itself.",
        ),
        Misconception(
            "the result transposed", lambda q, w, k: (q @ w @ k.mT).mT.contiguous(),
            "Entry (i, j) is query i against key j: rows are queries.",
        ),
        axes_of_size_1_dropped(scores.general_score),
        in_single_precision(scores.general_score),
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
        axes_of_size_1_dropped(scores.dot_score),
        in_single_precision(scores.dot_score),
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
        power_before_division(scores.scaled_dot_score),
        Misconception(
            "multiplied by √d", lambda q, k: q @ k.mT * math.sqrt(q.shape[-1]),
            "The scale must make the scores of wide vectors smaller: divide.",
        ),
        Misconception(
            "√d cut to a whole number", lambda q, k: q @ k.mT / math.isqrt(q.shape[-1]),
            "√d is rarely a whole number. `int` and `//` cut it off: divide by `math.sqrt(d)`.",
        ),
        Misconception(
            "scaled by the number of keys", lambda q, k: q @ k.mT / math.sqrt(len(k)),
            "`len(k)` is the number of keys. What makes a dot product large is the number of its terms: the width, `k.shape[-1]`.",
        ),
        Misconception(
            "scaled by the number of queries", lambda q, k: q @ k.mT / math.sqrt(len(q)),
            "`len(q)` is the number of queries. What makes a dot product large is the number of its terms: the width, `q.shape[-1]`.",
        ),
        Misconception(
            "the result transposed", lambda q, k: scores.scaled_dot_score(k, q),
            "Entry (i, j) is query i against key j: rows are queries.",
        ),
        Misconception(
            "weights instead of scores", lambda q, k: scores.scaled_dot_score(q, k).softmax(-1),
            "The softmax comes later, once, for all scores alike.",
        ),
        axes_of_size_1_dropped(scores.scaled_dot_score),
        in_single_precision(scores.scaled_dot_score),
    ],
)  # fmt: skip

score_functions = CheckGroup(
    "score_functions", cosine_score, additive_score, location_score, general_score, dot_score, scaled_dot_score
)


def measured_variance(d, sigma) -> tuple[float, float, float]:
    products = (sigma * torch.randn(2_000, d) * sigma * torch.randn(2_000, d)).sum(-1)
    return products.mean().item(), products.var().item(), (products / math.sqrt(d)).var().item()


def _measured(seen) -> bool:
    """Near the right numbers, and a mean that is not 0."""
    mean, variance, scaled = map(float, seen.output)
    right = scores.score_variance(*seen.args)
    return (
        mean != 0
        and abs(mean) < 0.5 * math.sqrt(right[1])
        and all(0.5 < mine / wanted < 2 for mine, wanted in ((variance, right[1]), (scaled, right[2])))
    )


score_variance = Check(
    reference=scores.score_variance,
    names=("mean of q·k", "variance of q·k", "variance of q·k / √d"),
    cases=[random_case(d=64, sigma=1.0), random_case(d=16, sigma=0.5), random_case(d=100, sigma=3.0)],
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
            "the variance divided by d twice", lambda d, sigma: (0.0, d * sigma**4, sigma**4 / d),
            "The scale divides q·k by √d, and so its variance by d, once: dσ⁴/d.",
        ),
        Misconception(
            "the scaled variance left at σ²", lambda d, sigma: (0.0, d * sigma**4, sigma**2),
            "Divide dσ⁴ by (√d)² = d: σ⁴ is left.",
        ),
        Misconception(
            "d² instead of d", lambda d, sigma: (0.0, d**2 * sigma**4, d * sigma**4),
            "The variances of d independent terms add up: d times the variance of one.",
        ),
        Misconception(
            "the mean of q·q", lambda d, sigma: (d * sigma**2, d * sigma**4, sigma**4),
            "q and k are independent, so a term has the mean 0 · 0. Only q·q, a vector with itself, has the mean dσ².",
        ),
        Misconception(
            "right for σ = 1 only", lambda d, sigma: (0.0, d * sigma**4, 1.0),
            "The scaled variance is 1 where σ = 1. Divide dσ⁴ by (√d)² and see what is left.",
        ),
        Misconception(
            "σ left out", lambda d, sigma: (0.0, float(d), 1.0),
            "These are the numbers for σ = 1. A term is a product of two numbers of variance σ² each.",
        ),
        Misconception(
            "the variances of the two factors added", lambda d, sigma: (0.0, 2 * d * sigma**2, 2 * sigma**2),
            "Variances add where random numbers are *added*. A term is a product: its variance is E[q²] E[k²].",
        ),
        Misconception(
            "measured instead of derived", measured_variance,
            "A measurement comes near and changes from call to call. The formula is wanted: it needs d and σ alone.",
            _measured,
        ),
    ],
)  # fmt: skip

two_word_example = Check(
    reference=scores.two_word_example,
    quiz=True,
    cases=[explicit_case("both weights, to two decimals")],
    within=(0.0, 0.006),
    misconceptions=[
        Misconception(
            "shares of the scores, without exp", lambda: (0.54, 0.46),
            "112/208 = 0.54 is the first score's part of the sum of both. The softmax takes exponentials first: it compares e^14 with e^12.",
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
        Misconception(
            "scaled by d/2", lambda: (0.62, 0.38),
            "In Python `64 ** 1/2` is (64 ** 1)/2 = 32. √64 is 8: `64 ** 0.5` or `math.sqrt(64)`.",
        ),
        Misconception(
            "the ratio of the weights taken for a weight", lambda: (0.86, 0.14),
            "e^−2 = 0.14 is how large the second weight is beside the *first*. It is no share yet: divide 1 and 0.14 by their sum, 1.14.",
        ),
        Misconception(
            "rounded to one decimal", lambda: (0.9, 0.1),
            "Two decimals are asked for, or more.",
        ),
        Misconception(
            "cut off instead of rounded", lambda: (0.88, 0.11),
            "`int` and `//` cut decimals off, and the two weights no longer sum to 1. Round them, `round(…, 2)`, or leave them as they are.",
        ),
        Misconception(
            "percent instead of shares", lambda: (88.0, 12.0),
            "Weights are shares of 1: they lie between 0 and 1.",
        ),
    ],
)  # fmt: skip
