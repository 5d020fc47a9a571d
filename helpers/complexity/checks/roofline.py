"""Check of the roofline: what a device can reach, and what holds it back."""

import math

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check, Misconception

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
    misconceptions=[
        Misconception(
            "the higher of the two ceilings", highest_ceiling,
            "Both hold at once: the units can't be faster than their peak, nor faster than they are fed. The lower ceiling "
            "decides.",
            lambda seen: abs(seen.output[0] / highest_ceiling(*seen.args)[0] - 1) < 1e-6,
        ),
        Misconception(
            "elements taken for bytes",
            lambda flops, elements, dtype, peak, bandwidth: _attainable(flops, elements, 1, peak, bandwidth),
            "Bandwidth is in bytes per second, so intensity must be in FLOPs per byte: multiply the elements by "
            "`dtype.itemsize`.",
        ),
        Misconception(
            "memory and compute mixed up", names_swapped,
            "If the memory feeds fewer FLOP/s than the peak, the units wait: it is the memory that limits.",
        ),
        Misconception(
            "computing and moving one after the other", one_after_the_other,
            "The roofline lets both run side by side: while one tile is computed, the next is fetched. The longer of the "
            "two times counts, not their sum.",
        ),
        Misconception(
            "bytes per FLOP", upside_down,
            "Intensity is FLOPs per byte. Check the units: FLOP/byte · byte/s = FLOP/s.",
        ),
        Misconception(
            "always the peak",
            lambda flops, elements, dtype, peak, bandwidth: (
                peak, "memory" if flops * bandwidth < peak * elements * dtype.itemsize else "compute",
            ),
            "The peak is reached only from the ridge on. Left of it the attainable speed is intensity · bandwidth.",
        ),
        Misconception(
            "bits instead of bytes",
            lambda flops, elements, dtype, peak, bandwidth: _attainable(flops, elements, 8 * dtype.itemsize, peak, bandwidth),
            "`dtype.itemsize` is in bytes already.",
        ),
        Misconception(
            "memory at the ridge itself", memory_at_the_ridge,
            "At the ridge the memory feeds the units just fast enough, so they don't wait: from there on compute is the limit.",
        ),
        Misconception(
            "a ridge that is rounded down", a_rounded_ridge,
            "`//` rounds peak / bandwidth down, so an intensity between that number and the ridge is called \"compute\" too early. Compare "
            "without rounding.",
        ),
        Misconception(
            "the limit told by FLOPs per element", limit_by_elements,
            "Your FLOP/s are right. The ridge, peak / bandwidth, is in FLOPs per byte: what you compare with it must be per byte too, not per element.",
        ),
        Misconception(
            "a slope without a roof", no_roof,
            "Above the ridge the memory could feed more than the units can compute: the peak is the limit.",
        ),
        Misconception(
            "the share of the peak", share_of_the_peak, "Return the attainable FLOP/s, not their share of the peak.",
        ),
        Misconception(
            "seconds instead of FLOP/s", seconds,
            "That is how long it takes. The attainable speed is FLOPs divided by that time.",
        ),
        Misconception(
            "a division by the FLOPs", divided_by_the_flops,
            "An operation without FLOPs, such as the softmax, only moves its elements: its intensity is 0, and it is bound by memory. Divide "
            "by the bytes, which are never 0.",
            raises="ZeroDivisionError",
        ),
        Misconception(
            "the limit told by a quotient that is rounded", limit_by_a_quotient,
            "Your FLOP/s are right. But flops / (flops / peak) often differs from the peak in the last digit, so `==` and `<` say \"memory\" far to the "
            "right of the ridge. Compare the two ceilings, or the two times, and not what you have divided again.",
        ),
        Misconception(
            "bits from torch.finfo",
            lambda flops, elements, dtype, peak, bandwidth: _attainable(
                flops, elements, torch.finfo(dtype).bits, peak, bandwidth
            ),
            "`torch.finfo(dtype).bits` is in bits, 8 to a byte, and it knows only floating-point dtypes. `dtype.itemsize` is in bytes, for all.",
            raises="TypeError",
        ),
        Misconception(
            "only floating-point dtypes", only_floating_dtypes,
            "`torch.finfo` knows only floating-point dtypes, and weights may be int8. `dtype.itemsize` works for all.",
            raises="TypeError",
        ),
    ],
)  # fmt: skip
