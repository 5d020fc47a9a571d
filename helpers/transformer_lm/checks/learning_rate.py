"""The check of `learning_rate`."""

import math

from helpers.engine.cases import Case, explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import training as reference

__all__ = ["learning_rate"]


def _cosine(progress, peak, floor):
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def _rising(step, warm_up, peak, floor):
    return peak * (step + 1) / warm_up


def _progress(step, steps, warm_up):
    return (step - warm_up) / (steps - warm_up)


@composable
def rate(early=_rising, late=_cosine, progress=_progress, length=lambda warm_up: warm_up):
    """The schedule with early(step, warm_up, peak, floor), late(progress, peak, floor), the progress or the length of
    the warm-up changed."""

    def answer(step, steps, warm_up, peak, floor):
        rising = length(warm_up)
        if step < rising:
            return early(step, rising, peak, floor)
        return late(progress(step, steps, rising), peak, floor)

    return answer


right = rate()


def one_step_too_long(step, steps, warm_up, peak, floor):
    if step <= warm_up:
        return peak * (step + 1) / warm_up
    return right(step, steps, warm_up, peak, floor)


def decay_computed_always(step, steps, warm_up, peak, floor):
    return right(step, steps, warm_up, peak, floor) + 0 * (1 / (steps - warm_up))


def rate_at(step: int, steps: int = 100, warm_up: int = 10, peak: float = 0.02, floor: float = 0.004) -> Case:
    return explicit_case(f"step {step} of {steps}, {warm_up} to warm up", step, steps, warm_up, peak, floor)


learning_rate = Check(
    reference=reference.learning_rate,
    cases=[
        *(rate_at(step) for step in (0, 4, 9, 10, 37, 55, 99)),
        rate_at(0, 30, 0),
        rate_at(17, 30, 0),
        rate_at(5, 50, 20, 0.3, 0.0),
        rate_at(48, 50, 20, 0.3, 0.0),
        rate_at(3, 6, 6),
    ],
    within=(1e-6, 1e-12),
    misconceptions=wrong_answers(
        __file__,
        from_0=rate(early=lambda step, warm_up, peak, floor: peak * step / warm_up),
        one_step_at_least=lambda step, steps, warm_up, peak, floor: right(step, steps, max(warm_up, 1), peak, floor),
        no_warm_up=rate(early=lambda step, warm_up, peak, floor: peak),
        warm_up_ignored=rate(length=lambda warm_up: 0),
        from_the_floor=rate(early=lambda step, warm_up, peak, floor: floor + (peak - floor) * (step + 1) / warm_up),
        never_below_the_floor=lambda step, steps, warm_up, peak, floor: max(
            floor, right(step, steps, warm_up, peak, floor)
        ),
        no_decay=rate(late=lambda progress, peak, floor: peak),
        straight_line=rate(late=lambda progress, peak, floor: peak + (floor - peak) * progress),
        straight_to_0=rate(late=lambda progress, peak, floor: peak * (1 - progress)),
        down_to_0=rate(late=lambda progress, peak, floor: _cosine(progress, peak, 0.0)),
        floor_on_top=rate(late=lambda progress, peak, floor: floor + _cosine(progress, peak, 0.0)),
        whole_cosine=rate(progress=lambda step, steps, warm_up: 2 * _progress(step, steps, warm_up)),
        quarter_cosine=rate(
            late=lambda progress, peak, floor: floor + (peak - floor) * math.cos(math.pi * progress / 2)
        ),
        decay_from_step_0=rate(progress=lambda step, steps, warm_up: step / steps),
        sign_turned=rate(progress=lambda step, steps, warm_up: 1 - _progress(step, steps, warm_up)),
        one_step_too_long=Wrong(one_step_too_long, raises="ZeroDivisionError"),
        decay_computed_always=Wrong(decay_computed_always, raises="ZeroDivisionError"),
        floor_at_the_last_step=rate(
            progress=lambda step, steps, warm_up: (step - warm_up) / max(1, steps - warm_up - 1)
        ),
        peak_one_step_late=rate(early=lambda step, warm_up, peak, floor: peak * (step + 1) / (warm_up + 1)),
    ),
)
