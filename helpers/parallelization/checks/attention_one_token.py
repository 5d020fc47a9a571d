"""The check of `attention_one_token`: one token's output, then all of them without a loop."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import (
    NO_FUSED_ATTENTION,
    axes_of_size_1_dropped,
    constant_in_the_denominator,
    in_single_precision,
)
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import attention
from helpers.engine.answers.table import Table
from helpers.engine.cases import RandomArg, explicit_case, on_levels, random_case, whole
from helpers.engine.check import Behaviour, Check, CheckGroup
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import parallel
from .parallel import _near, _overflowed, _scaled_by_values

__all__ = ["attention_one_token"]


def _weights(query, k) -> Tensor:
    return torch.softmax(k @ query / math.sqrt(len(query)), dim=0)


def _one_row_of_zeros(*shape: int) -> RandomArg:
    """Whole numbers, with a query of zeros among the large ones: its scores are all 0."""

    def make(generator: Generator) -> Tensor:
        rows = whole(*shape).make(generator)
        rows[1] = 0
        return rows

    return RandomArg(make)


@composable
def token(**changed: Callable) -> Callable:
    """Attention of token i with these steps changed."""
    all_tokens = attention(**changed)
    return lambda q, k, v, i: all_tokens(q[i : i + 1], k, v)[0]


def as_many_keys_as_queries(q, k, v, i) -> Tensor:
    scores = torch.stack([q[i] @ k[j] for j in range(len(q))]) / math.sqrt(q.shape[1])
    return torch.softmax(scores, dim=0) @ v[: len(q)]


def last_key_left_out(q, k, v, i) -> Tensor:
    return torch.softmax(torch.stack([q[i] @ key / math.sqrt(q.shape[1]) for key in k[:-1]]), dim=0) @ v[:-1]


def running_maximum(q, k, v, i) -> Tensor:
    top, total, output = -math.inf, 0.0, torch.zeros_like(v[0])
    for key, value in zip(k, v):
        score = q[i] @ key / math.sqrt(q.shape[1])
        top = max(top, score.item())
        total, output = total + torch.exp(score - top), output + torch.exp(score - top) * value
    return output / total


one_token = Check(
    reference=parallel.attention_one_token,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3, i=2, label="token 2 of 5, 7 keys"),
        random_case(n=6, m=6, d=3, d_v=3, i=5, label="the last token of 6"),
        random_case(n=4, m=9, d=16, d_v=2, i=0, dtype=torch.float64, label="the first token of 4, 9 keys, in float64"),
        explicit_case("large scores", _near(7, 3, 9), _near(7, 5, 9), _near(0, 5, 4), 1),
        random_case(n=8, m=5, d=3, d_v=4, i=6, dtype=torch.float64, label="more tokens than keys, in float64"),
        explicit_case("scores of some hundred", whole(4, 4), whole(6, 4), _near(0, 6, 3), 2),
        random_case(n=3, m=1, d=4, d_v=2, i=1, label="a single key"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, i=1, dtype=torch.float64), -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        *slips(token, Scale.power_before_division, Scale.by_root_of_another_number),
        constant_in_the_denominator(parallel.attention_one_token),
        in_single_precision(parallel.attention_one_token),
        *slips(token, Scale.none, Softmax.never_normalised, Softmax.clamped),
        *slips(token, Softmax.no_maximum, recognise=_overflowed),
        key_for_query=Wrong(lambda q, k, v, i: _weights(k[i], k) @ v, raises="IndexError"),
        keys_up_to_i=lambda q, k, v, i: _weights(q[i], k[: i + 1]) @ v[: i + 1],
        first_token=lambda q, k, v, i: _weights(q[0], k) @ v,
        sum_missing=token(normalise=lambda scores, *_: torch.exp(scores)),
        each_by_itself=lambda q, k, v, i: v.sum(dim=0),
        last_value_only=lambda q, k, v, i: _weights(q[i], k)[-1] * v[-1],
        last_key_left_out=Wrong(last_key_left_out, raises="RuntimeError"),
        token_before=lambda q, k, v, i: _weights(q[i - 1], k) @ v,
        second_mean=lambda q, k, v, i: _weights(q[i], k) @ v / len(k),
        as_many_keys_as_queries=Wrong(as_many_keys_as_queries, raises="IndexError"),
        first_n_keys=lambda q, k, v, i: _weights(q[i], k[: len(q)]) @ v[: len(q)],
        running_maximum=running_maximum,
        by_values_width=lambda q, k, v, i: _weights(_scaled_by_values(q, v)[i], k) @ v,
    ),
    forbids=NO_FUSED_ATTENTION,
)

FEW_SCORES = 35  # so few may be computed one by one


def _in_python(seen: Observation) -> bool:
    """Whether the scores never stood in a tensor: as Python numbers they would escape the count of operations."""
    q, k = seen.args[:2]
    return seen.largest < len(q) * len(k)


def tokens_in_a_loop(q, k, v) -> Tensor:
    return torch.stack([_weights(query, k) @ v for query in q])


def column_maximum(scores, *_) -> Tensor:
    powers = torch.exp(scores - scores.amax(0, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


LOOP_FREE = 40  # tensor operations: einsum needs about 25; a loop over 12 tokens at least 60

attention_all_tokens = Check(
    reference=parallel.attention_all_tokens,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3, dtype=torch.float64),
        random_case(n=16, m=16, d=4, d_v=4, max_operations=LOOP_FREE),
        random_case("large scores", n=12, m=18, d=9, d_v=4, scale=4, dtype=torch.float64, max_operations=LOOP_FREE),
        random_case(n=600, m=5, d=3, d_v=2, max_operations=LOOP_FREE, label=f"600 tokens in {LOOP_FREE} operations"),
        explicit_case("one query of zeros among large ones", _one_row_of_zeros(5, 4), whole(7, 4), _near(0, 7, 3)),
        random_case(n=4, m=6, d=3, d_v=5, dtype=torch.float64, label="n = 4, m = 6, in float64"),
        random_case(n=1, m=6, d=3, d_v=5, label="a single token"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, dtype=torch.float64), -800.0),
        on_levels(random_case(n=5, m=4, d=3, d_v=2, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        *slips(attention, Scale.power_before_division, Scale.by_root_of_another_number),
        axes_of_size_1_dropped(parallel.attention_all_tokens),
        constant_in_the_denominator(parallel.attention_all_tokens),
        in_single_precision(parallel.attention_all_tokens),
        *slips(attention, Scale.none, Scale.after_softmax),
        *slips(attention, Softmax.over_queries, Softmax.never_normalised, Softmax.one_maximum, Softmax.clamped),
        *slips(attention, Softmax.no_maximum, recognise=_overflowed),
        *slips(attention, Table.keys_reshaped, Table.by_keys, Table.one_softmax, Table.sum_without_axis),
        *slips(attention, Table.later_hidden, Table.weights_returned),
        loop=Wrong(tokens_in_a_loop, cost=lambda seen: sum(seen.operations.values()) > LOOP_FREE or _in_python(seen)),
        column_maximum=attention(normalise=column_maximum),
        by_values_width=lambda q, k, v: parallel.attention_all_tokens(_scaled_by_values(q, v), k, v),
    ),
    behaviours=[
        Behaviour(
            "all scores in one tensor",
            lambda seen: math.prod(map(len, seen.args[:2])) <= FEW_SCORES or not _in_python(seen),
            "No tensor was large enough to hold all scores: they are computed block by block, row by row, or "
            "number by number.",
        )
    ],
    forbids=NO_FUSED_ATTENTION,
)

attention_one_token = CheckGroup("attention_one_token", one_token, attention_all_tokens)
