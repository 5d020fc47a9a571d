"""The check of `strided_sparse`."""

import math

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal, random_case, whole
from helpers.engine.check import Check, CheckGroup, Property
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
    _gathered,
    _mix,
    _powers,
    _slots,
    _slots_of,
    all_pairs_scored,
    far_below,
    gathered_from_a_view,
    hidden_too_softly,
    one_maximum,
    overflowed,
    scaled_by_values,
    scores_of_all_pairs,
    square_made,
    square_on_the_way_back,
    with_a_token_of_zeros,
    zeros_taken_for_empty,
)

__all__ = ["strided_sparse"]


def _lists(output) -> list[list[int]]:
    return [[int(j) for j in row] for row in output]


def _well_formed(output, n) -> bool:
    rows = _lists(output)
    return len(rows) == n and all(len(row) == len(set(row)) and all(0 <= j < n for j in row) for row in rows)


def _most_keys(output) -> int:
    return max(map(len, output))


def _ceil_sqrt(n: int) -> int:
    return math.isqrt(n - 1) + 1


def _bad_list(output, n: int) -> str:
    """The first list that is none, in words."""
    rows = _lists(output)
    if len(rows) != n:
        return f"The number of lists is {len(rows)}, and n is {n}."
    for i, row in enumerate(rows):
        for j in row:
            if row.count(j) > 1 or not 0 <= j < n:
                return f"List {i} holds {j}{' twice' if 0 <= j < n else ''}."
    return ""


def _longest(output, n: int) -> str:
    """The token that reads most keys, in words."""
    most = _most_keys(output)
    i = next(i for i, row in enumerate(output) if len(row) == most)
    return f"Token {i} reads {most} keys; {3 * _ceil_sqrt(n)} are allowed."


def _without_itself(output, n: int) -> str:
    """A token that doesn't read itself, in words."""
    i, row = next((i, row) for i, row in enumerate(output) if i not in _lists(output)[i])
    return f"Here i = {i}: token {i} reads {_listed(row)}."


def _far_apart(output, n: int) -> str:
    """Two tokens that two layers don't connect, in words."""
    i, j = (~_reach(output, n)).nonzero()[0].tolist()
    return f"Here i = {i} and j = {j}: token {i} reads {_listed(output[i])}, and none of these reads {j}."


def _listed(row) -> str:
    row = [int(j) for j in row]
    return ", ".join(map(str, row)) if len(row) <= 12 else f"{', '.join(map(str, row[:10]))}, …"


def _reach(output, n: int) -> torch.Tensor:
    one = sparse.as_mask([[j for j in row if 0 <= j < n] for row in _lists(output)]).float()
    return one @ one > 0


def strided_window_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) < step] for i in range(n)]


def strided_column_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if (i - j) % step == 0] for i in range(n)]


def one_hub(n) -> list[list[int]]:
    return [list(range(n))] + [sorted({0, *range(max(i - 1, 0), min(i + 2, n))}) for i in range(1, n)]


def half_a_window(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) <= step // 2 or (i - j) % step == 0] for i in range(n)]


def window_behind(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if 0 <= i - j < step or (i - j) % step == 0] for i in range(n)]


