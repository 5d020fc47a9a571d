"""The check of `which_positions`."""

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
        document_that_leaks=lambda: (4, 5, 6, 7),
        own_token_hidden=lambda: (5, 6),
        future_seen=lambda: (5, 6, 7, 8),
        one_row_too_far=lambda: (5, 6, 7, 8, 9),
        window_alone_one_too_wide=lambda: (3, 4, 5, 6, 7),
    ),
)
