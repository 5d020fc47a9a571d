"""vit_windows: what full attention between the patches of a picture costs, and attention in windows of them."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import pattern_costs

__all__ = ["vit_windows"]


def costs(keys, n=lambda side, patch: (side // patch) ** 2, times=4):
    """keys: (side, patch, window) → keys of a patch. n: patches. times: FLOPs of a pair and feature."""

    def both(side, patch, window, d):
        patches = n(side, patch)
        return times * patches * patches * d, times * patches * keys(side, patch, window) * d

    return both


def area(side, patch, window):
    return window**2


def windowed(pairs):
    """Full attention is right. pairs: (patches in a row, window) → all pairs in windows."""
    return lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 4 * pairs(side // patch, window) * d)


def sliding(row, window):
    low, high = window // 2, (window - 1) // 2
    return sum(min(i + high, row - 1) - max(i - low, 0) + 1 for i in range(row)) ** 2


vit_windows = Check(
    reference=pattern_costs.vit_windows,
    cases=[
        random_case(side=224, patch=16, window=7, d=96),
        random_case(side=64, patch=8, window=2, d=5),
        random_case(side=90, patch=3, window=5, d=32),
        random_case(side=192, patch=2, window=6, d=17),
        random_case(side=9999, patch=11, window=9, d=12_000_000_019, label="large: 12 digits count"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        one_side=costs(area, n=lambda side, patch: side // patch),
        pixels=costs(area, n=lambda side, patch: side**2),
        side_of_window=costs(lambda side, patch, window: window),
        one_window=windowed(lambda row, window: window**4),
        no_weighted_sum=costs(area, times=2),
        multiply_adds=costs(area, times=1),
        n_and_d_swapped=lambda side, patch, window, d: (4 * (side // patch) ** 2 * d * d, 4 * window**2 * d * d),
        windows_in_pixels=costs(lambda side, patch, window: (window / patch) ** 2),
        windows_cut_into_patches=costs(lambda side, patch, window: max(1, window // patch) ** 2),
        patches_for_pairs=costs(lambda side, patch, window: 1),
        rounded_to_nothing=costs(lambda side, patch, window: (window // patch) ** 2),
        counted_in_pixels=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            4 * (side // window) ** 2 * window**4 * d,
        ),
        one_row=windowed(lambda row, window: row // window * window**4),
        one_row_twice=windowed(lambda row, window: 2 * (row // window) * window**4),
        patches_by_windows=windowed(lambda row, window: row**2 * window**3),
        sliding=windowed(sliding),
        no_weighted_sum_in_windows=lambda side, patch, window, d: (
            4 * (side // patch) ** 4 * d,
            2 * (side // patch * window) ** 2 * d,
        ),
        two_swapped=lambda *sizes: costs(area)(*sizes)[::-1],
        windows_for_patches=windowed(lambda row, window: (row // window) ** 4),
    ),
)
