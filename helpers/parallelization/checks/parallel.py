"""Checks of attention as work that can be handed out: token by token, as a matrix product, in chunks."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, on_levels, random_case, whole
from helpers.engine.check import Behaviour, Check, CheckGroup, Misconception, Property
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

from .. import parallel

__all__ = ["attention_one_token", "chunked_attention"]

# ------------------------------------------------------------------------------------------------- one token, all tokens


def _weights(query, k) -> Tensor:
    return torch.softmax(k @ query / math.sqrt(len(query)), dim=0)


def _near(mean: float, *shape: int) -> RandomArg:
    """Entries around `mean`. Rows of 9 entries around 7 have dot products near 441: scores near 147, and e^147 overflows."""
    return RandomArg(lambda generator: mean + torch.randn(shape, generator=generator))


def _one_row_of_zeros(*shape: int) -> RandomArg:
    """Whole numbers, with a query of zeros among the large ones: its scores are all 0."""

    def make(generator: Generator) -> Tensor:
        rows = whole(*shape).make(generator)
        rows[1] = 0
        return rows

    return RandomArg(make)


def _scaled_by_values(q, v) -> Tensor:
    return q * math.sqrt(q.shape[1] / v.shape[1])


def _overflowed(seen: Observation) -> bool:
    q, k = seen.args[:2]
    return bool(seen.output.isnan().any() and (q @ k.mT).max() / math.sqrt(q.shape[1]) > 89)


def clamped(q, k, v, most=50.0) -> Tensor:
    return torch.softmax((q @ k.mT / math.sqrt(q.shape[1])).clamp(-most, most), dim=-1) @ v


def own_powers(q, k, v) -> Tensor:
    powers = torch.exp(q @ k.mT / math.sqrt(q.shape[1]))
    return powers @ v / powers.sum(-1, keepdim=True)


POWERS_HINT = "e^89 is more than float32 can hold, and ∞/∞ is NaN. Subtract the largest score of each row first, or use `torch.softmax`: it does so."
VALUES_HINT = "A score is a sum of d products, so it is divided by √d; d is the width of queries and keys. The width of the values plays no role."
CLAMP_HINT = "Scores beyond the limit become equal, and so do their weights. Against overflow subtract the largest score: that changes no weight."


def as_many_keys_as_queries(q, k, v, i) -> Tensor:
    scores = torch.stack([q[i] @ k[j] for j in range(len(q))]) / math.sqrt(q.shape[1])
    return torch.softmax(scores, dim=0) @ v[: len(q)]


def powers_that_overflow(q, k, v, i) -> Tensor:
    powers = torch.exp(k @ q[i] / math.sqrt(q.shape[1]))
    return powers @ v / powers.sum()


def running_maximum(q, k, v, i) -> Tensor:
    top, total, output = -math.inf, 0.0, torch.zeros_like(v[0])
    for key, value in zip(k, v):
        score = q[i] @ key / math.sqrt(q.shape[1])
        top = max(top, score.item())
        total, output = total + torch.exp(score - top), output + torch.exp(score - top) * value
    return output / total


one_token = Check(
    reference=parallel.attention_one_token,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3, i=2, label="token 2 of 5, 7 keys"), random_case(n=6, m=6, d=3, d_v=3, i=5, label="the last token of 6"),
        random_case(n=4, m=9, d=16, d_v=2, i=0, dtype=torch.float64, label="the first token of 4, 9 keys, in float64"),
        explicit_case("large scores", _near(7, 3, 9), _near(7, 5, 9), _near(0, 5, 4), 1),
        random_case(n=8, m=5, d=3, d_v=4, i=6, dtype=torch.float64, label="more tokens than keys, in float64"),
        explicit_case("scores of some hundred", whole(4, 4), whole(6, 4), _near(0, 6, 3), 2),
        random_case(n=3, m=1, d=4, d_v=2, i=1, label="a single key"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, i=1, dtype=torch.float64), -800.0),
    ],
    misconceptions=[
        Misconception(
            "the token's key instead of its query", lambda q, k, v, i: _weights(k[i], k) @ v,
            "Token i asks with its query. The keys are what it compares that query with.",
            raises="IndexError",
        ),
        Misconception(
            "only the keys up to the token itself", lambda q, k, v, i: _weights(q[i], k[: i + 1]) @ v[: i + 1],
            "Here every token looks at all m keys. Hiding the later ones is a causal mask, and comes in unit 03.",
        ),
        Misconception(
            "always the first token", lambda q, k, v, i: _weights(q[0], k) @ v,
            "`i` says whose output is asked for: its query is `q[i]`.",
        ),
        Misconception(
            "no scale", lambda q, k, v, i: torch.softmax(k @ q[i], dim=0) @ v,
            "Divide the scores by √d before the softmax.",
        ),
        Misconception(
            "weights that are not normalised", lambda q, k, v, i: torch.exp(k @ q[i] / math.sqrt(q.shape[1])) @ v,
            "The weights of a token sum to 1. Divide by the sum of the exponentials, after the loop has seen all keys.",
        ),
        Misconception(
            "a softmax for every score by itself", lambda q, k, v, i: v.sum(dim=0),
            "The softmax of a single number is 1, so every value counted fully. Collect all scores first, then one softmax over all of them.",
        ),
        Misconception(
            "the last value only", lambda q, k, v, i: _weights(q[i], k)[-1] * v[-1],
            "The loop overwrites its result at every key. Add up: output += weight · value.",
        ),
        Misconception(
            "values weighted by scores", lambda q, k, v, i: (k @ q[i] / math.sqrt(q.shape[1])) @ v,
            "Scores can be negative and don't sum to 1. The softmax makes weights of them.",
        ),
        Misconception(
            "the last key left out", lambda q, k, v, i: torch.softmax(torch.stack([q[i] @ key / math.sqrt(q.shape[1]) for key in k[:-1]]), dim=0) @ v[:-1],
            "There are m keys, the last one too. `range(m)` already ends at m − 1: take nothing off.",
            raises="RuntimeError",
        ),
        Misconception(
            "the token before it", lambda q, k, v, i: _weights(q[i - 1], k) @ v,
            "Tokens are counted from 0, as rows are: token i asks with `q[i]`.",
        ),
        Misconception(
            "a second mean over the keys", lambda q, k, v, i: _weights(q[i], k) @ v / len(k),
            "The weights already sum to 1: the weighted sum is the mean. No division by m.",
        ),
        Misconception(
            "exponentials that overflow", powers_that_overflow,
            "e^100 is infinite in float32, and ∞/∞ is NaN. Subtract the largest score first, or use `torch.softmax` on all scores.",
            _overflowed,
        ),
        Misconception(
            "as many keys as there are tokens", as_many_keys_as_queries,
            "There are m keys and values, and n queries: m may be smaller or larger than n. Loop over the keys.",
            raises="IndexError",
        ),
        Misconception(
            "keys beyond the number of tokens left out", lambda q, k, v, i: _weights(q[i], k[: len(q)]) @ v[: len(q)],
            "There are m keys and values, and m need not be n: your loop ends with the tokens. Loop over all the keys.",
        ),
        Misconception(
            "a running maximum that leaves the old sums as they are", running_maximum,
            "Each time the maximum rises, what has been added up so far belongs to the old one: multiply both sums by e^(old − new) first.",
        ),
        Misconception("clamped scores", lambda q, k, v, i: clamped(q[i : i + 1], k, v)[0], CLAMP_HINT),
        Misconception("scaled by the width of the values", lambda q, k, v, i: _weights(_scaled_by_values(q, v)[i], k) @ v, VALUES_HINT),
        power_before_division(parallel.attention_one_token),
        scaled_by_another_number(parallel.attention_one_token, lambda q, k, v, i: q[i : i + 1]),
        constant_in_the_denominator(parallel.attention_one_token),
        in_single_precision(parallel.attention_one_token),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip


FEW_SCORES = 35  # so few may be computed one by one


def _in_python(seen: Observation) -> bool:
    """Whether the scores never stood in a tensor: as Python numbers they would escape the count of operations."""
    q, k = seen.args[:2]
    return seen.largest < len(q) * len(k)


def tokens_in_a_loop(q, k, v) -> Tensor:
    return torch.stack([_weights(query, k) @ v for query in q])


def softmax_over_everything(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[1])
    return torch.softmax(scores.flatten(), dim=0).view(scores.shape) @ v


def one_maximum_for_all(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[1])
    powers = torch.exp(scores - scores.max())
    return powers / powers.sum(-1, keepdim=True) @ v


def maximum_of_each_column(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[1])
    powers = torch.exp(scores - scores.amax(0, keepdim=True))
    return powers / powers.sum(-1, keepdim=True) @ v


def sum_without_its_axis(q, k, v) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[1])
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1) @ v


LOOP_FREE = 40  # tensor operations: einsum needs about 25; a loop over 12 tokens at least 60

attention_all_tokens = Check(
    reference=parallel.attention_all_tokens,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3, dtype=torch.float64), random_case(n=16, m=16, d=4, d_v=4, max_operations=LOOP_FREE),
        random_case(n=12, m=18, d=9, d_v=4, scale=4.0, dtype=torch.float64, max_operations=LOOP_FREE, label="large scores"),
        random_case(n=600, m=5, d=3, d_v=2, max_operations=LOOP_FREE, label=f"600 tokens in {LOOP_FREE} operations"),
        explicit_case("one query of zeros among large ones", _one_row_of_zeros(5, 4), whole(7, 4), _near(0, 7, 3)),
        random_case(n=4, m=6, d=3, d_v=5, dtype=torch.float64, label="n = 4, m = 6, in float64"),
        random_case(n=1, m=6, d=3, d_v=5, label="a single token"),
        on_levels(random_case(n=3, m=6, d=4, d_v=2, dtype=torch.float64), -800.0), on_levels(random_case(n=5, m=4, d=3, d_v=2, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=[
        Misconception(
            "a hidden loop over the tokens", tokens_in_a_loop,
            "The tokens (or the keys) were worked through in a loop, one by one or in blocks. q @ kᵀ is the whole table of scores "
            "in a single operation, and PyTorch may compute all its entries side by side.",
            cost=lambda seen: sum(seen.operations.values()) > LOOP_FREE or _in_python(seen),
        ),
        Misconception(
            "softmax over the queries", lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(q.shape[1]), dim=0) @ v,
            "Each token shares its attention out over the keys: every row of the (n, m) table sums to 1.",
        ),
        Misconception(
            "softmax over all scores at once", softmax_over_everything,
            "Each token has one unit of attention of its own: every row of the table sums to 1, not the whole table.",
        ),
        Misconception(
            "no scale", lambda q, k, v: torch.softmax(q @ k.mT, dim=-1) @ v,
            "Divide the scores by √d before the softmax.",
        ),
        Misconception(
            "scaled by the number of keys", lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(len(k)), dim=-1) @ v,
            "It is the width d that makes dot products large, not the number of keys.",
        ),
        Misconception(
            "the weights returned instead of the output", lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(q.shape[1]), dim=-1),
            "You have the (n, m) table of weights. The second matrix product mixes the values: weights @ v.",
        ),
        Misconception(
            "values weighted by scores", lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[1])) @ v,
            "Scores can be negative and don't sum to 1. The softmax makes weights of them.",
        ),
        Misconception(
            "one maximum for the whole table", one_maximum_for_all,
            "In a row whose scores all lie far below the largest of the table every exponential becomes 0, and 0/0 is NaN. Each row has a maximum of its "
            "own: `amax(dim=1, keepdim=True)`.",
        ),
        Misconception(
            "the maximum of each column", maximum_of_each_column,
            "The weights of a row stay the same only if one number is subtracted from the whole *row*: `amax(dim=1, keepdim=True)`.",
        ),
        Misconception(
            "the sum without its axis", sum_without_its_axis,
            "`sum(dim=1)` drops the axis, and what is left lines up with the keys, not with the tokens: `sum(dim=1, keepdim=True)`.",
            raises="RuntimeError",
        ),
        Misconception("exponentials that overflow", own_powers, POWERS_HINT, _overflowed),
        Misconception("clamped scores", clamped, CLAMP_HINT),
        Misconception(
            "scaled by the width of the values", lambda q, k, v: attention(_scaled_by_values(q, v), k, v), VALUES_HINT
        ),
        Misconception(
            "the weights scaled instead of the scores",
            lambda q, k, v: torch.softmax(q @ k.mT, dim=-1) / math.sqrt(q.shape[1]) @ v,
            "The division by √d comes before the softmax, so that the scores get smaller. After it the weights no longer sum to 1.",
        ),
        Misconception(
            "later keys hidden",
            lambda q, k, v: attention(q, k, v, mask=torch.ones(len(q), len(k), dtype=torch.bool).tril()),
            "Here every token looks at all m keys. Hiding the later ones is a causal mask, and comes in unit 03.",
        ),
        Misconception(
            "keys reshaped instead of transposed",
            lambda q, k, v: torch.softmax(q @ k.reshape(k.shape[1], len(k)) / math.sqrt(q.shape[1]), dim=-1) @ v,
            "`reshape(d, m)` cuts the same row of numbers into other pieces, and mixes the keys. `k.T` turns rows into columns.",
        ),
        power_before_division(parallel.attention_all_tokens),
        scaled_by_another_number(parallel.attention_all_tokens),
        axes_of_size_1_dropped(parallel.attention_all_tokens),
        constant_in_the_denominator(parallel.attention_all_tokens),
        in_single_precision(parallel.attention_all_tokens),
    ],
    behaviours=[
        Behaviour(
            "all scores in one tensor", lambda seen: math.prod(map(len, seen.args[:2])) <= FEW_SCORES or not _in_python(seen),
            "No tensor was large enough to hold all scores: they are computed block by block, row by row, or number by number.",
        )
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip

attention_one_token = CheckGroup("attention_one_token", one_token, attention_all_tokens)

# ------------------------------------------------------------------------------------------------- chunks of queries


def chunk_with_columns_normalised(q, k, v, start, stop) -> Tensor:
    return torch.softmax(q[start:stop] @ k.mT / math.sqrt(q.shape[1]), dim=0) @ v


attention_chunk = Check(
    reference=parallel.attention_chunk,
    cases=[
        random_case(n=24, m=9, d=4, d_v=3, start=2, stop=5, max_elements=120, label="rows 2 to 4 of 24, 9 keys"),
        random_case(n=8, m=8, d=5, d_v=2, start=6, stop=8, dtype=torch.float64, label="the last 2 rows of 8, in float64"),
        random_case(n=6, m=10, d=3, d_v=4, start=0, stop=6, label="all 6 rows as one chunk"),
        random_case(n=64, m=32, d=4, d_v=3, start=20, stop=26, max_elements=1024, label="only 6 rows of 64"),
        explicit_case("scores of some hundred", whole(8, 4), whole(5, 4), _near(0, 5, 3), 3, 6),
        random_case(n=7, m=6, d=4, d_v=3, start=1, stop=4, dtype=torch.float64, label="rows 1 to 3 of 7, in float64"),
        random_case(n=6, m=5, d=3, d_v=4, start=4, stop=5, label="a chunk of one row"),
        on_levels(random_case(n=6, m=4, d=3, d_v=2, start=1, stop=3, dtype=torch.float64), -800.0), on_levels(random_case(n=7, m=5, d=3, d_v=2, start=2, stop=5, dtype=torch.float64), 800.0, -800.0),
    ],
    misconceptions=[
        Misconception(
            "a chunk that sees only its own keys",
            lambda q, k, v, start, stop: attention(q[start:stop], k[start:stop], v[start:stop]),
            "Only the queries are split. Every query still looks at all keys, also those of other chunks.",
        ),
        Misconception(
            "only the keys up to the chunk's end",
            lambda q, k, v, start, stop: attention(q[start:stop], k[:stop], v[:stop]),
            "Every query looks at all keys here, also at later ones. Nothing is masked in this unit.",
        ),
        Misconception(
            "everything computed, then cut out", lambda q, k, v, start, stop: attention(q, k, v)[start:stop],
            "The whole (n, m) table was made for a few rows. If every worker does that, nothing is gained: cut the queries "
            "first.",
            cost=lambda seen: seen.largest >= len(seen.args[0]) * len(seen.args[1]),
        ),
        Misconception(
            "the stop row included", lambda q, k, v, start, stop: attention(q[start : stop + 1], k, v),
            "As everywhere in Python, the rows are start, …, stop − 1: stop − start of them.",
        ),
        Misconception(
            "the whole output", lambda q, k, v, start, stop: attention(q, k, v),
            "One chunk is asked for: the rows start … stop − 1.",
        ),
        Misconception(
            "softmax over the chunk's queries", chunk_with_columns_normalised,
            "Each query shares its attention out over the keys: rows of the table sum to 1. Down the columns it would even depend on how the "
            "queries were split.",
        ),
        Misconception(
            "no scale", lambda q, k, v, start, stop: torch.softmax(q[start:stop] @ k.mT, dim=-1) @ v,
            "Divide the scores by √d before the softmax, in a chunk as in the whole.",
        ),
        Misconception(
            "exponentials that overflow", lambda q, k, v, start, stop: own_powers(q[start:stop], k, v), POWERS_HINT, _overflowed
        ),
        Misconception(
            "scaled by the number of rows",
            lambda q, k, v, start, stop: attention(q[start:stop], k, v, scale=1 / math.sqrt(stop - start)),
            "The scale is √d; d is the width of queries and keys. How many rows a chunk has must not change its result.",
        ),
        Misconception(
            "scaled by the width of the values",
            lambda q, k, v, start, stop: attention(_scaled_by_values(q, v)[start:stop], k, v), VALUES_HINT,
        ),
        power_before_division(parallel.attention_chunk),
        scaled_by_another_number(parallel.attention_chunk, lambda q, k, v, start, stop: q[start:stop]),
        axes_of_size_1_dropped(parallel.attention_chunk),
        constant_in_the_denominator(parallel.attention_chunk),
        in_single_precision(parallel.attention_chunk),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip


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
            "the dtype of the workers' rows", lambda output, task, *_: output.dtype == task(0, 1).dtype,
            "The rows come in float64, and your output has another dtype: make it of the rows, or with `rows.new_empty(…)`.",
        )
    ],
    behaviours=[
        Behaviour(
            "each chunk once, in the given order", _in_turn,
            "The rows are right, but `task` was not called once for each chunk of `size` rows, in the given order, with a stop of at most n. (Here the workers "
            "write in a last column in which call a row was made.)",
        )
    ],
    misconceptions=[
        Misconception(
            "joined in the order of computing", in_the_order_of_computing,
            "Workers finish when they like. Chunk c belongs at rows c·size …, whenever it was computed.",
        ),
        Misconception(
            "the uneven last chunk lost", last_chunk_lost,
            "`n // size` rounds down, and the rows of the short last chunk are missing. There are ⌈n / size⌉ chunks.",
            raises="ValueError",
        ),
        Misconception(
            "the uneven last chunk left empty", last_chunk_left_empty,
            "The output has n rows, but the last n mod size of them were never computed. The last chunk may be short; it is still a chunk.",
            raises="ValueError",
        ),
        Misconception(
            "chunks sorted as words", sorted_as_words,
            "As words, `\"10\"` comes before `\"2\"`: sorted by their names, chunks stand in order up to ten only. Keep each under its number, and sort by that.",
        ),
        Misconception(
            "the order turned round", lambda task, n, size, order: in_the_order_of_computing(task, n, size, sorted(order)[::-1]),
            "The first chunk holds the first rows.",
        ),
        Misconception(
            "one row too many in every chunk",
            lambda *call: chunks_that_stop(1, *call),
            "`task(start, stop)` leaves row `stop` out, as a slice does. Chunk c ends where chunk c + 1 starts: at (c + 1)·size.",
        ),
        Misconception(
            "a row too few in every chunk", lambda *call: chunks_that_stop(-1, *call),
            "`task(start, stop)` leaves row `stop` out by itself, as a slice does. Chunk c stops at (c + 1)·size, where chunk c + 1 starts.",
        ),
        Misconception(
            "only the first chunk", lambda task, n, size, order: task(0, min(n, size)),
            "Only the first chunk was computed: is a `return` inside the loop? All chunks of `order` have to be run and joined.",
        ),
        Misconception(
            "the number of chunks taken for their size", size_for_count,
            "`size` is the number of rows in a chunk; how many chunks that makes can be seen from `order`.",
        ),
        Misconception(
            "the stop beyond the end", stop_beyond_the_end,
            "The last chunk may be short, and it stops at n: min(n, (c + 1)·size). Rows beyond that don't exist.",
            cost=_stops_beyond,
        ),
        Misconception(
            "a call more than there are chunks", one_call_more,
            "Every call of `task` is work for somebody. Each chunk is asked for once, and nothing else is: the width can be seen from the first "
            "result.",
            cost=_calls_more,
        ),
        Misconception(
            "the given order ignored", order_ignored,
            "`order` says which chunk is computed first: call `task` for its chunks one after the other, then put the results where they belong.",
            cost=_in_the_order_of_the_rows,
        ),
        Misconception(
            "chunks made as long as one another", evenly_long,
            "Every chunk has `size` rows, and the last has what is left: 9 rows in chunks of 4 are 4, 4 and 1, not 3, 3 and 3. Don't work the size out again "
            "from the number of chunks.",
            cost=_of_another_size,
        ),
        Misconception(
            "the last of the order taken for the last of the rows", the_last_of_the_order_up_to_the_end,
            "The chunk with the highest number may be short, whenever it is computed. Which chunk comes last in `order` says nothing about its rows: "
            "the stop is min(n, (c + 1)·size), for each of them.",
        ),
        Misconception(
            "more rows than there are tokens", the_first_row_again,
            "The first n rows are right, and then come others. Is a chunk joined twice, or is something left from an earlier call? A default argument such as "
            "`done={}` is made once, and kept.",
            _more_than_asked,
        ),
        Misconception(
            "picked by the order instead of its inverse", picked_by_the_order,
            "`results[i]` is the chunk that was computed as the i-th, `order[i]`, and not chunk i. Keep each result under its chunk's number.",
        ),
        Misconception(
            "a place too many", one_place_too_many,
            "Where n is a multiple of size there are n/size chunks, and `n // size + 1` places leave one empty. There are ⌈n / size⌉, as many as in "
            "`order`.",
            raises="TypeError",
        ),
        Misconception(
            "the dtype lost on the way", buffer_in_float32,
            "The rows come in float64. `torch.zeros(…)` is float32; `rows.new_empty(…)` takes the dtype from the rows.",
            _lost_its_dtype,
        ),
    ],
)  # fmt: skip

chunked_attention = CheckGroup("chunked_attention", attention_chunk, joined_chunks)
