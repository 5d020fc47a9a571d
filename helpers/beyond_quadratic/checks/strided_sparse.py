"""strided_sparse: a list of few keys for each token, by which two layers connect all pairs; attention over lists."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import power_before_division
from helpers.engine.answers.mask import Mask
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal, random_case, whole
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import sparse
from .sparse import (
    Gathered,
    Slots,
    all_pairs_scored,
    attend_to,
    far_below,
    gathered,
    hidden_too_softly,
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

__all__ = ["strided_sparse"]

reference = sparse.gathered_attention


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


def read_if(reads: Callable, stride: Callable = _ceil_sqrt) -> Callable:
    """reads: (i, j, s) → whether token i reads token j, where s is the stride of n."""
    return lambda n: [[j for j in range(n) if reads(i, j, stride(n))] for i in range(n)]


def in_window(i: int, j: int, s: int) -> bool:
    return abs(i - j) < s


def in_column(i: int, j: int, s: int) -> bool:
    return (i - j) % s == 0


def up_to_last_whole_stride(n) -> list[list[int]]:
    return read_if(lambda i, j, s: in_window(i, j, s) or (in_column(i, j, s) and j < n // s * s))(n)


def listed_twice(n) -> list[list[int]]:
    return [one + other for one, other in zip(read_if(in_window)(n), read_if(in_column)(n), strict=True)]


def beyond_the_ends(n) -> list[list[int]]:
    s = _ceil_sqrt(n)
    return [sorted({*range(i - s + 1, i + s), *range(i % s, n, s)}) for i in range(n)]


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
        only_window=read_if(in_window),
        only_stride=read_if(in_column),
        one_hub=Wrong(
            read_if(lambda i, j, s: i == 0 or j == 0 or abs(i - j) <= 1),
            recognise=lambda seen: (
                _most_keys(seen.output) == seen.args[0] and sum(map(len, seen.output)) < 8 * seen.args[0]
            ),
        ),
        every_key=Wrong(
            read_if(lambda i, j, s: True), recognise=lambda seen: min(map(len, seen.output)) == seen.args[0]
        ),
        half_window=read_if(lambda i, j, s: abs(i - j) <= s // 2 or in_column(i, j, s)),
        window_back_only=read_if(lambda i, j, s: 0 <= i - j < s or in_column(i, j, s)),
        last_block_lost=read_if(lambda i, j, s: i // s == j // s or j % s == s - 1),
        fixed_stride=read_if(lambda i, j, s: abs(i - j) < 4 or (i - j) % 4 == 0),
        column_back_only=read_if(lambda i, j, s: in_window(i, j, s) or (j < i and in_column(i, j, s))),
        listed_twice=Wrong(listed_twice, recognise=_twice),
        beyond_the_ends=Wrong(beyond_the_ends, recognise=_outside),
        up_to_last_whole_stride=up_to_last_whole_stride,
        short_on_right=read_if(lambda i, j, s: -s < j - i < s - 1 or in_column(i, j, s)),
        short_on_left=read_if(lambda i, j, s: -s < i - j < s - 1 or in_column(i, j, s)),
        short_on_both_sides=read_if(lambda i, j, s: in_window(i, j, s - 1) or in_column(i, j, s)),
        up_to_rounded_square=read_if(
            lambda i, j, s: in_window(i, j, s) or (in_column(i, j, s) and j < s * s), stride=math.isqrt
        ),
        blocks_meet_in_first=read_if(lambda i, j, s: i // s == j // s or i % s == j % s == 0),
        hubs_with_half_window=read_if(lambda i, j, s: j % s == 0 or abs(i - j) <= s // 2),
        itself_left_out=read_if(lambda i, j, s: i != j and (in_window(i, j, s) or in_column(i, j, s))),
    ),
)


def _as_given(n: int, keys: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    return keys, allowed


@composable
def listed(read: Callable = _as_given, **changed: Callable) -> Callable:
    return gathered(read, **changed)


def in_list(i: int, j: Tensor, keys: Tensor, allowed: Tensor) -> Tensor:
    return (j[:, None] == keys[i][allowed[i]]).any(-1)


def in_lists(i: Tensor, j: Tensor, keys: Tensor, allowed: Tensor) -> Tensor:
    return torch.zeros(len(i), len(j)).scatter_add(1, keys, allowed.float()) > 0


def through_a_mask(q, k, v, keys, allowed) -> Tensor:
    mask = in_lists(torch.arange(q.shape[-2]), torch.arange(k.shape[-2]), keys, allowed)
    return attend_to(Gathered(), q, k, v, *slots_of(mask, keys.shape[1]))


def weights_taken_out(hidden, allowed, scores) -> Tensor:
    weights = scores.softmax(-1) * allowed
    return weights / weights.sum(-1, keepdim=True)


def first_axis_is_the_batch(q, k, v, keys, allowed) -> Tensor:
    steps = Gathered(keys_of=lambda k, table: k[table], values_of=lambda v, table: v[table])
    return torch.stack([attend_to(steps, *one, keys, allowed) for one in zip(q, k, v, strict=True)])


def emptied_by_another_slot(n, keys, allowed) -> tuple[Tensor, Tensor]:
    """A key is taken out where a slot that isn't allowed holds it too, as `mask.scatter_(1, keys, allowed)` may do."""
    named = ((keys[:, :, None] == keys[:, None]) & ~allowed[:, None]).any(-1)
    return keys, allowed & ~named


