"""The check of `chunked_attention`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, on_levels, random_case, whole
from helpers.engine.check import Behaviour, Check, CheckGroup, Property
from helpers.engine.common_misconceptions import (
    NO_FUSED_ATTENTION,
    attention,
    axes_of_size_1_dropped,
    constant_in_the_denominator,
    in_single_precision,
    power_before_division,
    scaled_by_another_number,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.drivers import watch
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import parallel
from .parallel import _near, _overflowed, _scaled_by_values, own_powers

__all__ = ["chunked_attention"]


def chunk_with_columns_normalised(q, k, v, start, stop) -> Tensor:
    return torch.softmax(q[start:stop] @ k.mT / math.sqrt(q.shape[1]), dim=0) @ v


attention_chunk = Check(
    reference=parallel.attention_chunk,
    cases=[
        random_case(n=24, m=9, d=4, d_v=3, start=2, stop=5, max_elements=120, label="rows 2 to 4 of 24, 9 keys"),
        random_case(
            n=8, m=8, d=5, d_v=2, start=6, stop=8, dtype=torch.float64, label="the last 2 rows of 8, in float64"
        ),
        random_case(n=6, m=10, d=3, d_v=4, start=0, stop=6, label="all 6 rows as one chunk"),
        random_case(n=64, m=32, d=4, d_v=3, start=20, stop=26, max_elements=1024, label="only 6 rows of 64"),
        explicit_case("scores of some hundred", whole(8, 4), whole(5, 4), _near(0, 5, 3), 3, 6),
        random_case(n=7, m=6, d=4, d_v=3, start=1, stop=4, dtype=torch.float64, label="rows 1 to 3 of 7, in float64"),
        random_case(n=6, m=5, d=3, d_v=4, start=4, stop=5, label="a chunk of one row"),
        on_levels(random_case(n=6, m=4, d=3, d_v=2, start=1, stop=3, dtype=torch.float64), -800.0),
        on_levels(random_case(n=7, m=5, d=3, d_v=2, start=2, stop=5, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(parallel.attention_chunk),
        scaled_by_another_number(parallel.attention_chunk, lambda q, k, v, start, stop: q[start:stop]),
        axes_of_size_1_dropped(parallel.attention_chunk),
        constant_in_the_denominator(parallel.attention_chunk),
        in_single_precision(parallel.attention_chunk),
        chunk_that_sees_only_own_keys=lambda q, k, v, start, stop: attention(
            q[start:stop], k[start:stop], v[start:stop]
        ),
        only_keys_up_chunks_end=lambda q, k, v, start, stop: attention(q[start:stop], k[:stop], v[:stop]),
        everything_computed_then_cut_out=Wrong(
            lambda q, k, v, start, stop: attention(q, k, v)[start:stop],
            cost=lambda seen: seen.largest >= len(seen.args[0]) * len(seen.args[1]),
        ),
        stop_row_included=lambda q, k, v, start, stop: attention(q[start : stop + 1], k, v),
        whole_output=lambda q, k, v, start, stop: attention(q, k, v),
        softmax_over_chunks_queries=chunk_with_columns_normalised,
        no_scale=lambda q, k, v, start, stop: torch.softmax(q[start:stop] @ k.mT, dim=-1) @ v,
        exponentials_that_overflow=Wrong(
            lambda q, k, v, start, stop: own_powers(q[start:stop], k, v), recognise=_overflowed
        ),
        scaled_by_number_rows=lambda q, k, v, start, stop: attention(
            q[start:stop], k, v, scale=1 / math.sqrt(stop - start)
        ),
        scaled_by_width_values=lambda q, k, v, start, stop: attention(_scaled_by_values(q, v)[start:stop], k, v),
    ),
    forbids=NO_FUSED_ATTENTION,
)


def _worker(n: int, m: int, dtype: torch.dtype) -> RandomArg:
    """A worker with tokens of its own: task(start, stop) is that part of its output."""

    def make(generator: Generator) -> Callable:
        q, k, v = (torch.randn(rows, 4, generator=generator).to(dtype) for rows in (n, m, m))
        return lambda start, stop: attention(q[start:stop], k, v)

    return RandomArg(make)


def handing_out(n: int, size: int, order: list[int], label: str, dtype: torch.dtype = torch.float32) -> Case:
    return explicit_case(label, _worker(n, n + 3, dtype), n, size, list(order))


def with_calls_counted(answer, task, n, size, order) -> Tensor:
    """What the answer returns for a worker who writes beside each row, in a last column, in which of his calls it was made:
    1, 2, …, or 0 where more rows were asked for than there are."""
    calls = 0

    def worker(start, stop):
        nonlocal calls
        calls += 1
        rows = task(start, stop)
        return torch.cat([rows, torch.full_like(rows[:, :1], calls if stop <= n else 0)], dim=1)

    seen = watch(answer, worker, n, size, list(order))
    if seen.modified:
        order.clear()  # so that it shows outside too
    return seen.output


def _turns(n, size, order) -> list[int]:
    """The call in which each row is to be made."""
    return [order.index(row // size) + 1 for row in range(n)]


def _in_turn(seen: Observation) -> bool:
    return seen.output[:, -1].tolist() == _turns(*seen.args[1:])


def _stops_beyond(seen: Observation) -> bool:
    return bool((seen.output[:, -1] == 0).any())


def _in_the_order_of_the_rows(seen: Observation) -> bool:
    turns = seen.output[:, -1]
    return bool((turns.diff() >= 0).all() and turns[0] == 1)


def _calls_more(seen: Observation) -> bool:
    return not _stops_beyond(seen) and bool(seen.output[:, -1].max() > len(seen.args[3]))


def order_ignored(task, n, size, order) -> Tensor:
    return torch.cat([task(start, min(start + size, n)) for start in range(0, n, size)])


def stop_beyond_the_end(task, n, size, order) -> Tensor:
    rows = {chunk: task(chunk * size, (chunk + 1) * size) for chunk in order}
    return torch.cat([rows[chunk] for chunk in sorted(rows)])


def one_call_more(task, n, size, order) -> Tensor:
    output = task(0, 1).repeat(n, 1)
    for chunk in order:
        start, stop = chunk * size, min((chunk + 1) * size, n)
        output[start:stop] = task(start, stop)
    return output


def picked_by_the_order(task, n, size, order) -> Tensor:
    results = [task(chunk * size, min((chunk + 1) * size, n)) for chunk in order]
    return torch.cat([results[chunk] for chunk in order])


def one_place_too_many(task, n, size, order) -> Tensor:
    places = [None] * (n // size + 1)
    for chunk in order:
        places[chunk] = task(chunk * size, min((chunk + 1) * size, n))
    return torch.cat(places)


def buffer_in_float32(task, n, size, order) -> Tensor:
    return parallel.chunked_attention(task, n, size, order).float()


def _lost_its_dtype(seen: Observation) -> bool:
    return seen.output.dtype == torch.float32 != seen.args[0](0, 1).dtype


def evenly_long(task, n, size, order) -> Tensor:
    rows = math.ceil(n / len(order))
    places = {chunk: task(chunk * rows, min((chunk + 1) * rows, n)) for chunk in order}
    return torch.cat([places[chunk] for chunk in sorted(places)])


def _of_another_size(seen: Observation) -> bool:
    """The rows were made in chunks that are as long as one another, and not in those that were asked for."""
    _, n, size, order = seen.args
    rows = math.ceil(n / len(order))
    return rows != size and seen.output[:, -1].tolist() == _turns(n, rows, order)


def chunks_that_stop(later, task, n, size, order) -> Tensor:
    """Each chunk stops so many rows later than it should, at n at the latest."""
    rows = {chunk: task(chunk * size, min(n, (chunk + 1) * size + later)) for chunk in order}
    return torch.cat([rows[chunk] for chunk in sorted(rows)])


def the_last_of_the_order_up_to_the_end(task, n, size, order) -> Tensor:
    rows = {chunk: task(chunk * size, n if chunk == order[-1] else (chunk + 1) * size) for chunk in order}
    return torch.cat([rows[chunk] for chunk in sorted(rows)])


def the_first_row_again(task, n, size, order) -> Tensor:
    rows = parallel.chunked_attention(task, n, size, order)
    return torch.cat([rows, rows[:1]])


def _more_than_asked(seen: Observation) -> bool:
    """All n rows are right, and others follow."""
    task, n, _, _ = seen.args
    return len(seen.output) > n and agree(seen.output[:n, :-1], task(0, n), tolerance(task(0, 1)))


def in_the_order_of_computing(task, n, size, order) -> Tensor:
    return torch.cat([task(chunk * size, min(n, (chunk + 1) * size)) for chunk in order])


def sorted_as_words(task, n, size, order) -> Tensor:
    rows = {str(chunk): task(chunk * size, min(n, (chunk + 1) * size)) for chunk in order}
    return torch.cat([rows[name] for name in sorted(rows)])


def last_chunk_lost(task, n, size, order) -> Tensor:
    return torch.cat([task(chunk * size, (chunk + 1) * size) for chunk in range(n // size)])


def last_chunk_left_empty(task, n, size, order) -> Tensor:
    whole = n // size * size
    rows = torch.cat([task(chunk * size, (chunk + 1) * size) for chunk in range(n // size)])
    return torch.cat([rows, torch.zeros(n - whole, rows.shape[1])])


def size_for_count(task, n, size, order) -> Tensor:
    rows = math.ceil(n / size)
    return torch.cat([task(min(n, chunk * rows), min(n, (chunk + 1) * rows)) for chunk in sorted(order)])


joined_chunks = Check(
    reference=parallel.chunked_attention,
    cases=[
        handing_out(8, 2, [0, 1, 2, 3], "4 chunks of 2, in order"),
        handing_out(7, 3, [2, 0, 1], "7 rows in chunks of 3, the short one first"),
        handing_out(6, 2, [2, 0, 1], "3 chunks of 2, the last one first"),
        handing_out(9, 4, [1, 2, 0], "9 rows in chunks of 4, mixed"),
        handing_out(5, 8, [0], "one chunk, larger than n"),
        handing_out(23, 2, [3, 10, 1, 7, 0, 11, 5, 2, 9, 4, 8, 6], "23 rows in chunks of 2, in float64", torch.float64),
    ],
    drive=with_calls_counted,
    view=lambda output: output[:, :-1],  # in which call a row was made stands in the last column
    properties=[
        Property(
            "the dtype of the workers' rows",
            lambda output, task, *_: output.dtype == task(0, 1).dtype,
            "The rows come in float64, and your output has another dtype: make it of the rows, or with `rows.new_empty(…)`.",
        )
    ],
    behaviours=[
        Behaviour(
            "each chunk once, in the given order",
            _in_turn,
            "The rows are right, but `task` was not called once for each chunk of `size` rows, in the given order, with a stop of at most n. (Here the workers "
            "write in a last column in which call a row was made.)",
        )
    ],
    misconceptions=wrong_answers(
        __file__,
        joined_order_computing=in_the_order_of_computing,
        uneven_last_chunk_lost=Wrong(last_chunk_lost, raises="ValueError"),
        uneven_last_chunk_left_empty=Wrong(last_chunk_left_empty, raises="ValueError"),
        chunks_sorted_as_words=sorted_as_words,
        order_turned_round=lambda task, n, size, order: in_the_order_of_computing(task, n, size, sorted(order)[::-1]),
        one_row_too_many_every_chunk=lambda *call: chunks_that_stop(1, *call),
        row_too_few_every_chunk=lambda *call: chunks_that_stop(-1, *call),
        only_first_chunk=lambda task, n, size, order: task(0, min(n, size)),
        number_chunks_taken_their_size=size_for_count,
        stop_beyond_end=Wrong(stop_beyond_the_end, cost=_stops_beyond),
        call_more_than_there_chunks=Wrong(one_call_more, cost=_calls_more),
        given_order_ignored=Wrong(order_ignored, cost=_in_the_order_of_the_rows),
        chunks_made_as_long_as_one_another=Wrong(evenly_long, cost=_of_another_size),
        last_order_taken_last_rows=the_last_of_the_order_up_to_the_end,
        more_rows_than_there_tokens=Wrong(the_first_row_again, recognise=_more_than_asked),
        picked_by_order_instead_inverse=picked_by_the_order,
        place_too_many=Wrong(one_place_too_many, raises="TypeError"),
        dtype_lost_on_way=Wrong(buffer_in_float32, recognise=_lost_its_dtype),
    ),
)

chunked_attention = CheckGroup("chunked_attention", attention_chunk, joined_chunks)
