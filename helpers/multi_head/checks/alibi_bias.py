"""The check of ALiBi's bias. What it asks for is counted, not drawn: n and h are all its inputs."""

import torch

from helpers.engine.cases import random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.requirements import Behaviour

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
    cases=[random_case(n=5, h=4), random_case(n=3, h=2), random_case(n=6, h=1), random_case(n=4, h=8), random_case(n=7, h=16), random_case(n=4, h=6),
           random_case(n=6, h=8)],  # some agree in n, others in h: a bias that was kept for one of the two is found
    behaviours=[
        Behaviour(
            "float32", lambda seen: seen.output.dtype == torch.float32 or seen.args[1] < 8,  # a dtype costs no more than these cases
            "The numbers are right, but they are not in float32, and added to scores in float32 they would change the scores' dtype.",
        )
    ],
    misconceptions=[
        Misconception(
            "heads numbered from 0", heads_numbered_from_0,
            "The first head has k = 1, so its slope is 2^(−8/h). With k = 0 it would be 1, and the last slope, 2^(−8), would be missing.",
        ),
        Misconception(
            "slopes ½, ¼, ⅛, … for any number of heads", halves_for_any_h,
            "That is right only for 8 heads. The last slope is 2^(−8) whatever h is, so with fewer heads the steps are larger.",
        ),
        Misconception(
            "one slope for all heads", one_slope_for_all_heads,
            "Every head has a slope of its own: some look near, others far.",
        ),
        Misconception("slopes in reverse order", slopes_in_reverse, "The first head has the steepest slope, the last one the flattest."),
        Misconception(
            "slopes that are evenly spaced", evenly_spaced_slopes,
            "The slopes are a geometric sequence: each is the one before times 2^(−8/h).",
        ),
        Misconception("the far preferred to the near", the_far_preferred, "A bias that grows with the distance rewards what is far away. It should cost something."),
        Misconception(
            "later keys left open", later_keys_left_open,
            "For j > i the distance i − j is negative, so your bias rewards the future. Later keys get −∞.",
        ),
        Misconception("later keys at 0", later_keys_at_zero, "A bias of 0 hides nothing: it is the best there is. Later keys get −∞."),
        Misconception(
            "distances to both sides", distance_both_ways,
            "This model writes from left to right. Keys to the right of the query get −∞, not a distance.",
        ),
        Misconception("queries and keys swapped", queries_and_keys_swapped, "Rows are queries, columns keys: row 0 sees only itself, the last row sees all."),
        Misconception("a token at distance 1 from itself", own_token_at_distance_1, "A token is at distance 0 from itself: the diagonal is 0."),
        Misconception(
            "the place of the key instead of the distance", place_of_the_key_alone,
            "What counts is how far the key lies behind the query, i − j, not where it stands.",
        ),
        Misconception(
            "an exponent that is rounded down",
            lambda n, h: _bias([2.0 ** -(8 * k // h) for k in range(1, h + 1)], _distance(n), _later(n)),
            "`8 * k // h` is a whole number, and 8k/h need not be one: with 6 heads the first slope is 2^(−8/6). Divide with `/`.",
        ),
        Misconception(
            "8/h rounded down to a whole number",
            lambda n, h: _bias([2.0 ** -(8 // h * k) for k in range(1, h + 1)], _distance(n), _later(n)),
            "`8 // h` is 8/h only where h divides 8: for 16 heads it is 0, and all slopes are 1. Divide with `/`.",
        ),
        Misconception(
            "an exponent that is rounded away from 0",
            lambda n, h: _bias([2.0 ** (-8 * k // h) for k in range(1, h + 1)], _distance(n), _later(n)),
            "`//` rounds down, and below 0 that is away from 0: −8/6 becomes −2. With 6 heads the first slope is 2^(−8/6). Divide with `/`.",
        ),
        Misconception(
            "slopes from the next powers of two", slopes_of_released_code,
            "That is what released code does where h is no power of two: the slopes of the power below, then every second one of the power above. The formula here "
            "is 2^(−8k/h) for every h.",
        ),
        Misconception(
            "float64", lambda n, h: _bias(_slopes(h), _distance(n), _later(n)).double(),
            "Python's numbers leave a tensor's dtype as it is; `dtype=torch.float64`, `.double()` and NumPy's arrays don't. `.float()` makes float32.",
            cost=lambda seen: seen.output.dtype == torch.float64,
        ),
        Misconception(
            "zero times infinity", zero_times_infinity,
            "0 · ∞ is NaN, so a product with ∞ spoils every entry that should stay. Use `masked_fill` or `torch.where`.",
        ),
        Misconception(
            "the diagonal hidden too",
            lambda n, h: _bias(_slopes(h), _distance(n), torch.ones(n, n, dtype=torch.bool).triu()),
            "A token sees itself: j = i is not later, and its bias is 0. `triu(1)` starts above the diagonal.",
        ),
        Misconception(
            "a large number for −∞",
            lambda n, h: _bias(_slopes(h), _distance(n), torch.zeros(n, n, dtype=torch.bool)).masked_fill(_later(n), -1e9),
            "−∞ is asked for: `-torch.inf`. A finite number hides only what is far above it.",
            _finite_for_infinity,
        ),
        Misconception(
            "slopes evenly spaced between the first and the last",
            lambda n, h: _bias(torch.linspace(2 ** (-8 / h), 2**-8, h), _distance(n), _later(n)),
            "The first and the last slope are right. In between they are a geometric sequence: each is the one before times 2^(−8/h).",
        ),
        Misconception(
            "heads that share one memory", heads_in_one_memory,
            "`expand` makes no copies: all heads are the same numbers, and a change in place to one of them changes all. So each has got the slopes of all h heads "
            "as factors. Multiply into a new tensor.",
        ),
        Misconception(
            "slopes that don't know h",
            lambda n, h: _bias([2.0 ** (-8 * k) for k in range(1, h + 1)], _distance(n), _later(n)),
            "Your slopes are 2^(−8k), which is next to nothing for all heads but the first. The exponent is −8k/h: so the last slope is 2^(−8), and all others are larger.",
        ),
        Misconception(
            "factors instead of terms", lambda n, h: _bias(_slopes(h), _distance(n), _later(n)).exp(),
            "e^bias is what the weights are multiplied by in the end. Asked for is the bias itself, which is added to the scores.",
        ),
    ],
)  # fmt: skip
