"""The check of `score_functions`: six ways to score a query against a key."""

import math
from collections.abc import Callable, Sequence

import torch

from helpers.engine.answers.common_misconceptions import (
    axes_of_size_1_dropped,
    in_single_precision,
    power_before_division,
)
from helpers.engine.cases import Case, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.compare import agree, tolerance
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import scores

__all__ = ["score_functions"]

WIDE = (
    random_case(n=3, m=5, d=4),
    random_case(n=4, m=2, d=16, scale=3.0),
    random_case(n=3, m=3, d=5),
    random_case(n=1, m=1, d=6),
    random_case(n=5, m=3, d=6, dtype=torch.float64),
)


def _score(
    reference: Callable, cases: Sequence[Case], *others: Wrong, names=(), forbids=(), **own: Callable | Wrong
) -> Check:
    always = axes_of_size_1_dropped(reference), in_single_precision(reference)
    wrong = wrong_answers(__file__, *others, *always, **own)
    return Check(reference=reference, cases=cases, names=names, misconceptions=wrong, forbids=forbids)


def _lost_in_half_precision(seen) -> bool:
    """Whether short vectors in float16 went wrong. (Those of ordinary length are a case of their own.)"""
    q, k = seen.args
    short = q.dtype == torch.float16 and max(q.norm(dim=-1).max(), k.norm(dim=-1).max()) < 0.1
    return bool(short) and not agree(seen.output, scores.cosine_score(q.double(), k.double()), tolerance(seen.args))


def _constant_beside_the_norms(seen) -> bool:
    """Whether one positive number, added to the norms of q, of k, of both or to their product, explains every entry.
    (In float16 too few digits are left to tell: there it is enough that they are off.)"""
    if seen.args[0].dtype == torch.float16:
        return _lost_in_half_precision(seen)
    q, k = seen.args[0].norm(dim=-1)[:, None].double(), seen.args[1].norm(dim=-1).double()
    factor = scores.cosine_score(*seen.args).double() / seen.output.double()  # what the norms were multiplied by
    both = (-(q + k) + ((q + k) ** 2 + 4 * q * k * (factor - 1)).sqrt()) / 2
    constants = [q * (factor - 1), k * (factor - 1), q * k * (factor - 1), both]
    return any(
        bool(c.min() > 0 and c.max() < 0.1 and (c - c.median()).abs().max() < 0.1 * c.median()) for c in constants
    )


cosine_score = _score(
    scores.cosine_score,
    (
        *WIDE,
        random_case(n=2, m=4, d=5, scale=1e-3, label="vectors of length 0.002"),
        random_case(n=3, m=2, d=5, dtype=torch.float16, label="float16"),
        random_case(n=4, m=6, d=5, scale=1e-3, dtype=torch.float16, label="float16, vectors of length 0.002"),
    ),
    no_norms=lambda q, k: q @ k.mT,
    no_key_norm=lambda q, k: (q @ k.mT) / q.norm(dim=-1, keepdim=True),
    no_query_norm=lambda q, k: (q @ k.mT) / k.norm(dim=-1),
    matrix_norms=lambda q, k: (q @ k.mT) / (q.norm() * k.norm()),
    column_norms=lambda q, k: (q / q.norm(dim=0)) @ (k / k.norm(dim=0)).mT,
    squared_norms=lambda q, k: (q @ k.mT) / ((q * q).sum(-1)[:, None] * (k * k).sum(-1)),
    half_precision=Wrong(
        lambda q, k: (q @ k.mT) / (q.norm(dim=-1)[:, None] * k.norm(dim=-1)), recognise=_lost_in_half_precision
    ),
    constant_added=Wrong(
        lambda q, k: (q @ k.mT) / (q.norm(dim=-1)[:, None] * k.norm(dim=-1) + 1e-6),
        recognise=_constant_beside_the_norms,
    ),
    transposed=lambda q, k: scores.cosine_score(k, q),
    sums_of_entries=lambda q, k: (q @ k.mT) / (q.abs().sum(-1)[:, None] * k.abs().sum(-1)),
    forbids=["cosine_similarity"],
)


