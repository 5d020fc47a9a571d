"""The check of `multi_head_loop`."""

import math
from functools import partial

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import LIMITS, NO_FUSED_ATTENTION, in_single_precision, visible_mask
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import heads as multi_head
from .heads import (
    _NEAR_20,
    AS_PRECISE,
    RAISED_BY,
    ROUNDING,
    _nearly,
    _off_as,
    cut_off,
    mask_without_key_0,
    one_key_apart,
    queries_apart,
)

__all__ = ["multi_head_loop"]


def loop_case(label: str, *, b=2, n, m, d, h, d_h, scale=1.0, dtype=torch.float32, gradient=False) -> Case:
    """Inputs of `multi_head_loop`; weights are scaled so that the heads' features have the tokens' own spread."""
    into = normal(h, d, d_h, scale=d**-0.5, dtype=dtype)
    out = normal(h * d_h, d, scale=(h * d_h) ** -0.5, dtype=dtype)
    x, memory = normal(b, n, d, scale=scale, dtype=dtype), normal(b, m, d, scale=scale, dtype=dtype)
    return explicit_case(label, x, memory, into, into, into, out, visible_mask(n, m), gradient=gradient)


_AS_THEY_ARE = (
    torch.eye(8).double().unflatten(1, (2, 4)).transpose(0, 1)
)  # (2, 8, 4): each of two heads gets four features as they are


def _heads(x, memory, w_q, w_k, w_v, mask, scale) -> list[Tensor]:
    return [
        torch.softmax((x @ q @ (memory @ k).mT * scale).masked_fill(~mask, -torch.inf), dim=-1) @ (memory @ v)
        for q, k, v in zip(w_q, w_k, w_v)
    ]


def loop_scaled_by_d(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, mask, x.shape[-1] ** -0.5), dim=-1) @ w_o


def loop_without_scale(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, mask, 1.0), dim=-1) @ w_o


def loop_without_output_projection(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, mask, w_q.shape[-1] ** -0.5), dim=-1)


def loop_with_one_softmax(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    scores = [
        (x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf) for q, k in zip(w_q, w_k)
    ]
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1).split(mask.shape[-1], dim=-1)
    return torch.cat([a @ (memory @ v) for a, v in zip(weights, w_v)], dim=-1) @ w_o


def loop_on_x_alone(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, x, w_q, w_k, w_v, mask, w_q.shape[-1] ** -0.5), dim=-1) @ w_o


def loop_with_the_mask_inverted(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, ~mask, w_q.shape[-1] ** -0.5), dim=-1) @ w_o


def loop_without_mask(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, torch.ones_like(mask), w_q.shape[-1] ** -0.5), dim=-1) @ w_o


