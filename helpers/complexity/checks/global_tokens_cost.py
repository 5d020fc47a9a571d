"""global_tokens_cost: FLOPs of windows of w keys with g global tokens beside the text."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import pattern_costs

__all__ = ["global_tokens_cost"]


def _cut_window(n, w, g, d, low=None):
    """The windows of the tokens at both ends hold fewer than w."""
    low, high = (w - 1) // 2 if low is None else low, w // 2
    pairs = sum(min(n - 1, i + high) - max(0, i - low) + 1 for i in range(n))
    return 4 * d * (pairs + n * g + g * (n + g))


global_tokens_cost = Check(
    reference=pattern_costs.global_tokens_cost,
    cases=[
        random_case(n=100, w=7, g=3, d=16),
        random_case(n=4096, w=512, g=1, d=64),
        random_case(n=30, w=6, g=27, d=8),
        random_case(n=4003, w=3001, g=997, d=400_000_000_009, label="large: 12 digits count"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        globals_not_read=lambda n, w, g, d: 4 * d * (n * w + g * (n + g)),
        globals_read_nothing=lambda n, w, g, d: 4 * d * n * (w + g),
        globals_see_ordinary=lambda n, w, g, d: 4 * d * (n * (w + g) + g * n),
        globals_see_no_other=lambda n, w, g, d: 4 * d * (n * (w + g) + g * (n + 1)),
        one_more_if_even=lambda n, w, g, d: 4 * d * (n * (w // 2 * 2 + 1 + g) + g * (n + g)),
        at_most_n=lambda n, w, g, d: 4 * d * (n * min(w + g, n) + g * (n + g)),
        only_windows=lambda n, w, g, d: 4 * d * n * w,
        all_pairs=lambda n, w, g, d: 4 * d * (n + g) ** 2,
        globals_with_window=lambda n, w, g, d: 4 * d * (n + g) * (w + g),
        no_weighted_sum=lambda n, w, g, d: 2 * d * (n * (w + g) + g * (n + g)),
        globals_among_n=lambda n, w, g, d: 4 * d * ((n - g) * (w + g) + g * n),
        cut_at_ends=_cut_window,
        wider_and_cut=lambda n, w, g, d: _cut_window(n, w, g, d, low=w // 2),
        itself_added=lambda n, w, g, d: 4 * d * (n * (w + 1 + g) + g * (n + g)),
        w_each_side=lambda n, w, g, d: 4 * d * (n * (2 * w + 1 + g) + g * (n + g)),
        multiply_adds=lambda n, w, g, d: d * (n * (w + g) + g * (n + g)),
    ),
)
