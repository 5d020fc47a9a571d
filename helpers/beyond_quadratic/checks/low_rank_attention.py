"""Checks of attention over a summary of the keys and values."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, normal, random_case, whole
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import (
    attention,
    in_single_precision,
    power_before_division,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import low_rank
from .sparse import all_pairs_scored, one_maximum, scaled_by_values, square_made

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
    return random_case(
        f"n = {n}, m = {m}, r = {r}: counted, O((n + m) r d)",
        n=n,
        m=m,
        d=d,
        d_v=d_v,
        r=r,
        scale=0.4,
        max_flops=2 * 2 * (n + m) * r * (d + d_v),
        max_elements=2 * max(n, m) * r * max(d, d_v),
    )


low_rank_attention = Check(
    reference=low_rank.low_rank_attention,
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
            batch=(2,),
            n=3,
            m=6,
            d=4,
            d_v=5,
            r=2,
            dtype=torch.float64,
            gradient=True,
            label="m = 6, r = 2: gradients, in float64",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(low_rank.low_rank_attention),
        in_single_precision(low_rank.low_rank_attention),
        written_for_one_batch_axis(low_rank.low_rank_attention),
        written_without_a_batch(low_rank.low_rank_attention),
        scores_projected_instead_keys=Wrong(scores_projected, cost=_exact_work(scores=True, values=False)),
        values_projected_last=Wrong(values_projected_last, cost=_exact_work(scores=False, values=True)),
        hidden_n_m_matrix=Wrong(both_projected_late, cost=square_made),
        every_key_scored_piece_by_piece=Wrong(scores_projected_by_rows, cost=all_pairs_scored),
        features_projected_instead_positions=Wrong(features_projected, raises="RuntimeError"),
        one_projection_both=lambda q, k, v, e, f: attention(q, e @ k, e @ v),
        e_f_swapped=lambda q, k, v, e, f: attention(q, f @ k, e @ v),
        keys_projected_but_not_values=Wrong(lambda q, k, v, e, f: attention(q, e @ k, v), raises="RuntimeError"),
        queries_projected_too=Wrong(lambda q, k, v, e, f: attention(e @ q, e @ k, f @ v), raises="RuntimeError"),
        weights_projected_instead_keys=weights_projected,
        mean_over_stretches_instead_projection=pooled,
        projected_down_up_again=projected_and_restored,
        scaled_by_root_r=lambda q, k, v, e, f: attention(q * math.sqrt(q.shape[-1] / len(e)), e @ k, f @ v),
        no_scale=lambda q, k, v, e, f: attention(q * math.sqrt(q.shape[-1]), e @ k, f @ v),
        softmax_over_queries=lambda q, k, v, e, f: (q @ (e @ k).mT / math.sqrt(q.shape[-1])).softmax(-2) @ (f @ v),
        rows_e_f_made_sum_1=lambda q, k, v, e, f: attention(
            q, e / e.sum(-1, keepdim=True) @ k, f / f.sum(-1, keepdim=True) @ v
        ),
        rows_e_made_sum_1=lambda q, k, v, e, f: attention(q, e / e.sum(-1, keepdim=True) @ k, f @ v),
        softmax_on_e_f=lambda q, k, v, e, f: attention(q, e.softmax(-1) @ k, f.softmax(-1) @ v),
        scaled_by_width_values=lambda q, k, v, e, f: attention(scaled_by_values(q, v), e @ k, f @ v),
        softmaxs_axis_counted_from_front=lambda q, k, v, e, f: attention(q, e @ k, f @ v, axis=1),
        one_maximum_all_rows=lambda q, k, v, e, f: one_maximum(q @ (e @ k).mT / math.sqrt(q.shape[-1])) @ (f @ v),
        sequences_batch_mixed_by_reshape=batch_mixed_by_a_reshape,
        exponentials_out_range=Wrong(summary_of_powers, recognise=_summary_overflowed),
    ),
)
