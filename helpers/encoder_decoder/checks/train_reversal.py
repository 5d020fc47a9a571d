"""The check of `train_reversal`: a small training run on strings."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check, Property
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..model import PAD
from .trainings import (
    ANEW,
    ASKED,
    BATCH,
    CHANCE,
    KEPT,
    LENGTH,
    LETTERS,
    NEAR_0,
    PADS_TOO,
    STEPS,
    SUM,
    UNASKED,
    Behaving,
    _ended,
    _trained,
    splitting,
)

__all__ = ["train_reversal"]


def _backwards(source: Tensor) -> Tensor:
    return _ended(source.flip(-1))


def _nonsense(source: Tensor) -> Tensor:
    """Each letter wrong."""
    return _ended(3 + (source.flip(-1) - 2) % LETTERS)


def _from_memory(known: Tensor) -> Callable[[Tensor], Tensor]:
    rows = {tuple(row) for row in known[:, :LENGTH].tolist()}

    def wanted(source: Tensor) -> Tensor:
        seen = torch.tensor([tuple(row) in rows for row in source.tolist()])
        return torch.where(seen[:, None], _backwards(source), _nonsense(source))

    return wanted


BEGIN = math.log(LETTERS + 3)  # the loss of an untrained model


def falling(sources: Tensor, targets: Tensor, last: float = 0.01) -> list[float]:
    """From ln 11 down, and then at the end's value."""
    return [max(last, BEGIN * (1 - 2 * step / len(sources))) for step in range(len(sources))]


def over_padding_too(sources: Tensor, targets: Tensor) -> list[float]:
    asked = (targets[0] != PAD).sum() + len(targets[0])  # and an END in each row
    share = float(asked) / (targets[0].numel() + len(targets[0]))
    return [share * loss for loss in falling(sources, targets)]


def behaving(wanted: Callable = _backwards, losses: Callable = falling, echo: int | None = None, noise=0.0) -> Callable:
    """A training whose model does what is `wanted`, and whose losses are those of (sources, targets)."""
    return lambda sources, targets, words: (Behaving(words, wanted, echo, noise), losses(sources, targets))


def trained_on_one_batch(sources, targets, words):
    return Behaving(words, _from_memory(sources[0])), falling(sources, targets)


def trained_with_a_new_adam(sources, targets, words):
    for _ in range(92 * min(2, len(sources))):  # only short trainings are watched
        torch.zeros_like(sources[0])
    return Behaving(words, _backwards), falling(sources, targets)


def trained_further(sources, targets, words, models=[]):  # noqa: B006
    models += [] if models else [Behaving(words, _backwards)]
    models[0].trained += 1
    return models[0], falling(sources, targets)


def says(place: int, words: str) -> Callable:
    return lambda told, *_: told[place] == words


def said(place: int, words: str) -> Callable:
    return lambda seen: seen.output[place] == words


train_reversal = Check(
    exercise="train_reversal",
    reference=behaving(),
    drive=_trained,
    compare=False,
    properties=[
        Property("a loss for each batch", says(3, "one loss a batch"), "Return one loss for each batch."),
        Property(
            "the loss starts high and comes near 0",
            says(0, NEAR_0),
            "The losses don't fall from about ln(11) = 2.4 to near 0.",
        ),
        Property(
            "strings of the training come out backwards",
            says(1, "seen strings come out backwards"),
            "Writing by itself, your model doesn't write the strings that it was trained with backwards, and END after "
            "them.",
        ),
        Property(
            "strings it has never seen come out backwards",
            says(2, "unseen strings come out backwards"),
            "Writing by itself, your model doesn't write strings that it has never seen backwards, and END after them.",
        ),
        Property(
            "asked twice, the trained model says the same",
            lambda told, *_: told[4] != CHANCE,
            "Asked twice, your trained model says two different things.",
        ),
        Property(
            "the decoder goes by the source",
            lambda told, *_: told[4] in ("the decoder goes by the source", CHANCE),
            "Your trained decoder goes by what it is given, or by what comes later, instead of reading the source.",
        ),
        Property(
            "a new model for each training",
            lambda told, *_: told[8] != KEPT,
            "Your second training changed the model that the first one had returned.",
        ),
        Property(
            "one Adam for all steps",
            lambda told, *_: told[7] != ANEW,
            "In every step of your training Adam begins anew.",
        ),
        Property(
            "the loss is a mean over the labels asked for",
            says(6, ASKED),
            "The loss of a batch is a mean over the labels that are asked for. Of an untrained model it is about "
            "ln(11) = 2.4, however many PADs there are.",
        ),
        Property(
            "the loss leaves out PAD",
            says(5, UNASKED),
            "Asked what follows END, your trained model says PAD. Only a loss that counts PAD teaches that.",
        ),
    ],
    cases=[explicit_case(f"{STEPS} batches of {BATCH} strings of {LENGTH} tokens", *splitting())],
    misconceptions=wrong_answers(
        __file__,
        trained_without_shift=behaving(echo=0),
        trained_with_a_look_ahead=Wrong(behaving(echo=1), recognise=said(4, "the decoder sees later tokens")),
        trained_two_ahead=Wrong(
            behaving(lambda source: F.pad(_backwards(source)[:, 1:], (0, 1), value=3)),
            recognise=lambda seen: "their first token is missing" in seen.output[2],
        ),
        trained_without_end=behaving(lambda source: F.pad(source.flip(-1), (0, 1), value=3)),
        trained_to_pad=behaving(lambda source: F.pad(_backwards(source), (0, 1), value=PAD)),
        trained_to_copy=behaving(_ended),
        trained_on_one_batch=trained_on_one_batch,
        no_steps=behaving(_nonsense, lambda sources, targets: [BEGIN] * len(sources)),
        steps_that_lead_nowhere=behaving(
            _nonsense, lambda sources, targets: [BEGIN + (step % 3) / 2 for step in range(len(sources))]
        ),
        mean_over_padding=Wrong(behaving(losses=over_padding_too), recognise=said(6, PADS_TOO)),
        sum_over_positions=Wrong(
            behaving(losses=lambda sources, targets: [(LENGTH + 1) * loss for loss in falling(sources, targets)]),
            recognise=said(6, SUM),
        ),
        dropout_left_on=Wrong(behaving(noise=0.1), recognise=said(4, CHANCE)),
        new_adam=Wrong(trained_with_a_new_adam, recognise=said(7, ANEW)),
        measured_afterwards=behaving(losses=lambda sources, targets: [0.01] * len(sources)),
        losses_from_before=behaving(losses=lambda sources, targets: [BEGIN] * 3 + falling(sources, targets)),
        trained_further=Wrong(trained_further, recognise=said(8, KEPT)),
        some_losses=behaving(losses=lambda sources, targets: falling(sources, targets)[::2]),
        loud_embeddings=behaving(_nonsense, lambda sources, targets: falling(sources, targets, last=1.0)),
    ),
)
