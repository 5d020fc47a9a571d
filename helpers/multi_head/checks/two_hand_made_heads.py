"""Checks of heads made by hand. Many weights are right, so what counts is what the heads do on random tokens."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import induction

__all__ = ["two_hand_made_heads"]

CLOSE = (0.0, 0.01)  # attention of 0.99 counts as all of it


def _tokens(v: int, length: int) -> RandomArg:
    """Two sequences: the start token, then drawn tokens, the last of which stood before and the second of which is new."""

    def draw(generator: Generator) -> Tensor:
        tokens = torch.randint(1, v, (2, length), generator=generator)
        tokens[:, 0], tokens[:, -1] = 0, tokens[:, 2]
        return tokens

    return RandomArg(draw)


def token_sequences(label: str, v: int, n: int, length: int) -> Case:
    return explicit_case(label, v, n, _tokens(v, length))


CASES = [  # some agree in v and others in n: heads that were kept for one of the two are found
    token_sequences("5 kinds of token, n = 8", 5, 8, 8),
    token_sequences("9 kinds of token, n = 7", 9, 7, 7),
    token_sequences("3 kinds of token, n = 16", 3, 16, 16),
    token_sequences("sequences shorter than n", 9, 16, 9),
    token_sequences("2 kinds of token, n = 7", 2, 7, 7),
    token_sequences("a long text: 4 kinds of token, n = 100", 4, 100, 100),
]


def _fitting(head, v: int, n: int) -> list[Tensor]:
    """The head's matrices in float64, or an error that says which of them has a wrong shape."""
    d = 2 * v + n
    if not isinstance(head, (tuple, list)) or not all(isinstance(w, Tensor) and w.dim() == 2 for w in head):
        raise ValueError("return a tuple of matrices (two-dimensional tensors).")
    for name, w, axis in zip(("w_q", "w_k", "w_v", "w_o"), head, (0, 0, 0, 1)):
        if w.shape[axis] != d:
            wanted = f"({d}, …)" if axis == 0 else f"(…, {d})"
            raise ValueError(f"{name} has shape {tuple(w.shape)}, and {wanted} is expected: d = 2·{v} + {n}.")
    return [w.double() for w in head]


def _four(head, v: int, n: int) -> list[Tensor]:
    matrices = _fitting(head, v, n)
    if len(matrices) != 4:
        raise ValueError("return four matrices: w_q, w_k, w_v, w_o.")
    return matrices


