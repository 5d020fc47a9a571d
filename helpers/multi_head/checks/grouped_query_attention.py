"""Checks of attention in which several query heads share one head of keys and values."""

import math
from functools import partial

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import (
    LIMITS,
    NO_FUSED_ATTENTION,
    attention,
    in_single_precision,
    power_before_division,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import grouped_query
from .heads import AS_PRECISE, cut_off

__all__ = ["grouped_query_attention"]


def heads_dealt_out_in_turn(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    return attention(q, k.repeat(1, size, 1, 1), v.repeat(1, size, 1, 1))


def groups_of_h_kv_heads(q, k, v) -> Tensor:
    index = torch.arange(q.shape[1]) // k.shape[1]  # more than there are, where a group is larger than h_kv
    return attention(q, k[:, index], v[:, index])


def values_dealt_out_in_turn(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    return attention(q, k.repeat_interleave(size, dim=1), v.repeat(1, size, 1, 1))


def groups_in_reverse(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    return attention(q, k.flip(1).repeat_interleave(size, dim=1), v.flip(1).repeat_interleave(size, dim=1))


def query_heads_averaged(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    mean = q.unflatten(1, (-1, size)).mean(dim=2)
    return attention(mean, k, v).repeat_interleave(size, dim=1)


def without_scale(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1)
    return torch.softmax(q @ k.mT, dim=-1) @ v


def scaled_by_the_whole_width(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1)
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[1] * q.shape[-1]), dim=-1) @ v


def one_softmax_for_a_group(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).unflatten(1, (-1, size))  # (b, h_kv, size, n, m)
    shares = torch.softmax(scores.movedim(2, -2).flatten(-2), dim=-1).unflatten(-1, (size, -1)).movedim(-2, 2)
    return shares.flatten(1, 2) @ v


def softmax_along(q, k, v, axis=-2) -> Tensor:
    """Of the scores (b, h_kv, h / h_kv, n, m)."""
    grouped = q.unflatten(1, (k.shape[1], -1))
    scores = grouped @ k.unsqueeze(2).mT / math.sqrt(q.shape[-1])
    return (scores.softmax(axis) @ v.unsqueeze(2)).flatten(1, 2)


def softmax_along_all_heads(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    return attention(q, k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1), axis=1)


def _another_axis(seen) -> bool:
    """A mark: the softmax along an axis that isn't the keys'."""
    others = (softmax_along_all_heads, *(partial(softmax_along, axis=axis) for axis in range(4)))
    return any(agree(seen.output, wrong(*seen.args), tolerance(seen.args)) for wrong in others)


def copied_h_kv_times(q, k, v) -> Tensor:
    return attention(q, k.repeat_interleave(k.shape[1], dim=1), v.repeat_interleave(k.shape[1], dim=1))


def runs_of_h_kv_heads(q, k, v) -> Tensor:
    index = (torch.arange(q.shape[1]) // k.shape[1]).clamp(max=k.shape[1] - 1)
    return attention(q, k[:, index], v[:, index])


def groups_swapped_in_the_output(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    right = attention(q, k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1))
    return right.unflatten(1, (-1, size)).transpose(1, 2).flatten(1, 2)


def expanded(q, k, v) -> Tensor:
    b, h, _, d_h = q.shape
    return attention(q, k.expand(b, h, k.shape[2], d_h), v.expand(b, h, k.shape[2], d_h))


def causal(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    earlier = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    return attention(q, k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1), mask=earlier)


def powers(q, k, v, largest=torch.zeros_like) -> Tensor:
    size = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    shares = torch.exp(scores - largest(scores))
    return shares @ v / shares.sum(dim=-1, keepdim=True)


def clamped(q, k, v, most=50.0) -> Tensor:
    size = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(size, dim=1).mT / math.sqrt(q.shape[-1])
    return torch.softmax(scores.clamp(-most, most), dim=-1) @ v.repeat_interleave(size, dim=1)


def _clamped(seen) -> bool:
    """A mark: some usual limit on the scores."""
    within, right = tolerance(seen.args), grouped_query.grouped_query_attention(*seen.args)
    return not agree(seen.output, right, within) and any(
        agree(seen.output, clamped(*seen.args, most), within) for most in LIMITS
    )


def not_copied(q, k, v) -> Tensor:
    return attention(q, k, v)


def queries_dealt_out(q, k, v) -> Tensor:
    grouped = q.unflatten(1, (-1, k.shape[1])).transpose(1, 2)  # (b, h_kv, size, n, d_h)
    return attention(grouped, k.unsqueeze(2), v.unsqueeze(2)).flatten(1, 2)


def _rows_apart(*shape: int) -> RandomArg:
    """Queries with entries near 9 and near −9, in turn."""
    signs = 1 - 2 * (torch.arange(shape[-2]) % 2)[:, None]
    return RandomArg(lambda generator: signs * (9 + torch.randn(shape, generator=generator)))


grouped_query_attention = Check(
    reference=grouped_query.grouped_query_attention,
    cases=[
        random_case(b=2, h=6, h_kv=2, n=5, m=7, d_h=4, label="6 query heads, 2 key/value heads"),
        random_case(
            b=2, h=6, h_kv=3, n=4, m=5, d_h=3, dtype=torch.float64, label="6 query heads, 3 key/value heads, in float64"
        ),
        random_case(b=3, h=4, h_kv=1, n=4, m=6, d_h=5, label="one key/value head: multi-query attention"),
        random_case(b=2, h=4, h_kv=4, n=3, m=5, d_h=6, label="as many as query heads: multi-head attention"),
        random_case(b=1, h=8, h_kv=2, n=3, m=4, d_h=8, scale=3.0, label="large scores"),
        random_case(
            b=2,
            h=8,
            h_kv=4,
            n=3,
            m=4,
            d_h=3,
            dtype=torch.float64,
            gradient=True,
            label="4 key/value heads: gradients, in float64",
        ),
        explicit_case(
            "scores near 160 and −160", _rows_apart(2, 4, 3, 4), normal(2, 2, 5, 4, mean=9.0), normal(2, 2, 5, 4)
        ),
        on_levels(random_case(b=2, h=4, h_kv=2, n=3, m=5, d_h=4, dtype=torch.float64), -800.0),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        cut_off(grouped_query.grouped_query_attention),
        power_before_division(grouped_query.grouped_query_attention),
        in_single_precision(grouped_query.grouped_query_attention),
        keys_values_cut_off_from_gradient=lambda q, k, v: grouped_query.grouped_query_attention(
            q, k.detach(), v.detach()
        ),
        scale_after_softmax=lambda q, k, v: without_scale(q, k, v) / math.sqrt(q.shape[-1]),
        heads_dealt_out_turn=heads_dealt_out_in_turn,
        groups_h_kv_heads=Wrong(groups_of_h_kv_heads, raises="IndexError"),
        values_dealt_out_turn=values_dealt_out_in_turn,
        groups_reverse_order=groups_in_reverse,
        first_key_over_value_head_all=lambda q, k, v: attention(q, k[:, :1], v[:, :1]),
        key_over_value_heads_averaged=lambda q, k, v: attention(
            q, k.mean(dim=1, keepdim=True), v.mean(dim=1, keepdim=True)
        ),
        query_heads_averaged_within_group=query_heads_averaged,
        query_heads_left_over=lambda q, k, v: attention(q[:, : k.shape[1]], k, v),
        one_softmax_whole_group=one_softmax_for_a_group,
        no_scale=without_scale,
        scaled_by_width_all_heads=scaled_by_the_whole_width,
        key_over_value_heads_copied_h_kv_times=Wrong(copied_h_kv_times, raises="RuntimeError"),
        runs_h_kv_heads_rest_last=runs_of_h_kv_heads,
        heads_output_another_order=groups_swapped_in_the_output,
        expand_any_number_heads=Wrong(expanded, raises="RuntimeError"),
        key_over_value_heads_as_they=Wrong(not_copied, raises="RuntimeError"),
        exponentials_scores_as_they=powers,
        one_largest_score_all_rows=lambda q, k, v: powers(q, k, v, Tensor.max),
        clamped_scores=Wrong(clamped, recognise=_clamped),
        causal_mask_that_nobody_asked=causal,
        softmax_along_another_axis_than_keys=Wrong(softmax_along, recognise=_another_axis),
        query_heads_dealt_out_groups_turn=queries_dealt_out,
    ),
    within={torch.float32: (1e-4, 1e-4)},
    forbids=NO_FUSED_ATTENTION,
)
