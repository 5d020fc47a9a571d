"""The check of `grouped_query_attention`: several query heads share one head of keys and values."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision, power_before_division
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, Sizes, attend
from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..grouped_query import grouped_query_attention as reference
from .heads import AS_PRECISE, causal, cut_off

__all__ = ["grouped_query_attention"]


def neighbours(shared, h) -> Tensor:
    return shared.repeat_interleave(h // shared.shape[1], dim=1)


def in_turn(shared, h) -> Tensor:
    return shared.repeat(1, h // shared.shape[1], 1, 1)


@dataclass(frozen=True)
class Grouped(Attention):
    """The steps of attention, and how query heads and those of keys and values meet."""

    queries: Callable = lambda q, h_kv: q
    keys: Callable = neighbours  # (b, h_kv, m, d_h) → (b, h, m, d_h)
    values: Callable = neighbours
    output: Callable = lambda heads, h, h_kv: heads


@composable
def grouped(copied: Callable | None = None, **changed: Callable) -> Callable[..., Tensor]:
    """The answer with these steps changed. copied: that of keys and values."""
    steps = Grouped(**changed | ({"keys": copied, "values": copied} if copied else {}))

    def answer(q, k, v) -> Tensor:
        (_, h, _, d_h), h_kv = q.shape, k.shape[1]
        inputs = steps.queries(q, h_kv), steps.keys(k, h), steps.values(v, h)
        return steps.output(attend(steps, *inputs, None, Sizes(d_h, h * d_h, h))[0], h, h_kv)

    return answer


def group_of(h, h_kv) -> Tensor:
    """As if h_kv were the size of a group."""
    return torch.arange(h) // h_kv


def one_softmax(q, k, v) -> Tensor:
    size = q.shape[1] // k.shape[1]
    scores = (q @ neighbours(k, q.shape[1]).mT / math.sqrt(q.shape[-1])).unflatten(
        1, (-1, size)
    )  # (b, h_kv, size, n, m)
    shares = torch.softmax(scores.movedim(2, -2).flatten(-2), dim=-1).unflatten(-1, (size, -1)).movedim(-2, 2)
    return shares.flatten(1, 2) @ neighbours(v, q.shape[1])


def softmax_along(q, k, v, axis=-2) -> Tensor:
    """Of the scores (b, h_kv, h / h_kv, n, m)."""
    scores = q.unflatten(1, (k.shape[1], -1)) @ k.unsqueeze(2).mT / math.sqrt(q.shape[-1])
    return (scores.softmax(axis) @ v.unsqueeze(2)).flatten(1, 2)


OTHER_AXES = [grouped(normalise=lambda hidden, mask, scores: hidden.softmax(1))]
OTHER_AXES += [partial(softmax_along, axis=axis) for axis in range(4)]
FLOAT64 = {"dtype": torch.float64}


def _rows_apart(*shape: int) -> RandomArg:
    """Queries with entries near 9 and near −9, in turn."""
    signs = 1 - 2 * (torch.arange(shape[-2]) % 2)[:, None]
    return RandomArg(lambda generator: signs * (9 + torch.randn(shape, generator=generator)))


grouped_query_attention = Check(
    reference=reference,
    cases=[
        random_case(b=2, h=6, h_kv=2, n=5, m=7, d_h=4, label="6 query heads, 2 key/value heads"),
        random_case(label="6 query heads, 3 key/value heads, in float64", b=2, h=6, h_kv=3, n=4, m=5, d_h=3, **FLOAT64),
        random_case(b=3, h=4, h_kv=1, n=4, m=6, d_h=5, label="one key/value head: multi-query attention"),
        random_case(b=2, h=4, h_kv=4, n=3, m=5, d_h=6, label="as many as query heads: multi-head attention"),
        random_case(b=1, h=8, h_kv=2, n=3, m=4, d_h=8, scale=3.0, label="large scores"),
        random_case(
            label="4 key/value heads: gradients, in float64",
            b=2,
            h=8,
            h_kv=4,
            n=3,
            m=4,
            d_h=3,
            gradient=True,
            **FLOAT64,
        ),
        explicit_case(
            "scores near 160 and −160", _rows_apart(2, 4, 3, 4), normal(2, 2, 5, 4, mean=9.0), normal(2, 2, 5, 4)
        ),
        on_levels(random_case(b=2, h=4, h_kv=2, n=3, m=5, d_h=4, **FLOAT64), -800.0),
    ],
    properties=[AS_PRECISE],
    misconceptions=wrong_answers(
        __file__,
        cut_off(reference),
        power_before_division(reference),
        in_single_precision(reference),
        *slips(grouped, Scale.none, Scale.by_root_of_token_width, Scale.after_softmax),
        *slips(grouped, Softmax.no_maximum, Softmax.one_maximum, Softmax.clamped),
        kv_cut_off=lambda q, k, v: reference(q, k.detach(), v.detach()),
        in_turn=grouped(in_turn),
        values_in_turn=grouped(values=in_turn),
        queries_in_turn=grouped(queries=lambda q, h_kv: q.unflatten(1, (-1, h_kv)).transpose(1, 2).flatten(1, 2)),
        output_in_turn=grouped(
            output=lambda heads, h, h_kv: heads.unflatten(1, (h_kv, -1)).transpose(1, 2).flatten(1, 2)
        ),
        reversed=grouped(lambda shared, h: neighbours(shared.flip(1), h)),
        groups_of_h_kv=Wrong(grouped(lambda shared, h: shared[:, group_of(h, shared.shape[1])]), raises="IndexError"),
        runs_of_h_kv=grouped(lambda shared, h: shared[:, group_of(h, shared.shape[1]).clamp(max=shared.shape[1] - 1)]),
        copied_h_kv_times=Wrong(
            grouped(lambda shared, h: shared.repeat_interleave(shared.shape[1], dim=1)), raises="RuntimeError"
        ),
        expanded=Wrong(
            grouped(lambda shared, h: shared.expand(len(shared), h, *shared.shape[2:])), raises="RuntimeError"
        ),
        not_copied=Wrong(grouped(lambda shared, h: shared), raises="RuntimeError"),
        first_for_all=grouped(lambda shared, h: shared[:, :1]),
        averaged=grouped(lambda shared, h: shared.mean(dim=1, keepdim=True)),
        queries_averaged=grouped(
            lambda shared, h: shared,
            queries=lambda q, h_kv: q.unflatten(1, (h_kv, -1)).mean(dim=2),
            output=lambda heads, h, h_kv: heads.repeat_interleave(h // h_kv, dim=1),
        ),
        queries_left_over=grouped(lambda shared, h: shared, queries=lambda q, h_kv: q[:, :h_kv]),
        one_softmax=one_softmax,
        another_axis=Wrong(softmax_along, variants=tuple(OTHER_AXES)),
        causal=grouped(scale=causal),
    ),
    within={torch.float32: (1e-4, 1e-4)},
    forbids=NO_FUSED_ATTENTION,
)
