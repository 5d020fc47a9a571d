"""The check of `what_is_it_for`."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import wrong_answers

from .. import masked_attention

__all__ = ["what_is_it_for"]

what_is_it_for = Check(
    reference=masked_attention.what_is_it_for,
    quiz=True,
    drive=choice,
    cases=[explicit_case("your choice")],
    misconceptions=wrong_answers(
        __file__,
        half_work=lambda: "a",
        needed_generate=lambda: "c",
        protection_from_padding=lambda: "d",
    ),
)
