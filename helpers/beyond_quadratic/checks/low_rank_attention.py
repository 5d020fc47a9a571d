"""low_rank_attention: attention over r summaries of the keys and values, (E k, F v)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import power_before_division
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import attention
from helpers.engine.cases import Case, explicit_case, normal, random_case, whole
from helpers.engine.check import Check
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..low_rank import low_rank_attention as reference
from .sparse import Slots, all_pairs_scored, ready_made, square_made

__all__ = ["low_rank_attention"]


@composable
def summary(
    keys: Callable = lambda k, e, f: e @ k,
    values: Callable = lambda v, e, f: f @ v,
    queries: Callable = lambda q, v: q,
    **changed: Callable,
) -> Callable:
    attended = attention(**changed)
    return lambda q, k, v, e, f: attended(queries(q, v), keys(k, e, f), values(v, e, f))


def features_projected(q, k, v, e, f) -> Tensor:
    return attention()(q @ e.mT, k @ e.mT, v @ f.mT)


def scores_projected(q, k, v, e, f) -> Tensor:
    return ((q @ k.mT) @ e.mT / math.sqrt(q.shape[-1])).softmax(-1) @ (f @ v)


def values_projected_last(q, k, v, e, f) -> Tensor:
    return (q @ (e @ k).mT / math.sqrt(q.shape[-1])).softmax(-1) @ f @ v


def both_projected_late(q, k, v, e, f) -> Tensor:
    return ((q @ k.mT) @ e.mT / math.sqrt(q.shape[-1])).softmax(-1) @ f @ v


def scores_projected_by_rows(q, k, v, e, f) -> Tensor:
    return torch.cat([scores_projected(row, k, v, e, f) for row in q.split(1, dim=-2)], dim=-2)


def weights_projected(q, k, v, e, f) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ e.mT @ (f @ v)


def mean_of_stretches(x, e, f) -> Tensor:
    r, m = e.shape
    member = (torch.arange(m) * r // m == torch.arange(r)[:, None]).to(x)
    return member / member.sum(-1, keepdim=True).clamp_min(1) @ x


def to_sum_1(matrix: Tensor) -> Tensor:
    return matrix / matrix.sum(-1, keepdim=True)


def mixed_by_a_reshape(matrix: Tensor, x: Tensor) -> Tensor:
    """Right for a single sequence."""
    return (matrix @ x.reshape(x.shape[-2], -1)).reshape(*x.shape[:-2], len(matrix), x.shape[-1])


def _exact_work(scores: bool, values: bool) -> Callable:
    """A mark: an n × m matrix, and the FLOPs of projecting scores (or keys), and values late (or at once)."""

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


def _long(n: int, m: int, d: int, d_v: int, r: int) -> Case:
    """Twice what the four products need. Smaller inputs, or E k would make every softmax a choice."""
    label = f"n = {n}, m = {m}, r = {r}: counted, O((n + m) r d)"
    limits = {"max_flops": 2 * 2 * (n + m) * r * (d + d_v), "max_elements": 2 * max(n, m) * r * max(d, d_v)}
    return random_case(label, n=n, m=m, d=d, d_v=d_v, r=r, scale=0.4, **limits)


low_rank_attention = Check(
    reference=reference,
    cases=[
        random_case(n=5, m=9, d=4, d_v=3, r=2),
        random_case(batch=(2, 3), n=4, m=8, d=3, d_v=5, r=6, dtype=torch.float64),
        random_case(n=6, m=6, d=4, d_v=3, r=2, label="as many queries as keys"),
        random_case(n=3, m=5, d=4, d_v=2, r=5, label="r = m = 5"),
        random_case(n=4, m=5, d=5, d_v=5, r=3, label="as many keys as features"),
        _long(300, 350, 4, 3, 6),
        _long(250, 280, 3, 5, 4),
        random_case(n=4, m=6, d=3, d_v=5, r=1, label="r = 1: one summary"),
        explicit_case(
            "scores of several hundred", whole(5, 4), whole(7, 4), normal(7, 3), whole(3, 7, most=6), normal(3, 7)
        ),
        random_case(
            "m = 6, r = 2: gradients, in float64",
            **{"batch": (2,), "n": 3, "m": 6, "d": 4, "d_v": 5, "r": 2, "dtype": torch.float64},
            gradient=True,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(reference),
        *ready_made(reference),
        *slips(summary, Scale.none, Slots.by_width_of_values, Slots.axis_from_front),
        *slips(summary, Softmax.over_queries, Softmax.one_maximum),
        *slips(summary, Softmax.no_maximum, recognise=_summary_overflowed),
        scores_projected=Wrong(scores_projected, cost=_exact_work(scores=True, values=False)),
        values_projected_last=Wrong(values_projected_last, cost=_exact_work(scores=False, values=True)),
        all_pairs=Wrong(both_projected_late, cost=square_made),
        row_by_row=Wrong(scores_projected_by_rows, cost=all_pairs_scored),
        features_projected=Wrong(features_projected, raises="RuntimeError"),
        one_projection=summary(values=lambda v, e, f: e @ v),
        swapped=summary(lambda k, e, f: f @ k, lambda v, e, f: e @ v),
        values_as_they_are=Wrong(summary(values=lambda v, e, f: v), raises="RuntimeError"),
        queries_too=Wrong(lambda q, k, v, e, f: reference(e @ q, k, v, e, f), raises="RuntimeError"),
        weights_projected=weights_projected,
        mean_of_stretches=summary(mean_of_stretches, mean_of_stretches),
        down_and_up=summary(lambda k, e, f: e.mT @ (e @ k), lambda v, e, f: f.mT @ (f @ v)),
        by_root_of_r=summary(scale=lambda products, sizes: products / math.sqrt(products.shape[-1])),
        rows_sum_to_1=summary(lambda k, e, f: to_sum_1(e) @ k, lambda v, e, f: to_sum_1(f) @ v),
        rows_of_e_sum_to_1=summary(lambda k, e, f: to_sum_1(e) @ k),
        first_r_only=summary(lambda k, e, f: k[..., : len(e), :], lambda v, e, f: v[..., : len(f), :]),
        softmax_on_e_and_f=summary(lambda k, e, f: e.softmax(-1) @ k, lambda v, e, f: f.softmax(-1) @ v),
        mixed_by_a_reshape=summary(lambda k, e, f: mixed_by_a_reshape(e, k), lambda v, e, f: mixed_by_a_reshape(f, v)),
    ),
)
