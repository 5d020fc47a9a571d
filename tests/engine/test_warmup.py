"""What a check finds out beforehand is what it would have found out later, and it isn't found out twice."""

import math

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.warmup import rehearse

SEED = 20_617
HIDDEN = [random_case(n=2, m=3, d=9), random_case(n=4, m=6, d=5, gradient=True)]


def scaled(x: Float[Tensor, "n d"], y: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    return x @ y.mT / math.sqrt(x.shape[-1])


def unscaled(x, y):
    return x @ y.mT


def a_check(calls: list | None = None) -> Check:
    def reference(x: Float[Tensor, "n d"], y: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        if calls is not None:
            calls.append(x.shape)
        return scaled(x, y)

    slip = Misconception("no scale", unscaled, "Divide by √d.")
    return Check(reference, [random_case(n=3, m=5, d=4), random_case(n=1, m=2, d=6)], [slip], exercise="scaled")


@pytest.mark.parametrize(
    "answer",
    [scaled, unscaled, lambda x, y: scaled(x, y).sum(), lambda x, y: x + y, lambda x, y: scaled(x, y).detach()],
    ids=["right", "a known slip", "another shape", "raises", "no gradient"],
)
def test_a_rehearsed_check_says_the_same(answer):
    fresh, rehearsed = a_check(), a_check()
    assert len(list(rehearse(rehearsed, HIDDEN, SEED))) > 4
    one, other = (check(answer, points=4, cases=HIDDEN, seed=SEED) for check in (fresh, rehearsed))
    assert (float(one), one.diagnosis, one.message, repr(one.items)) == (
        float(other),
        other.diagnosis,
        other.message,
        repr(other.items),
    )


def test_what_is_right_is_found_out_once():
    calls: list = []
    check = a_check(calls)
    list(rehearse(check, HIDDEN, SEED))
    assert calls
    calls.clear()
    assert check(scaled, points=4, cases=HIDDEN, seed=SEED).full and not calls
    assert check(scaled, points=4, cases=HIDDEN, seed=SEED + 1).full and calls  # other inputs: other answers


def test_the_parts_of_a_group_are_rehearsed_with_their_own_hidden_cases():
    calls: list = []
    group = CheckGroup("two", a_check(calls), Check(lambda x: x, [], exercise="same"))
    list(rehearse(group, {"scaled": HIDDEN}, SEED))
    assert torch.Size([4, 5]) in calls
    calls.clear()
    group(scaled, lambda x: x, points=4, cases={"scaled": HIDDEN}, seed=SEED)
    assert not calls
