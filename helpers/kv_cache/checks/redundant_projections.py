"""How many keys and values are computed again without a cache."""

from helpers.engine.answers.common_misconceptions import EXACT
from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import decoding_cost as reference

__all__ = ["redundant_projections"]


HALVED = lambda n, layers: layers * (n // 2 * (n - 1)), lambda n, layers: layers * n * ((n - 1) // 2)

redundant_projections = Check(
    reference=reference.redundant_projections,
    cases=[
        random_case(n=5, layers=1),
        random_case(n=12, layers=3),
        random_case(n=1, layers=4),
        random_case(n=1000, layers=12),
    ],
    within=EXACT,
    misconceptions=wrong_answers(
        __file__,
        necessary_only=lambda n, layers: layers * n,
        necessary_too=lambda n, layers: layers * n * (n + 1) // 2,
        all_in_every_step=lambda n, layers: layers * n * n,
        twice_as_many=lambda n, layers: layers * n * (n - 1),
        one_layer_only=Wrong(
            lambda n, layers: n * (n - 1) // 2,
            recognise=lambda seen: seen.args[1] > 1 and seen.output == seen.args[0] * (seen.args[0] - 1) // 2,
        ),
        halved_too_early=Wrong(HALVED[0], variants=HALVED),
        one_long_row=lambda n, layers: layers * n * (layers * n - 1) // 2,
        last_step_only=lambda n, layers: layers * (n - 1),
    ),
)
