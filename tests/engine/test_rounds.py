"""Cases that a card shows are asked in one round and hidden ones in the next: the card is the one of a single round."""

import pytest
from test_check import CHECK, scaled, unscaled

from helpers.engine.anti_gaming import ROUNDS, Rounds, without_details
from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.observe import Observation, StudentError

HIDDEN = [random_case(n=7, m=7, d=9)]
SEED = 5


@pytest.fixture(autouse=True)
def no_round_is_left():
    yield
    ROUNDS.set(None)


def in_rounds(check, *answers, **settings):
    """The scores of both rounds."""
    kept = []
    for rounds in (Rounds(False, kept), Rounds(True, kept)):
        token = ROUNDS.set(rounds)
        yield check(*answers, points=4, seed=SEED, **settings)
        ROUNDS.reset(token)


def leaks(x, y):
    raise ValueError(f"seen {x.shape}")


def right_where_small(x, y):
    return scaled(x, y) if x.dim() == 2 and len(x) == 3 else unscaled(x, y)


def stub(x, y):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [scaled, unscaled, leaks, right_where_small, stub])
def test_two_rounds_give_the_score_of_one(monkeypatch, answer):
    monkeypatch.setenv("ATTENTION_COURSE_ORDER", "1")
    *_, second = in_rounds(CHECK, answer, cases=HIDDEN)
    assert second.as_json() == CHECK(answer, points=4, seed=SEED, cases=HIDDEN).as_json()


def test_no_round_asks_for_the_cases_of_the_other():
    asked = []

    def answer(x, y):
        asked.append(x.shape[-1] == 9)
        return scaled(x, y)

    groups = CheckGroup("both", CHECK, Check(scaled, CHECK.cases, exercise="again"))
    rounds = in_rounds(groups, answer, answer, cases={"scaled": HIDDEN, "again": HIDDEN})
    next(rounds)
    first = [*asked]
    assert next(rounds) == 4
    assert first and not any(first) and len(asked) > len(first) and all(asked[len(first) :])


def test_what_is_shown_too_late_tells_no_more_than_what_is_hidden():
    """The process of the first round was lost, and hidden cases may have been asked for since."""
    token = ROUNDS.set(Rounds(True, []))
    score = CHECK(leaks, points=4, cases=HIDDEN)
    ROUNDS.reset(token)
    assert score == 0 and "ValueError" in score.message and "seen" not in str(score.as_json())


def test_of_a_hidden_case_no_number_and_no_name_of_the_students_is_told():
    seen = Observation((), {}, error=StudentError("ValueError", "LEAK"), forbidden=("LEAK", "softmax"))
    assert "LEAK" not in repr(without_details(seen)) and without_details(seen).forbidden
    limited = Check(scaled, [random_case(n=3, m=5, d=4)], counts=True)
    score = limited(
        lambda x, y: [scaled(x, y) for _ in range(314)][0],
        points=1,
        cases=[random_case(n=3, m=5, d=4, max_operations=300)],
    )
    assert score == 0.5 and "took more tensor operations; the limit is 300" in score.message
