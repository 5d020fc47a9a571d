"""The check of `feed_forward`."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import layers as reference

__all__ = ["feed_forward"]

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
        no_relu=lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1) @ w_2 + b_2,
        relu_at_the_end_too=lambda x, w_1, b_1, w_2, b_2: torch.relu(torch.relu(x @ w_1 + b_1) @ w_2 + b_2),
        relu_at_the_end=lambda x, w_1, b_1, w_2, b_2: torch.relu((x @ w_1 + b_1) @ w_2 + b_2),
        relu_before_bias=lambda x, w_1, b_1, w_2, b_2: (torch.relu(x @ w_1) + b_1) @ w_2 + b_2,
        gelu=lambda x, w_1, b_1, w_2, b_2: F.gelu(x @ w_1 + b_1) @ w_2 + b_2,
        no_first_bias=lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1) @ w_2 + b_2,
        no_second_bias=lambda x, w_1, b_1, w_2, b_2: torch.relu(x @ w_1 + b_1) @ w_2,
        residual_added=lambda x, w_1, b_1, w_2, b_2: x + torch.relu(x @ w_1 + b_1) @ w_2 + b_2,
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


BOUNDS = (10, 15, 16, 20, 25, 30, 40, 50, 60, 64, 70, 80, 85, 88, 100, 200, 500, 700, 709)
"""Usual ones at which a gate is cut, so that no exponential overflows."""


def gated(joined: Callable) -> Callable:
    """The network with other products of gate and value: joined(x W_gate, x W_up)."""
    return lambda x, w_gate, w_up, w_down: joined(x @ w_gate, x @ w_up) @ w_down


def cut_at(bound: float) -> Callable:
    return gated(lambda gate, up: F.silu(gate.clamp(-bound, bound)) * up)


def two_branches(gate, up):
    return gate * torch.where(gate >= 0, 1 / (1 + (-gate).exp()), gate.exp() / (1 + gate.exp())) * up


_swiglu = Check(
    reference=reference.swiglu,
    cases=[
        random_case(batch=(), d=3, d_ff=7, label="one token, d = 3, d_ff = 7"),
        random_case(batch=(2, 5), d=4, d_ff=6, label="2 sequences of 5 tokens"),
        random_case(
            batch=(3,), d=5, d_ff=24, scale=40.0, dtype=torch.float64, label="numbers in the thousands, in float64"
        ),
        random_case(batch=(2,), d=3, d_ff=5, dtype=torch.float64, gradient=True, label="gradients, in float64"),
        far_gates("gradients where gates are near −1,000 and 1,000, in float64", 3, d=4, d_ff=6),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.swiglu),
        wrong_side=gated(lambda gate, up: gate * F.silu(up)),
        sigmoid=gated(lambda gate, up: torch.sigmoid(gate) * up),
        added=gated(lambda gate, up: F.silu(gate) + up),
        silu_on_both=gated(lambda gate, up: F.silu(gate) * F.silu(up)),
        silu_of_the_product=gated(lambda gate, up: F.silu(gate * up)),
        gelu_gate=gated(lambda gate, up: F.gelu(gate) * up),
        relu_gate=gated(lambda gate, up: F.relu(gate) * up),
        one_projection=gated(lambda gate, up: F.silu(gate)),
        growing_exponential=gated(lambda gate, up: gate * gate.exp() / (1 + gate.exp()) * up),
        falling_exponential=gated(lambda gate, up: gate / (1 + (-gate).exp()) * up),
        two_branches=gated(two_branches),
        gate_cut=Wrong(cut_at(30.0), variants=tuple(map(cut_at, BOUNDS))),
        tanh_gate=gated(lambda gate, up: torch.tanh(gate) * up),
    ),
)

feed_forward = CheckGroup("feed_forward", _relu, _swiglu)
