"""The check of `sinusoidal_positions`."""

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import positions as reference

__all__ = ["sinusoidal_positions"]


def _angles(n, d, base=10_000.0, exponent=None, start=0):
    exponent = torch.arange(0, d, 2) / d if exponent is None else exponent
    return torch.arange(start, start + n, dtype=torch.float64)[:, None] * base ** -exponent.double()


def _interleaved(angles, first=torch.sin, second=torch.cos):
    return torch.stack([first(angles), second(angles)], dim=-1).flatten(-2).float()


def _every_column(n, d, base):
    angles = _angles(n, d, base, torch.arange(d) / d)
    return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos()).float()


def _one_pair_too_fast(n, d, base):
    return _interleaved(_angles(n, d, base, torch.arange(0, d, 2) / (2 * d)))


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
        halves=lambda n, d, base: torch.cat([_angles(n, d, base).sin(), _angles(n, d, base).cos()], dim=1).float(),
        cosine_first=lambda n, d, base: _interleaved(_angles(n, d, base), torch.cos, torch.sin),
        every_column=_every_column,
        half_the_exponent=_one_pair_too_fast,
        twice_the_exponent=lambda n, d, base: _interleaved(_angles(n, d, base, 2 * torch.arange(0, d, 2) / d)),
        growing=lambda n, d, base: _interleaved(_angles(n, d, 1 / base)),
        last_frequency=lambda n, d, base: _interleaved(_angles(n, d, base, torch.linspace(0, 1, d // 2))),
        fixed_base=lambda n, d, base: _interleaved(_angles(n, d)),
        from_1=lambda n, d, base: _interleaved(_angles(n, d, base, start=1)),
        angles=lambda n, d, base: _angles(n, d, base).repeat_interleave(2, dim=1).float(),
        sines_only=lambda n, d, base: _interleaved(_angles(n, d, base), torch.sin, torch.sin),
        turned_on_its_side=lambda n, d, base: _interleaved(_angles(n, d, base)).T,
        position_and_pair_swapped=lambda n, d, base: _interleaved(
            torch.arange(0, d, 2).double() * base ** -(torch.arange(n).double() / n)[:, None]
        ),
    ),
)
