"""What beginners leave half done is said in a plain sentence, in any exercise, and never of what isn't so."""

import pytest
import torch

from helpers import check

ATTENTION = check.scaled_dot_product_attention


def message(exercise, answer, points=4) -> str:
    score = exercise(answer, points=points, seed=3)
    assert score.diagnosis is None
    return score.message


def only_first(q, k, v):
    out = torch.zeros(*q.shape[:-1], v.shape[-1])  # of float32, whatever v is
    for i in range(q.shape[-2]):
        out[..., i, :] = ATTENTION.reference(q, k, v)[..., i, :]
        return out


def first_alone(q, k, v):
    for i in range(q.shape[-2]):
        return ATTENTION.reference(q, k, v)[..., i, :]


def last_alone(q, k, v):
    for i in range(q.shape[-2]):
        row = ATTENTION.reference(q, k, v)[..., i : i + 1, :]
    return row


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda q, k, v: torch.zeros(*q.shape[:-1], v.shape[-1], dtype=v.dtype), "is 0 everywhere"),
        (lambda q, k, v: torch.arange(6.0).view(2, 3), "the same numbers whatever it is given"),
        (lambda q, k, v: v, "returns `v` as it came in"),
        (only_first, "Only the first of the queries is filled in, and right; the others are all 0."),
        (first_alone, "it is only the first of the queries"),
        (lambda q, k, v: ATTENTION.reference(q, k, v)[..., :2, :], "it is only some of the queries"),
        (last_alone, "it is only the last of the queries"),
        (lambda *args: list(ATTENTION.reference(*args).unbind(-2)), "`torch.stack` along axis -2"),
        (lambda q, k, v: None, "returns nothing"),
    ],
)
def test_what_is_half_done_is_said(answer, words):
    assert words in message(ATTENTION, answer)


def test_the_first_of_the_batch_is_the_first_along_axis_0():
    right = check.split_heads.reference

    def answer(x, h):
        return torch.cat([right(x, h)[:1], torch.zeros_like(right(x, h)[1:])])

    assert "Only the first of the sequences is filled in" in message(check.split_heads, answer)


def test_only_the_first_of_a_batch_of_masks_though_some_rows_are_empty():
    right = check.padding_mask.reference

    def answer(lengths, n, m):
        return torch.cat([right(lengths, n, m)[:1], torch.zeros(len(lengths) - 1, 1, n, m).bool()])

    assert "filled in, and right; the others are all False" in message(check.padding_mask, answer)


def test_calls_that_stop_leave_the_others_their_evidence():
    """A loop that ends early is none of the slips that one case looks like."""

    def answer(q, k, v):
        if q.dim() > 2:
            raise ValueError("one matrix only")
        return only_first(q, k, v)

    told = message(ATTENTION, answer)
    assert "Only the first of the queries is filled in" in told and "this slip" not in told


def test_what_is_off_is_zero_and_the_rest_right():
    def every_second_column(n, d, base=10_000.0):
        right = check.sinusoidal_positions.reference(n, d, base)
        return right * (torch.arange(d) % 2 == 0)

    assert "Is that part never filled in?" in message(check.sinusoidal_positions, every_second_column)


def test_one_value_of_several():
    right = check.qkv_projections.reference
    assert "it is only the Q, one of 3 values." in message(check.qkv_projections, lambda *args: right(*args)[0])


def test_nested_lists_of_numbers_need_only_be_joined():
    told = message(check.pairwise_dot, lambda a, b: [[x @ y for y in b] for x in a])
    assert "`torch.tensor` makes one tensor" in told


def test_odd_outputs_show_nothing():
    for odd in (torch.ones(5, 3).to_sparse(), torch.tensor(1 + 2j)):
        score = ATTENTION(lambda q, k, v, odd=odd: odd, points=4)
        assert "right" not in score.message


def test_zeros_below_a_right_row_are_no_half_of_a_right_answer():
    """In a causal mask the first row is right, and the others too where no key is left."""
    assert "filled in" not in check.causal_mask(check.causal_mask.reference, points=1).message


def test_what_is_right_is_said_first():
    right = check.qkv_projections.reference
    score = check.qkv_projections(lambda *args: (*right(*args)[:2], right(*args)[2] * 2 + 1), points=1)
    assert "Q, K are right. V:" in score.message.replace(" and ", ", ")
