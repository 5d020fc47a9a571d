"""Checks of the bytes that attention moves: the standard way, and tile by tile."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import EXACT, WHOLE, comes_as_float
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
    properties=[WHOLE],
    misconceptions=wrong_answers(
        __file__,
        comes_as_float(reference.standard_traffic),
        scores_weights_written_but_not_read=lambda n, d, itemsize: (2 * n * n + 4 * n * d) * itemsize,
        one_four_crossings_forgotten=lambda n, d, itemsize: (3 * n * n + 4 * n * d) * itemsize,
        n_n_matrix_moved_once=lambda n, d, itemsize: (n * n + 4 * n * d) * itemsize,
        inputs_output_left_out=lambda n, d, itemsize: 4 * n * n * itemsize,
        output_not_written=lambda n, d, itemsize: (4 * n * n + 3 * n * d) * itemsize,
        queries_keys_only=lambda n, d, itemsize: (4 * n * n + 2 * n * d) * itemsize,
        n_d_swapped=lambda n, d, itemsize: (4 * d * d + 4 * n * d) * itemsize,
        elements_instead_bytes=lambda n, d, itemsize: 4 * n * n + 4 * n * d,
        bits_instead_bytes=lambda n, d, itemsize: 8 * (4 * n * n + 4 * n * d) * itemsize,
        flops_instead_bytes=lambda n, d, itemsize: 4 * n * n * d,
        operands_fetched_every_multiply_add=lambda n, d, itemsize: (4 * n * n * d + 3 * n * n + n * d) * itemsize,
    ),
)


def _tiles(n, rows):
    return math.ceil(n / rows)


def _rows(d, on_chip, itemsize, tiles=4):
    return on_chip // (tiles * d * itemsize)


def _bytes(n, d, passes, itemsize, *, q=1, kv=2, sums=1):
    """Queries (q times) and outputs once, keys and values once a pass, and one number a row."""
    return (q * n * d + n * d + sums * n + passes * kv * n * d) * itemsize


tiled_traffic = Check(
    reference=reference.tiled_traffic,
    cases=[
        random_case(
            "n = 100, d = 8, float32, tiles of 16 rows", n=100, d=8, on_chip=2168, itemsize=4
        ),  # not quite 17 rows,
        random_case("n = 4096, d = 64, float16, 164 kB", n=4096, d=64, on_chip=164 * 1024, itemsize=2),
        random_case("n = 96, d = 5, float64, tiles of 32 rows", n=96, d=5, on_chip=32 * 4 * 5 * 8, itemsize=8),
        random_case("n = 10, all of it fits", n=10, d=4, on_chip=9000, itemsize=4),
        random_case("n = 61, d = 24, float32, tiles of 8 rows", n=61, d=24, on_chip=8 * 4 * 24 * 4, itemsize=4),
    ],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=wrong_answers(
        __file__,
        comes_as_float(reference.tiled_traffic),
        keys_values_read_once=lambda n, d, on_chip, itemsize: _bytes(n, d, 1, itemsize),
        last_short_tile_left_out=lambda n, d, on_chip, itemsize: _bytes(
            n, d, n // _rows(d, on_chip, itemsize), itemsize
        ),
        fraction_tile=lambda n, d, on_chip, itemsize: _bytes(n, d, n / _rows(d, on_chip, itemsize), itemsize),
        tiles_with_fraction_row=lambda n, d, on_chip, itemsize: _bytes(
            n, d, math.ceil(n * 4 * d * itemsize / on_chip), itemsize
        ),
        fraction_tile_cut_down_whole_bytes=lambda n, d, on_chip, itemsize: int(
            _bytes(n, d, n / _rows(d, on_chip, itemsize), itemsize)
        ),
        last_short_tile_left_out_but_at_least=lambda n, d, on_chip, itemsize: _bytes(
            n, d, max(1, n // _rows(d, on_chip, itemsize)), itemsize
        ),
        one_tile_more_than_needed=lambda n, d, on_chip, itemsize: _bytes(
            n, d, n // _rows(d, on_chip, itemsize) + 1, itemsize
        ),
        logsumexp_four_bytes_whatever_itemsize=lambda n, d, on_chip, itemsize: (
            _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, sums=0) + 4 * n
        ),
        one_tile_fills_chip=lambda n, d, on_chip, itemsize: _bytes(
            n, d, _tiles(n, _rows(d, on_chip, itemsize, 1)), itemsize
        ),
        no_room_output=lambda n, d, on_chip, itemsize: _bytes(
            n, d, _tiles(n, _rows(d, on_chip, itemsize, 3)), itemsize
        ),
        chip_measured_elements=lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, 1)), itemsize),
        values_not_read=lambda n, d, on_chip, itemsize: _bytes(
            n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, kv=1
        ),
        queries_read_every_pass=lambda n, d, on_chip, itemsize: _bytes(
            n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, q=_tiles(n, _rows(d, on_chip, itemsize))
        ),
        loop_over_keys_outside=lambda n, d, on_chip, itemsize: (
            (2 * n * d + n + 3 * n * d * _tiles(n, _rows(d, on_chip, itemsize))) * itemsize
        ),
        logsumexps_forgotten=lambda n, d, on_chip, itemsize: _bytes(
            n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, sums=0
        ),
        maximum_sum_both_written=lambda n, d, on_chip, itemsize: _bytes(
            n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize, sums=2
        ),
        scores_written_as_well=lambda n, d, on_chip, itemsize: (
            _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), itemsize) + n * n * itemsize
        ),
        short_tiles_counted_as_full=lambda n, d, on_chip, itemsize: (
            (2 * n * d + n + 2 * _tiles(n, _rows(d, on_chip, itemsize)) ** 2 * _rows(d, on_chip, itemsize) * d)
            * itemsize
        ),
        queries_outputs_short_tile_counted_as=lambda n, d, on_chip, itemsize: (
            (2 * _tiles(n, _rows(d, on_chip, itemsize)) * (_rows(d, on_chip, itemsize) * d + n * d) + n) * itemsize
        ),
        growth_instead_bytes=lambda n, d, on_chip, itemsize: n * n * d * d * itemsize / on_chip,
        elements_instead_bytes=lambda n, d, on_chip, itemsize: _bytes(n, d, _tiles(n, _rows(d, on_chip, itemsize)), 1),
    ),
)

hbm_traffic = CheckGroup("hbm_traffic", standard_traffic, tiled_traffic)
