"""Check of the roofline: what a device can reach, and what holds it back."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import roofline as reference

__all__ = ["roofline"]


@dataclass(frozen=True)
class Work:
    flops: float
    moved: float  # bytes
    peak: float
    bandwidth: float

    @property
    def fed(self):
        """FLOP/s that the memory allows."""
        return self.flops / self.moved * self.bandwidth

    @property
    def computing(self):
        """Seconds."""
        return self.flops / self.peak

    @property
    def moving(self):
        """Seconds."""
        return self.moved / self.bandwidth


@dataclass(frozen=True)
class Roof:
    size: Callable = lambda dtype: dtype.itemsize
    reached: Callable = lambda work: min(work.peak, work.fed)
    memory_bound: Callable = lambda work: work.fed < work.peak


@composable
def roof(**changed: Callable) -> Callable:
    steps = Roof(**changed)

    def answer(flops, elements, dtype, peak, bandwidth):
        work = Work(flops, elements * steps.size(dtype), peak, bandwidth)
        return steps.reached(work), "memory" if steps.memory_bound(work) else "compute"

    return answer


highest_ceiling = roof(reached=lambda work: max(work.peak, work.fed))


def limit_by_elements(*work):
    return roof()(*work)[0], roof(size=lambda dtype: 1)(*work)[1]


def divided_by_the_flops(flops, elements, dtype, peak, bandwidth):
    moved = elements * dtype.itemsize
    if moved / flops * peak > bandwidth:
        return flops / moved * bandwidth, "memory"
    return peak, "compute"


def fed_upside_down(work):
    return work.moved / work.flops * work.bandwidth if work.flops else math.inf


def less_by_rounding(work):
    return work.flops / max(work.computing, work.moving)


def mostly_moving(work):
    return work.moving > work.computing


# with so many rows flops / (flops / peak) is less than the peak, in the last digit, and so is 1 / (1 / peak)
N = 4107

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
        higher_ceiling=Wrong(
            highest_ceiling, recognise=lambda seen: abs(seen.output[0] / highest_ceiling(*seen.args)[0] - 1) < 1e-6
        ),
        elements=roof(size=lambda dtype: 1),
        names_swapped=roof(memory_bound=lambda work: work.fed >= work.peak),
        one_after_the_other=roof(
            reached=lambda work: work.flops / (work.computing + work.moving), memory_bound=mostly_moving
        ),
        upside_down=roof(
            reached=lambda work: min(work.peak, fed_upside_down(work)),
            memory_bound=lambda work: fed_upside_down(work) < work.peak,
        ),
        always_peak=roof(reached=lambda work: work.peak),
        bits=roof(size=lambda dtype: 8 * dtype.itemsize),
        memory_at_the_ridge=roof(memory_bound=lambda work: work.fed <= work.peak),
        rounded_ridge=roof(memory_bound=lambda work: work.flops / work.moved < work.peak // work.bandwidth),
        limit_by_elements=limit_by_elements,
        no_roof=roof(reached=lambda work: work.fed),
        share_of_peak=roof(reached=lambda work: min(work.peak, work.fed) / work.peak),
        seconds=roof(reached=lambda work: max(work.computing, work.moving), memory_bound=mostly_moving),
        divided_by_the_flops=Wrong(divided_by_the_flops, raises="ZeroDivisionError"),
        limit_by_a_quotient=roof(
            reached=less_by_rounding, memory_bound=lambda work: less_by_rounding(work) != work.peak
        ),
        bits_of_finfo=Wrong(roof(size=lambda dtype: torch.finfo(dtype).bits), raises="TypeError"),
        only_floats=Wrong(roof(size=lambda dtype: torch.finfo(dtype).bits // 8), raises="TypeError"),
    ),
)
