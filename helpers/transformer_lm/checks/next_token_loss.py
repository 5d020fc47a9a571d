"""The check of `next_token_loss`."""

import math

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import training as reference

__all__ = ["next_token_loss"]


def padded_texts(label: str, n: int, v: int, *lengths: int, scale: float = 1.0, dtype=torch.float32, **limits) -> Case:
    """Random tokens everywhere: nothing but `lengths` says what is padding."""
    b = len(lengths)
    logits = RandomArg(lambda g: (scale * torch.randn(b, n, v, generator=g, dtype=torch.float64)).to(dtype))
    tokens = RandomArg(lambda g: torch.randint(v, (b, n), generator=g))
    return explicit_case(label, logits, tokens, torch.tensor(lengths), **limits)


def _surprise(logits, tokens, axis=-1):
    """−log p of tokens (b, n) under logits (b, n, v)."""
    return -logits.log_softmax(axis).gather(-1, tokens[..., None])[..., 0]


def _real(tokens, lengths, more=0):
    return torch.arange(1, tokens.shape[1]) < (lengths + more)[:, None]


def _pairs(logits, tokens, axis=-1):
    return _surprise(logits[:, :-1], tokens[:, 1:], axis)


def _unshifted(logits, tokens, lengths):
    return _surprise(logits, tokens)[torch.arange(tokens.shape[1]) < lengths[:, None]].mean()


def _shifted_back(logits, tokens, lengths):
    return _surprise(logits[:, 1:], tokens[:, :-1])[_real(tokens, lengths)].mean()


def _two_ahead(logits, tokens, lengths):
    return _surprise(logits[:, :-2], tokens[:, 2:])[torch.arange(2, tokens.shape[1]) < lengths[:, None]].mean()


def _rolled(logits, tokens, lengths):
    return _surprise(logits, tokens.roll(-1, dims=1))[torch.arange(tokens.shape[1]) < lengths[:, None]].mean()


@composable
def loss(kept=_real, reduced=lambda losses: losses.mean(), axis=-1):
    """Of other targets, kept(tokens, lengths), by another measure, or with a softmax along another axis."""
    return lambda logits, tokens, lengths: reduced(_pairs(logits, tokens, axis)[kept(tokens, lengths)])


def mean_of_means(least):
    """A text has that many targets at least: with 1 a text without any counts as 0."""

    def answer(logits, tokens, lengths):
        losses, real = _pairs(logits, tokens), _real(tokens, lengths)
        return ((losses * real).sum(1) / real.sum(1).clamp(min=least)).mean()

    return answer


def rows_with_targets(logits, tokens, lengths):
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return torch.stack([row[kept].mean() for row, kept in zip(losses, real) if kept.any()]).mean()


def mean_of_no_numbers(logits, tokens, lengths):
    """Right but for a text of one token."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return sum(row[kept].mean() * kept.sum() for row, kept in zip(losses, real)) / real.sum()


def _zero_as_padding(logits, tokens, lengths):
    """Padding is written as 0, and then all that is 0 is left out: real tokens with the number 0 too."""
    targets = tokens[:, 1:].masked_fill(~_real(tokens, lengths), 0)
    return _pairs(logits, tokens)[targets != 0].mean()


def log_of(kept_finite):
    """By the logarithm of probabilities that went through `kept_finite`."""

    def answer(logits, tokens, lengths):
        p = logits[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
        return -kept_finite(p)[_real(tokens, lengths)].log().mean()

    return answer


def added(least):
    return log_of(lambda p: p + least)


def clamped(least):
    return log_of(lambda p: p.clamp(min=least))


SMALL = tuple(10.0**-digits for digits in range(4, 38))


next_token_loss = Check(
    reference=reference.next_token_loss,
    cases=[
        padded_texts("lengths 4, 2, 5 of n = 7", 7, 9, 4, 2, 5),
        padded_texts("no padding, n = 5", 5, 7, 5, 5),
        padded_texts("lengths 8, 3 of n = 8", 8, 4, 8, 3),
        padded_texts("a text of one token: lengths 1, 6, 3", 6, 8, 1, 6, 3, gradient=True),
        padded_texts("one text alone", 6, 5, 4),
        padded_texts("logits in the hundreds", 7, 5, 7, 4, scale=300.0),
        padded_texts("gradients, in float64", 5, 6, 5, 3, dtype=torch.float64, gradient=True),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.next_token_loss),
        one_minus_probability=loss(reduced=lambda losses: (1 - (-losses).exp()).mean()),
        unshifted=_unshifted,
        shifted_back=_shifted_back,
        two_ahead=_two_ahead,
        rolled=_rolled,
        padding_read=loss(lambda tokens, lengths: _real(tokens, lengths, tokens.shape[1])),
        all_unshifted=lambda logits, tokens, lengths: _surprise(logits, tokens).mean(),
        first_text_alone=lambda logits, tokens, lengths: reference.next_token_loss(logits[:1], tokens[:1], lengths[:1]),
        divided_by_all=lambda logits, tokens, lengths: (
            (_pairs(logits, tokens) * _real(tokens, lengths)).sum() / tokens[:, 1:].numel()
        ),
        first_padding=loss(lambda tokens, lengths: _real(tokens, lengths, 1)),
        last_left_out=loss(lambda tokens, lengths: _real(tokens, lengths, -1)),
        mean_of_means=Wrong(mean_of_means(0), variants=(mean_of_means(1),)),
        rows_with_targets=rows_with_targets,
        mean_of_no_numbers=mean_of_no_numbers,
        summed=loss(reduced=lambda losses: losses.sum()),
        over_positions=loss(axis=1),
        bits=loss(reduced=lambda losses: losses.mean() / math.log(2)),
        sign_forgotten=loss(reduced=lambda losses: -losses.mean()),
        perplexity=loss(reduced=lambda losses: losses.mean().exp()),
        log_of_softmax=log_of(lambda p: p),
        small_number=Wrong(added(1e-9), variants=(*map(added, SMALL), *map(clamped, SMALL))),
        zero_as_padding=_zero_as_padding,
        padding_by_token_0=loss(lambda tokens, lengths: tokens[:, 1:] != 0),
        longest_length=loss(lambda tokens, lengths: _real(tokens, lengths.max().expand_as(lengths))),
    ),
)
