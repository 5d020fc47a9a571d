"""Checks of a block's parts: norms, feed-forward networks, the residual stream, and pre-norm against post-norm."""

import torch
import torch.nn.functional as F
from torch import Generator
from torch.utils._pytree import tree_leaves

from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import in_single_precision

from .. import layers as reference

__all__ = ["feed_forward", "layer_norm", "residual", "rms_norm", "transformer_block"]

# -------------------------------------------------------------------------------------------------------------- norms


def _offset(*shape: int, centre: float = 3.0, scale: float = 2.0, dtype=torch.float32) -> RandomArg:
    """Rows whose mean is far from 0: what should be subtracted must be seen to be subtracted."""
    return RandomArg(lambda g: (centre + scale * torch.randn(shape, generator=g, dtype=torch.float64)).to(dtype))


def normed_rows(label: str, *shape: int, eps: float = 1e-5, parameters: int = 2, dtype=torch.float32, **more) -> Case:
    limits = {name: more.pop(name) for name in ("gradient",) if name in more}
    rows = _offset(*shape, dtype=dtype, **more)
    return explicit_case(
        label, rows, *(_offset(shape[-1], centre=0.5, scale=1.0, dtype=dtype) for _ in range(parameters)), eps, **limits
    )


def _standardised(x, weight, bias, eps, axis=-1, unbiased=False):
    mean = x.mean(axis, keepdim=True)
    return weight * (x - mean) / torch.sqrt(x.var(axis, keepdim=True, unbiased=unbiased) + eps) + bias


def _whole_sequence(x, weight, bias, eps):
    axes = tuple(range(max(0, x.dim() - 2), x.dim()))
    return (
        weight * (x - x.mean(axes, keepdim=True)) / torch.sqrt(x.var(axes, keepdim=True, unbiased=False) + eps) + bias
    )


def _over_tokens(x, weight, bias, eps):
    return _standardised(x, weight, bias, eps, axis=-2 if x.dim() > 1 else -1)


def _over_the_batch(x, weight, bias, eps):
    return _standardised(x, weight, bias, eps, axis=0)


