"""The check of `rnn_encoder`."""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case, random_case, whole
from helpers.engine.check import Check, Property
from helpers.engine.common_misconceptions import axes_of_size_1_dropped, in_single_precision
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation, observe
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import recurrence

__all__ = ["rnn_encoder"]


def _states(x, d, step) -> Tensor:
    """All states of an RNN whose step is `step(x_t, h)`."""
    state, states = x.new_zeros(len(x), d), []
    for t in range(x.shape[1]):
        state = step(x[:, t], state)
        states.append(state)
    return torch.stack(states, dim=1)


def states_shifted(x, w_x, w_h, bias) -> Tensor:
    states = _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h + bias))
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)


def batch_walked(x, w_x, w_h, bias) -> Tensor:
    state, states = x.new_zeros(x.shape[1], len(bias)), []
    for row in x:
        state = torch.tanh(row @ w_x + state @ w_h + bias)
        states.append(state)
    return torch.stack(states)


def read_backwards(x, w_x, w_h, bias) -> Tensor:
    return _states(x.flip(1), len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h + bias)).flip(1)


def last_state_only(x, w_x, w_h, bias) -> Tensor:
    return _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h + bias))[:, -1]


def _step(w_x, w_h, bias) -> Callable:
    return lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h + bias)


def first_state_without_bias(x, w_x, w_h, bias) -> Tensor:
    state, states = torch.tanh(x[:, 0] @ w_x), []
    for t in range(x.shape[1]):
        state = torch.tanh(x[:, t] @ w_x + state @ w_h + bias) if t else state
        states.append(state)
    return torch.stack(states, dim=1)


def state_from_sentence_to_sentence(x, w_x, w_h, bias) -> Tensor:
    return _states(x.flatten(0, 1)[None], len(bias), _step(w_x, w_h, bias)).view(*x.shape[:2], -1)


def one_call_within_another(x, w_x, w_h, bias) -> Tensor:
    def up_to(t: int) -> list[Tensor]:
        if t < 0:
            return []
        before = up_to(t - 1)
        state = before[-1] if before else x.new_zeros(len(x), len(bias))
        return [*before, _step(w_x, w_h, bias)(x[:, t], state)]

    return torch.stack(up_to(x.shape[1] - 1), dim=1)


def one_buffer_for_all(x, w_x, w_h, bias) -> Tensor:
    states = _states(x, len(bias), _step(w_x, w_h, bias))
    return states[:, -1:].repeat(1, x.shape[1], 1)


def _all_alike(seen: Observation) -> bool:
    states = seen.output
    return (
        states.shape[1] > 1
        and states.shape == seen.args[0].shape[:2] + seen.args[3].shape
        and torch.equal(states, states[:, -1:].expand_as(states))
    )


def reshaped_for_swapped(x, w_x, w_h, bias) -> Tensor:
    return _states(x, len(bias), _step(w_x, w_h, bias)).transpose(0, 1).reshape(*x.shape[:2], -1)


def state_as_wide_as_a_token(x, w_x, w_h, bias) -> Tensor:
    state, states = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = torch.tanh(x[:, t] @ w_x + state @ w_h + bias)
        states.append(state)
    return torch.stack(states, dim=1)


def from_ones(x, w_x, w_h, bias) -> Tensor:
    state, states = x.new_ones(len(x), len(bias)), []
    for t in range(x.shape[1]):
        state = torch.tanh(x[:, t] @ w_x + state @ w_h + bias)
        states.append(state)
    return torch.stack(states, dim=1)


def _by_powers(z) -> Tensor:
    return (torch.exp(2 * z) - 1) / (torch.exp(2 * z) + 1)


def tanh_by_powers(x, w_x, w_h, bias) -> Tensor:
    return _states(x, len(bias), lambda x_t, h: _by_powers(x_t @ w_x + h @ w_h + bias))


def _overflowed(seen: Observation) -> bool:
    return bool(seen.output.isnan().any()) and seen.args[0].abs().max() > 10


def clamped_before_the_tanh(most, x, w_x, w_h, bias) -> Tensor:
    return _states(x, len(bias), lambda x_t, h: torch.tanh((x_t @ w_x + h @ w_h + bias).clamp(-most, most)))


def _clamped(seen: Observation) -> bool:
    """The states are those of an RNN whose tanh gets no number beyond a limit, and others than the right ones."""
    limit = math.atanh(seen.output.abs().max().item())
    within = tolerance(seen.args)
    return agree(seen.output, clamped_before_the_tanh(limit, *seen.args), within) and not agree(
        seen.output, recurrence.rnn_encoder(*seen.args), within
    )


def tanh_with_a_lost_gradient(x, w_x, w_h, bias) -> Tensor:
    return _states(x, len(bias), lambda x_t, h: 1 - 2 / (torch.exp(2 * (x_t @ w_x + h @ w_h + bias)) + 1))


def _gradient_lost(seen: Observation) -> bool:
    """The output is finite, and its gradients are not."""
    return bool(seen.output.isfinite().all()) and any(gradient.isnan().any() for gradient in seen.gradients)


USUAL_SPANS = (2, 3, 4, 5, 8, 10, 16, 20, 25, 30, 32, 35, 40, 50, 64, 100, 128)  # of truncated backpropagation