def _of_projections(score: Callable) -> Callable:
    """`score` of q W_q (n, 1, a), k W_k (1, m, a) and v."""
    return lambda q, k, w_q, w_k, v: score((q @ w_q)[:, None], (k @ w_k)[None], v)


additive_score = _score(
    scores.additive_score,
    [
        random_case(n=3, m=5, d_q=4, d_k=2, a=6),
        random_case(n=4, m=3, d_q=3, d_k=3, a=3),
        random_case(n=1, m=4, d_q=2, d_k=3, a=5),
        random_case(n=3, m=3, d_q=3, d_k=2, a=4),
        random_case(n=2, m=4, d_q=3, d_k=5, a=6, dtype=torch.float64),
    ],
    tanh_after_v=_of_projections(lambda q, k, v: torch.tanh((q + k) @ v)),
    relu=_of_projections(lambda q, k, v: torch.relu(q + k) @ v),
    no_tanh=_of_projections(lambda q, k, v: (q + k) @ v),
    tanh_of_each=_of_projections(lambda q, k, v: (torch.tanh(q) + torch.tanh(k)) @ v),
    multiplied_projections=_of_projections(lambda q, k, v: torch.tanh(q * k) @ v),
    row_by_row=Wrong(lambda q, k, w_q, w_k, v: torch.tanh(q @ w_q + k @ w_k) @ v, raises="RuntimeError"),
    transposed=lambda q, k, w_q, w_k, v: scores.additive_score(k, q, w_k, w_q, v),
    no_v=_of_projections(lambda q, k, v: torch.tanh(q + k).sum(-1)),
    weights=lambda *args: scores.additive_score(*args).softmax(-1),
)

location_score = _score(
    scores.location_score,
    [
        random_case(n=3, d=4, m=5),
        random_case(n=2, d=3, m=3),
        random_case(n=1, d=2, m=1),
        random_case(n=4, d=2, m=5, dtype=torch.float64),
    ],
    names=("scores: queries positions",),
    location_weights=lambda q, w: torch.softmax(q @ w, dim=-1),
    location_w_transposed=Wrong(lambda q, w: q @ w.mT, raises="RuntimeError"),
    location_transposed=lambda q, w: (q @ w).mT.contiguous(),
)

general_score = _score(
    scores.general_score,
    [
        random_case(n=3, d_q=4, d_k=2, m=5),
        random_case(n=3, d_q=3, d_k=3, m=4),
        random_case(n=1, d_q=2, d_k=3, m=1),
        random_case(n=2, d_q=5, d_k=3, m=4, dtype=torch.float64),
    ],
    w_transposed=Wrong(lambda q, w, k: q @ w.mT @ k.mT, raises="RuntimeError"),
    no_w=Wrong(lambda q, w, k: q @ k.mT, raises="RuntimeError"),
    tanh_between=lambda q, w, k: torch.tanh(q @ w) @ k.mT,
    general_weights=lambda q, w, k: torch.softmax(q @ w @ k.mT, dim=-1),
    transposed=lambda q, w, k: (q @ w @ k.mT).mT.contiguous(),
)

dot_score = _score(
    scores.dot_score, WIDE, transposed=lambda q, k: k @ q.mT, dot_weights=lambda q, k: torch.softmax(q @ k.mT, dim=-1)
)

scaled_dot_score = _score(
    scores.scaled_dot_score,
    WIDE,
    power_before_division(scores.scaled_dot_score),
    none=lambda q, k: q @ k.mT,
    by_width=lambda q, k: q @ k.mT / q.shape[-1],
    multiplied=lambda q, k: q @ k.mT * math.sqrt(q.shape[-1]),
    root_cut=lambda q, k: q @ k.mT / math.isqrt(q.shape[-1]),
    by_keys=lambda q, k: q @ k.mT / math.sqrt(len(k)),
    by_queries=lambda q, k: q @ k.mT / math.sqrt(len(q)),
    transposed=lambda q, k: scores.scaled_dot_score(k, q),
    weights=lambda q, k: scores.scaled_dot_score(q, k).softmax(-1),
)

score_functions = CheckGroup(
    "score_functions", cosine_score, additive_score, location_score, general_score, dot_score, scaled_dot_score
)
