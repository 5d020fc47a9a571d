"""By what product of the arguments a count is off: told where it explains every case, and nowhere else."""

import pytest

from helpers.engine.cases import random_case
from helpers.engine.check import Check


def flops(n: int, d: int, h: int) -> int:
    return 8 * n * d * d + 4 * n * n * d


CASES = [
    random_case(n=5, d=12, h=3),
    random_case(n=7, d=8, h=2),
    random_case(n=3, d=10, h=5),
    random_case(n=11, d=6, h=1),
]


def message(answer, reference=flops, cases=CASES):
    return Check(reference, cases)(answer, points=4).message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda n, d, h: 6 * n * d * d + 4 * n * n * d, "this number is too small by 2·n·d²."),
        (lambda n, d, h: flops(n, d, h) + n, "this number is too large by n."),
        (lambda n, d, h: flops(n, d, h) - 12, "this number is too small by 12."),
        (lambda n, d, h: flops(n, d, h) - 6 * d * (h - 1), "this number is too small by 6·d·(h − 1)."),
        (lambda n, d, h: 2 * flops(n, d, h), "this number is 2 times the right one."),
        (lambda n, d, h: flops(n, d, h) * h / d, "this number is h/d times the right one."),
    ],
)
def test_a_gap_that_is_one_product_in_all_cases_is_told(answer, told):
    assert f"In all 4 cases {told}" in message(answer)


@pytest.mark.parametrize(
    "answer",
    [
        lambda n, d, h: flops(n, d, h) - n - d * d,  # the gap is a sum
        lambda n, d, h: flops(n, d, h) + (n == 5),  # right in all cases but one
        lambda n, d, h: "many",
        lambda n, d, h: float("nan"),
        lambda n, d, h: 10**400 * n,
        lambda n, d, h: 1e308 * d,
    ],
)
def test_of_any_other_gap_nothing_is_said(answer):
    assert "In all" not in message(answer)


def test_a_term_that_only_some_calls_have_is_told():
    def parameters(d: int, bias: bool) -> int:
        return 4 * d * d + bias * 9 * d

    cases = [random_case(d=4, bias=True), random_case(d=6, bias=False), random_case(d=7, bias=True)]
    told = message(lambda d, bias: 4 * d * d + bias * 8 * d, parameters, cases)
    assert "In all 3 cases this number is too small by d·bias." in told


def test_where_two_products_explain_the_gap_neither_is_told():
    alike = [random_case(n=5, d=5, h=3), random_case(n=7, d=7, h=2), random_case(n=3, d=3, h=5)]
    assert "In all" not in message(lambda n, d, h: flops(n, d, h) + n, cases=alike)


def test_a_product_of_three_needs_more_cases_than_three():
    """Of a gap of four factors three cases bear out a wrong product of three (key scales of a cache, h for each
    sequence)."""

    def scales(b: int, h: int, d_h: int, size: int) -> int:
        return 2 * b + h * d_h * (b - 1) * size

    cases = [
        random_case(b=2, h=3, d_h=5, size=4),
        random_case(b=3, h=2, d_h=7, size=2),
        random_case(b=4, h=3, d_h=8, size=4),
    ]
    assert "In all" not in message(lambda b, h, d_h, size: 2 * b, scales, cases)


def test_of_several_numbers_the_first_that_is_off_is_told():
    def pair(n: int, d: int) -> tuple[int, int]:
        return n * d, n + d

    told = message(lambda n, d: (n * d, n), pair, [random_case(n=5, d=2), random_case(n=3, d=4), random_case(n=8, d=7)])
    assert "Value 2 of 2" in told and "In all 3 cases this number is too small by d." in told


def test_a_gap_in_a_hidden_case_is_not_told():
    check = Check(flops, [random_case(n=1, d=1, h=1)])
    hidden = [random_case(n=n, d=d, h=1) for n, d in ((5, 12), (7, 8), (3, 10))]
    assert "In all" not in check(lambda n, d, h: flops(n, d, h) + n - 1, points=4, cases=hidden).message
