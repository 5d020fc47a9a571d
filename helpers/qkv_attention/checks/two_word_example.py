"""The check of `two_word_example`: the weights of two words, by hand."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import scores

__all__ = ["two_word_example"]

two_word_example = Check(
    reference=scores.two_word_example,
    quiz=True,
    cases=[explicit_case("both weights, to two decimals")],
    within=(0.0, 0.006),
    misconceptions=wrong_answers(
        __file__,
        no_exp=lambda: (0.54, 0.46),
        swapped=lambda: (0.12, 0.88),
        no_scale=lambda: (1.0, 0.0),
        by_width=lambda: (0.56, 0.44),
        by_half_width=lambda: (0.62, 0.38),
        ratio=lambda: (0.86, 0.14),
        one_decimal=lambda: (0.9, 0.1),
        cut_off=lambda: (0.88, 0.11),
        percent=lambda: (88.0, 12.0),
    ),
)