def _squares_minus_square(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    return weight * (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean * mean + eps) + bias


def _variance_without_its_digits(seen) -> bool:
    """In rows far from 0: each row is the right one times a factor near 1, so its mean is right and its variance is not."""
    x, weight, bias, eps = seen.args
    far = bool((x.mean(-1).abs() > 50 * x.std(-1)).all())
    right = (reference.layer_norm(*(t.double() for t in (x, weight, bias)), eps) - bias) / weight
    mine = (seen.output.double() - bias) / weight
    row = (mine / right).median(dim=-1, keepdim=True).values
    return far and bool(((row - 1).abs() < 0.5).all() and ((mine - row * right).abs() < 0.01).all())


def _root_squared(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    deviation = centred.square().mean(-1, keepdim=True).sqrt()
    return weight * centred / torch.sqrt(deviation**2 + eps) + bias


def _repaired_variance(x, weight, bias, eps):
    d = x.shape[-1]
    variance = x.var(-1, keepdim=True) * (d - 1) / d
    return weight * (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + eps) + bias


layer_norm = Check(
    reference=reference.layer_norm,
    cases=[
        normed_rows("one token, d = 6", 6),
        normed_rows("3 tokens, d = 8", 3, 8),
        normed_rows("2 sequences of 5 tokens, d = 4", 2, 5, 4),
        normed_rows("ε = 0.5 and small numbers", 3, 5, eps=0.5, scale=0.4),
        normed_rows("d = 2: n or n − 1 matters most", 4, 2, eps=1e-3),
        normed_rows("three batch axes", 2, 3, 2, 5),
        normed_rows("gradients where the features are all equal, variance 0", 4, 6, scale=0.0, gradient=True),
        normed_rows("d = 1: a single feature", 3, 1),
        normed_rows("rows far from 0", 12, 7, centre=300.0, scale=1.0),
        normed_rows("gradients, in float64", 2, 3, 5, dtype=torch.float64, gradient=True),
    ],
    within={torch.float32: (1e-3, 2e-4)},  # a mean near 300 is rounded to 1e-5
    misconceptions=[
        Misconception(
            "the unbiased variance", lambda x, w, b, eps: _standardised(x, w, b, eps, unbiased=True),
            "`var` and `std` divide by d − 1 by default. LayerNorm describes the d features that are there, and estimates nothing: divide by d.",
        ),
        Misconception(
            "the unbiased variance, times (d − 1)/d", _repaired_variance,
            "That is right for d ≥ 2. With a single feature the unbiased variance is 0/0, and 0 times NaN is NaN. Divide by d in the first place: "
            "`unbiased=False`, or the mean of the squares.",
        ),
        Misconception(
            "normalised over the tokens", _over_tokens,
            "Your mean runs over the tokens. A token must not depend on the others (nor on the future): take mean and variance over its own d features, the last axis.",
        ),
        Misconception(
            "normalised over tokens and features together", _whole_sequence,
            "One mean for the whole sequence lets tokens see each other. Every token has a mean and a variance of its own.",
        ),
        Misconception(
            "axis 1, whatever it is", lambda x, w, b, eps: _standardised(x, w, b, eps, axis=1),
            "Axis 1 holds the features of a matrix. In (b, n, d) it holds the tokens, and a single token has no axis 1. The features are always the last axis: dim=-1.",
            raises="IndexError",
        ),
        Misconception(
            "normalised over the batch", _over_the_batch,
            "That is batch normalisation. Here no example depends on the others: take mean and variance over the last axis only.",
        ),
        Misconception(
            "the mean is not subtracted", lambda x, w, b, eps: w * x / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps) + b,
            "Subtract the mean of the features first: afterwards each row (before gain and bias) has mean 0.",
        ),
        Misconception(
            "RMSNorm", lambda x, w, b, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) + b,
            "The next exercise asks for that. LayerNorm subtracts the mean first.",
        ),
        Misconception(
            "divided by the variance, without the root", lambda x, w, b, eps: w * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps) + b,
            "The variance has the unit of x². Divide by its square root.",
        ),
        Misconception(
            "ε added outside the root", lambda x, w, b, eps: w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + eps) + b,
            "The formula has √(variance + ε): ε stands under the root.",
        ),
        Misconception(
            "no ε", lambda x, w, b, eps: _standardised(x, w, b, 0.0),
            "Where all features are equal the variance is 0. ε under the root keeps that from being 0/0.",
        ),
        Misconception(
            "ε is always 1e-5", lambda x, w, b, eps: _standardised(x, w, b, 1e-5),
            "ε is an argument of your function. GPT-2 uses 1e-5, BERT 1e-12.",
        ),
        Misconception(
            "no gain", lambda x, w, b, eps: _standardised(x, torch.ones_like(w), b, eps),
            "After the division comes the gain `weight`, one number for each feature.",
        ),
        Misconception(
            "no bias", lambda x, w, b, eps: _standardised(x, w, torch.zeros_like(b), eps),
            "`bias` is added at the end.",
        ),
        Misconception(
            "the gain over the bias too", lambda x, w, b, eps: w * (_standardised(x, torch.ones_like(w), torch.zeros_like(b), eps) + b),
            "First the gain, then the bias: weight · x̂ + bias.",
        ),
        Misconception(
            "statistics without gradients", lambda x, w, b, eps: w * (x - x.mean(-1, keepdim=True).detach()) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False).detach() + eps) + b,
            "Mean and variance depend on x too, and gradients go through them. Leave out `detach` and `no_grad`.",
        ),
        Misconception(
            "mean of the squares minus square of the mean", _squares_minus_square,
            "On paper that is the variance. Where the mean is large it is the difference of two large numbers that are nearly equal, and in float32 most digits are lost. "
            "Subtract the mean first, then square.",
            _variance_without_its_digits,
        ),
        Misconception(
            "the square of a root", _root_squared,
            "You take a root and square it again. Where all features are equal it is the root of 0, whose slope is infinite: 0 · ∞ is no gradient. "
            "Add ε to the variance itself.",
        ),
        Misconception(
            "ε as the least variance", lambda x, w, b, eps: w * (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, unbiased=False).clamp(min=eps).sqrt() + b,
            "ε is *added* to the variance. The larger of the two is something else wherever the variance is not much larger than ε.",
        ),
        Misconception(
            "ε divided by d too", lambda x, w, b, eps: _standardised(x, w, b, eps / x.shape[-1]),
            "First the mean of the squares, then ε is added: it is not a part of the sum that is divided by d.",
        ),
        Misconception(
            "the gain before the norm", lambda x, w, b, eps: _standardised(w * x, torch.ones_like(w), b, eps),
            "Multiplied in first, the gain changes the mean and the deviation that are taken out. It comes after the division.",
        ),
        Misconception(
            "the bias before the norm", lambda x, w, b, eps: _standardised(x + b, w, torch.zeros_like(b), eps),
            "The bias is added last, after the division and the gain. Added to x, it is normalised away in part.",
        ),
        in_single_precision(reference.layer_norm),
    ],
    forbids=["layer_norm", "group_norm", "instance_norm", "batch_norm"],
)  # fmt: skip


def _rms(x, weight, eps, axis=-1):
    return weight * x / torch.sqrt((x * x).mean(axis, keepdim=True) + eps)


