"""The check of `two_hand_made_heads`. Many weights are right, so what counts is what the heads do on random tokens."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.compare import RETURNS_NOTHING
from helpers.engine.drivers import Stopped
from helpers.engine.observe import StudentError
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import induction

__all__ = ["two_hand_made_heads"]

CLOSE = (0.0, 0.01)  # attention of 0.99 counts as all of it


def _tokens(v: int, length: int) -> RandomArg:
    """Two sequences: the start token, then drawn tokens; the last of them stood before, and the second is new."""

    def draw(generator: Generator) -> Tensor:
        tokens = torch.randint(1, v, (2, length), generator=generator)
        tokens[:, 0], tokens[:, -1] = 0, tokens[:, 2]
        return tokens

    return RandomArg(draw)


def case(label: str, v: int, n: int, length: int) -> Case:
    return explicit_case(label, v, n, _tokens(v, length))


CASES = [  # some agree in v and others in n: heads that were kept for one of the two are found
    case("5 kinds of token, n = 8", 5, 8, 8),
    case("9 kinds of token, n = 7", 9, 7, 7),
    case("3 kinds of token, n = 16", 3, 16, 16),
    case("sequences shorter than n", 9, 16, 9),
    case("2 kinds of token, n = 7", 2, 7, 7),
    case("a long text: 4 kinds of token, n = 100", 4, 100, 100),
]


def _fitting(head, v: int, n: int) -> list[Tensor]:
    """The head's matrices in float64, or an error that says which of them has a wrong shape."""
    d = 2 * v + n
    if head is None:
        raise Stopped(StudentError("", RETURNS_NOTHING))
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


# ---------------------------------------------------------------------------------------------------------------- marks


def _too_weak(run: Callable, reference: Callable) -> Callable:
    """Whether the right tokens lead in every row, but leave the others too large a share."""

    def recognise(seen) -> bool:
        both = (seen.output, run(reference, *seen.args))
        got, wanted = (out[0] if isinstance(out, (tuple, list)) else out for out in both)
        chosen = wanted > 0.01
        others = got.masked_fill(chosen, 0.0)
        least_chosen = got.masked_fill(~chosen, 2.0).amin(-1)
        return bool(others.sum(-1).max() > 0.01 and (least_chosen > others.amax(-1)).all())

    return recognise


def _unequal(last: bool) -> Callable:
    """Whether the right tokens have all attention, in unequal shares; whether the `last` has most somewhere."""

    def recognise(seen) -> bool:
        got, wanted = (out[0] for out in (seen.output, _run_induction(induction.induction_head, *seen.args)))
        chosen = wanted > 0.01
        kept = got.masked_fill(chosen, 0.0).sum(-1).max() <= 0.01
        row = (got - wanted).abs().amax(-1).argmax()
        gap = (got - wanted).flatten(0, -2)[row][chosen.flatten(0, -2)[row]]
        return bool(kept and gap[-1 if last else 0] > 0.005)

    return recognise


def _written_besides(run: Callable, reference: Callable) -> Callable:
    """Whether attention and what is written where something belongs are right, and something is written elsewhere."""

    def close(one: Tensor, other: Tensor) -> bool:
        return torch.allclose(one, other, *CLOSE)

    def recognise(seen) -> bool:
        (got, written), (wanted, right) = seen.output, run(reference, *seen.args)
        needed = right.flatten(0, -2).abs().amax(0) > 0.01  # columns
        return close(got, wanted) and close(written[..., needed], right[..., needed]) and not close(written, right)

    return recognise


# ------------------------------------------------------------------------------------------------------- previous token


def _shifted(v, n, shift, strength=30.0, read=0, write=1) -> tuple[Tensor, ...]:
    """Every position asks for the one `shift` further on; it reads and writes a part: 0 token, 1 empty, 2 position."""
    d = 2 * v + n
    w_q, w_k, w_v, w_o = torch.zeros(d, n), torch.zeros(d, n), torch.zeros(d, v), torch.zeros(v, d)
    w_q[2 * v :] = strength * math.sqrt(n) * torch.diag(torch.ones(n - abs(shift)), shift)
    w_k[2 * v :] = torch.eye(n)
    width = min(v, d - read * v)
    w_v[read * v : read * v + width, :width] = torch.eye(width)
    w_o[:, write * v : (write + 1) * v] = torch.eye(v)
    return w_q, w_k, w_v, w_o


def _kept(w, eye, v) -> Tensor:
    return w


@composable
def previous(shift: int = -1, w_q=_kept, w_k=_kept, w_v=_kept, w_o=_kept) -> Callable[..., tuple[Tensor, ...]]:
    """Such a head with some matrices changed: `w_v=…` of what it was, the identity (d, d) and v."""

    def head(v, n) -> tuple[Tensor, ...]:
        eye, (asks, answers, reads, writes) = torch.eye(2 * v + n), _shifted(v, n, shift)
        return w_q(asks, eye, v), w_k(answers, eye, v), w_v(reads, eye, v), w_o(writes, eye, v)

    return head


