"""The check of `arithmetic_intensity`."""

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.compare import agree
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import costs

__all__ = ["arithmetic_intensity"]


def _intensity(n, m, k, size, flops=2.0):
    return flops * n * m * k / ((n * m + m * k + n * k) * size)


def _result_in_float32(n, m, k, dtype):
    return 2 * n * m * k / ((n * m + m * k) * dtype.itemsize + 4 * n * k)


def _in_float32(n, m, k, dtype):
    return (torch.tensor(2.0 * n * m * k) / ((n * m + m * k + n * k) * dtype.itemsize)).item()


def _near_in_float32(seen):
    """A number of float32 that is right to its seven digits. (A decimal that was rounded is none of its numbers.)"""
    right = costs.arithmetic_intensity(*seen.args)
    return abs(seen.output - right) < 2**-21 * right and torch.tensor(seen.output).item() == seen.output


def _by_a_list(n, m, k, dtype):
    sizes = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int8: 1}
    return _intensity(n, m, k, sizes[dtype])


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
        per_element_instead_per_byte=lambda n, m, k, dtype: _intensity(n, m, k, 1),
        bits_instead_bytes=lambda n, m, k, dtype: _intensity(n, m, k, 8 * dtype.itemsize),
        with_4_bytes_whatever_dtype=lambda n, m, k, dtype: _intensity(n, m, k, 4),
        bytes_per_flop=lambda n, m, k, dtype: 1 / _intensity(n, m, k, dtype.itemsize),
        no_2_flops=lambda n, m, k, dtype: _intensity(n, m, k, dtype.itemsize, flops=1.0),
        result_not_written=lambda n, m, k, dtype: 2 * n * m * k / ((n * m + m * k) * dtype.itemsize),
        multiplied_by_bytes=lambda n, m, k, dtype: _intensity(n, m, k, 1 / dtype.itemsize),
        result_float32_whatever_dtype=Wrong(
            _result_in_float32, recognise=lambda seen: agree(seen.output, _result_in_float32(*seen.args), EXACT)
        ),
        with_4_bytes_or_2=lambda n, m, k, dtype: _intensity(n, m, k, 4 if dtype == torch.float32 else 2),
        incomplete_list_dtypes=Wrong(_by_a_list, raises="KeyError"),
        rounded_two_digits=lambda n, m, k, dtype: round(_intensity(n, m, k, dtype.itemsize), 2),
        rounded_down_whole_number=lambda n, m, k, dtype: _intensity(n, m, k, dtype.itemsize) // 1,
        only_floating_point_dtypes=Wrong(
            lambda n, m, k, dtype: _intensity(n, m, k, torch.finfo(dtype).bits // 8), raises="TypeError"
        ),
        bits_from_torch_finfo=Wrong(
            lambda n, m, k, dtype: _intensity(n, m, k, torch.finfo(dtype).bits), raises="TypeError"
        ),
        division_float32=Wrong(_in_float32, recognise=_near_in_float32),
        elements_per_flop=lambda n, m, k, dtype: 1 / _intensity(n, m, k, 1),
    ),
)
