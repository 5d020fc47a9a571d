"""A diagnosis is evidence, or it is silent."""

import math

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.engine.cases import explicit_case, normal, random_case
from helpers.engine.check import Behaviour, Check, Misconception
from helpers.engine.compare import difference
from helpers.engine.drivers import choice


def attention(q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"]) -> Float[Tensor, "n d_v"]:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def unscaled(q, k, v):
    return torch.softmax(q @ k.mT, dim=-1) @ v


def row_by_row(q, k, v):
    return torch.stack([attention(row[None], k, v)[0] for row in q])


def overwritten(q, k, v):
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
    output = weights @ v
    weights *= 2
    return output


def many_operations(seen):
    return sum(seen.operations.values()) > 20


NO_SCALE = Misconception("no scale", unscaled, "Divide by √d.")
LOOP = Misconception("a loop over the queries", row_by_row, "One product.", cost=many_operations)
CASES = [random_case(n=5, m=7, d=4, d_v=3), random_case(n=3, m=4, d=9, d_v=2)]
LONG = random_case(n=40, m=30, d=4, d_v=3, max_operations=20, label="40 queries")


def check(*misconceptions, cases=(*CASES, LONG), **settings):
    return Check(attention, cases, misconceptions, exercise="attention", **settings)


def test_a_slip_that_a_passing_case_refutes_is_not_named():
    def sometimes(q, k, v):
        return unscaled(q, k, v) if q.shape[-1] == 4 else attention(q, k, v)

    score = check(NO_SCALE)(sometimes, points=3)
    assert score == 1 and score.diagnosis is None and "this slip" not in score.message


def test_fresh_inputs_are_asked_before_a_slip_is_named():
    calls = []

    def chameleon(q, k, v):
        calls.append(1)
        return unscaled(q, k, v) if len(calls) <= 3 else q.new_zeros(len(q), v.shape[1])

    assert check(NO_SCALE)(chameleon, points=3).diagnosis is None
    assert check(NO_SCALE)(lambda q, k, v: unscaled(q, k, v) + 0, points=3).diagnosis == "no scale"


def test_two_slips_that_do_the_same_are_both_left_unnamed():
    twin = Misconception("too sharp", lambda q, k, v: unscaled(q, k, v), "…")
    assert check(NO_SCALE, twin)(unscaled, points=3).diagnosis is None


def test_a_mark_that_the_right_answer_shows_too_counts_for_nothing():
    def wrong(q, k, v):
        return attention(q, k, v) + 1

    innocent = Misconception("a tensor was made", unscaled, "…", recognise=lambda seen: seen.largest > 0)
    telling = Misconception(
        "more than the values", unscaled, "…", recognise=lambda seen: seen.output.max() > seen.args[2].max()
    )
    assert check(innocent)(wrong, points=3).diagnosis is None
    assert check(innocent, telling, cases=CASES)(wrong, points=3).diagnosis in (None, "more than the values")


def test_a_mark_must_stand_in_every_wrong_output():
    def wrong(q, k, v):
        return attention(q, k, v) * (-1.0 if len(q) == 5 else 2.0)

    mark = Misconception(
        "negated",
        lambda q, k, v: -attention(q, k, v),
        "…",
        recognise=lambda seen: (seen.output * attention(*seen.args)).sum() < 0,
    )
    assert check(mark, cases=CASES)(wrong, points=2).diagnosis is None
    assert check(mark, cases=CASES)(lambda q, k, v: -3 * attention(q, k, v), points=2).diagnosis == "negated"


def test_a_cost_is_spoken_of_where_all_values_are_right_and_only_there():
    score = check(LOOP)(lambda q, k, v: row_by_row(q, k, v), points=4)
    assert (
        score == 2
        and score.diagnosis == "a loop over the queries"
        and "Your output is right, but it costs too much" in score.message
    )
    score = check(LOOP)(lambda q, k, v: row_by_row(q, k, 2 * v), points=4)
    assert score == 0 and score.diagnosis is None and "right" not in score.message


def test_right_values_at_too_high_a_price_earn_half_of_the_points_at_most():
    many = check(cases=[*[random_case(n=n, m=4, d=3, d_v=2) for n in range(2, 8)], LONG])
    assert many(row_by_row, points=4) == 2 and many(attention, points=4) == 4


def test_a_behaviour_is_judged_by_the_observation():
    multiplies = Behaviour("one product at a time", lambda seen: seen.flops > 0, "No matrix product was taken.")
    score = check(cases=CASES, behaviours=[multiplies])(
        lambda q, k, v: ((q[:, None] * k).sum(-1) / math.sqrt(q.shape[-1])).softmax(-1)[..., None].mul(v).sum(1),
        points=2,
    )
    assert score == 0 and "No matrix product was taken." in score.message


def test_a_misconception_that_crashes_where_it_should_not_proves_nothing():
    def typo(q, k, v):
        return q @ k.undefined

    assert check(Misconception("a typo", typo, "…"))(typo, points=3).diagnosis is None
    assert check(Misconception("a typo", typo, "…", raises="AttributeError"))(typo, points=3).diagnosis == "a typo"


def test_a_misconception_may_stop_with_errors_of_several_kinds():
    def swapped(q, k, v):
        return torch.softmax(q @ k.transpose(1, 2), -1) @ v

    cases = [
        explicit_case("no batch axis", normal(2, 4), normal(3, 4), normal(3, 5)),  # IndexError
        explicit_case("two batch axes", normal(2, 3, 4, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 7)),  # RuntimeError
    ]
    one, both = (
        Misconception("for one batch axis", swapped, "…", raises=kinds)
        for kinds in ("IndexError", "IndexError RuntimeError")
    )
    assert check(one, cases=cases)(swapped, points=3).diagnosis is None
    assert check(both, cases=cases)(swapped, points=3).diagnosis == "for one batch axis"


def test_of_errors_the_message_is_compared_too():
    turned = Misconception("no transpose", lambda q, k, v: torch.softmax(q @ k, -1) @ v, "…", raises="RuntimeError")
    assert check(turned)(lambda q, k, v: torch.softmax(q @ k, -1) @ v, points=3).diagnosis == "no transpose"
    assert check(turned)(lambda q, k, v: v @ q @ k, points=3).diagnosis is None


def test_an_error_in_other_words_is_the_same_slip_where_wrong_outputs_agree():
    crossed = Misconception("K not transposed", lambda q, k, v: attention(q, k.mT, v), "Turn K.", raises="RuntimeError")
    by_name = lambda q, k, v: torch.softmax(torch.einsum("id,dj->ij", q, k) / math.sqrt(q.shape[-1]), dim=-1) @ v
    square = random_case(n=5, m=4, d=4, d_v=3)
    assert check(crossed, cases=(*CASES, square))(by_name, points=3).diagnosis == "K not transposed"
    assert check(crossed, cases=CASES)(by_name, points=3).diagnosis is None  # errors alone: their words must agree


def test_a_slip_that_stops_with_an_error_is_named_with_hidden_cases_too():
    """Of a hidden case the message of an error is not kept: its kind is compared; shown cases carry the evidence."""
    turned = Misconception("no transpose", lambda q, k, v: torch.softmax(q @ k, -1) @ v, "…", raises="RuntimeError")
    hidden = [random_case(n=6, m=2, d=5, d_v=3)]
    assert (
        check(turned)(lambda q, k, v: torch.softmax(q @ k, -1) @ v, points=3, cases=hidden).diagnosis == "no transpose"
    )
    assert check(turned)(lambda q, k, v: v @ q @ k, points=3, cases=hidden).diagnosis is None


def test_a_way_back_that_raises_gives_a_card():
    def in_place(q, k, v):
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        result = weights @ v
        weights[torch.isnan(weights)] = 0
        return result

    with_gradients = check(cases=[random_case(n=5, m=7, d=4, d_v=3, gradient=True, dtype=torch.float64), *CASES])
    score = with_gradients(in_place, points=3)
    assert score == 2 and "The values are right, but" in score.message and "RuntimeError" in score.message


def test_gradients_that_are_off_are_named_by_their_input():
    def cut(q, k, v):
        return attention(q, k.detach(), v)

    def doubled(q, k, v):
        return attention(q, k, 2 * v - v.detach())

    check_ = check(cases=[random_case(n=5, m=7, d=4, d_v=3, gradient=True)])
    assert "no gradient reaches `k`" in check_(cut, points=2).message
    message = check_(doubled, points=2).message
    assert "the gradient of `v` is off" in message and "2 times the expected" in message


def test_the_way_back_has_limits_too():
    class Dense(torch.autograd.Function):
        """Keeps the weights on `ctx`, where saved_tensors does not see them."""

        @staticmethod
        def forward(ctx, q, k, v):
            ctx.weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
            ctx.save_for_backward(q, k, v)
            return ctx.weights @ v

        @staticmethod
        def backward(ctx, grad):
            q, k, v = (x.detach().requires_grad_() for x in ctx.saved_tensors)
            with torch.enable_grad():
                return torch.autograd.grad(attention(q, k, v), (q, k, v), grad)

    def limited(**limits):
        return check(cases=[random_case(n=20, m=30, d=4, d_v=3, gradient=True, dtype=torch.float64, **limits)])

    assert limited()(Dense.apply, points=2) == 2
    assert "kept 600 numbers" in limited(max_saved=599)(Dense.apply, points=2).message
    assert limited(max_saved=600)(Dense.apply, points=2) == 2
    assert "backward pass made a tensor of 600" in limited(max_backward_elements=599)(Dense.apply, points=2).message
    assert "backward pass took" in limited(max_backward_flops=100)(Dense.apply, points=2).message


def test_unknown_axes_are_an_error():
    with pytest.raises(
        ValueError, match=r"random_case\(d_h=…\): `attention` has no axis of that name; it has d, d_v, m, n\."
    ):
        check(cases=[random_case(n=3, d_h=4)])(attention, points=1)


def test_two_misconceptions_with_one_name_are_an_error():
    with pytest.raises(ValueError, match="two misconceptions called 'no scale'"):
        check(NO_SCALE, NO_SCALE)


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (5994000, 5994001, "You have 5994000, and 5994001 is expected."),
        (0.5, 1, "You have 0.5, and 1 is expected."),
        (1.00000001, 1.00000002, "You have 1.00000001, and 1.00000002 is expected."),
        (10**400, 1000, "You have about 10^400, and 1000 is expected."),
        (torch.tensor([True, False]), torch.tensor([True, True]), "1 of 2 entries are wrong; the first is at [1]."),
    ],
)
def test_numbers_are_printed_so_that_they_differ(got, expected, words):
    assert difference(got, expected, (0.0, 0.0)) == words


