"""How an output differs, in a sentence: where its wrong values lie is told where that is a slice."""

import pytest
import torch

from helpers.engine.compare import difference

RIGHT = torch.arange(60.0).reshape(2, 5, 6) / 7 + 1


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ((0, slice(0, 2)), ", all of them in [0, 0:2]; the furthest"),
        ((slice(None), slice(None), slice(0, None, 2)), ", all of them in [:, :, 0::2]; the furthest"),
        ((slice(None), slice(1, None)), ", all of them in [:, 1:]; the furthest"),
        ((1,), ", all of them in [1]; the furthest"),
        ((slice(None),), " of 60 values are off; the furthest"),
        ((0, 1, 2), "1 of 60 values are off; the furthest"),
        (([0, 1], [0, 4], [0, 5]), "2 of 60 values are off; the furthest"),
    ],
)
def test_wrong_values_are_placed(place, told):
    got = RIGHT.clone()
    got[place] += torch.rand_like(got[place]) + 1
    assert told in difference(got, RIGHT)


def test_empty_and_infinite_values_are_placed_and_an_infinity_has_its_sign():
    got = RIGHT.clone()
    got[0, 4] = float("nan")
    assert difference(got, RIGHT).endswith("are NaN, all of them in [0, 4] (0/0, 0 · ∞, ∞/∞ and ∞ − ∞ are NaN).")
    got[0, 4] = -float("inf")
    assert difference(got, RIGHT).endswith("are infinite (−∞), and finite ones are expected, all of them in [0, 4].")


def test_a_whole_number_that_64_bits_do_not_hold_is_told():
    expected, said = 3 * 2**64 + 5, "a multiple of 2⁶⁴"
    assert said in difference(expected - 4 * 2**64, expected)
    assert said not in difference(expected + 1, expected) and said not in difference(5 + 2**64, 5)
