"""Right answers of binary_positions in other styles."""

import numpy as np
import torch


def digits_by_loop(n, d):
    table = torch.zeros(n, d)
    for t in range(n):
        rest = t
        for i in range(d):
            rest, table[t, i] = divmod(rest, 2)
    return table


def digits_by_format(n, d):
    return torch.tensor([[float(digit) for digit in format(t, f"0{d}b")[::-1][:d]] for t in range(n)])


def digits_by_halving(n, d):
    columns, rest = [], torch.arange(n)
    for _ in range(d):
        columns.append(rest.remainder(2))
        rest = rest.div(2, rounding_mode="floor")
    return torch.stack(columns, dim=1).to(torch.get_default_dtype())


binary_positions = {
    "halved again and again": digits_by_halving,
    "a loop with divmod": digits_by_loop,
    "Python's own formatting": digits_by_format,
    "bits shifted, as whole numbers": lambda n, d: torch.arange(n)[:, None] >> torch.arange(d) & 1,
    "NumPy": lambda n, d: torch.from_numpy((np.arange(n)[:, None] // 2.0 ** np.arange(d)) % 2),
}
