"""The check of `forward_passes`: how often a model runs in training, and in writing."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import schedules

__all__ = ["forward_passes"]

forward_passes = Check(
    reference=schedules.forward_passes,
    quiz=True,
    cases=[explicit_case("both numbers")],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        pass_a_token_in_training=lambda: (128, 128),
        one_pass_to_write=lambda: (1, 1),
        swapped=lambda: (128, 1),
        first_token_free=lambda: (1, 127),
        pass_for_each_before=lambda: (1, 8256),
        tokens_counted=lambda: (128, 8256),
        pass_to_stop=lambda: (1, 129),
    ),
)
