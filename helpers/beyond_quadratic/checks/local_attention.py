"""The check of `local_attention`."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, normal, random_case, whole
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import (
    attention,
    in_single_precision,
    power_before_division,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import sparse
from .sparse import (
    _banded,
    _gap,
    _gathered,
    _mix,
    _powers,
    _slots,
    _slots_of,
    all_pairs_scored,
    at_either_width,
    far_below,
    gathered_from_a_view,
    hidden_too_softly,
    of_another_width,
    one_maximum,
    overflowed,
    scaled_by_values,
    scores_of_all_pairs,
    second_axis_indexed,
    square_made,
    square_on_the_way_back,
    with_a_token_of_zeros,
    zeros_taken_for_empty,
)

__all__ = ["local_attention"]


def band_by_rows(q, k, v, w) -> Tensor:
    keys = torch.arange(k.shape[-2])
    return torch.cat(
        [attention(q[..., i : i + 1, :], k, v, mask=(keys - i).abs() <= w) for i in range(len(keys))], dim=-2
    )


def _wrapped(q, k, v, w, first=None, end=None) -> Tensor:
    """Windows that go on at the other end; only the slots from `first` on, or before `end`, are read."""
    keys = torch.arange(q.shape[-2])[:, None] + torch.arange(-w, w + 1)
    read = torch.ones_like(keys, dtype=torch.bool)
    if first is not None:
        read &= keys >= first
    if end is not None:
        read &= keys < end
    return _gathered(q, k, v, keys % q.shape[-2], read)


def past_the_end(q, k, v, w) -> Tensor:
    return _wrapped(q, k, v, w, first=0)


def _past_the_start(q, k, v, w) -> Tensor:
    """What a negative index reads, where it is one that Python knows."""
    return _wrapped(q, k, v, w, end=q.shape[-2])


def start_counted_from_the_end(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)
    return _gathered(q, k, v, keys.clamp(max=n - 1), keys < n)


def _between(q, k, v, first, end) -> Tensor:
    """Token i reads the keys i + first … i + end − 1; where that is none, its output is 0."""
    n = q.shape[-2]
    keys = torch.arange(n)[:, None] + torch.arange(first, end)
    return _gathered(q, k, v, keys.clamp(0, n - 1), (keys >= 0) & (keys < n))


def last_slot_missing(q, k, v, w) -> Tensor:
    return _between(q, k, v, -w, w)


def _too_narrow(seen: Observation) -> bool:
    """A mark: with w = 0 nothing is read, and the output is 0 or NaN if the function doesn't stop."""
    q, k, v, w = seen.args
    narrow = _banded(q, k, v, w - 1, w - 1).nan_to_num()
    return agree(seen.output.nan_to_num(), narrow, tolerance(seen.args))


def padding_in_the_softmax(q, k, v, w) -> Tensor:
    windows = [F.pad(x, (0, 0, w, w)).unfold(-2, 2 * w + 1, 1) for x in (k, v)]  # (…, n, d, 2w + 1)
    weights = ((q[..., None, :] @ windows[0]) / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights @ windows[1].mT).squeeze(-2)


def padding_taken_out_again(q, k, v, w) -> Tensor:
    windows = [F.pad(x, (0, 0, w, w)).unfold(-2, 2 * w + 1, 1) for x in (k, v)]
    real = F.pad(q.new_ones(q.shape[-2]), (w, w)).unfold(0, 2 * w + 1, 1)
    weights = ((q[..., None, :] @ windows[0]) / math.sqrt(q.shape[-1])).softmax(-1).squeeze(-2) * real
    return (weights / weights.sum(-1, keepdim=True))[..., None, :].matmul(windows[1].mT).squeeze(-2)