def _run_previous(answer, v: int, n: int, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The attention weights of the head, and what it adds to the stream."""
    head, x = _four(answer(v, n), v, n), induction.stream(tokens, v, n).double()
    return induction.causal_weights(x, *head[:2]), induction.head_output(x, head)


def _run_first(answer, v: int, n: int, tokens: Tensor) -> Tensor:
    w_q, w_k, *_ = _fitting(answer(v, n), v, n)
    return induction.causal_weights(induction.stream(tokens, v, n).double(), w_q, w_k)


def _run_induction(answer, v: int, n: int, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The same as `_run_previous`, on a stream to which a right previous-token head has added its part."""
    head, x = _four(answer(v, n), v, n), induction.stream(tokens, v, n).double()
    x = x + induction.head_output(x, [w.double() for w in induction.previous_token_head(v, n)])
    return induction.causal_weights(x, *head[:2]), induction.head_output(x, head)


def _too_weak(run, reference) -> Callable:
    """Whether the right tokens lead in every row, but leave the others too large a share."""

    def recognise(seen) -> bool:
        got, wanted = (
            out[0] if isinstance(out, (tuple, list)) else out for out in (seen.output, run(reference, *seen.args))
        )
        chosen = wanted > 0.01
        lead = got.masked_fill(~chosen, 2.0).amin(-1) - got.masked_fill(chosen, 0.0).amax(
            -1
        )  # least chosen against best other
        lost = got.masked_fill(chosen, 0.0).sum(-1).max() > 0.01
        return bool(lost and (lead > 0).all())

    return recognise


def _unequal(run, reference, last: bool) -> Callable:
    """Whether the right tokens have all attention, in shares that are not equal; whether the `last` of them has most somewhere."""

    def recognise(seen) -> bool:
        got, wanted = (out[0] for out in (seen.output, run(reference, *seen.args)))
        chosen = wanted > 0.01
        kept = got.masked_fill(chosen, 0.0).sum(-1).max() <= 0.01
        row = (got - wanted).abs().amax(-1).argmax()
        gap = (got - wanted).flatten(0, -2)[row][chosen.flatten(0, -2)[row]]
        return bool(kept and (gap[-1] > 0.005 if last else gap[0] > 0.005))

    return recognise


def _written_besides(run, reference) -> Callable:
    """Whether the attention is right, and what is written where something belongs, and something is written elsewhere too."""

    def recognise(seen) -> bool:
        (got, written), (wanted, right) = seen.output, run(reference, *seen.args)
        needed = right.flatten(0, -2).abs().amax(0) > 0.01  # columns
        close = partial(torch.allclose, rtol=CLOSE[0], atol=CLOSE[1])
        return close(got, wanted) and close(written[..., needed], right[..., needed]) and not close(written, right)

    return recognise


def _position_head(v, n, shift, strength=30.0, read=0, write=1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Every position asks for the one `shift` further on; the head reads and writes a part: 0 token, 1 empty, 2 position."""
    d = 2 * v + n
    w_q, w_k, w_v, w_o = torch.zeros(d, n), torch.zeros(d, n), torch.zeros(d, v), torch.zeros(v, d)
    w_q[2 * v :] = strength * math.sqrt(n) * torch.diag(torch.ones(n - abs(shift)), shift)
    w_k[2 * v :] = torch.eye(n)
    width = min(v, d - read * v)
    w_v[read * v : read * v + width, :width] = torch.eye(width)
    w_o[:, write * v : (write + 1) * v] = torch.eye(v)
    return w_q, w_k, w_v, w_o


def previous_by_token(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    _, _, w_v, w_o = _position_head(v, n, -1)
    same = torch.zeros(2 * v + n, v)
    same[:v] = torch.eye(v)
    return 30 * math.sqrt(v) * same, same, w_v, w_o


def previous_without_the_last(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w_q, *others = _position_head(v, n, -1)
    w_q[-1] = 0.0
    return w_q, *others


def previous_of_the_whole_row(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w_q, w_k, _, _ = _position_head(v, n, -1)
    d = 2 * v + n
    return w_q, w_k, torch.eye(d), torch.diag(torch.ones(d - v), v)


def previous_rolled(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w_q, w_k, _, _ = _position_head(v, n, -1)
    d = 2 * v + n
    return w_q, w_k, torch.eye(d), torch.eye(d).roll(v, dims=1)


def previous_away_from_itself(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w_q, *others = _position_head(v, n, 0)
    return -w_q, *others


def previous_that_writes_twice(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *others, w_o = _position_head(v, n, -1)
    return *others, w_o + torch.eye(2 * v + n)[:v]


def previous_without_the_start_token(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w_q, w_k, w_v, w_o = _position_head(v, n, -1)
    w_v[0] = 0.0
    return w_q, w_k, w_v, w_o


def previous_that_writes_nothing(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w_q, w_k, w_v, w_o = _position_head(v, n, -1)
    return w_q, w_k, w_v, torch.zeros_like(w_o)


previous_token_head = Check(
    reference=induction.previous_token_head,
    names=("weights: queries keys", "output: positions features"),
    cases=CASES,
    drive=_run_previous,
    within=CLOSE,
    misconceptions=wrong_answers(
        __file__,
        no_visible_token_asked=lambda v, n: _position_head(v, n, 1),
        every_token_looks_at_itself=lambda v, n: _position_head(v, n, 0),
        two_tokens_back=lambda v, n: _position_head(v, n, -2),
        scores_that_too_weak=Wrong(
            lambda v, n: _position_head(v, n, -1, strength=1.0),
            recognise=_too_weak(_run_previous, induction.previous_token_head),
        ),
        tokens_compared_instead_positions=previous_by_token,
        written_over_token_itself=lambda v, n: _position_head(v, n, -1, write=0),
        position_handed_over_not_token=lambda v, n: _position_head(v, n, -1, read=2),
        nothing_written=previous_that_writes_nothing,
        start_token_not_handed_over=previous_without_the_start_token,
        last_position_forgotten=previous_without_the_last,
        whole_row_copied=previous_of_the_whole_row,
        away_from_itself_but_nobody=previous_away_from_itself,
        written_into_both_token_columns=previous_that_writes_twice,
        more_written_than_token=Wrong(
            previous_rolled, recognise=_written_besides(_run_previous, induction.previous_token_head)
        ),
    ),
)


def _first(v, n, asks, answers) -> tuple[Tensor, Tensor]:
    """Queries `asks` and keys `answers`, one number for each position."""
    w_q, w_k = torch.zeros(2 * v + n, 1), torch.zeros(2 * v + n, 1)
    w_q[2 * v :, 0], w_k[2 * v :, 0] = asks, answers
    return w_q, w_k


def _at(n, position) -> Tensor:
    return torch.eye(n)[position]


first_token_head = Check(
    reference=induction.first_token_head,
    names=("weights: queries keys",),
    cases=CASES,
    drive=_run_first,
    within=CLOSE,
    misconceptions=wrong_answers(
        __file__,
        scores_that_too_weak=Wrong(
            lambda v, n: _first(v, n, torch.ones(n), _at(n, 0)),
            recognise=_too_weak(_run_first, induction.first_token_head),
        ),
        no_position_stands_out=lambda v, n: _first(v, n, 30 * _at(n, 0), torch.ones(n)),
        every_token_looks_at_itself_2=lambda v, n: _position_head(v, n, 0)[:2],
        second_token=lambda v, n: _first(v, n, 30 * torch.ones(n), _at(n, 1)),
        away_from_first_token=lambda v, n: _first(v, n, -30 * torch.ones(n), _at(n, 0)),
        previous_token_again=lambda v, n: _position_head(v, n, -1)[:2],
        notebooks_v_place_v=lambda v, n: _first(v, n, 30 * torch.ones(n), torch.arange(2 * v, 2 * v + n) == 2 * 5),
        last_position_asks_nobody=lambda v, n: _first(v, n, 30 * (torch.arange(n) < n - 1), _at(n, 0)),
    ),
)


def _matching(
    v, n, *, asks=0, answers=1, match=60.0, rest=30.0, read=0, write=0, resting=None, slope=0.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A head that compares two parts of the stream (0 token, 1 token before), and rests on position 0."""
    d, d_h = 2 * v + n, v + 2
    w_q, w_k, w_v, w_o = torch.zeros(d, d_h), torch.zeros(d, d_h), torch.zeros(d, v), torch.zeros(v, d)
    w_q[2 * v :, v + 1] = math.sqrt(d_h)
    w_k[2 * v :, v + 1] = slope * torch.arange(n)
    w_q[asks * v : (asks + 1) * v, :v] = match * math.sqrt(d_h) * torch.eye(v)
    w_k[answers * v : (answers + 1) * v, :v] = torch.eye(v)
    w_q[2 * v :, v] = rest * math.sqrt(d_h)
    w_k[2 * v if resting is None else resting, v] = 1.0
    w_v[read * v : (read + 1) * v] = torch.eye(v)
    w_o[:, write * v : (write + 1) * v] = torch.eye(v)
    return w_q, w_k, w_v, w_o


def _never_itself(v, n) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A right head to which a position's score with itself is subtracted: every position asks, with a minus, for its own."""
    w_q, w_k, *others = _matching(v, n)
    place = torch.cat([torch.zeros(2 * v, n), torch.eye(n)])
    wider = math.sqrt((v + 2 + n) / (v + 2))
    return torch.cat([wider * w_q, -200 * math.sqrt(v + 2 + n) * place], 1), torch.cat([w_k, place], 1), *others


induction_head = Check(
    reference=induction.induction_head,
    names=("weights: queries keys", "output: positions features"),
    cases=CASES,
    drive=_run_induction,
    within=CLOSE,
    misconceptions=wrong_answers(
        __file__,
        same_token_instead_one_after_it=lambda v, n: _matching(v, n, answers=0),
        queries_keys_swapped=lambda v, n: _matching(v, n, asks=1, answers=0),
        no_resting_place=lambda v, n: _matching(v, n, rest=0.0),
        resting_harder_than_matching=lambda v, n: _matching(v, n, match=30.0, rest=60.0),
        resting_as_hard_as_matching=lambda v, n: _matching(v, n, match=30.0, rest=30.0),
        scores_that_too_weak_2=Wrong(
            lambda v, n: _matching(v, n, match=2.0, rest=1.0),
            recognise=_too_weak(_run_induction, induction.induction_head),
        ),
        token_before_handed_over=lambda v, n: _matching(v, n, read=1),
        written_into_empty_columns=lambda v, n: _matching(v, n, write=1),
        resting_place_that_two_positions_have=lambda v, n: _matching(v, n, resting=v),
        notebooks_v_place_v=lambda v, n: _matching(v, n, resting=2 * 5),
        token_that_never_looks_at_itself=_never_itself,
        resting_place_at_position_1=lambda v, n: _matching(v, n, resting=2 * v + 1),
        latest_match_preferred=Wrong(
            lambda v, n: _matching(v, n, slope=0.5),
            recognise=_unequal(_run_induction, induction.induction_head, last=True),
        ),
        more_written_than_token_2=Wrong(
            lambda v, n: (*_matching(v, n)[:2], torch.eye(2 * v + n), torch.eye(2 * v + n)),
            recognise=_written_besides(_run_induction, induction.induction_head),
        ),
        earliest_match_preferred=Wrong(
            lambda v, n: _matching(v, n, slope=-0.5),
            recognise=_unequal(_run_induction, induction.induction_head, last=False),
        ),
    ),
)

two_hand_made_heads = CheckGroup("two_hand_made_heads", previous_token_head, first_token_head, induction_head)
