"""What a card shows: the case that tells a slip from others, tensors by name, and in words what no table tells."""

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.engine import card_picture
from helpers.engine.card_picture import Picture
from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check, Misconception


def halves(x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    return x * 0.5, x.sum(-1)


def thirds(x):
    return x / 3, x.sum(-1)


def count(n: int, m: int) -> int:
    return n * m


def drawn(check: Check, answer, **settings) -> list[str]:
    return [picture.label for picture in check(answer, points=1, seed=0, **settings).pictures]


def test_the_case_is_shown_that_tells_the_slip_from_others():
    always = Misconception("a third", lambda x: thirds(x), "…")
    of_long = Misconception("a third of short rows", lambda x: thirds(x) if len(x) < 4 else (x / 4, x.sum(-1)), "…")
    check = Check(
        halves,
        [random_case(n=2, d=3), random_case(n=3, d=2), random_case(n=5, d=3)],
        [always, of_long],
        exercise="halves",
    )
    assert check(thirds, points=1).diagnosis == "a third" and drawn(check, thirds) == ["n = 5, d = 3 · tensor 1 of 2"]
    alone = Check(halves, check.cases, [always], exercise="halves")
    assert drawn(alone, thirds) == ["n = 2, d = 3 · tensor 1 of 2"]


def test_a_hidden_case_is_never_shown():
    of_long = Misconception("a third of long rows", lambda x: halves(x) if len(x) < 4 else thirds(x), "…")
    check = Check(halves, [random_case(n=2, d=3)], [of_long], exercise="halves")
    score = check(of_long.function, points=1, cases=[random_case(n=5, d=3)], seed=0)
    assert score.diagnosis == "a third of long rows" and not score.pictures and "With" not in score.message


def test_tensors_go_by_their_names():
    check = Check(halves, [random_case(n=2, d=3)], exercise="halves", names=("halves: tokens features", "sums"))
    (picture,) = check(thirds, points=1, seed=0).pictures
    assert picture.label == "n = 2, d = 3 · halves" and picture.axes == ("tokens", "features")
    score = check(lambda x: (halves(x)[0], halves(x)[1] + 1), points=1, seed=0)
    assert score.pictures[0].label == "n = 2, d = 3 · sums" and "sums: " in score.message


def test_names_begin_anew_where_there_are_more_tensors():
    numbers = Check(
        lambda x: (x, x + 1, x + 2, x + 3),
        [explicit_case("x", torch.ones(2))],
        exercise="four",
        names=("keys", "values"),
    )
    assert drawn(numbers, lambda x: (x, x + 1, x + 2, x)) == ["x · values 2"]


def test_what_is_no_tensor_takes_no_name():
    check = Check(lambda x: ("ok", x), [explicit_case("x", torch.ones(2))], exercise="noted", names=("sums",))
    assert drawn(check, lambda x: ("ok", x + 1)) == ["x · sums"]


def test_a_number_that_is_off_stands_in_the_text():
    off = Misconception("one more", lambda n, m: n * m + 1, "Count anew.")
    check = Check(
        count, [explicit_case("n = 2, m = 3", 2, 3), explicit_case("n = 5, m = 7", 5, 7)], [off], exercise="count"
    )
    message = check(lambda n, m: n * m + 1, points=1).message
    assert message.endswith("Count anew.\nWith n = 2, m = 3: You have 7, and 6 is expected.")


def test_an_answer_of_a_quiz_does_not():
    check = Check(count, [explicit_case("n = 2, m = 3", 2, 3)], exercise="count", quiz=True)
    assert "6" not in check(lambda n, m: 7, points=1).message


def test_the_error_that_one_case_stopped_with_stands_below_the_table_of_another():
    def short(x):
        if len(x) > 3:
            raise IndexError("no room for more")
        return thirds(x)

    slip = Misconception("room for three", short, "Make room.", raises="IndexError")
    check = Check(halves, [random_case(n=2, d=3), random_case(n=5, d=3)], [slip], exercise="halves")
    score = check(lambda x: short(x), points=1, seed=0)
    assert score.pictures and score.diagnosis == "room for three"
    assert "With n = 5, d = 3: stopped with an error. IndexError: no room for more" in score.message


def test_the_shape_of_an_output_is_not_said_of_a_call_that_stopped():
    def stops(x):
        raise ValueError("not today")

    check = Check(lambda x: x, [explicit_case("x", torch.ones(2))], exercise="same")
    labels = [item.label for item in check(stops, points=1).items]
    assert labels == ["x"]


def test_a_table_whose_numbers_all_read_the_same_is_left_away():
    exact, near = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 2.00000001], dtype=torch.float64)
    assert not card_picture.readable(exact, near, (1e-9, 1e-11))
    assert card_picture.readable(exact, near + 0.001, (1e-9, 1e-11)) and card_picture.readable(exact, near[:1], (0, 0))
    check = Check(lambda x: x, [explicit_case("x", exact)], exercise="same")
    score = check(lambda x: near, points=1)
    assert not score.pictures and "2.00000001 where 2 is expected" in score.message


def test_a_matrix_of_several_is_named_as_in_python_where_its_axes_have_no_names():
    got = torch.zeros(2, 3, 2, 2)
    got[1, 2] = 1
    shown = card_picture.caption(Picture("c", torch.zeros(2, 3, 2, 2), got))
    assert shown == "c · shown: yours[1, 2]"
    named = Picture("c", torch.zeros(2, 3, 2, 2), got, axes=("sequences", "heads", "queries", "keys"))
    assert card_picture.caption(named).endswith("shown: sequence 1, head 2")


def test_small_matrices_are_drawn_whole():
    for shape, cut in [((8, 12), ""), ((6, 16), ""), ((10, 10), "rows 0–7 of 10, columns 0–7 of 10")]:
        assert card_picture.panels(Picture("", torch.zeros(shape), torch.ones(shape)))[0].cut == cut
