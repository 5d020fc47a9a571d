"""Checks of attention with one head: one query among keys, then all queries in matrix form."""

import math
import operator
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine import common_misconceptions
from helpers.engine.cases import RandomArg, as_float64, explicit_case, normal, on_levels, random_case
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, constant_in_the_denominator, power_before_division

from .. import attention

__all__ = [
    "attend",
    "attention_weights",
    "parameter_counts",
    "permutation_equivariance",
    "qkv_projections",
    "scaled_dot_product_attention",
]

# ------------------------------------------------------------------------------------------------ one query, n keys


def _scores_near_1000(sign: float = 1.0) -> tuple[Tensor, Tensor]:
    """A query (2,) and keys (3, 2) whose dot products 999, 1000, 998 are exact; their exponentials are infinite in every dtype. With
    the sign −1 all of them are 0."""
    return sign * torch.tensor([10.0, 1.0]), torch.tensor([[100.0, -1.0], [99.0, 10.0], [100.0, -2.0]])


def _far_ahead(*shape: int) -> RandomArg:
    """Of two such tensors the first rows have a product that lies far above the mean of all: less the mean, it still overflows."""

    def make(generator: torch.Generator) -> Tensor:
        rows = 8 * torch.randn(shape, generator=generator)
        rows.view(-1)[0] = 60
        return rows

    return RandomArg(make)


