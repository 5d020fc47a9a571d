"""Right answers of sinusoidal_positions in other styles."""

import math

import numpy as np
import torch


def annotated_positions(n, d, base):
    """The Annotated Transformer: exp of logarithms, written into every second column."""
    table, where = torch.zeros(n, d), torch.arange(0, n).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d, 2) * -(math.log(base) / d))
    table[:, 0::2], table[:, 1::2] = torch.sin(where * rate), torch.cos(where * rate)
    return table


def positions_by_numpy(n, d, base):
    angle = np.arange(n)[:, None] / base ** (2 * (np.arange(d) // 2) / d)
    return torch.from_numpy(np.where(np.arange(d) % 2 == 0, np.sin(angle), np.cos(angle)))


def positions_by_complex_hands(n, d, base):
    angle = torch.arange(n)[:, None] * torch.tensor([base ** (-2 * i / d) for i in range(d // 2)])
    hands = torch.polar(torch.ones_like(angle), angle)  # cos + i sin
    return torch.view_as_real(hands).flip(-1).flatten(1)


sinusoidal_positions = {
    "the hands of clocks as complex numbers": positions_by_complex_hands,
    "the Annotated Transformer": annotated_positions,
    "NumPy, one angle for each column": positions_by_numpy,
    "a loop over positions and pairs": lambda n, d, base: torch.tensor(
        [[f(t / base ** (2 * i / d)) for i in range(d // 2) for f in (math.sin, math.cos)] for t in range(n)]
    ),
    "sine of a shifted angle": lambda n, d, base: torch.sin(
        torch.outer(torch.arange(n).double(), base ** -(torch.arange(d) // 2 * 2 / d).double())
        + torch.arange(d) % 2 * (math.pi / 2)
    ),
}