rms_norm = Check(
    reference=reference.rms_norm,
    cases=[
        normed_rows("one token, d = 6", 6, parameters=1),
        normed_rows("3 tokens, d = 8", 3, 8, parameters=1),
        normed_rows("2 sequences of 5 tokens, d = 4", 2, 5, 4, parameters=1),
        normed_rows("ε = 0.5 and small numbers", 3, 5, eps=0.5, scale=0.4, centre=0.3, parameters=1),
        normed_rows("three batch axes", 2, 3, 2, 5, parameters=1),
        normed_rows("gradients where the features are all 0", 4, 6, scale=0.0, centre=0.0, parameters=1, gradient=True),
        normed_rows("gradients, in float64", 2, 3, 5, parameters=1, dtype=torch.float64, gradient=True),
    ],
    misconceptions=[
        Misconception(
            "the mean is subtracted", lambda x, w, eps: _rms(x - x.mean(-1, keepdim=True), w, eps),
            "That is LayerNorm without its bias. RMSNorm leaves the mean where it is: it only divides by the root of the mean square.",
        ),
        Misconception(
            "divided by the standard deviation", lambda x, w, eps: w * x / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps),
            "A variance has the mean taken out of it. RMS is the root of the mean of x², with the mean left in.",
        ),
        Misconception(
            "divided by the length of the row", lambda x, w, eps: w * x / torch.sqrt((x * x).sum(-1, keepdim=True) + eps),
            "You divide by the norm √(sum of x²), so numbers get smaller as d grows. Divide by √(mean of x²).",
        ),
        Misconception(
            "no root", lambda x, w, eps: w * x / ((x * x).mean(-1, keepdim=True) + eps),
            "The mean square has the unit of x². Divide by its root.",
        ),
        Misconception(
            "the mean of |x|", lambda x, w, eps: w * x / (x.abs().mean(-1, keepdim=True) + eps),
            "RMS is root – mean – square: square, take the mean, take the root.",
        ),
        Misconception(
            "axis 1, whatever it is", lambda x, w, eps: _rms(x, w, eps, axis=1),
            "Axis 1 holds the features of a matrix. In (b, n, d) it holds the tokens, and a single token has no axis 1. The features are always the last axis: dim=-1.",
            raises="IndexError",
        ),
        Misconception(
            "a gain of 1 + weight", lambda x, w, eps: _rms(x, 1 + w, eps),
            "Some models (Gemma) store the gain minus 1. Here `weight` is the gain itself.",
        ),
        Misconception(
            "normalised over the tokens", lambda x, w, eps: _rms(x, w, eps, axis=-2 if x.dim() > 1 else -1),
            "Each token by itself: the mean runs over its features, the last axis.",
        ),
        Misconception(
            "normalised over tokens and features together", lambda x, w, eps: _rms(x, w, eps, axis=tuple(range(max(0, x.dim() - 2), x.dim()))),
            "One number for the whole sequence lets tokens see each other. Each token has its own.",
        ),
        Misconception(
            "the gain before the norm", lambda x, w, eps: _rms(w * x, torch.ones_like(w), eps),
            "Multiplied in first, the gain changes the mean square that is divided by. It comes after the division.",
        ),
        Misconception(
            "no gain", lambda x, w, eps: _rms(x, torch.ones_like(w), eps),
            "The gain `weight`, one number for each feature, comes last.",
        ),
        Misconception(
            "no ε", lambda x, w, eps: _rms(x, w, 0.0),
            "ε stands under the root, so that a row of zeros isn't 0/0.",
        ),
        Misconception(
            "ε added outside the root", lambda x, w, eps: w * x / ((x * x).mean(-1, keepdim=True).sqrt() + eps),
            "The formula has √(mean of x² + ε): ε stands under the root.",
        ),
        Misconception(
            "the square of a root", lambda x, w, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True).sqrt() ** 2 + eps),
            "You take a root and square it again. In a row of zeros it is the root of 0, whose slope is infinite: 0 · ∞ is no gradient. "
            "Add ε to the mean square itself.",
        ),
        Misconception(
            "ε as the least mean square", lambda x, w, eps: w * x / (x * x).mean(-1, keepdim=True).clamp(min=eps).sqrt(),
            "ε is *added* to the mean square. The larger of the two is something else wherever the mean square is not much larger than ε.",
        ),
        Misconception(
            "ε divided by d too", lambda x, w, eps: _rms(x, w, eps / x.shape[-1]),
            "First the mean of the squares, then ε is added: it is not a part of the sum that is divided by d.",
        ),
        Misconception(
            "ε is always 1e-5", lambda x, w, eps: _rms(x, w, 1e-5),
            "ε is an argument of your function. Llama 2 uses 1e-5, T5 1e-6.",
        ),
        Misconception(
            "the length divided by d instead of √d", lambda x, w, eps: w * x / torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] ** 2 + eps),
            "√(sum / d) is the length over √d. The division by d stands under the root.",
        ),
        Misconception(
            "the mean square without gradients", lambda x, w, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True).detach() + eps),
            "The mean square depends on x too, and gradients go through it. Leave out `detach` and `no_grad`.",
        ),
        in_single_precision(reference.rms_norm),
    ],
    forbids=["rms_norm", "layer_norm", "normalize"],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- feed-forward

