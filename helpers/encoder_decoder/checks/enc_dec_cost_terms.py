"""The check of `enc_dec_cost_terms`."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import cost as reference

__all__ = ["enc_dec_cost_terms"]

enc_dec_cost_terms = Check(
    reference=reference.enc_dec_cost_terms,
    cases=[explicit_case("five letters in their order")],
    drive=choice,
    misconceptions=wrong_answers(
        __file__,
        stacks_swapped=lambda: "bfced",
        kinds_swapped=lambda: "ecfbd",
        scores_swapped=lambda: "becfd",
        products_swapped=lambda: "cfbed",
        mask=Wrong(lambda: "cebfa", recognise=lambda seen: "a" in seen.output),
        whole_decoder=Wrong(lambda: "cebfg", recognise=lambda seen: "g" in seen.output),
        letter_missing=Wrong(lambda: "cebf", recognise=lambda seen: len(seen.output) < 5),
    ),
)
