"""The check of `exact_match`."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import tasks
from .. import training as reference
from ..model import END, PAD
from .trainings import _ended

__all__ = ["exact_match"]

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


def equal(row, right):
    return _until_end(row) == right


@composable
def matched(hit: Callable = equal, of_all: Callable = _mean) -> Callable:
    """Exact match by another measure: hit(what is written in a row, the target with END) for each row, and what is made
    of all of them."""

    def answer(written, target):
        right = map(_until_end, _ended(target).tolist())
        return float(of_all([hit(row, words) for row, words in zip(written.tolist(), right, strict=True)]))

    return answer


def in_their_places(row, right):
    return [mine == theirs for mine, theirs in zip(row, right, strict=False)]


def share_of_places(written, target):
    n = min(written.shape[1], target.shape[1])
    return (written[:, :n] == target[:, :n]).float().mean().item()


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
        _exam("17 strings, all but one right", 17, 5, 7, kinds="0" * 16 + "5"),  # as many, and another share
        _exam("one string, and it is right", 1, 6, 8),
        _exam("12 strings, some with a gap before END", 12, 5, 8, kinds="070878888077"),
        _exam("10 strings, PAD before END in some, a second END in others", 10, 5, 9, kinds="09a9909a09"),
        _exam("9 strings, written as wide as the longest word", 9, 5, 5, kinds="000000020"),
        _exam("7 strings, written narrower than the targets", 7, 6, 4, kinds="0000000"),
    ],
    within=(1e-6, 1e-6),
    misconceptions=wrong_answers(
        __file__,
        share_of_tokens=Wrong(
            matched(in_their_places, of_all=lambda hits: _mean(sum(hits, []))), variants=(share_of_places,)
        ),
        share_of_each_string=matched(lambda row, right: sum(in_their_places(row, right)) / len(right)),
        end_must_be_there=Wrong(matched(lambda row, right: row[: row.index(END) + 1] == right), raises="ValueError"),
        litter_counts=matched(lambda row, right: without_padding_behind(row) == right),
        end_not_needed=matched(lambda row, right: row[: len(right) - 1] == right[:-1]),
        as_far_as_written=matched(lambda row, right: right[: len(_until_end(row)) - 1] == _until_end(row)[:-1]),
        number_of_hits=matched(of_all=sum),
        any_order=matched(lambda row, right: sorted(_until_end(row)) == sorted(right)),
        share_of_errors=matched(lambda row, right: not equal(row, right)),
        all_or_nothing=matched(of_all=all),
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
