"""Constant answers earn nothing, and the sweep finds a check that would pay for one."""

import json

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from autograder.course.exercises import Exercise, exercises
from autograder.proofs.trivial_answers import trivial_answers, try_on_exercise
from helpers.engine.anti_gaming import right_by_chance
from helpers.engine.cases import random_case
from helpers.engine.check import Check, Property


def total(x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    return x.sum()


CASES = [random_case(n=3, d=4), random_case(n=2, d=5)]


def test_the_small_course_pays_for_no_constant(course, attn):
    result = attn(course, "prove", "--constants", "--json")
    assert result.exit_code == 0
    assert {name: one["earned"] for name, one in json.loads(result.stdout).items()} == {
        "softmax": [],
        "attend": [],
        "two_word_example": [],
    }


@pytest.mark.parametrize("unit", ["00_start_here", "02_qkv_attention"])
def test_units_pay_for_no_constant(real_course, unit):
    swept = {exercise.id: try_on_exercise(exercise) for exercise in exercises(real_course, unit)}
    assert {name: one.earned for name, one in swept.items() if one.earned} == {}
    assert all(one.tried >= 18 for one in swept.values())


def test_a_check_that_pays_for_a_form_is_found():
    generous = Check(total, CASES, compare=False, properties=[Property("a number", lambda out, x: out.dim() == 0)])
    earned = try_on_exercise(Exercise("99_none", "total", ("total",), 2.0, generous)).earned
    assert "a tensor of 0 earns 8 of 8 as total" in earned and not any("None" in line for line in earned)


def test_right_by_chance_earns_nothing_and_right_for_a_reason_does():
    check = Check(
        lambda n: 2 * n if n > 1 else 1, [random_case(n=1), random_case(n=4), random_case(n=9)], exercise="double"
    )
    check.reference.__signature__ = __import__("inspect").signature(lambda n: n)
    assert check(lambda n: 1, points=3) == 0 and check(lambda n: n, points=3) == 0
    assert check(lambda n: 2 * n, points=3) == 2


def test_an_answer_says_nothing_if_it_is_one_number_or_an_input():
    x, y = torch.ones(2), torch.arange(2.0)
    assert right_by_chance([1, 1], [1, 2], [(1,), (3,)]) and right_by_chance([x, torch.ones(3)], [x, y], [(0,), (0,)])
    assert right_by_chance([3, 4], [3, 5], [(3, 0), (4, 0)]) and not right_by_chance([3, 4], [3, 4], [(3,), (4,)])
    assert not right_by_chance([1], [2], [(0,)]) and not right_by_chance([1, 1], [1, 1], [(0,), (0,)])
    assert set(trivial_answers(total)) > {
        "None",
        "True",
        "0",
        "zeros of the right form",
        "the first input",
        "the mean of the inputs",
    }


def test_noise_hides_one_number_and_other_numbers_beside_it_do_not_vanish():
    zeros, noisy, right = torch.zeros(3), torch.zeros(3) + torch.rand(3) * 1e-5, torch.arange(3.0)
    inputs = [(1,), (2,)]
    assert right_by_chance([zeros, noisy], [zeros, right], inputs)
    assert right_by_chance([(zeros, 0), (noisy, 0)], [(zeros, 0), (right, 3)], inputs)
    assert not right_by_chance([(zeros, 3), (noisy, 4)], [(zeros, 3), (right, 4)], inputs)
    assert not right_by_chance([(zeros, 10**400), (noisy, None)], [(zeros, 3), (right, 4)], inputs)


def test_right_words_beside_one_number_say_nothing():
    numbers, words = [(0.0, "memory"), (0.0, "compute")], [(0.0, "memory"), (5.0, "compute")]
    assert right_by_chance(numbers, words, [(1,), (2,)]) and not right_by_chance(words, words, [(1,), (2,)])
    assert right_by_chance(["a", "a"], ["a", "b"], [(1,), (2,)]) and not right_by_chance(
        ["a", "b"], ["a", "c"], [(1,), (2,)]
    )


def test_the_last_of_a_varying_number_of_inputs_says_nothing():
    a, b = torch.ones(2), torch.zeros(2)
    assert right_by_chance([a, b], [a, a], [(a,), (a, b)]) and not right_by_chance([a, a], [a, a], [(b, a), (a,)])
    assert not right_by_chance([a, b], [a, a], [(), ()])
