"""Checks of attention as work that can be handed out: token by token, as a matrix product, in chunks."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, Drawn, given, sized
from helpers.engine.check import Behaviour, Check, CheckGroup, Misconception
from helpers.engine.observe import Observation
from helpers.engine.slips import NO_FUSED_ATTENTION, attention

from .. import parallel

__all__ = ["attention_one_token", "chunked_attention"]

# ------------------------------------------------------------------------------------------------- one token, all tokens


def _weights(query, k) -> Tensor:
    return torch.softmax(k @ query / math.sqrt(len(query)), dim=0)


def _near(mean: float, *shape: int) -> Drawn:
    """Entries around `mean`. Rows of 9 entries around 7 have dot products near 441: scores near 147, and e^147 overflows."""
    return Drawn(lambda generator: mean + torch.randn(shape, generator=generator))


def powers_that_overflow(q, k, v, i) -> Tensor:
    powers = torch.exp(k @ q[i] / math.sqrt(q.shape[1]))
    return powers @ v / powers.sum()


one_token = Check(
    reference=parallel.attention_one_token,
    cases=[
        sized(n=5, m=7, d=4, d_v=3, i=2, label="token 2 of 5, 7 keys"), sized(n=6, m=6, d=3, d_v=3, i=5, label="the last token of 6"),
        sized(n=4, m=9, d=16, d_v=2, i=0, dtype=torch.float64, label="the first token of 4, 9 keys, in float64"),
        given("large scores", _near(7, 3, 9), _near(7, 5, 9), _near(0, 5, 4), 1),
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
            "The scores are divided by √d before the softmax.",
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
            "a second mean over the keys", lambda q, k, v, i: _weights(q[i], k) @ v / len(k),
            "The weights already sum to 1: the weighted sum is the mean. No division by m.",
        ),
        Misconception(
            "powers that overflow", powers_that_overflow,
            "e^100 is infinite in float32, and ∞/∞ is NaN. Subtract the largest score first, or use `torch.softmax` on all scores.",
        ),
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


LOOP_FREE = 40  # tensor operations: einsum needs about 25; a loop over 12 tokens at least 60

attention_all_tokens = Check(
    reference=parallel.attention_all_tokens,
    cases=[
        sized(n=5, m=7, d=4, d_v=3, dtype=torch.float64), sized(n=16, m=16, d=4, d_v=4, max_operations=LOOP_FREE),
        sized(n=12, m=18, d=9, d_v=4, scale=4.0, max_operations=LOOP_FREE, label="large scores"),
        sized(n=64, m=48, d=3, d_v=2, max_operations=LOOP_FREE, label=f"64 tokens in {LOOP_FREE} operations"),
    ],
    misconceptions=[
        Misconception(
            "a hidden loop over the tokens", tokens_in_a_loop,
            "The tokens (or the keys) were worked through one after the other. q @ kᵀ is the whole table of scores "
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
            "The scores are divided by √d before the softmax.",
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
    ],
    behaviours=[
        Behaviour(
            "all scores in one tensor", lambda seen: math.prod(map(len, seen.args[:2])) <= FEW_SCORES or not _in_python(seen),
            "No tensor was large enough to hold all scores: they are computed row by row, or number by number.",
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
        sized(n=24, m=9, d=4, d_v=3, start=2, stop=5, max_elements=120, label="rows 2 to 4 of 24, 9 keys"),
        sized(n=8, m=8, d=5, d_v=2, start=6, stop=8, dtype=torch.float64, label="the last 2 rows of 8, in float64"),
        sized(n=6, m=10, d=3, d_v=4, start=0, stop=6, label="all 6 rows as one chunk"),
        sized(n=64, m=32, d=4, d_v=3, start=20, stop=26, max_elements=1024, label="6 rows of 64 alone"),
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
            "The scores are divided by √d before the softmax, in a chunk as in the whole.",
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip


def _worker(n: int, m: int) -> Drawn:
    """A worker with tokens of its own: task(start, stop) is that part of its output."""

    def make(generator: Generator) -> Callable:
        q, k, v = (torch.randn(rows, 4, generator=generator) for rows in (n, m, m))
        return lambda start, stop: attention(q[start:stop], k, v)

    return Drawn(make)


def handing_out(n: int, size: int, order: list[int], label: str) -> Case:
    return given(label, _worker(n, n + 3), n, size, order)


def in_the_order_of_computing(task, n, size, order) -> Tensor:
    return torch.cat([task(chunk * size, min(n, (chunk + 1) * size)) for chunk in order])


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
        handing_out(11, 4, [1, 2, 0], "11 rows in chunks of 4, mixed"),
    ],
    misconceptions=[
        Misconception(
            "joined in the order of computing", in_the_order_of_computing,
            "Workers finish when they like. Chunk c belongs at rows c·size …, whenever it was computed.",
        ),
        Misconception(
            "the uneven last chunk lost", last_chunk_lost,
            "n // size rounds down, and the rows of the short last chunk are missing. There are ⌈n / size⌉ chunks.",
            raises="ValueError",
        ),
        Misconception(
            "the uneven last chunk left empty", last_chunk_left_empty,
            "The output has n rows, but the last n mod size of them were never computed. The last chunk may be short; it is still a chunk.",
            raises="ValueError",
        ),
        Misconception(
            "the order turned round", lambda task, n, size, order: in_the_order_of_computing(task, n, size, sorted(order)[::-1]),
            "The first chunk holds the first rows.",
        ),
        Misconception(
            "one row too many in every chunk",
            lambda task, n, size, order: torch.cat([task(chunk * size, min(n, (chunk + 1) * size + 1)) for chunk in sorted(order)]),
            "task(start, stop) leaves row `stop` out, as a slice does. Chunk c ends where chunk c + 1 starts: at (c + 1)·size.",
        ),
        Misconception(
            "only the first chunk", lambda task, n, size, order: task(0, min(n, size)),
            "There is a `return` inside the loop, or no loop. All chunks of `order` have to be run and joined.",
        ),
        Misconception(
            "the number of chunks taken for their size", size_for_count,
            "`size` is the number of rows in a chunk; how many chunks that makes can be seen from `order`.",
        ),
    ],
)  # fmt: skip

chunked_attention = CheckGroup("chunked_attention", attention_chunk, joined_chunks)
