"""The check of `chunked_attention`: some rows of the output, then all of them from chunks in any order."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from helpers.engine.answers.common_misconceptions import (
    NO_FUSED_ATTENTION,
    axes_of_size_1_dropped,
    constant_in_the_denominator,
    in_single_precision,
)
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import attention
from helpers.engine.cases import Case, RandomArg, explicit_case, on_levels, random_case, whole
from helpers.engine.check import Behaviour, Check, CheckGroup, Property
from helpers.engine.compare import agree, tolerance
from helpers.engine.drivers import watch
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import parallel
from .parallel import _near, _overflowed, _scaled_by_values

__all__ = ["chunked_attention"]


@composable
def chunk(**changed: Callable) -> Callable:
    """Rows start … stop − 1 of attention with these steps changed."""
    whole_table = attention(**changed)
    return lambda q, k, v, start, stop: whole_table(q[start:stop], k, v)


all_rows = parallel.attention_all_tokens

attention_chunk = Check(
    reference=parallel.attention_chunk,
    cases=[
        random_case(n=24, m=9, d=4, d_v=3, start=2, stop=5, max_elements=120, label="rows 2 to 4 of 24, 9 keys"),
        random_case("the last 2 rows of 8, in float64", n=8, m=8, d=5, d_v=2, start=6, stop=8, dtype=torch.float64),
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
        *slips(chunk, Scale.power_before_division, Scale.by_root_of_another_number),
        axes_of_size_1_dropped(parallel.attention_chunk),
        constant_in_the_denominator(parallel.attention_chunk),
        in_single_precision(parallel.attention_chunk),
        *slips(chunk, Scale.none, Softmax.over_queries),
        *slips(chunk, Softmax.no_maximum, recognise=_overflowed),
        own_keys_only=lambda q, k, v, start, stop: all_rows(q[start:stop], k[start:stop], v[start:stop]),
        keys_up_to_stop=lambda q, k, v, start, stop: all_rows(q[start:stop], k[:stop], v[:stop]),
        cut_out_late=Wrong(
            lambda q, k, v, start, stop: all_rows(q, k, v)[start:stop],
            cost=lambda seen: seen.largest >= len(seen.args[0]) * len(seen.args[1]),
        ),
        stop_included=lambda q, k, v, start, stop: all_rows(q[start : stop + 1], k, v),
        whole_output=lambda q, k, v, start, stop: all_rows(q, k, v),
        by_rows=chunk(scale=lambda products, _: products / math.sqrt(len(products))),
        by_values_width=lambda q, k, v, start, stop: all_rows(_scaled_by_values(q, v)[start:stop], k, v),
    ),
    forbids=NO_FUSED_ATTENTION,
)


def _worker(n: int, m: int, dtype: torch.dtype) -> RandomArg:
    """A worker with tokens of its own: task(start, stop) is that part of its output."""

    def make(generator: Generator) -> Callable:
        q, k, v = (torch.randn(rows, 4, generator=generator).to(dtype) for rows in (n, m, m))
        return lambda start, stop: all_rows(q[start:stop], k, v)

    return RandomArg(make)


def handing_out(n: int, size: int, order: list[int], label: str, dtype: torch.dtype = torch.float32) -> Case:
    return explicit_case(label, _worker(n, n + 3, dtype), n, size, list(order))


def with_calls_counted(answer, task, n, size, order) -> Tensor:
    """What the answer returns for a worker who writes beside each row, in a last column, in which of his calls it was
    made: 1, 2, …, or 0 where more rows were asked for than there are."""
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


def _stops_beyond(seen: Observation) -> bool:
    return bool((seen.output[:, -1] == 0).any())


def _in_the_order_of_the_rows(seen: Observation) -> bool:
    turns = seen.output[:, -1]
    return bool((turns.diff() >= 0).all() and turns[0] == 1)


def _calls_more(seen: Observation) -> bool:
    return not _stops_beyond(seen) and bool(seen.output[:, -1].max() > len(seen.args[3]))


def _rows(chunk: int, size: int, n: int) -> tuple[int, int]:
    return min(n, chunk * size), min(n, (chunk + 1) * size)


@dataclass(frozen=True)
class HandingOut:
    """The steps of `chunked_attention`: which chunks are computed, in this order, from which row to which, and how what
    comes of them (by their numbers) is joined."""

    chunks: Callable = lambda n, size, order: order
    bounds: Callable = lambda chunk, n, size, order: _rows(chunk, size, n)
    join: Callable = lambda rows, n, size: torch.cat([rows[chunk] for chunk in sorted(rows)])


@composable
def handed_out(**changed: Callable) -> Callable:
    steps = HandingOut(**changed)

    def answer(task, n, size, order) -> Tensor:
        rows = {chunk: task(*steps.bounds(chunk, n, size, order)) for chunk in steps.chunks(n, size, order)}
        return steps.join(rows, n, size)

    return answer


def as_computed(rows, n, size) -> Tensor:
    return torch.cat(list(rows.values()))


def stopping(later: int) -> Callable:
    """Each chunk stops so many rows later than it should, at n at the latest."""
    return handed_out(bounds=lambda chunk, n, size, order: (chunk * size, min(n, (chunk + 1) * size + later)))


def filled_up(rows, n, size) -> Tensor:
    output = as_computed(rows, n, size)
    return torch.cat([output, torch.zeros(n - len(output), output.shape[1])])


def _evenly_long(seen: Observation) -> bool:
    """The rows were made in chunks that are as long as one another, and not in those that were asked for."""
    _, n, size, order = seen.args
    rows = math.ceil(n / len(order))
    return rows != size and seen.output[:, -1].tolist() == _turns(n, rows, order)


def _more_than_asked(seen: Observation) -> bool:
    """All n rows are right, and others follow."""
    task, n, _, _ = seen.args
    return len(seen.output) > n and agree(seen.output[:n, :-1], task(0, n), tolerance(task(0, 1)))


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
            "as precise as the workers' rows",
            lambda output, task, *_: torch.promote_types(output.dtype, task(0, 1).dtype) == output.dtype,
            "The rows come in float64, and your output is less precise: make it of the rows, or with "
            "`rows.new_empty(…)`.",
        )
    ],
    behaviours=[
        Behaviour(
            "each chunk once, in the given order",
            lambda seen: seen.output[:, -1].tolist() == _turns(*seen.args[1:]),
            "`task` was not called once for each chunk of `size` rows, in the given order, "
            "with a stop of at most n. (Here the workers write in a last column in which call a row was made.)",
        )
    ],
    misconceptions=wrong_answers(
        __file__,
        order_of_computing=handed_out(join=as_computed),
        last_lost=Wrong(handed_out(chunks=lambda n, size, order: range(n // size)), raises="ValueError"),
        last_left_empty=Wrong(
            handed_out(chunks=lambda n, size, order: range(n // size), join=filled_up), raises="ValueError"
        ),
        sorted_as_words=handed_out(join=lambda rows, n, size: torch.cat([rows[c] for c in sorted(rows, key=str)])),
        backwards=handed_out(chunks=lambda n, size, order: sorted(order)[::-1], join=as_computed),
        row_too_many=stopping(1),
        row_too_few=stopping(-1),
        first_only=lambda task, n, size, order: task(0, min(n, size)),
        size_for_count=handed_out(
            chunks=lambda n, size, order: sorted(order),
            bounds=lambda chunk, n, size, order: _rows(chunk, math.ceil(n / size), n),
        ),
        stop_beyond_n=Wrong(
            handed_out(bounds=lambda chunk, n, size, order: (chunk * size, (chunk + 1) * size)), cost=_stops_beyond
        ),
        call_more=Wrong(
            lambda task, *how: torch.cat([task(0, 1), parallel.chunked_attention(task, *how)])[1:], cost=_calls_more
        ),
        order_ignored=Wrong(handed_out(chunks=lambda n, size, order: sorted(order)), cost=_in_the_order_of_the_rows),
        evenly_long=Wrong(
            handed_out(bounds=lambda chunk, n, size, order: _rows(chunk, math.ceil(n / len(order)), n)),
            cost=_evenly_long,
        ),
        last_of_order=handed_out(
            bounds=lambda chunk, n, size, order: (chunk * size, n if chunk == order[-1] else (chunk + 1) * size)
        ),
        more_rows=Wrong(
            handed_out(join=lambda rows, n, size: torch.cat([*(rows[c] for c in sorted(rows)), rows[0][:1]])),
            recognise=_more_than_asked,
        ),
        picked_by_order=handed_out(join=lambda rows, n, size: torch.cat([list(rows.values())[c] for c in rows])),
        place_too_many=Wrong(
            handed_out(join=lambda rows, n, size: torch.cat([rows.get(c) for c in range(n // size + 1)])),
            raises="TypeError",
        ),
        dtype_lost=Wrong(
            lambda *call: parallel.chunked_attention(*call).float(),
            recognise=lambda seen: seen.output.dtype == torch.float32 != seen.args[0](0, 1).dtype,
        ),
    ),
)

chunked_attention = CheckGroup("chunked_attention", attention_chunk, joined_chunks)
