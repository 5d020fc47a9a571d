"""The check of `sinusoidal_positions`."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import positions as reference

__all__ = ["sinusoidal_positions"]


def _interleaved(sines: Tensor, cosines: Tensor) -> Tensor:
    return torch.stack([sines, cosines], dim=-1).flatten(-2)


@composable
def clocks(
    exponent: Callable = lambda d: torch.arange(0, d, 2) / d,
    base: Callable = lambda base: base,
    start: int = 0,
    functions: tuple[Callable, Callable] = (torch.sin, torch.cos),
    columns: Callable = _interleaved,
) -> Callable:
    """The table with other frequencies, another beginning, or its columns otherwise."""

    def table(n: int, d: int, given: float) -> Tensor:
        angles = torch.arange(start, start + n).double()[:, None] * base(given) ** -exponent(d).double()
        return columns(*(function(angles) for function in functions)).float()

    return table


def _every_column(n, d, base):
    angles = torch.arange(n).double()[:, None] * base ** -(torch.arange(d).double() / d)
    return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos()).float()


sinusoidal_positions = Check(
    reference=reference.sinusoidal_positions,
    cases=[
        explicit_case("n = 6, d = 4", 6, 4, 10_000.0),
        explicit_case("n = 6, d = 10", 6, 10, 10_000.0),
        explicit_case("n = 6, d = 10, base 50", 6, 10, 50.0),
        explicit_case("n = 9, d = 6, base 50", 9, 6, 50.0),
        explicit_case("n = 300, d = 4: a long text", 300, 4, 10_000.0),
        explicit_case("n = 3, d = 2: a single clock", 3, 2, 10_000.0),
    ],
    within=(1e-4, 1e-4),
    misconceptions=wrong_answers(
        __file__,
        halves=clocks(columns=lambda sines, cosines: torch.cat([sines, cosines], dim=1)),
        cosine_first=clocks(functions=(torch.cos, torch.sin)),
        every_column=_every_column,
        half_the_exponent=clocks(lambda d: torch.arange(0, d, 2) / (2 * d)),
        twice_the_exponent=clocks(lambda d: 2 * torch.arange(0, d, 2) / d),
        growing=clocks(base=lambda base: 1 / base),
        last_frequency=clocks(lambda d: torch.linspace(0, 1, d // 2)),
        fixed_base=clocks(base=lambda _: 10_000.0),
        from_1=clocks(start=1),
        angles=clocks(functions=(lambda angles: angles, lambda angles: angles)),
        sines_only=clocks(functions=(torch.sin, torch.sin)),
        turned_on_its_side=clocks(columns=lambda sines, cosines: _interleaved(sines, cosines).T),
        position_and_pair_swapped=lambda n, d, base: (lambda angles: _interleaved(angles.sin(), angles.cos()).float())(
            torch.arange(0, d, 2).double() * base ** -(torch.arange(n).double() / n)[:, None]
        ),
    ),
)