def ends_of_whole_blocks(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [
        sorted({*range(i // step * step, min(i // step * step + step, n)), *range(step - 1, n, step)}) for i in range(n)
    ]


def fixed_stride(n) -> list[list[int]]:
    return [[j for j in range(n) if abs(i - j) < 4 or (i - j) % 4 == 0] for i in range(n)]


def listed_twice(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) < step] + [j for j in range(n) if (i - j) % step == 0] for i in range(n)]


def beyond_the_ends(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [sorted({*range(i - step + 1, i + step), *range(i % step, n, step)}) for i in range(n)]


def column_backwards_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [[j for j in range(n) if abs(i - j) < step or (j < i and (i - j) % step == 0)] for i in range(n)]


def whole_strides_only(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [
        sorted({*range(max(i - step + 1, 0), min(i + step, n)), *range(i % step, n // step * step, step)})
        for i in range(n)
    ]


def hubs_with_half_a_window(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    return [sorted({*range(0, n, step), *range(max(i - step // 2, 0), min(i + step // 2 + 1, n))}) for i in range(n)]


def window_of(n, left: int, right: int) -> list[list[int]]:
    """The pattern with a window from i − left to i + right, both included."""
    step = math.isqrt(n - 1) + 1
    return [sorted({*range(max(i - left, 0), min(i + right + 1, n)), *range(i % step, n, step)}) for i in range(n)]


def root_rounded_down_and_squared(n) -> list[list[int]]:
    step = math.isqrt(n)
    return [
        sorted({*range(max(i - step + 1, 0), min(i + step, n)), *range(i % step, step * step, step)}) for i in range(n)
    ]


def blocks_with_leaders(n) -> list[list[int]]:
    step = math.isqrt(n - 1) + 1
    own = [set(range(i // step * step, min(i // step * step + step, n))) for i in range(n)]
    return [sorted(keys | (set(range(0, n, step)) if i % step == 0 else set())) for i, keys in enumerate(own)]


def without_itself(n) -> list[list[int]]:
    return [[j for j in row if j != i] for i, row in enumerate(sparse.strided_keys(n))]


def _twice(seen) -> bool:
    return any(len(row) != len(set(row)) for row in _lists(seen.output))


def _outside(seen) -> bool:
    rows, (n, *_) = _lists(seen.output), seen.args
    return len(rows) == n and any(not 0 <= j < n for row in rows for j in row)


strided_keys = Check(
    reference=sparse.strided_keys,
    cases=[
        random_case("n = 16", n=16),
        random_case("n = 30: not a square number", n=30),
        random_case("n = 31: a ragged end", n=31),
        random_case("n = 150", n=150),
        random_case("n = 1: one token", n=1),
        random_case("n = 2", n=2),
        random_case("n = 90", n=90),
    ],
    compare=False,
    properties=[
        Property(
            "n lists of different keys, each from 0 … n − 1",
            _well_formed,
            "Each of the n lists holds different numbers from 0 … n − 1.",
            _bad_list,
        ),
        Property(
            "every token reads itself",
            lambda rows, n: all(i in _lists(rows)[i] for i in range(n)),
            "Token i must be in list i.",
            _without_itself,
        ),
        Property(
            "no token reads more than 3⌈√n⌉ keys",
            lambda rows, n: _most_keys(rows) <= 3 * _ceil_sqrt(n),
            "Some token reads more than 3⌈√n⌉ keys.",
            _longest,
        ),
        Property(
            "two layers connect every pair",
            lambda rows, n: bool(_reach(rows, n).all()),
            "There are tokens i and j with no token between them that i reads and that reads j.",
            _far_apart,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        only_window=strided_window_only,
        only_stride=strided_column_only,
        everything_through_one_hub=Wrong(
            one_hub,
            recognise=lambda seen: (
                _most_keys(seen.output) == seen.args[0] and sum(map(len, seen.output)) < 8 * seen.args[0]
            ),
        ),
        all_pairs=Wrong(
            lambda n: [list(range(n)) for _ in range(n)],
            recognise=lambda seen: min(map(len, seen.output)) == seen.args[0],
        ),
        half_window=half_a_window,
        window_that_looks_back_only=window_behind,
        last_short_block_lost=ends_of_whole_blocks,
        stride_that_doesnt_grow_with_n=fixed_stride,
        column_that_looks_back_only=column_backwards_only,
        keys_listed_twice=Wrong(listed_twice, recognise=_twice),
        keys_beyond_ends=Wrong(beyond_the_ends, recognise=_outside),
        column_that_ends_with_last_whole_stride=whole_strides_only,
        window_one_token_short_on_right=lambda n: window_of(n, math.isqrt(n - 1), math.isqrt(n - 1) - 1),
        window_one_token_short_on_left=lambda n: window_of(n, math.isqrt(n - 1) - 1, math.isqrt(n - 1)),
        window_one_token_short_on_both_sides=lambda n: window_of(n, math.isqrt(n - 1) - 1, math.isqrt(n - 1) - 1),
        column_up_square_rounded_root=root_rounded_down_and_squared,
        blocks_that_meet_through_their_first=blocks_with_leaders,
        hubs_with_half_window=hubs_with_half_a_window,
        token_itself_left_out=without_itself,
    ),
)


def _table_mask(k, keys, allowed) -> Tensor:
    mask = torch.zeros(len(keys), k.shape[-2], dtype=torch.bool)
    for i, row in enumerate(keys):
        mask[i, row[allowed[i]]] = True
    return mask


def table_through_a_mask(q, k, v, keys, allowed) -> Tensor:
    return _gathered(q, k, v, *_slots_of(_table_mask(k, keys, allowed), keys.shape[1]))


def table_by_rows(q, k, v, keys, allowed) -> Tensor:
    places = torch.arange(k.shape[-2])
    masks = [(places[:, None] == row[taken]).any(-1) for row, taken in zip(keys, allowed)]
    return torch.cat([attention(q[..., i : i + 1, :], k, v, mask=mask) for i, mask in enumerate(masks)], dim=-2)


def slots_masked_late(q, k, v, keys, allowed) -> Tensor:
    return _mix(_slots(q, k, keys).softmax(-1) * allowed, v, keys)


def slots_divided_again(q, k, v, keys, allowed) -> Tensor:
    weights = _slots(q, k, keys).softmax(-1) * allowed
    return _mix(weights / weights.sum(-1, keepdim=True), v, keys)


def table_for_one_batch_axis(q, k, v, keys, allowed) -> Tensor:
    """The first axis is taken for the batch, whatever it is."""
    rows = [_rows_of_one(q_b, k_b[keys], v_b[keys], allowed) for q_b, k_b, v_b in zip(q, k, v)]
    return torch.stack(rows)


def _rows_of_one(q, k, v, allowed) -> Tensor:
    scores = (k @ q[..., None]).squeeze(-1) / math.sqrt(q.shape[-1])
    return (scores.masked_fill(~allowed, -math.inf).softmax(-1)[..., None, :] @ v).squeeze(-2)


def emptied_by_another_slot(q, k, v, keys, allowed) -> Tensor:
    """A key is taken out where a slot that isn't allowed holds it too, as `mask.scatter_(1, keys, allowed)` may do."""
    named = ((keys[:, :, None] == keys[:, None]) & ~allowed[:, None]).any(-1)
    return _mix(_slots(q, k, keys).masked_fill(~allowed | named, -math.inf).softmax(-1), v, keys)


def first_slot_read(q, k, v, keys, allowed) -> Tensor:
    taken = allowed | (torch.arange(keys.shape[1]) == 0)
    return _mix(_slots(q, k, keys).masked_fill(~taken, -math.inf).softmax(-1), v, keys)


def values_in_order(q, k, v, keys, allowed) -> Tensor:
    weights = _slots(q, k, keys).masked_fill(~allowed, -math.inf).softmax(-1)
    return weights @ v[..., : keys.shape[1], :]


def keys_in_order(q, k, v, keys, allowed) -> Tensor:
    scores = q @ k[..., : keys.shape[1], :].mT / math.sqrt(q.shape[-1])
    return _mix(scores.masked_fill(~allowed, -math.inf).softmax(-1), v, keys)


def table_of_the_first_query(q, k, v, keys, allowed) -> Tensor:
    first = keys[:1].expand(keys.shape)
    return _mix(_slots(q, k, first).masked_fill(~allowed, -math.inf).softmax(-1), v, first)


def _table(n: int, m: int, c: int) -> tuple[RandomArg, RandomArg]:
    """c slots for each of n queries. The first key stands in the last slot once more, and one of these two slots is allowed, either one; each
    other is allowed more often than not."""

    def keys(generator) -> Tensor:
        table = torch.stack([torch.randperm(m, generator=generator)[:c] for _ in range(n)])
        table[:, -1] = table[:, 0]
        return table

    def allowed(generator) -> Tensor:
        table = torch.rand(n, c, generator=generator) < 0.6
        table[:, 0] |= c == 1
        table[:, 1:][:, -1:] = ~table[:, :1]
        return table

    return RandomArg(keys), RandomArg(allowed)


def listed_keys(
    n: int, m: int, c: int, d: int, d_v: int, batch: tuple = (), scale: float = 1.0, label: str = "", **limits: int
) -> Case:
    words = label or f"n = {n}, m = {m}, c = {c}" + (f", batch = {'×'.join(map(str, batch))}" if batch else "")
    return explicit_case(
        words,
        normal(*batch, n, d, scale=scale),
        normal(*batch, m, d, scale=scale),
        normal(*batch, m, d_v),
        *_table(n, m, c),
        **limits,
    )


def _half_of_them_long(generator: Generator) -> Tensor:
    """Queries (20, 4). Beside a long one a key in an empty slot may score a thousand more than all that are allowed."""
    queries = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    queries[10:] *= 4000
    return queries


gathered_attention = Check(
    reference=sparse.gathered_attention,
    cases=[
        listed_keys(5, 9, 4, 3, 2),
        as_float64(listed_keys(6, 8, 3, 4, 5, batch=(2, 3))),
        listed_keys(4, 7, 5, 6, 3, scale=2.0, label="large scores"),
        listed_keys(
            300,
            350,
            8,
            4,
            3,
            label="n = 300, m = 350, c = 8: counted, O(n c d)",
            max_flops=2 * 2 * 300 * 8 * 7,
            max_elements=2 * 300 * 8 * 4,
        ),
        with_a_token_of_zeros(listed_keys(8, 5, 3, 4, 2, label="more queries than keys")),
        listed_keys(4, 7, 1, 3, 2, label="one slot for each query"),
        explicit_case(
            "scores of a thousand and more",
            whole(24, 4, most=40),
            whole(8, 4, most=40),
            normal(8, 3),
            *_table(24, 8, 4),
        ),
        explicit_case("scores near −30,000, in float64", *far_below(7, 8, 3), *_table(7, 8, 5)),
        explicit_case(
            "n = 20, m = 40, c = 3: gradients, in float64, half of the queries thousands long",
            RandomArg(_half_of_them_long),
            *(normal(*shape, dtype=torch.float64) for shape in ((40, 4), (40, 3))),
            *_table(20, 40, 3),
            gradient=True,
            max_backward_elements=2 * 20 * 3 * 4,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(sparse.gathered_attention),
        in_single_precision(sparse.gathered_attention),
        written_for_one_batch_axis(sparse.gathered_attention),
        written_without_a_batch(sparse.gathered_attention),
        hidden_n_m_matrix=Wrong(
            lambda q, k, v, keys, allowed: attention(q, k, v, mask=_table_mask(k, keys, allowed)),
            cost=scores_of_all_pairs,
        ),
        keys_gathered_from_expanded_view=Wrong(gathered_from_a_view, cost=square_on_the_way_back),
        table_all_pairs_beside_scores=Wrong(table_through_a_mask, cost=square_made),
        every_key_scored_piece_by_piece=Wrong(table_by_rows, cost=all_pairs_scored),
        empty_slots_that_take_part=lambda q, k, v, keys, allowed: _mix(_slots(q, k, keys).softmax(-1), v, keys),
        empty_slots_with_score_0=lambda q, k, v, keys, allowed: _mix(
            (_slots(q, k, keys) * allowed).softmax(-1), v, keys
        ),
        zeros_taken_empty_slots=zeros_taken_for_empty,
        empty_slot_that_takes_away_key=emptied_by_another_slot,
        first_slot_read_allowed_or_not=first_slot_read,
        masked_after_softmax=slots_masked_late,
        mask_turned_round=lambda q, k, v, keys, allowed: _mix(
            _slots(q, k, keys).masked_fill(allowed, -math.inf).softmax(-1), v, keys
        ),
        values_taken_order=values_in_order,
        keys_taken_order=keys_in_order,
        first_querys_keys_all=table_of_the_first_query,
        softmax_over_queries=lambda q, k, v, keys, allowed: _mix(
            _slots(q, k, keys).masked_fill(~allowed, -math.inf).softmax(-2), v, keys
        ),
        no_scale=lambda q, k, v, keys, allowed: _mix(
            (_slots(q, k, keys) * math.sqrt(q.shape[-1])).masked_fill(~allowed, -math.inf).softmax(-1), v, keys
        ),
        keys_clamped_number_queries=lambda q, k, v, keys, allowed: sparse.gathered_attention(
            q, k, v, keys.clamp(0, q.shape[-2] - 1), allowed
        ),
        allowed_slots_expected_first=lambda q, k, v, keys, allowed: sparse.gathered_attention(
            q, k, v, keys, allowed.sort(dim=-1, descending=True).values
        ),
        scaled_by_width_values=lambda q, k, v, keys, allowed: sparse.gathered_attention(
            scaled_by_values(q, v), k, v, keys, allowed
        ),
        finite_number_empty_slots=Wrong(
            lambda q, k, v, keys, allowed: _gathered(q, k, v, keys, allowed, hidden=-1e4),
            recognise=hidden_too_softly(sparse.gathered_attention),
        ),
        masked_after_softmax_then_divided_again=slots_divided_again,
        softmaxs_axis_counted_from_front=lambda q, k, v, keys, allowed: _gathered(q, k, v, keys, allowed, axis=1),
        one_maximum_all_rows=lambda q, k, v, keys, allowed: _mix(one_maximum(_slots(q, k, keys), allowed), v, keys),
        exponentials_out_range=Wrong(
            lambda q, k, v, keys, allowed: _mix(_powers(_slots(q, k, keys), allowed), v, keys), recognise=overflowed
        ),
        indexed_with_exactly_one_batch_axis=Wrong(table_for_one_batch_axis, raises="IndexError"),
    ),
)

strided_sparse = CheckGroup("strided_sparse", strided_keys, gathered_attention)
