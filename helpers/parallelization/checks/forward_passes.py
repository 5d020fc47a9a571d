"""The check of `forward_passes`."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import EXACT
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
        one_pass_each_token_training=lambda: (128, 128),
        one_pass_write_everything=lambda: (1, 1),
        training_writing_swapped=lambda: (128, 1),
        one_token_without_pass=lambda: (1, 127),
        pass_each_token_before_it=lambda: (1, 8256),
        tokens_counted_instead_passes=lambda: (128, 8256),
        one_more_pass_stop=lambda: (1, 129),
    ),
)
