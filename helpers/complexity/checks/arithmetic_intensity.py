"""arithmetic_intensity: FLOPs of a matrix product for every byte that it moves."""

import torch

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import agree
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs

__all__ = ["arithmetic_intensity"]


@composable
def intensity(size=lambda dtype: dtype.itemsize, flops=2.0):
    return lambda n, m, k, dtype: flops * n * m * k / ((n * m + m * k + n * k) * size(dtype))


right = intensity()


def _result_in_float32(n, m, k, dtype):
    return 2 * n * m * k / ((n * m + m * k) * dtype.itemsize + 4 * n * k)


def _in_float32(n, m, k, dtype):
    return (torch.tensor(2.0 * n * m * k) / ((n * m + m * k + n * k) * dtype.itemsize)).item()


def _near_in_float32(seen):
    """A number of float32 that is right to its seven digits. (A decimal that was rounded is none of its numbers.)"""
    right = costs.arithmetic_intensity(*seen.args)
    return abs(seen.output - right) < 2**-21 * right and torch.tensor(seen.output).item() == seen.output


def from_a_list(dtype):
    return {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int8: 1}[dtype]


arithmetic_intensity = Check(
    reference=costs.arithmetic_intensity,
    cases=[
        explicit_case("float32, 64×64×64", 64, 64, 64, torch.float32),
        explicit_case("float16, 100×30×50", 100, 30, 50, torch.float16),
        explicit_case("bfloat16, one row: 1×512×300", 1, 512, 300, torch.bfloat16),
        explicit_case("float64, 7×9×11", 7, 9, 11, torch.float64),
        explicit_case("int8, 90×70×30", 90, 70, 30, torch.int8),
        explicit_case("int32, 20×70×15", 20, 70, 15, torch.int32),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        per_element=intensity(lambda dtype: 1),
        bits=intensity(lambda dtype: 8 * dtype.itemsize),
        four_bytes=intensity(lambda dtype: 4),
        four_bytes_or_two=intensity(lambda dtype: 4 if dtype == torch.float32 else 2),
        by_one_number=lambda n, m, k, dtype: 2 * n * m * k / dtype.itemsize,
        bytes_per_flop=lambda *sizes: 1 / right(*sizes),
        elements_per_flop=lambda *sizes: 1 / intensity(lambda dtype: 1)(*sizes),
        multiplied_by_bytes=intensity(lambda dtype: 1 / dtype.itemsize),
        no_2=intensity(flops=1.0),
        result_not_written=lambda n, m, k, dtype: 2 * n * m * k / ((n * m + m * k) * dtype.itemsize),
        result_in_float32=Wrong(
            _result_in_float32, recognise=lambda seen: agree(seen.output, _result_in_float32(*seen.args), EXACT)
        ),
        incomplete_list=Wrong(intensity(from_a_list), raises="KeyError"),
        only_floats=Wrong(intensity(lambda dtype: torch.finfo(dtype).bits // 8), raises="TypeError"),
        bits_of_finfo=Wrong(intensity(lambda dtype: torch.finfo(dtype).bits), raises="TypeError"),
        two_digits=lambda *sizes: round(right(*sizes), 2),
        rounded_down=lambda *sizes: right(*sizes) // 1,
        division_in_float32=Wrong(_in_float32, recognise=_near_in_float32),
    ),
)
