"""The check of `alibi_bias`. What it asks for is counted, not drawn: n and h are all its inputs."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.requirements import Behaviour
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..alibi_bias import alibi_bias as reference

__all__ = ["alibi_bias"]


def _slopes(h) -> list[float]:
    return [2.0 ** (-8 * k / h) for k in range(1, h + 1)]


def _distance(n) -> Tensor:
    return (torch.arange(n)[:, None] - torch.arange(n)).float()


def _later(n) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def _none(n) -> Tensor:
    return torch.zeros(n, n, dtype=torch.bool)


@composable
def bias(
    slopes: Callable = _slopes, distance: Callable = _distance, hidden: Callable = _later
) -> Callable[..., Tensor]:
    """The bias with other slopes of h heads, or another distance or mask of n tokens."""

    def answer(n, h) -> Tensor:
        return (-torch.as_tensor(slopes(h))[:, None, None] * distance(n)).masked_fill(hidden(n), -torch.inf)

    return answer


def each(slope: Callable) -> Callable[..., Tensor]:
    """The bias with `slope(k, h)` of heads k = 1 … h."""
    return bias(lambda h: [slope(k, h) for k in range(1, h + 1)])


def slopes_of_released_code(h) -> list[float]:
    below = 2 ** (h.bit_length() - 1)
    return _slopes(below) + _slopes(2 * below)[::2][: h - below]


def zero_times_infinity(n, h) -> Tensor:
    return bias(hidden=_none)(n, h) + _later(n).float() * -torch.inf


def in_one_memory(n, h) -> Tensor:
    shared = bias(lambda h: [1.0])(n, h).expand(h, n, n)
    for k, slope in enumerate(_slopes(h)):
        shared[k].mul_(slope)
    return shared


def _finite_for_infinity(seen) -> bool:
    """Later keys have large negative numbers, and all others are right."""
    right, later = reference(*seen.args), _later(seen.args[0])
    hidden = seen.output[:, later]
    fits = torch.allclose(seen.output[:, ~later].double(), right[:, ~later].double(), rtol=1e-4, atol=1e-5)
    return fits and bool(hidden.isfinite().all() and (hidden < -1000).all())


alibi_bias = Check(
    reference=reference,
    # some agree in n, others in h: a bias that was kept for one of the two is found
    cases=[random_case(n=n, h=h) for n, h in ((5, 4), (3, 2), (6, 1), (4, 8), (7, 16), (4, 6), (6, 8))],
    behaviours=[
        Behaviour(
            "float32",  # costs no more than the cases with many heads
            lambda seen: seen.output.dtype == torch.float32 or seen.args[1] < 8,
            "The numbers are right, but they are not in float32, and added to scores in float32 they would change the "
            "scores' dtype.",
        )
    ],
    misconceptions=wrong_answers(
        __file__,
        from_0=each(lambda k, h: 2.0 ** (-8 * (k - 1) / h)),
        halves=each(lambda k, h: 2.0**-k),
        one_slope=each(lambda k, h: 2.0 ** (-8 / h)),
        reversed=bias(lambda h: _slopes(h)[::-1]),
        evenly_spaced=each(lambda k, h: (h + 1 - k) / h),
        far_preferred=bias(distance=lambda n: -_distance(n)),
        later_open=bias(hidden=_none),
        later_at_0=bias(distance=lambda n: _distance(n).tril(), hidden=_none),
        both_sides=bias(distance=lambda n: _distance(n).abs(), hidden=_none),
        no_distance=Wrong(
            bias(distance=lambda n: torch.ones(n, n)),
            variants=(bias(distance=lambda n: torch.ones(n, n).tril(), hidden=_none),),
        ),
        swapped=lambda n, h: bias()(n, h).mT,
        distance_1=bias(distance=lambda n: _distance(n) + 1),
        place_of_key=bias(distance=lambda n: -torch.arange(n).float().expand(n, n)),
        rounded_down=each(lambda k, h: 2.0 ** -(8 * k // h)),
        whole_8_over_h=each(lambda k, h: 2.0 ** -(8 // h * k)),
        rounded_away=each(lambda k, h: 2.0 ** (-8 * k // h)),
        next_powers=bias(slopes_of_released_code),
        float64=Wrong(lambda n, h: bias()(n, h).double(), cost=lambda seen: seen.output.dtype == torch.float64),
        zero_times_infinity=zero_times_infinity,
        diagonal_hidden=bias(hidden=lambda n: torch.ones(n, n, dtype=torch.bool).triu()),
        large_number=Wrong(lambda n, h: bias()(n, h).masked_fill(_later(n), -1e9), recognise=_finite_for_infinity),
        first_to_last=bias(lambda h: torch.linspace(2 ** (-8 / h), 2**-8, h)),
        in_one_memory=in_one_memory,
        without_h=each(lambda k, h: 2.0 ** (-8 * k)),
        factors=lambda n, h: bias()(n, h).exp(),
    ),
)
