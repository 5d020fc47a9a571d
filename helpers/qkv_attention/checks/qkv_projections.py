"""The check of `qkv_projections`."""

import math

import torch
from torch import Tensor

from helpers.engine import common_misconceptions
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention

__all__ = ["qkv_projections"]


def projections_from_the_left(x, w_q, w_k, w_v) -> tuple[Tensor, Tensor, Tensor]:
    return w_q @ x, w_k @ x, w_v @ x


def projected_with_a_batch_axis_or_none(x, w_q, w_k, w_v) -> tuple:
    rows = "bnd,dk->bnk" if x.dim() > 2 else "nd,dk->nk"
    return tuple(torch.einsum(rows, x, w) for w in (w_q, w_k, w_v))


qkv_projections = Check(
    reference=attention.qkv_projections,
    names=("Q", "K", "V"),
    cases=[
        random_case(n=3, d=4, d_k=2, d_v=5),
        random_case(n=3, d=3, d_k=3, d_v=3),
        random_case(batch=(2, 3), n=4, d=5, d_k=3, d_v=2, dtype=torch.float64),
        random_case(batch=(4,), n=1, d=3, d_k=1, d_v=3, label="one token, d_k = 1, a batch of 4"),
    ],
    misconceptions=wrong_answers(
        __file__,
        common_misconceptions.in_single_precision(attention.qkv_projections),
        w_x_instead_x_w=Wrong(projections_from_the_left, raises="RuntimeError"),
        transposed_weights=Wrong(lambda x, w_q, w_k, w_v: (x @ w_q.mT, x @ w_k.mT, x @ w_v.mT), raises="RuntimeError"),
        one_weight_shared_by_all_three=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_q),
        queries_keys_swapped=lambda x, w_q, w_k, w_v: (x @ w_k, x @ w_q, x @ w_v),
        values_from_keys_weight=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x @ w_k),
        keys_from_queries_weight=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_v),
        keys_values_swapped=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_v, x @ w_k),
        batch_axes_flattened=lambda x, w_q, w_k, w_v: tuple(x.reshape(-1, x.shape[-1]) @ w for w in (w_q, w_k, w_v)),
        three_equal_parts_one_product=lambda x, w_q, w_k, w_v: (x @ torch.cat([w_q, w_k, w_v], -1)).chunk(3, -1),
        exactly_one_batch_axis=Wrong(
            lambda x, w_q, w_k, w_v: tuple(torch.einsum("bnd,dk->bnk", x, w) for w in (w_q, w_k, w_v)),
            raises="RuntimeError",
        ),
        queries_scaled_already=lambda x, w_q, w_k, w_v: (x @ w_q / math.sqrt(w_q.shape[-1]), x @ w_k, x @ w_v),
        one_batch_axis_at_most=Wrong(projected_with_a_batch_axis_or_none, raises="RuntimeError"),
        no_batch_axis=Wrong(
            lambda x, w_q, w_k, w_v: tuple(torch.einsum("nd,dk->nk", x, w) for w in (w_q, w_k, w_v)),
            raises="RuntimeError",
        ),
    ),
)
