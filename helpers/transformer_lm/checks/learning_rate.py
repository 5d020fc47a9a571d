"""The check of `learning_rate`."""

import math

from helpers.engine.cases import Case, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import training as reference

__all__ = ["learning_rate"]


def _cosine(progress, peak, floor):
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def _rate(step, steps, warm_up, peak, floor, *, early=None, late=None):
    """early(step), late(progress): what is changed."""
    if step < warm_up:
        return early(step) if early else peak * (step + 1) / warm_up
    progress = (step - warm_up) / (steps - warm_up)
    return late(progress) if late else _cosine(progress, peak, floor)


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
        warm_up_starts_at_0=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, early=lambda s: peak * s / warm_up
        ),
        warm_up_one_step_at_least=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, max(warm_up, 1), peak, floor
        ),
        no_warm_up=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, early=lambda s: peak
        ),
        warm_up_starts_from_floor=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, early=lambda s: floor + (peak - floor) * (s + 1) / warm_up
        ),
        never_below_floor_not_even_warm_up=lambda step, steps, warm_up, peak, floor: max(
            floor, _rate(step, steps, warm_up, peak, floor)
        ),
        no_decay=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: peak
        ),
        straight_line_down=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: peak + (floor - peak) * p
        ),
        down_0_not_floor=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: _cosine(p, peak, 0.0)
        ),
        floor_added_on_top=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: floor + _cosine(p, peak, 0.0)
        ),
        whole_cosine=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: _cosine(2 * p, peak, floor)
        ),
        quarter_cosine=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: floor + (peak - floor) * math.cos(math.pi * p / 2)
        ),
        decay_counted_from_step_0=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: _cosine(step / steps, peak, floor)
        ),
        sign_cosine_turned=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, late=lambda p: _cosine(1 - p, peak, floor)
        ),
        warm_up_one_step_too_long=Wrong(
            lambda step, steps, warm_up, peak, floor: (
                peak * (step + 1) / warm_up
                if step <= warm_up
                else _cosine((step - warm_up) / (steps - warm_up), peak, floor)
            ),
            raises="ZeroDivisionError",
        ),
        decay_computed_warm_up_too=Wrong(
            lambda step, steps, warm_up, peak, floor: (
                _rate(step, steps, warm_up, peak, floor, late=lambda p: _cosine(p, peak, floor))
                + 0 * (1 / (steps - warm_up))
            ),
            raises="ZeroDivisionError",
        ),
        floor_reached_at_last_step=lambda step, steps, warm_up, peak, floor: _rate(
            step,
            steps,
            warm_up,
            peak,
            floor,
            late=lambda p: _cosine((step - warm_up) / max(1, steps - warm_up - 1), peak, floor),
        ),
        peak_one_step_after_warm_up=lambda step, steps, warm_up, peak, floor: _rate(
            step, steps, warm_up, peak, floor, early=lambda s: peak * (s + 1) / (warm_up + 1)
        ),
    ),
)
