"""Right answers of shift_is_rotation in other styles."""

import math

import torch


def shift_by_loop(k, d, base):
    m = torch.zeros(d, d)
    for i in range(0, d, 2):
        angle = k * base ** (-i / d)
        m[i, i] = m[i + 1, i + 1] = math.cos(angle)
        m[i, i + 1], m[i + 1, i] = -math.sin(angle), math.sin(angle)
    return m


def shift_by_exponential(k, d, base):
    generator = torch.zeros(d, d, dtype=torch.float64)
    for i in range(0, d, 2):
        generator[i + 1, i], generator[i, i + 1] = base ** (-i / d), -(base ** (-i / d))
    return torch.linalg.matrix_exp(k * generator)


def shift_by_kronecker(k, d, base):
    angle = k * base ** (-2 * torch.arange(d // 2).double() / d)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.double)
    m = torch.kron(angle.cos().diag(), torch.eye(2, dtype=torch.double)) + torch.kron(angle.sin().diag(), turn)
    return m.float()


shift_is_rotation = {
    "Kronecker products": shift_by_kronecker,
    "a loop over pairs": shift_by_loop,
    "the exponential of a generator": shift_by_exponential,
    "blocks": lambda k, d, base: torch.block_diag(
        *(
            torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
            for a in (k * base ** (-2 * i / d) for i in range(d // 2))
        )
    ),
}
