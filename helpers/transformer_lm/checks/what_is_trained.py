"""The check of `what_is_trained`."""

from collections.abc import Callable
from itertools import combinations

from helpers.engine.cases import explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.drivers import choice
from helpers.engine.wrong_answers import Wrong, wrong_answers

__all__ = ["what_is_trained"]

TRAINED = "aceg"

SLIPS = {  # letter → what is believed of it, and why that is not so
    "a": (
        "the embedding is not trained",
        "The table starts with random rows, and only training gives them a meaning. (The same table is the head.)",
    ),
    "b": (
        "rotary angles are trained",
        "Rotary angles come from a formula, in which nothing is learned. (GPT-2 learns a table of positions. This model has none.)",
    ),
    "c": ("the projections are not trained", "W_Q, W_K, W_V and W_O are what an attention layer learns."),
    "d": (
        "attention weights are trained",
        "Attention weights are computed anew for every text, from queries and keys. What is trained are the matrices that make these.",
    ),
    "e": ("norms are not trained", "The division has no parameters, but gain and bias of a LayerNorm are learned."),
    "f": ("the mask is trained", "The mask says what is allowed, and it is the same before and after training."),
    "g": ("the MLP is not trained", "Two thirds of a block's trained numbers are in its MLP: 8d² of 12d²."),
}


def drive_letters(answer: Callable) -> str:
    """The letters, whatever their order."""
    return "".join(sorted(set(choice(answer))))


def _believed(*letters: str) -> Misconception:
    """Who believes these things answers so, and is told about each of them."""
    names, hints = zip(*(SLIPS[letter] for letter in letters), strict=True)
    answer = "".join(sorted(set(TRAINED) ^ set(letters)))
    return Misconception(", and ".join(names), lambda: answer, " ".join(hints))


what_is_trained = Check(
    exercise="what_is_trained",
    reference=lambda: TRAINED,
    quiz=True,
    cases=[explicit_case("the letters of all that is trained")],
    drive=drive_letters,
    misconceptions=wrong_answers(
        __file__,
        *(_believed(letter) for letter in SLIPS),
        *(_believed(*both) for both in combinations(SLIPS, 2)),
        three_or_more_seven_taken_what_they_not=Wrong(
            lambda: "bdf", recognise=lambda seen: len(set(TRAINED) ^ set(seen.output)) > 2
        ),
    ),
)
