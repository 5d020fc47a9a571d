"""The check of `layer_norm`."""

import torch

from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import layers as reference
from .layers import normed_rows

__all__ = ["layer_norm"]


def _standardised(x, weight, bias, eps, axis=-1, unbiased=False):
    mean = x.mean(axis, keepdim=True)
    return weight * (x - mean) / torch.sqrt(x.var(axis, keepdim=True, unbiased=unbiased) + eps) + bias


def _whole_sequence(x, weight, bias, eps):
    axes = tuple(range(max(0, x.dim() - 2), x.dim()))
    return (
        weight * (x - x.mean(axes, keepdim=True)) / torch.sqrt(x.var(axes, keepdim=True, unbiased=False) + eps) + bias
    )


def _over_tokens(x, weight, bias, eps):
    return _standardised(x, weight, bias, eps, axis=-2 if x.dim() > 1 else -1)


def _over_the_batch(x, weight, bias, eps):
    return _standardised(x, weight, bias, eps, axis=0)


def _squares_minus_square(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    return weight * (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean * mean + eps) + bias


def _variance_without_its_digits(seen) -> bool:
    """In rows far from 0: each row is the right one times a factor near 1, so its mean is right and its variance is
    not."""
    x, weight, bias, eps = seen.args
    far = bool((x.mean(-1).abs() > 50 * x.std(-1)).all())
    right = (reference.layer_norm(*(t.double() for t in (x, weight, bias)), eps) - bias) / weight
    mine = (seen.output.double() - bias) / weight
    row = (mine / right).median(dim=-1, keepdim=True).values
    return far and bool(((row - 1).abs() < 0.5).all() and ((mine - row * right).abs() < 0.01).all())


def _root_squared(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    deviation = centred.square().mean(-1, keepdim=True).sqrt()
    return weight * centred / torch.sqrt(deviation**2 + eps) + bias


def _repaired_variance(x, weight, bias, eps):
    d = x.shape[-1]
    variance = x.var(-1, keepdim=True) * (d - 1) / d
    return weight * (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + eps) + bias


layer_norm = Check(
    reference=reference.layer_norm,
    cases=[
        normed_rows("one token, d = 6", 6),
        normed_rows("3 tokens, d = 8", 3, 8),
        normed_rows("2 sequences of 5 tokens, d = 4", 2, 5, 4),
        normed_rows("ε = 0.5 and small numbers", 3, 5, eps=0.5, scale=0.4),
        normed_rows("d = 2: n or n − 1 matters most", 4, 2, eps=1e-3),
        normed_rows("three batch axes", 2, 3, 2, 5),
        normed_rows("gradients where the features are all equal, variance 0", 4, 6, scale=0.0, gradient=True),
        normed_rows("d = 1: a single feature", 3, 1),
        normed_rows("rows far from 0", 12, 7, centre=300.0, scale=1.0),
        normed_rows("gradients, in float64", 2, 3, 5, dtype=torch.float64, gradient=True),
    ],
    within={torch.float32: (1e-3, 2e-4)},  # a mean near 300 is rounded to 1e-5
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.layer_norm),
        unbiased_variance=lambda x, w, b, eps: _standardised(x, w, b, eps, unbiased=True),
        unbiased_variance_times_d_minus_1_over=_repaired_variance,
        normalised_over_tokens=_over_tokens,
        normalised_over_tokens_features=_whole_sequence,
        axis_1_whatever_it=Wrong(lambda x, w, b, eps: _standardised(x, w, b, eps, axis=1), raises="IndexError"),
        normalised_over_batch=_over_the_batch,
        mean_not_subtracted=lambda x, w, b, eps: w * x / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps) + b,
        rmsnorm=lambda x, w, b, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) + b,
        divided_by_variance_without_root=lambda x, w, b, eps: (
            w * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps) + b
        ),
        added_outside_root=lambda x, w, b, eps: (
            w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + eps) + b
        ),
        no=lambda x, w, b, eps: _standardised(x, w, b, 0.0),
        always_1e_5=lambda x, w, b, eps: _standardised(x, w, b, 1e-5),
        no_gain=lambda x, w, b, eps: _standardised(x, torch.ones_like(w), b, eps),
        no_bias=lambda x, w, b, eps: _standardised(x, w, torch.zeros_like(b), eps),
        gain_over_bias_too=lambda x, w, b, eps: (
            w * (_standardised(x, torch.ones_like(w), torch.zeros_like(b), eps) + b)
        ),
        statistics_without_gradients=lambda x, w, b, eps: (
            w
            * (x - x.mean(-1, keepdim=True).detach())
            / torch.sqrt(x.var(-1, keepdim=True, unbiased=False).detach() + eps)
            + b
        ),
        mean_squares_minus_square_mean=Wrong(_squares_minus_square, recognise=_variance_without_its_digits),
        square_root=_root_squared,
        as_least_variance=lambda x, w, b, eps: (
            w * (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, unbiased=False).clamp(min=eps).sqrt() + b
        ),
        divided_by_d_too=lambda x, w, b, eps: _standardised(x, w, b, eps / x.shape[-1]),
        gain_before_norm=lambda x, w, b, eps: _standardised(w * x, torch.ones_like(w), b, eps),
        bias_before_norm=lambda x, w, b, eps: _standardised(x + b, w, torch.zeros_like(b), eps),
    ),
    forbids=["layer_norm", "group_norm", "instance_norm", "batch_norm"],
)
