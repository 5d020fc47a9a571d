"""The check of `scaled_dot_product_attention`."""

import math

import torch
from torch import Tensor

from helpers.engine import common_misconceptions
from helpers.engine.cases import RandomArg, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, constant_in_the_denominator, power_before_division
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention
from .attention import _far_ahead, mean_subtracted

__all__ = ["scaled_dot_product_attention"]


def softmax_over_all_scores(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return torch.softmax(scores.flatten(-2), dim=-1).view(scores.shape) @ v


def keys_reshaped(q, k, v) -> Tensor:
    scores = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, dim=-1) @ v


def all_axes_transposed(q, k, v) -> Tensor:
    scores = q @ k.permute(*reversed(range(k.dim()))) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, dim=-1) @ v


def scale_after_softmax(q, k, v) -> Tensor:
    return torch.softmax(q @ k.mT, dim=-1) / math.sqrt(q.shape[-1]) @ v


def weights_returned(q, k, v) -> Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)


def detached(q, k, v) -> Tensor:
    return torch.softmax(q.detach() @ k.detach().mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def _rows_far_apart(generator: torch.Generator) -> Tensor:
    """Queries (3, 4) whose scores with `_keys_ahead` lie near 240, 0 and −240. Both are in steps of 1/64: float32 rounds no score."""
    return torch.cat([torch.tensor([[60.0], [0.0], [-60.0]]), _in_steps(torch.randn(3, 3, generator=generator))], dim=1)


def _keys_ahead(generator: torch.Generator) -> Tensor:
    first = 8 + 0.02 * torch.randn(5, 1, generator=generator)
    return _in_steps(torch.cat([first, torch.randn(5, 3, generator=generator)], dim=1))


def _in_steps(x: Tensor) -> Tensor:
    return (64 * x).round() / 64


def one_maximum(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    powers = torch.exp(scores - scores.max())
    return powers / powers.sum(-1, keepdim=True) @ v


def no_maximum(q, k, v) -> Tensor:
    powers = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]))
    return powers / powers.sum(-1, keepdim=True) @ v


def sum_without_keepdim(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1) @ v


def hidden_later_keys(q, k, v) -> Tensor:
    return common_misconceptions.attention(q, k, v, mask=torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril())


def sum_detached(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    powers = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
    return powers / powers.sum(-1, keepdim=True).detach() @ v


def _zeros_for_nan(seen) -> bool:
    """0 exactly where a softmax by plain exponentials overflows."""
    q, k, _ = seen.args
    lost = no_maximum(*seen.args).isnan()
    return bool(lost.any() and (seen.output[lost] == 0).all())


def for_one_batch_axis(q, k, v) -> Tensor:
    turned = k.T if k.dim() == 2 else k.transpose(1, 2)
    return torch.softmax(q @ turned / math.sqrt(q.shape[-1]), dim=-1) @ v


def computed_in_float32(q, k, v) -> Tensor:
    return common_misconceptions.attention(q.float(), k.float(), v.float()).to(q.dtype)


def _float32_or_less(seen) -> bool:
    q, k, v = seen.args
    gap = (seen.output.double() - common_misconceptions.attention(q, k, v)).abs().max().item()
    return q.dtype == torch.float64 and 1e-12 < gap < 1e-5


scaled_dot_product_attention = Check(
    reference=attention.scaled_dot_product_attention,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3),
        random_case(n=4, m=4, d=8, d_v=8, label="as many queries as keys"),
        random_case(batch=(2, 3), n=4, m=6, d=5, d_v=2, label="two batch axes"),
        explicit_case("large scores", _far_ahead(3, 16), _far_ahead(5, 16), normal(5, 4)),
        random_case(
            batch=(2,), n=6, m=4, d=3, d_v=5, dtype=torch.float64, gradient=True, label="gradients, in float64"
        ),
        explicit_case("scores near 240, 0 and −240", RandomArg(_rows_far_apart), RandomArg(_keys_ahead), normal(5, 2)),
        random_case(batch=(1,), n=1, m=4, d=3, d_v=1, label="one query, values of width 1"),
        random_case(n=4, m=6, d=5, d_v=3, dtype=torch.bfloat16, label="bfloat16"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, dtype=torch.float64), -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(attention.scaled_dot_product_attention),
        common_misconceptions.axes_of_size_1_dropped(attention.scaled_dot_product_attention),
        common_misconceptions.scaled_by_another_number(attention.scaled_dot_product_attention),
        common_misconceptions.clamped_scores(),
        constant_in_the_denominator(attention.scaled_dot_product_attention),
        softmax_over_queries=lambda q, k, v: common_misconceptions.attention(q, k, v, axis=-2),
        softmax_over_all_scores_at_once=softmax_over_all_scores,
        no_scale=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=1.0),
        scaled_by_d_instead_root_d=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=1 / q.shape[-1]),
        scaled_by_number_keys=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=k.shape[-2] ** -0.5),
        scaled_by_number_queries=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=q.shape[-2] ** -0.5),
        multiplied_by_root_d=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=q.shape[-1] ** 0.5),
        scale_applied_after_softmax=scale_after_softmax,
        all_axes_k_transposed=Wrong(all_axes_transposed, raises="RuntimeError"),
        k_reshaped_instead_transposed=keys_reshaped,
        weights_returned_instead_output=weights_returned,
        cut_off_from_gradient=detached,
        sum_exponentials_cut_off_from_gradient=sum_detached,
        one_maximum_all_queries=one_maximum,
        no_maximum_subtracted=no_maximum,
        mean_subtracted_not_maximum=lambda q, k, v: mean_subtracted(q @ k.mT / math.sqrt(q.shape[-1])) @ v,
        softmax_along_axis_1=lambda q, k, v: common_misconceptions.attention(q, k, v, axis=1),
        softmax_along_axis_2=lambda q, k, v: common_misconceptions.attention(q, k, v, axis=min(2, q.dim() - 1)),
        softmax_along_axis_0=lambda q, k, v: common_misconceptions.attention(q, k, v, axis=0),
        width_read_from_axis_1=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=q.shape[1] ** -0.5),
        scaled_by_width_values=lambda q, k, v: common_misconceptions.attention(q, k, v, scale=v.shape[-1] ** -0.5),
        root_d_cut_whole_number=lambda q, k, v: common_misconceptions.attention(
            q, k, v, scale=1 / math.isqrt(q.shape[-1])
        ),
        later_keys_hidden=hidden_later_keys,
        nan_replaced_by_number=Wrong(
            lambda q, k, v: torch.nan_to_num(no_maximum(q, k, v)), recognise=lambda seen: _zeros_for_nan(seen)
        ),
        sum_without_axis=Wrong(sum_without_keepdim, raises="RuntimeError"),
        written_one_batch_axis=Wrong(for_one_batch_axis, raises="RuntimeError"),
        computed_float32_where_inputs_float64=Wrong(computed_in_float32, recognise=_float32_or_less),
    ),
    forbids=NO_FUSED_ATTENTION,
)