def test_no_factor_of_1_and_as_many_wrong_values_as_there_are():
    expected = torch.linspace(1, 2, 5)
    words = difference(expected * 1.0003, expected, (1e-4, 1e-5))
    assert "times" not in words and words.startswith("5 of 5 values are off")


def test_a_number_for_a_tensor_without_axes_has_the_right_shape():
    total = Check(lambda x: x.sum(), [explicit_case("three", torch.arange(3.0))], exercise="total")
    score = total(lambda x: 7.0, points=1)
    assert next(item for item in score.items if item.label == "shape of the output").passed
    assert "You have 7, and 3 is expected." in score.message


def quiz(reference, *misconceptions, **settings):
    return Check(reference, [explicit_case("your choice")], misconceptions, exercise="quiz", quiz=True, **settings)


def test_a_quiz_tells_why_a_choice_is_wrong_and_never_the_right_one():
    speed = Misconception("speed", lambda: "a", "It takes as long.")
    letters = quiz(lambda: "c", speed, drive=choice)
    assert letters(lambda: "C", points=1) == 1 and letters(lambda: [" c"], points=1) == 1
    assert letters(lambda: "A", points=1).diagnosis == "speed"
    assert letters(lambda: "b", points=1).message == "With your choice: You answered 'b', and that is not right."
    numbers = quiz(lambda: (1, 0.880797), within=(0.0, 0.006))(lambda: (1, 0.5), points=1)
    assert (
        "Of your 2 answers, number 2 is not right." in numbers.message
        and "0.88" not in str(numbers)
        and not numbers.pictures
    )
    assert "in quotes" in letters(lambda: None, points=1).message


