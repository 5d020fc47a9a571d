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
        encoder_decoder_swapped=lambda: "bfced",
        scores_products_with_weights_swapped=lambda: "ecfbd",
        scores_encoder_decoder_swapped=lambda: "becfd",
        products_source_target_swapped=lambda: "cfbed",
        mask_instead_cross_attention=Wrong(lambda: "cebfa", recognise=lambda seen: "a" in seen.output),
        whole_decoder_alone=Wrong(lambda: "cebfg", recognise=lambda seen: "g" in seen.output),
        letter_missing=Wrong(lambda: "cebf", recognise=lambda seen: len(seen.output) < 5),
    ),
)
