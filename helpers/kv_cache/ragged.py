"""Prompts of different lengths in one batch: padded on the left, so that all end, and go on, in the same column."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def pad_left(prompts: list[Int[Tensor, "n"]]) -> tuple[Int[Tensor, "b m"], Bool[Tensor, "b m"]]:
    """The prompts as rows, with zeros before the short ones, and a mask of what is real."""
    m = max(len(prompt) for prompt in prompts)
    tokens, real = torch.zeros(len(prompts), m, dtype=torch.long), torch.zeros(len(prompts), m, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        tokens[row, m - len(prompt) :], real[row, m - len(prompt) :] = prompt, True
    return tokens, real


def positions_and_mask(real: Bool[Tensor, "b m"], n: int) -> tuple[Int[Tensor, "b n"], Bool[Tensor, "b n m"]]:
    """For the newest n of m tokens: their positions, counted from the first real token (padding gets 0), and whom they
    may attend to: real tokens up to themselves."""
    m = real.shape[1]
    positions = (real.cumsum(dim=1) - 1).clamp_min(0)[:, m - n :]
    causal = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return positions, causal & real[:, None]
