"""The check of ALiBi's bias. What it asks for is counted, not drawn: n and h are all its inputs."""

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.requirements import Behaviour
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..alibi_bias import alibi_bias as reference

__all__ = ["alibi_bias"]


def _bias(slopes, distance, hidden):
    return (-torch.as_tensor(slopes)[:, None, None] * distance).masked_fill(hidden, -torch.inf)


def _slopes(h):
    return [2.0 ** (-8 * k / h) for k in range(1, h + 1)]


def _distance(n):
    return (torch.arange(n)[:, None] - torch.arange(n)).float()


def _later(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def heads_numbered_from_0(n, h):
    return _bias([2.0 ** (-8 * k / h) for k in range(h)], _distance(n), _later(n))


def halves_for_any_h(n, h):
    return _bias([2.0**-k for k in range(1, h + 1)], _distance(n), _later(n))


def one_slope_for_all_heads(n, h):
    return _bias([2.0 ** (-8 / h)] * h, _distance(n), _later(n))


def slopes_in_reverse(n, h):
    return _bias(_slopes(h)[::-1], _distance(n), _later(n))


def evenly_spaced_slopes(n, h):
    return _bias([k / h for k in range(h, 0, -1)], _distance(n), _later(n))


def the_far_preferred(n, h):
    return _bias([-m for m in _slopes(h)], _distance(n), _later(n))


def later_keys_left_open(n, h):
    return _bias(_slopes(h), _distance(n), torch.zeros(n, n, dtype=torch.bool))


def later_keys_at_zero(n, h):
    return _bias(_slopes(h), _distance(n).tril(), torch.zeros(n, n, dtype=torch.bool))


def distance_both_ways(n, h):
    return _bias(_slopes(h), _distance(n).abs(), torch.zeros(n, n, dtype=torch.bool))


def queries_and_keys_swapped(n, h):
    return _bias(_slopes(h), _distance(n), _later(n)).mT


def own_token_at_distance_1(n, h):
    return _bias(_slopes(h), _distance(n) + 1, _later(n))


def place_of_the_key_alone(n, h):
    return _bias(_slopes(h), -torch.arange(n).float().expand(n, n), _later(n))


def slopes_of_released_code(n, h):
    below = 2 ** (h.bit_length() - 1)
    return _bias(_slopes(below) + _slopes(2 * below)[::2][: h - below], _distance(n), _later(n))


def zero_times_infinity(n, h):
    return _bias(_slopes(h), _distance(n), torch.zeros(n, n, dtype=torch.bool)) + _later(n).float() * -torch.inf


def _finite_for_infinity(seen) -> bool:
    """Later keys have large negative numbers, and all others are right."""
    right, later = reference(*seen.args), _later(seen.args[0])
    hidden = seen.output[:, later]
    fits = torch.allclose(seen.output[:, ~later].double(), right[:, ~later].double(), rtol=1e-4, atol=1e-5)
    return fits and bool(hidden.isfinite().all() and (hidden < -1000).all())


def heads_in_one_memory(n, h):
    bias = _bias([1.0], _distance(n), _later(n)).expand(h, n, n)
    for k, slope in enumerate(_slopes(h)):
        bias[k].mul_(slope)
    return bias


alibi_bias = Check(
    reference=reference,
    cases=[
        random_case(n=5, h=4),
        random_case(n=3, h=2),
        random_case(n=6, h=1),
        random_case(n=4, h=8),
        random_case(n=7, h=16),
        random_case(n=4, h=6),
        random_case(n=6, h=8),
    ],  # some agree in n, others in h: a bias that was kept for one of the two is found
    behaviours=[
        Behaviour(
            "float32",
            lambda seen: (
                seen.output.dtype == torch.float32 or seen.args[1] < 8
            ),  # a dtype costs no more than these cases
            "The numbers are right, but they are not in float32, and added to scores in float32 they would change the scores' dtype.",
        )
    ],
    misconceptions=wrong_answers(
        __file__,
        heads_numbered_from_0=heads_numbered_from_0,
        slopes_12_14_18_any_number_heads=halves_for_any_h,
        one_slope_all_heads=one_slope_for_all_heads,
        slopes_reverse_order=slopes_in_reverse,
        slopes_that_evenly_spaced=evenly_spaced_slopes,
        far_preferred_near=the_far_preferred,
        later_keys_left_open=later_keys_left_open,
        later_keys_at_0=later_keys_at_zero,
        distances_both_sides=distance_both_ways,
        queries_keys_swapped=queries_and_keys_swapped,
        token_at_distance_1_from_itself=own_token_at_distance_1,
        place_key_instead_distance=place_of_the_key_alone,
        exponent_that_rounded_down=lambda n, h: _bias(
            [2.0 ** -(8 * k // h) for k in range(1, h + 1)], _distance(n), _later(n)
        ),
        with_8_over_h_rounded_down_whole_number=lambda n, h: _bias(
            [2.0 ** -(8 // h * k) for k in range(1, h + 1)], _distance(n), _later(n)
        ),
        exponent_that_rounded_away_from_0=lambda n, h: _bias(
            [2.0 ** (-8 * k // h) for k in range(1, h + 1)], _distance(n), _later(n)
        ),
        slopes_from_next_powers_two=slopes_of_released_code,
        float64=Wrong(
            lambda n, h: _bias(_slopes(h), _distance(n), _later(n)).double(),
            cost=lambda seen: seen.output.dtype == torch.float64,
        ),
        zero_times_infinity=zero_times_infinity,
        diagonal_hidden_too=lambda n, h: _bias(_slopes(h), _distance(n), torch.ones(n, n, dtype=torch.bool).triu()),
        large_number_minus=Wrong(
            lambda n, h: _bias(_slopes(h), _distance(n), torch.zeros(n, n, dtype=torch.bool)).masked_fill(
                _later(n), -1e9
            ),
            recognise=_finite_for_infinity,
        ),
        slopes_evenly_spaced_between_first_last=lambda n, h: _bias(
            torch.linspace(2 ** (-8 / h), 2**-8, h), _distance(n), _later(n)
        ),
        heads_that_share_one_memory=heads_in_one_memory,
        slopes_that_dont_know_h=lambda n, h: _bias([2.0 ** (-8 * k) for k in range(1, h + 1)], _distance(n), _later(n)),
        factors_instead_terms=lambda n, h: _bias(_slopes(h), _distance(n), _later(n)).exp(),
    ),
)
