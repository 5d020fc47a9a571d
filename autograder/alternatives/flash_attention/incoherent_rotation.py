"""Right answers of incoherent_rotation in other styles."""

import math

import torch


def hadamard_by_kron(d):
    h, two = torch.ones(1, 1), torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    while h.shape[0] < d:
        h = torch.kron(two, h)
    return h


def rotate_by_kron(q, k, signs):
    turn = (torch.diag(signs) @ hadamard_by_kron(len(signs))).to(q)
    return q @ turn, k @ turn


def hadamard_by_bits(d):
    common = [[bin(i & j).count("1") for j in range(d)] for i in range(d)]
    return (-1.0) ** torch.tensor(common) * d**-0.5


def rotate_one_by_one(q, k, signs):
    h = hadamard_by_bits(q.shape[-1]).double()
    return [torch.einsum("...i,i,ij->...j", x.double(), signs.double(), h).to(q.dtype) for x in (q, k)]


def hadamard_in_place(d):
    h = torch.empty(d, d)
    h[0, 0], width = 1, 1
    while width < d:
        h[:width, width : 2 * width] = h[:width, :width]
        h[width : 2 * width, :width] = h[:width, :width]
        h[width : 2 * width, width : 2 * width] = -h[:width, :width]
        width *= 2
    return h / d**0.5


def walsh_hadamard_transform(x):
    """d log d additions instead of d² products."""
    d, width = x.shape[-1], 1
    while width < d:
        pairs = x.reshape(*x.shape[:-1], -1, 2, width)
        x = torch.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], dim=-2).reshape(
            x.shape
        )
        width *= 2
    return x / d**0.5


def rotate_by_butterflies(q, k, signs):
    return walsh_hadamard_transform(q * signs.to(q)), walsh_hadamard_transform(k * signs.to(k))


def hadamard_in_walsh_order(d):
    h = hadamard_in_place(d)
    return h[(h.diff(dim=-1) != 0).sum(-1).argsort()]  # by the number of sign changes


def rotate_in_walsh_order(q, k, signs):
    turn = hadamard_in_walsh_order(signs.numel()).to(q)
    both = torch.cat([q, k], dim=-2) * signs.to(q) @ turn
    return both[..., : q.shape[-2], :], both[..., q.shape[-2] :, :]


def hadamard_recursive(d):
    if d == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    h = hadamard_recursive(d // 2) / math.sqrt(2)
    return torch.vstack([torch.hstack([h, h]), torch.hstack([-h, h])])  # the minus in another corner


def rotate_by_a_recursive_matrix(q, k, signs):
    turn = (signs[:, None] * hadamard_recursive(len(signs))).to(q.dtype)
    return torch.matmul(q, turn), torch.matmul(k, turn)


def hadamard_from_bits(d):
    return torch.tensor([[(-1.0) ** bin(i & j).count("1") for j in range(d)] for i in range(d)]) / d**0.5


def rotated_by_signed_matrix(q, k, signs):
    turn = (signs[:, None] * hadamard_from_bits(signs.numel()).to(device=q.device, dtype=torch.float64)).to(q.dtype)
    return tuple(torch.einsum("...i,ij->...j", x, turn) for x in (q, k))


def hadamard_by_kron_and_recursion(d):
    if d == 1:
        return torch.ones(1, 1)
    two = torch.tensor([[1.0, 1.0], [1.0, -1.0]]) * 2 ** (-0.5)
    return torch.kron(two, hadamard_by_kron_and_recursion(d // 2))


def _butterflies_in_turn(x):
    d = x.shape[-1]
    width = 1
    while width < d:
        pairs = x.reshape(*x.shape[:-1], d // (2 * width), 2, width)
        a, b = pairs.unbind(dim=-2)
        x = torch.stack((a + b, a - b), dim=-2).flatten(-3)
        width *= 2
    return x / math.sqrt(d)


def rotated_by_butterflies_in_turn(q, k, signs):
    return (_butterflies_in_turn(q * signs.to(q)), _butterflies_in_turn(k * signs.to(k)))


incoherent_rotation = {
    "Kronecker products, signs on the diagonal of a matrix": (hadamard_by_kron, rotate_by_kron),
    "bits, float64": (hadamard_by_bits, rotate_one_by_one),
    "in place, fast transform": (hadamard_in_place, rotate_by_butterflies),
    "rows in Walsh's order, both at once": (hadamard_in_walsh_order, rotate_in_walsh_order),
    "recursive, the minus in another corner": (hadamard_recursive, rotate_by_a_recursive_matrix),
    "entries from bits, signs folded into the matrix": (hadamard_from_bits, rotated_by_signed_matrix),
    "recursion with kron, fast butterflies": (hadamard_by_kron_and_recursion, rotated_by_butterflies_in_turn),
}