def in_order(x: Tensor, keys: Tensor) -> Tensor:
    return x[..., None, : keys.shape[1], :]


def _table(n: int, m: int, c: int) -> tuple[RandomArg, RandomArg]:
    """c slots for each of n queries. The first key stands in the last slot once more, and one of these two slots is
    allowed, either one; each other is allowed more often than not."""

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
    q, k = (normal(*batch, size, d, scale=scale) for size in (n, m))
    return explicit_case(words, q, k, normal(*batch, m, d_v), *_table(n, m, c), **limits)


def _half_of_them_long(generator: Generator) -> Tensor:
    """Queries (20, 4). Beside a long one a key in an empty slot may score a thousand more than all that are allowed."""
    queries = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    queries[10:] *= 4000
    return queries


gathered_attention = Check(
    reference=reference,
    cases=[
        listed_keys(5, 9, 4, 3, 2),
        as_float64(listed_keys(6, 8, 3, 4, 5, batch=(2, 3))),
        listed_keys(4, 7, 5, 6, 3, scale=2.0, label="large scores"),
        listed_keys(
            *(300, 350, 8, 4, 3),
            label="n = 300, m = 350, c = 8: counted, O(n c d)",
            max_flops=2 * 2 * 300 * 8 * 7,
            max_elements=2 * 300 * 8 * 4,
            max_elementwise=5 * 2 * 300 * 8 * 4,
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
        power_before_division(reference),
        *ready_made(reference),
        *slips(listed, Slots.from_a_view, cost=square_on_the_way_back),
        *slips(listed, Mask.ignored, Mask.inverted, Mask.almost_zero, Mask.after_softmax, Softmax.over_queries),
        *slips(listed, Scale.none, Slots.by_width_of_values, Slots.zeros_taken, Slots.axis_from_front),
        *slips(listed, Slots.finite_number, recognise=hidden_too_softly(reference)),
        *slips(listed, Slots.out_of_range, recognise=overflowed),
        *slips(listed, Softmax.one_maximum),
        all_pairs=Wrong(pairs(in_lists), cost=scores_of_all_pairs),
        table_of_all_pairs=Wrong(through_a_mask, cost=square_made),
        row_by_row=Wrong(row_by_row(in_list), cost=all_pairs_scored),
        emptied_by_another_slot=listed(emptied_by_another_slot),
        first_slot_read=listed(lambda n, keys, allowed: (keys, allowed | (torch.arange(keys.shape[1]) == 0))),
        values_in_order=listed(values_of=in_order),
        keys_in_order=listed(keys_of=in_order),
        first_list_for_all=listed(lambda n, keys, allowed: (keys[:1].expand(keys.shape), allowed)),
        clamped_to_queries=listed(lambda n, keys, allowed: (keys.clamp(0, n - 1), allowed)),
        allowed_first=listed(lambda n, keys, allowed: (keys, allowed.sort(dim=-1, descending=True).values)),
        weights_taken_out=listed(normalise=weights_taken_out),
        first_axis_is_the_batch=Wrong(first_axis_is_the_batch, raises="IndexError"),
    ),
)

strided_sparse = CheckGroup("strided_sparse", strided_keys, gathered_attention)
