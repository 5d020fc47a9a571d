"""The check of `which_positions`: which positions a query sees under three masks."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from .. import masks

__all__ = ["which_positions"]

which_positions = Check(
    reference=masks.which_positions,
    quiz=True,
    cases=[explicit_case("the positions that query 7 sees")],
    misconceptions=wrong_answers(
        __file__,
        other_document=lambda: (4, 5, 6, 7),
        own_hidden=lambda: (5, 6),
        future=lambda: (5, 6, 7, 8),
        one_row_too_far=lambda: (5, 6, 7, 8, 9),
        window_alone=lambda: (3, 4, 5, 6, 7),
    ),
)
