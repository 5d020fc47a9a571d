"""Check of the roofline: what a device can reach, and what holds it back."""

import math

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import roofline as reference

__all__ = ["roofline"]


def _attainable(flops, elements, size, peak, bandwidth):
    fed = flops / (elements * size) * bandwidth
    return min(peak, fed), "memory" if fed < peak else "compute"


def highest_ceiling(flops, elements, dtype, peak, bandwidth):
    fed = flops / (elements * dtype.itemsize) * bandwidth
    return max(peak, fed), "memory" if fed < peak else "compute"


def names_swapped(flops, elements, dtype, peak, bandwidth):
    fed = flops / (elements * dtype.itemsize) * bandwidth
    return min(peak, fed), "compute" if fed < peak else "memory"


def one_after_the_other(flops, elements, dtype, peak, bandwidth):
    computing, moving = flops / peak, elements * dtype.itemsize / bandwidth
    return flops / (computing + moving), "memory" if moving > computing else "compute"


def upside_down(flops, elements, dtype, peak, bandwidth):
    fed = elements * dtype.itemsize / flops * bandwidth if flops else math.inf
    return min(peak, fed), "memory" if fed < peak else "compute"


def memory_at_the_ridge(flops, elements, dtype, peak, bandwidth):
    fed = flops / (elements * dtype.itemsize) * bandwidth
    return min(peak, fed), "memory" if fed <= peak else "compute"


def a_rounded_ridge(flops, elements, dtype, peak, bandwidth):
    intensity = flops / (elements * dtype.itemsize)
    return min(peak, intensity * bandwidth), "memory" if intensity < peak // bandwidth else "compute"


def limit_by_elements(flops, elements, dtype, peak, bandwidth):
    reached, _ = _attainable(flops, elements, dtype.itemsize, peak, bandwidth)
    return reached, _attainable(flops, elements, 1, peak, bandwidth)[1]


def no_roof(flops, elements, dtype, peak, bandwidth):
    fed = flops / (elements * dtype.itemsize) * bandwidth
    return fed, "memory" if fed < peak else "compute"


def share_of_the_peak(flops, elements, dtype, peak, bandwidth):
    reached, limit = _attainable(flops, elements, dtype.itemsize, peak, bandwidth)
    return reached / peak, limit


def seconds(flops, elements, dtype, peak, bandwidth):
    computing, moving = flops / peak, elements * dtype.itemsize / bandwidth
    return max(computing, moving), "memory" if moving > computing else "compute"


def divided_by_the_flops(flops, elements, dtype, peak, bandwidth):
    moved = elements * dtype.itemsize
    if moved / flops * peak > bandwidth:
        return flops / moved * bandwidth, "memory"
    return peak, "compute"


def limit_by_a_quotient(flops, elements, dtype, peak, bandwidth):
    reached = flops / max(flops / peak, elements * dtype.itemsize / bandwidth)
    return reached, "compute" if reached == peak else "memory"


def only_floating_dtypes(flops, elements, dtype, peak, bandwidth):
    return _attainable(flops, elements, torch.finfo(dtype).bits // 8, peak, bandwidth)


N = 4107  # of a product with so many rows flops / (flops / peak) is less than the peak, in the last digit, and so is 1 / (1 / peak)

roofline = Check(
    reference=reference.roofline,
    cases=[
        explicit_case("V100, a large product in float16", 2 * N**3, 3 * N**2, torch.float16, 125e12, 900e9),
        explicit_case("T4, one row in float16", 2 * 4096**2, 4096**2 + 2 * 4096, torch.float16, 65e12, 320e9),
        explicit_case("near the ridge, float32", 100e9, 1e9, torch.float32, 2e12, 100e9),
        explicit_case("just above the ridge, bfloat16", 320e9, 1e9, torch.bfloat16, 312e12, 2039e9),
        explicit_case("just below the ridge, float32, tiny numbers", 6.0, 2.0, torch.float32, 6.0, 7.0),
        explicit_case("exactly at the ridge, float16", 2.0**40, 2.0**33, torch.float16, 2.0**42, 2.0**36),
        explicit_case("no FLOPs at all, as in the softmax", 0.0, 1e6, torch.float32, 2e12, 100e9),
        explicit_case("float64, a small product", 2 * 48**3, 3 * 48**2, torch.float64, 9.7e12, 1555e9),
        explicit_case("int32, one row", 2 * 512**2, 512**2 + 2 * 512, torch.int32, 20e12, 300e9),
        explicit_case("int8, one row", 2 * 4096**2, 4096**2 + 2 * 4096, torch.int8, 130e12, 320e9),
    ],
    within=(1e-6, 0.0),
    misconceptions=wrong_answers(
        __file__,
        higher_two_ceilings=Wrong(
            highest_ceiling, recognise=lambda seen: abs(seen.output[0] / highest_ceiling(*seen.args)[0] - 1) < 1e-6
        ),
        elements_taken_bytes=lambda flops, elements, dtype, peak, bandwidth: _attainable(
            flops, elements, 1, peak, bandwidth
        ),
        memory_compute_mixed_up=names_swapped,
        computing_moving_one_after_other=one_after_the_other,
        bytes_per_flop=upside_down,
        always_peak=lambda flops, elements, dtype, peak, bandwidth: (
            peak,
            "memory" if flops * bandwidth < peak * elements * dtype.itemsize else "compute",
        ),
        bits_instead_bytes=lambda flops, elements, dtype, peak, bandwidth: _attainable(
            flops, elements, 8 * dtype.itemsize, peak, bandwidth
        ),
        memory_at_ridge_itself=memory_at_the_ridge,
        ridge_that_rounded_down=a_rounded_ridge,
        limit_told_by_flops_per_element=limit_by_elements,
        slope_without_roof=no_roof,
        share_peak=share_of_the_peak,
        seconds_instead_flop_over_s=seconds,
        division_by_flops=Wrong(divided_by_the_flops, raises="ZeroDivisionError"),
        limit_told_by_quotient_that_rounded=limit_by_a_quotient,
        bits_from_torch_finfo=Wrong(
            lambda flops, elements, dtype, peak, bandwidth: _attainable(
                flops, elements, torch.finfo(dtype).bits, peak, bandwidth
            ),
            raises="TypeError",
        ),
        only_floating_point_dtypes=Wrong(only_floating_dtypes, raises="TypeError"),
    ),
)