def loop_masked_after_the_softmax(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        weights = torch.softmax(x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1]), dim=-1)
        heads.append(weights * mask @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_with_heads_added(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return sum(_heads(x, memory, w_q, w_k, w_v, mask, w_q.shape[-1] ** -0.5)) @ w_o[: w_q.shape[-1]]


def loop_with_heads_interleaved(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.stack(_heads(x, memory, w_q, w_k, w_v, mask, w_q.shape[-1] ** -0.5), dim=-1).flatten(-2) @ w_o


def loop_with_the_first_head_only(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    head = _heads(x, memory, w_q[:1], w_k[:1], w_v[:1], mask, w_q.shape[-1] ** -0.5)
    return torch.cat(head * len(w_q), dim=-1) @ w_o


def loop_scaled_by_d_over_h(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    width = x.shape[-1] // len(w_q)
    scale = width**-0.5 if width else math.inf
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, mask, scale), dim=-1) @ w_o


def loop_scaled_by_d_h_itself(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, mask, 1 / w_q.shape[-1]), dim=-1) @ w_o


def loop_with_a_mask_turned_in_each_turn(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    heads = []
    for i in range(len(w_q)):
        one = slice(i, i + 1)
        heads += _heads(x, memory, w_q[one], w_k[one], w_v[one], mask if i % 2 == 0 else ~mask, w_q.shape[-1] ** -0.5)
    return torch.cat(heads, dim=-1) @ w_o


def loop_with_hidden_scores(x, memory, w_q, w_k, w_v, w_o, mask, score) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = (x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])).masked_fill(~mask, score)
        heads.append(torch.softmax(scores, dim=-1) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_with_hidden_scores_of_0(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return loop_with_hidden_scores(x, memory, w_q, w_k, w_v, w_o, mask, 0.0)


def loop_with_exponentials_thrown_away(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])
        largest = scores.masked_fill(~mask, -torch.inf).amax(dim=-1, keepdim=True)
        powers = torch.where(mask, torch.exp(scores - largest), 0.0)
        heads.append(powers / powers.sum(dim=-1, keepdim=True) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_with_visible_scores_raised(x, memory, w_q, w_k, w_v, w_o, mask, by=1e6) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1]) + by * mask
        heads.append(torch.softmax(scores, dim=-1) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_that_overwrites_x(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    output, d_h = 0, w_q.shape[-1]
    for i in range(len(w_q)):
        one = slice(i, i + 1)
        (head,) = _heads(x, memory, w_q[one], w_k[one], w_v[one], mask, d_h**-0.5)
        x = head @ w_o[i * d_h : (i + 1) * d_h]
        output = output + x
    return output


def loop_with_w_o_transposed(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    return torch.cat(_heads(x, memory, w_q, w_k, w_v, mask, w_q.shape[-1] ** -0.5), dim=-1) @ w_o.T


def loop_with_values_from_x(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = (x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf)
        heads.append(torch.softmax(scores, dim=-1) @ (x @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_with_powers(x, memory, w_q, w_k, w_v, w_o, mask, largest) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])
        powers = torch.exp(scores - largest(scores)) * mask
        heads.append(powers / powers.sum(dim=-1, keepdim=True) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_with_one_maximum(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = (x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf)
        powers = torch.exp(scores - scores.max())
        heads.append(powers / powers.sum(dim=-1, keepdim=True) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def _one_maximum(seen: Observation) -> bool:
    """A mark: one maximum for a whole head, over the visible scores or over all."""
    wrongs = loop_with_one_maximum, partial(loop_with_powers, largest=Tensor.max)
    return _off_as(seen, multi_head.multi_head_loop, wrongs)


def loop_with_clamped_scores(x, memory, w_q, w_k, w_v, w_o, mask, most=50.0) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = (x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])).clamp(-most, most)
        heads.append(torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


def loop_over_the_queries(x, memory, w_q, w_k, w_v, w_o, mask, hidden=-torch.inf) -> Tensor:
    heads = []
    for q, k, v in zip(w_q, w_k, w_v):
        scores = (x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1])).masked_fill(~mask, hidden)
        heads.append(torch.softmax(scores, dim=-2) @ (memory @ v))
    return torch.cat(heads, dim=-1) @ w_o


multi_head_loop = Check(
    reference=multi_head.multi_head_loop,
    cases=[
        loop_case("n = 5, m = 7, d = 6, 3 heads of width 2", b=4, n=5, m=7, d=6, h=3, d_h=2),
        loop_case("n = m = 4, d = 8, 2 heads of width 4", n=4, m=4, d=8, h=2, d_h=4),
        loop_case("heads wider than d/h: d = 6, 2 heads of width 5", b=3, n=4, m=6, d=6, h=2, d_h=5),
        loop_case("large scores", n=3, m=5, d=8, h=4, d_h=2, scale=9.0),
        loop_case(
            "one sequence: gradients, in float64", b=1, n=3, m=4, d=6, h=3, d_h=3, dtype=torch.float64, gradient=True
        ),
        explicit_case(
            "scores near −800, 800 and 0, a hidden one near 800: gradients, in float64",
            RandomArg(queries_apart),
            one_key_apart(2, 5, 8),
            _AS_THEY_ARE,
            _AS_THEY_ARE,
            normal(2, 8, 4, scale=0.3, dtype=torch.float64),
            normal(8, 8, scale=0.3, dtype=torch.float64),
            mask_without_key_0(3, 5),
            gradient=True,
        ),
        explicit_case(
            "scores near −800, those of a hidden key near 800",
            _NEAR_20,
            one_key_apart(2, 5, 8),
            _AS_THEY_ARE,
            _AS_THEY_ARE,
            normal(2, 8, 4, scale=0.3, dtype=torch.float64),
            normal(8, 8, scale=0.3, dtype=torch.float64),
            mask_without_key_0(3, 5),
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        cut_off(multi_head.multi_head_loop),
        in_single_precision(multi_head.multi_head_loop),
        scaled_by_root_d_instead_root_d_h=loop_scaled_by_d,
        memory_cut_off_from_gradients=lambda x, memory, *others: multi_head.multi_head_loop(
            x, memory.detach(), *others
        ),
        scale_after_softmax=lambda x, memory, w_q, w_k, w_v, w_o, mask: (
            loop_without_scale(x, memory, w_q, w_k, w_v, w_o, mask) / math.sqrt(w_q.shape[-1])
        ),
        no_scale=loop_without_scale,
        no_output_projection=loop_without_output_projection,
        one_softmax_across_heads=loop_with_one_softmax,
        keys_values_from_queries_tokens=Wrong(loop_on_x_alone, raises="RuntimeError"),
        mask_inverted=loop_with_the_mask_inverted,
        mask_not_used=loop_without_mask,
        mask_after_softmax=loop_masked_after_the_softmax,
        heads_added_up=loop_with_heads_added,
        heads_features_shuffled_together=loop_with_heads_interleaved,
        every_head_with_first_heads_weights=loop_with_the_first_head_only,
        d_over_h_taken_width_head=loop_scaled_by_d_over_h,
        scaled_by_d_h_instead_root_d_h=loop_scaled_by_d_h_itself,
        mask_turned_round_from_head_head=loop_with_a_mask_turned_in_each_turn,
        hidden_scores_almost_0=Wrong(loop_with_hidden_scores_of_0, recognise=_nearly(loop_with_hidden_scores_of_0)),
        hidden_scores_minus_100=lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_hidden_scores(
            x, memory, w_q, w_k, w_v, w_o, mask, -100.0
        ),
        causal_mask_place_given_one=lambda x, memory, w_q, w_k, w_v, w_o, mask: (
            torch.cat(_heads(x, memory, w_q, w_k, w_v, torch.ones_like(mask).tril(), w_q.shape[-1] ** -0.5), dim=-1)
            @ w_o
        ),
        x_overwritten_inside_loop=loop_that_overwrites_x,
        w_o_transposed=Wrong(loop_with_w_o_transposed, raises="RuntimeError"),
        values_from_queries_tokens=Wrong(loop_with_values_from_x, raises="RuntimeError"),
        exponentials_scores_as_they=lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_powers(
            x, memory, w_q, w_k, w_v, w_o, mask, lambda scores: 0.0
        ),
        one_largest_score_all_rows=Wrong(
            lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_powers(
                x, memory, w_q, w_k, w_v, w_o, mask, Tensor.max
            ),
            recognise=_one_maximum,
        ),
        clamped_scores=Wrong(
            loop_with_clamped_scores,
            recognise=lambda seen: _off_as(
                seen, multi_head.multi_head_loop, (partial(loop_with_clamped_scores, most=most) for most in LIMITS)
            ),
        ),
        softmax_over_queries=Wrong(
            loop_over_the_queries,
            recognise=lambda seen: any(
                agree(seen.output, loop_over_the_queries(*seen.args, hidden), tolerance(seen.args))
                for hidden in (-torch.inf, -1e9)
            ),
        ),
        maximum_taken_over_hidden_keys_too=lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_powers(
            x, memory, w_q, w_k, w_v, w_o, mask, lambda scores: scores.amax(dim=-1, keepdim=True)
        ),
        exponentials_hidden_scores_thrown_away=loop_with_exponentials_thrown_away,
        visible_scores_raised_by_large_number=Wrong(
            loop_with_visible_scores_raised,
            recognise=lambda seen: _off_as(
                seen, multi_head.multi_head_loop, (partial(loop_with_visible_scores_raised, by=by) for by in RAISED_BY)
            ),
        ),
    ),
    within=ROUNDING,
    properties=[AS_PRECISE],
    forbids=NO_FUSED_ATTENTION,
)
