"""The operations for the next token, in their order."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import cache as reference

__all__ = ["new_operations"]

new_operations = Check(
    reference=reference.new_operations,
    quiz=True,
    cases=[explicit_case("the seven steps in their order")],
    drive=choice,
    misconceptions=wrong_answers(
        __file__,
        projected_again=Wrong(lambda: "dhgbfaec", recognise=lambda seen: "h" in seen.output),
        scored_again=Wrong(lambda: "dgbfjaec", recognise=lambda seen: "j" in seen.output),
        one_row_masked=Wrong(lambda: "dgbfiaec", recognise=lambda seen: "i" in seen.output),
        appended_afterwards=Wrong(
            lambda: "dgfaebc", recognise=lambda seen: seen.output.index("b") > seen.output.index("f")
        ),
        stored_unturned=Wrong(
            lambda: "dbgfaec", recognise=lambda seen: seen.output.index("b") < seen.output.index("g")
        ),
        softmax_after_mixing=Wrong(
            lambda: "dgbfeac", recognise=lambda seen: seen.output.index("e") < seen.output.index("a")
        ),
        w_o_before_mixing=Wrong(
            lambda: "dgbface", recognise=lambda seen: seen.output.index("c") < seen.output.index("e")
        ),
        step_left_out=Wrong(lambda: "dgbfae", recognise=lambda seen: len(seen.output) < 7),
    ),
)
