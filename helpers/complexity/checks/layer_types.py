"""Check of how seven kinds of layers grow: exponents are fitted at large sizes, so constants and smaller terms don't count."""

import functools
import math
from collections.abc import Callable

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Misconception
from helpers.engine.requirements import exceeded_steps
from helpers.engine.table_check import Table
from helpers.measuring.growth import INFINITE, NO_NUMBER, NO_PRODUCT, grows_like

from .. import layer_types as reference

__all__ = ["layer_types"]

STEPS = 200_000  # of all calls for one case
NAMES = ("n", "d", "k", "r")


def _grown(table: Callable, n: float, d: float, k: float, r: float) -> dict[str, tuple[str, ...]]:
    """The growth of every entry, in words, around these sizes and with n and d exchanged: n² d + n d² shows in one of the two alone."""
    table = _kept(table)
    here, there = dict(zip(NAMES, (n, d, k, r), strict=True)), dict(zip(NAMES, (d, n, k, r), strict=True))
    base = table(*here.values())
    if not isinstance(base, dict):
        return base
    return {row: _row(table, row, here, there) if isinstance(base[row], (tuple, list)) else base[row] for row in base}


def _kept(table: Callable) -> Callable:
    """The tables of all sizes that are asked for again, as they were when they were made: an answer may fill one dict for all of them."""
    return functools.cache(lambda *sizes: _copied(table(*sizes)))


def _copied(rows: object) -> object:
    """Rows as tuples; the numbers stay (to copy tensors takes thousands of steps, which are not the answer's)."""
    if not isinstance(rows, dict):
        return rows
    return {name: tuple(row) if isinstance(row, (tuple, list)) else row for name, row in rows.items()}


def _row(table: Callable, row: str, here: dict[str, float], there: dict[str, float]) -> tuple[str, ...]:
    columns = range(len(table(*here.values())[row]))
    return tuple(_either(*(_entry(table, row, column, sizes) for sizes in (here, there))) for column in columns)


def _entry(table: Callable, row: str, column: int, sizes: dict[str, float]) -> str:
    return grows_like(lambda *values: table(*values)[row][column], sizes)


def _either(one: str, other: str) -> str:
    """What grows like nothing at one of the two settings is no candidate."""
    none = next((words for words in (one, other) if words in (INFINITE, NO_NUMBER, NO_PRODUCT)), "")
    return none or (one if one == other else " or ".join(sorted((one, other))))


def _types(n, d, k, r, wrong):
    """The right table with one row, or more, in place of the right ones."""
    log, root = math.log2(n), math.sqrt(n)
    right = {
        "recurrent": (n * d * d, n, n), "convolution": (k * n * d * d, 1, log / math.log2(k)),
        "self-attention": (n * n * d, 1, 1), "strided sparse": (n * root * d, 1, 1), "lsh": (n * log * d, log, log),
        "low-rank": (n * r * d, 1, 1), "linear": (n * d * d, 1, 1),
    }  # fmt: skip
    return {**right, **wrong}


def _is(row: str, column: int, *words: str) -> Callable:
    """For `recognise`: this entry of the student's table grows in one of these ways."""
    return lambda seen: seen.output[row][column] in words


def _with_projections(seen) -> bool:
    costs = [seen.output[row][0] for row in ("strided sparse", "lsh", "low-rank")]
    return any("n d²" in cost.split(" or ") for cost in costs)


def token_by_token(n, d, k, r):
    cost = steps = 0
    for _ in range(int(n)):
        cost, steps = cost + d * d, steps + 1
    return _types(n, d, k, r, {"recurrent": (cost, steps, n)})


def in_float32(n, d, k, r):
    n, d, k, r = torch.tensor([n, d, k, r])
    log, root, one = n.log2(), n.sqrt(), torch.ones(())
    return {
        "recurrent": (n * d * d, n, n), "convolution": (k * n * d * d, one, log / k.log2()),
        "self-attention": (n * n * d, one, one), "strided sparse": (n * root * d, one, one), "lsh": (n * log * d, log, log),
        "low-rank": (n * r * d, one, one), "linear": (n * d * d, one, one),
    }  # fmt: skip


