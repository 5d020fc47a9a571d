"""Who has to wait for whom: steps that can't be avoided, however many processors there are.

A cell is one token in one layer, and takes one step. It can run as soon as everything that it reads has been computed.
"""

import torch
from jaxtyping import Int
from torch import Tensor


def rnn_steps(n: int) -> int:
    """The longest chain of an RNN over n tokens: every state waits for the one before."""
    return n


def stacked_rnn_steps(n: int, layers: int) -> int:
    """The longest chain of a stacked RNN: along the tokens and up the layers, a wavefront."""
    return n + layers - 1


def encoder_steps(n: int, layers: int) -> int:
    """The longest chain of a Transformer that reads n tokens: up the layers."""
    return layers


def decoder_steps(n: int, layers: int) -> int:
    """The longest chain of a Transformer that writes n tokens: up all layers, n times."""
    return n * layers


def rnn_schedule(layers: int, n: int) -> Int[Tensor, "layers n"]:
    """The earliest step of every cell of a stacked RNN; steps count from 1."""
    return torch.arange(layers)[:, None] + torch.arange(n) + 1


def transformer_schedule(layers: int, n: int) -> Int[Tensor, "layers n"]:
    """The earliest step of every cell of a Transformer that reads n tokens."""
    return torch.arange(1, layers + 1)[:, None].repeat(1, n)


def writing_schedule(layers: int, n: int) -> Int[Tensor, "layers n"]:
    """The earliest step of every cell of a Transformer that writes n tokens, one after the other."""
    return torch.arange(n) * layers + torch.arange(1, layers + 1)[:, None]


def pipeline_steps(layers: int, micro_batches: int) -> tuple[int, float]:
    """Steps of a pipeline with a layer on each device, and the share of its time that is idle (Huang et al., 2019)."""
    steps = micro_batches + layers - 1
    return steps, (layers - 1) / steps


def forward_passes() -> tuple[int, int]:
    """Forward passes to train on a sequence of 128 tokens, and to write 128 tokens."""
    return 1, 128
