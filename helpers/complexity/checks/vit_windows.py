"""The check of `vit_windows`."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.wrong_answers import wrong_answers

from .. import pattern_costs

__all__ = ["vit_windows"]


def _windows(side, patch, keys, d, *, n=None, factor=4):
    n = (side // patch) ** 2 if n is None else n
    return factor * n * n * d, factor * n * keys * d


def _sliding_windows(side, patch, window, d):
    per_side, low, high = side // patch, window // 2, (window - 1) // 2
    seen = sum(min(i + high, per_side - 1) - max(i - low, 0) + 1 for i in range(per_side))
    return 4 * per_side**4 * d, 4 * seen**2 * d


vit_windows = Check(
    reference=pattern_costs.vit_windows,
    cases=[
        random_case(side=224, patch=16, window=7, d=96),
        random_case(side=64, patch=8, window=2, d=5),
        random_case(side=90, patch=3, window=5, d=32),
        random_case(side=192, patch=2, window=6, d=17),
        random_case(side=9999, patch=11, window=9, d=12_000_000_019, label="large: every digit counts"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        patches_along_one_side=lambda side, patch, window, d: _windows(side, patch, window**2, d, n=side // patch),
        pixels_instead_patches=lambda side, patch, window, d: _windows(side, patch, window**2, d, n=side**2),
        windows_side_instead_area=lambda side, patch, window, d: _windows(side, patch, window, d),
        one_window_only=lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 4 * window**4 * d),
        weighted_sum_forgotten=lambda side, patch, window, d: _windows(side, patch, window**2, d, factor=2),
        multiply_adds_instead_flops=lambda side, patch, window, d: _windows(side, patch, window**2, d, factor=1),
        n_d_swapped=lambda side, patch, window, d: (4 * (side // patch) ** 2 * d * d, 4 * window**2 * d * d),
        windows_pixels=lambda side, patch, window, d: _windows(side, patch, (window / patch) ** 2, d),
        windows_pixels_cut_into_patches=lambda side, patch, window, d: _windows(
            side, patch, max(1, window // patch) ** 2, d
        ),
        windows_patches_taken_pairs=lambda side, patch, window, d: _windows(side, patch, 1, d),
        windows_pixels_rounded_down_nothing=lambda side, patch, window, d: _windows(
            side, patch, (window // patch) ** 2, d
        ),
        windows_counted_pixels=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            4 * (side // window) ** 2 * window**4 * d,
        ),
        windows_one_row=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            4 * (side // patch // window) * window**4 * d,
        ),
        twice_windows_row=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            8 * (side // patch // window) * window**4 * d,
        ),
        as_many_windows_as_patches_by_windows=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            4 * (side // patch) ** 2 * window**3 * d,
        ),
        windows_that_slide_end_at_border=_sliding_windows,
        weighted_sum_forgotten_windows=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            2 * (side // patch * window) ** 2 * d,
        ),
        two_swapped=lambda side, patch, window, d: _windows(side, patch, window**2, d)[::-1],
        windows_that_attend_each_other=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            4 * (side // patch // window) ** 4 * d,
        ),
    ),
)
