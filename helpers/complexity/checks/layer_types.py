"""layer_types: how seven kinds of layers grow. Exponents are fitted at large sizes, so smaller terms don't count."""

import functools
import math
from collections.abc import Callable

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.requirements import exceeded_steps
from helpers.engine.table_check import Table
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.measuring.growth import INFINITE, NO_NUMBER, NO_PRODUCT, grows_like

from .. import layer_types as reference

__all__ = ["layer_types"]

STEPS = 200_000  # of all calls for one case

NAMES = ("n", "d", "k", "r")


def _grown(table: Callable, n: float, d: float, k: float, r: float) -> dict[str, tuple[str, ...]]:
    """The growth of every entry, in words, around these sizes and with n and d exchanged: n² d + n d² shows in one of
    the two alone."""
    table = _kept(table)
    here, there = dict(zip(NAMES, (n, d, k, r), strict=True)), dict(zip(NAMES, (d, n, k, r), strict=True))
    base = table(*here.values())
    if not isinstance(base, dict):
        return base
    return {row: _row(table, row, here, there) if isinstance(base[row], (tuple, list)) else base[row] for row in base}


def _kept(table: Callable) -> Callable:
    """The tables of all sizes that are asked for again, as they were when they were made: an answer may fill one dict
    for all of them."""
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


def right(n, d, k, r):
    log, root = math.log2(n), math.sqrt(n)
    return {
        "recurrent": (n * d * d, n, n),
        "convolution": (k * n * d * d, 1, log / math.log2(k)),
        "self-attention": (n * n * d, 1, 1),
        "strided sparse": (n * root * d, 1, 1),
        "lsh": (n * log * d, log, log),
        "low-rank": (n * r * d, 1, 1),
        "linear": (n * d * d, 1, 1),
    }


COST, STEPS_IN_ORDER, PATH = range(3)


def entry(row: str, column: int, wrong: Callable, *words: str) -> Wrong:
    """The right table with one entry that is another; and a student's that grows in one of these ways."""

    def table(n, d, k, r):
        rows = right(n, d, k, r)
        entries = (*rows[row][:column], wrong(n, d, k, r), *rows[row][column + 1 :])
        return {**rows, row: entries}

    return Wrong(table, recognise=lambda seen: seen.output[row][column] in words)


def projections_wherever_attention_is(n, d, k, r):
    rows = right(n, d, k, r)
    others = {row: (rows[row][0] + n * d * d, *rows[row][1:]) for row in ("strided sparse", "low-rank", "lsh")}
    return {**rows, **others}


def _with_projections(seen) -> bool:
    costs = [seen.output[row][0] for row in ("strided sparse", "lsh", "low-rank")]
    return any("n d²" in cost.split(" or ") for cost in costs)


def token_by_token(n, d, k, r):
    cost = steps = 0
    for _ in range(int(n)):
        cost, steps = cost + d * d, steps + 1
    return {**right(n, d, k, r), "recurrent": (cost, steps, n)}


def in_float32(n, d, k, r):
    n, d, k, r = torch.tensor([n, d, k, r])
    log, root, one = n.log2(), n.sqrt(), torch.ones(())
    return {
        "recurrent": (n * d * d, n, n),
        "convolution": (k * n * d * d, one, log / k.log2()),
        "self-attention": (n * n * d, one, one),
        "strided sparse": (n * root * d, one, one),
        "lsh": (n * log * d, log, log),
        "low-rank": (n * r * d, one, one),
        "linear": (n * d * d, one, one),
    }


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
    misconceptions=wrong_answers(
        __file__,
        endless_loop=Wrong(token_by_token, cost=exceeded_steps),
        infinite_costs=Wrong(
            in_float32, recognise=lambda seen: all(cost == INFINITE for cost, *_ in seen.output.values())
        ),
        projections_everywhere=Wrong(projections_wherever_attention_is, recognise=_with_projections),
        recurrent_linear_in_d=entry("recurrent", COST, lambda n, d, k, r: n * d, "n d"),
        recurrent_at_once=entry("recurrent", STEPS_IN_ORDER, lambda n, d, k, r: 1, "1"),
        recurrent_path_1=entry("recurrent", PATH, lambda n, d, k, r: 1, "1"),
        no_kernel=entry("convolution", COST, lambda n, d, k, r: n * d * d, "n d²"),
        convolution_in_order=entry("convolution", STEPS_IN_ORDER, lambda n, d, k, r: n, "n"),
        path_n_over_k=entry("convolution", PATH, lambda n, d, k, r: n / k, "n / k"),
        path_without_base=entry("convolution", PATH, lambda n, d, k, r: math.log2(n), "log n"),
        path_upside_down=entry("convolution", PATH, lambda n, d, k, r: math.log2(k) / math.log2(n), "log k / log n"),
        dilated_path_1=entry("convolution", PATH, lambda n, d, k, r: 1, "1"),
        n_and_d_swapped=entry("self-attention", COST, lambda n, d, k, r: n * d * d, "n d²"),
        projections_too=entry("self-attention", COST, lambda n, d, k, r: n * n * d + 4 * n * d * d, "n d² or n² d"),
        no_d=entry("self-attention", COST, lambda n, d, k, r: n * n, "n²"),
        attention_in_order=entry("self-attention", STEPS_IN_ORDER, lambda n, d, k, r: n, "n"),
        attention_path_n=entry("self-attention", PATH, lambda n, d, k, r: n, "n", "log n"),
        sparse_quadratic=entry("strided sparse", COST, lambda n, d, k, r: n * n * d, "n² d"),
        sparse_without_n=entry("strided sparse", COST, lambda n, d, k, r: math.sqrt(n) * d, "√n d"),
        sparse_path=entry("strided sparse", PATH, lambda n, d, k, r: math.sqrt(n), "√n"),
        lsh_without_log=entry("lsh", COST, lambda n, d, k, r: n * d, "n d"),
        sorted_at_once=entry("lsh", STEPS_IN_ORDER, lambda n, d, k, r: 1, "1"),
        one_round=entry("lsh", PATH, lambda n, d, k, r: 1, "1"),
        layers_times_rounds=entry("lsh", PATH, lambda n, d, k, r: math.log2(n) ** 2, "log n²"),
        no_r=entry("low-rank", COST, lambda n, d, k, r: n * d, "n d"),
        features_projected=entry("low-rank", COST, lambda n, d, k, r: n * n * r, "n² r"),
        positions_meet=entry("low-rank", COST, lambda n, d, k, r: r * r * d, "d r²"),
        no_state=entry("linear", COST, lambda n, d, k, r: n * d, "n d"),
        linear_quadratic=entry("linear", COST, lambda n, d, k, r: n * n * d, "n² d"),
        linear_in_order=entry("linear", STEPS_IN_ORDER, lambda n, d, k, r: n, "n"),
    ),
)
