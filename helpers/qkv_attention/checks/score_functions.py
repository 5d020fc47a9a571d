"""The check of `score_functions`."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import axes_of_size_1_dropped, in_single_precision, power_before_division
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
    cases=(
        *WIDE,
        random_case(n=2, m=4, d=5, scale=1e-3, label="vectors of length 0.002"),
        random_case(n=3, m=2, d=5, dtype=torch.float16, label="float16"),
        random_case(n=4, m=6, d=5, scale=1e-3, dtype=torch.float16, label="float16, vectors of length 0.002"),
    ),
    misconceptions=wrong_answers(
        __file__,
        axes_of_size_1_dropped(scores.cosine_score),
        in_single_precision(scores.cosine_score),
        norms_left_out=lambda q, k: q @ k.mT,
        keys_norm_left_out=lambda q, k: (q @ k.mT) / q.norm(dim=-1, keepdim=True),
        querys_norm_left_out=lambda q, k: (q @ k.mT) / k.norm(dim=-1),
        norm_whole_matrix=lambda q, k: (q @ k.mT) / (q.norm() * k.norm()),
        norms_columns=lambda q, k: (q / q.norm(dim=0)) @ (k / k.norm(dim=0)).mT,
        squared_norms=lambda q, k: (q @ k.mT) / ((q * q).sum(-1)[:, None] * (k * k).sum(-1)),
        squares_short_vectors_half_precision=Wrong(
            lambda q, k: (q @ k.mT) / (q.norm(dim=-1)[:, None] * k.norm(dim=-1)), recognise=_lost_in_half_precision
        ),
        constant_added_norms=Wrong(
            lambda q, k: (q @ k.mT) / (q.norm(dim=-1)[:, None] * k.norm(dim=-1) + 1e-6),
            recognise=_constant_beside_the_norms,
        ),
        result_transposed=lambda q, k: scores.cosine_score(k, q),
        sum_entries_norm=lambda q, k: (q @ k.mT) / (q.abs().sum(-1)[:, None] * k.abs().sum(-1)),
    ),
    forbids=["cosine_similarity"],
)


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
        random_case(n=3, m=5, d_q=4, d_k=2, a=6),
        random_case(n=4, m=3, d_q=3, d_k=3, a=3),
        random_case(n=1, m=4, d_q=2, d_k=3, a=5),
        random_case(n=3, m=3, d_q=3, d_k=2, a=4),
        random_case(n=2, m=4, d_q=3, d_k=5, a=6, dtype=torch.float64),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(scores.additive_score),
        tanh_after_v=tanh_after_v,
        relu_instead_tanh=lambda q, k, w_q, w_k, v: torch.relu((q @ w_q)[:, None] + (k @ w_k)[None]) @ v,
        no_tanh=no_tanh,
        tanh_each_term_by_itself=tanh_of_each_term,
        projections_multiplied=product_of_projections,
        row_i_paired_with_row_i=Wrong(paired_off, raises="RuntimeError"),
        result_transposed=lambda q, k, w_q, w_k, v: scores.additive_score(k, q, w_k, w_q, v),
        axes_size_1_dropped=one_axis_dropped,
        hidden_units_added_up_without_v=lambda q, k, w_q, w_k, v: torch.tanh((q @ w_q)[:, None] + (k @ w_k)[None]).sum(
            -1
        ),
        weights_instead_scores=lambda q, k, w_q, w_k, v: scores.additive_score(q, k, w_q, w_k, v).softmax(-1),
    ),
)

location_score = Check(
    reference=scores.location_score,
    names=("scores: queries positions",),
    cases=[
        random_case(n=3, d=4, m=5),
        random_case(n=2, d=3, m=3),
        random_case(n=1, d=2, m=1),
        random_case(n=4, d=2, m=5, dtype=torch.float64),
    ],
    misconceptions=wrong_answers(
        __file__,
        axes_of_size_1_dropped(scores.location_score),
        in_single_precision(scores.location_score),
        weights_instead_scores_2=lambda q, w: torch.softmax(q @ w, dim=-1),
        transposed_w=Wrong(lambda q, w: q @ w.mT, raises="RuntimeError"),
        result_transposed_2=lambda q, w: (q @ w).mT.contiguous(),
    ),
)

general_score = Check(
    reference=scores.general_score,
    cases=[
        random_case(n=3, d_q=4, d_k=2, m=5),
        random_case(n=3, d_q=3, d_k=3, m=4),
        random_case(n=1, d_q=2, d_k=3, m=1),
        random_case(n=2, d_q=5, d_k=3, m=4, dtype=torch.float64),
    ],
    misconceptions=wrong_answers(
        __file__,
        axes_of_size_1_dropped(scores.general_score),
        in_single_precision(scores.general_score),
        transposed_w_2=Wrong(lambda q, w, k: q @ w.mT @ k.mT, raises="RuntimeError"),
        w_left_out=Wrong(lambda q, w, k: q @ k.mT, raises="RuntimeError"),
        tanh_between=lambda q, w, k: torch.tanh(q @ w) @ k.mT,
        weights_instead_scores_3=lambda q, w, k: torch.softmax(q @ w @ k.mT, dim=-1),
        result_transposed=lambda q, w, k: (q @ w @ k.mT).mT.contiguous(),
    ),
)

dot_score = Check(
    reference=scores.dot_score,
    cases=WIDE,
    misconceptions=wrong_answers(
        __file__,
        axes_of_size_1_dropped(scores.dot_score),
        in_single_precision(scores.dot_score),
        result_transposed=lambda q, k: k @ q.mT,
        weights_instead_scores_4=lambda q, k: torch.softmax(q @ k.mT, dim=-1),
    ),
)

scaled_dot_score = Check(
    reference=scores.scaled_dot_score,
    cases=WIDE,
    misconceptions=wrong_answers(
        __file__,
        power_before_division(scores.scaled_dot_score),
        axes_of_size_1_dropped(scores.scaled_dot_score),
        in_single_precision(scores.scaled_dot_score),
        no_scale=lambda q, k: q @ k.mT,
        scaled_by_d_instead_root_d=lambda q, k: q @ k.mT / q.shape[-1],
        multiplied_by_root_d=lambda q, k: q @ k.mT * math.sqrt(q.shape[-1]),
        root_d_cut_whole_number=lambda q, k: q @ k.mT / math.isqrt(q.shape[-1]),
        scaled_by_number_keys=lambda q, k: q @ k.mT / math.sqrt(len(k)),
        scaled_by_number_queries=lambda q, k: q @ k.mT / math.sqrt(len(q)),
        result_transposed=lambda q, k: scores.scaled_dot_score(k, q),
        weights_instead_scores=lambda q, k: scores.scaled_dot_score(q, k).softmax(-1),
    ),
)

score_functions = CheckGroup(
    "score_functions", cosine_score, additive_score, location_score, general_score, dot_score, scaled_dot_score
)
