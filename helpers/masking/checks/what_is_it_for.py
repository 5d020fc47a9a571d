"""The check of `what_is_it_for`: what the causal mask is for."""

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
    misconceptions=wrong_answers(__file__, half_work=lambda: "a", to_generate=lambda: "c", padding=lambda: "d"),
)
