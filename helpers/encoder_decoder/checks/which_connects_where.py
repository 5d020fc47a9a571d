"""The check of `which_connects_where`."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import wrong_answers

from .. import model as reference

__all__ = ["which_connects_where"]

which_connects_where = Check(
    reference=reference.which_connects_where,
    cases=[explicit_case("your choice")],
    drive=choice,
    misconceptions=wrong_answers(
        __file__,
        layer_beside=lambda: "a",
        first_alone=lambda: "c",
        last_alone=lambda: "d",
        all_encoder_layers=lambda: "e",
    ),
)
