"""Right answers of rotary_embedding in other styles."""

import torch


def rotary_by_complex(x, positions, base):
    """Llama's way: a pair is a complex number."""
    theta = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    turn = torch.polar(torch.ones((), dtype=torch.float64), positions[..., None] * theta)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


def rotary_by_rotated_copy(x, positions, base):
    """Hugging Face's and x-transformers' way: x cos + rotate(x) sin, with neighbours as pairs."""
    theta = base ** -(torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angle = (positions[..., None] * theta).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angle.cos().to(x.dtype) + partner * angle.sin().to(x.dtype)


def rotary_by_assignment(x, positions, base):
    out = torch.empty_like(x)
    for i in range(x.shape[-1] // 2):
        angle = positions.double() * base ** (-2 * i / x.shape[-1])
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        out[..., 2 * i] = x[..., 2 * i] * cos - x[..., 2 * i + 1] * sin
        out[..., 2 * i + 1] = x[..., 2 * i] * sin + x[..., 2 * i + 1] * cos
    return out


def rotary_by_matrices(x, positions, base):
    *_, d = x.shape
    phi = positions[..., None].double() * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    rows = [torch.stack([phi.cos(), -phi.sin()], -1), torch.stack([phi.sin(), phi.cos()], -1)]
    turn = torch.stack(rows, dim=-2).to(x.dtype)  # (…, n, d/2, 2, 2)
    return torch.einsum("...rc,...c->...r", turn, x.unflatten(-1, (d // 2, 2))).reshape(x.shape)


def rotary_in_single_precision(x, positions, base):
    """Angles in float32, as most models have them."""
    angles = positions[..., None] * (1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
    cos, sin = torch.cos(angles), torch.sin(angles)
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).reshape(x.shape).to(x.dtype)


def rotary_by_wide_complex(x, positions, base):
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    pair = torch.arange(x.shape[-1] // 2, dtype=torch.float64)
    angle = positions.double().unsqueeze(-1) / base ** (2 * pair / x.shape[-1])
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).reshape(x.shape).to(x.dtype)


rotary_embedding = {
    "a matrix for each pair, einsum": rotary_by_matrices,
    "angles in float32": rotary_in_single_precision,
    "complex numbers (Llama)": rotary_by_complex,
    "complex numbers in float64, brought back to the dtype of x": rotary_by_wide_complex,
    "a rotated copy (Hugging Face)": rotary_by_rotated_copy,
    "a loop over pairs": rotary_by_assignment,
}
