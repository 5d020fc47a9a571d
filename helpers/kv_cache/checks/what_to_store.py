"""What a cache keeps of the old tokens."""

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import wrong_answers

from .. import cache as reference

__all__ = ["what_to_store"]

what_to_store = Check(
    reference=reference.what_to_store,
    quiz=True,
    cases=[explicit_case("your choice")],
    drive=choice,
    misconceptions=wrong_answers(
        __file__,
        queries_stored_too=lambda: "a",
        weights_stored=lambda: "b",
        last_layer_only=lambda: "d",
        outputs_stored=lambda: "e",
    ),
)
