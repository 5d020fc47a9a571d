"""The check of `global_local`."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case, whole
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import (
    attention,
    in_single_precision,
    power_before_division,
    written_for_one_batch_axis,
    written_without_a_batch,
)
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

__all__ = ["global_local"]


def far_global(n: int, d_v: int, w: int, g: int, size: float = 20.0) -> Case:
    """For every other query the global keys score hundreds more than its window, for the rest hundreds less: the softmax needs the maximum of both."""
    signs = RandomArg(lambda _: (size * (-1.0) ** torch.arange(n))[:, None].expand(n, 4).clone())

    def keys(generator: torch.Generator) -> Tensor:
        return torch.where(torch.arange(n)[:, None] < g, size, torch.randn(n, 4, generator=generator) / 2)

    return explicit_case(
        f"n = {n}, g = {g}: scores of the global keys far above or below those of the window",
        signs,
        RandomArg(keys),
        normal(n, d_v),
        w,
        g,
    )


def _global_pairs(n, w, g) -> Tensor:
    allowed = _gap(n).abs() <= w
    allowed[:g] = allowed[:, :g] = True
    return allowed


def globals_by_rows(q, k, v, w, g) -> Tensor:
    keys = torch.arange(k.shape[-2])
    rows = [
        attention(q[..., i : i + 1, :], k, v, mask=((keys - i).abs() <= w) | (keys < g) | (i < g))
        for i in range(len(keys))
    ]
    return torch.cat(rows, dim=-2)


def globals_counted_twice(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    times = (_gap(n).abs() <= w).float()
    times[g:, :g] += 1  # in the window and in the list of global tokens
    times[:g] = 1
    return (q @ k.mT / math.sqrt(q.shape[-1]) + times.to(q).log()).softmax(-1) @ v


def globals_that_read_a_window(q, k, v, w, g) -> Tensor:
    allowed = _gap(q.shape[-2]).abs() <= w
    allowed[:, :g] = True
    return attention(q, k, v, mask=allowed)


def globals_that_nobody_reads(q, k, v, w, g) -> Tensor:
    allowed = _gap(q.shape[-2]).abs() <= w
    allowed[:g] = True
    return attention(q, k, v, mask=allowed)


def globals_without_window(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    allowed = torch.zeros(n, n, dtype=torch.bool)
    allowed[:g] = allowed[:, :g] = True
    return attention(q, k, v, mask=allowed)


def globals_at_the_end(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    allowed = _gap(n).abs() <= w
    allowed[n - g :] = allowed[:, n - g :] = True
    return attention(q, k, v, mask=allowed)


def _two_softmaxes(q, k, v, w, g) -> tuple[Tensor, Tensor]:
    """Global keys and window keys, each with a softmax of its own, as two outputs."""
    n = q.shape[-2]
    near, far = _gap(n).abs() <= w, torch.arange(n).expand(n, n) < g
    return attention(
        q, k, v, mask=near & ~far | (torch.arange(n) >= g)[:, None] & torch.eye(n, dtype=torch.bool)
    ), attention(q, k, v, mask=far)


def two_softmaxes_averaged(q, k, v, w, g) -> Tensor:
    if not g:
        return _banded(q, k, v, w, w)
    near, far = _two_softmaxes(q, k, v, w, g)
    return torch.cat(
        [attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g))[..., :g, :], ((near + far) / 2)[..., g:, :]], dim=-2
    )


def two_softmaxes_added(q, k, v, w, g) -> Tensor:
    if not g:
        return _banded(q, k, v, w, w)
    near, far = _two_softmaxes(q, k, v, w, g)
    return torch.cat(
        [attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g))[..., :g, :], (near + far)[..., g:, :]], dim=-2
    )


def two_softmaxes_with_the_globals_twice(q, k, v, w, g) -> Tensor:
    if not g:
        return _banded(q, k, v, w, w)
    near, far = _banded(q, k, v, w, w), attention(q, k[..., :g, :], v[..., :g, :])
    return torch.cat([attention(q[..., :g, :], k, v), ((near + far) / 2)[..., g:, :]], dim=-2)


def globals_joined(q, k, v, w, g, *, first: float = 1.0, rest: float = 1.0) -> Tensor:
    """Right, but for what the queries of the first g rows and of the rest are multiplied with."""
    first, rest = (attention(q * factor, k, v, mask=_global_pairs(q.shape[-2], w, g)) for factor in (first, rest))
    return torch.cat([first[..., :g, :], rest[..., g:, :]], dim=-2)


def window_row_wins(q, k, v, w, g) -> Tensor:
    allowed = _global_pairs(q.shape[-2], w, g)
    allowed[:g, g:] &= _gap(q.shape[-2])[:g, g:].abs() <= w
    allowed[g:, :g] &= _gap(q.shape[-2])[g:, :g].abs() <= w
    return attention(q, k, v, mask=allowed)


def _weighed(q, k, v, times) -> Tensor:
    """Attention in which query i counts key j `times[i, j]` times."""
    return (q @ k.mT / math.sqrt(q.shape[-1]) + times.to(q).log()).softmax(-1) @ v


def first_ordinary_token_lost(q, k, v, w, g) -> Tensor:
    allowed = _global_pairs(q.shape[-2], w, g)
    allowed[g:, g : g + 1] = False
    return attention(q, k, v, mask=allowed)


def left_edge_twice(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    times = _global_pairs(n, w, g).float()
    twice = _gap(n) == w
    twice[:g] = twice[:, g:] = False
    return _weighed(q, k, v, times + twice)


def windows_too_far_left(q, k, v, w, g) -> Tensor:
    allowed = (_gap(q.shape[-2]) - g).abs() <= w
    allowed[:g] = allowed[:, :g] = True
    return attention(q, k, v, mask=allowed)


def rest_counted_from_the_back(q, k, v, w, g) -> Tensor:
    right = attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g))
    return torch.cat([right, right], dim=-2) if g == q.shape[-2] else right


def _rest(n, w, g) -> tuple[Tensor, Tensor]:
    """Keys and valid slots of the tokens from g on: the global keys, then the window without them."""
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    keys = torch.cat([torch.arange(g).expand(n - g, g), window.clamp(0, n - 1)], dim=1)
    return keys, torch.cat([torch.ones(n - g, g, dtype=torch.bool), (window >= g) & (window < n)], dim=1)


def globals_through_a_mask(q, k, v, w, g) -> Tensor:
    slots = _slots_of(_global_pairs(q.shape[-2], w, g)[g:], g + 2 * w + 1)
    return torch.cat([attention(q[..., :g, :], k, v), _gathered(q[..., g:, :], k, v, *slots)], dim=-2)


def _joined_with(rest: Callable, q, k, v, w, g) -> Tensor:
    """The rows of the global tokens, right, and the others as `rest` of (q, k, v, keys, valid) makes them."""
    others = rest(q[..., g:, :], k, v, *_rest(q.shape[-2], w, g))
    return torch.cat([attention(q[..., :g, :], k, v), others], dim=-2)


def globals_hidden_softly(q, k, v, w, g) -> Tensor:
    rest = _gathered(q[..., g:, :], k, v, *_rest(q.shape[-2], w, g), hidden=-100.0)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def globals_over_axis_1(q, k, v, w, g) -> Tensor:
    rest = _gathered(q[..., g:, :], k, v, *_rest(q.shape[-2], w, g), axis=1)
    return torch.cat([attention(q[..., :g, :], k, v, axis=1), rest], dim=-2)


def globals_with_one_maximum(q, k, v, w, g) -> Tensor:
    keys, valid = _rest(q.shape[-2], w, g)
    first, rest = _slots(q[..., :g, :], k, torch.arange(k.shape[-2]).expand(g, -1)), _slots(q[..., g:, :], k, keys)
    parts = [one_maximum(first) @ v] if g else []
    return torch.cat([*parts, _mix(one_maximum(rest, valid), v, keys)] if g < q.shape[-2] else parts, dim=-2)


def maximum_of_one_part(q, k, v, w, g, part: Callable[[int], slice]) -> Tensor:
    """part: which slots of a row the maximum is taken of."""
    keys, valid = _rest(q.shape[-2], w, g)
    scores = _slots(q[..., g:, :], k, keys).masked_fill(~valid, -math.inf)
    top = scores[..., part(g)].amax(-1, keepdim=True) if g else 0
    rest = _mix(_powers(scores - top, True), v, keys)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def maximum_of_each_part(q, k, v, w, g) -> Tensor:
    keys, valid = _rest(q.shape[-2], w, g)
    scores = _slots(q[..., g:, :], k, keys).masked_fill(~valid, -math.inf)
    parts = [part - part.amax(-1, keepdim=True) for part in (scores[..., :g], scores[..., g:]) if part.shape[-1]]
    rest = _mix(_powers(torch.cat(parts, dim=-1), True), v, keys)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def last_windows_from_the_beginning(q, k, v, w, g) -> Tensor:
    n = q.shape[-2]
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    keys = torch.cat([torch.arange(g).expand(n - g, g), window % n], dim=1)
    valid = torch.cat([torch.ones(n - g, g, dtype=torch.bool), window >= g], dim=1)
    return torch.cat([attention(q[..., :g, :], k, v), _gathered(q[..., g:, :], k, v, keys, valid)], dim=-2)


def clamped_before_asked(q, k, v, w, g, least: int = 0) -> Tensor:
    """least: the smallest number in the table of which is asked whether it is g or more."""
    n, (keys, valid) = q.shape[-2], _rest(q.shape[-2], w, g)
    window = torch.arange(g, n)[:, None] + torch.arange(-w, w + 1)
    valid[:, g:] = window.clamp(min=least) >= g
    return torch.cat([attention(q[..., :g, :], k, v), _gathered(q[..., g:, :], k, v, keys, valid)], dim=-2)


def end_clamped_before_asked(q, k, v, w, g) -> Tensor:
    return clamped_before_asked(q, k, v, w, g, least=-w)


def no_rows_left_counted_from_the_back(q, k, v, w, g) -> Tensor:
    keys, valid = _rest(q.shape[-2], w, g)
    scores = (q[..., -(q.shape[-2] - g) :, None, :] @ k[..., keys, :].mT).squeeze(-2) / math.sqrt(q.shape[-1])
    rest = _mix(scores.masked_fill(~valid, -math.inf).softmax(-1), v, keys)
    return torch.cat([attention(q[..., :g, :], k, v), rest], dim=-2)


def global_powers(q, k, v, w, g) -> Tensor:
    scale, (keys, valid) = math.sqrt(q.shape[-1]), _rest(q.shape[-2], w, g)
    weights = _powers((k[..., keys, :] @ q[..., g:, :, None]).squeeze(-1) / scale, valid)
    rest = (weights[..., None, :] @ v[..., keys, :]).squeeze(-2)
    return torch.cat([_powers(q[..., :g, :] @ k.mT / scale, True) @ v, rest], dim=-2)


def long_global(n: int, d: int, d_v: int, w: int, g: int) -> Case:
    slots = n * (4 * w + 4 + g) + 2 * g * n
    return random_case(
        f"n = {n}, w = {w}, g = {g}: counted, O(n (w + g) d)",
        n=n,
        d=d,
        d_v=d_v,
        w=w,
        g=g,
        max_flops=2 * slots * (d + d_v),
        max_elements=slots * max(d, d_v),
    )


global_local = Check(
    exercise="global_local",
    reference=sparse.global_local_attention,
    cases=[
        random_case(
            n=9, d=4, d_v=3, w=1, g=3
        ),  # n = 9 comes with other w for the same g and with other g for the same w: a table kept is found
        random_case(batch=(2, 3), n=11, d=3, d_v=5, w=2, g=1, dtype=torch.float64),
        random_case(n=10, d=5, d_v=2, w=2, g=3, scale=2.5, label="n = 10, w = 2, g = 3, large scores"),
        long_global(400, 4, 3, 3, 2),
        long_global(300, 3, 5, 2, 4),
        with_a_token_of_zeros(random_case(n=9, d=4, d_v=3, w=2, g=3, label="n = 9 again, now with w = 2")),
        random_case(n=7, d=3, d_v=4, w=2, g=0, label="g = 0: only the window"),
        random_case(n=5, d=4, d_v=3, w=1, g=5, label="g = n: all tokens global, no other rows"),
        random_case(n=7, d=3, d_v=4, w=9, g=1, label="a window wider than the sequence"),
        explicit_case("scores of several hundred", whole(9, 4), whole(9, 4), normal(9, 3), 2, 1),
        explicit_case("scores near −30,000, in float64", *far_below(8, 8, 3), 2, 1),
        far_global(9, 3, 2, 2),
        random_case(
            batch=(2,),
            n=20,
            d=3,
            d_v=4,
            w=1,
            g=2,
            dtype=torch.float64,
            gradient=True,
            max_backward_elements=20 * 14 * 4 * 2,
            label="n = 20, w = 1, g = 2: gradients, in float64",
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        of_another_width(sparse.global_local_attention),
        power_before_division(sparse.global_local_attention),
        in_single_precision(sparse.global_local_attention),
        written_for_one_batch_axis(sparse.global_local_attention),
        written_without_a_batch(sparse.global_local_attention),
        hidden_n_n_matrix=Wrong(
            lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g)), cost=scores_of_all_pairs
        ),
        keys_gathered_from_expanded_view=Wrong(
            lambda q, k, v, w, g: _joined_with(gathered_from_a_view, q, k, v, w, g), cost=square_on_the_way_back
        ),
        table_all_pairs_beside_scores=Wrong(globals_through_a_mask, cost=square_made),
        every_key_scored_piece_by_piece=Wrong(globals_by_rows, cost=all_pairs_scored),
        global_tokens_counted_twice=globals_counted_twice,
        global_tokens_that_dont_read_everything=globals_that_read_a_window,
        global_tokens_that_not_read_by_all=globals_that_nobody_reads,
        only_window=lambda q, k, v, w, g: _banded(q, k, v, w, w),
        only_global_tokens=globals_without_window,
        two_softmaxes_averaged=two_softmaxes_averaged,
        two_softmaxes_averaged_with_global_keys=two_softmaxes_with_the_globals_twice,
        two_softmaxes_added=two_softmaxes_added,
        last_tokens_global_instead_first=globals_at_the_end,
        one_global_token_whatever_g=lambda q, k, v, w, g: attention(
            q, k, v, mask=_global_pairs(q.shape[-2], w, min(g, 1))
        ),
        one_global_token_too_many=lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w, g + 1)),
        global_tokens_that_see_only_each_other=window_row_wins,
        window_one_token_too_narrow=lambda q, k, v, w, g: attention(q, k, v, mask=_global_pairs(q.shape[-2], w - 1, g)),
        no_scale=lambda q, k, v, w, g: attention(
            q * math.sqrt(q.shape[-1]), k, v, mask=_global_pairs(q.shape[-2], w, g)
        ),
        no_scale_global_rows=lambda q, k, v, w, g: globals_joined(q, k, v, w, g, first=math.sqrt(q.shape[-1])),
        no_scale_rows_that_arent_global=lambda q, k, v, w, g: globals_joined(
            q, k, v, w, g, rest=math.sqrt(q.shape[-1])
        ),
        finite_number_empty_slots=Wrong(
            globals_hidden_softly, recognise=hidden_too_softly(sparse.global_local_attention)
        ),
        zeros_taken_empty_slots=lambda q, k, v, w, g: _joined_with(zeros_taken_for_empty, q, k, v, w, g),
        token_g_missing_from_windows=first_ordinary_token_lost,
        global_token_at_windows_left_edge=left_edge_twice,
        windows_g_places_too_far_left=windows_too_far_left,
        other_rows_counted_from_back=rest_counted_from_the_back,
        scaled_by_width_values=lambda q, k, v, w, g: attention(
            scaled_by_values(q, v), k, v, mask=_global_pairs(q.shape[-2], w, g)
        ),
        other_rows_counted_from_back_stopping=Wrong(no_rows_left_counted_from_the_back, raises="RuntimeError"),
        last_windows_go_on_at_beginning=Wrong(
            last_windows_from_the_beginning, recognise=at_either_width(last_windows_from_the_beginning)
        ),
        slots_beyond_ends_taken_valid=Wrong(
            clamped_before_asked,
            recognise=lambda seen: (
                at_either_width(clamped_before_asked)(seen) or at_either_width(end_clamped_before_asked)(seen)
            ),
        ),
        wide_window_cut_half_text=lambda q, k, v, w, g: attention(
            q, k, v, mask=_global_pairs(q.shape[-2], min(w, q.shape[-2] // 2), g)
        ),
        softmaxs_axis_counted_from_front=globals_over_axis_1,
        maximum_window_only=lambda q, k, v, w, g: maximum_of_one_part(q, k, v, w, g, lambda g: slice(g, None)),
        maximum_global_keys_only=lambda q, k, v, w, g: maximum_of_one_part(q, k, v, w, g, lambda g: slice(g)),
        maximum_own_each_part=maximum_of_each_part,
        one_maximum_all_rows=globals_with_one_maximum,
        indexed_with_exactly_one_batch_axis=Wrong(
            lambda q, k, v, w, g: _joined_with(second_axis_indexed, q, k, v, w, g), raises="IndexError RuntimeError"
        ),
        exponentials_out_range=Wrong(global_powers, recognise=overflowed),
    ),
)
