"""Check of how seven kinds of layers grow: exponents are fitted at large sizes, so constants and smaller terms don't count."""

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
        "recurrent": (n * d * d, n, n),
        "convolution": (k * n * d * d, 1, log / math.log2(k)),
        "self-attention": (n * n * d, 1, 1),
        "strided sparse": (n * root * d, 1, 1),
        "lsh": (n * log * d, log, log),
        "low-rank": (n * r * d, 1, 1),
        "linear": (n * d * d, 1, 1),
    }
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
        loop_that_doesnt_come_end=Wrong(token_by_token, cost=exceeded_steps),
        costs_that_infinite=Wrong(
            in_float32, recognise=lambda seen: all(cost == INFINITE for cost, *_ in seen.output.values())
        ),
        n_d_swapped_self_attention=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * d * d, 1, 1)}),
            recognise=_is("self-attention", 0, "n d²"),
        ),
        projections_counted_self_attention=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n * d + 4 * n * d * d, 1, 1)}),
            recognise=_is("self-attention", 0, "n d² or n² d"),
        ),
        projections_counted_where_attention=Wrong(
            lambda n, d, k, r: _types(
                n,
                d,
                k,
                r,
                {
                    "strided sparse": (n * math.sqrt(n) * d + n * d * d, 1, 1),
                    "low-rank": (n * r * d + n * d * d, 1, 1),
                    "lsh": (n * math.log2(n) * d + n * d * d, math.log2(n), math.log2(n)),
                },
            ),
            recognise=_with_projections,
        ),
        d_forgotten_self_attention=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n, 1, 1)}),
            recognise=_is("self-attention", 0, "n²"),
        ),
        recurrent_step_that_linear_d=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"recurrent": (n * d, n, n)}), recognise=_is("recurrent", 0, "n d")
        ),
        recurrent_layer_one_step=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"recurrent": (n * d * d, 1, n)}), recognise=_is("recurrent", 1, "1")
        ),
        recurrent_path_length_1=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"recurrent": (n * d * d, n, 1)}), recognise=_is("recurrent", 2, "1")
        ),
        convolution_without_kernel=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (n * d * d, 1, math.log2(n) / math.log2(k))}),
            recognise=_is("convolution", 0, "n d²"),
        ),
        reach_that_grows_by_k_each_layer_n_over=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, n / k)}),
            recognise=_is("convolution", 2, "n / k"),
        ),
        dilated_path_without_base=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, math.log2(n))}),
            recognise=_is("convolution", 2, "log n"),
        ),
        long_path_through_self_attention=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n * d, 1, n)}),
            recognise=_is("self-attention", 2, "n", "log n"),
        ),
        self_attention_token_after_token=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"self-attention": (n * n * d, n, 1)}),
            recognise=_is("self-attention", 1, "n"),
        ),
        sparse_attention_that_still_quadratic=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"strided sparse": (n * n * d, 1, 1)}),
            recognise=_is("strided sparse", 0, "n² d"),
        ),
        root_n_instead_nroot_n=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"strided sparse": (math.sqrt(n) * d, 1, 1)}),
            recognise=_is("strided sparse", 0, "√n d"),
        ),
        lsh_without_n_log_n_moves_d_numbers=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * d, math.log2(n), math.log2(n))}),
            recognise=_is("lsh", 0, "n d"),
        ),
        sorting_one_step=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * math.log2(n) * d, 1, math.log2(n))}),
            recognise=_is("lsh", 1, "1"),
        ),
        r_left_out_cost=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"low-rank": (n * d, 1, 1)}), recognise=_is("low-rank", 0, "n d")
        ),
        features_projected_instead_positions=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"low-rank": (n * n * r, 1, 1)}), recognise=_is("low-rank", 0, "n² r")
        ),
        linear_attention_without_state=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"linear": (n * d, 1, 1)}), recognise=_is("linear", 0, "n d")
        ),
        linear_attention_that_still_quadratic=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"linear": (n * n * d, 1, 1)}), recognise=_is("linear", 0, "n² d")
        ),
        linear_attention_token_after_token=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"linear": (n * d * d, n, 1)}), recognise=_is("linear", 1, "n")
        ),
        positions_that_attend_each_other_after=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"low-rank": (r * r * d, 1, 1)}), recognise=_is("low-rank", 0, "d r²")
        ),
        path_root_n_through_strided_attention=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"strided sparse": (n * math.sqrt(n) * d, 1, math.sqrt(n))}),
            recognise=_is("strided sparse", 2, "√n"),
        ),
        logarithm_upside_down=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, math.log2(k) / math.log2(n))}),
            recognise=_is("convolution", 2, "log k / log n"),
        ),
        convolutions_one_after_other=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, n, math.log2(n) / math.log2(k))}),
            recognise=_is("convolution", 1, "n"),
        ),
        path_1_through_dilated_convolutions=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"convolution": (k * n * d * d, 1, 1)}),
            recognise=_is("convolution", 2, "1"),
        ),
        one_round_buckets_all_pairs=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * math.log2(n) * d, math.log2(n), 1)}),
            recognise=_is("lsh", 2, "1"),
        ),
        layers_times_rounds_lsh=Wrong(
            lambda n, d, k, r: _types(n, d, k, r, {"lsh": (n * math.log2(n) * d, math.log2(n), math.log2(n) ** 2)}),
            recognise=_is("lsh", 2, "log n²"),
        ),
    ),
)