def mean_subtracted(scores) -> Tensor:
    """A softmax by hand along the last axis, in which the mean takes the place of the maximum."""
    powers = torch.exp(scores - scores.mean(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


MEAN_HINT = "A score can lie far above the mean, and then its exponential still overflows: ∞/∞ is NaN. Only with the maximum is no exponent above 0."


attention_weights = Check(
    reference=attention.attention_weights,
    cases=[
        random_case(n=5, d=3), random_case(n=4, d=6), explicit_case("large scores", _far_ahead(4), _far_ahead(3, 4)), random_case(n=1, d=4),
        random_case(n=4, d=4, label="as many keys as entries, n = d = 4"),
        explicit_case("scores of 999, 1,000 and 998", *_scores_near_1000()), explicit_case("scores of −999, −1,000 and −998", *_scores_near_1000(-1.0)),
    ],
    misconceptions=[
        Misconception(
            "scores instead of weights", lambda query, keys: keys @ query,
            "The dot products say how well each key fits. Weights are what the softmax makes of them: positive, with sum 1.",
        ),
        Misconception(
            "weights that are not normalised", lambda query, keys: torch.exp(keys @ query),
            "A query has one unit of attention to share out. Divide by the sum of the exponentials: that is the softmax.",
        ),
        Misconception(
            "each weight by itself, with a sigmoid", lambda query, keys: torch.sigmoid(keys @ query),
            "A sigmoid judges every key by itself. In attention the keys compete: if one gains, the others lose.",
        ),
        Misconception(
            "divided by the sum, without exp", lambda query, keys: (keys @ query) / (keys @ query).sum(),
            "Dot products can be negative, so their shares can be negative too. The softmax takes exponentials first.",
        ),
        Misconception(
            "scaled already", lambda query, keys: torch.softmax(keys @ query / math.sqrt(len(query)), dim=0),
            "That is a good idea, but a later one: here the score is the plain dot product. Section 2.7 shows why a scale is wanted.",
        ),
        Misconception(
            "no maximum is subtracted", lambda query, keys: torch.exp(keys @ query) / torch.exp(keys @ query).sum(),
            "e^1000 is infinite in every dtype, and ∞/∞ is NaN. Take `torch.softmax`, or subtract the largest score first.",
        ),
        Misconception("the mean subtracted, not the maximum", lambda query, keys: mean_subtracted(keys @ query), MEAN_HINT),
        Misconception(
            "scores clamped to a range", lambda query, keys: torch.softmax((keys @ query).clamp(-80, 80), dim=0),
            "Scores beyond the limit become equal, and so do their weights. Against overflow subtract the largest score: that changes no weight.",
        ),
        Misconception(
            "the keys made length 1", lambda query, keys: torch.softmax(F.normalize(keys, dim=-1) @ query, dim=0),
            "The score is the plain dot product, so a key's length counts: twice as long means twice the score.",
        ),
        Misconception(
            "cosines instead of dot products", lambda query, keys: torch.softmax(torch.cosine_similarity(keys, query[None], dim=-1), dim=0),
            "The score is the plain dot product, and the lengths of query and key count. (The cosine comes in 2.6.)",
        ),
        Misconception(
            "the columns of K taken for the keys", lambda query, keys: torch.softmax(keys.T @ query, dim=0),
            "The keys are the *rows* of K: keys @ query takes the dot product of every row with the query. No transpose.",
            raises="RuntimeError",
        ),
        Misconception(
            "the axis of a single key dropped", lambda query, keys: torch.softmax((keys @ query).squeeze(), dim=-1),
            "`squeeze()` drops every axis of size 1. With one key that is the axis of the keys: the result has shape (1,), not ().",
        ),
        Misconception(
            "the logarithm of the weights", lambda query, keys: torch.log_softmax(keys @ query, dim=0),
            "`log_softmax` gives the logarithms of the shares. Weights are the shares themselves: positive, with sum 1.",
        ),
        Misconception(
            "a column of weights", lambda query, keys: torch.softmax(keys @ query[:, None], dim=0),
            "The query was made a column, and its second axis is still there: (n, 1). Drop it, `[:, 0]`, or let `keys @ query` work with the vector.",
        ),
        Misconception(
            "a softmax of every score by itself", lambda query, keys: torch.softmax((keys @ query)[:, None], dim=1)[:, 0],
            "Along an axis of size 1 every share is 1. The softmax runs along the keys.",
        ),
        Misconception(
            "divided by the number of keys", lambda query, keys: torch.softmax(keys @ query / len(keys), dim=0),
            "The score is the plain dot product. How many keys there are has no part in it.",
        ),
    ],
)  # fmt: skip


def as_wide_as_the_query(query, keys, values) -> Tensor:
    output = torch.zeros_like(query)
    for weight, value in zip(torch.softmax(keys @ query, dim=0), values):
        output += weight * value
    return output


attend = Check(
    reference=attention.attend,
    cases=[
        random_case(n=5, d=3, d_v=4), random_case(n=3, d=6, d_v=2), explicit_case("large scores", _far_ahead(3), _far_ahead(4, 3), normal(4, 5)),
        random_case(n=4, d=3, d_v=4, label="as many values as entries, n = d_v = 4"), random_case(n=5, d=3, d_v=1), random_case(n=1, d=5, d_v=3),
        explicit_case("scores of 999, 1,000 and 998", *_scores_near_1000(), normal(3, 2)),
        explicit_case("scores of −999, −1,000 and −998", *_scores_near_1000(-1.0), normal(3, 2)),
    ],
    misconceptions=[
        Misconception(
            "values weighted by scores", lambda query, keys, values: (keys @ query) @ values,
            "The scores have no softmax on them yet: they may be negative and don't sum to 1, so the result is no average.",
        ),
        Misconception(
            "weights that are not normalised", lambda query, keys, values: torch.exp(keys @ query) @ values,
            "The weights must sum to 1, so that the output stays among the values. Divide by the sum of the exponentials.",
        ),
        Misconception(
            "a softmax of the weights", lambda query, keys, values: torch.softmax(torch.softmax(keys @ query, dim=0), dim=0) @ values,
            "The weights are shares already: a second softmax makes them nearly equal. Mix the values with what `attention_weights` returns.",
        ),
        Misconception(
            "the keys mixed instead of the values", lambda query, keys, values: torch.softmax(keys @ query, dim=0) @ keys,
            "Keys are for finding, values are for taking. The weights come from the keys; what they mix are the values.",
        ),
        Misconception(
            "the best value only", lambda query, keys, values: values[(keys @ query).argmax()],
            "Attention is soft: every value counts by its weight, also the second best. (And `argmax` has no gradient.)",
        ),
        Misconception(
            "a plain mean of the values", lambda query, keys, values: values.mean(dim=0),
            "The mean gives every value the same weight 1/n. Here value i counts α_i.",
        ),
        Misconception(
            "values that are weighted but not added up",
            lambda query, keys, values: torch.softmax(keys @ query, dim=0)[:, None] * values,
            "You have the n terms α_i v_i, one a row. The output is their sum.",
        ),
        Misconception(
            "the mean of the weighted values", lambda query, keys, values: (torch.softmax(keys @ query, 0)[:, None] * values).mean(0),
            "The weights sum to 1 already, so the weighted values are added up. A mean divides by n once more.",
        ),
        Misconception(
            "weight i on column i of the values", lambda query, keys, values: (torch.softmax(keys @ query, 0) * values).sum(0),
            "Value i is a *row*. A vector times a matrix multiplies the columns: give the weights a second axis, `[:, None]`.",
            raises="RuntimeError",
        ),
        Misconception(
            "scaled already", lambda query, keys, values: torch.softmax(keys @ query / math.sqrt(len(query)), dim=0) @ values,
            "Here the score is the plain dot product. Section 2.7 shows why a scale is wanted.",
        ),
        Misconception(
            "no maximum is subtracted", lambda query, keys, values: torch.exp(keys @ query) @ values / torch.exp(keys @ query).sum(),
            "e^1000 is infinite in every dtype, and ∞/∞ is NaN. Use your `attention_weights`, or subtract the largest score first.",
        ),
        Misconception("the mean subtracted, not the maximum", lambda query, keys, values: mean_subtracted(keys @ query) @ values, MEAN_HINT),
        Misconception(
            "scores clamped to a range", lambda query, keys, values: torch.softmax((keys @ query).clamp(-80, 80), dim=0) @ values,
            "Scores beyond the limit become equal, and so do their weights. Use your `attention_weights`, or subtract the largest score.",
        ),
        Misconception(
            "an axis of size 1 dropped", lambda query, keys, values: (torch.softmax(keys @ query, 0)[None] @ values).squeeze(),
            "`squeeze()` drops every axis of size 1, the one of the values too where d_v = 1. The output has shape (d_v,).",
        ),
        Misconception(
            "as wide as the query", as_wide_as_the_query,
            "The output is a mixture of values, so it is as wide as a value, d_v: `torch.zeros_like(values[0])`. A query may have another width.",
            raises="RuntimeError",
        ),
        Misconception(
            "an axis of size 1 too many", lambda query, keys, values: torch.softmax(keys @ query, 0)[None] @ values,
            "The weights were made a row, (1, n), and the 1 is still there. A vector needs no second axis: `weights @ values` has shape (d_v,).",
        ),
        Misconception(
            "a column instead of a vector", lambda query, keys, values: values.T @ torch.softmax(keys @ query, 0)[:, None],
            "The weights were made a column, (n, 1), and the 1 is still there. A vector needs no second axis: `weights @ values` has shape (d_v,).",
        ),
        Misconception(
            "the last value only", lambda query, keys, values: torch.softmax(keys @ query, 0)[-1] * values[-1],
            "The loop overwrites its result at every key. Add up: output += weight · value.",
        ),
        Misconception(
            "the keys made length 1", lambda query, keys, values: torch.softmax(F.normalize(keys, dim=-1) @ query, dim=0) @ values,
            "The score is the plain dot product, so a key's length counts.",
        ),
    ],
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------- matrix form


def projections_from_the_left(x, w_q, w_k, w_v) -> tuple[Tensor, Tensor, Tensor]:
    return w_q @ x, w_k @ x, w_v @ x


def projected_with_a_batch_axis_or_none(x, w_q, w_k, w_v) -> tuple:
    rows = "bnd,dk->bnk" if x.dim() > 2 else "nd,dk->nk"
    return tuple(torch.einsum(rows, x, w) for w in (w_q, w_k, w_v))


qkv_projections = Check(
    reference=attention.qkv_projections,
    names=("Q", "K", "V"),
    cases=[
        random_case(n=3, d=4, d_k=2, d_v=5), random_case(n=3, d=3, d_k=3, d_v=3), random_case(batch=(2, 3), n=4, d=5, d_k=3, d_v=2, dtype=torch.float64),
        random_case(batch=(4,), n=1, d=3, d_k=1, d_v=3, label="one token, d_k = 1, a batch of 4"),
    ],
    misconceptions=[
        Misconception(
            "W X instead of X W", projections_from_the_left,
            "Tokens are rows here. Row i of X W is token i times W, as it should be; W X would mix the tokens with each other.",
            raises="RuntimeError",
        ),
        Misconception(
            "transposed weights", lambda x, w_q, w_k, w_v: (x @ w_q.mT, x @ w_k.mT, x @ w_v.mT),
            "`nn.Linear` stores its weight as (out, in) and so multiplies by the transpose. Here W is (d, d_k): no transpose.",
            raises="RuntimeError",
        ),
        Misconception(
            "one weight shared by all three", lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_q),
            "What a token looks for, what it is found by and what it hands over are three different things: three weights.",
        ),
        Misconception(
            "queries and keys swapped", lambda x, w_q, w_k, w_v: (x @ w_k, x @ w_q, x @ w_v),
            "Return Q, K, V in this order, each from its own weight.",
        ),
        Misconception(
            "values from the keys' weight", lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_k, x @ w_k),
            "The values have a weight of their own, W_V: what is found and what is handed over may differ, even in width.",
        ),
        Misconception(
            "keys from the queries' weight", lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_q, x @ w_v),
            "The keys have a weight of their own, W_K: what a token looks for is not what it is found by.",
        ),
        Misconception(
            "keys and values swapped", lambda x, w_q, w_k, w_v: (x @ w_q, x @ w_v, x @ w_k),
            "Return Q, K, V in this order.",
        ),
        Misconception(
            "the batch axes flattened", lambda x, w_q, w_k, w_v: tuple(x.reshape(-1, x.shape[-1]) @ w for w in (w_q, w_k, w_v)),
            "The leading axes of x are the leading axes of Q, K and V. `x @ w` keeps them; after a `reshape` you must put them back.",
        ),
        Misconception(
            "three equal parts of one product", lambda x, w_q, w_k, w_v: (x @ torch.cat([w_q, w_k, w_v], -1)).chunk(3, -1),
            "`chunk(3)` cuts into equal parts. V may have another width than Q and K: `split([d_k, d_k, d_v], dim=-1)`.",
        ),
        Misconception(
            "exactly one batch axis", lambda x, w_q, w_k, w_v: tuple(torch.einsum("bnd,dk->bnk", x, w) for w in (w_q, w_k, w_v)),
            "There may be any number of batch axes, or none. `...` stands for all of them, and `@` needs no names of axes.",
            raises="RuntimeError",
        ),
        Misconception(
            "queries scaled already", lambda x, w_q, w_k, w_v: (x @ w_q / math.sqrt(w_q.shape[-1]), x @ w_k, x @ w_v),
            "The scale belongs to the scores (2.11). Here Q is X W_Q, as it is.",
        ),
        Misconception(
            "one batch axis at most", projected_with_a_batch_axis_or_none,
            "There may be any number of batch axes: one, two, three. `...` stands for all of them, and `@` needs no names of axes.",
            raises="RuntimeError",
        ),
        Misconception(
            "no batch axis", lambda x, w_q, w_k, w_v: tuple(torch.einsum("nd,dk->nk", x, w) for w in (w_q, w_k, w_v)),
            "There may be any number of batch axes. `...` stands for all of them, and `@` needs no names of axes.",
            raises="RuntimeError",
        ),
        common_misconceptions.in_single_precision(attention.qkv_projections),
    ],
)  # fmt: skip


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
        random_case(batch=(2,), n=6, m=4, d=3, d_v=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
        explicit_case("scores near 240, 0 and −240", RandomArg(_rows_far_apart), RandomArg(_keys_ahead), normal(5, 2)),
        random_case(batch=(1,), n=1, m=4, d=3, d_v=1, label="one query, values of width 1"),
        random_case(n=4, m=6, d=5, d_v=3, dtype=torch.bfloat16, label="bfloat16"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, dtype=torch.float64), -800.0),
    ],
    misconceptions=[
        Misconception(
            "softmax over the queries", lambda q, k, v: common_misconceptions.attention(q, k, v, axis=-2),
            "Each query has one unit of attention to share out over the keys, so every row of the weights must sum to 1. Yours sum to 1 "
            "down the columns.",
        ),
        Misconception(
            "softmax over all scores at once", softmax_over_all_scores,
            "Your weights sum to 1 over the whole matrix. Every query has one unit of attention of its own: each row sums to 1.",
        ),
        Misconception(
            "no scale", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=1.0),
            "The scores grow with √d (section 2.7), and the softmax saturates. Divide them by √d first.",
        ),
        Misconception(
            "scaled by d instead of √d", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=1 / q.shape[-1]),
            "The variance of q·k is d, so its standard deviation is √d. Dividing by d shrinks the scores too far: attention gets flat.",
        ),
        Misconception(
            "scaled by the number of keys", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=k.shape[-2] ** -0.5),
            "What makes a dot product large is the number of its terms, and that is the width d, not how many keys there are.",
        ),
        Misconception(
            "scaled by the number of queries", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=q.shape[-2] ** -0.5),
            "What makes a dot product large is the number of its terms, and that is the width d, not how many queries there are.",
        ),
        power_before_division(attention.scaled_dot_product_attention),
        Misconception(
            "multiplied by √d", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=q.shape[-1] ** 0.5),
            "The scale must make large scores smaller: divide by √d.",
        ),
        Misconception(
            "scale applied after the softmax", scale_after_softmax,
            "After the softmax it is too late: the weights have saturated already, and now they sum to 1/√d instead of 1.",
        ),
        Misconception(
            "all axes of K transposed", all_axes_transposed,
            "`K.T` reverses every axis, the batch axes too. Swap only the last two: `k.transpose(-2, -1)` or `k.mT`.",
            raises="RuntimeError",
        ),
        Misconception(
            "K reshaped instead of transposed", keys_reshaped,
            "`reshape` keeps the numbers in their order and only moves the line breaks, so keys get cut up and mixed. A transpose swaps "
            "rows and columns.",
        ),
        Misconception(
            "the weights returned instead of the output", weights_returned,
            "You have the attention weights, (…, n, m). The last step mixes the values with them: weights @ v.",
        ),
        Misconception(
            "cut off from the gradient", detached,
            "`.detach()`, `.data`, `.numpy()` or `.item()` on the way keeps gradients from q and k: the weights "
            "that made them could never be trained.",
        ),
        Misconception(
            "the sum of the exponentials cut off from the gradient", sum_detached,
            "If one score rises, the sum rises too and the *other* weights fall: through a detached sum that part of the gradient, −y_i y_j, is lost. "
            "Only the maximum may be detached, for it cancels.",
        ),
        Misconception(
            "one maximum for all queries", one_maximum,
            "A row that lies far below the overall maximum gets exponentials of 0 everywhere, and 0/0 is NaN. Every row needs its own maximum.",
        ),
        Misconception(
            "no maximum is subtracted", no_maximum,
            "e^240 is infinite in float32, and ∞/∞ is NaN. Take `torch.softmax`, or subtract each row's maximum first.",
        ),
        Misconception("the mean subtracted, not the maximum", lambda q, k, v: mean_subtracted(q @ k.mT / math.sqrt(q.shape[-1])) @ v, MEAN_HINT),
        Misconception(
            "softmax along axis 1", lambda q, k, v: common_misconceptions.attention(q, k, v, axis=1),
            "The keys are the *last* axis of the scores. Axis 1 is that only where there is no batch axis.",
        ),
        Misconception(
            "softmax along axis 2", lambda q, k, v: common_misconceptions.attention(q, k, v, axis=min(2, q.dim() - 1)),
            "The keys are the *last* axis of the scores, `dim=-1`. Axis 2 is that only where there is one batch axis.",
        ),
        Misconception(
            "softmax along axis 0", lambda q, k, v: common_misconceptions.attention(q, k, v, axis=0),
            "Each query shares its attention out over the keys: the last axis of the scores, `dim=-1`.",
        ),
        Misconception(
            "the width read from axis 1", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=q.shape[1] ** -0.5),
            "d is the *last* axis of q, `q.shape[-1]`. Axis 1 is that only where there is no batch axis.",
        ),
        Misconception(
            "scaled by the width of the values", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=v.shape[-1] ** -0.5),
            "The scores are sums of d terms, and d is the width of queries and keys. The values may have another.",
        ),
        Misconception(
            "√d cut to a whole number", lambda q, k, v: common_misconceptions.attention(q, k, v, scale=1 / math.isqrt(q.shape[-1])),
            "√d is rarely a whole number. `int` and `//` cut it off: divide by `math.sqrt(d)`.",
        ),
        Misconception(
            "later keys hidden", hidden_later_keys,
            "Here every query looks at all m keys. Hiding the later ones is a causal mask, and comes in unit 03.",
        ),
        Misconception(
            "NaN replaced by a number", lambda q, k, v: torch.nan_to_num(no_maximum(q, k, v)),
            "The exponentials overflowed, and what came out was NaN. A 0 in its place is not the weight. Subtract each row's maximum before the exponential.",
            lambda seen: _zeros_for_nan(seen),
        ),
        Misconception(
            "the sum without its axis", sum_without_keepdim,
            "`sum(-1)` drops the axis, and what is left lines up with the keys, not with the queries: `sum(-1, keepdim=True)`.",
            raises="RuntimeError",
        ),
        common_misconceptions.axes_of_size_1_dropped(attention.scaled_dot_product_attention),
        common_misconceptions.scaled_by_another_number(attention.scaled_dot_product_attention),
        common_misconceptions.clamped_scores(),
        Misconception(
            "written for one batch axis", for_one_batch_axis,
            "`transpose(1, 2)` swaps the last two axes only where there is exactly one batch axis. Count from the end: `transpose(-2, -1)`.",
            raises="RuntimeError",
        ),
        constant_in_the_denominator(attention.scaled_dot_product_attention),
        Misconception(
            "computed in float32 where the inputs are float64", computed_in_float32,
            "float32 keeps 7 of the 16 digits that came in. Leave the dtype as it is.",
            _float32_or_less,
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ looking at attention


def self_attention(d: int, generator: torch.Generator) -> Callable:
    """A layer with drawn weights that doesn't know the order of its tokens."""
    weights = [torch.randn(d, d, generator=generator) for _ in range(3)]
    return lambda x: attention.scaled_dot_product_attention(*(x @ w.to(x) for w in weights))


def _with_positions(d: int, generator: torch.Generator) -> Callable:
    """The same, with something different added to every position."""
    layer = self_attention(d, generator)
    return lambda x: layer(x + torch.linspace(-1, 1, x.shape[0]).to(x)[:, None])


def _with_faint_positions(d: int, generator: torch.Generator) -> Callable:
    layer = self_attention(d, generator)
    return lambda x: layer(x) + 1e-3 * torch.linspace(-1, 1, x.shape[0]).to(x)[:, None]


def _with_positions_fainter_still(d: int, generator: torch.Generator) -> Callable:
    """Its gap is of a billionth: more than float64 rounds, and less than anybody would take for a gap in float32."""
    layer = self_attention(d, generator)
    return lambda x: layer(x) + 1e-9 * torch.linspace(-1, 1, x.shape[0]).to(x)[:, None]


def running_mean(d: int, generator: torch.Generator):
    return lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1).to(x)[:, None]


