"""How many bytes attention moves: the standard way, and tile by tile."""

import math
from collections.abc import Callable
from fractions import Fraction

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import traffic as reference

__all__ = ["hbm_traffic"]

standard_traffic = Check(
    reference=reference.standard_traffic,
    cases=[
        random_case("n = 6, d = 4, float32", n=6, d=4, itemsize=4),
        random_case("n = 100, d = 8, float64", n=100, d=8, itemsize=8),
        random_case("n = 4096, d = 64, float16", n=4096, d=64, itemsize=2),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        not_read_back=lambda n, d, itemsize: (2 * n * n + 4 * n * d) * itemsize,
        one_crossing_forgotten=lambda n, d, itemsize: (3 * n * n + 4 * n * d) * itemsize,
        matrix_once=lambda n, d, itemsize: (n * n + 4 * n * d) * itemsize,
        matrix_only=lambda n, d, itemsize: 4 * n * n * itemsize,
        output_not_written=lambda n, d, itemsize: (4 * n * n + 3 * n * d) * itemsize,
        values_left_out=lambda n, d, itemsize: (4 * n * n + 2 * n * d) * itemsize,
        swapped=lambda n, d, itemsize: (4 * d * d + 4 * n * d) * itemsize,
        elements=lambda n, d, itemsize: 4 * n * n + 4 * n * d,
        bits=lambda n, d, itemsize: 8 * (4 * n * n + 4 * n * d) * itemsize,
        flops=lambda n, d, itemsize: 4 * n * n * d,
        flops_times_bytes=lambda n, d, itemsize: 4 * n * n * d * itemsize,
        every_operand=lambda n, d, itemsize: (4 * n * n * d + 3 * n * n + n * d) * itemsize,
    ),
)


@composable
def moved(
    elements: Callable = lambda n, d, passes, rows: 2 * n * d + n + passes * 2 * n * d,
    rows: Callable = lambda d, on_chip, itemsize: on_chip // (4 * d * itemsize),  # of a tile
    passes: Callable = lambda n, rows: math.ceil(n / rows),
) -> Callable:
    """Queries, outputs and a number a row once, keys and values once a pass, unless told otherwise."""

    def traffic(n, d, on_chip, itemsize):
        fit = rows(d, on_chip, itemsize)
        return elements(n, d, passes(n, fit), fit) * itemsize

    return traffic


def no_logsumexps(n, d, passes, rows):
    return 2 * n * d + passes * 2 * n * d


tiled_traffic = Check(
    reference=reference.tiled_traffic,
    cases=[
        # Not quite 17 rows fit.
        random_case("n = 100, d = 8, float32, tiles of 16 rows", n=100, d=8, on_chip=2168, itemsize=4),
        random_case("n = 4096, d = 64, float16, 164 kB", n=4096, d=64, on_chip=164 * 1024, itemsize=2),
        random_case("n = 96, d = 5, float64, tiles of 32 rows", n=96, d=5, on_chip=32 * 4 * 5 * 8, itemsize=8),
        random_case("n = 10, all of it fits", n=10, d=4, on_chip=9000, itemsize=4),
        random_case("n = 61, d = 24, float32, tiles of 8 rows", n=61, d=24, on_chip=8 * 4 * 24 * 4, itemsize=4),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        standard_divided=lambda n, d, on_chip, itemsize: (
            reference.standard_traffic(n, d, itemsize) // (on_chip // (4 * d * itemsize))
        ),
        keys_read_once=moved(passes=lambda n, rows: 1),
        short_tile_left_out=moved(passes=lambda n, rows: n // rows),
        fraction_of_tile=moved(passes=lambda n, rows: n / rows),
        fraction_of_row=moved(rows=lambda d, on_chip, itemsize: Fraction(on_chip, 4 * d * itemsize)),
        whole_bytes=lambda n, d, on_chip, itemsize: int(
            moved(passes=lambda n, rows: n / rows)(n, d, on_chip, itemsize)
        ),
        at_least_one=moved(passes=lambda n, rows: max(1, n // rows)),
        one_tile_more=moved(passes=lambda n, rows: n // rows + 1),
        logsumexp_four_bytes=lambda n, d, on_chip, itemsize: moved(no_logsumexps)(n, d, on_chip, itemsize) + 4 * n,
        one_tile_fills_chip=moved(rows=lambda d, on_chip, itemsize: on_chip // (d * itemsize)),
        no_room_for_output=moved(rows=lambda d, on_chip, itemsize: on_chip // (3 * d * itemsize)),
        chip_in_elements=moved(rows=lambda d, on_chip, itemsize: on_chip // (4 * d)),
        values_not_read=moved(lambda n, d, passes, rows: 2 * n * d + n + passes * n * d),
        queries_in_every_pass=moved(lambda n, d, passes, rows: n * d + n + 3 * passes * n * d),
        keys_outside=moved(lambda n, d, passes, rows: 2 * n * d + n + 3 * n * d * passes),
        logsumexps_forgotten=moved(no_logsumexps),
        maximum_and_sum=moved(lambda n, d, passes, rows: 2 * n * d + 2 * n + passes * 2 * n * d),
        scores_written=moved(lambda n, d, passes, rows: 2 * n * d + n + passes * 2 * n * d + n * n),
        short_counted_as_full=moved(lambda n, d, passes, rows: 2 * n * d + n + 2 * passes**2 * rows * d),
        short_queries_as_full=moved(lambda n, d, passes, rows: 2 * passes * (rows * d + n * d) + n),
        growth=lambda n, d, on_chip, itemsize: n * n * d * d * itemsize / on_chip,
        elements=lambda n, d, on_chip, itemsize: moved()(n, d, on_chip, itemsize) // itemsize,
    ),
)

hbm_traffic = CheckGroup("hbm_traffic", standard_traffic, tiled_traffic)
