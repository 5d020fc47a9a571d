"""The check of `combine_masks`."""

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import masks

__all__ = ["combine_masks"]


def any_mask(*shape) -> RandomArg:
    return RandomArg(lambda generator: torch.rand(shape, generator=generator) < 0.6)


def any_of_them(*masks) -> Tensor:
    together = masks[0]
    for mask in masks[1:]:
        together = together | mask
    return together


def an_odd_number_of_them(*masks) -> Tensor:
    together = masks[0]
    for mask in masks[1:]:
        together = together ^ mask
    return together


def their_product_as_numbers(*masks) -> Tensor:
    product = 1
    for mask in masks:
        product = product * mask.long()
    return product


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
        or_=any_of_them,
        allowed_where_masks_disagree=an_odd_number_of_them,
        numbers_instead_true_false=their_product_as_numbers,
        first_two_masks_only=Wrong(lambda *masks: masks[0] & masks[1], raises="IndexError"),
        first_mask_last_only=lambda *masks: masks[0] & masks[-1],
        first_mask_only=lambda *masks: torch.broadcast_tensors(*masks)[0].clone(),
        result_that_keeps_shape_first_mask=Wrong(grown_in_place, raises="RuntimeError"),
        stacked_without_broadcasting=Wrong(lambda *masks: torch.stack(masks).all(dim=0), raises="RuntimeError"),
        allowed_if_two_masks_allow_it=lambda *masks: sum(mask.int() for mask in masks) >= min(2, len(masks)),
        last_two_masks_only=lambda *masks: masks[-1] & masks[-2 if len(masks) > 1 else -1],
    ),
)
