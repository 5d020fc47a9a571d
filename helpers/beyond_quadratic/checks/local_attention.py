"""local_attention: token i reads the tokens j with |i − j| ≤ w, at the price of the window."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import power_before_division
from helpers.engine.answers.mask import Mask
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import attention
from helpers.engine.cases import Case, explicit_case, normal, random_case, whole
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import sparse
from .sparse import (
    Slots,
    all_pairs_scored,
    cut_or_not,
    far_below,
    gathered,
    hidden_too_softly,
    long_sequence,
    near,
    other_width,
    overflowed,
    pairs,
    ready_made,
    row_by_row,
    scores_of_all_pairs,
    slots_of,
    square_made,
    square_on_the_way_back,
    with_a_token_of_zeros,
)

__all__ = ["local_attention"]

reference = sparse.local_attention


@composable
def local(
    slots: Callable = lambda i, w: i + torch.arange(-w, w + 1),
    place: Callable = lambda keys, n: keys.clamp(0, n - 1),
    valid: Callable = lambda keys, n: (keys >= 0) & (keys < n),
    **changed: Callable,
) -> Callable:
    """slots: the keys of each token; place: where they are looked up; valid: which of them there are. Else as in
    `gathered`."""

    def read(n: int, w: int) -> tuple[Tensor, Tensor]:
        keys = slots(torch.arange(n)[:, None], w)
        return place(keys, n), valid(keys, n)

    return gathered(read, **changed)


@composable
def under_band(**changed: Callable) -> Callable:
    return pairs(near, **changed)


def everywhere(keys: Tensor, n: int) -> Tensor:
    return torch.ones_like(keys, dtype=torch.bool)


def around_the_end(keys: Tensor, n: int) -> Tensor:
    return keys % n


def shown_at_either_width(answer: Callable, **known) -> Wrong:
    return Wrong(answer, variants=cut_or_not(answer), **known)


def empty_rows_of_0(slip: Callable) -> Callable:
    return lambda *args: slip(*args).nan_to_num()


too_narrow = pairs(lambda i, j, w: (i - j).abs() < w)
last_slot_missing = local(slots=lambda i, w: i + torch.arange(-w, w))
from_the_end_where_there_is_one = local(place=around_the_end, valid=lambda keys, n: keys < n)


def moved_inside(i: Tensor, j: Tensor, w: int) -> Tensor:
    start = (i - w).clamp(0, max(len(j) - 2 * w - 1, 0))
    return (j >= start) & (j <= start + 2 * w)


def neighbour_blocks_whole(i: Tensor, j: Tensor, w: int) -> Tensor:
    size = max(w, 1)
    start = i // size * size
    return (j >= start - w) & (j < start + size + w)


def ragged_block_lost(q, k, v, w) -> Tensor:
    n, size = q.shape[-2], max(w, 1)
    return under_band()(q, k, v, w) * (torch.arange(n) < n // size * size)[:, None]


def weights_taken_out(hidden, valid, scores) -> Tensor:
    weights = hidden.softmax(-1) * valid
    return weights / weights.sum(-1, keepdim=True)


def sliced_from_the_end(q, k, v, w) -> Tensor:
    windows = [(q[..., i : i + 1, :], *(x[..., i - w : i + w + 1, :] for x in (k, v))) for i in range(q.shape[-2])]
    return torch.cat([attention()(*one) for one in windows], dim=-2)


def long_local(n: int, d: int, d_v: int, w: int) -> Case:
    return long_sequence(n, d, d_v, n * (4 * w + 4), "n w d", w=w)


local_attention = Check(
    reference=reference,
    cases=[
        random_case(n=9, d=4, d_v=3, w=2),
        random_case(batch=(2, 3), n=11, d=3, d_v=5, w=4, dtype=torch.float64),
        random_case(n=8, d=5, d_v=2, w=3, scale=3.0, label="n = 8, w = 3, large scores"),
        random_case(n=5, d=4, d_v=3, w=6, label="a window wider than the sequence"),
        long_local(400, 4, 3, 3),
        long_local(300, 2, 6, 5),
        with_a_token_of_zeros(random_case(n=9, d=4, d_v=3, w=4, label="n = 9 again, now with w = 4")),
        random_case(n=4, d=3, d_v=2, w=0, label="w = 0: each token alone"),
        explicit_case("scores of several hundred", whole(9, 4), whole(9, 4), normal(9, 3), 2),
        explicit_case("scores near −30,000, in float64", *far_below(8, 8, 3), 2),
        random_case(
            "n = 20, w = 2: gradients, in float64",
            **{"batch": (2,), "n": 20, "d": 3, "d_v": 4, "w": 2, "dtype": torch.float64},
            gradient=True,
            max_backward_elements=20 * 12 * 4 * 2,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        other_width(reference),
        power_before_division(reference),
        *ready_made(reference),
        *slips(local, Slots.from_a_view, cost=square_on_the_way_back),
        *slips(local, Slots.zeros_taken, Slots.axis_from_front, Slots.by_width_of_values, Slots.one_batch_axis),
        *slips(local, Slots.finite_number, recognise=hidden_too_softly(reference)),
        *slips(local, Slots.out_of_range, recognise=overflowed),
        *slips(local, Softmax.one_maximum, Scale.none),
        *slips(under_band, Mask.after_softmax, Mask.almost_zero),
        # the price
        all_pairs=Wrong(under_band(), cost=scores_of_all_pairs),
        table_of_all_pairs=Wrong(gathered(lambda n, w: slots_of(sparse.band(n, w), 2 * w + 1)), cost=square_made),
        row_by_row=Wrong(row_by_row(near), cost=all_pairs_scored),
        # which tokens
        too_narrow=Wrong(
            local(slots=lambda i, w: i + torch.arange(-w + 1, w)),
            variants=(too_narrow, empty_rows_of_0(too_narrow)),
            raises="RuntimeError",
        ),
        no_window=pairs(lambda i, j, w: near(i, j, len(j))),
        too_wide=pairs(lambda i, j, w: near(i, j, w + 1)),
        looks_back_only=pairs(lambda i, j, w: near(i, j, w) & (j <= i)),
        looks_ahead_only=pairs(lambda i, j, w: near(i, j, w) & (j >= i)),
        w_on_both_sides_together=pairs(lambda i, j, w: near(i, j, w // 2)),
        last_slot_missing=Wrong(
            last_slot_missing,
            variants=(*cut_or_not(last_slot_missing), *cut_or_not(empty_rows_of_0(last_slot_missing))),
        ),
        itself_left_out=pairs(lambda i, j, w: near(i, j, w) & (i != j)),
        cut_to_half=pairs(lambda i, j, w: near(i, j, min(w, len(j) // 2))),
        moved_inside=pairs(moved_inside),
        own_block_alone=pairs(lambda i, j, w: i // max(w, 1) == j // max(w, 1)),
        ragged_block_lost=ragged_block_lost,
        neighbour_blocks_whole=pairs(neighbour_blocks_whole),
        # beyond the ends
        wraps_around=shown_at_either_width(local(place=around_the_end, valid=everywhere)),
        end_goes_on_at_start=shown_at_either_width(local(place=around_the_end, valid=lambda keys, n: keys >= 0)),
        start_goes_on_at_end=Wrong(
            local(place=lambda keys, n: keys.clamp(max=n - 1), valid=lambda keys, n: keys < n),
            variants=cut_or_not(from_the_end_where_there_is_one),
            raises="IndexError",
        ),
        padding_takes_part=shown_at_either_width(
            local(
                hide=lambda scores, valid: scores * valid,
                normalise=lambda hidden, valid, scores: hidden.softmax(-1) * valid,
            )
        ),
        padding_taken_out_later=local(hide=lambda scores, valid: scores * valid, normalise=weights_taken_out),
        ends_repeated=shown_at_either_width(local(valid=everywhere)),
        last_token_again=shown_at_either_width(local(valid=lambda keys, n: keys >= 0)),
        first_token_again=shown_at_either_width(local(valid=lambda keys, n: keys < n)),
        sliced_from_the_end=sliced_from_the_end,
        by_size_of_window=shown_at_either_width(
            local(scale=lambda products, sizes: products / math.sqrt(products.shape[-1]))
        ),
    ),
)
