"""The check of `teacher_forcing`."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import unpack, watch
from helpers.engine.wrong_answers import wrong_answers

from .. import tasks
from .. import training as reference
from ..model import END, PAD
from .trainings import _column, _ended, _started

__all__ = ["teacher_forcing"]


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
    names=("inputs: sequences positions", "labels: sequences positions", "the target that was given"),
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