def test_every_question_of_a_quiz_is_answered_by_itself():
    def drive(answer, number):
        return answer()[number]

    kept = Misconception("letters kept", lambda: ("ab", "ab", "abc"), "A letter is summed over.")
    two = Check(
        lambda: ("a", "b", "c"),
        [explicit_case("1", 0), explicit_case("2", 1), explicit_case("3", 2)],
        [kept],
        exercise="q",
        quiz=True,
        drive=drive,
    )
    assert two(lambda: ("ab", "b", "c"), points=3).diagnosis == "letters kept"


def test_a_backward_pass_that_stops_is_called_so():
    slip = Misconception("overwritten", overwritten, "Make a new one.", raises="RuntimeError")
    score = check(slip, cases=[*CASES, random_case(n=4, m=6, d=3, d_v=2, gradient=True)])(overwritten, points=3)
    assert score.diagnosis == "overwritten"
    assert score.message.startswith("Your output is right, and its backward pass stops with the same error")


def ramp(n: int, step: int) -> Float[Tensor, "n"]:
    return step * torch.arange(n) + 1.0


RAMPS = [random_case(n=4, step=2), random_case(n=4, step=3), random_case(n=6, step=2)]


def test_a_table_that_was_kept_under_a_part_of_its_arguments_is_told_by_what_it_is_right_for():
    kept = {}

    def under_n_alone(n, step):
        return kept.setdefault(n, ramp(n, step))

    score = Check(ramp, RAMPS)(under_n_alone, points=3)
    assert score == 2 and "your function gives what is right with n = 4, step =" in score.message
    assert "kept from one call to the next" in score.message


def test_an_output_that_is_right_nowhere_is_not_said_to_be_anothers():
    score = Check(ramp, RAMPS)(lambda n, step: ramp(n, step) + 1, points=3)
    assert "what is right with" not in score.message


def test_a_single_number_that_is_right_elsewhere_is_chance():
    def count(n: int, step: int) -> int:
        return n * step

    score = Check(count, [random_case(n=2, step=6), random_case(n=3, step=5)])(lambda n, step: 12, points=2)
    assert "what is right with" not in score.message
