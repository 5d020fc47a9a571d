"""Beginners make two mistakes at once: both are named, where no single one explains what was seen."""

import pytest
import torch

from helpers import check
from helpers.engine import two_slips


def both(exercise: str, one: str, other: str):
    """Two slips of an exercise, by their keys, as one."""
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
    score = getattr(check, exercise)(pair.function, points=3)
    assert score.diagnosis == pair.name and "two slips at once" in score.message
    assert all(text in score.message for text in pair.hint.split(" And: "))


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
