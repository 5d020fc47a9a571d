"""The check of `frequencies_fall`."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import wrong_answers

__all__ = ["frequencies_fall"]

frequencies_fall = Check(
    exercise="frequencies_fall",
    reference=lambda: "b",
    quiz=True,
    cases=[explicit_case("the letter of one choice")],
    drive=choice,
    misconceptions=wrong_answers(
        __file__, far_apart=lambda: "a", equally_fast=lambda: "c", last_repeats_first=lambda: "d", one_pair=lambda: "e"
    ),
)
