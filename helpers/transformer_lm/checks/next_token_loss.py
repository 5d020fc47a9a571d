"""The check of `next_token_loss`."""

import math

import torch

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import in_single_precision
from helpers.engine.compare import TOLERANCE, agree
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


def _mean_of_means(logits, tokens, lengths):
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return ((losses * real).sum(1) / real.sum(1)).mean()


def _mean_with_zeros(logits, tokens, lengths):
    """As `_mean_of_means`, where a text without targets counts as 0."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return ((losses * real).sum(1) / real.sum(1).clamp(min=1)).mean()


def _mean_of_means_of_some(logits, tokens, lengths):
    """As `_mean_of_means`, where a text without targets is left out."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return torch.stack([row[kept].mean() for row, kept in zip(losses, real) if kept.any()]).mean()


def _weighted_means(logits, tokens, lengths):
    """Right but for a text of one token, whose mean is that of no numbers at all."""
    losses, real = _pairs(logits, tokens), _real(tokens, lengths)
    return sum(row[kept].mean() * kept.sum() for row, kept in zip(losses, real)) / real.sum()


def _zero_as_padding(logits, tokens, lengths):
    """Padding is written as 0, and then all that is 0 is left out: real tokens with the number 0 too."""
    targets = tokens[:, 1:].masked_fill(~_real(tokens, lengths), 0)
    return _pairs(logits, tokens)[targets != 0].mean()


def _log_kept_finite(logits, tokens, lengths, least=1e-9, add=torch.add):
    """Probabilities that no logarithm makes infinite: a small number is added, or (torch.clamp) is the least."""
    p = logits[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return -add(p, least)[_real(tokens, lengths)].log().mean()


def _bounded(seen) -> bool:
    """Whether a loss is what comes of a small number at the probabilities, whatever its size."""
    smallest = [10.0**-digits for digits in range(4, 38)]
    within = TOLERANCE[seen.args[0].dtype]
    return any(
        agree(seen.output, _log_kept_finite(*seen.args, least, add), within)
        for least in smallest
        for add in (torch.add, torch.clamp)
    )


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
        targets_not_shifted=_unshifted,
        shifted_wrong_way=_shifted_back,
        shifted_twice=_two_ahead,
        rolled_round=_rolled,
        padding_counts_as_text=lambda logits, tokens, lengths: _pairs(logits, tokens).mean(),
        divided_by_all_positions_padding_too=lambda logits, tokens, lengths: (
            (_pairs(logits, tokens) * _real(tokens, lengths)).sum() / tokens[:, 1:].numel()
        ),
        first_padding_token_target=lambda logits, tokens, lengths: _pairs(logits, tokens)[
            _real(tokens, lengths, 1)
        ].mean(),
        last_real_token_no_target=lambda logits, tokens, lengths: (
            lambda kept: (_pairs(logits, tokens) * kept).sum() / kept.sum()
        )(_real(tokens, lengths, -1)),
        mean_rows_means=Wrong(
            _mean_of_means,
            recognise=lambda seen: agree(seen.output, _mean_with_zeros(*seen.args), TOLERANCE[seen.args[0].dtype]),
        ),
        mean_rows_means_rows_with_targets=_mean_of_means_of_some,
        mean_no_numbers=_weighted_means,
        sum_instead_mean=lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths)].sum(),
        softmax_over_positions=lambda logits, tokens, lengths: _pairs(logits, tokens, axis=1)[
            _real(tokens, lengths)
        ].mean(),
        bits_instead_nats=lambda logits, tokens, lengths: (
            _pairs(logits, tokens)[_real(tokens, lengths)].mean() / math.log(2)
        ),
        sign_forgotten=lambda logits, tokens, lengths: -_pairs(logits, tokens)[_real(tokens, lengths)].mean(),
        perplexity=lambda logits, tokens, lengths: _pairs(logits, tokens)[_real(tokens, lengths)].mean().exp(),
        logarithm_softmax=lambda logits, tokens, lengths: (
            -logits[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)].log().mean()
        ),
        small_number_at_probabilities=Wrong(_log_kept_finite, recognise=_bounded),
        token_0_taken_padding=_zero_as_padding,
        padding_told_by_token_0_not_by_lengths=lambda logits, tokens, lengths: _pairs(logits, tokens)[
            tokens[:, 1:] != 0
        ].mean(),
        longest_length_all_texts=lambda logits, tokens, lengths: _pairs(logits, tokens)[
            _real(tokens, lengths.max().expand_as(lengths))
        ].mean(),
    ),
)
