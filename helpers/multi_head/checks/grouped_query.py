"""Checks of attention in which several query heads share one head of keys and values."""

import math
from functools import partial

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import (
    CLAMPED,
    LIMITS,
    NO_FUSED_ATTENTION,
    attention,
    in_single_precision,
    power_before_division,
)
from helpers.engine.compare import agree, tolerance

from .. import grouped_query
from .heads import AS_PRECISE, FAR_BELOW, SCALED_TOO_LATE, cut_off

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
        random_case(b=2, h=6, h_kv=3, n=4, m=5, d_h=3, dtype=torch.float64, label="6 query heads, 3 key/value heads, in float64"),
        random_case(b=3, h=4, h_kv=1, n=4, m=6, d_h=5, label="one key/value head: multi-query attention"),
        random_case(b=2, h=4, h_kv=4, n=3, m=5, d_h=6, label="as many as query heads: multi-head attention"),
        random_case(b=1, h=8, h_kv=2, n=3, m=4, d_h=8, scale=3.0, label="large scores"),
        random_case(b=2, h=8, h_kv=4, n=3, m=4, d_h=3, dtype=torch.float64, gradient=True, label="4 key/value heads: gradients, in float64"),
        explicit_case("scores near 160 and −160", _rows_apart(2, 4, 3, 4), normal(2, 2, 5, 4, mean=9.0), normal(2, 2, 5, 4)),
        on_levels(random_case(b=2, h=4, h_kv=2, n=3, m=5, d_h=4, dtype=torch.float64), -800.0),
    ],
    properties=[AS_PRECISE],
    misconceptions=[
        cut_off(grouped_query.grouped_query_attention),
        Misconception(
            "keys and values cut off from the gradient",
            lambda q, k, v: grouped_query.grouped_query_attention(q, k.detach(), v.detach()),
            "The values are right, but no gradient reaches k and v. The heads that are shared must learn from all queries that share them: copy with "
            "`repeat_interleave` or `expand`, and without `.data`.",
        ),
        Misconception(
            "the scale after the softmax", lambda q, k, v: without_scale(q, k, v) / math.sqrt(q.shape[-1]), SCALED_TOO_LATE,
        ),
        Misconception(
            "heads dealt out in turn", heads_dealt_out_in_turn,
            "With 6 query heads and 2 key/value heads, you pair them 0 1 0 1 0 1 (as `repeat` does). A group is a run of neighbours: 0 0 0 1 1 1.",
        ),
        Misconception(
            "groups of h_kv heads", groups_of_h_kv_heads,
            "h_kv is the number of groups. The size of a group is h / h_kv, so query head i belongs to group i // (h / h_kv).",
            raises="IndexError",
        ),
        Misconception(
            "values dealt out in turn", values_dealt_out_in_turn,
            "The keys are in the right groups. The values belong to those keys and must be copied in the same order.",
        ),
        Misconception(
            "groups in reverse order", groups_in_reverse,
            "The first query heads use key/value head 0, the last ones use the last.",
        ),
        Misconception(
            "the first key/value head for all", lambda q, k, v: attention(q, k[:, :1], v[:, :1]),
            "Your query heads all use key/value head 0: that is multi-query attention. Here there are h_kv key/value heads, one for each group of query heads.",
        ),
        Misconception(
            "key/value heads averaged",
            lambda q, k, v: attention(q, k.mean(dim=1, keepdim=True), v.mean(dim=1, keepdim=True)),
            "Averaging is a way to convert a trained multi-head layer. In the layer itself each group uses its own key/value head as it is.",
        ),
        Misconception(
            "query heads averaged within a group", query_heads_averaged,
            "The query heads of a group share keys and values, but each asks its own question and has an output of its own.",
        ),
        Misconception(
            "query heads left over", lambda q, k, v: attention(q[:, : k.shape[1]], k, v),
            "All h query heads are used: the output has as many heads as q.",
        ),
        Misconception(
            "one softmax for a whole group", one_softmax_for_a_group,
            "Query heads share keys, not attention: each of them has one unit of its own to share out.",
        ),
        Misconception("no scale", without_scale, "Each head is a scaled dot-product attention: divide its scores by √d_h."),
        Misconception(
            "scaled by the width of all heads", scaled_by_the_whole_width,
            "A score is a dot product of d_h terms, the width of one head.",
        ),
        Misconception(
            "key/value heads copied h_kv times", copied_h_kv_times,
            "h_kv heads are to become h: each is used h / h_kv times, the size of a group.",
            raises="RuntimeError",
        ),
        Misconception(
            "runs of h_kv heads, the rest to the last", runs_of_h_kv_heads,
            "A group has h / h_kv query heads, not h_kv: query head i belongs to group i // (h / h_kv).",
        ),
        Misconception(
            "heads of the output in another order", groups_swapped_in_the_output,
            "Each head is right, but they come back in another order than the queries. Join the two axes (h_kv, h / h_kv) as they stand.",
        ),
        Misconception(
            "expand for any number of heads", expanded,
            "`expand` repeats axes of size 1 only: that does for one key/value head, or for h of them. In between each must be copied, or the "
            "queries grouped.",
            raises="RuntimeError",
        ),
        Misconception(
            "key/value heads as they are", not_copied,
            "h query heads can't meet h_kv key heads one by one. Each key/value head serves a run of h / h_kv query heads.",
            raises="RuntimeError",
        ),
        Misconception(
            "exponentials of scores as they are", powers,
            "Large scores overflow: e¹⁰⁰ is infinite in float32. Subtract the largest score of each row first, as in unit 02, or use "
            "`torch.softmax`.",
        ),
        Misconception(
            "one largest score for all rows", lambda q, k, v: powers(q, k, v, Tensor.max),
            FAR_BELOW,
        ),
        Misconception("clamped scores", clamped, CLAMPED, _clamped),
        Misconception(
            "a causal mask that nobody asked for", causal,
            "Nobody asks for a mask here: every query sees all m keys, later ones too.",
        ),
        power_before_division(grouped_query.grouped_query_attention),
        in_single_precision(grouped_query.grouped_query_attention),
        Misconception(
            "softmax along another axis than the keys", softmax_along,
            "Each query has one unit of attention to share out over the keys, and these are the last axis of the scores. An axis for the groups moves the others "
            "one place on, so count from the right: `dim=-1`.",
            _another_axis,
        ),
        Misconception(
            "query heads dealt out to the groups in turn", queries_dealt_out,
            "The h query heads are cut into (h_kv, h / h_kv), in this order: neighbours share a key/value head.",
        ),
    ],
    within={torch.float32: (1e-4, 1e-4)},
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip
