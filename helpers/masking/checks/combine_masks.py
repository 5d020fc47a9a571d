"""The check of `combine_masks`: allowed is what all masks allow."""

import operator
from functools import reduce

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import masks

__all__ = ["combine_masks"]


def any_mask(*shape) -> RandomArg:
    return RandomArg(lambda generator: torch.rand(shape, generator=generator) < 0.6)


def grown_in_place(*masks) -> Tensor:
    together = masks[0].clone()
    for mask in masks[1:]:
        together &= mask
    return together


combine_masks = Check(
    exercise="combine_masks",
    reference=masks.combine_masks,
    cases=[
        explicit_case("masks of 3×1×4×6 and 4×6", any_mask(3, 1, 4, 6), any_mask(4, 6)),
        explicit_case("three masks", any_mask(2, 1, 5, 6), any_mask(5, 6), any_mask(2, 3, 5, 6)),
        explicit_case("one for each head: 4×5×5 and 5×5", any_mask(4, 5, 5), any_mask(5, 5)),
        explicit_case("one mask alone", any_mask(3, 4)),
        explicit_case(
            "four masks, the smallest first", any_mask(6), any_mask(5, 6), any_mask(2, 1, 1, 6), any_mask(2, 3, 5, 6)
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        any_of_them=lambda *masks: reduce(operator.or_, masks),
        disagreeing=lambda *masks: reduce(operator.xor, masks),
        numbers=lambda *masks: reduce(operator.mul, [mask.long() for mask in masks]),
        first_two=Wrong(
            lambda *masks: masks[0] & masks[1],
            raises="IndexError",
            variants=(lambda *masks: masks[0] & masks[min(1, len(masks) - 1)],),
        ),
        first_and_last=lambda *masks: masks[0] & masks[-1],
        first_only=lambda *masks: torch.broadcast_tensors(*masks)[0].clone(),
        first_shape=Wrong(grown_in_place, raises="RuntimeError"),
        stacked=Wrong(lambda *masks: torch.stack(masks).all(dim=0), raises="RuntimeError"),
        two_are_enough=lambda *masks: sum(mask.int() for mask in masks) >= min(2, len(masks)),
        last_two=lambda *masks: masks[-1] & masks[-2 if len(masks) > 1 else -1],
    ),
)
