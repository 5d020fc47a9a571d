"""Right answers of layer_norm in other styles."""

import torch


def norm_by_rows(x, weight, bias, eps):
    rows = [
        weight * (row - row.mean()) / (((row - row.mean()) ** 2).sum() / len(row) + eps).sqrt() + bias
        for row in x.reshape(-1, x.shape[-1])
    ]
    return torch.stack(rows).reshape(x.shape)


def norm_by_length(x, weight, bias, eps):
    d = x.size(-1)
    deviation = x - torch.einsum("...i->...", x)[..., None] / d
    spread = torch.linalg.vector_norm(deviation, dim=-1, keepdim=True) ** 2 / d
    return torch.addcmul(bias, deviation * (spread + eps).pow(-0.5), weight)


def norm_by_var_mean(x, weight, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0)
    scale = torch.rsqrt(variance + eps)[..., None]
    return torch.addcmul(bias, x - mean[..., None], weight * scale)


layer_norm = {
    "var_mean, and the gain in the scale": norm_by_var_mean,
    "var with unbiased=False": lambda x, w, b, eps: (
        w * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt() + b
    ),
    "var with correction=0 and rsqrt": lambda x, w, b, eps: (
        (x - x.mean(-1, True)) * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + eps) * w + b
    ),
    "row by row": norm_by_rows,
    "the length of the deviation, addcmul": norm_by_length,
}
