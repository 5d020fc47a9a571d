"""Right answers of feed_forward in other styles."""

import torch
import torch.nn.functional as F


def gate_and_up_in_one_product(x, w_gate, w_up, w_down):
    gate, up = (x @ torch.cat([w_gate, w_up], dim=1)).chunk(2, dim=-1)
    return F.linear(gate.sigmoid() * gate * up, w_down.mT)


def relu_by_where(x, w_1, b_1, w_2, b_2):
    inner = F.linear(x, w_1.T, b_1)
    return F.linear(torch.where(inner > 0, inner, torch.zeros_like(inner)), w_2.T, b_2)


def sigmoid_by_tanh(x, w_gate, w_up, w_down):
    gate, up = torch.matmul(x, torch.cat([w_gate, w_up], dim=1)).split(w_gate.shape[1], dim=-1)
    return torch.einsum("...f,...f,...f,fd->...d", gate, 0.5 + 0.5 * torch.tanh(gate / 2), up, w_down)


def sigmoid_by_cases(x, w_gate, w_up, w_down):
    """Nothing is raised to more than e^0."""
    gate = x @ w_gate
    small = torch.exp(-gate.abs())
    return ((torch.where(gate >= 0, 1.0, small) / (1 + small)) * gate * (x @ w_up)) @ w_down


feed_forward = {
    "relu as a product, and the sigmoid by cases": (
        lambda x, w_1, b_1, w_2, b_2: ((x @ w_1 + b_1) * (x @ w_1 + b_1 > 0)) @ w_2 + b_2,
        sigmoid_by_cases,
    ),
    "relu_, and the sigmoid from its logarithm": (
        lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1).relu_() @ w_2 + b_2,
        lambda x, w_gate, w_up, w_down: (F.logsigmoid(x @ w_gate).exp() * (x @ w_gate) * (x @ w_up)) @ w_down,
    ),
    "where, and the sigmoid as a tanh": (relu_by_where, sigmoid_by_tanh),
    "a threshold, and gate and up in one product": (
        lambda x, w_1, b_1, w_2, b_2: F.threshold(x @ w_1 + b_1, 0, 0) @ w_2 + b_2,
        gate_and_up_in_one_product,
    ),
    "F.linear and F.relu": (
        lambda x, w_1, b_1, w_2, b_2: F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2),
        lambda x, w_gate, w_up, w_down: F.linear(F.silu(F.linear(x, w_gate.T)) * F.linear(x, w_up.T), w_down.T),
    ),
    "clamp, and sigmoid written out": (
        lambda x, w_1, b_1, w_2, b_2: (x @ w_1 + b_1).clamp(min=0) @ w_2 + b_2,
        lambda x, w_gate, w_up, w_down: ((x @ w_gate) * torch.sigmoid(x @ w_gate) * (x @ w_up)) @ w_down,
    ),
    "einsum": (
        lambda x, w_1, b_1, w_2, b_2: (
            torch.einsum("...f,fd->...d", torch.einsum("...d,df->...f", x, w_1).add(b_1).relu(), w_2) + b_2
        ),
        lambda x, w_gate, w_up, w_down: torch.einsum("...f,fd->...d", F.silu(x @ w_gate) * (x @ w_up), w_down),
    ),
}
