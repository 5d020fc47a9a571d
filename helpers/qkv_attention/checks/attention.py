"""Checks of attention with one head: one query among keys, then all queries in matrix form."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine import slips
from helpers.engine.cases import Drawn, given, sized
from helpers.engine.check import Check, Misconception
from helpers.engine.slips import NO_FUSED_ATTENTION

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

attention_weights = Check(
    reference=attention.attention_weights,
    cases=[sized(n=5, d=3), sized(n=4, d=6), sized(n=3, d=4, scale=12.0, label="large scores"), sized(n=1, d=4)],
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
            "A sigmoid judges every key alone. In attention the keys compete: if one gains, the others lose.",
        ),
        Misconception(
            "divided by the sum, without exp", lambda query, keys: (keys @ query) / (keys @ query).sum(),
            "Dot products can be negative, so their shares can be negative too. The softmax takes exponentials first.",
        ),
        Misconception(
            "scaled already", lambda query, keys: torch.softmax(keys @ query / math.sqrt(len(query)), dim=0),
            "That is a good idea, but a later one: here the score is the plain dot product. Section 2.7 shows why a scale is wanted.",
        ),
    ],
)  # fmt: skip

attend = Check(
    reference=attention.attend,
    cases=[sized(n=5, d=3, d_v=4), sized(n=3, d=6, d_v=2), sized(n=4, d=3, d_v=5, scale=8.0, label="large scores")],
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
    ],
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------- matrix form


def projections_from_the_left(x, w_q, w_k, w_v) -> tuple[Tensor, Tensor, Tensor]:
    return w_q @ x, w_k @ x, w_v @ x


qkv_projections = Check(
    reference=attention.qkv_projections,
    cases=[
        sized(n=3, d=4, d_k=2, d_v=5), sized(n=3, d=3, d_k=3, d_v=3), sized(batch=(2, 3), n=4, d=5, d_k=3, d_v=2),
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


scaled_dot_product_attention = Check(
    reference=attention.scaled_dot_product_attention,
    cases=[
        sized(n=5, m=7, d=4, d_v=3),
        sized(n=4, m=4, d=8, d_v=8, label="as many queries as keys"),
        sized(batch=(2, 3), n=4, m=6, d=5, d_v=2, label="two batch axes"),
        sized(n=3, m=5, d=16, d_v=4, scale=3.0, label="large scores"),
        sized(batch=(2,), n=6, m=4, d=3, d_v=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    ],
    misconceptions=[
        Misconception(
            "softmax over the queries", lambda q, k, v: slips.attention(q, k, v, axis=-2),
            "Each query has one unit of attention to share out over the keys, so every row of the weights must sum to 1. Yours sum to 1 "
            "down the columns.",
        ),
        Misconception(
            "softmax over all scores at once", softmax_over_all_scores,
            "Your weights sum to 1 over the whole matrix. Every query has one unit of attention of its own: each row sums to 1.",
        ),
        Misconception(
            "no scale", lambda q, k, v: slips.attention(q, k, v, scale=1.0),
            "The scores grow with √d (section 2.7), and the softmax saturates. Divide them by √d first.",
        ),
        Misconception(
            "scaled by d instead of √d", lambda q, k, v: slips.attention(q, k, v, scale=1 / q.shape[-1]),
            "The variance of q·k is d, so its standard deviation is √d. Dividing by d shrinks the scores too far: attention gets flat.",
        ),
        Misconception(
            "scaled by the number of keys", lambda q, k, v: slips.attention(q, k, v, scale=k.shape[-2] ** -0.5),
            "What makes a dot product large is the number of its terms, and that is the width d, not how many keys there are.",
        ),
        Misconception(
            "scaled by the number of queries", lambda q, k, v: slips.attention(q, k, v, scale=q.shape[-2] ** -0.5),
            "What makes a dot product large is the number of its terms, and that is the width d, not how many queries there are.",
        ),
        Misconception(
            "multiplied by √d", lambda q, k, v: slips.attention(q, k, v, scale=q.shape[-1] ** 0.5),
            "The scale must make large scores smaller: divide by √d.",
        ),
        Misconception(
            "scale applied after the softmax", scale_after_softmax,
            "After the softmax it is too late: the weights have saturated already, and now they sum to 1/√d instead of 1.",
        ),
        Misconception(
            "all axes of K transposed", all_axes_transposed,
            "`K.T` reverses every axis, the batch axes too. Swap the last two alone: `k.transpose(-2, -1)` or `k.mT`.",
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


def running_mean(d: int, generator: torch.Generator):
    return lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1).to(x)[:, None]


def tokens_and_shift(n: int, d: int) -> tuple[Drawn, Drawn]:
    """Tokens, and a permutation that isn't its own inverse."""
    shift = torch.eye(n).roll(1, dims=0)[torch.tensor([1, 0, *range(2, n)])]
    return Drawn(lambda g: torch.randn(n, d, generator=g)), Drawn(lambda _: shift)


def layer_case(make, d: int) -> Drawn:
    return Drawn(lambda generator: make(d, generator))


permutation_equivariance = Check(
    exercise="permutation_equivariance",
    reference=attention.permutation_gap,
    cases=[
        given("self-attention, n = 5, d = 3", layer_case(self_attention, 3), *tokens_and_shift(5, 3)),
        given("self-attention, n = d = 4", layer_case(self_attention, 4), *tokens_and_shift(4, 4)),
        given("positions added, n = 5, d = 3", layer_case(_with_positions, 3), *tokens_and_shift(5, 3)),
        given("a running mean, n = d = 4", layer_case(running_mean, 4), *tokens_and_shift(4, 4)),
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
            "differences with their signs", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).sum(),
            "Positive and negative differences cancel. Take absolute values first, then the largest.",
        ),
        Misconception(
            "the mean difference", lambda layer, x, p: (layer(p @ x) - p @ layer(x)).abs().mean(),
            "The largest difference is asked for: a mean hides a single token that is wrong.",
        ),
    ],
)  # fmt: skip

parameter_counts = Check(
    reference=attention.parameter_counts,
    cases=[sized(n=10, d=64), sized(n=512, d=8), sized(n=3, d=5)],
    within=(0.0, 0.0),
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
    ],
)  # fmt: skip
