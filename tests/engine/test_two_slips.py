"""Beginners make two mistakes at once: both are named, where no single one explains what was seen."""

import pytest
import torch

from helpers import check
from helpers.engine import two_slips
from helpers.engine.misconceptions import Misconception


def both(exercise: str, one: str, other: str):
    """Two slips of an exercise, by their keys, and an answer that makes both."""
    found = [wrong for wrong in getattr(check, exercise).misconceptions if wrong.key in (one, other)]
    (pair,) = two_slips.pairs(found)
    return pair


@pytest.mark.parametrize(
    ("exercise", "one", "other"),
    [
        ("scaled_dot_product_attention", "none", "over_queries"),
        ("scaled_dot_product_attention", "by_width", "keys_reshaped"),
        ("causal_attention", "by_width", "own_hidden"),
        ("causal_attention", "after_softmax", "one_too_many"),
        ("rnn_encoder", "bias_outside", "last_state_only"),
    ],
)
def test_both_are_named(exercise, one, other):
    pair = both(exercise, one, other)
    score = getattr(check, exercise)(pair.both.function, points=3)
    assert score.diagnosis == ", and ".join(slip.name for slip in pair.slips)
    assert "two slips at once" in score.message and all(slip.name in score.message for slip in pair.slips)


def test_of_pairs_that_explain_alike_the_most_central_counts_or_what_they_share():
    a, b, c, d = (Misconception(name, str, "") for name in "abcd")
    pairs = lambda *found: [two_slips.Pair(slips, a) for slips in found]
    assert two_slips.likeliest(pairs((a, b), (a, c), (d, b))) == (a, b)
    assert two_slips.likeliest(pairs((a, b), (a, c))) == (a,)
    assert two_slips.likeliest(pairs((a, b), (c, d))) == two_slips.likeliest([]) == ()


def test_what_no_two_slips_explain_is_not_named():
    drawn = torch.Generator().manual_seed(0)
    score = check.causal_attention(lambda q, k, v: torch.randn(v.shape, generator=drawn), points=3)
    assert score.diagnosis is None and "slip" not in score.message


def test_a_slip_that_explains_one_case_alone_is_told_of_that_case():
    exercise = check.scaled_dot_product_attention
    slip = next(wrong.function for wrong in exercise.misconceptions if wrong.key == "by_width")
    score = exercise(lambda *args: slip(*args) + 0.1 * (args[0].dtype == torch.float64), points=3)
    assert score.message.startswith("With ") and "exactly what you get with this slip" in score.message


def test_slips_of_one_step_are_no_pair():
    steps = [wrong for wrong in check.rnn_encoder.misconceptions if wrong.key in ("no_tanh", "sigmoid")]
    assert list(two_slips.pairs(steps)) == []


def test_a_hint_beside_another_one_says_of_nothing_that_it_is_right():
    exercise = check.sinusoidal_positions
    halves = next(wrong for wrong in exercise.misconceptions if wrong.key == "halves")
    assert halves.hint.startswith("The numbers are right, but they stand in other columns.")
    message = exercise(both("sinusoidal_positions", "halves", "from_1").both.function, points=2).message
    assert "are right" not in message and "They stand in other columns." in message
