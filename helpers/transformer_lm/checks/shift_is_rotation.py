"""The check of `shift_is_rotation`."""

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import positions as reference

__all__ = ["shift_is_rotation"]


def _blocks(k, d, base, entries):
    """entries: of (cos, sin), the 2×2 block row by row."""
    angles = k * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    return torch.block_diag(*torch.stack(entries(angles.cos(), angles.sin()), dim=-1).unflatten(-1, (2, 2))).float()


def _row_counted_from_the_end(k, d, base):
    """The block's angles from `sinusoidal_positions(abs(k) + 1, d, base)[k]`: of its |k| + 1 rows, number k is row 1
    where k < 0."""
    return _blocks(k if k >= 0 else 1, d, base, lambda c, s: [c, -s, s, c])


def _halves(k, d, base):
    angles = k * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angles.cos().diag(), angles.sin().diag()
    return torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)]).float()


shift_is_rotation = Check(
    exercise="shift_is_rotation",
    reference=reference.shift_rotation,
    cases=[
        explicit_case("a shift by k = 1, d = 4", 1, 4, 10_000.0),
        explicit_case("k = 1, d = 4, base 100", 1, 4, 100.0),
        explicit_case("backwards, k = −3, d = 4", -3, 4, 10_000.0),
        explicit_case("k = 0: nothing moves", 0, 2, 10_000.0),
        explicit_case("k = 1, d = 6", 1, 6, 10_000.0),
        explicit_case("k = 40, d = 10", 40, 10, 1_000.0),
    ],
    within=(1e-4, 1e-5),
    misconceptions=wrong_answers(
        __file__,
        matrix_columns_not_rows=lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, s, -s, c]),
        both_sines_with_plus=lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, s, s, c]),
        reflection=lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, s, s, -c]),
        pairs_taken_as_halves=_halves,
        one_angle_all_pairs=lambda k, d, base: _blocks(k, d, 1.0, lambda c, s: [c, -s, s, c]),
        only_cosines=lambda k, d, base: _blocks(k, d, base, lambda c, s: [c, 0 * s, 0 * s, c]),
        base_always_10_000=lambda k, d, base: _blocks(k, d, 10_000.0, lambda c, s: [c, -s, s, c]),
        frequencies_base_minus_i_over_d=lambda k, d, base: _blocks(k, d, base**0.5, lambda c, s: [c, -s, s, c]),
        steps_back_not_taken=lambda k, d, base: _blocks(max(k, 0), d, base, lambda c, s: [c, -s, s, c]),
        steps_back_taken_forwards=lambda k, d, base: _blocks(abs(k), d, base, lambda c, s: [c, -s, s, c]),
        negative_k_that_counts_rows_from_end=_row_counted_from_the_end,
        last_frequency_exactly_1_over_base=lambda k, d, base: _blocks(
            k, d, base ** (d / max(d - 2, 1)), lambda c, s: [c, -s, s, c]
        ),
    ),
)
