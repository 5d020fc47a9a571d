"""Tables: a row that follows from other rows is judged on the student's own."""

from helpers.engine.cases import random_case
from helpers.engine.table_check import Table, column_sums


def right(n):
    return {"a": (n, 1), "b": (2 * n, n), "c": (3, 4), "total": (3 * n + 3, n + 5)}


TABLE = Table(
    reference=right,
    columns=("x", "y"),
    follows={"total": column_sums},
    cases=[random_case(n=3), random_case(n=5)],
    misconceptions=[],
)


def lines(answer) -> dict[str, bool]:
    return {item.label: item.passed for item in TABLE(answer, points=4).items}


def test_one_wrong_row_costs_its_own_share_alone():
    off = lambda n: (rows := {**right(n), "a": (n + 1, 1)}) | {"total": column_sums(rows)}
    assert lines(off) == {"a": False, "b": True, "c": True, "total": True}


def test_a_total_that_is_no_sum_is_off_though_the_rows_are_right():
    assert lines(lambda n: right(n) | {"total": (0, 0)})["total"] is False


def test_a_sum_of_rows_that_are_mostly_wrong_earns_nothing():
    zeros = lambda n: {row: (0, 0) for row in right(n)}
    assert set(lines(zeros).values()) == {False}


def test_rows_that_can_not_be_added_are_a_line_and_no_crash():
    off = lambda n: right(n) | {"a": "no tuple", "total": (0, 0)}
    assert lines(off) == {"a": False, "b": True, "c": True, "total": False}


def test_a_total_of_another_length_is_a_line_and_no_crash():
    off = lambda n: right(n) | {"a": (n + 1, 1), "total": (1, 2, 3)}
    assert lines(off) == {"a": False, "b": True, "c": True, "total": False}


def test_a_table_of_one_column_holds_numbers():
    numbers = Table(
        reference=lambda n: {"twice": 2 * n, "that squared": 4 * n * n},
        exercise="numbers",
        columns=("value",),
        follows={"that squared": lambda rows, n: rows["twice"] ** 2},
        cases=[random_case(n=3), random_case(n=5)],
    )
    assert numbers(lambda n: {"twice": (2 * n,), "that squared": 4 * n * n}, points=2) == 2
    assert numbers(lambda n: {"twice": n, "that squared": n * n}, points=2) == 0
    card = numbers(lambda n: {"twice": (2 * n, 0), "that squared": 4 * n * n}, points=2)
    assert card.items[0].note == "Row 'twice' should hold one number."


def test_two_numbers_that_are_close_are_told_with_the_same_digits():
    days = Table(
        reference=lambda n: {"days": n * 11.1289174},
        exercise="days",
        columns=("value",),
        cases=[random_case(n=1)],
        within=(1e-9, 0.0),
    )
    card = days(lambda n: {"days": 11.128912}, points=1)
    assert "you have 11.12891, and 11.12892 is expected" in card.message
