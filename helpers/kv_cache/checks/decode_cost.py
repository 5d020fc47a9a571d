"""FLOPs of step n and of n steps, with a cache and without."""

from collections.abc import Callable

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import decoding_cost as reference

__all__ = ["decode_cost"]


def with_cache(t: int, d: int) -> int:
    return 8 * d * d + 4 * t * d


def without(t: int, d: int) -> int:
    return 8 * t * d * d + 4 * t * t * d


def both(n: int, d: int) -> tuple[int, int]:
    return with_cache(n, d), without(n, d)


@composable
def counted(cached: Callable = with_cache, plain: Callable = without) -> Callable:
    """The four answers that follow from two costs of a step, in terms of t and d."""

    def answer(n: int, d: int) -> tuple[int, int, int, int]:
        steps = range(1, n + 1)
        return cached(n, d), plain(n, d), sum(cached(t, d) for t in steps), sum(plain(t, d) for t in steps)

    return answer


right = counted()


def halved_too_early(n, d):
    """n // 2 · (n + 1) for the sum of all steps, in what it stands in."""
    steps, squares = n // 2 * (n + 1), n * (n + 1) * (2 * n + 1) // 6
    return *both(n, d), 8 * n * d * d + 4 * steps * d, 8 * steps * d * d + 4 * squares * d


def divided_too_early(n, d):
    return *right(n, d)[:3], 4 * n * (n + 1) * d * d + 4 * (n * (n + 1) // 6 * (2 * n + 1)) * d


decode_cost = Check(
    reference=reference.decode_cost,
    cases=[
        random_case(n=7, d=8),
        random_case(n=3, d=64),
        random_case(n=200, d=16),
        random_case(n=1, d=5, label="the very first token, d = 5"),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        halved_too_early=halved_too_early,
        multiply_adds=lambda n, d: tuple(flops // 2 for flops in right(n, d)),
        three_projections=counted(lambda t, d: 6 * d * d + 4 * t * d, lambda t, d: 6 * t * d * d + 4 * t * t * d),
        one_projection=counted(lambda t, d: 2 * d * d + 4 * t * d, lambda t, d: 2 * t * d * d + 4 * t * t * d),
        no_mixing=counted(lambda t, d: 8 * d * d + 2 * t * d, lambda t, d: 8 * t * d * d + 2 * t * t * d),
        all_scores=counted(cached=lambda t, d: 8 * d * d + 4 * t * t * d),
        all_projected=counted(cached=lambda t, d: 8 * t * d * d + 4 * t * d),
        itself_not_counted=counted(cached=lambda t, d: 8 * d * d + 4 * (t - 1) * d),
        masked_half_left_out=counted(plain=lambda t, d: 8 * t * d * d + 2 * t * (t + 1) * d),
        n_times_last=lambda n, d: (*both(n, d), n * with_cache(n, d), n * without(n, d)),
        one_pass=lambda n, d: (*right(n, d)[:3], without(n, d)),
        projection_of_2d=counted(lambda t, d: 8 * d + 4 * t * d, lambda t, d: 8 * t * d + 4 * t * t * d),
        one_key_more=counted(cached=lambda t, d: 8 * d * d + 4 * (t + 1) * d),
        divided_too_early=divided_too_early,
        n_times_mean=lambda n, d: (*right(n, d)[:3], (without(1, d) + without(n, d)) * n // 2),
        without_the_last=lambda n, d: (
            *both(n, d),
            *(total - last for total, last in zip(right(n, d)[2:], both(n, d))),
        ),
        swapped=lambda n, d: tuple(right(n, d)[i] for i in (1, 0, 3, 2)),
    ),
)
