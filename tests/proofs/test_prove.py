"""`attn prove`: a check that lets a wrong answer pass, or a right one fail, is found and named."""

import json

from conftest import UNIT

from autograder.course.exercises import Exercise
from autograder.proofs.prove import SEED, prove_exercise
from helpers import check
from helpers.engine.cases import Case
from helpers.engine.check import Misconception


class Score(float):
    """What a check returns, as far as `prove` reads it."""

    diagnosis, message = None, ""


def _score(value, diagnosis=None, message=""):
    score = Score(value)
    score.diagnosis, score.message = diagnosis, message
    return score


class Check:
    """A check of "twice a number" that tries the inputs it is given: enough of the interface for `prove`."""

    def __init__(self, inputs, named=True):
        self.inputs, self.named = inputs, named

    def __call__(self, answer, *, points, cases=(), seed=None):
        if all(answer(x) == 2 * x for x in [*self.inputs, *cases]):
            return _score(points)
        known = dict(self.wrong_answers())
        name = next((name for name, (slip,) in known.items() if slip(5) == answer(5)), None)
        return _score(0, name if self.named else None, "not twice")

    def wrong_answers(self):
        yield "the square", (lambda x: x * x,)
        yield "plus two", (lambda x: x + 2,)


class _Exercise(Exercise):
    def hidden_cases(self):
        return [7]

    def alternatives(self):
        return {"a sum": (lambda x: x + x,), "a shift": (lambda x: x << 1,), "not right": (lambda x: 2 * x or 1,)}


def _proof(check):
    return prove_exercise(_Exercise("02_small", "twice", ("twice",), 1.0, check))


def test_a_good_check_is_proved():
    proof = _proof(Check([3]))
    assert proof.counts() == {"misconceptions": 2, "caught": 2, "named": 2, "alternatives": 3, "accepted": 3}
    assert proof.misses == []


def test_inputs_that_do_not_discriminate_are_found():
    """With 2 alone, 2·2, 2² and 2 + 2 are the same: only the hidden case tells, and a student would not see it."""
    proof = _proof(Check([2]))
    assert (proof.caught, proof.named) == (0, 0)
    assert proof.misses == [
        f"misconception '{name}' gets full points with the visible cases" for name in ("the square", "plus two")
    ]


def test_a_misconception_that_is_not_named_is_a_miss():
    proof = _proof(Check([3], named=False))
    assert (proof.caught, proof.named) == (2, 0)
    assert proof.misses[0] == "misconception 'the square' is diagnosed as nothing known"


def test_a_right_answer_that_loses_points_is_a_miss():
    proof = _proof(Check([3, 0]))
    assert proof.accepted == 2 and proof.misses == ["alternative 'not right' gets 0 of 8: not twice"]


class ByDraw(Check):
    """A check that draws its input: 2 every second time, for which everything is right that gives 4."""

    def __call__(self, answer, *, points, cases=(), seed=None):
        self.inputs = [2 + seed % 2]
        return super().__call__(answer, points=points, cases=cases, seed=seed)


def test_what_a_draw_hides_is_found_in_another_and_told_with_its_seed():
    proof = prove_exercise(_Exercise("02_small", "twice", ("twice",), 1.0, ByDraw([])), draws=10)
    assert (proof.misconceptions, proof.caught, proof.alternatives, proof.accepted) == (20, 10, 30, 30)
    assert proof.misses == [
        f"misconception '{name}' gets full points with the visible cases (in 5 of 10 draws; "
        f"ATTENTION_COURSE_SEED={SEED + SEED % 2} shows it)"
        for name in ("the square", "plus two")
    ]


def _proof_of(monkeypatch, function, **settings):
    """The proof of the softmax's check with one misconception more."""
    slip = Misconception("a slip", function, "A hint.")
    for name, value in settings.items():
        object.__setattr__(slip, name, value)
    monkeypatch.setattr(check.softmax, "misconceptions", (*check.softmax.misconceptions, slip))
    return prove_exercise(Exercise("02_qkv_attention", "softmax", ("softmax",), 2.0, check.softmax))


def test_a_misconception_that_crashes_is_a_miss(monkeypatch):
    proof = _proof_of(monkeypatch, lambda x, dim: x.sofmax(dim))
    assert proof.named == proof.misconceptions - 1
    (miss,) = proof.misses
    assert miss.startswith("misconception 'a slip' raises AttributeError: 'Tensor' object has no attribute 'sofmax'")
    assert miss.endswith("mend it, or declare it with raises=")


def test_a_misconception_that_never_gives_an_output_is_a_miss(monkeypatch):
    (miss,) = _proof_of(monkeypatch, lambda x, dim: x.reshape(10**6)).misses
    assert miss.startswith("misconception 'a slip' raises RuntimeError in every case")


def test_a_misconception_may_say_what_it_raises(monkeypatch):
    assert _proof_of(monkeypatch, lambda x, dim: x.sofmax(dim), raises="AttributeError").misses == []


def test_a_check_that_fails_itself_is_a_miss(monkeypatch):
    def broken(*_):
        raise ValueError("no axis 'd'")

    monkeypatch.setattr(check.softmax, "cases", (Case("broken", broken),))
    proof = prove_exercise(Exercise("02_qkv_attention", "softmax", ("softmax",), 2.0, check.softmax))
    assert proof.misses == ["its check itself fails: ValueError: no axis 'd'"]


def test_only_one_exercise_is_proved(course, attn):
    content = json.loads(attn(course, "prove", "--only", "attend", "--json").output)
    assert set(content["exercises"]) == {"attend"}


def test_the_command_prints_a_table_and_json(course, attn):
    table = attn(course, "prove", "2")
    assert table.exit_code == 0 and "softmax" in table.output and "ceptions" in table.output
    content = json.loads(attn(course, "prove", UNIT, "--json").output)
    assert set(content) == {"exercises", "total"} and set(content["exercises"]) == {
        "softmax",
        "attend",
        "two_word_example",
    }
    total = content["total"]
    assert total["misconceptions"] == total["caught"] == total["named"] > 10
    assert total["alternatives"] == total["accepted"] > 5


def test_a_miss_ends_with_status_1(course, attn, monkeypatch):
    from helpers import check

    monkeypatch.setattr(check.softmax, "cases", check.softmax.cases[:1])
    result = attn(course, "prove")
    assert result.exit_code == 1 and "softmax: misconception" in result.output
