"""The check of `scaled_dot_product_attention`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import (
    NO_FUSED_ATTENTION,
    axes_of_size_1_dropped,
    constant_in_the_denominator,
)
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, attend, attention
from helpers.engine.answers.table import Table
from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..attention import scaled_dot_product_attention as reference
from .attention import _far_ahead, mean_subtracted

__all__ = ["scaled_dot_product_attention"]


def _in_steps(x: Tensor) -> Tensor:
    """In steps of 1/64: float32 rounds no score."""
    return (64 * x).round() / 64


def _rows_far_apart(generator: Generator) -> Tensor:
    """Queries (3, 4) whose scores with `_keys_ahead` lie near 240, 0 and −240."""
    return torch.cat([torch.tensor([[60.0], [0.0], [-60.0]]), _in_steps(torch.randn(3, 3, generator=generator))], dim=1)


def _keys_ahead(generator: Generator) -> Tensor:
    first = 8 + 0.02 * torch.randn(5, 1, generator=generator)
    return _in_steps(torch.cat([first, torch.randn(5, 3, generator=generator)], dim=1))


def _divided_by(divisor: Callable) -> Callable:
    def answer(q, k, v) -> Tensor:
        return attend(Attention(scale=lambda products, _: products / divisor(q, k, v)), q, k, v)[0]

    return answer


def _along(axis: Callable) -> Callable:
    return attention(normalise=lambda scores, *_: torch.softmax(scores, dim=axis(scores)))


def sum_detached(scores, *_) -> Tensor:
    powers = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
    return powers / powers.sum(-1, keepdim=True).detach()


no_maximum = attention(**Softmax.no_maximum.steps)


def _zeros_for_nan(seen) -> bool:
    """0 exactly where a softmax by plain exponentials overflows."""
    lost = no_maximum(*seen.args).isnan()
    return bool(lost.any() and (seen.output[lost] == 0).all())


def _float32_or_less(seen) -> bool:
    gap = (seen.output.double() - reference(*seen.args)).abs().max().item()
    return seen.args[0].dtype == torch.float64 and 1e-12 < gap < 1e-5


scaled_dot_product_attention = Check(
    reference=reference,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3),
        random_case(n=4, m=4, d=8, d_v=8, label="as many queries as keys"),
        random_case(batch=(2, 3), n=4, m=6, d=5, d_v=2, label="two batch axes"),
        explicit_case("large scores", _far_ahead(3, 16), _far_ahead(5, 16), normal(5, 4)),
        random_case("gradients, in float64", batch=(2,), n=6, m=4, d=3, d_v=5, dtype=torch.float64, gradient=True),
        explicit_case("scores near 240, 0 and −240", RandomArg(_rows_far_apart), RandomArg(_keys_ahead), normal(5, 2)),
        random_case(batch=(1,), n=1, m=4, d=3, d_v=1, label="one query, values of width 1"),
        random_case(n=4, m=6, d=5, d_v=3, scale=0.5, dtype=torch.bfloat16, label="bfloat16"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, dtype=torch.float64), -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        *slips(attention, Scale.power_before_division),
        axes_of_size_1_dropped(reference),
        *slips(attention, Scale.by_root_of_another_number, Softmax.clamped),
        constant_in_the_denominator(reference),
        *slips(attention, Scale.none, Scale.by_width, Scale.multiplied, Scale.after_softmax),
        *slips(attention, Softmax.never_normalised, Softmax.over_queries, Softmax.one_maximum, Softmax.no_maximum),
        *slips(attention, Table.keys_reshaped, Table.by_keys, Table.one_softmax, Table.sum_without_axis),
        *slips(attention, Table.later_hidden, Table.weights_returned),
        by_queries=_divided_by(lambda q, k, v: math.sqrt(q.shape[-2])),
        by_axis_1=_divided_by(lambda q, k, v: math.sqrt(q.shape[1])),
        by_values_width=_divided_by(lambda q, k, v: math.sqrt(v.shape[-1])),
        root_cut=_divided_by(lambda q, k, v: math.isqrt(q.shape[-1])),
        along_axis_0=_along(lambda scores: 0),
        along_axis_1=_along(lambda scores: 1),
        along_axis_2=_along(lambda scores: min(2, scores.dim() - 1)),
        mean_subtracted=attention(normalise=lambda scores, *_: mean_subtracted(scores)),
        sum_detached=attention(normalise=sum_detached),
        all_axes_transposed=Wrong(
            attention(score=lambda q, k: q @ k.permute(*reversed(range(k.dim())))), raises="RuntimeError"
        ),
        one_batch_axis=Wrong(
            attention(score=lambda q, k: q @ (k.T if k.dim() == 2 else k.transpose(1, 2))), raises="RuntimeError"
        ),
        detached=attention(score=lambda q, k: q.detach() @ k.detach().mT),
        nan_replaced=Wrong(lambda q, k, v: torch.nan_to_num(no_maximum(q, k, v)), recognise=_zeros_for_nan),
        in_float32=Wrong(
            lambda q, k, v: reference(q.float(), k.float(), v.float()).to(q.dtype), recognise=_float32_or_less
        ),
    ),
    forbids=NO_FUSED_ATTENTION,
)
