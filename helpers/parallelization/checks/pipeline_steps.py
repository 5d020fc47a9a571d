"""The check of `pipeline_steps`."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import schedules

__all__ = ["pipeline_steps"]


def _smaller_bubble(seen) -> bool:
    """A bubble of the right form, which the smaller of L and M has made too small: for one device, or the whole area."""
    layers, micro_batches = seen.args
    side, steps = min(seen.args), layers + micro_batches - 1
    wrong = ((side - 1) / steps, side * (side - 1) / (layers * steps))
    return (
        side < layers
        and seen.output[0] == steps
        and any(math.isclose(seen.output[1], one, abs_tol=1e-9) for one in wrong)
    )


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
        l_m_one_micro_batch_at_time=lambda layers, micro_batches: (layers * micro_batches, (layers - 1) / layers),
        drain_forgotten=lambda layers, micro_batches: (micro_batches, 0.0),
        all_l_layers_idle=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            layers / (micro_batches + layers - 1),
        ),
        step_too_many=lambda layers, micro_batches: (micro_batches + layers, (layers - 1) / (micro_batches + layers)),
        divided_by_devices_once_more=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            (layers - 1) / layers / (micro_batches + layers - 1),
        ),
        first_micro_batch_counted_twice=lambda layers, micro_batches: (
            micro_batches + layers,
            layers / (micro_batches + layers),
        ),
        idle_time_against_working_time=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            (layers - 1) / micro_batches,
        ),
        busy_fraction=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            micro_batches / (micro_batches + layers - 1),
        ),
        fill_drain_counted_twice=lambda layers, micro_batches: (
            micro_batches + 2 * (layers - 1),
            2 * (layers - 1) / (micro_batches + 2 * (layers - 1)),
        ),
        idle_cells_instead_fraction=lambda layers, micro_batches: (micro_batches + layers - 1, layers * (layers - 1)),
        percentage=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            100 * (layers - 1) / (micro_batches + layers - 1),
        ),
        micro_batches_layers_swapped=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            (micro_batches - 1) / (micro_batches + layers - 1),
        ),
        twice_longer_side_less_one=lambda layers, micro_batches: (
            2 * max(layers, micro_batches) - 1,
            1 - micro_batches / (2 * max(layers, micro_batches) - 1),
        ),
        longer_side_plus_l_minus_1=lambda layers, micro_batches: (
            max(layers, micro_batches) + layers - 1,
            1 - micro_batches / (max(layers, micro_batches) + layers - 1),
        ),
        with_2l_minus_1_steps_whatever_m=Wrong(
            lambda layers, micro_batches: (2 * layers - 1, (layers - 1) / (2 * layers - 1)),
            recognise=lambda seen: seen.output[0] == 2 * seen.args[0] - 1,
        ),
        bubble_cut_down_micro_batches=Wrong(
            lambda layers, micro_batches: (
                micro_batches + layers - 1,
                (min(layers, micro_batches) - 1) / (micro_batches + layers - 1),
            ),
            recognise=_smaller_bubble,
        ),
        one_corner_bubble=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            (layers - 1) / 2 / (micro_batches + layers - 1),
        ),
        nothing_idle_with_one_micro_batch=lambda layers, micro_batches: (
            (layers, 0.0)
            if micro_batches == 1
            else (micro_batches + layers - 1, (layers - 1) / (micro_batches + layers - 1))
        ),
        backward_pass_counted_too=lambda layers, micro_batches: (
            2 * (micro_batches + layers - 1),
            (layers - 1) / (micro_batches + layers - 1),
        ),
        fraction_cut_off_by_over_over=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            (layers - 1) // (micro_batches + layers - 1),
        ),
        rounded_fraction=lambda layers, micro_batches: (
            micro_batches + layers - 1,
            round((layers - 1) / (micro_batches + layers - 1), 2),
        ),
    ),
)
