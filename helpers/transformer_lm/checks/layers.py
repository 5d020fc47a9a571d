"""Checks of a block's parts: norms, feed-forward networks, the residual stream, and pre-norm against post-norm."""

import torch
import torch.nn.functional as F
from torch import Generator
from torch.utils._pytree import tree_leaves

from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check, Property
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import layers as reference


def _offset(*shape: int, centre: float = 3.0, scale: float = 2.0, dtype=torch.float32) -> RandomArg:
    """Rows whose mean is far from 0: what should be subtracted must be seen to be subtracted."""
    return RandomArg(lambda g: (centre + scale * torch.randn(shape, generator=g, dtype=torch.float64)).to(dtype))


def normed_rows(label: str, *shape: int, eps: float = 1e-5, parameters: int = 2, dtype=torch.float32, **more) -> Case:
    limits = {name: more.pop(name) for name in ("gradient",) if name in more}
    rows = _offset(*shape, dtype=dtype, **more)
    return explicit_case(
        label, rows, *(_offset(shape[-1], centre=0.5, scale=1.0, dtype=dtype) for _ in range(parameters)), eps, **limits
    )


_relu = Check(
    reference=reference.feed_forward,
    cases=[
        random_case(batch=(), d=3, d_ff=7, label="one token, d = 3, d_ff = 7"),
        random_case(batch=(2, 5), d=4, d_ff=6, label="2 sequences of 5 tokens"),
        random_case(batch=(3,), d=6, d_ff=2, label="narrower inside"),
        random_case(batch=(2,), d=3, d_ff=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.feed_forward),
        no_relu_between=lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1) @ w_2 + b_2,
        relu_at_end_too=lambda x, w_1, b_1, w_2, b_2: torch.relu(torch.relu(x @ w_1 + b_1) @ w_2 + b_2),
        relu_at_end_only=lambda x, w_1, b_1, w_2, b_2: torch.relu((x @ w_1 + b_1) @ w_2 + b_2),
        relu_before_bias=lambda x, w_1, b_1, w_2, b_2: (torch.relu(x @ w_1) + b_1) @ w_2 + b_2,
        gelu_instead_relu=lambda x, w_1, b_1, w_2, b_2: F.gelu(x @ w_1 + b_1) @ w_2 + b_2,
        no_first_bias=lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1) @ w_2 + b_2,
        no_second_bias=lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1 + b_1) @ w_2,
        residual_added_already=lambda x, w_1, b_1, w_2, b_2: x + torch.relu(x @ w_1 + b_1) @ w_2 + b_2,
        biases_swapped=Wrong(
            lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1 + b_2) @ w_2 + b_1, raises="RuntimeError"
        ),
    ),
)


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
        random_case(
            batch=(3,), d=5, d_ff=8, scale=40.0, dtype=torch.float64, label="numbers in the thousands, in float64"
        ),
        random_case(batch=(2,), d=3, d_ff=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
        far_gates("gradients where gates are near −1,000 and 1,000, in float64", 3, d=4, d_ff=6),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.swiglu),
        gate_on_wrong_side=lambda x, w_gate, w_up, w_down: ((x @ w_gate) * F.silu(x @ w_up)) @ w_down,
        sigmoid_gate=lambda x, w_gate, w_up, w_down: (torch.sigmoid(x @ w_gate) * (x @ w_up)) @ w_down,
        gate_value_added=lambda x, w_gate, w_up, w_down: (F.silu(x @ w_gate) + x @ w_up) @ w_down,
        silu_on_both=lambda x, w_gate, w_up, w_down: (F.silu(x @ w_gate) * F.silu(x @ w_up)) @ w_down,
        silu_around_product=lambda x, w_gate, w_up, w_down: F.silu((x @ w_gate) * (x @ w_up)) @ w_down,
        gelu_gate=lambda x, w_gate, w_up, w_down: (F.gelu(x @ w_gate) * (x @ w_up)) @ w_down,
        relu_gate=lambda x, w_gate, w_up, w_down: (F.relu(x @ w_gate) * (x @ w_up)) @ w_down,
        one_projection_instead_two=lambda x, w_gate, w_up, w_down: F.silu(x @ w_gate) @ w_down,
        sigmoid_as_e_z_over_1_e_z=lambda x, w_gate, w_up, w_down: (
            lambda z: (z * z.exp() / (1 + z.exp()) * (x @ w_up)) @ w_down
        )(x @ w_gate),
        sigmoid_as_1_over_1_e_minus_z=lambda x, w_gate, w_up, w_down: (
            lambda z: (z / (1 + (-z).exp()) * (x @ w_up)) @ w_down
        )(x @ w_gate),
        sigmoid_two_branches_torch_where=lambda x, w_gate, w_up, w_down: (
            lambda z: (z * torch.where(z >= 0, 1 / (1 + (-z).exp()), z.exp() / (1 + z.exp())) * (x @ w_up)) @ w_down
        )(x @ w_gate),
        gate_cut_at_bound=Wrong(
            lambda x, w_gate, w_up, w_down: _cut_gate(x, w_gate, w_up, w_down, 30.0), recognise=_gate_cut
        ),
        tanh_gate=lambda x, w_gate, w_up, w_down: (torch.tanh(x @ w_gate) * (x @ w_up)) @ w_down,
    ),
)


def _layer(d: int) -> RandomArg:
    """A layer that is neither linear nor keeps lengths, another at each call."""

    def draw(generator: Generator):
        w, b = torch.randn(d, d, generator=generator), torch.randn(d, generator=generator)
        return lambda x: torch.tanh(x @ w.to(x.dtype) + b.to(x.dtype))

    return RandomArg(draw)


def _keeping(layer: RandomArg) -> RandomArg:
    """The layer, which keeps all that it reads, as trained ones do for the way back, and how often that had been
    written to by then. (One that is called from another process reads copies: there it can't be seen.)"""

    def draw(generator: Generator):
        function, kept = layer.make(generator), []

        def keeping(x):
            kept.append((x, x._version))
            return function(x)

        keeping.kept = kept
        return keeping

    return RandomArg(draw)


def _left_as_it_was(_, x, *inputs) -> bool:
    """Whether nothing was written to what a layer keeps. To write to another part of the same tensor counts: autograd
    refuses that too."""
    kept = [pair for layer in tree_leaves(inputs) for pair in getattr(layer, "kept", ())]
    return all(tensor._version == version for tensor, version in kept)


NOT_OVERWRITTEN = Property(
    "what a layer has read isn't overwritten",
    _left_as_it_was,
    "A tensor that a layer has read is written to afterwards (by `x += …`, or into another row of it), and for its way back the layer "
    "needs what it has read: `backward` would stop with an error. Make a new tensor in each step, `x = x + …`; `torch.stack` puts several together.",
)
