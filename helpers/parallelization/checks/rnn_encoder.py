"""The check of `rnn_encoder`: the states of a tanh RNN, one after the other."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import axes_of_size_1_dropped, in_single_precision
from helpers.engine.cases import explicit_case, random_case, whole
from helpers.engine.check import Check, Property
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation, observe
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import recurrence

__all__ = ["rnn_encoder"]


@dataclass(frozen=True)
class Rnn:
    """The steps of a recurrent encoder."""

    tokens: Callable = lambda x: x.unbind(1)
    start: Callable = lambda x, bias: x.new_zeros(len(x), len(bias))
    carry: Callable = lambda h, t: h  # the state that goes into step t
    step: Callable = lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + h @ w_h + bias)
    join: Callable = lambda states: torch.stack(states, dim=1)


@composable
def rnn(**changed: Callable) -> Callable:
    steps = Rnn(**changed)

    def answer(x, w_x, w_h, bias) -> Tensor:
        state, states = steps.start(x, bias), []
        for t, token in enumerate(steps.tokens(x)):
            state = steps.step(token, steps.carry(state, t), w_x, w_h, bias)
            states.append(state)
        return steps.join(states)

    return answer


def squashed(by: Callable) -> Callable:
    """With something else than a tanh around the sum."""
    return rnn(step=lambda x, h, w_x, w_h, bias: by(x @ w_x + h @ w_h + bias))


def clamped(most: float) -> Callable:
    return squashed(lambda total: torch.tanh(total.clamp(-most, most)))


def cut_off(every: int) -> Callable:
    return rnn(carry=lambda h, t: h if t % every else h.detach())


def first_without_bias(x, h, w_x, w_h, bias) -> Tensor:
    return torch.tanh(x @ w_x) if h is None else torch.tanh(x @ w_x + h @ w_h + bias)


def call_in_call(x, w_x, w_h, bias) -> Tensor:
    def up_to(t: int) -> list[Tensor]:
        if t < 0:
            return []
        before = up_to(t - 1)
        state = before[-1] if before else x.new_zeros(len(x), len(bias))
        return [*before, torch.tanh(x[:, t] @ w_x + state @ w_h + bias)]

    return torch.stack(up_to(x.shape[1] - 1), dim=1)


def _all_alike(seen: Observation) -> bool:
    states = seen.output
    return (
        states.shape[1] > 1
        and states.shape == seen.args[0].shape[:2] + seen.args[3].shape
        and torch.equal(states, states[:, -1:].expand_as(states))
    )


def _overflowed(seen: Observation) -> bool:
    return bool(seen.output.isnan().any()) and seen.args[0].abs().max() > 10


def _clamped(seen: Observation) -> bool:
    """The states are those of an RNN whose tanh gets no number beyond a limit, and others than the right ones."""
    limit, within = math.atanh(seen.output.abs().max().item()), tolerance(seen.args)
    same, right = (agree(seen.output, one(*seen.args), within) for one in (clamped(limit), recurrence.rnn_encoder))
    return same and not right


def _gradient_lost(seen: Observation) -> bool:
    """The output is finite, and its gradients are not."""
    return bool(seen.output.isfinite().all()) and any(gradient.isnan().any() for gradient in seen.gradients)


USUAL_SPANS = (2, 3, 4, 5, 8, 10, 16, 20, 25, 30, 32, 35, 40, 50, 64, 100, 128)  # of truncated backpropagation


def _cut_off_now_and_then(seen: Observation) -> bool:
    """Gradients that are those of a state which is cut off after every so many steps."""
    cuts = (cut_off(span) for span in USUAL_SPANS if span < seen.args[0].shape[1])
    return any(
        agree(seen.gradients, observe(cut, seen.args, gradient=True).gradients, tolerance(seen.args)) for cut in cuts
    )


def _like_pytorch(states, *inputs) -> bool:
    return agree(states, recurrence.pytorch_rnn(*inputs), tolerance(inputs))


GRADIENTS = {"dtype": torch.float64, "gradient": True}

rnn_encoder = Check(
    reference=recurrence.rnn_encoder,
    cases=[
        random_case(b=2, n=5, d_in=3, d=4),
        random_case(b=3, n=4, d_in=4, d=4, scale=0.5, label="as wide as its inputs"),
        random_case(b=3, n=1, d_in=2, d=5, label="one token"),
        random_case("gradients through time", b=2, n=6, d_in=4, d=3, scale=0.5, **GRADIENTS),
        random_case("gradients through 130 tokens", b=2, n=130, d_in=2, d=3, **GRADIENTS),
        random_case("large inputs, in float64, with gradients", b=2, n=4, d_in=3, d=5, scale=16.0, **GRADIENTS),
        explicit_case("large inputs", whole(2, 4, 3), whole(3, 5), whole(5, 5), whole(5)),
        # Last: a slip shows before. Small weights: without a tanh the states stay finite.
        random_case(b=1, n=1_100, d_in=2, d=3, scale=0.2, label="1,100 tokens"),
    ],
    misconceptions=wrong_answers(
        __file__,
        axes_of_size_1_dropped(recurrence.rnn_encoder),
        in_single_precision(recurrence.rnn_encoder),
        not_carried_on=lambda x, w_x, w_h, bias: torch.tanh(x @ w_x + bias),
        shifted=rnn(join=lambda states: torch.stack([torch.zeros_like(states[0]), *states[:-1]], dim=1)),
        no_bias=rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + h @ w_h)),
        bias_outside=rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + h @ w_h) + bias),
        bias_twice=rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + h @ w_h + 2 * bias)),
        sigmoid=squashed(torch.sigmoid),
        ones_at_first=rnn(start=lambda x, bias: x.new_ones(len(x), len(bias))),
        last_token_left_out=Wrong(rnn(tokens=lambda x: x[:, :-1].unbind(1)), raises="RuntimeError"),
        stacked_first=rnn(join=torch.stack),
        both_transposed=Wrong(
            rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x.mT + h @ w_h.mT + bias)), raises="RuntimeError"
        ),
        no_tanh=squashed(lambda total: total),
        tanh_at_the_end=rnn(
            step=lambda x, h, w_x, w_h, bias: x @ w_x + h @ w_h + bias,
            join=lambda states: torch.tanh(torch.stack(states, dim=1)),
        ),
        w_h_transposed=rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + h @ w_h.mT + bias)),
        no_w_h=rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + h + bias)),
        old_state_outside=rnn(step=lambda x, h, w_x, w_h, bias: torch.tanh(x @ w_x + bias) + h @ w_h),
        batch_walked=rnn(
            tokens=lambda x: x.unbind(0), start=lambda x, bias: x.new_zeros(x.shape[1], len(bias)), join=torch.stack
        ),
        from_the_end=rnn(tokens=lambda x: x.flip(1).unbind(1), join=lambda states: torch.stack(states, dim=1).flip(1)),
        last_state_only=rnn(join=lambda states: states[-1]),
        detached=cut_off(1),
        cut_off_now_and_then=Wrong(cut_off(16), recognise=_cut_off_now_and_then),
        first_without_bias=rnn(start=lambda x, bias: None, step=first_without_bias),
        across_sentences=lambda x, *weights: recurrence.rnn_encoder(x.flatten(0, 1)[None], *weights).view(
            *x.shape[:2], -1
        ),
        call_in_call=Wrong(call_in_call, raises="RecursionError"),
        last_state_everywhere=Wrong(
            rnn(join=lambda states: torch.stack([states[-1]] * len(states), dim=1)), recognise=_all_alike
        ),
        reshaped=rnn(join=lambda states: torch.stack(states).reshape(len(states[0]), len(states), -1)),
        wide_as_a_token=Wrong(rnn(start=lambda x, bias: torch.zeros_like(x[:, 0])), raises="RuntimeError"),
        overflow=Wrong(
            squashed(lambda total: (torch.exp(2 * total) - 1) / (torch.exp(2 * total) + 1)), recognise=_overflowed
        ),
        gradient_overflow=Wrong(squashed(lambda total: 1 - 2 / (torch.exp(2 * total) + 1)), recognise=_gradient_lost),
        clamped=Wrong(clamped(10), recognise=_clamped),
    ),
    properties=[Property("equal to nn.RNN with the same weights", _like_pytorch)],
    forbids=["rnn", "gru", "lstm"],
    counts=False,  # no mark asks for counts, and they take longest where there are many steps
)
