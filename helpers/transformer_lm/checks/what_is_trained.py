"""The check of `what_is_trained`."""

from collections.abc import Callable
from itertools import combinations

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import choice
from helpers.engine.hints import Hint, hint_for
from helpers.engine.wrong_answers import Wrong, wrong_answers

__all__ = ["what_is_trained"]

TRAINED = "aceg"

LETTERS = "abcdefg"  # the key of each: what is believed of it, and why that is not so


def drive_letters(answer: Callable) -> str:
    """The letters, whatever their order."""
    return "".join(sorted(set(choice(answer))))


def _answer(*letters: str) -> Callable:
    """What one answers who is wrong about these letters."""
    return lambda: "".join(sorted(set(TRAINED) ^ set(letters)))


def _of_both(*letters: str) -> Wrong:
    """Who is wrong about two is told about each of them."""
    hints = [hint_for(letter, __file__) for letter in letters]
    hint = Hint(", and ".join(one.name for one in hints), " ".join(one.text for one in hints))
    return Wrong(_answer(*letters), hint=hint)


what_is_trained = Check(
    exercise="what_is_trained",
    reference=lambda: TRAINED,
    quiz=True,
    cases=[explicit_case("the letters of all that is trained")],
    drive=drive_letters,
    misconceptions=wrong_answers(
        __file__,
        *(_of_both(*both) for both in combinations(LETTERS, 2)),
        **{letter: _answer(letter) for letter in LETTERS},
        three_or_more=Wrong(lambda: "bdf", recognise=lambda seen: len(set(TRAINED) ^ set(seen.output)) > 2),
    ),
)
