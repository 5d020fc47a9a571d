"""The check of `train_reversal`: teacher forcing, exact match, and a small training run on strings."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.drivers import unpack, watch
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import tasks
from .. import training as reference
from ..model import END, PAD
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
    _column,
    _ended,
    _started,
    _trained,
    splitting,
)

__all__ = ["train_reversal"]


def _forced(answer: Callable, target: Tensor) -> tuple:
    """Inputs and labels, and what became of the target. What the decoder reads where nothing is to be asked (the label
    ought to be PAD) makes no difference."""
    seen = watch(answer, target)
    inputs, labels = unpack(seen.output, "inputs", "labels")
    if isinstance(inputs, Tensor) and inputs.shape == _ended(target).shape:
        inputs = inputs.masked_fill(_ended(target) == PAD, PAD)
    return inputs, labels, "the target is changed in place" if seen.modified else "the target stays as it is"


def _targets(b: int, n: int, shortest: int = 1) -> RandomArg:
    """At least one row is full, and, where `shortest` allows it, one is as short as that."""

    def draw(generator: Generator) -> Tensor:
        tokens = tasks.strings(b, n, 20, generator, shortest)
        tokens[0] = torch.randint(3, 23, (n,), generator=generator)
        tokens[1, shortest:] = PAD
        return tokens

    return RandomArg(draw)


def _one(generator: Generator) -> Tensor:
    return torch.randint(3, 23, (1, 3), generator=generator)


def behind(target, token):
    return torch.cat([target, _column(target, token)], dim=1)


def instead_of_padding(labels, token):
    return labels.masked_fill(labels == PAD, token)


def two_ahead(target):
    return _started(target), behind(_ended(target)[:, 1:], PAD)


def without_end(target):
    return _started(target), behind(target, PAD)


def end_written_into_the_target(target):
    found = _started(target), _ended(target)
    lengths = (target != PAD).sum(dim=1)
    target[lengths < target.shape[1], lengths[lengths < target.shape[1]]] = END
    return found


def length_by_the_first_padding(target):
    labels = behind(target, PAD)
    labels[torch.arange(len(target)), (target == PAD).int().argmax(dim=1)] = END  # 0 where there is none
    return _started(target), labels


teacher_forcing = Check(
    reference=reference.teacher_forcing,
    drive=_forced,
    names=("inputs: sequences positions", "labels: sequences positions"),
    cases=[
        explicit_case("3 targets of up to 6 tokens", _targets(3, 6)),
        explicit_case("4 targets of up to 5 tokens", _targets(4, 5, shortest=2)),
        explicit_case("no padding, n = 4", _targets(2, 4, shortest=4)),
        explicit_case("one target, without padding", RandomArg(_one)),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        no_shift=lambda target: (_ended(target), _ended(target)),
        start_in_the_labels=lambda target: (_started(target), _started(target)),
        swapped=lambda target: (_ended(target), _started(target)),
        two_ahead=two_ahead,
        no_start=lambda target: (behind(target, PAD), _ended(target)),
        no_end=without_end,
        end_at_the_edge=lambda target: (_started(target), behind(target, END)),
        end_everywhere=lambda target: (_started(target), instead_of_padding(_ended(target), END)),
        end_as_start=lambda target: (torch.cat([_column(target, END), target], dim=1), _ended(target)),
        minus_100=lambda target: (_started(target), instead_of_padding(_ended(target), -100)),
        target_overwritten=end_written_into_the_target,
        first_padding=length_by_the_first_padding,
    ),
)

KINDS = "0134334462424435536640552666"  # no two kinds are equally many, so that no two slips give the same share


def _exam(label: str, b: int, n: int, width: int, kinds: str = KINDS) -> Case:
    """Written strings of many kinds: right with padding or with litter behind END, cut short, without an end, a token
    off. The first target is full, and the second isn't."""

    def written(target: Tensor, generator: Generator) -> Tensor:
        litter = torch.randint(3, 23, (b, width), generator=generator)
        rows = torch.cat([_ended(target), torch.full((b, width), PAD)], dim=1)[:, :width]
        lengths = (target != PAD).sum(dim=1).tolist()
        for row, (found, length, kind) in enumerate(zip(rows, lengths, kinds[:b], strict=True)):
            if kind == "1":  # right, then litter
                found[length + 1 :] = litter[row, length + 1 :]
            elif kind == "2":  # the last token wrong
                found[length - 1] = 23
            elif kind == "3":  # it doesn't end
                found[length:] = litter[row, length:]
            elif kind == "4":  # it ends too early
                found[length - 1 :] = PAD
                found[length - 1] = END
            elif kind == "5":  # something else altogether
                found[:length] = 24
            elif kind == "6":  # the same tokens, turned round by one place
                found[:length] = found[:length].roll(1)
            elif kind == "7":  # a word between the last one and END
                found[length], found[length + 1] = litter[row, length], END
            elif kind == "9":  # right, then litter that ends in another END
                found[length + 1 :], found[-1] = litter[row, length + 1 :], END
            elif kind == "a":  # padding between the last word and END
                found[length], found[length + 1] = PAD, END
            elif kind == "8":  # padding between two words
                found[1 : length + 2] = torch.cat([torch.tensor([PAD]), found[1 : length + 1]])
        return rows

    def draw(_: Callable, generator: Generator) -> tuple[Tensor, Tensor]:
        target = tasks.strings(b, n, 20, generator, shortest=2)
        if kinds != KINDS:
            target[0], target[1, 2:] = torch.randint(3, 23, (n,), generator=generator), PAD
        return written(target, generator), target

    return Case(label, draw)