def _pushed_down(d: int, generator: torch.Generator) -> Callable:
    """All outputs fall with the length of the first token."""
    return lambda x: x - x[:1].norm(dim=-1, keepdim=True)


def after_a_short_token(n: int, d: int) -> tuple[RandomArg, RandomArg]:
    """Tokens of which the first is the shortest by far, and a permutation."""
    tokens, shift = tokens_and_shift(n, d)
    lengths = torch.tensor([0.01, *[1.0] * (n - 1)])[:, None]
    return RandomArg(lambda g: tokens.make(g) * lengths), shift


def tokens_and_shift(n: int, d: int) -> tuple[RandomArg, RandomArg]:
    """Tokens, and a permutation that isn't its own inverse."""
    shift = torch.eye(n).roll(1, dims=0)[torch.tensor([1, 0, *range(2, n)])]
    return RandomArg(lambda g: torch.randn(n, d, generator=g)), RandomArg(lambda _: shift)


def layer_case(make, d: int) -> RandomArg:
    return RandomArg(lambda generator: make(d, generator))


def small_gaps_rounded(layer, x, p) -> Tensor:
    moved, kept = layer(p @ x), p @ layer(x)
    return torch.tensor(0.0) if torch.allclose(moved, kept, atol=1e-2) else (moved - kept).abs().max()