previous_token_head = Check(
    reference=induction.previous_token_head,
    names=("weights: queries keys", "output: positions features"),
    cases=CASES,
    drive=_run_previous,
    within=CLOSE,
    misconceptions=wrong_answers(
        __file__,
        nobody_visible=lambda v, n: _shifted(v, n, 1),
        itself=lambda v, n: _shifted(v, n, 0),
        two_back=lambda v, n: _shifted(v, n, -2),
        too_weak=Wrong(
            lambda v, n: _shifted(v, n, -1, strength=1.0),
            recognise=_too_weak(_run_previous, induction.previous_token_head),
        ),
        tokens_compared=previous(
            w_q=lambda w, eye, v: 30 * math.sqrt(v) * eye[:, :v], w_k=lambda w, eye, v: eye[:, :v]
        ),
        written_over=lambda v, n: _shifted(v, n, -1, write=0),
        position_handed_over=lambda v, n: _shifted(v, n, -1, read=2),
        nothing_written=previous(w_o=lambda w, eye, v: 0 * w),
        start_token_lost=previous(w_v=lambda w, eye, v: w * (1 - eye[0])[:, None]),
        last_forgotten=previous(w_q=lambda w, eye, v: w * (1 - eye[-1])[:, None]),
        whole_row=previous(w_v=lambda w, eye, v: eye, w_o=lambda w, eye, v: eye.roll(v, dims=1).triu()),
        away_from_itself=previous(0, w_q=lambda w, eye, v: -w),
        written_twice=previous(w_o=lambda w, eye, v: w + eye[:v]),
        more_written=Wrong(
            previous(w_v=lambda w, eye, v: eye, w_o=lambda w, eye, v: eye.roll(v, dims=1)),
            recognise=_written_besides(_run_previous, induction.previous_token_head),
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------------- first token


def _first(asks: Callable, answers: Callable) -> Callable:
    """Queries `asks(n)` and keys `answers(n)`, one number for each position."""

    def head(v, n) -> tuple[Tensor, Tensor]:
        w_q, w_k = torch.zeros(2 * v + n, 1), torch.zeros(2 * v + n, 1)
        w_q[2 * v :, 0], w_k[2 * v :, 0] = asks(n), answers(n)
        return w_q, w_k

    return head


def _at_0(n) -> Tensor:
    return torch.eye(n)[0]


def notebooks_v(v, n) -> tuple[Tensor, Tensor]:
    return _first(lambda n: 30 * torch.ones(n), lambda n: torch.arange(2 * v, 2 * v + n) == 2 * 5)(v, n)


first_token_head = Check(
    reference=induction.first_token_head,
    names=("weights: queries keys",),
    cases=CASES,
    drive=_run_first,
    within=CLOSE,
    misconceptions=wrong_answers(
        __file__,
        too_weak=Wrong(_first(torch.ones, _at_0), recognise=_too_weak(_run_first, induction.first_token_head)),
        nobody_stands_out=_first(lambda n: 30 * _at_0(n), torch.ones),
        itself_again=lambda v, n: _shifted(v, n, 0)[:2],
        second_token=_first(lambda n: 30 * torch.ones(n), lambda n: torch.eye(n)[1]),
        away_from_first=_first(lambda n: -30 * torch.ones(n), _at_0),
        previous_again=lambda v, n: _shifted(v, n, -1)[:2],
        notebooks_v=notebooks_v,
        last_asks_nobody=_first(lambda n: 30 * (torch.arange(n) < n - 1), _at_0),
    ),
)

# ------------------------------------------------------------------------------------------------------------ induction


def _matching(
    v, n, *, asks=0, answers=1, match=60.0, rest=30.0, read=0, write=0, resting=None, slope=0.0
) -> tuple[Tensor, ...]:
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


def _never_itself(v, n) -> tuple[Tensor, ...]:
    """A right head from which a position's score with itself is subtracted: each asks, with a minus, for its own."""
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
        same_token=lambda v, n: _matching(v, n, answers=0),
        swapped=lambda v, n: _matching(v, n, asks=1, answers=0),
        no_rest=lambda v, n: _matching(v, n, rest=0.0),
        rest_harder=lambda v, n: _matching(v, n, match=30.0, rest=60.0),
        rest_as_hard=lambda v, n: _matching(v, n, match=30.0, rest=30.0),
        too_weak_to_match=Wrong(
            lambda v, n: _matching(v, n, match=2.0, rest=1.0),
            recognise=_too_weak(_run_induction, induction.induction_head),
        ),
        token_before=lambda v, n: _matching(v, n, read=1),
        written_into_empty=lambda v, n: _matching(v, n, write=1),
        rest_of_two=lambda v, n: _matching(v, n, resting=v),
        notebooks_v=lambda v, n: _matching(v, n, resting=2 * 5),
        never_itself=_never_itself,
        rest_at_1=lambda v, n: _matching(v, n, resting=2 * v + 1),
        latest=Wrong(lambda v, n: _matching(v, n, slope=0.5), recognise=_unequal(last=True)),
        more_written_again=Wrong(
            lambda v, n: (*_matching(v, n)[:2], torch.eye(2 * v + n), torch.eye(2 * v + n)),
            recognise=_written_besides(_run_induction, induction.induction_head),
        ),
        earliest=Wrong(lambda v, n: _matching(v, n, slope=-0.5), recognise=_unequal(last=False)),
    ),
)

two_hand_made_heads = CheckGroup("two_hand_made_heads", previous_token_head, first_token_head, induction_head)
