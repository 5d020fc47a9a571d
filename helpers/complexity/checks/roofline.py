"""Check of the roofline: what a device can reach, and what holds it back."""

import torch

from helpers.engine.cases import given
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
    fed = elements * dtype.itemsize / flops * bandwidth
    return min(peak, fed), "memory" if fed < peak else "compute"


roofline = Check(
    reference=reference.roofline,
    cases=[
        given("T4, a large product in float16", 2 * 4096**3, 3 * 4096**2, torch.float16, 65e12, 320e9),
        given("T4, one row in float16", 2 * 4096**2, 4096**2 + 2 * 4096, torch.float16, 65e12, 320e9),
        given("near the ridge, float32", 100e9, 1e9, torch.float32, 2e12, 100e9),
        given("just above the ridge, bfloat16", 320e9, 1e9, torch.bfloat16, 312e12, 2039e9),
        given("just below the ridge, float32, tiny numbers", 6.0, 2.0, torch.float32, 6.0, 7.0),
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
            lambda seen: seen.output[1] == names_swapped(*seen.args)[1] and seen.output[0] > 0,
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
            "The peak is reached only where every byte pays for enough arithmetic. Below the ridge the attainable speed is "
            "intensity · bandwidth.",
        ),
        Misconception(
            "bits instead of bytes",
            lambda flops, elements, dtype, peak, bandwidth: _attainable(flops, elements, 8 * dtype.itemsize, peak, bandwidth),
            "`dtype.itemsize` is in bytes already.",
        ),
    ],
)  # fmt: skip
