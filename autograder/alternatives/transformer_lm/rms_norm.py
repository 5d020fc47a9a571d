"""Right answers of rms_norm in other styles."""

import torch


def rms_by_dot_product(x, weight, eps):
    squares = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)  # (…, 1)
    return x * (squares / x.shape[-1] + eps).sqrt().reciprocal() * weight


rms_norm = {
    "each row's dot product with itself": rms_by_dot_product,
    "rsqrt (Llama)": lambda x, w, eps: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w,
    "the norm over √d (x-transformers)": lambda x, w, eps: (
        x / ((x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) ** 0.5) * w
    ),
    "einsum": lambda x, w, eps: torch.einsum(
        "...d,...,d->...d", x, (torch.einsum("...d,...d->...", x, x) / x.shape[-1] + eps) ** -0.5, w
    ),
}
