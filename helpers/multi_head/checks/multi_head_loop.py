"""The check of `multi_head_loop`: attention in a loop over the heads, each with weights of its own."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision, visible_mask
from helpers.engine.answers.mask import Mask
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, Sizes, attend
from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..heads import multi_head_loop as reference
from .heads import AS_PRECISE, NEAR_20, ROUNDING, cut_off, mask_without_key_0, one_key_apart, queries_apart
from .sources import Sources

__all__ = ["multi_head_loop"]


@dataclass(frozen=True)
class Loop(Attention):
    """The steps of a head's attention, and what the loop around it adds."""

    sources: Callable = lambda x, memory: (x, memory, memory)  # of queries, keys and values
    of_head: Callable = lambda w, i: w[i]
    seen_by: Callable = lambda mask, i: mask  # by head i
    merge: Callable = lambda heads: torch.cat(heads, dim=-1)
    output: Callable = lambda merged, w_o: merged @ w_o


@composable
def loop(**changed: Callable) -> Callable[..., Tensor]:
    """The loop with these steps changed."""
    steps = Loop(**changed)

    def answer(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
        sizes = Sizes(w_q.shape[-1], x.shape[-1], len(w_q))
        heads = []
        for i in range(sizes.h):
            of_q, of_k, of_v = steps.sources(x, memory)
            q, k, v = of_q @ steps.of_head(w_q, i), of_k @ steps.of_head(w_k, i), of_v @ steps.of_head(w_v, i)
            heads.append(attend(steps, q, k, v, steps.seen_by(mask, i), sizes)[0])
        return steps.output(steps.merge(heads), w_o)

    return answer


def one_softmax(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    scores = [x @ q @ (memory @ k).mT / math.sqrt(q.shape[-1]) for q, k in zip(w_q, w_k)]
    hidden = torch.cat([one.masked_fill(~mask, -torch.inf) for one in scores], dim=-1)
    weights = torch.softmax(hidden, dim=-1).split(mask.shape[-1], dim=-1)
    return torch.cat([a @ (memory @ v) for a, v in zip(weights, w_v)], dim=-1) @ w_o


def x_overwritten(x, memory, w_q, w_k, w_v, w_o, mask) -> Tensor:
    output = 0
    for i, rows in enumerate(w_o.split(w_q.shape[-1])):
        x = reference(x, memory, w_q[i : i + 1], w_k[i : i + 1], w_v[i : i + 1], rows, mask)
        output = output + x
    return output


def case(label: str, *, b=2, n, m, d, h, d_h, scale=1.0, dtype=torch.float32, gradient=False) -> Case:
    """Weights are scaled so that the heads' features have the tokens' own spread."""
    into = normal(h, d, d_h, scale=d**-0.5, dtype=dtype)
    out = normal(h * d_h, d, scale=(h * d_h) ** -0.5, dtype=dtype)
    x, memory = normal(b, n, d, scale=scale, dtype=dtype), normal(b, m, d, scale=scale, dtype=dtype)
    return explicit_case(label, x, memory, into, into, into, out, visible_mask(n, m), gradient=gradient)


def far_case(label: str, x: RandomArg, gradient: bool = False) -> Case:
    """Each of two heads gets four features as they are; the first key, which is far from the others, is hidden."""
    as_it_is = torch.eye(8).double().unflatten(1, (2, 4)).transpose(0, 1)  # (2, 8, 4)
    into, out = (normal(*shape, scale=0.3, dtype=torch.float64) for shape in ((2, 8, 4), (8, 8)))
    memory, mask = one_key_apart(2, 5, 8), mask_without_key_0(3, 5)
    return explicit_case(label, x, memory, as_it_is, as_it_is, into, out, mask, gradient=gradient)


multi_head_loop = Check(
    reference=reference,
    cases=[
        case("n = 5, m = 7, d = 6, 3 heads of width 2", b=4, n=5, m=7, d=6, h=3, d_h=2),
        case("n = m = 4, d = 8, 2 heads of width 4", n=4, m=4, d=8, h=2, d_h=4),
        case("heads wider than d/h: d = 6, 2 heads of width 5", b=3, n=4, m=6, d=6, h=2, d_h=5),
        case("large scores", n=3, m=5, d=8, h=4, d_h=2, scale=9.0),
        case("one sequence: gradients, in float64", b=1, n=3, m=4, d=6, h=3, d_h=3, dtype=torch.float64, gradient=True),
        far_case("scores near −800, 800 and 0, a hidden one near 800: gradients, in float64", queries_apart, True),
        far_case("scores near −800, those of a hidden key near 800", NEAR_20),
    ],
    misconceptions=wrong_answers(
        __file__,
        cut_off(reference),
        *slips(loop, Scale.none, Scale.by_width, Scale.by_root_of_token_width, Scale.after_softmax),
        *slips(loop, Mask.ignored, Mask.inverted, Mask.after_softmax, Mask.almost_zero, Mask.minus_100, Mask.causal),
        *slips(loop, Softmax.one_maximum, Softmax.no_maximum, Softmax.maximum_of_hidden, Softmax.powers_thrown_away),
        *slips(loop, Softmax.clamped, Softmax.over_queries, Mask.visible_raised, Mask.plus_infinity),
        *slips(loop, Sources.memory_ignored, Sources.values_from_x, Sources.memory_cut_off),
        in_single_precision(reference),
        first_head_only=loop(merge=lambda heads: torch.cat([heads[0], *(0 * head for head in heads[1:])], dim=-1)),
        by_root_of_d_over_h=loop(scale=lambda products, sizes: products / math.sqrt(sizes.d // sizes.h)),
        mask_turned=loop(seen_by=lambda mask, i: mask if i % 2 == 0 else ~mask),
        first_heads_weights=loop(of_head=lambda w, i: w[0]),
        one_softmax=one_softmax,
        x_overwritten=x_overwritten,
        added_up=loop(merge=sum, output=lambda merged, w_o: merged @ w_o[: merged.shape[-1]]),
        shuffled=loop(merge=lambda heads: torch.stack(heads, dim=-1).flatten(-2)),
        no_output_projection=loop(output=lambda merged, w_o: merged),
        w_o_transposed=Wrong(loop(output=lambda merged, w_o: merged @ w_o.T), raises="RuntimeError"),
    ),
    within=ROUNDING,
    properties=[AS_PRECISE],
    forbids=NO_FUSED_ATTENTION,
)