def window_moved_inside(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    start = (torch.arange(n) - w).clamp(0, max(n - 2 * w - 1, 0))[:, None]
    keys = torch.arange(n)
    return attention(q, k, v, mask=(keys >= start) & (keys <= start + 2 * w))


def ends_repeated(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    keys = (torch.arange(n)[:, None] + torch.arange(-w, w + 1)).clamp(0, n - 1)
    weights = ((k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)


def own_block_alone(q, k, v, w) -> Tensor:
    block = torch.arange(q.shape[-2]) // max(w, 1)
    return attention(q, k, v, mask=block[:, None] == block)


def ragged_block_lost(q, k, v, w) -> Tensor:
    n, size = q.shape[-2], max(w, 1)
    output = _banded(q, k, v, w, w)
    whole = (torch.arange(n) < n // size * size)[:, None]
    return output * whole


def window_scaled_by_its_size(q, k, v, w) -> Tensor:
    return _banded(q * math.sqrt(q.shape[-1] / (2 * w + 1)), k, v, w, w)


def window_masked_after_softmax(q, k, v, w) -> Tensor:
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return weights * (_gap(q.shape[-2]).abs() <= w) @ v


def window_masked_with_zeros(q, k, v, w) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1]) * (_gap(q.shape[-2]).abs() <= w)
    return scores.softmax(-1) @ v


def _window(n, w) -> tuple[Tensor, Tensor]:
    """Keys, clamped, and which slots are inside."""
    keys = torch.arange(n)[:, None] + torch.arange(-w, w + 1)
    return keys.clamp(0, n - 1), (keys >= 0) & (keys < n)


def last_token_again(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    return _gathered(q, k, v, _window(n, w)[0], torch.arange(n)[:, None] + torch.arange(-w, w + 1) >= 0)


def first_token_again(q, k, v, w) -> Tensor:
    n = q.shape[-2]
    return _gathered(q, k, v, _window(n, w)[0], torch.arange(n)[:, None] + torch.arange(-w, w + 1) < n)


def neighbour_blocks_whole(q, k, v, w) -> Tensor:
    size, n = max(w, 1), q.shape[-2]
    block, keys = torch.arange(n)[:, None] // size, torch.arange(n)
    return attention(q, k, v, mask=(keys >= block * size - w) & (keys < (block + 1) * size + w))


def band_through_a_mask(q, k, v, w) -> Tensor:
    return _gathered(q, k, v, *_slots_of(_gap(q.shape[-2]).abs() <= w, 2 * w + 1))


def window_sliced_from_the_end(q, k, v, w) -> Tensor:
    rows = [
        attention(q[..., i : i + 1, :], *(x[..., i - w : i + w + 1, :] for x in (k, v))) for i in range(q.shape[-2])
    ]
    return torch.cat(rows, dim=-2)


def band_of_powers(q, k, v, w) -> Tensor:
    keys, inside = _window(q.shape[-2], w)
    weights = _powers((k[..., keys, :] @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1]), inside)
    return (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)


def band_with_one_maximum(q, k, v, w) -> Tensor:
    keys, inside = _window(q.shape[-2], w)
    return _mix(one_maximum(_slots(q, k, keys), inside), v, keys)


def long_local(n: int, d: int, d_v: int, w: int, **sizes) -> Case:
    """A long sequence: 4w + 4 slots a token are more than any right way needs, and far fewer than n."""
    slots = n * (4 * w + 4)
    return random_case(
        f"n = {n}, w = {w}: counted, O(n w d)",
        n=n,
        d=d,
        d_v=d_v,
        w=w,
        max_flops=2 * slots * (d + d_v),
        max_elements=slots * max(d, d_v),
        **sizes,
    )


local_attention = Check(
    reference=sparse.local_attention,
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
            batch=(2,),
            n=20,
            d=3,
            d_v=4,
            w=2,
            dtype=torch.float64,
            gradient=True,
            max_backward_elements=20 * 12 * 4 * 2,
            label="n = 20, w = 2: gradients, in float64",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        of_another_width(sparse.local_attention),
        power_before_division(sparse.local_attention),
        in_single_precision(sparse.local_attention),
        written_for_one_batch_axis(sparse.local_attention),
        written_without_a_batch(sparse.local_attention),
        hidden_n_n_matrix=Wrong(
            lambda q, k, v, w: attention(q, k, v, mask=_gap(q.shape[-2]).abs() <= w), cost=scores_of_all_pairs
        ),
        keys_gathered_from_expanded_view=Wrong(
            lambda q, k, v, w: gathered_from_a_view(q, k, v, *_window(q.shape[-2], w)), cost=square_on_the_way_back
        ),
        table_all_pairs_beside_scores=Wrong(band_through_a_mask, cost=square_made),
        every_key_scored_piece_by_piece=Wrong(band_by_rows, cost=all_pairs_scored),
        window_one_token_too_narrow=Wrong(
            lambda q, k, v, w: _between(q, k, v, -w + 1, w), recognise=_too_narrow, raises="RuntimeError"
        ),
        window_one_token_too_wide=lambda q, k, v, w: _banded(q, k, v, w + 1, w + 1),
        window_that_looks_back_only=lambda q, k, v, w: _banded(q, k, v, w, 0),
        window_that_looks_ahead_only=lambda q, k, v, w: _banded(q, k, v, 0, w),
        w_neighbours_on_both_sides_together=lambda q, k, v, w: _banded(q, k, v, w // 2, w // 2),
        last_slot_window_missing=Wrong(last_slot_missing, recognise=at_either_width(last_slot_missing)),
        token_itself_left_out=lambda q, k, v, w: attention(
            q, k, v, mask=(_gap(q.shape[-2]).abs() <= w) & (_gap(q.shape[-2]) != 0)
        ),
        window_that_wraps_around=Wrong(_wrapped, recognise=at_either_width(_wrapped)),
        last_windows_go_on_at_beginning=Wrong(past_the_end, recognise=at_either_width(past_the_end)),
        first_windows_go_on_at_end=Wrong(
            start_counted_from_the_end, recognise=at_either_width(_past_the_start), raises="IndexError"
        ),
        wide_window_cut_half_text=lambda q, k, v, w: _banded(
            q, k, v, min(w, q.shape[-2] // 2), min(w, q.shape[-2] // 2)
        ),
        padding_that_takes_part_softmax=Wrong(
            padding_in_the_softmax, recognise=at_either_width(padding_in_the_softmax)
        ),
        zeros_taken_empty_slots=lambda q, k, v, w: zeros_taken_for_empty(q, k, v, *_window(q.shape[-2], w)),
        padding_taken_out_weights_after_softmax=padding_taken_out_again,
        window_moved_inside_at_ends=window_moved_inside,
        end_tokens_counted_several_times=Wrong(ends_repeated, recognise=at_either_width(ends_repeated)),
        blocks_that_dont_see_their_neighbours=own_block_alone,
        last_ragged_block_lost=ragged_block_lost,
        no_scale=lambda q, k, v, w: _banded(q * math.sqrt(q.shape[-1]), k, v, w, w),
        scaled_by_size_window=Wrong(window_scaled_by_its_size, recognise=at_either_width(window_scaled_by_its_size)),
        masked_after_softmax=window_masked_after_softmax,
        forbidden_scores_set_0=window_masked_with_zeros,
        slots_after_last_token_taken_valid=Wrong(last_token_again, recognise=at_either_width(last_token_again)),
        slots_before_first_token_taken_valid=Wrong(first_token_again, recognise=at_either_width(first_token_again)),
        whole_blocks_read_without_band=neighbour_blocks_whole,
        scaled_by_width_values=lambda q, k, v, w: _banded(scaled_by_values(q, v), k, v, w, w),
        slice_that_begins_below_0=window_sliced_from_the_end,
        finite_number_empty_slots=Wrong(
            lambda q, k, v, w: _gathered(q, k, v, *_window(q.shape[-2], w), hidden=-1e4),
            recognise=hidden_too_softly(sparse.local_attention),
        ),
        softmaxs_axis_counted_from_front=lambda q, k, v, w: _gathered(q, k, v, *_window(q.shape[-2], w), axis=1),
        one_maximum_all_rows=band_with_one_maximum,
        indexed_with_exactly_one_batch_axis=Wrong(
            lambda q, k, v, w: second_axis_indexed(q, k, v, *_window(q.shape[-2], w)), raises="IndexError RuntimeError"
        ),
        exponentials_out_range=Wrong(band_of_powers, recognise=overflowed),
    ),
)
