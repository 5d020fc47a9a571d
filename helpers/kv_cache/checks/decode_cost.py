"""The check of `decode_cost`."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT, WHOLE, comes_as_float
from helpers.engine.wrong_answers import wrong_answers

from .. import decoding_cost as reference

__all__ = ["decode_cost"]


def _sum_of_steps(n, d, step):
    return sum(step(t, d) for t in range(1, n + 1))


def _totals(n, d, with_cache, without):
    """The four answers that follow from two costs of a step."""
    return with_cache(n, d), without(n, d), _sum_of_steps(n, d, with_cache), _sum_of_steps(n, d, without)


def no_output_projection(n, d):
    return _totals(n, d, lambda t, d: 6 * d * d + 4 * t * d, lambda t, d: 6 * t * d * d + 4 * t * t * d)


def no_mixing(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 2 * t * d, lambda t, d: 8 * t * d * d + 2 * t * t * d)


def all_scores_with_cache(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * t * t * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def all_projections_with_cache(n, d):
    return _totals(n, d, lambda t, d: 8 * t * d * d + 4 * t * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def itself_not_seen(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * (t - 1) * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def half_the_scores(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * t * d, lambda t, d: 8 * t * d * d + 2 * t * (t + 1) * d)


def multiply_adds(n, d):
    return tuple(
        flops // 2
        for flops in _totals(n, d, lambda t, d: 8 * d * d + 4 * t * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)
    )


def n_times_the_last(n, d):
    with_cache, without = 8 * d * d + 4 * n * d, 8 * n * d * d + 4 * n * n * d
    return with_cache, without, n * with_cache, n * without


def one_pass_without(n, d):
    with_cache, without = 8 * d * d + 4 * n * d, 8 * n * d * d + 4 * n * n * d
    return with_cache, without, 8 * n * d * d + 2 * n * (n + 1) * d, without


def totals_swapped(n, d):
    with_cache, without = 8 * d * d + 4 * n * d, 8 * n * d * d + 4 * n * n * d
    all_with = 8 * n * d * d + 2 * n * (n + 1) * d
    return without, with_cache, 4 * n * (n + 1) * d * d + 2 * n * (n + 1) * (2 * n + 1) * d // 3, all_with


def vectors_for_matrices(n, d):
    return _totals(n, d, lambda t, d: 8 * d + 4 * t * d, lambda t, d: 8 * t * d + 4 * t * t * d)


def one_key_more(n, d):
    return _totals(n, d, lambda t, d: 8 * d * d + 4 * (t + 1) * d, lambda t, d: 8 * t * d * d + 4 * t * t * d)


def divided_too_early(n, d):
    return (*_totals(n, d, _with, _without)[:3], 4 * n * (n + 1) * d * d + 4 * (n * (n + 1) // 6 * (2 * n + 1)) * d)


def halved_too_early(n, d):
    """n // 2 · (n + 1) for the sum of all steps, in what it stands in."""
    steps, squares = n // 2 * (n + 1), n * (n + 1) * (2 * n + 1) // 6
    return _with(n, d), _without(n, d), 8 * n * d * d + 4 * steps * d, 8 * steps * d * d + 4 * squares * d


def mean_of_first_and_last(n, d):
    """n times the mean of the first step and the last, for both sums. Of the first it is right."""
    return *_totals(n, d, _with, _without)[:3], (_without(1, d) + _without(n, d)) * n // 2


def sums_without_the_last(n, d):
    with_cache, without, all_with, all_without = _totals(n, d, _with, _without)
    return with_cache, without, all_with - with_cache, all_without - without


def _with(t, d):
    return 8 * d * d + 4 * t * d


def _without(t, d):
    return 8 * t * d * d + 4 * t * t * d


decode_cost = Check(
    reference=reference.decode_cost,
    cases=[
        random_case(n=7, d=8),
        random_case(n=3, d=64),
        random_case(n=200, d=16),
        random_case(n=1, d=5, label="the very first token, d = 5"),
    ],
    within=EXACT,
    properties=[WHOLE],
    misconceptions=wrong_answers(
        __file__,
        comes_as_float(reference.decode_cost),
        halved_too_early=halved_too_early,
        one_flop_per_multiply_add=multiply_adds,
        three_projections_instead_four=no_output_projection,
        scores_without_mixing=no_mixing,
        all_n_squared_scores_spite_cache=all_scores_with_cache,
        all_tokens_projected_spite_cache=all_projections_with_cache,
        token_itself_not_counted=itself_not_seen,
        masked_half_left_out=half_the_scores,
        n_times_last_step=n_times_the_last,
        one_pass_instead_n_steps=one_pass_without,
        projection_that_costs_2d=vectors_for_matrices,
        n_1_keys_step_n=one_key_more,
        divided_by_6_too_early=divided_too_early,
        n_times_mean_first_step_last=mean_of_first_and_last,
        last_step_left_out_sums=sums_without_the_last,
        with_without_swapped=totals_swapped,
    ),
)