_relu = Check(
    reference=reference.feed_forward,
    cases=[
        random_case(batch=(), d=3, d_ff=7, label="one token, d = 3, d_ff = 7"),
        random_case(batch=(2, 5), d=4, d_ff=6, label="2 sequences of 5 tokens"),
        random_case(batch=(3,), d=6, d_ff=2, label="narrower inside"),
        random_case(batch=(2,), d=3, d_ff=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    ],
    misconceptions=[
        Misconception(
            "no ReLU in between", lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1) @ w_2 + b_2,
            "Two linear layers in a row are one linear layer. The ReLU between them is what makes it more.",
        ),
        Misconception(
            "ReLU at the end too", lambda x, w_1, b_1, w_2, b_2: torch.relu(torch.relu(x @ w_1 + b_1) @ w_2 + b_2),
            "The output is added to the stream, and must be able to take something away from it: no ReLU after the second layer.",
        ),
        Misconception(
            "ReLU at the end only", lambda x, w_1, b_1, w_2, b_2: torch.relu((x @ w_1 + b_1) @ w_2 + b_2),
            "The ReLU stands between the two layers.",
        ),
        Misconception(
            "ReLU before the bias", lambda x, w_1, b_1, w_2, b_2: (torch.relu(x @ w_1) + b_1) @ w_2 + b_2,
            "The bias moves the bend of the ReLU: add it before.",
        ),
        Misconception(
            "GELU instead of ReLU", lambda x, w_1, b_1, w_2, b_2: F.gelu(x @ w_1 + b_1) @ w_2 + b_2,
            "GPT and BERT use GELU. This exercise asks for ReLU, max(0, ·), as in the paper of 2017.",
        ),
        Misconception(
            "no first bias", lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1) @ w_2 + b_2, "b_1 is added before the ReLU.",
        ),
        Misconception(
            "no second bias", lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1 + b_1) @ w_2, "b_2 is added at the end.",
        ),
        Misconception(
            "the residual added already", lambda x, w_1, b_1, w_2, b_2: x + torch.relu(x @ w_1 + b_1) @ w_2 + b_2,
            "The block adds x, once, around the whole layer (5.9). Here only what is to be added is computed.",
        ),
        Misconception(
            "the biases swapped", lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1 + b_2) @ w_2 + b_1,
            "b_1 belongs to the inner layer, b_2 to the outer one.",
            raises="RuntimeError",
        ),
        in_single_precision(reference.feed_forward),
    ],
)  # fmt: skip


def far_gates(label: str, *batch: int, d: int, d_ff: int) -> Case:
    """Gates near −1,000 and 1,000 in turn. The first feature is 1, so that the first row of w_gate sets them."""

    def rows(generator: Generator):
        x = torch.randn(*batch, d, generator=generator, dtype=torch.float64)
        return x.index_fill(-1, torch.tensor(0), 1.0)

    def gates(generator: Generator):
        w_gate = torch.randn(d, d_ff, generator=generator, dtype=torch.float64)
        w_gate[0] += 1000.0 * (-1.0) ** torch.arange(1, d_ff + 1)
        return w_gate

    others = (normal(*shape, dtype=torch.float64) for shape in ((d, d_ff), (d_ff, d)))
    return explicit_case(label, RandomArg(rows), RandomArg(gates), *others, gradient=True)


def _cut_gate(x, w_gate, w_up, w_down, bound):
    return (F.silu((x @ w_gate).clamp(-bound, bound)) * (x @ w_up)) @ w_down


def _gate_cut(seen) -> bool:
    """Whether the output is that of a gate which is cut at a usual bound."""
    bounds = (10, 15, 16, 20, 25, 30, 40, 50, 60, 64, 70, 80, 85, 88, 100, 200, 500, 700, 709)
    return any(torch.allclose(seen.output, _cut_gate(*seen.args, bound), rtol=1e-4) for bound in bounds)


