"""Recurrences: a tanh RNN, whose states must wait for each other, and a linear one, whose states need not.

The linear one is a scan with an associative operator (Blelloch, 1990, section 1.4), which is what Mamba-style models
use (Gu & Dao, 2023, section 3.3.2).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn


def rnn_encoder(
    x: Float[Tensor, "b n d_in"], w_x: Float[Tensor, "d_in d"], w_h: Float[Tensor, "d d"], bias: Float[Tensor, "d"]
) -> Float[Tensor, "b n d"]:
    """h_t = tanh(x_t W_x + h_{t−1} W_h + bias) with h_0 = 0, for t = 1 … n (Elman, 1990)."""
    state, states = x.new_zeros(len(x), len(bias)), []
    for token in x.unbind(dim=1):
        state = torch.tanh(token @ w_x + state @ w_h + bias)
        states.append(state)
    return torch.stack(states, dim=1)


def pytorch_rnn(x: Tensor, w_x: Tensor, w_h: Tensor, bias: Tensor) -> Tensor:
    """The same by `nn.RNN`, which keeps its weights as (out, in) and has two biases that it adds up."""
    rnn = nn.RNN(*w_x.shape, batch_first=True).to(x)
    weights = {"weight_ih_l0": w_x.mT, "weight_hh_l0": w_h.mT, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    return torch.func.functional_call(rnn, weights, x)[0]


def combine(first: Float[Tensor, "*k 2"], second: Float[Tensor, "*k 2"]) -> Float[Tensor, "*k 2"]:
    """The step (a, b) is h ↦ a h + b. The step that does `first` and then `second`: (a1 a2, a2 b1 + b2)."""
    (a1, b1), (a2, b2) = first.unbind(-1), second.unbind(-1)
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=-1)


def associative_scan(
    operator: Callable[[Tensor, Tensor], Tensor], elements: Float[Tensor, "n w"]
) -> Float[Tensor, "n w"]:
    """Row i is elements 0 … i combined in this order, at depth ⌈log2 n⌉ (Hillis & Steele, 1986).

    After every round a row covers twice as many elements as before.
    """
    reach = 1
    while reach < len(elements):
        elements = torch.cat([elements[:reach], operator(elements[:-reach], elements[reach:])])
        reach *= 2
    return elements
