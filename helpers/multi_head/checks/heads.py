"""Checks of multi-head attention: cutting the width into heads, running them, and what they cost."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.common_misconceptions import (
    CLAMPED,
    LIMITS,
    NO_FUSED_ATTENTION,
    RAISED,
    in_single_precision,
    visible_mask,
)
from helpers.engine.compare import TOLERANCE, Message, agree, in_float64, tolerance
from helpers.engine.drivers import Stopped, call
from helpers.engine.observe import Observation, observe

from .. import heads as multi_head

__all__ = [
    "MultiHeadAttention",
    "head_flops",
    "head_parameters",
    "heads_as_sum",
    "merge_heads",
    "multi_head_loop",
    "split_heads",
]

ROUNDING = {torch.float32: (1e-4, 2e-4)}  # large scores cost digits, and the outputs are of size 1 to 10


def _as_precise(output, *inputs) -> bool:
    dtypes = [t.dtype for t in inputs if isinstance(t, Tensor) and t.is_floating_point()]
    outputs = [t.dtype for t in tree_leaves(output) if isinstance(t, Tensor)]
    return torch.float64 not in dtypes or all(dtype == torch.float64 for dtype in outputs)


AS_PRECISE = Property(
    "float64 where float64 comes in", _as_precise,
    "The inputs are float64 and your output is not. A tensor that you make yourself, such as `torch.zeros(…)`, is float32 unless you say `dtype=`.",
)  # fmt: skip


def _nearly(wrong: Callable) -> Callable[[Observation], bool]:
    """A mark: an output that is, to some digits, what `wrong` makes of the same inputs."""
    return lambda seen: agree(seen.output, wrong(*tree_map(in_float64, seen.args)), ROUNDING[torch.float32])


def _off_as(seen: Observation, right: Callable, wrongs: Iterable[Callable]) -> bool:
    """Whether an output is off, and is what one of `wrongs` makes of the same inputs."""
    usual = tolerance(seen.args)
    within = ROUNDING[torch.float32] if usual == TOLERANCE[torch.float32] else usual
    if agree(seen.output, right(*tree_map(in_float64, seen.args)), within):
        return False
    return any(agree(seen.output, wrong(*seen.args), within) for wrong in wrongs)


def cut_off(function) -> Misconception:
    """The right answer, which no gradient comes through."""
    return Misconception(
        "cut off from the gradient", lambda *args: function(*(t.detach() if isinstance(t, Tensor) else t for t in args)),
        "`.detach()`, `.data` or `torch.no_grad()` on the way keeps gradients from what comes in: whatever made that could never be "
        "trained.",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- cut and join the width

split_heads = Check(
    reference=multi_head.split_heads,
    cases=[
        random_case(b=2, n=5, d=12, h=3), random_case(b=3, n=4, d=8, h=2), random_case(b=2, n=6, d=9, h=3, label="n = 6, d_h = h = 3"),
        random_case(b=1, n=3, d=7, h=1, label="one head"), random_case(b=2, n=4, d=5, h=5, label="heads of width 1"),
        random_case(b=2, n=3, d=6, h=2, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    ],
    properties=[AS_PRECISE],
    misconceptions=[
        cut_off(multi_head.split_heads),
        in_single_precision(multi_head.split_heads),
        Misconception(
            "a view without a transpose", lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
            "The shape is right, but a view only moves the line breaks: head 0 gets the first tokens with all their features. First cut each "
            "token's features into (h, d_h), then bring the head axis before the tokens.",
        ),
        Misconception(
            "heads and width swapped", lambda x, h: x.reshape(*x.shape[:2], -1, h).permute(0, 3, 1, 2),
            "A head gets d_h features that lie side by side. If the width is cut into (d_h, h) instead of (h, d_h), head 0 gets every h-th one.",
        ),
        Misconception(
            "the head axis left behind the tokens", lambda x, h: x.reshape(*x.shape[:2], h, -1),
            "The features are cut correctly. Now bring the head axis to the front, beside the batch, so that matrix products treat each head "
            "by itself.",
        ),
        Misconception(
            "width before tokens", lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(0, 2, 3, 1),
            "The last two axes of each head must be (tokens, features): a token a row, as in unit 02.",
        ),
        Misconception(
            "all features for every head", lambda x, h: x.unsqueeze(1).expand(-1, h, -1, -1),
            "Here the heads share the width out among them: each gets d/h features, not all d.",
        ),
        Misconception(
            "d/h heads of width h", lambda x, h: torch.stack(x.split(h, dim=-1), dim=1),
            "h is the number of heads, and d/h the width of each. `Tensor.split(h)` makes pieces of size h, `chunk(h)` makes h pieces.",
        ),
        Misconception(
            "axes of size 1 squeezed away", lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2).squeeze(),
            "`squeeze()` drops every axis of size 1: with one sequence, one head or heads of width 1 an axis is missing.",
        ),
        Misconception(
            "tokens and features swapped before the cut", lambda x, h: x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1),
            "After that transpose the numbers come feature by feature, and a reshape to (…, n, d_h) reads several tokens into one row. Cut the "
            "features first, then transpose.",
        ),
        Misconception(
            "heads before sequences, and a reshape that doesn't move them", lambda x, h: x.flatten(0, 1).reshape(-1, h, x.shape[-1] // h).transpose(0, 1).reshape(
                len(x), h, x.shape[1], -1
            ),
            "The heads came to stand before the sequences (after `stack`, say, or `flatten(0, 1)` and a transpose). A `view` or `reshape` to (b, h, …) cuts the numbers "
            "up again in the order in which they lie, so heads and sequences get mixed. Move axes with `transpose`.",
        ),
        Misconception(
            "the heads in reverse order", lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2).flip(1),
            "Head 0 gets the first d/h features, the last head the last.",
        ),
        Misconception(
            "the head axis before the batch", lambda x, h: x.reshape(*x.shape[:2], h, -1).permute(2, 0, 1, 3),
            "The batch stays in front: (b, h, n, d_h).",
        ),
    ],
)  # fmt: skip

merge_heads = Check(
    reference=multi_head.merge_heads,
    cases=[
        random_case(b=2, h=3, n=5, d_h=4), random_case(b=3, h=2, n=4, d_h=6), random_case(b=2, h=4, n=4, d_h=4, label="h = n = d_h = 4"),
        random_case(b=1, h=1, n=3, d_h=5, label="one head"), random_case(b=2, h=2, n=3, d_h=4, dtype=torch.float64, gradient=True, label="gradients, in float64"),
        random_case(b=1, h=3, n=1, d_h=2, label="one sequence of one token"),
    ],
    properties=[AS_PRECISE],
    misconceptions=[
        cut_off(multi_head.merge_heads),
        in_single_precision(multi_head.merge_heads),
        Misconception(
            "merged without a transpose", lambda x: x.reshape(len(x), x.shape[2], -1),
            "The shape is right, but a row now holds several tokens of one head. The head axis must stand beside the width before the two "
            "become one.",
        ),
        Misconception(
            "heads and width swapped", lambda x: x.permute(0, 2, 3, 1).flatten(2),
            "The heads' features are shuffled together like cards. Each head's d_h features stay side by side: first head 0, then head 1.",
        ),
        Misconception(
            "heads added up", lambda x: x.sum(dim=1),
            "Put the heads side by side: then the width is h·d_h again. Adding them mixes what they keep apart.",
        ),
        Misconception(
            "the last two axes not joined", lambda x: x.transpose(1, 2),
            "The axes are in the right order now: (b, n, h, d_h). Join the last two into one.",
        ),
        Misconception(
            "heads one below the other", lambda x: x.flatten(1, 2),
            "This makes h·n tokens of width d_h. There are still n tokens: it is the width that grows back to h·d_h.",
        ),
        Misconception(
            "heads and tokens taken for each other", lambda x: x.transpose(1, 2).reshape(len(x), x.shape[1], -1),
            "The axes are (b, h, n, d_h), in this order. Your result has h rows of n·d_h numbers; there should be n rows of h·d_h.",
        ),
        Misconception(
            "the heads in reverse order", lambda x: x.flip(1).transpose(1, 2).flatten(2),
            "Head 0 comes first, the last head last.",
        ),
        Misconception(
            "sequences side by side", lambda x: torch.cat([one.transpose(0, 1).flatten(1) for one in x], dim=-1)[None],
            "A loop over `x` runs over its first axis, the batch. Sequences stay apart: it is the heads that are joined.",
        ),
        Misconception(
            "tokens before the batch", lambda x: x.permute(2, 0, 1, 3).reshape(len(x), x.shape[2], -1),
            "The heads are side by side, as they should be. But your tokens came to stand before the batch, and the reshape to (b, n, …) deals them out to the "
            "sequences. The batch stays the first axis: (b, n, h, d_h), then join.",
        ),
        Misconception(
            "a view after the transpose", lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1),
            "After a transpose the numbers no longer lie in memory in the order of the axes, and `view` never copies. `reshape` and `flatten` "
            "copy where they must.",
            raises="RuntimeError",
        ),
        Misconception(
            "axes of size 1 squeezed away", lambda x: x.transpose(1, 2).flatten(2).squeeze(),
            "`squeeze()` drops every axis of size 1: one sequence, or one token, loses an axis.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ one head at a time


def loop_case(label: str, *, b=2, n, m, d, h, d_h, scale=1.0, dtype=torch.float32, gradient=False) -> Case:
    """Inputs of `multi_head_loop`; weights are scaled so that the heads' features have the tokens' own spread."""
    into = normal(h, d, d_h, scale=d**-0.5, dtype=dtype)
    out = normal(h * d_h, d, scale=(h * d_h) ** -0.5, dtype=dtype)
    x, memory = normal(b, n, d, scale=scale, dtype=dtype), normal(b, m, d, scale=scale, dtype=dtype)
    return explicit_case(label, x, memory, into, into, into, out, visible_mask(n, m), gradient=gradient)


def one_key_apart(*shape: int) -> RandomArg:
    """A memory near −20, but for its first token: that is near 20."""
    signs = torch.cat([torch.ones(1, 1), -torch.ones(shape[-2] - 1, 1)])
    return RandomArg(lambda generator: 20 * signs + torch.randn(shape, generator=generator).double())


def queries_apart(generator: Generator) -> Tensor:
    """Tokens (2, 3, 8) near 20, near −20 and near 0. The best scores of the three lie far apart, and the last row has no far hidden one."""
    return torch.tensor([20.0, -20.0, 0.0])[:, None] + torch.randn(2, 3, 8, generator=generator).double()


def mask_without_key_0(n: int, m: int) -> RandomArg:
    """A mask (n, m) that hides key 0 from all queries."""
    others = visible_mask(n, m - 1)
    return RandomArg(lambda generator: torch.nn.functional.pad(others.make(generator), (1, 0)))


# Tokens: where keys lie near −20, every score of every row is near −800.
_NEAR_20 = normal(2, 3, 8, mean=20.0, dtype=torch.float64)
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


TOWER = (
    "If a hidden score lies far above the rest of its row, all visible exponentials are 0, and 0/0 is NaN. Hide first, then take the softmax, or "
    "the maximum in it."
)
MEMORY_CUT_OFF = "The values are right, but no gradient reaches the memory. In a translator the memory is what the encoder made: it could never be trained."
SCALED_TOO_LATE = "The weights have saturated by then, and now they sum to 1/√d_h instead of 1. Divide the scores, before the softmax."
HIDDEN_AT_0 = (
    "A score of 0 is no small score: e⁰ = 1. Hidden keys get −∞. (A product with the mask makes 0; 1e-9 and `finfo.tiny` are close to 0. Very low are −1e9 "
    "and `finfo.min`.)"
)
THROWN_AWAY = (
    "`torch.where(mask, exp(…), 0)` takes the exponential of hidden scores too. Where that is infinite the output is right, and the gradient is 0 · ∞ = NaN. "
    "Hide the scores first, then take exponentials."
)
FAR_BELOW = "In a row whose scores all lie far below that maximum every exponential becomes 0, and 0/0 is NaN. Each row has its own largest score."
RAISED_BY = [10.0**k for k in range(4, 13)]
OVER_THE_QUERIES = (
    "Each query has one unit of attention to share out over the keys: the softmax runs along the last axis of the scores. "
    "(NaN comes from −∞ all along the wrong axis.)"
)
NOT_LOW_ENOUGH = "Visible scores may lie in the hundreds below 0 too, and then a hidden key with −100 wins. Only −∞ is below every score."


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
        loop_case("one sequence: gradients, in float64", b=1, n=3, m=4, d=6, h=3, d_h=3, dtype=torch.float64, gradient=True),
        explicit_case(
            "scores near −800, 800 and 0, a hidden one near 800: gradients, in float64", RandomArg(queries_apart), one_key_apart(2, 5, 8),
            _AS_THEY_ARE, _AS_THEY_ARE, normal(2, 8, 4, scale=0.3, dtype=torch.float64), normal(8, 8, scale=0.3, dtype=torch.float64),
            mask_without_key_0(3, 5), gradient=True,
        ),
        explicit_case(
            "scores near −800, those of a hidden key near 800", _NEAR_20, one_key_apart(2, 5, 8),
            _AS_THEY_ARE, _AS_THEY_ARE, normal(2, 8, 4, scale=0.3, dtype=torch.float64), normal(8, 8, scale=0.3, dtype=torch.float64), mask_without_key_0(3, 5),
        ),
    ],
    misconceptions=[
        Misconception(
            "scaled by √d instead of √d_h", loop_scaled_by_d,
            "A score is a dot product of d_h terms: the head's own width. The width d of the tokens plays no part in its spread.",
        ),
        cut_off(multi_head.multi_head_loop),
        Misconception(
            "the memory cut off from its gradients",
            lambda x, memory, *others: multi_head.multi_head_loop(x, memory.detach(), *others), MEMORY_CUT_OFF,
        ),
        Misconception(
            "the scale after the softmax",
            lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_without_scale(x, memory, w_q, w_k, w_v, w_o, mask) / math.sqrt(w_q.shape[-1]), SCALED_TOO_LATE,
        ),
        Misconception("no scale", loop_without_scale, "Each head is a scaled dot-product attention: divide its scores by √d_h."),
        Misconception(
            "no output projection", loop_without_output_projection,
            "Side by side, the heads have not met yet. The product with W_O mixes them, and brings the width back to d.",
        ),
        Misconception(
            "one softmax across the heads", loop_with_one_softmax,
            "Every head has one unit of attention of its own for each query. If the heads share one, a loud head silences the others.",
        ),
        Misconception(
            "keys and values from the queries' tokens", loop_on_x_alone,
            "In cross-attention the queries come from `x`, but what they look at is `memory`: keys and values come from there.",
            raises="RuntimeError",
        ),
        Misconception(
            "the mask inverted", loop_with_the_mask_inverted,
            "True means: may attend. You hide what is allowed. `masked_fill` fills where its mask is True, so it wants the opposite.",
        ),
        Misconception("the mask not used", loop_without_mask, "Set the scores of hidden keys to −∞ before the softmax, in every head."),
        Misconception(
            "the mask after the softmax", loop_masked_after_the_softmax,
            "Hidden keys have taken their share already, so the rest doesn't sum to 1. Hide them before the softmax.",
        ),
        Misconception(
            "heads added up", loop_with_heads_added,
            "Put the heads side by side, width h·d_h: then W_O can treat each of them differently.",
        ),
        Misconception(
            "the heads' features shuffled together", loop_with_heads_interleaved,
            "Concatenate: all features of head 0, then all of head 1. `stack` on a last axis deals them out in turn.",
        ),
        Misconception(
            "every head with the first head's weights", loop_with_the_first_head_only,
            "Head i has the weights w_q[i], w_k[i], w_v[i]. With the same weights all heads would see the same.",
        ),
        Misconception(
            "d/h taken for the width of a head", loop_scaled_by_d_over_h,
            "The width of a head is the last axis of w_q. It need not be d/h, so read it from there.",
        ),
        Misconception(
            "scaled by d_h instead of √d_h", loop_scaled_by_d_h_itself,
            "The spread of a dot product of d_h terms is √d_h. Dividing by d_h itself makes attention too flat.",
        ),
        Misconception(
            "the mask turned round from head to head", loop_with_a_mask_turned_in_each_turn,
            "`mask = ~mask` inside the loop turns it at every head: the first is right, the second sees just what is hidden. Invert it once.",
        ),
        Misconception(
            "hidden scores of almost 0", loop_with_hidden_scores_of_0,
            HIDDEN_AT_0, _nearly(loop_with_hidden_scores_of_0),
        ),
        Misconception(
            "hidden scores of −100",
            lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_hidden_scores(x, memory, w_q, w_k, w_v, w_o, mask, -100.0), NOT_LOW_ENOUGH,
        ),
        Misconception(
            "a causal mask in place of the given one",
            lambda x, memory, w_q, w_k, w_v, w_o, mask: torch.cat(
                _heads(x, memory, w_q, w_k, w_v, torch.ones_like(mask).tril(), w_q.shape[-1] ** -0.5), dim=-1
            ) @ w_o,
            "The mask that you are given says which keys are hidden, and nothing else does. It need not be causal.",
        ),
        Misconception(
            "x overwritten inside the loop", loop_that_overwrites_x,
            "Every head reads the same tokens. Your second head reads what the first one left in `x`.",
        ),
        Misconception(
            "W_O transposed", loop_with_w_o_transposed,
            "The heads side by side are multiplied by W_O as it is, from the right. (`F.linear` transposes its weight.)",
            raises="RuntimeError",
        ),
        Misconception(
            "values from the queries' tokens", loop_with_values_from_x,
            "The keys come from `memory`, and the values belong to those keys: they come from there too.",
            raises="RuntimeError",
        ),
        Misconception(
            "exponentials of scores as they are",
            lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_powers(x, memory, w_q, w_k, w_v, w_o, mask, lambda scores: 0.0),
            "Large scores overflow: e¹⁰⁰ is infinite in float32. Subtract the largest score of each row first, as in unit 02, or use "
            "`torch.softmax`.",
        ),
        Misconception(
            "one largest score for all rows",
            lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_powers(x, memory, w_q, w_k, w_v, w_o, mask, Tensor.max),
            FAR_BELOW, _one_maximum,
        ),
        Misconception(
            "clamped scores", loop_with_clamped_scores, CLAMPED,
            lambda seen: _off_as(seen, multi_head.multi_head_loop, (partial(loop_with_clamped_scores, most=most) for most in LIMITS)),
        ),
        Misconception(
            "softmax over the queries", loop_over_the_queries, OVER_THE_QUERIES,
            lambda seen: any(
                agree(seen.output, loop_over_the_queries(*seen.args, hidden), tolerance(seen.args)) for hidden in (-torch.inf, -1e9)
            ),
        ),
        Misconception(
            "the maximum taken over hidden keys too",
            lambda x, memory, w_q, w_k, w_v, w_o, mask: loop_with_powers(
                x, memory, w_q, w_k, w_v, w_o, mask, lambda scores: scores.amax(dim=-1, keepdim=True)
            ),
            TOWER,
        ),
        Misconception("exponentials of hidden scores thrown away afterwards", loop_with_exponentials_thrown_away, THROWN_AWAY),
        Misconception(
            "visible scores raised by a large number", loop_with_visible_scores_raised, RAISED,
            lambda seen: _off_as(seen, multi_head.multi_head_loop, (partial(loop_with_visible_scores_raised, by=by) for by in RAISED_BY)),
        ),
        in_single_precision(multi_head.multi_head_loop),
    ],
    within=ROUNDING,
    properties=[AS_PRECISE],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

# ------------------------------------------------------------------------------------------------- all heads at once


NAMES = ("w_q", "w_k", "w_v", "w_o")
WEIGHTS = "gradients of the weights"


def _run(
    layer_class, h: int, weights: dict[str, Tensor], x: Tensor, memory: Tensor | None, mask: Tensor | None,
    earlier: Tensor | None = None, gradients: bool = False,
) -> Tensor | dict[str, Tensor | str]:  # fmt: skip
    """Build the layer, load the weights, call it with what there is. Before that, with weights half as large, call it once with an
    `earlier` mask (n, n) or memory (b, m, d): nothing of that may stay. With `gradients` these come along, in words where they are
    missing, and without a memory also whether the weights get any."""
    layer = layer_class(x.shape[-1], h)
    if x.dtype == torch.float64:
        layer.double()
    if earlier is not None:
        layer.load_state_dict({name: weight / 2 for name, weight in weights.items()})
        layer(x, **{"mask" if earlier.dtype == torch.bool else "memory": earlier})
    layer.load_state_dict(weights)
    given_too = {name: value for name, value in (("memory", memory), ("mask", mask)) if value is not None}
    if not gradients:
        return layer(x, **given_too)
    seen = observe(layer, (x,), given_too, gradient=True, counts=False)
    if seen.error:
        raise Stopped(seen.error)
    if memory is not None:
        return {"output": seen.output} | _told_gradients(seen, ["x", "memory"])
    trained = _trained(layer_class, layer, x, given_too)
    return {"output": seen.output} | _told_gradients(seen, ["x"]) | {WEIGHTS: trained}


def _trained(layer_class, layer, x: Tensor, given_too: dict[str, Tensor]) -> Message:
    """Whether a gradient reaches each of the four layers: it alone wants one, and a hook asks whether the output still does. (The weights
    live in their student's process, and what is differentiated there is inputs. So no gradient of theirs is computed here.)"""
    wants = []
    call(layer.register_forward_hook, lambda _, inputs, output: wants.append(getattr(output, "requires_grad", True)))
    call(layer.requires_grad_, False)
    lost = [f"`{name}`" for name in NAMES if not _wants(layer_class, layer, name, x, given_too, wants)]
    if not lost:
        return Message("all layers are trained")
    return Message(
        f"the values are right, but no gradient reaches {' and '.join(lost)}: training can't move the weights"
    )


def _wants(layer_class, layer, name: str, x: Tensor, given_too: dict[str, Tensor], wants: list[bool]) -> bool:
    """What the hook finds with gradients wanted in one layer only. (None is called where a class has a `__call__` of its own.)"""
    projection = call(layer.get_submodule, name)
    call(layer_class.requires_grad_, projection, True)
    call(partial(layer, **given_too), x)
    call(layer_class.requires_grad_, projection, False)
    return wants.pop() if wants else True


def _only_the_weights(seen: Observation) -> bool:
    """A mark: all is right, but for the gradients of the weights."""
    right = _run(multi_head.MultiHeadAttention, *tree_map(in_float64, seen.args))
    off = [name for name in right if not agree(seen.output[name], right[name], ROUNDING[torch.float32])]
    return off == [WEIGHTS]


def _told_gradients(seen: Observation, names: list[str]) -> dict[str, Tensor | str]:
    """The gradients of a call, by name."""
    lead = "the values are right, but"
    if seen.backward_error:
        found = [Message(f"{lead} the backward pass stopped with an error. {seen.backward_error}")] * len(names)
    else:
        found = seen.gradients or [None] * len(names)
    lost = "no gradient reaches it, so nothing before it could be trained"
    return {
        f"gradient of {name}": Message(f"{lead} {lost}") if one is None else one
        for name, one in zip(names, found, strict=True)
    }


def _weights(d: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Weights and biases under the names of the docstring. The biases are large, so that one that is left out shows."""

    def draw(generator: Generator) -> dict[str, Tensor]:
        weights = {f"{name}.weight": torch.randn(d, d, generator=generator) / math.sqrt(d) * 1.5 for name in NAMES}
        weights |= {f"{name}.bias": torch.randn(d, generator=generator) for name in NAMES}
        return {name: weight.to(dtype) for name, weight in weights.items()}

    return RandomArg(draw)


def layer_case(
    label: str, *, b=2, n, d, h, m=None, mask=None, scale=1.0, earlier=None, dtype=torch.float32, gradients=False
) -> Case:
    memory = normal(b, m, d, scale=scale, dtype=dtype) if m else None
    x = normal(b, n, d, scale=scale, dtype=dtype)
    inputs = (h, _weights(d, dtype), x, memory, visible_mask(*mask) if mask else None)
    return explicit_case(label, *inputs, earlier, gradients)


def _weights_that_pass_on(d: int) -> RandomArg:
    """Queries and keys are the tokens themselves. In float64."""
    eye, nothing = torch.eye(d).double(), torch.zeros(d).double()
    same = {"w_q.weight": eye, "w_q.bias": nothing, "w_k.weight": eye, "w_k.bias": nothing}
    return RandomArg(lambda generator: _weights(d, torch.float64).make(generator) | same)


class _Layer(nn.Module):
    """A right layer in small steps: each wrong answer below differs from it in one of them."""

    def __init__(self, d, h) -> None:
        super().__init__()
        self.h, self.d_h = h, d // h
        self.w_q, self.w_k, self.w_v, self.w_o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_v(memory)

    def split(self, x) -> Tensor:
        return x.reshape(len(x), -1, self.h, self.d_h).transpose(1, 2)

    def scores(self, q, k) -> Tensor:
        return q @ k.mT / math.sqrt(self.d_h)

    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -torch.inf)
        return torch.softmax(scores, dim=-1)

    def merge(self, x) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def forward(self, x, memory=None, mask=None) -> Tensor:
        q, k, v = (self.split(t) for t in self.project(x, x if memory is None else memory))
        return self.w_o(self.merge(self.weights(self.scores(q, k), mask) @ v))


class LayerWithSplitByView(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), self.h, -1, self.d_h)


class LayerWithMergeByView(_Layer):
    def merge(self, x) -> Tensor:
        return x.reshape(len(x), x.shape[2], -1)


class LayerWithoutAnyTranspose(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), self.h, -1, self.d_h)

    def merge(self, x) -> Tensor:
        return x.reshape(len(x), x.shape[2], -1)


class LayerWithSwappedSplit(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), -1, self.d_h, self.h).permute(0, 3, 1, 2)


class LayerWithFeaturesDealtOut(_Layer):
    def split(self, x) -> Tensor:
        return x.reshape(len(x), -1, self.d_h, self.h).permute(0, 3, 1, 2)

    def merge(self, x) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(2)


class LayerScaledByD(_Layer):
    def scores(self, q, k) -> Tensor:
        return q @ k.mT / math.sqrt(self.h * self.d_h)


class LayerWithoutScale(_Layer):
    def scores(self, q, k) -> Tensor:
        return q @ k.mT


class LayerScaledByTheWholeWidth(_Layer):
    def scores(self, q, k) -> Tensor:
        return q @ k.mT / self.d_h


class LayerWithoutOutputProjection(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        q, k, v = (self.split(t) for t in self.project(x, x if memory is None else memory))
        return self.merge(self.weights(self.scores(q, k), mask) @ v)


class LayerWithOneSoftmax(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -torch.inf)
        shares = torch.softmax(scores.transpose(1, 2).flatten(2), dim=-1)  # (b, n, h·m)
        return shares.unflatten(-1, (self.h, -1)).transpose(1, 2)


class LayerWithHeadsCompeting(_Layer):
    axis, hidden = 1, -torch.inf

    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), self.hidden)
        return torch.softmax(scores, dim=self.axis)


class LayerWithQueriesCompeting(LayerWithHeadsCompeting):
    axis = -2


def _competing(layer: type) -> Callable[[Observation], bool]:
    """A mark: such a layer, with −∞ or with a finite number for hidden scores."""
    lower = type(layer.__name__, (layer,), {"hidden": -1e9})
    return lambda seen: any(
        agree(seen.output, _run(one, *seen.args), ROUNDING[torch.float32]) for one in (layer, lower)
    )


class LayerWithoutCrossAttention(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), self.w_v(x)


class LayerWithValuesFromX(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_v(x)


class LayerWithQueriesFromMemory(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(memory), self.w_k(x), self.w_v(x)


class LayerWithMaskOverBatch(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), dim=-1)


class LayerWithMaskInverted(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-3), -torch.inf)
        return torch.softmax(scores, dim=-1)


class LayerWithMaskMultiplied(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores * mask.unsqueeze(-3), dim=-1)


class LayerWithMaskAdded(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores + mask.unsqueeze(-3), dim=-1)


class LayerWithVisibleScoresRaised(_Layer):
    by = 1e6

    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores + self.by * mask.unsqueeze(-3), dim=-1)


def _raised_layers() -> Iterable[Callable]:
    """What such layers give, whatever they raise by."""
    layers = (type("Raised", (LayerWithVisibleScoresRaised,), {"by": by}) for by in RAISED_BY)
    return (partial(_run, layer) for layer in layers)


class LayerWithMaskAfterSoftmax(_Layer):
    def weights(self, scores, mask) -> Tensor:
        shares = torch.softmax(scores, dim=-1)
        return shares if mask is None else shares * mask.unsqueeze(-3)


class LayerWithoutMask(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores, dim=-1)


class LayerWithoutBiases(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return x @ self.w_q.weight.T, memory @ self.w_k.weight.T, memory @ self.w_v.weight.T


class LayerWithKeysAsValues(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_k(memory)


class LayerWithTransposedWeights(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        pairs = ((x, self.w_q), (memory, self.w_k), (memory, self.w_v))
        return tuple(t @ w.weight + w.bias for t, w in pairs)


class LayerWithAnAxisInFrontOfTheQueries(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask.unsqueeze(1), -torch.inf), dim=-1)


class LayerThatGuessesTheMask(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None:
            mask = mask[:, None] if len(mask) == len(scores) else mask
            scores = scores.masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, dim=-1)


class LayerWithMasksInTurn(_Layer):
    def weights(self, scores, mask) -> Tensor:
        if mask is not None and mask.dim() == 3:
            return super().weights(scores.flatten(0, 1)[:, None], mask.repeat(self.h, 1, 1)).view(scores.shape)
        return super().weights(scores, mask)


class LayerThatIsCausalByItself(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores, torch.ones_like(scores[0, 0], dtype=torch.bool).tril() if mask is None else mask)


class LayerWithTheMaximumOfAll(_Layer):
    def weights(self, scores, mask) -> Tensor:
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        powers = powers if mask is None else powers * mask.unsqueeze(-3)
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithOneMaximum(_Layer):
    axes, hides_first = (0, 1, 2, 3), False

    def weights(self, scores, mask) -> Tensor:
        visible = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.unsqueeze(-3)
        seen = scores.masked_fill(~visible, -torch.inf) if self.hides_first else scores
        powers = torch.exp(seen - seen.amax(dim=self.axes, keepdim=True)) * visible
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithClampedScores(_Layer):
    most = 50.0

    def scores(self, q, k) -> Tensor:
        return super().scores(q, k).clamp(-self.most, self.most)


def _off_as_a_layer(layer: type, *variants: dict) -> Callable[[Observation], bool]:
    """A mark: an output (never mind its gradients) that is off as one of the variants of a wrong layer makes it."""
    right, wrongs = multi_head.MultiHeadAttention, [type(layer.__name__, (layer,), one) for one in variants]

    def output(made: Tensor | dict) -> Tensor:
        return made["output"] if isinstance(made, dict) else made

    def made_by(one: type) -> Callable:
        return lambda *args: output(_run(one, *args))

    return lambda seen: _off_as(replace(seen, output=output(seen.output)), made_by(right), map(made_by, wrongs))


class LayerWithExponentialsThrownAway(_Layer):
    def weights(self, scores, mask) -> Tensor:
        visible = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.unsqueeze(-3)
        largest = scores.masked_fill(~visible, -torch.inf).amax(dim=-1, keepdim=True)
        powers = torch.where(visible, torch.exp(scores - largest), 0.0)
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithAFloat32Softmax(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores.float(), mask).to(scores.dtype)


class LayerUnderThreeNames(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_q = self.w_k = self.w_v


class LayerOfKeysAndValues(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_k = self.w_v


class LayerUnderFourNames(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_q = self.w_k = self.w_v = self.w_o


class LayerThatKeepsTheMask(_Layer):
    kept = None

    def weights(self, scores, mask) -> Tensor:
        self.kept = self.kept if mask is None else mask
        return super().weights(scores, self.kept)


class LayerThatKeepsTheFirstMask(_Layer):
    """A mask made ready once for each shape."""

    kept = None

    def weights(self, scores, mask) -> Tensor:
        if mask is None or self.kept is None or self.kept.shape != mask.shape:
            self.kept = mask
        return super().weights(scores, self.kept)


class LayerThatKeepsTheMemory(_Layer):
    kept = None

    def forward(self, x, memory=None, mask=None) -> Tensor:
        self.kept = self.kept if memory is None else memory
        return super().forward(x, self.kept, mask)


class LayerThatKeepsKeysAndValues(_Layer):
    kept = None

    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        self.kept = self.kept or super().project(x, memory)[1:]
        return self.w_q(x), *self.kept


def _kept_keys_and_values(seen: Observation) -> bool:
    """A mark: keys and values of the call before, whatever they were kept for: all calls, a memory, or the same tokens again."""
    return _off_as(seen, partial(_run, multi_head.MultiHeadAttention), [partial(_run, LayerThatKeepsKeysAndValues)])


class LayerWithADetachedMemory(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, None if memory is None else memory.detach(), mask)


class LayerWithDetachedKeysAndValues(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return super().project(x, memory.detach())


class LayerWithDetachedWeights(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores, mask).detach()


class LayerWithWeightsCutOff(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        pairs = ((x, self.w_q), (memory, self.w_k), (memory, self.w_v))
        return tuple(t @ w.weight.data.T + w.bias.data for t, w in pairs)


class LayerWithoutGradients(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory, mask).detach()


class LayerScaledTooLate(LayerWithoutScale):
    def weights(self, scores, mask) -> Tensor:
        return super().weights(scores, mask) / math.sqrt(self.d_h)


class LayerWithMemoryOrX(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory or x, mask)


class LayerWithoutBiasParameters(_Layer):
    def __init__(self, d, h) -> None:
        super().__init__(d, h)
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d, bias=False) for _ in range(4))


LayerWithoutBiasParameters.__name__ = "MultiHeadAttention"  # PyTorch's message names the class


class LayerWithHiddenScoresOf100(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask.unsqueeze(-3), -100.0), dim=-1)


class LayerWithTransposedValues(_Layer):
    def project(self, x, memory) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), memory @ self.w_v.weight + self.w_v.bias


class LayerCutByTheQueriesLength(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        b, n, _ = x.shape
        q, k, v = (
            t.view(b, n, self.h, self.d_h).transpose(1, 2) for t in self.project(x, x if memory is None else memory)
        )
        return self.w_o(self.merge(self.weights(self.scores(q, k), mask) @ v))


class LayerWithDropout(_Layer):
    def weights(self, scores, mask) -> Tensor:
        return torch.nn.functional.dropout(super().weights(scores, mask), 0.1, self.training)


class LayerWithAResidual(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return x + super().forward(x, memory, mask)


class LayerWithAMaskForMemoryAlone(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory, None if memory is None else mask)


class LayerWithAMaskForXAlone(_Layer):
    def forward(self, x, memory=None, mask=None) -> Tensor:
        return super().forward(x, memory, mask if memory is None else None)


class LayerWithPowers(_Layer):
    def weights(self, scores, mask) -> Tensor:
        powers = torch.exp(scores) if mask is None else torch.exp(scores) * mask.unsqueeze(-3)
        return powers / powers.sum(dim=-1, keepdim=True)


class LayerWithACausalMask(_Layer):
    def scores(self, q, k) -> Tensor:
        scores = super().scores(q, k)
        return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)


MultiHeadAttention = Check(
    reference=multi_head.MultiHeadAttention,
    drive=_run,
    cases=[
        layer_case("self-attention: n = 5, d = 12, 3 heads", n=5, d=12, h=3),
        layer_case("cross-attention: n = 4, m = 6, d = 8, 2 heads", b=3, n=4, m=6, d=8, h=2),
        layer_case("cross-attention with n = m = 5", n=5, m=5, d=6, h=3),
        layer_case("a mask (n, m) for all sequences", n=4, m=7, d=12, h=4, mask=(4, 7)),
        layer_case("a mask for each sequence, b = h = 2", n=5, d=8, h=2, mask=(2, 5, 5)),
        layer_case("a mask for each sequence, b = 3, h = 2", b=3, n=4, m=5, d=8, h=2, mask=(3, 4, 5)),
        layer_case("large scores", n=4, d=10, h=5, scale=5.5),
        layer_case("no mask, after a call with one and other weights", n=3, d=8, h=4, earlier=visible_mask(3, 3)),
        layer_case("no memory, after a call with one and other weights", n=3, d=8, h=2, earlier=normal(2, 3, 8)),
        layer_case("a mask, after a call with another one and other weights", n=6, d=8, h=2, mask=(6, 6), earlier=visible_mask(6, 6)),
        explicit_case(
            "scores near −800, 800 and 0, a hidden one near 800: gradients, in float64", 2, _weights_that_pass_on(8),
            RandomArg(queries_apart), one_key_apart(2, 5, 8), mask_without_key_0(3, 5), None, True,
        ),
        explicit_case(
            "scores near −800, without a mask", 2, _weights_that_pass_on(8),
            _NEAR_20, normal(2, 5, 8, mean=-20.0, dtype=torch.float64), None, None, False,
        ),
        layer_case("a mask (n, m) for all, with b = h = n = 3", b=3, n=3, m=4, d=6, h=3, mask=(3, 4)),
        layer_case("self-attention with a mask (n, n), b = n", b=4, n=4, d=6, h=2, mask=(4, 4)),
        layer_case("another memory, after a call with one and other weights", n=3, m=4, d=8, h=2, earlier=normal(2, 4, 8)),
        layer_case("self-attention: gradients, in float64", n=4, d=6, h=3, dtype=torch.float64, gradients=True),
        layer_case("cross-attention with a mask: gradients, in float64", n=3, m=5, d=6, h=2, mask=(2, 3, 5), dtype=torch.float64, gradients=True),
    ],
    properties=[AS_PRECISE],
    misconceptions=[
        Misconception(
            "keys and values kept from an earlier call", LayerThatKeepsKeysAndValues,
            "Keys and values belong to one call: other tokens have others, and so have the same tokens after a step of training, or with other weights loaded. "
            "Make them anew in every call. (A model that writes may keep them. Unit 08 says when.)",
            _kept_keys_and_values,
        ),
        Misconception("the memory cut off from its gradients", LayerWithADetachedMemory, MEMORY_CUT_OFF),
        Misconception(
            "keys and values cut off from the gradient", LayerWithDetachedKeysAndValues,
            "The values are right, but the gradient comes back only through the queries. Tokens learn from being looked at, too.",
        ),
        Misconception(
            "the attention weights cut off from the gradient", LayerWithDetachedWeights,
            "The values are right, but the gradient comes back only through the values: queries and keys could never learn where to look.",
        ),
        Misconception(
            "cut off from the gradient", LayerWithoutGradients,
            "The values are right, but no gradient comes back: with `.detach()`, `.data` or `torch.no_grad()` on the way the layer can't be trained.",
        ),
        Misconception(
            "weights cut off from the gradient", LayerWithWeightsCutOff,
            "The values are right, but numbers copied out of the layers (with `.data` or `.detach()`, say) are no weights that learn. Call the modules, `self.w_q(x)`.",
            _only_the_weights,
        ),
        Misconception("the scale after the softmax", LayerScaledTooLate, SCALED_TOO_LATE),
        Misconception(
            "heads split by a view alone", LayerWithSplitByView,
            "A view only moves the line breaks: head 0 gets the first tokens, not the first features. Cut the width into (h, d_h) first, then "
            "swap the head axis with the token axis.",
        ),
        Misconception(
            "heads merged by a view alone", LayerWithMergeByView,
            "From (b, h, n, d_h), bring the heads back beside the width before you join the two; otherwise a row mixes several tokens.",
        ),
        Misconception(
            "views without any transpose", LayerWithoutAnyTranspose,
            "Split and merge undo each other, so the shapes fit, but each head attends among pieces of a few tokens. Tokens and features must "
            "stay apart: transpose after the split and before the merge.",
        ),
        Misconception(
            "heads and width swapped in the split", LayerWithSwappedSplit,
            "Cut the width into (h, d_h), in this order: a head's features lie side by side. (d_h, h) gives head 0 every h-th feature.",
        ),
        Misconception(
            "features dealt out to the heads in turn", LayerWithFeaturesDealtOut,
            "Split and merge agree with each other, but head i is the i-th block of d_h features in the weights, not every h-th feature.",
        ),
        Misconception(
            "scaled by √d instead of √d_h", LayerScaledByD,
            "A head's score is a dot product of d_h terms, so √d_h is its spread. With √d all heads get too flat: the more heads, the flatter.",
        ),
        Misconception("no scale", LayerWithoutScale, "Each head is a scaled dot-product attention: divide the scores by √d_h."),
        Misconception(
            "scaled by d_h instead of √d_h", LayerScaledByTheWholeWidth,
            "The spread of a dot product of d_h terms is √d_h. Dividing by d_h itself makes attention too flat. (`F.scaled_dot_product_attention` divides by √d_h "
            "by itself: with a scale of your own before it, that is twice.)",
        ),
        Misconception(
            "no output projection", LayerWithoutOutputProjection,
            "Side by side, the heads have not met yet. The last step is `w_o`, which mixes what they found.",
        ),
        Misconception(
            "one softmax across heads and keys", LayerWithOneSoftmax,
            "Every head has one unit of attention of its own for each query: the softmax runs over the keys of one head.",
        ),
        Misconception(
            "a softmax over the heads", LayerWithHeadsCompeting,
            "The head axis is not the axis of the keys. Heads don't compete; the keys within one head do, and they are the last axis. (NaN comes from −∞ all along the "
            "wrong one.)",
            _competing(LayerWithHeadsCompeting),
        ),
        Misconception(
            "softmax over the queries", LayerWithQueriesCompeting, OVER_THE_QUERIES, _competing(LayerWithQueriesCompeting),
        ),
        Misconception(
            "keys and values from the queries' tokens", LayerWithoutCrossAttention,
            "In cross-attention `x` asks and `memory` answers: keys and values are projections of `memory`.",
            raises="RuntimeError",
        ),
        Misconception(
            "values from the queries' tokens", LayerWithValuesFromX,
            "The keys come from `memory`, and the values belong to those keys: they come from there too.",
            raises="RuntimeError",
        ),
        Misconception(
            "queries from the memory", LayerWithQueriesFromMemory,
            "The output has a row for each token of `x`, so the queries come from `x`. `memory` gives keys and values.",
            raises="RuntimeError",
        ),
        Misconception(
            "the mask's batch axis taken for heads", LayerWithMaskOverBatch,
            "The scores are (b, h, n, m), and a mask (b, n, m) lines up with them from the right: b meets h. Give the mask a head axis of size 1.",
            raises="RuntimeError",
        ),
        Misconception(
            "the mask inverted", LayerWithMaskInverted,
            "True means: may attend. `masked_fill` fills where its mask is True, so it wants the opposite.",
        ),
        Misconception(
            "hidden scores of almost 0", LayerWithMaskMultiplied, HIDDEN_AT_0, _nearly(partial(_run, LayerWithMaskMultiplied)),
        ),
        Misconception(
            "the mask added as 0 and 1", LayerWithMaskAdded,
            "Adding 1 to what is allowed makes it only e times as likely. A hidden score must become −∞.",
        ),
        Misconception(
            "the mask after the softmax", LayerWithMaskAfterSoftmax,
            "Hidden keys have taken their share already, so the rest doesn't sum to 1. Hide them before the softmax.",
        ),
        Misconception("the mask not used", LayerWithoutMask, "Set the scores of hidden keys to −∞ before the softmax, in every head."),
        Misconception(
            "the projections' biases left out", LayerWithoutBiases,
            "`nn.Linear(d, d)` has a bias. Call the module, `self.w_q(x)`, and it is added.",
        ),
        Misconception(
            "values made by the keys' projection", LayerWithKeysAsValues,
            "What a token is found by and what it hands over are two things: values have a projection of their own, `w_v`.",
        ),
        Misconception(
            "transposed weights", LayerWithTransposedWeights,
            "`nn.Linear` stores its weight as (out, in) and multiplies by the transpose. Call the module and you need not think of it.",
        ),
        Misconception(
            "a head axis in front of the queries", LayerWithAnAxisInFrontOfTheQueries,
            "`unsqueeze(1)` is right for a mask (b, n, m), but it makes (n, 1, m) of (n, m), and then n meets the heads. Count the new axis from "
            "the right.",
            raises="RuntimeError",
        ),
        Misconception(
            "the kind of mask guessed from its size", LayerThatGuessesTheMask,
            "A mask (n, m) may have n = b by chance. Look at the number of its axes, `mask.dim()`, or count from the right.",
            raises="RuntimeError",
        ),
        Misconception(
            "one layer under four names", LayerUnderFourNames,
            "The four names stand for the same `nn.Linear`, so the weights that are loaded last serve for all. (`[nn.Linear(d, d)] * 4` is one "
            "object four times.) Make four.",
        ),
        Misconception(
            "one layer under three names", LayerUnderThreeNames,
            "`w_q`, `w_k` and `w_v` stand for the same `nn.Linear`, so the weights that are loaded last serve for all three. (`a = b = c = nn.Linear(d, d)` makes "
            "one layer.) Make three.",
        ),
        Misconception(
            "one layer for keys and values", LayerOfKeysAndValues,
            "`w_k` and `w_v` stand for the same `nn.Linear`, so the weights that are loaded last serve for both. Make two.",
        ),
        Misconception(
            "the sequences' masks dealt out in turn", LayerWithMasksInTurn,
            "With the heads inside the batch axis, the rows run sequence by sequence: all heads of sequence 0, then all of sequence 1. `repeat` lays the masks "
            "0 1 0 1; `repeat_interleave` lays them 0 0 1 1.",
        ),
        Misconception(
            "causal where no mask is given", LayerThatIsCausalByItself,
            "Without a mask every query sees all keys, later ones too. Your layer hides them as soon as there is none.",
        ),
        Misconception("the maximum taken over hidden keys too", LayerWithTheMaximumOfAll, TOWER),
        Misconception(
            "one largest score for all rows", LayerWithOneMaximum, FAR_BELOW,
            _off_as_a_layer(LayerWithOneMaximum, *({"axes": axes, "hides_first": True} for axes in ((0, 1, 2, 3), (1, 2, 3), (2, 3)))),
        ),
        Misconception("clamped scores", LayerWithClampedScores, CLAMPED, _off_as_a_layer(LayerWithClampedScores, *({"most": most} for most in LIMITS))),
        Misconception(
            "visible scores raised by a large number", LayerWithVisibleScoresRaised, RAISED,
            lambda seen: _off_as(seen, partial(_run, multi_head.MultiHeadAttention), _raised_layers()),
        ),
        Misconception("exponentials of hidden scores thrown away afterwards", LayerWithExponentialsThrownAway, THROWN_AWAY),
        replace(
            in_single_precision(partial(_run, multi_head.MultiHeadAttention)), function=LayerWithAFloat32Softmax,
        ),
        Misconception(
            "the mask kept from an earlier call", LayerThatKeepsTheMask,
            "A mask belongs to one call. Without one every key is visible, whatever was hidden before.",
        ),
        Misconception(
            "a mask kept for all of its shape", LayerThatKeepsTheFirstMask,
            "A mask belongs to one call. The next one may have the same shape and hide other keys: use the one that is handed in.",
        ),
        Misconception(
            "the memory kept from an earlier call", LayerThatKeepsTheMemory,
            "A memory belongs to one call. Without one, keys and values come from `x`, whatever came before.",
        ),
        Misconception(
            "a tensor asked for its truth", LayerWithMemoryOrX,
            "`memory or x` asks whether `memory` is true, and a tensor with many numbers is neither true nor false. Ask `memory is None`.",
            raises="RuntimeError",
        ),
        Misconception(
            "projections without a bias", LayerWithoutBiasParameters,
            "The check loads a weight and a bias for each of the four, and yours have no bias. `nn.Linear(d, d)` has one; leave out `bias=False`.",
            raises="RuntimeError",
        ),
        Misconception("hidden scores of −100", LayerWithHiddenScoresOf100, NOT_LOW_ENOUGH),
        Misconception(
            "the values' weight not transposed", LayerWithTransposedValues,
            "`nn.Linear` stores its weight as (out, in) and multiplies by the transpose. Call the module, `self.w_v(memory)`, and you need not think of "
            "it.",
        ),
        Misconception(
            "the memory cut with the queries' length", LayerCutByTheQueriesLength,
            "`x` has n tokens, `memory` has m of its own. Keys and values are (b, m, d): take their length from them.",
            raises="RuntimeError",
        ),
        Misconception(
            "dropout in the layer", LayerWithDropout,
            "The layer draws random numbers: two calls give two outputs. Nobody asks for dropout here.",
            lambda seen: any("dropout" in name or "bernoulli" in name for name in seen.operations),
        ),
        Misconception(
            "x added to the output", LayerWithAResidual,
            "Return what the heads found, and no more. The residual connection, x + …, belongs to the block around it (unit 05).",
        ),
        Misconception(
            "a mask for cross-attention alone", LayerWithAMaskForMemoryAlone,
            "Self-attention may be masked too: the mask holds whether there is a memory or not.",
        ),
        Misconception(
            "a mask for self-attention alone", LayerWithAMaskForXAlone,
            "Cross-attention may be masked too: the mask holds whether there is a memory or not.",
        ),
        Misconception(
            "exponentials of scores as they are", LayerWithPowers,
            "Large scores overflow: e¹⁰⁰ is infinite in float32. Subtract the largest score of each row first, as in unit 02, or use "
            "`torch.softmax`.",
        ),
        Misconception(
            "a causal mask that nobody asked for", LayerWithACausalMask,
            "The mask says what is hidden, and nothing else does. Without a mask every query sees all keys, later ones too.",
        ),
    ],
    within=ROUNDING,
    forbids=["multi_head_attention"],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- costs

SIZES = [
    random_case(d=12, h=3, d_h=4),
    random_case(d=8, h=4, d_h=8),
    random_case(d=10, h=3, d_h=7),
    random_case(d=512, h=8, d_h=64),
]

READS_ALL = "Every head reads the whole token: its W_Q, W_K and W_V go from d to d_h, not from d_h to d_h."

head_parameters = Check(
    reference=multi_head.head_parameters,
    cases=SIZES,
    within=(0.0, 0.0),
    misconceptions=[
        Misconception(
            "no biases", lambda d, h, d_h: 4 * d * h * d_h,
            "Each of the four projections adds a bias: one number for each of its outputs.",
        ),
        Misconception(
            "no output projection", lambda d, h, d_h: 3 * (d + 1) * h * d_h,
            "There is a fourth projection: W_O brings the h·d_h features of all heads back to d.",
        ),
        Misconception(
            "one number for each bias", lambda d, h, d_h: 4 * d * h * d_h + 4,
            "A bias is a vector, as long as the projection's output: h·d_h for three of them, d for the last.",
        ),
        Misconception(
            "the parameters of one head", lambda d, h, d_h: 4 * d * d_h + 3 * d_h + d,
            "Every head has weights of its own: all h of them together project to h·d_h features.",
        ),
        Misconception(
            "four d × d projections, whatever d_h is", lambda d, h, d_h: 4 * d * (d + 1),
            "That is right when h·d_h = d. Here d_h is free, and the projections go from d to h·d_h, and back.",
        ),
        Misconception(
            "heads that all have width d", lambda d, h, d_h: 3 * (d + 1) * h * d + (h * d + 1) * d,
            "The width of a head is d_h, whatever d is: the projections go from d to h·d_h.",
        ),
        Misconception(
            "an output bias of width h·d_h", lambda d, h, d_h: 4 * (d + 1) * h * d_h,
            "The output projection goes from h·d_h to d, so its bias has d numbers.",
        ),
        Misconception(
            "four biases of d numbers", lambda d, h, d_h: 4 * d * h * d_h + 4 * d,
            "A bias is as long as the output of its projection: h·d_h for Q, K and V, and d only for the last.",
        ),
        Misconception(
            "Q, K and V for one head alone", lambda d, h, d_h: 3 * (d * d_h + d_h) + h * d_h * d + d,
            "Every head has projections of its own: those of all heads together go from d to h·d_h.",
        ),
        Misconception(
            "heads that read d_h features of a token", lambda d, h, d_h: 3 * (d_h + 1) * h * d_h + (h * d_h + 1) * d, READS_ALL,
        ),
        Misconception(
            "three d × d projections and a wide output", lambda d, h, d_h: 3 * d * (d + 1) + h * d_h * d + d,
            "Q, K and V go from d to h·d_h, which need not be d.",
        ),
        Misconception(
            "an output bias for each head", lambda d, h, d_h: 3 * (d + 1) * h * d_h + h * (d_h + 1) * d,
            "The heads are joined before the output projection: it is one matrix with one bias of d numbers.",
        ),
        Misconception(
            "no bias in the output projection", lambda d, h, d_h: 3 * (d + 1) * h * d_h + h * d_h * d,
            "All four projections have a bias, the last one too: d numbers more.",
        ),
    ],
)  # fmt: skip

head_flops = Check(
    reference=multi_head.head_flops,
    cases=[
        random_case(n=5, d=12, h=3, d_h=4), random_case(n=100, d=8, h=4, d_h=8), random_case(n=7, d=10, h=3, d_h=6), random_case(n=1024, d=512, h=8, d_h=64),
    ],
    within=(0.0, 0.0),
    misconceptions=[
        Misconception(
            "one FLOP for a multiply-add", lambda n, d, h, d_h: 4 * n * d * h * d_h + 2 * n * n * h * d_h,
            "In this course a multiplication and an addition count as 2. An (a, b) times (b, c) product has 2·a·b·c FLOPs.",
        ),
        Misconception(
            "no output projection", lambda n, d, h, d_h: 6 * n * d * h * d_h + 4 * n * n * h * d_h,
            "There are four projections: Q, K, V, and the output.",
        ),
        Misconception(
            "half of the attention", lambda n, d, h, d_h: 8 * n * d * h * d_h + 2 * n * n * h * d_h,
            "Two products have n² in them: the scores Q Kᵀ, and the weights times V. You count as much as one of them, or half of each. (No mask hides a half here.)",
        ),
        Misconception(
            "the pairs under a causal mask", lambda n, d, h, d_h: 8 * n * d * h * d_h + 2 * n * (n + 1) * h * d_h,
            "Under a causal mask n(n + 1)/2 pairs of a query and a key are left. Here no mask is given: every query meets every key, n² pairs.",
        ),
        Misconception(
            "the scores of one head only", lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * d_h,
            "Each of the h heads has scores of its own, n × n of them.",
        ),
        Misconception(
            "scores of width d in every head", lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d,
            "A head's score is a dot product of d_h terms, not d.",
        ),
        Misconception(
            "attention that is linear in n", lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * h * d_h,
            "Every one of n queries meets every one of n keys.",
        ),
        Misconception(
            "the projections of one token", lambda n, d, h, d_h: 8 * d * h * d_h + 4 * n * n * h * d_h,
            "All n tokens are projected: (n, d) times (d, h·d_h).",
        ),
        Misconception(
            "projections of one head", lambda n, d, h, d_h: 8 * n * d * d_h + 4 * n * n * h * d_h,
            "The projections of all heads together go from d to h·d_h.",
        ),
        Misconception(
            "heads that read d_h features of a token", lambda n, d, h, d_h: 6 * n * h * d_h * d_h + 2 * n * h * d_h * d + 4 * n * n * h * d_h, READS_ALL,
        ),
        Misconception(
            "d/h taken for the width of a head", lambda n, d, h, d_h: 8 * n * d * d + 4 * n * n * d,
            "That is right when h·d_h = d. Here d_h is free: write h·d_h, and d only where the tokens' width is meant.",
        ),
        Misconception(
            "d in place of h·d_h in the attention", lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * d,
            "Your projections are right. In scores and mixture all heads together are h·d_h wide, which need not be d.",
        ),
        Misconception(
            "one addition less in every dot product",
            lambda n, d, h, d_h: (
                3 * n * h * d_h * (2 * d - 1) + h * n * n * (2 * d_h - 1) + h * n * d_h * (2 * n - 1) + n * d * (2 * h * d_h - 1)
            ),
            "To add b numbers takes b − 1 additions, so you are right to the letter. The convention is 2abc: a multiply-add counts as two.",
        ),
        Misconception(
            "half of n rounded down", lambda n, d, h, d_h: 8 * n * h * d_h * (d + n // 2),
            "`n // 2` loses a half where n is odd. Leave n whole, and double what it is added to.",
        ),
        Misconception(
            "projections to heads of width d", lambda n, d, h, d_h: 8 * n * d * h * d + 4 * n * n * h * d_h,
            "Your attention is right. But a head's projections go from d to d_h, not from d to d, so all heads together are h·d_h wide. (In the example d is d_h.)",
        ),
        Misconception(
            "an output projection of d × d", lambda n, d, h, d_h: 6 * n * d * h * d_h + 2 * n * d * d + 4 * n * n * h * d_h,
            "The output projection goes from h·d_h to d, and h·d_h need not be d.",
        ),
        Misconception(
            "biases counted", lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d_h + n * (3 * h * d_h + d),
            "Only matrix products count here. Adding the biases is small beside them, and left out.",
        ),
        Misconception(
            "the softmax counted", lambda n, d, h, d_h: 8 * n * d * h * d_h + 4 * n * n * h * d_h + 3 * h * n * n,
            "Only matrix products count here: the softmax is left out.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- heads as a sum


def parts_case(label: str, b: int, h: int, n: int, d_h: int, d: int, dtype=torch.float32, gradient=False) -> Case:
    return explicit_case(label, normal(b, h, n, d_h, dtype=dtype), normal(h * d_h, d, dtype=dtype), gradient=gradient)


def parts_by_columns(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.T.unflatten(0, (heads.shape[1], -1))
    return parts, parts.sum(dim=1)


def parts_of_the_transpose(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.T.reshape(heads.shape[1], heads.shape[-1], -1)
    return parts, parts.sum(dim=1)


def parts_by_every_hth_row(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (-1, heads.shape[1])).transpose(0, 1)
    return parts, parts.sum(dim=1)


def parts_averaged(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, parts.mean(dim=1)


def parts_with_the_first_block(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o[: heads.shape[-1]]
    return parts, parts.sum(dim=1)


def parts_of_an_even_share(heads, w_o) -> tuple[Tensor, Tensor]:
    output = heads.transpose(1, 2).flatten(2) @ w_o
    return (output / heads.shape[1]).unsqueeze(1).expand(-1, heads.shape[1], -1, -1), output


def parts_joined_by_a_view(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, heads.reshape(len(heads), heads.shape[2], -1) @ w_o


def parts_added_up_in_place(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    total = parts[:, 0]
    for i in range(1, heads.shape[1]):
        total += parts[:, i]
    return parts, total


def parts_as_running_totals(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts.cumsum(dim=1), parts.sum(dim=1)


def _totals_for_parts(seen: Observation) -> bool:
    """A mark: running totals where parts belong, or the last of them in every place, as if one tensor had been put there h times."""
    totals, total = parts_as_running_totals(*seen.args)
    wrong = (totals, total.unsqueeze(1).expand_as(totals))
    return any(agree(seen.output[0], one, tolerance(seen.args)) for one in wrong)


def parts_of_h_rows(heads, w_o) -> tuple[Tensor, Tensor]:
    blocks = w_o.split(heads.shape[1])
    parts = torch.stack([heads[:, i] @ blocks[i] for i in range(heads.shape[1])], dim=1)
    return parts, parts.sum(dim=1)


def parts_of_d_over_h_rows(heads, w_o) -> tuple[Tensor, Tensor]:
    rows = w_o.shape[1] // heads.shape[1]
    parts = [heads[:, i] @ w_o[i * rows : (i + 1) * rows] for i in range(heads.shape[1])]
    return torch.stack(parts, dim=1), sum(parts)


def parts_summed_over_tokens(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts, parts.sum(dim=2)


def parts_in_reverse(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1)).flip(0)
    return parts, parts.sum(dim=1)


def sum_before_the_parts(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = heads @ w_o.unflatten(0, (heads.shape[1], -1))
    return parts.sum(dim=1), parts


def parts_squeezed(heads, w_o) -> tuple[Tensor, Tensor]:
    parts = torch.stack(
        [(head @ block).squeeze() for head, block in zip(heads.unbind(1), w_o.chunk(heads.shape[1]))], 1
    )
    return parts, parts.sum(dim=1)


heads_as_sum = Check(
    reference=multi_head.heads_as_sum,
    names=("parts", "output"),
    cases=[
        parts_case("3 heads of width 4, d = 12", 2, 3, 5, 4, 12), parts_case("2 heads of width 5, d = 7", 3, 2, 4, 5, 7),
        parts_case("4 heads of width 4, d = 16, n = 4", 2, 4, 4, 4, 16), parts_case("one sequence", 1, 3, 4, 2, 5),
        parts_case("gradients, in float64", 2, 3, 4, 2, 5, torch.float64, gradient=True),
    ],
    properties=[AS_PRECISE],
    misconceptions=[
        cut_off(multi_head.heads_as_sum),
        in_single_precision(multi_head.heads_as_sum),
        Misconception(
            "axes of size 1 squeezed away", parts_squeezed,
            "`squeeze()` drops every axis of size 1: with one sequence the batch axis is gone as well, and the heads are stacked in another place. Name the "
            "axis, `squeeze(1)`, or index with `heads[:, i]`.",
        ),
        Misconception(
            "W_O cut into columns", parts_by_columns,
            "In a row of heads times W_O, feature j of the row meets row j of W_O. So head i meets the i-th block of rows.",
            raises="RuntimeError",
        ),
        Misconception(
            "W_O transposed before it is cut", parts_of_the_transpose,
            "In a row of heads times W_O, feature j of the row meets row j of W_O. Cut W_O as it stands: after a transpose the blocks are columns, in other "
            "pieces.",
        ),
        Misconception(
            "every h-th row of W_O", parts_by_every_hth_row,
            "The heads stand side by side, head 0 first, so head i meets rows i·d_h … (i+1)·d_h − 1.",
        ),
        Misconception(
            "the heads averaged", parts_averaged,
            "The output is the sum of the heads' parts, as it stands in the matrix product. Nothing is divided by h.",
        ),
        Misconception(
            "every head with the first block of W_O", parts_with_the_first_block,
            "Each head has rows of W_O of its own. If they shared them, W_O could not treat the heads differently.",
        ),
        Misconception(
            "the output shared out evenly", parts_of_an_even_share,
            "The output is right. But a head's part is what it adds, its own features times its own rows of W_O.",
        ),
        Misconception(
            "the output from a view of the heads", parts_joined_by_a_view,
            "Your parts are right: add them up over the head axis. A view of (b, h, n, d_h) as (b, n, h·d_h) mixes tokens.",
        ),
        Misconception(
            "the sum collected in the first head's part", parts_added_up_in_place,
            "Your sum is right, but `parts[:, 0]` is a view: adding to it in place changes the first part too. Start from a new tensor, or use "
            "`sum`.",
        ),
        Misconception(
            "totals in place of parts", parts_as_running_totals,
            "A part is what one head adds by itself. Yours are sums over several heads: collect each product before you add it to the others. (After `total += …` "
            "a list that holds `total` h times holds one tensor.)",
            _totals_for_parts,
        ),
        Misconception(
            "blocks of h rows", parts_of_h_rows,
            "W_O has h blocks of d_h rows. `split(h)` makes pieces of h rows, `chunk(h)` makes h pieces.",
            raises="RuntimeError",
        ),
        Misconception(
            "blocks of d/h rows", parts_of_d_over_h_rows,
            "A block has as many rows as a head is wide: d_h, the last axis of `heads`. It need not be d/h.",
            raises="RuntimeError",
        ),
        Misconception(
            "a sum over the tokens", parts_summed_over_tokens,
            "Your parts are right. Add them up over the heads, axis 1; the tokens stay apart.",
        ),
        Misconception(
            "the blocks in reverse order", parts_in_reverse, "Head 0 meets the first d_h rows of W_O, the last head the last.",
        ),
        Misconception(
            "the sum before the parts", sum_before_the_parts, "Return the parts first, then their sum.",
        ),
    ],
)  # fmt: skip