_swiglu = Check(
    reference=reference.swiglu,
    cases=[
        random_case(batch=(), d=3, d_ff=7, label="one token, d = 3, d_ff = 7"),
        random_case(batch=(2, 5), d=4, d_ff=6, label="2 sequences of 5 tokens"),
        random_case(batch=(3,), d=5, d_ff=8, scale=40.0, dtype=torch.float64, label="numbers in the thousands, in float64"),
        random_case(batch=(2,), d=3, d_ff=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
        far_gates("gradients where gates are near −1,000 and 1,000, in float64", 3, d=4, d_ff=6),
    ],
    misconceptions=[
        Misconception(
            "the gate on the wrong side", lambda x, w_gate, w_up, w_down: ((x @ w_gate) * F.silu(x @ w_up)) @ w_down,
            "silu belongs to x W_gate. Trained weights of one order give nonsense in the other.",
        ),
        Misconception(
            "a sigmoid for the gate", lambda x, w_gate, w_up, w_down: (torch.sigmoid(x @ w_gate) * (x @ w_up)) @ w_down,
            "That is GLU (Dauphin et al., 2017). silu(z) = z · sigmoid(z).",
        ),
        Misconception(
            "gate and value added", lambda x, w_gate, w_up, w_down: (F.silu(x @ w_gate) + x @ w_up) @ w_down,
            "A gate multiplies: where it is near 0, nothing passes.",
        ),
        Misconception(
            "silu on both", lambda x, w_gate, w_up, w_down: (F.silu(x @ w_gate) * F.silu(x @ w_up)) @ w_down,
            "x W_up stays as it is: silu is for x W_gate only.",
        ),
        Misconception(
            "silu around the product", lambda x, w_gate, w_up, w_down: F.silu((x @ w_gate) * (x @ w_up)) @ w_down,
            "First silu of x W_gate, then the product.",
        ),
        Misconception(
            "GELU for the gate", lambda x, w_gate, w_up, w_down: (F.gelu(x @ w_gate) * (x @ w_up)) @ w_down,
            "That is GEGLU (Shazeer, 2020). SwiGLU has silu(z) = z · sigmoid(z).",
        ),
        Misconception(
            "ReLU for the gate", lambda x, w_gate, w_up, w_down: (F.relu(x @ w_gate) * (x @ w_up)) @ w_down,
            "That is ReGLU (Shazeer, 2020). SwiGLU has silu(z) = z · sigmoid(z).",
        ),
        Misconception(
            "one projection instead of two", lambda x, w_gate, w_up, w_down: F.silu(x @ w_gate) @ w_down,
            "x W_up is left out: nothing is multiplied by the gate. The point of a gated layer is the product of two projections.",
        ),
        Misconception(
            "the sigmoid as e^z / (1 + e^z)", lambda x, w_gate, w_up, w_down: (
                lambda z: (z * z.exp() / (1 + z.exp()) * (x @ w_up)) @ w_down)(x @ w_gate),
            "For large z that is ∞/∞, and no number. `torch.sigmoid` gives a number for every z.",
        ),
        Misconception(
            "the sigmoid as 1 / (1 + e^(−z))", lambda x, w_gate, w_up, w_down: (
                lambda z: (z / (1 + (-z).exp()) * (x @ w_up)) @ w_down)(x @ w_gate),
            "Where z is far below 0, e^(−z) is infinite: the value is right, 1/∞ = 0, but its gradient is 0 · ∞, and no number. "
            "`torch.sigmoid` and `F.silu` have gradients everywhere.",
        ),
        Misconception(
            "the sigmoid in two branches of `torch.where`", lambda x, w_gate, w_up, w_down: (
                lambda z: (z * torch.where(z >= 0, 1 / (1 + (-z).exp()), z.exp() / (1 + z.exp())) * (x @ w_up)) @ w_down)(x @ w_gate),
            "`torch.where` computes both branches everywhere, and chooses among values only. Gradients go back through the other branch too, and where that "
            "overflows, 0 · ∞ is no number. `torch.sigmoid` and `F.silu` have gradients everywhere.",
        ),
        Misconception(
            "the gate cut at a bound", lambda x, w_gate, w_up, w_down: _cut_gate(x, w_gate, w_up, w_down, 30.0),
            "`clamp` keeps e^z finite, but silu(z) is about z where z is large, and about 0 where it is far below 0: a gate of 2,000 must stay 2,000. "
            "`torch.sigmoid` is never too large, so nothing has to be cut.",
            _gate_cut,
        ),
        Misconception(
            "a tanh for the gate", lambda x, w_gate, w_up, w_down: (torch.tanh(x @ w_gate) * (x @ w_up)) @ w_down,
            "silu(z) = z · sigmoid(z): it grows with z. A tanh stops at 1.",
        ),
        in_single_precision(reference.swiglu),
    ],
)  # fmt: skip

feed_forward = CheckGroup("feed_forward", _relu, _swiglu)

# ---------------------------------------------------------------------------------------------------- residual stream


def _layer(d: int) -> RandomArg:
    """A layer that is neither linear nor keeps lengths, another at each call."""

    def draw(generator: Generator):
        w, b = torch.randn(d, d, generator=generator), torch.randn(d, generator=generator)
        return lambda x: torch.tanh(x @ w.to(x.dtype) + b.to(x.dtype))

    return RandomArg(draw)


def _keeping(layer: RandomArg) -> RandomArg:
    """The layer, which keeps all that it reads, as trained ones do for the way back, and how often that had been written to by then.
    (One that is called from another process reads copies: there it can't be seen.)"""

    def draw(generator: Generator):
        function, kept = layer.make(generator), []

        def keeping(x):
            kept.append((x, x._version))
            return function(x)

        keeping.kept = kept
        return keeping

    return RandomArg(draw)


def _left_as_it_was(_, x, *inputs) -> bool:
    """Whether nothing was written to what a layer keeps. To write to another part of the same tensor counts: autograd refuses that too."""
    kept = [pair for layer in tree_leaves(inputs) for pair in getattr(layer, "kept", ())]
    return all(tensor._version == version for tensor, version in kept)


NOT_OVERWRITTEN = Property(
    "what a layer has read isn't overwritten", _left_as_it_was,
    "A tensor that a layer has read is written to afterwards (by `x += …`, or into another row of it), and for its way back the layer "
    "needs what it has read: `backward` would stop with an error. Make a new tensor in each step, `x = x + …`; `torch.stack` puts several together.",
)  # fmt: skip


def random_layers(label: str, count: int, *shape: int, dtype=torch.float32, keep: bool = False) -> Case:
    drawn = [_keeping(_layer(shape[-1])) if keep else _layer(shape[-1]) for _ in range(count)]
    return explicit_case(
        label,
        _offset(*shape, centre=0.5, scale=1.0, dtype=dtype),
        RandomArg(lambda g: [layer.make(g) for layer in drawn]),
    )


def _on_another_axis(seen) -> bool:
    """Whether the states are right, and stand on another axis than the first."""
    right = reference.residual(*seen.args)
    turned = (seen.output.movedim(axis, 0) for axis in range(1, right.dim()))
    return any(other.shape == right.shape and torch.allclose(other, right, rtol=1e-3, atol=1e-4) for other in turned)


def _stream(x, layers, step):
    states = [x]
    for layer in layers:
        states.append(step(states[-1], layer, x))
    return torch.stack(states)


residual = Check(
    exercise="residual",
    reference=reference.residual,
    cases=[
        random_layers("one layer, 3 tokens, d = 4", 1, 3, 4),
        random_layers("4 layers, d = 5", 4, 2, 5),
        random_layers("3 layers, 2 sequences of 4 tokens, d = 6", 3, 2, 4, 6),
        random_layers("no layer at all", 0, 3, 2),
        random_layers("2 layers that keep what they read, in float64", 2, 4, 3, dtype=torch.float64, keep=True),
    ],
    properties=[NOT_OVERWRITTEN],
    misconceptions=[
        Misconception(
            "each layer replaces the stream", lambda x, layers: _stream(x, layers, lambda now, f, first: f(now)),
            "Your stream is what the last layer said. A residual layer *adds*: the stream becomes x + layer(x).",
        ),
        Misconception(
            "always added to the first x", lambda x, layers: _stream(x, layers, lambda now, f, first: first + f(now)),
            "What the layers in between added is lost. Add to the stream as it is now.",
        ),
        Misconception(
            "every layer reads the first x", lambda x, layers: _stream(x, layers, lambda now, f, first: now + f(first)),
            "Layer l reads what the layers before it have written: its input is x_l, not x_0.",
        ),
        Misconception(
            "the input added twice", lambda x, layers: _stream(x, layers, lambda now, f, first: now + first + f(now)),
            "x_0 is in the stream already, as its first part.",
        ),
        Misconception(
            "subtracted instead of added", lambda x, layers: _stream(x, layers, lambda now, f, first: now - f(now)),
            "A residual connection adds.",
        ),
        Misconception(
            "half of each", lambda x, layers: _stream(x, layers, lambda now, f, first: (now + f(now)) / 2),
            "You take the mean of the two. The stream passes whole, and the layer's part is added to it.",
        ),
        Misconception(
            "multiplied instead of added", lambda x, layers: _stream(x, layers, lambda now, f, first: now * f(now)),
            "A product kills the stream where the layer says 0, and the gradient with it. Add.",
        ),
        Misconception(
            "the last state only", lambda x, layers: _stream(x, layers, lambda now, f, first: now + f(now))[-1],
            "All states are asked for, x_0 first: `torch.stack` of L + 1 tensors.",
        ),
        Misconception(
            "without the input", lambda x, layers: _stream(x, layers, lambda now, f, first: now + f(now))[1:],
            "The first of the L + 1 states is x_0, the stream before any layer.",
        ),
        Misconception(
            "what the layers add, not the stream",
            lambda x, layers: (s := _stream(x, layers, lambda now, f, first: now + f(now)), torch.cat([s[:1], s[1:] - s[:-1]]))[1],
            "These are the layers' parts. The stream is their running sum.",
        ),
        Misconception(
            "one tensor in every place", lambda x, layers: (s := _stream(x, layers, lambda now, f, first: now + f(now)))[-1:].expand_as(s),
            "`x += …` changes the one tensor that there is, and every entry of your list is that tensor (the caller's x too, where it isn't a copy). `x = x + …` makes a new one.",
        ),
        Misconception(
            "the states stacked on another axis than the first",
            lambda x, layers: torch.stack(list(_stream(x, layers, lambda now, f, first: now + f(now))), dim=-3),
            "The axis of the L + 1 states stands in front of all others: `torch.stack(states)`. Axis −3 is the first only where x has no batch axes.",
            _on_another_axis,
        ),
        in_single_precision(reference.residual),
    ],
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------------- block


def _norm(d: int) -> RandomArg:
    """A norm with a gain and a bias of its own, so that the two can't be exchanged unseen."""

    def draw(generator: Generator):
        w, b = torch.randn(d, generator=generator) + 1, torch.randn(d, generator=generator)
        return lambda x: reference.layer_norm(x, w.to(x.dtype), b.to(x.dtype))

    return RandomArg(draw)


def _mixing(d: int) -> RandomArg:
    """Stands for attention: tokens are mixed."""

    def draw(generator: Generator):
        w = torch.randn(d, d, generator=generator)
        return lambda x: torch.tanh(x.flip(-2) @ w.to(x.dtype)) * 2

    return RandomArg(draw)


def block_inputs(label: str, *shape: int, pre_norm: bool, dtype=torch.float32, keep: bool = False) -> Case:
    d = shape[-1]
    parts = [_mixing(d), _layer(d), _norm(d), _norm(d)]
    return explicit_case(
        label, _offset(*shape, centre=1.0, dtype=dtype), *(map(_keeping, parts) if keep else parts), pre_norm
    )


def _both(pre, post):
    """A wrong answer from its pre-norm and its post-norm form: functions of (x, layer, norm) or right ones where None."""
    right = (lambda x, f, norm: x + f(norm(x)), lambda x, f, norm: norm(x + f(x)))

    def block(x, attention, feed_forward, norm_1, norm_2, pre_norm):
        step = (pre or right[0]) if pre_norm else (post or right[1])
        return step(step(x, attention, norm_1), feed_forward, norm_2)

    return block


def _right(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    return reference.transformer_block(x, attention, feed_forward, norm_1, norm_2, pre_norm)


def _one_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return x + feed_forward(norm_2(attention(norm_1(x))))
    return norm_2(x + feed_forward(norm_1(attention(x))))


def _around_the_first_input(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        middle = x + attention(norm_1(x))
        return x + feed_forward(norm_2(middle))
    middle = norm_1(x + attention(x))
    return norm_2(x + feed_forward(middle))


def _side_by_side(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return x + attention(norm_1(x)) + feed_forward(norm_2(x))
    return norm_2(norm_1(x + attention(x) + feed_forward(x)))


def _residual_after_the_norm(x, f, norm):
    normed = norm(x)
    return normed + f(normed)


def _second_residual_after_the_norm(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if not pre_norm:
        return _right(x, attention, feed_forward, norm_1, norm_2, False)
    return _residual_after_the_norm(x + attention(norm_1(x)), feed_forward, norm_2)


def _only(pre_norm: bool, wrong):
    """Wrong in one of the two forms, right in the other."""
    return lambda *inputs: (wrong if inputs[-1] == pre_norm else _right)(*inputs)


def _both_norms_at_the_end(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        return _right(x, attention, feed_forward, norm_1, norm_2, True)
    x = x + attention(x)
    return norm_2(norm_1(x) + feed_forward(x))


def _no_attention_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    middle = attention(norm_1(x)) if pre_norm else norm_1(attention(x))
    return middle + feed_forward(norm_2(middle)) if pre_norm else norm_2(middle + feed_forward(middle))


def _no_second_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    middle = x + attention(norm_1(x)) if pre_norm else norm_1(x + attention(x))
    return feed_forward(norm_2(middle)) if pre_norm else norm_2(feed_forward(middle))


transformer_block = Check(
    reference=reference.transformer_block,
    cases=[
        block_inputs("pre-norm, 3 tokens, d = 4", 3, 4, pre_norm=True),
        block_inputs("post-norm, 3 tokens, d = 4", 3, 4, pre_norm=False),
        block_inputs("pre-norm, 2 sequences of 5 tokens, d = 6", 2, 5, 6, pre_norm=True),
        block_inputs("post-norm, 2 sequences of 4 tokens, d = 7", 2, 4, 7, pre_norm=False),
        block_inputs("pre-norm, parts that keep what they read, in float64", 2, 3, 5, pre_norm=True, dtype=torch.float64, keep=True),
        block_inputs("post-norm, parts that keep what they read, in float64", 2, 3, 5, pre_norm=False, dtype=torch.float64, keep=True),
    ],
    properties=[NOT_OVERWRITTEN],
    within={torch.float32: (1e-3, 1e-4)},
    misconceptions=[
        Misconception(
            "pre-norm and post-norm swapped", lambda x, f, g, a, b, pre: _right(x, f, g, a, b, not pre),
            "Pre-norm: the norm stands *before* the layer, inside the branch. Post-norm: after the addition.",
        ),
        Misconception(
            "always pre-norm", lambda x, f, g, a, b, pre: _right(x, f, g, a, b, True),
            "With pre_norm=False the norm comes after the addition: norm(x + f(x)).",
        ),
        Misconception(
            "always post-norm", lambda x, f, g, a, b, pre: _right(x, f, g, a, b, False),
            "With pre_norm=True the norm stands in the branch: x + f(norm(x)).",
        ),
        Misconception(
            "the residual taken after the norm", _both(_residual_after_the_norm, None),
            "In pre-norm the *unchanged* x is added: x + f(norm(x)). If x itself is replaced by norm(x) first, there is no clean path from input to output.",
        ),
        Misconception(
            "the second residual taken after the norm", _second_residual_after_the_norm,
            "The first half is right. In the second the normed stream takes the place of the stream: x + feed_forward(norm_2(x)) adds to x itself.",
        ),
        Misconception(
            "post-norm with the norm inside the branch", _both(None, lambda x, f, norm: x + norm(f(x))),
            "x + norm(f(x)) normalises what the layer adds. Post-norm normalises the sum: norm(x + f(x)).",
        ),
        Misconception(
            "one residual around the whole block", _one_residual,
            "Attention and feed-forward network have a residual connection each.",
        ),
        Misconception(
            "post-norm: the feed-forward network reads the stream before norm_1", _both_norms_at_the_end,
            "After the first sum x is norm_1(x + attention(x)). Both the feed-forward network and its residual connection go on from that.",
        ),
        Misconception(
            "no residual around attention", _no_attention_residual,
            "Attention's output is *added* to x. Without that, a token that attends elsewhere forgets what it was.",
        ),
        Misconception(
            "no residual around the feed-forward network", _no_second_residual,
            "The second layer has a residual connection too.",
        ),
        Misconception(
            "no residuals", _both(lambda x, f, norm: f(norm(x)), lambda x, f, norm: norm(f(x))),
            "Each layer's output is added to what it read, and does not take its place.",
        ),
        Misconception(
            "the first input added again", _around_the_first_input,
            "The second residual connection starts from the stream *after* attention. Yours starts from the block's input, so what attention wrote is lost.",
        ),
        Misconception(
            "attention and feed-forward side by side", _side_by_side,
            "Some models do that (GPT-J). Here the feed-forward network reads what attention has written.",
        ),
        Misconception(
            "feed-forward network first", lambda x, f, g, a, b, pre: _right(x, g, f, a, b, pre),
            "Attention comes first, with norm_1.",
        ),
        Misconception(
            "the two norms swapped", lambda x, f, g, a, b, pre: _right(x, f, g, b, a, pre),
            "norm_1 belongs to attention, norm_2 to the feed-forward network. They have different weights.",
        ),
        Misconception(
            "one norm used twice", lambda x, f, g, a, b, pre: _right(x, f, g, a, a, pre),
            "Each layer has a norm of its own: norm_2 for the feed-forward network.",
        ),
        Misconception(
            "no norms", lambda x, f, g, a, b, pre: _right(x, f, g, lambda t: t, lambda t: t, pre),
            "Neither norm is used. Without them numbers grow from block to block.",
        ),
        Misconception(
            "a norm on both sides", _both(lambda x, f, norm: norm(x + f(norm(x))), lambda x, f, norm: norm(x + f(norm(x)))),
            "One norm for each layer: before it or after the addition, not both.",
        ),
        *(
            Misconception(f"{name}, in {form}-norm only", _only(form == "pre", wrong), hint)
            for name, wrong, hint in (
                ("the first input added again", _around_the_first_input,
                 "The second residual connection starts from the stream *after* attention, not from the block's input. The other form does it right."),
                ("attention and feed-forward side by side", _side_by_side,
                 "The feed-forward network reads what attention has written. The other form does it right."),
                ("one residual around the whole block", _one_residual, "Both layers have a residual connection of their own, as in the other form."),
                ("the two norms swapped", lambda x, f, g, a, b, pre: _right(x, f, g, b, a, pre), "norm_1 belongs to attention, norm_2 to the feed-forward network."),
                ("one norm used twice", lambda x, f, g, a, b, pre: _right(x, f, g, a, a, pre), "norm_2 is for the feed-forward network, as in the other form."),
                ("no second norm", lambda x, f, g, a, b, pre: _right(x, f, g, a, lambda t: t, pre), "Each layer has a norm of its own: norm_2 is for the feed-forward network, as in the other form."),
                ("no second residual", _no_second_residual, "The feed-forward network's output is added to what it read, as in the other form."),
            )
            for form in ("pre", "post")
        ),
        Misconception(
            "pre-norm with the norm after the layer", _both(lambda x, f, norm: x + norm(f(x)), None),
            "In pre-norm the layer *reads* the norm of the stream: x + f(norm(x)). Yours normalises what it writes.",
        ),
    ],
)  # fmt: skip
