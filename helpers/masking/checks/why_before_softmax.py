"""The check of `why_before_softmax`: why the mask comes before the softmax."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import wrong_answers

from .. import masked_attention

__all__ = ["why_before_softmax"]

why_before_softmax = Check(
    reference=masked_attention.why_before_softmax,
    quiz=True,
    drive=choice,
    cases=[explicit_case("your choice")],
    misconceptions=wrong_answers(__file__, speed=lambda: "a", zeros=lambda: "b", negative=lambda: "d"),
)
