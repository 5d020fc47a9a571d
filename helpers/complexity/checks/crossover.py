"""crossover: the n at which attention costs as much as the rest of a layer."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs

__all__ = ["crossover"]


def _equal_traffic(d, d_ff):
    """The first n at which scores and weighted sum, of one head, move as many elements as the rest."""
    rest = lambda n: 3 * (2 * n * d + d * d) + 2 * n * d + d * d + 2 * (n * d + d * d_ff + n * d_ff)
    low, high = 1, 10**9
    while low < high:
        n = (low + high) // 2
        low, high = (low, n) if 2 * (2 * n * d + n * n) >= rest(n) else (n + 1, high)
    return float(low)


def round_end(end):
    """Whether a search may have ended there: at 100,000 or 2^20, or one beside it."""
    round_ones = {first * 10**power for first in (1, 2, 5) for power in range(2, 8)} | {2**p for p in range(8, 25)}
    return not round_ones.isdisjoint({end - 1, end, end + 1})


def _end_of_a_search(seen):
    (d, d_ff), end = seen.args, round(float(seen.output))
    return abs(seen.output - end) < 1e-3 and end < 2 * d + d_ff and round_end(end)


def _halved(d, d_ff):
    low, high = 0.0, 4.0 * d + 2 * d_ff + 1
    while high - low > 1e-4:
        n = (low + high) / 2
        low, high = (n, high) if n < 2 * d + d_ff else (low, n)
    return low


crossover = Check(
    reference=costs.crossover,
    cases=[
        explicit_case("d = 512, d_ff = 2048", 512, 2048),
        explicit_case("d = 768, no FFN", 768, 0),
        explicit_case("d = 100, d_ff = 270", 100, 270),
        explicit_case("d = 999,983, d_ff = 999,979", 999_983, 999_979),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        ends_too_early=Wrong(lambda d, d_ff: min(10**5, 2 * d + d_ff), recognise=_end_of_a_search),
        nearly=Wrong(_halved, recognise=lambda seen: 0 < abs(seen.output - costs.crossover(*seen.args)) < 0.01),
        six_d=lambda d, d_ff: 6 * d,
        no_ffn=lambda d, d_ff: 2 * d,
        three_projections=lambda d, d_ff: 1.5 * d + d_ff,
        no_weighted_sum=lambda d, d_ff: 4 * d + 2 * d_ff,
        ffn_of_one_product=lambda d, d_ff: 2 * d + d_ff / 2,
        n_is_d=lambda d, d_ff: d,
        usual_ffn=lambda d, d_ff: 2 * d + (d_ff or 4 * d),
        none_without_ffn=lambda d, d_ff: (2 * d + d_ff) * (d_ff > 0),
        elements=_equal_traffic,
        half_of_projections=lambda d, d_ff: d + d_ff,
    ),
)
