"""The check of `pipeline_steps`: how long a pipeline takes, and what share of it a device is idle."""

import math
from collections.abc import Callable

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import schedules

__all__ = ["pipeline_steps"]


def _smaller_bubble(seen) -> bool:
    """A bubble of the right form, which the smaller of L and M has made too small: for a device, or the whole area."""
    layers, micro_batches = seen.args
    side, steps = min(seen.args), layers + micro_batches - 1
    wrong = ((side - 1) / steps, side * (side - 1) / (layers * steps))
    return (
        side < layers
        and seen.output[0] == steps
        and any(math.isclose(seen.output[1], one, abs_tol=1e-9) for one in wrong)
    )


def _taking(steps: Callable) -> Callable:
    """Another number of steps, and the idle share of each device in so many."""
    return lambda layers, micro: (steps(layers, micro), 1 - micro / steps(layers, micro))


def _idle(share: Callable) -> Callable:
    """The right number of steps, and another idle share."""
    return lambda layers, micro: (micro + layers - 1, share(layers, micro, micro + layers - 1))


pipeline_steps = Check(
    reference=schedules.pipeline_steps,
    cases=[
        random_case(layers=4, micro_batches=8),
        random_case(layers=3, micro_batches=2),
        random_case(layers=6, micro_batches=1),
        random_case(layers=1, micro_batches=5),
    ],
    within=(1e-3, 1e-6),
    misconceptions=wrong_answers(
        __file__,
        one_at_a_time=_taking(lambda layers, micro: layers * micro),
        no_drain=_taking(lambda layers, micro: micro),
        all_layers_idle=_idle(lambda layers, micro, steps: layers / steps),
        step_too_many=lambda layers, micro: (micro + layers, (layers - 1) / (micro + layers)),
        divided_by_devices=_idle(lambda layers, micro, steps: (layers - 1) / layers / steps),
        first_counted_twice=_taking(lambda layers, micro: micro + layers),
        against_working_time=_idle(lambda layers, micro, steps: (layers - 1) / micro),
        busy=_idle(lambda layers, micro, steps: micro / steps),
        fill_and_drain_twice=_taking(lambda layers, micro: micro + 2 * (layers - 1)),
        idle_cells=_idle(lambda layers, micro, steps: layers * (layers - 1)),
        percent=_idle(lambda layers, micro, steps: 100 * (layers - 1) / steps),
        swapped=_idle(lambda layers, micro, steps: (micro - 1) / steps),
        twice_longer_side=_taking(lambda layers, micro: 2 * max(layers, micro) - 1),
        longer_side=_taking(lambda layers, micro: max(layers, micro) + layers - 1),
        whatever_m=Wrong(
            lambda layers, micro: (2 * layers - 1, (layers - 1) / (2 * layers - 1)),
            recognise=lambda seen: seen.output[0] == 2 * seen.args[0] - 1,
        ),
        smaller_bubble=Wrong(
            _idle(lambda layers, micro, steps: (min(layers, micro) - 1) / steps), recognise=_smaller_bubble
        ),
        one_corner=_idle(lambda layers, micro, steps: (layers - 1) / 2 / steps),
        nothing_idle=_idle(lambda layers, micro, steps: 0.0 if micro == 1 else (layers - 1) / steps),
        backward_too=lambda layers, micro: (2 * (micro + layers - 1), (layers - 1) / (micro + layers - 1)),
        cut_off=_idle(lambda layers, micro, steps: (layers - 1) // steps),
        rounded=_idle(lambda layers, micro, steps: round((layers - 1) / steps, 2)),
    ),
)
