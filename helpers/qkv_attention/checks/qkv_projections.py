"""The check of `qkv_projections`: queries, keys and values of the same tokens."""

import math
from collections.abc import Callable

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention

__all__ = ["qkv_projections"]


def _each(project: Callable) -> Callable:
    return lambda x, *weights: tuple(project(x, w) for w in weights)


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
        in_single_precision(attention.qkv_projections),
        w_x=Wrong(_each(lambda x, w: w @ x), raises="RuntimeError"),
        transposed=Wrong(_each(lambda x, w: x @ w.mT), raises="RuntimeError"),
        one_weight=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_q),
        q_and_k_swapped=lambda x, w_q, w_k, w_v: (x @ w_k, x @ w_q, x @ w_v),
        v_from_w_k=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x @ w_k),
        k_from_w_q=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_v),
        k_and_v_swapped=lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_v, x @ w_k),
        flattened=_each(lambda x, w: x.reshape(-1, x.shape[-1]) @ w),
        equal_parts=lambda x, w_q, w_k, w_v: (x @ torch.cat([w_q, w_k, w_v], -1)).chunk(3, -1),
        one_batch_axis=Wrong(_each(lambda x, w: torch.einsum("bnd,dk->bnk", x, w)), raises="RuntimeError"),
        scaled=lambda x, w_q, w_k, w_v: (x @ w_q / math.sqrt(w_q.shape[-1]), x @ w_k, x @ w_v),
        one_batch_axis_at_most=Wrong(
            _each(lambda x, w: torch.einsum("bnd,dk->bnk" if x.dim() > 2 else "nd,dk->nk", x, w)), raises="RuntimeError"
        ),
        no_batch_axis=Wrong(_each(lambda x, w: torch.einsum("nd,dk->nk", x, w)), raises="RuntimeError"),
    ),
)