def _until_end(row: list[int]) -> list[int]:
    return row[: row.index(END) + 1] if END in row else row


def _mean(hits: list) -> float:
    return sum(hits) / len(hits)


def matched(hit: Callable, of_all: Callable = _mean) -> Callable:
    """Exact match by another measure: hit(what is written in a row, the target with END) for each row, and what is made
    of all of them."""

    def answer(written, target):
        right = map(_until_end, _ended(target).tolist())
        return float(of_all([hit(row, words) for row, words in zip(written.tolist(), right, strict=True)]))

    return answer


def equal(row, right):
    return _until_end(row) == right


def in_their_places(row, right):
    return [mine == theirs for mine, theirs in zip(row, right, strict=False)]


def without_padding_behind(row):
    return row[: max((place for place, token in enumerate(row, start=1) if token != PAD), default=0)]


def up_to_the_last_end(row, right):
    """Nothing is written where there is no END."""
    return row[: max((place for place, token in enumerate(row, start=1) if token == END), default=0)] == right


def padding_stripped(row, right):
    """Padding is taken off the end of the words, where END was."""
    row = _until_end(row)
    return without_padding_behind(row[:-1]) + row[-1:] == right


def as_wide_as_the_target(written, target):
    labels = _ended(target)
    return ((written[:, : labels.shape[1]] == labels) | (labels == PAD)).all(dim=1).float().mean().item()


exact_match = Check(
    reference=reference.exact_match,
    cases=[
        _exam("28 strings, written wider than the targets", 28, 7, 10),
        _exam("17 strings of up to 5 tokens", 17, 5, 7),
        _exam("one string, and it is right", 1, 6, 8),
        _exam("12 strings, some with a gap before END", 12, 5, 8, kinds="070878888077"),
        _exam("10 strings, PAD before END in some, a second END in others", 10, 5, 9, kinds="09a9909a09"),
        _exam("9 strings, written as wide as the longest word", 9, 5, 5, kinds="000000020"),
        _exam("7 strings, written narrower than the targets", 7, 6, 4, kinds="0000000"),
    ],
    within=(1e-6, 1e-6),
    misconceptions=wrong_answers(
        __file__,
        share_of_tokens=matched(in_their_places, of_all=lambda hits: _mean(sum(hits, []))),
        share_of_each_string=matched(lambda row, right: sum(in_their_places(row, right)) / len(right)),
        end_must_be_there=Wrong(matched(lambda row, right: row[: row.index(END) + 1] == right), raises="ValueError"),
        litter_counts=matched(lambda row, right: without_padding_behind(row) == right),
        end_not_needed=matched(lambda row, right: row[: len(right) - 1] == right[:-1]),
        as_far_as_written=matched(lambda row, right: right[: len(_until_end(row)) - 1] == _until_end(row)[:-1]),
        number_of_hits=matched(equal, of_all=sum),
        any_order=matched(lambda row, right: sorted(_until_end(row)) == sorted(right)),
        share_of_errors=matched(lambda row, right: not equal(row, right)),
        all_or_nothing=matched(equal, of_all=all),
        end_anywhere=matched(lambda row, right: row[: len(right) - 1] == right[:-1] and END in row),
        gaps_closed=matched(lambda row, right: [token for token in row if token != PAD][: len(right)] == right),
        last_end=matched(up_to_the_last_end),
        padding_overlooked=matched(padding_stripped),
        cut_off_counts=matched(lambda row, right: (row[: row.index(END)] if END in row else row) == right[:-1]),
        as_far_as_both_reach=matched(lambda row, right: all(in_their_places(row, right))),
        as_wide_as_the_target=Wrong(as_wide_as_the_target, raises="RuntimeError"),
        same_length=matched(lambda row, right: len(_until_end(row)) == len(right)),
    ),
)


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


_train = Check(
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

train_reversal = CheckGroup("train_reversal", teacher_forcing, exact_match, _train)