def state_cut_off_every(steps, x, w_x, w_h, bias) -> Tensor:
    state, states = x.new_zeros(len(x), len(bias)), []
    for t in range(x.shape[1]):
        state = state.detach() if t and t % steps == 0 else state
        state = torch.tanh(x[:, t] @ w_x + state @ w_h + bias)
        states.append(state)
    return torch.stack(states, dim=1)


def _cut_off_now_and_then(seen: Observation) -> bool:
    """Gradients that are those of a state which is cut off after every so many steps."""
    cuts = (functools.partial(state_cut_off_every, steps) for steps in USUAL_SPANS if steps < seen.args[0].shape[1])
    return any(
        agree(seen.gradients, observe(cut, seen.args, gradient=True).gradients, tolerance(seen.args)) for cut in cuts
    )


def _like_pytorch(states, *inputs) -> bool:
    return agree(states, recurrence.pytorch_rnn(*inputs), tolerance(inputs))


rnn_encoder = Check(
    reference=recurrence.rnn_encoder,
    cases=[
        random_case(b=2, n=5, d_in=3, d=4),
        random_case(b=3, n=4, d_in=4, d=4, scale=0.5, label="as wide as its inputs"),
        random_case(b=3, n=1, d_in=2, d=5, label="one token"),
        random_case(
            b=2, n=6, d_in=4, d=3, scale=0.5, dtype=torch.float64, gradient=True, label="gradients through time"
        ),
        random_case(b=2, n=130, d_in=2, d=3, dtype=torch.float64, gradient=True, label="gradients through 130 tokens"),
        random_case(
            b=2,
            n=4,
            d_in=3,
            d=5,
            scale=16.0,
            dtype=torch.float64,
            gradient=True,
            label="large inputs, in float64, with gradients",
        ),
        explicit_case("large inputs", whole(2, 4, 3), whole(3, 5), whole(5, 5), whole(5)),
        # last: a slip shows before, and isn't tried on so many steps. Small weights: without a tanh the states stay finite.
        random_case(b=1, n=1_100, d_in=2, d=3, scale=0.2, label="1,100 tokens"),
    ],
    misconceptions=wrong_answers(
        __file__,
        axes_of_size_1_dropped(recurrence.rnn_encoder),
        in_single_precision(recurrence.rnn_encoder),
        state_not_carried_on=lambda x, w_x, w_h, bias: torch.tanh(x @ w_x + bias),
        states_shifted_by_one=states_shifted,
        bias_dropped=lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h)),
        bias_added_outside_tanh=lambda x, w_x, w_h, bias: _states(
            x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h) + bias
        ),
        bias_added_twice=lambda x, w_x, w_h, bias: _states(
            x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h + 2 * bias)
        ),
        sigmoid_instead_tanh=lambda x, w_x, w_h, bias: _states(
            x, len(bias), lambda x_t, h: torch.sigmoid(x_t @ w_x + h @ w_h + bias)
        ),
        first_state_ones=from_ones,
        last_token_left_out=Wrong(
            lambda x, w_x, w_h, bias: _states(x[:, :-1], len(bias), _step(w_x, w_h, bias)), raises="RuntimeError"
        ),
        stacked_along_first_axis=lambda x, w_x, w_h, bias: (
            _states(x, len(bias), _step(w_x, w_h, bias)).transpose(0, 1).contiguous()
        ),
        both_weights_transposed=Wrong(
            lambda x, w_x, w_h, bias: _states(
                x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x.mT + h @ w_h.mT + bias)
            ),
            raises="RuntimeError",
        ),
        no_tanh=lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: x_t @ w_x + h @ w_h + bias),
        tanh_on_way_out_only=lambda x, w_x, w_h, bias: torch.tanh(
            _states(x, len(bias), lambda x_t, h: x_t @ w_x + h @ w_h + bias)
        ),
        w_h_transposed=lambda x, w_x, w_h, bias: _states(
            x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h.mT + bias)
        ),
        w_h_left_out=lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h + bias)),
        old_state_added_outside_tanh=lambda x, w_x, w_h, bias: _states(
            x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + bias) + h @ w_h
        ),
        batch_walked_instead_tokens=batch_walked,
        sentence_read_from_end=read_backwards,
        last_state_only=last_state_only,
        state_cut_off_from_gradient=lambda x, w_x, w_h, bias: _states(
            x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h.detach() @ w_h + bias)
        ),
        state_cut_off_now_then=Wrong(lambda *inputs: state_cut_off_every(16, *inputs), recognise=_cut_off_now_and_then),
        first_state_without_bias=first_state_without_bias,
        state_that_goes_on_into_next_sentence=state_from_sentence_to_sentence,
        call_within_call_every_token=Wrong(one_call_within_another, raises="RecursionError"),
        last_state_every_place=Wrong(one_buffer_for_all, recognise=_all_alike),
        reshaped_where_axes_should_be_swapped=reshaped_for_swapped,
        zero_state_as_wide_as_token=Wrong(state_as_wide_as_a_token, raises="RuntimeError"),
        tanh_from_exponentials_that_overflow=Wrong(tanh_by_powers, recognise=_overflowed),
        tanh_from_exponentials_whose_gradient=Wrong(tanh_with_a_lost_gradient, recognise=_gradient_lost),
        what_goes_into_tanh_clamped=Wrong(lambda *inputs: clamped_before_the_tanh(10, *inputs), recognise=_clamped),
    ),
    properties=[Property("equal to nn.RNN with the same weights", _like_pytorch)],
    forbids=["rnn", "gru", "lstm"],
    counts=False,  # no mark asks for counts, and they take longest where there are many steps
)
