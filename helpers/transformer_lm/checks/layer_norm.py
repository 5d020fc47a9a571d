"""The check of `layer_norm`."""

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import layers as reference
from .layers import normed_rows

__all__ = ["layer_norm"]


def _standardised(x, weight, bias, eps, axis=-1, unbiased=False):
    mean = x.mean(axis, keepdim=True)
    return weight * (x - mean) / torch.sqrt(x.var(axis, keepdim=True, unbiased=unbiased) + eps) + bias


def over(axis):
    """Normalised over other axes: axis(how many there are)."""
    return lambda x, w, b, eps: _standardised(x, w, b, eps, axis=axis(x.dim()))


def divided(by):
    """Centred rows divided by another number, by(x, ε)."""
    return lambda x, w, b, eps: w * (x - x.mean(-1, keepdim=True)) / by(x, eps) + b


def _variance(x):
    return x.var(-1, keepdim=True, unbiased=False)


def _squares_minus_square(x, eps):
    return torch.sqrt((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square() + eps)


def _root_squared(x, eps):
    return torch.sqrt((x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).sqrt() ** 2 + eps)


def _repaired_variance(x, eps):
    return torch.sqrt(x.var(-1, keepdim=True) * (x.shape[-1] - 1) / x.shape[-1] + eps)


def _without_gradients(x, w, b, eps):
    return w * (x - x.mean(-1, keepdim=True).detach()) / torch.sqrt(_variance(x).detach() + eps) + b


def _variance_without_its_digits(seen) -> bool:
    """In rows far from 0: each row is the right one times a factor near 1, so its mean is right and its variance is
    not."""
    x, weight, bias, eps = seen.args
    far = bool((x.mean(-1).abs() > 50 * x.std(-1)).all())
    right = (reference.layer_norm(*(t.double() for t in (x, weight, bias)), eps) - bias) / weight
    mine = (seen.output.double() - bias) / weight
    row = (mine / right).median(dim=-1, keepdim=True).values
    return far and bool(((row - 1).abs() < 0.5).all() and ((mine - row * right).abs() < 0.01).all())


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
        normed_rows("rows far from 0", 12, 16, centre=300.0, scale=1.0),
        normed_rows("gradients, in float64", 2, 3, 5, dtype=torch.float64, gradient=True),
    ],
    within={torch.float32: (1e-3, 2e-4)},  # a mean near 300 is rounded to 1e-5
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.layer_norm),
        unbiased=lambda x, w, b, eps: _standardised(x, w, b, eps, unbiased=True),
        std_and_epsilon=lambda x, w, b, eps: w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + b,
        one_mean=lambda x, w, b, eps: w * (x - x.mean()) / torch.sqrt(x.var() + eps) + b,
        neither=lambda x, w, b, eps: _standardised(x, torch.ones_like(w), torch.zeros_like(b), eps),
        repaired=divided(_repaired_variance),
        over_tokens=over(lambda axes: -2 if axes > 1 else -1),
        over_tokens_and_features=over(lambda axes: tuple(range(max(0, axes - 2), axes))),
        axis_1=Wrong(over(lambda axes: 1), raises="IndexError"),
        over_the_batch=over(lambda axes: 0),
        not_centred=lambda x, w, b, eps: w * x / torch.sqrt(_variance(x) + eps) + b,
        rms_norm=lambda x, w, b, eps: w * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) + b,
        no_root=divided(lambda x, eps: _variance(x) + eps),
        outside_the_root=divided(lambda x, eps: x.std(-1, keepdim=True, unbiased=False) + eps),
        no_epsilon=lambda x, w, b, eps: _standardised(x, w, b, 0.0),
        fixed_epsilon=lambda x, w, b, eps: _standardised(x, w, b, 1e-5),
        no_gain=lambda x, w, b, eps: _standardised(x, torch.ones_like(w), b, eps),
        no_bias=lambda x, w, b, eps: _standardised(x, w, torch.zeros_like(b), eps),
        gain_over_bias=lambda x, w, b, eps: w * (_standardised(x, torch.ones_like(w), torch.zeros_like(b), eps) + b),
        without_gradients=_without_gradients,
        squares_minus_square=Wrong(divided(_squares_minus_square), recognise=_variance_without_its_digits),
        root_squared=divided(_root_squared),
        epsilon_as_least=divided(lambda x, eps: _variance(x).clamp(min=eps).sqrt()),
        epsilon_divided=lambda x, w, b, eps: _standardised(x, w, b, eps / x.shape[-1]),
        gain_before=lambda x, w, b, eps: _standardised(w * x, torch.ones_like(w), b, eps),
        bias_before=lambda x, w, b, eps: _standardised(x + b, w, torch.zeros_like(b), eps),
    ),
    forbids=["layer_norm", "group_norm", "instance_norm", "batch_norm"],
)
