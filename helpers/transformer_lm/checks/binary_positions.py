"""The check of `binary_positions`."""

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import positions as reference

__all__ = ["binary_positions"]


def _digits(n, d, order=1, start=0):
    table = (torch.arange(start, start + n)[:, None] >> torch.arange(d)) & 1
    return table.float().flip(1) if order < 0 else table.float()


def _as_long_as_it_takes(n, d):
    return torch.tensor([[float(digit) for digit in reversed(format(t, f"0{d}b"))] for t in range(n)])


def _leading_digits(n, d):
    return torch.tensor([[float(digit) for digit in reversed(format(t, f"0{d}b")[:d])] for t in range(n)])


binary_positions = Check(
    reference=reference.binary_positions,
    cases=[
        explicit_case("n = 8, d = 3: the positions 0 … 7", 8, 3),
        explicit_case("n = 5, d = 4", 5, 4),
        explicit_case("n = 11, d = 3: more positions than codes", 11, 3),
        explicit_case("n = 5, d = 7", 5, 7),
        explicit_case("n = 300, d = 9: more positions than a byte counts", 300, 9),
        explicit_case("n = 3, d = 60: powers beyond int32", 3, 60),
    ],
    misconceptions=wrong_answers(
        __file__,
        highest_first=lambda n, d: _digits(n, d, order=-1),
        from_1=lambda n, d: _digits(n, d, start=1),
        minus_1_and_1=lambda n, d: 2 * _digits(n, d) - 1,
        along_columns=lambda n, d: _digits(n, d).T,
        one_hot=lambda n, d: torch.eye(max(n, d))[:n, :d],
        decimals=lambda n, d: ((torch.arange(n)[:, None] // 10 ** torch.arange(d)) % 10).float(),
        no_remainder=lambda n, d: (torch.arange(n)[:, None] // 2 ** torch.arange(d)).float(),
        no_division=lambda n, d: (torch.arange(n)[:, None] % 2 ** torch.arange(d)).float(),
        fractions=lambda n, d: (torch.arange(n)[:, None] / 2 ** torch.arange(d)) % 2,
        uncut=Wrong(_as_long_as_it_takes, raises="ValueError"),
        leading_digits=_leading_digits,
        int32=Wrong(
            lambda n, d: (torch.arange(n)[:, None] // 2 ** torch.arange(d, dtype=torch.int32) % 2).float(),
            raises="RuntimeError",
        ),
        eight_bits=lambda n, d: _digits(256, d).repeat(n // 256 + 1, 1)[:n],
    ),
)