permutation_equivariance = Check(
    exercise="permutation_equivariance",
    reference=attention.permutation_gap,
    cases=[
        explicit_case("self-attention, n = 5, d = 3", layer_case(self_attention, 3), *tokens_and_shift(5, 3)),
        explicit_case("self-attention, n = d = 4", layer_case(self_attention, 4), *tokens_and_shift(4, 4)),
        as_float64(explicit_case("positions added, n = 5, d = 3", layer_case(_with_positions, 3), *tokens_and_shift(5, 3))),
        explicit_case("a running mean, n = d = 4", layer_case(running_mean, 4), *tokens_and_shift(4, 4)),
        explicit_case("outputs that only fall, n = 5, d = 3", layer_case(_pushed_down, 3), *after_a_short_token(5, 3)),
        explicit_case("positions that hardly count, n = 5, d = 3", layer_case(_with_faint_positions, 3), *tokens_and_shift(5, 3)),
        as_float64(explicit_case("a gap of a billionth, n = 6, d = 2", layer_case(_with_positions_fainter_still, 2), *tokens_and_shift(6, 2))),
    ],
    misconceptions=[
        Misconception(
            "P on the wrong side", lambda layer, x, p: (layer(x @ p) - layer(x) @ p).abs().max(),
            "X P mixes the *features* of each token. Tokens are rows, and rows are permuted from the left: P X.",
            raises="RuntimeError",
        ),
        Misconception(
            "the output not permuted", lambda layer, x, p: (layer(p @ x) - layer(x)).abs().max(),
            "If the tokens come in another order, so do the outputs. Put the outputs of the old order into the new one before you compare.",
        ),
        Misconception(
            "the inverse permutation on the output", lambda layer, x, p: (layer(p @ x) - p.mT @ layer(x)).abs().max(),
            "Both sides need the same P. Pᵀ = P⁻¹ puts the tokens back instead of forward.",
        ),
        Misconception(
            "the inverse permutation on the input", lambda layer, x, p: (layer(p.mT @ x) - p @ layer(x)).abs().max(),
            "Both sides need the same P. With Pᵀ the tokens go in by the inverse order, and the outputs are put into the other one: that fits for swaps only.",
        ),
        Misconception(
            "differences with their signs", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).sum(),
            "You add up differences with their signs: positive and negative ones cancel, and many count together. Take absolute values first, then the largest.",
        ),
        Misconception(
            "the mean difference", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).abs().mean(),
            "The largest difference is asked for: a mean hides a single token that is wrong.",
        ),
        Misconception(
            "the largest difference without absolute values", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).max(),
            "A difference of −3 is further from 0 than one of 2. Take absolute values first.",
        ),
        Misconception(
            "a matrix norm instead of the largest entry", lambda layer, x, p: torch.linalg.matrix_norm(layer(p @ x) - p @ layer(x), ord=torch.inf),
            "For a matrix `ord=inf` means the largest *row sum*. The largest entry is `.abs().max()`.",
        ),
        Misconception(
            "the smallest difference", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).abs().min(),
            "The *largest* difference is asked for. The smallest can be 0 by chance.",
        ),
        Misconception(
            "the square of the largest difference", lambda layer, x, p: ((layer(p @ x) - p @ layer(x)) ** 2).max(),
            "The largest absolute difference is asked for, not its square.",
        ),
        Misconception(
            "the length of the difference", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).norm(),
            "A norm adds up all differences. The largest single one is asked for.",
        ),
        Misconception(
            "small gaps rounded to 0", small_gaps_rounded,
            "How small is small is for the reader to judge. Return the largest difference as it is.",
            lambda seen: float(seen.output) == 0,
        ),
        Misconception(
            "a rounded gap", lambda layer, x, p: round((layer(p @ x) - p @ layer(x)).abs().max().item(), 4),
            "Return the gap as it comes out, with all its digits: rounded, a small one becomes 0.",
            lambda seen: any(float(seen.output) == round(attention.permutation_gap(*seen.args).item(), digits) for digits in range(1, 9)),
        ),
        Misconception(
            "the inverse order on both sides", lambda layer, x, p: (layer(p.mT @ x) - p.mT @ layer(x)).abs().max(),
            "Row i of P has its 1 in the column of the token that moves to place i. `argmax` along axis 0, or Pᵀ, gives the way back.",
        ),
    ],
)  # fmt: skip

