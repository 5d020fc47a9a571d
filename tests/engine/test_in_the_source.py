"""What stands in the source of an answer is said, and nothing else of it."""

import pytest
import torch
from torch import nn

from helpers import check
from helpers.engine.in_the_source import in_the_source, never_read


def returns_in_the_loop(x):
    for row in x:
        total = row.sum()
        return total


def breaks_in_the_loop(x):
    while True:
        x = x / 2
        break
    return x


def returns_on_condition(x):
    for row in x:
        if row.sum() > 0:
            return row


def returns_the_first_that_is_left(x):
    for row in x:
        if row.sum() > 0:
            continue
        return row


class HalfALayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        self.first = nn.Linear(d, d)
        self.second = nn.Linear(d, d)

    def forward(self, x, mask):
        return self.first(x)


class ByName(HalfALayer):
    def __init__(self, d):
        self.third = nn.Linear(d, d)


class OverAllLayers(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.first = nn.Linear(d, d)

    def forward(self, x):
        return [layer(x) for layer in self.children()]


def not_written(x, mask):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (returns_in_the_loop, "The `return` in line 14 stands inside the loop"),
        (breaks_in_the_loop, "The `break` in line 20 stands"),
        (HalfALayer, "`self.second` is made, and never used."),
        *[
            (one, "")
            for one in (returns_on_condition, returns_the_first_that_is_left, ByName, OverAllLayers, torch.sum)
        ],
    ],
)
def test_loops_that_end_at_once_and_layers_that_are_never_used(answer, words):
    unfinished = " ".join(in_the_source(answer).unfinished)
    assert unfinished.startswith(words) and bool(unfinished) == bool(words)


def test_an_argument_is_missed_where_the_reference_reads_it():
    def reads(x, mask):
        return x * mask

    def reads_half(x, mask):
        return x

    assert in_the_source(HalfALayer).unread == (("forward", "mask"),)
    assert in_the_source(not_written).unread == ()
    assert never_read(returns_on_condition, reads) == ""
    assert in_the_source(reads_half).unread == ()  # defined inside another function: its cell isn't searched for it


def only_two(*masks):
    for mask in masks[1:]:
        return masks[0] & mask


def without_the_last_term(n, d, h, d_h):
    return 8 * n * d * d_h


def test_cards_say_it():
    assert "stands inside the loop" in check.combine_masks(only_two, points=1, seed=3).message
    message = check.head_flops(without_the_last_term, points=1, seed=3).message
    assert "`h` is never read in your `without_the_last_term`." in message
    assert "The right number has a part that grows with `h`, and yours has none." in message
