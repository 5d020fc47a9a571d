"""Checks of heads made by hand. Many weights are right, so what counts is what the heads do on random tokens."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup, Misconception

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
    token_sequences("5 kinds of token, n = 8", 5, 8, 8), token_sequences("9 kinds of token, n = 7", 9, 7, 7),
    token_sequences("3 kinds of token, n = 16", 3, 16, 16), token_sequences("sequences shorter than n", 9, 16, 9),
    token_sequences("2 kinds of token, n = 7", 2, 7, 7), token_sequences("a long text: 4 kinds of token, n = 100", 4, 100, 100),
]  # fmt: skip


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


WEAK = (
    "The softmax lets the others keep a share. What counts is the gap between the largest score and the next, after the division by √d_h: it must be large. "
    "Make the query's weights larger."
)

NOTEBOOKS_V = "It finds position 0 only for v = 5. `V` and `N` are the sizes of the notebook's own example. Inside the function they are `v` and `n`, and position 0 is row 2·v."

# ---------------------------------------------------------------------------------------------- wrong answers, made by hand


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
    misconceptions=[
        Misconception(
            "no visible token is asked for", lambda v, n: _position_head(v, n, 1),
            "All visible tokens get the same share: position i asks for none of them. It must ask for i − 1. If w_q and w_k are swapped it asks for i + 1, "
            "and the causal mask hides the answer.",
        ),
        Misconception(
            "every token looks at itself", lambda v, n: _position_head(v, n, 0),
            "With the same matrix for queries and keys, position i finds position i. Shift one of the two by one.",
        ),
        Misconception(
            "two tokens back", lambda v, n: _position_head(v, n, -2),
            "Position i must find i − 1. Check the first one that can: position 1 finds position 0.",
        ),
        Misconception(
            "scores that are too weak", lambda v, n: _position_head(v, n, -1, strength=1.0), WEAK,
            _too_weak(_run_previous, induction.previous_token_head),
        ),
        Misconception(
            "tokens compared instead of positions", previous_by_token,
            "This head finds tokens of the same kind. Where a token stands is written in the last n columns: read queries and keys from there.",
        ),
        Misconception(
            "written over the token itself", lambda v, n: _position_head(v, n, -1, write=0),
            "The attention is right. But w_o writes into the first v columns, where the token's own name stands. Use the empty ones.",
        ),
        Misconception(
            "the position handed over, not the token", lambda v, n: _position_head(v, n, -1, read=2),
            "The attention is right. What must be handed over is which token stood there: w_v reads the first v columns.",
        ),
        Misconception(
            "nothing written", previous_that_writes_nothing,
            "The attention is right, but w_v and w_o let nothing through.",
        ),
        Misconception(
            "the start token not handed over", previous_without_the_start_token,
            "The attention is right. But where the start token stood before, nothing is written: it is a token like any other, number 0 of the v. w_v "
            "reads all of the first v columns.",
        ),
        Misconception(
            "the last position forgotten", previous_without_the_last,
            "Position n − 1 asks for no position, so it looks everywhere. Positions 1 … n − 1 all have a row in w_q: `range(1, n)`.",
        ),
        Misconception(
            "the whole row copied", previous_of_the_whole_row,
            "The attention is right. But w_v hands over the position as well, and w_o writes it behind the token. Only the token goes into the "
            "empty columns.",
        ),
        Misconception(
            "away from itself, but to nobody", previous_away_from_itself,
            "A negative score for itself leaves all earlier positions equal. Ask for i − 1: its score must be the largest.",
        ),
        Misconception(
            "written into both token columns", previous_that_writes_twice,
            "The attention is right. But w_o writes the previous token over the token's own name as well. Only the empty columns get it.",
        ),
        Misconception(
            "more written than the token", previous_rolled,
            "The attention is right, and so is what stands in the empty columns. But the head writes into other columns as well: w_v reads only the "
            "token, the first v columns, and w_o writes only into the empty ones.",
            _written_besides(_run_previous, induction.previous_token_head),
        ),
    ],
)  # fmt: skip


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
    misconceptions=[
        Misconception(
            "scores that are too weak", lambda v, n: _first(v, n, torch.ones(n), _at(n, 0)), WEAK,
            _too_weak(_run_first, induction.first_token_head),
        ),
        Misconception(
            "no position stands out", lambda v, n: _first(v, n, 30 * _at(n, 0), torch.ones(n)),
            "All visible positions get the same share. Every position must ask, with columns that are not empty, and only position 0 answer.",
        ),
        Misconception(
            "every token looks at itself", lambda v, n: _position_head(v, n, 0)[:2],
            "Here all positions want the same thing, position 0: make all queries the same vector.",
        ),
        Misconception(
            "the second token", lambda v, n: _first(v, n, 30 * torch.ones(n), _at(n, 1)),
            "Positions count from 0: the first token is at position 0.",
        ),
        Misconception(
            "away from the first token", lambda v, n: _first(v, n, -30 * torch.ones(n), _at(n, 0)),
            "The score with position 0 must be large and positive. Yours is negative, so every other token is preferred.",
        ),
        Misconception(
            "the previous token again", lambda v, n: _position_head(v, n, -1)[:2],
            "This is the head of part (a). Here every token must look at position 0.",
        ),
        Misconception(
            "the notebook's V in place of v", lambda v, n: _first(v, n, 30 * torch.ones(n), torch.arange(2 * v, 2 * v + n) == 2 * 5), NOTEBOOKS_V,
        ),
        Misconception(
            "the last position asks for nobody", lambda v, n: _first(v, n, 30 * (torch.arange(n) < n - 1), _at(n, 0)),
            "Position n − 1 has no query, so it looks everywhere. All n positions ask.",
        ),
    ],
)  # fmt: skip


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
    misconceptions=[
        Misconception(
            "the same token instead of the one after it", lambda v, n: _matching(v, n, answers=0),
            "This head finds the earlier A. You want the token that came after it: the one whose previous token is A. That is what the "
            "first head wrote into the empty columns, so the keys read there.",
        ),
        Misconception(
            "queries and keys swapped", lambda v, n: _matching(v, n, asks=1, answers=0),
            "Your query asks with the token before. It is the other way round: ask with the token itself, and let each key answer with the "
            "token before it.",
        ),
        Misconception(
            "no resting place", lambda v, n: _matching(v, n, rest=0.0),
            "Where no earlier copy exists all scores are equal, and attention goes everywhere. Add the first-token head: position 0 should "
            "win if nothing else does.",
        ),
        Misconception(
            "resting harder than matching", lambda v, n: _matching(v, n, match=30.0, rest=60.0),
            "Position 0 always wins, even where there is a match. A match must score clearly higher than the resting place.",
        ),
        Misconception(
            "resting as hard as matching", lambda v, n: _matching(v, n, match=30.0, rest=30.0),
            "Position 0 and the matches have equal scores, so they share. A match must score clearly higher.",
        ),
        Misconception(
            "scores that are too weak", lambda v, n: _matching(v, n, match=2.0, rest=1.0),
            f"{WEAK} There are two gaps here: from a match to the resting place, and from the resting place to the rest.",
            _too_weak(_run_induction, induction.induction_head),
        ),
        Misconception(
            "the token before handed over", lambda v, n: _matching(v, n, read=1),
            "The attention is right. But your values read the columns that name the token before, and at a match that is the token which asks. Hand over the token "
            "that stands there.",
        ),
        Misconception(
            "written into the empty columns", lambda v, n: _matching(v, n, write=1),
            "The attention is right. Write what you found into the first v columns: that is where the prediction is read.",
        ),
        Misconception(
            "a resting place that two positions have", lambda v, n: _matching(v, n, resting=v),
            "The note \"my previous token is ^\" stands at position 1, and at position 0 as well: in layer 1 it could look only at itself. So the "
            "two share. The position, or the token ^ itself, is at one place only.",
        ),
        Misconception(
            "the notebook's V in place of v", lambda v, n: _matching(v, n, resting=2 * 5),
            NOTEBOOKS_V,
        ),
        Misconception(
            "a token that never looks at itself", _never_itself,
            "A match may be the token itself: in ^BAA the last A stands right after an A. The earlier positions count, and its own too.",
        ),
        Misconception(
            "a resting place at position 1", lambda v, n: _matching(v, n, resting=2 * v + 1),
            "Position 1 is no resting place: it may be a match itself. Position 0 is the one that every token sees.",
        ),
        Misconception(
            "the latest match preferred", lambda v, n: _matching(v, n, slope=0.5),
            "Your scores grow with the position of the key, so the last match takes more than the first. All matches get equal shares: their "
            "scores must be equal.",
            _unequal(_run_induction, induction.induction_head, last=True),
        ),
        Misconception(
            "more written than the token", lambda v, n: (*_matching(v, n)[:2], torch.eye(2 * v + n), torch.eye(2 * v + n)),
            "The attention is right, and so is what stands in the first v columns. But the head writes into other columns as well: w_v reads only the "
            "token, and w_o writes only into the first v columns.",
            _written_besides(_run_induction, induction.induction_head),
        ),
        Misconception(
            "the earliest match preferred", lambda v, n: _matching(v, n, slope=-0.5),
            "Your scores fall with the position of the key, so the first match takes more than the last. All matches get equal shares: their "
            "scores must be equal.",
            _unequal(_run_induction, induction.induction_head, last=False),
        ),
    ],
)  # fmt: skip

two_hand_made_heads = CheckGroup("two_hand_made_heads", previous_token_head, first_token_head, induction_head)