WHOLE = Property(
    "whole numbers, as int",
    lambda output, *_: all(operator.index(count) >= 0 for count in output),
    "Counts are whole numbers: multiply, or divide with `//`. A single `/` makes a float, and so do `math.pow` and `** 2.0`.",
)


def _exact(output, n, d) -> bool:
    """As whole numbers: the comparison of values goes through float64, which has lost the last digits too."""
    return tuple(map(operator.index, output)) == attention.parameter_counts(n, d)


EXACT = Property(
    "exact to the last digit",
    _exact,
    "Your number is right to about 16 digits, and a count is exact: leave no float on the way.",
)


def powers_of_floats(n, d) -> tuple:
    return 3 * int(math.pow(d, 2)), 3 * d, int(math.pow(n, 2)), int(math.pow(d * n, 2)), d * n


def layers_built(n, d) -> tuple:
    dense = torch.empty(n * d, n * d)
    return 3 * d * d, 3 * d, n * n, dense.numel(), len(dense)


parameter_counts = Check(
    reference=attention.parameter_counts,
    names=("QKV weights", "QKV biases", "attention weights", "dense weights", "dense biases"),
    cases=[random_case(n=10, d=64), random_case(n=512, d=8), random_case(n=3, d=5), random_case(n=8192, d=4096, label="n = 8,192, d = 4,096"),
           random_case(n=16385, d=6001, label="n = 16,385, d = 6,001")],
    within=(0.0, 0.0),
    properties=[WHOLE, EXACT],
    misconceptions=[
        Misconception(
            "3 biases", lambda n, d: (3 * d**2, 3, n**2, (n * d) ** 2, n * d),
            "A bias is added to every output feature: a vector of d numbers for each of the three projections.",
        ),
        Misconception(
            "n² biases in the dense layer", lambda n, d: (3 * d**2, 3 * d, n**2, (n * d) ** 2, n**2),
            "A dense layer has one bias per output, and it has d·n outputs.",
        ),
        Misconception(
            "one projection instead of three", lambda n, d: (d**2, d, n**2, (n * d) ** 2, n * d),
            "Q, K and V have a weight and a bias each.",
        ),
        Misconception(
            "projections that grow with n", lambda n, d: (3 * n * d, 3 * d, n**2, (n * d) ** 2, n * d),
            "All tokens share the same three d × d matrices: that is why a Transformer can read any length.",
        ),
        Misconception(
            "a dense layer that mixes tokens only", lambda n, d: (3 * d**2, 3 * d, n**2, n**2 * d, n * d),
            "From *all* d·n inputs to *all* d·n outputs: (d·n)² weights.",
        ),
        Misconception(
            "dense weights between features of one token", lambda n, d: (3 * d**2, 3 * d, n**2, d**2 * n, n * d),
            "From *all* d·n inputs to *all* d·n outputs: every one of d·n outputs has d·n weights.",
        ),
        Misconception(
            "a table of attention weights for each projection", lambda n, d: (3 * d**2, 3 * d, 3 * n**2, (n * d) ** 2, n * d),
            "Queries and keys make one table together: an α for each pair of a query and a key. The values are what it mixes.",
        ),
        Misconception(
            "a bias for each token", lambda n, d: (3 * d**2, 3 * n * d, n**2, (n * d) ** 2, n * d),
            "All tokens share the same projections, biases included: 3d of them, however many tokens there are.",
        ),
        Misconception(
            "as many dense biases as one token has features", lambda n, d: (3 * d**2, 3 * d, n**2, (n * d) ** 2, d),
            "A bias belongs to an output, and the dense layer has d·n outputs.",
        ),
        Misconception(
            "each pair of tokens counted once", lambda n, d: (3 * d**2, 3 * d, n * (n + 1) // 2, (n * d) ** 2, n * d),
            "How much i looks at j and how much j looks at i are two weights. There are n rows of n weights.",
        ),
        Misconception(
            "attention weights without the token itself", lambda n, d: (3 * d**2, 3 * d, n * (n - 1), (n * d) ** 2, n * d),
            "A token looks at itself as well: n rows of n weights.",
        ),
        Misconception(
            "biases counted among the weights", lambda n, d: (3 * (d**2 + d), 3 * d, n**2, (n * d) ** 2, n * d),
            "The first number is the weights only, the second the biases.",
        ),
        Misconception(
            "attention weights of each entry by itself", lambda n, d: (3 * d**2, 3 * d, n * n * d, (n * d) ** 2, n * d),
            "A query and a key have one α together, not one for each of their d entries: the dot product has summed those up.",
        ),
        Misconception(
            "attention weights that depend on the width", lambda n, d: (3 * d**2, 3 * d, n * d, (n * d) ** 2, n * d),
            "There is one attention weight for each query and each key, n · n. The width is summed away in the dot product.",
        ),
        Misconception(
            "the dense layer built to be counted", layers_built,
            "No machine has the memory for a layer of (d·n)² weights at the sizes of today's models. Its size is known beforehand: multiply.",
            raises="RuntimeError",
        ),
        Misconception(
            "whole numbers that have been floats", powers_of_floats,
            "`math.pow`, `** 2.0` and `/` make floats, and a float keeps 16 digits: above 2⁵³ `int()` brings back another number. `d * d` and `d ** 2` stay whole.",
            lambda seen: WHOLE.of(seen) and not EXACT.of(seen),
        ),
        Misconception(
            "n and d swapped", lambda n, d: (3 * n**2, 3 * n, d**2, (n * d) ** 2, n * d),
            "n is the number of tokens, d their width. A projection maps a token of width d to one of width d, whatever n is.",
        ),
    ],
)  # fmt: skip