layer_types = Table(
    reference=reference.layer_types,
    drive=_grown,
    columns=reference.COLUMNS,
    counts=False,
    steps=STEPS,
    cases=[
        explicit_case("n far above d", 2.0**100, 2.0**30, 2.0**8, 2.0**10),
        explicit_case("d far above n", 2.0**40, 2.0**120, 2.0**8, 2.0**10),
    ],
    misconceptions=[
        Misconception(
            "a loop that doesn't come to its end", token_by_token,
            "The sizes are enormous, such as 2¹⁰⁰ tokens: a loop that takes one after the other never ends. Say with a formula how often it would run.",
            cost=exceeded_steps,
        ),
        Misconception(
            "costs that are infinite", in_float32,
            "The sizes are such as 2¹⁰⁰, and all seven costs become infinite. Tensors are float32 where nobody says otherwise, and it ends at 2¹²⁸. "
            "Python's own floats reach 2¹⁰²⁴.",
            lambda seen: all(cost == INFINITE for cost, *_ in seen.output.values()),
        ),
        Misconception(
            "n and d swapped in self-attention", lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * d * d, 1, 1)}),
            "Self-attention has n·n scores, each a dot product over d features: n²·d.", _is("self-attention", 0, "n d²"),
        ),
        Misconception(
            "projections counted in self-attention",
            lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n * d + 4 * n * d * d, 1, 1)}),
            "n·d² are the projections. All of the seven that need them have the same ones, so they are left out: scores and weighted sum "
            "remain.",
            _is("self-attention", 0, "n d² or n² d"),
        ),
        Misconception(
            "projections counted where attention is cheaper",
            lambda n, d, k, r: _types(n, d, k, r, {
                "strided sparse": (n * math.sqrt(n) * d + n * d * d, 1, 1), "low-rank": (n * r * d + n * d * d, 1, 1),
                "lsh": (n * math.log2(n) * d + n * d * d, math.log2(n), math.log2(n)),
            }),
            "n·d² is what the d × d projections cost, and they are left out in every row: scores and weighted sum remain, and in `lsh` the sorting.",
            _with_projections,
        ),
        Misconception(
            "d forgotten in self-attention", lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n, 1, 1)}),
            "n² counts the scores. Each is a dot product over d features.", _is("self-attention", 0, "n²"),
        ),
        Misconception(
            "a recurrent step that is linear in d", lambda n, d, k, r: _types(n, d, k, r, {"recurrent": (n * d, n, n)}),
            "Each of the n steps multiplies the state, d numbers, with a d × d matrix.", _is("recurrent", 0, "n d"),
        ),
        Misconception(
            "a recurrent layer in one step", lambda n, d, k, r: _types(n, d, k, r, {"recurrent": (n * d * d, 1, n)}),
            "State t needs state t − 1. Nothing can be computed side by side: n steps, one after the other.",
            _is("recurrent", 1, "1"),
        ),
        Misconception(
            "a recurrent path of length 1", lambda n, d, k, r: _types(n, d, k, r, {"recurrent": (n * d * d, n, 1)}),
            "From the first token to the last, information goes through every state in between.", _is("recurrent", 2, "1"),
        ),
        Misconception(
            "a convolution without its kernel",
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (n * d * d, 1, math.log2(n) / math.log2(k))}),
            "Each output looks at k tokens, with a d × d matrix for each of the k places.", _is("convolution", 0, "n d²"),
        ),
        Misconception(
            "a reach that grows by k in each layer: n/k", lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, n / k)}),
            "n/k is the path if every layer adds k tokens of reach. Here the layers are dilated: each multiplies the reach "
            "by k.",
            _is("convolution", 2, "n / k"),
        ),
        Misconception(
            "a dilated path without its base",
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, math.log2(n))}),
            "After L layers the reach is kᴸ, so the logarithm has the base k. That is a size here, not a constant.",
            _is("convolution", 2, "log n"),
        ),
        Misconception(
            "a long path through self-attention", lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n * d, 1, n)}),
            "Every token attends to every other directly: one layer is enough.", _is("self-attention", 2, "n", "log n"),
        ),
        Misconception(
            "self-attention token after token", lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n * d, n, 1)}),
            "All rows of the scores are one matrix product: no token waits for another.", _is("self-attention", 1, "n"),
        ),
        Misconception(
            "sparse attention that is still quadratic",
            lambda n, d, k, r: _types(n, d, k, r, {"strided sparse": (n * n * d, 1, 1)}),
            "Each of the n tokens attends to about √n keys, not to n. (In Python `n ** 1 / 2` is n / 2.)", _is("strided sparse", 0, "n² d"),
        ),
        Misconception(
            "√n instead of n√n", lambda n, d, k, r: _types(n, d, k, r, {"strided sparse": (math.sqrt(n) * d, 1, 1)}),
            "√n keys are the work of one token, and there are n tokens.", _is("strided sparse", 0, "√n d"),
        ),
        Misconception(
            "LSH without n log n moves of d numbers",
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * d, math.log2(n), math.log2(n))}),
            "Your cost grows like n·d. Attention within the buckets is linear, but the sort makes n·log n moves, and each moves a whole token: "
            "d numbers.",
            _is("lsh", 0, "n d"),
        ),
        Misconception(
            "sorting in one step", lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * math.log2(n) * d, 1, math.log2(n))}),
            "A parallel sort still needs about log n rounds, each of which waits for the one before.", _is("lsh", 1, "1"),
        ),
        Misconception(
            "r left out of the cost", lambda n, d, k, r: _types(n, d, k, r, {"low-rank": (n * d, 1, 1)}),
            "n queries meet r projected keys: n·r scores over d features each.", _is("low-rank", 0, "n d"),
        ),
        Misconception(
            "features projected instead of positions", lambda n, d, k, r: _types(n, d, k, r, {"low-rank": (n * n * r, 1, 1)}),
            "Low-rank attention makes n keys into r keys. The width d stays, and the n × n matrix is gone.",
            _is("low-rank", 0, "n² r"),
        ),
        Misconception(
            "linear attention without the state", lambda n, d, k, r: _types(n, d, k, r, {"linear": (n * d, 1, 1)}),
            "Every token adds the product of its key and its value, a d × d matrix, to the sum: d² each.",
            _is("linear", 0, "n d"),
        ),
        Misconception(
            "linear attention that is still quadratic", lambda n, d, k, r: _types(n, d, k, r, {"linear": (n * n * d, 1, 1)}),
            "Without the softmax the brackets can be moved: Q (Kᵀ V) instead of (Q Kᵀ) V. No n × n matrix is left.",
            _is("linear", 0, "n² d"),
        ),
        Misconception(
            "linear attention token after token", lambda n, d, k, r: _types(n, d, k, r, {"linear": (n * d * d, n, 1)}),
            "Kᵀ V is one matrix product over all tokens: no token waits for another.", _is("linear", 1, "n"),
        ),
        Misconception(
            "positions that attend to each other after the projection",
            lambda n, d, k, r: _types(n, d, k, r, {"low-rank": (r * r * d, 1, 1)}),
            "Keys and values are projected to r positions, the queries are not: n of them meet r keys.", _is("low-rank", 0, "d r²"),
        ),
        Misconception(
            "a path of √n through strided attention",
            lambda n, d, k, r: _types(n, d, k, r, {"strided sparse": (n * math.sqrt(n) * d, 1, math.sqrt(n))}),
            "The √n keys are chosen so that two layers connect all pairs: a constant, whatever n is.", _is("strided sparse", 2, "√n"),
        ),
        Misconception(
            "a logarithm upside down",
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, math.log2(k) / math.log2(n))}),
            "After L layers the reach is kᴸ: L = log n / log k. A longer text has a longer path.",
            _is("convolution", 2, "log k / log n"),
        ),
        Misconception(
            "convolutions one after the other",
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, n, math.log2(n) / math.log2(k))}),
            "The outputs of one layer are computed side by side: none waits for its neighbour.", _is("convolution", 1, "n"),
        ),
        Misconception(
            "a path of 1 through dilated convolutions",
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, 1)}),
            "One layer reaches only k tokens, and each multiplies the reach by k. All n take more layers the larger n is.", _is("convolution", 2, "1"),
        ),
        Misconception(
            "one round of buckets for all pairs",
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * math.log2(n) * d, math.log2(n), 1)}),
            "A token sees only its own bucket. Each layer multiplies the reach by a constant, so it takes about log n layers until it is n.",
            _is("lsh", 2, "1"),
        ),
        Misconception(
            "layers times rounds in LSH",
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * math.log2(n) * d, math.log2(n), math.log2(n) ** 2)}),
            "The path counts layers here, log n of them. The rounds of the sort inside each are the steps.",
            _is("lsh", 2, "log n²"),
        ),
    ],
)  # fmt: skip
