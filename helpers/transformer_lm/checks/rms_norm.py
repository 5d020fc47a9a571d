"""The check of `rms_norm`."""

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import layers as reference
from .layers import normed_rows

__all__ = ["rms_norm"]


def _rms(x, weight, eps, axis=-1):
    return weight * x / torch.sqrt((x * x).mean(axis, keepdim=True) + eps)


rms_norm = Check(
    reference=reference.rms_norm,
    cases=[
        normed_rows("one token, d = 6", 6, parameters=1),
        normed_rows("3 tokens, d = 8", 3, 8, parameters=1),
        normed_rows("2 sequences of 5 tokens, d = 4", 2, 5, 4, parameters=1),
        normed_rows("ε = 0.5 and small numbers", 3, 5, eps=0.5, scale=0.4, centre=0.3, parameters=1),
        normed_rows("three batch axes", 2, 3, 2, 5, parameters=1),
        normed_rows("gradients where the features are all 0", 4, 6, scale=0.0, centre=0.0, parameters=1, gradient=True),
        normed_rows("gradients, in float64", 2, 3, 5, parameters=1, dtype=torch.float64, gradient=True),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.rms_norm),
        mean_subtracted=lambda x, w, eps: _rms(x - x.mean(-1, keepdim=True), w, eps),
        standard_deviation=lambda x, w, eps: w * x / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps),
        square_of_the_mean=lambda x, w, eps: w * x / torch.sqrt(x.mean(-1, keepdim=True) ** 2 + eps),
        length_of_the_row=lambda x, w, eps: w * x / torch.sqrt((x * x).sum(-1, keepdim=True) + eps),
        no_root=lambda x, w, eps: w * x / ((x * x).mean(-1, keepdim=True) + eps),
        mean_of_sizes=lambda x, w, eps: w * x / (x.abs().mean(-1, keepdim=True) + eps),
        axis_1=Wrong(lambda x, w, eps: _rms(x, w, eps, axis=1), raises="IndexError"),
        gain_plus_1=lambda x, w, eps: _rms(x, 1 + w, eps),
        over_tokens=lambda x, w, eps: _rms(x, w, eps, axis=-2 if x.dim() > 1 else -1),
        over_tokens_and_features=lambda x, w, eps: _rms(x, w, eps, axis=tuple(range(max(0, x.dim() - 2), x.dim()))),
        gain_before=lambda x, w, eps: _rms(w * x, torch.ones_like(w), eps),
        no_gain=lambda x, w, eps: _rms(x, torch.ones_like(w), eps),
        no_epsilon=lambda x, w, eps: _rms(x, w, 0.0),
        outside_the_root=lambda x, w, eps: w * x / ((x * x).mean(-1, keepdim=True).sqrt() + eps),
        root_squared=lambda x, w, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True).sqrt() ** 2 + eps),
        epsilon_as_least=lambda x, w, eps: w * x / (x * x).mean(-1, keepdim=True).clamp(min=eps).sqrt(),
        epsilon_divided=lambda x, w, eps: _rms(x, w, eps / x.shape[-1]),
        fixed_epsilon=lambda x, w, eps: _rms(x, w, 1e-5),
        length_over_d=lambda x, w, eps: w * x / torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] ** 2 + eps),
        without_gradients=lambda x, w, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True).detach() + eps),
    ),
    forbids=["rms_norm", "layer_norm", "normalize"],
)
