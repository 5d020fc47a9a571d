"""Checks of recurrences: a tanh RNN against `nn.RNN`, and the scan that makes a linear one fast.

The depth of a scan is counted by the elements themselves. The operator that the check passes in combines affine maps
(or matrices, or sums) in all columns but the last, and in the last it keeps count: one more than the larger of its two
inputs. Whatever the style of the scan, and wherever it runs, its depth can be read from its output.
"""

import functools
import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, random_case, whole
from helpers.engine.check import Behaviour, Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import axes_of_size_1_dropped, in_single_precision
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation, observe

from .. import recurrence

__all__ = ["associative_scan", "rnn_encoder"]

# ------------------------------------------------------------------------------------------------------- a tanh RNN


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
        random_case(b=2, n=6, d_in=4, d=3, scale=0.5, dtype=torch.float64, gradient=True, label="gradients through time"),
        random_case(b=2, n=130, d_in=2, d=3, dtype=torch.float64, gradient=True, label="gradients through 130 tokens"),
        random_case(b=2, n=4, d_in=3, d=5, scale=16.0, dtype=torch.float64, gradient=True, label="large inputs, in float64, with gradients"),
        explicit_case("large inputs", whole(2, 4, 3), whole(3, 5), whole(5, 5), whole(5)),
        # last: a slip shows before, and isn't tried on so many steps. Small weights: without a tanh the states stay finite.
        random_case(b=1, n=1_100, d_in=2, d=3, scale=0.2, label="1,100 tokens"),
    ],
    misconceptions=[
        Misconception(
            "the state is not carried on", lambda x, w_x, w_h, bias: torch.tanh(x @ w_x + bias),
            "Every token is encoded as if it were alone. What makes it recurrent is the old state times `w_h`: the state after a token goes "
            "into the next step.",
        ),
        Misconception(
            "states shifted by one", states_shifted,
            "Position t holds the state before token t. It should hold the state after reading it: the zero state itself is no output.",
        ),
        Misconception(
            "the bias dropped",
            lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h)),
            "Add the bias inside the tanh, at every step.",
        ),
        Misconception(
            "the bias added outside the tanh",
            lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h) + bias),
            "The tanh comes last, around all three terms: a state lies between −1 and 1.",
        ),
        Misconception(
            "the bias added twice", lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h + 2 * bias)),
            "There is one bias, and it is added once in every step. (`nn.RNN` has two of them.)",
        ),
        Misconception(
            "a sigmoid instead of tanh", lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.sigmoid(x_t @ w_x + h @ w_h + bias)),
            "The tanh lies between −1 and 1. A sigmoid lies between 0 and 1: another network.",
        ),
        Misconception(
            "a first state of ones", from_ones,
            "The state before the first token is 0: the first step sees the token and the bias, and nothing else.",
        ),
        Misconception(
            "the last token left out", lambda x, w_x, w_h, bias: _states(x[:, :-1], len(bias), _step(w_x, w_h, bias)),
            "There is a state for each of the n tokens, the last one too. `range(n)` already ends at n − 1: take nothing off.",
            raises="RuntimeError",
        ),
        Misconception(
            "stacked along the first axis", lambda x, w_x, w_h, bias: _states(x, len(bias), _step(w_x, w_h, bias)).transpose(0, 1).contiguous(),
            "`torch.stack(states)` puts the new axis first: (n, b, d). Time is axis 1: `torch.stack(states, dim=1)`.",
        ),
        Misconception(
            "both weights transposed", lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x.mT + h @ w_h.mT + bias)),
            "`nn.RNN` stores its weights as (out, in) and multiplies by the transpose. Here tokens and states are rows: `x_t @ w_x`, `h @ w_h`.",
            raises="RuntimeError",
        ),
        Misconception(
            "no tanh", lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: x_t @ w_x + h @ w_h + bias),
            "Without the tanh the recurrence is linear (that is another model, see section 1.8), and its states can grow without end.",
        ),
        Misconception(
            "the tanh on the way out only",
            lambda x, w_x, w_h, bias: torch.tanh(_states(x, len(bias), lambda x_t, h: x_t @ w_x + h @ w_h + bias)),
            "The state that goes into the next step has been through the tanh as well: output and carried state are the same thing.",
        ),
        Misconception(
            "w_h transposed",
            lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h @ w_h.mT + bias)),
            "`nn.RNN` stores its weights as (out, in) and multiplies by the transpose. Here tokens and states are rows: `h @ w_h`.",
        ),
        Misconception(
            "w_h left out",
            lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h + bias)),
            "The old state goes through a weight of its own before it is added: `h @ w_h`.",
        ),
        Misconception(
            "the old state added outside the tanh",
            lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + bias) + h @ w_h),
            "Old state and new token meet inside the tanh. That is how the new token decides what is kept of the old state.",
        ),
        Misconception(
            "the batch walked instead of the tokens", batch_walked,
            "Your loop runs over the first axis, so a state passes from one sentence to the next. Tokens are axis 1: `x[:, t]`.",
        ),
        Misconception(
            "the sentence read from its end", read_backwards,
            "The first token is read first: a state knows its own token and those before it.",
        ),
        Misconception(
            "the last state only", last_state_only,
            "An encoder hands over one state per token, (b, n, d). Keep them all, not only the last.",
        ),
        Misconception(
            "the state cut off from the gradient",
            lambda x, w_x, w_h, bias: _states(x, len(bias), lambda x_t, h: torch.tanh(x_t @ w_x + h.detach() @ w_h + bias)),
            "`.detach()`, `.data` or a copy through numpy stops the gradient at every step: no token could learn "
            "what it does to later states.",
        ),
        Misconception(
            "the state cut off now and then", lambda *inputs: state_cut_off_every(16, *inputs),
            "Every so many tokens you detach the state (truncated backpropagation), and no gradient crosses that place. It saves memory, but here a late "
            "state must tell even the first token what it did: detach none.",
            _cut_off_now_and_then,
        ),
        Misconception(
            "the first state without its bias", first_state_without_bias,
            "The zero state takes away `h @ w_h` and nothing else: the bias is in the first step as in all others.",
        ),
        Misconception(
            "a state that goes on into the next sentence", state_from_sentence_to_sentence,
            "The sentences of a batch are independent: each starts from a zero state. Make a new zero state for each, or walk "
            "through all of them at once.",
        ),
        Misconception(
            "a call within a call for every token", one_call_within_another,
            "A function of yours calls itself once for every token, and Python gives up at about a thousand calls one inside the other. Write the steps as a loop, "
            "which goes on for as long as the text.",
            raises="RecursionError",
        ),
        Misconception(
            "the last state in every place", one_buffer_for_all,
            "One tensor stands in your list n times, and you change it in place: in the end all n are the last state. Make a new tensor in every "
            "step.",
            _all_alike,
        ),
        Misconception(
            "reshaped where axes should be swapped", reshaped_for_swapped,
            "Stacked along a new first axis the states are (n, b, d). A reshape only cuts the same row of numbers into other pieces; "
            "`transpose(0, 1)` swaps the axes, and `torch.stack(states, dim=1)` puts the new one where it belongs.",
        ),
        Misconception(
            "a zero state as wide as a token", state_as_wide_as_a_token,
            "A token has its width, `x.shape[2]`, and a state another one: that of the bias, d. `x.new_zeros(b, d)`.",
            raises="RuntimeError",
        ),
        axes_of_size_1_dropped(recurrence.rnn_encoder),
        Misconception(
            "tanh from exponentials that overflow", tanh_by_powers,
            "`exp(2 * z)` is infinite for large z, `exp(-2 * z)` for z far below 0, and ∞/∞ is NaN, though tanh z is just 1 or −1 there. `torch.tanh` knows that.",
            _overflowed,
        ),
        Misconception(
            "tanh from exponentials whose gradient overflows", tanh_with_a_lost_gradient,
            "Where an exponential is infinite the tanh may still come out right. But on the way back the gradient is 0·∞, NaN. `torch.tanh` is safe "
            "both ways.",
            _gradient_lost,
        ),
        Misconception(
            "what goes into the tanh clamped", lambda *inputs: clamped_before_the_tanh(10, *inputs),
            "None of your states comes nearer to ±1 than a certain limit: what goes into the tanh is clamped. `torch.tanh` is safe for numbers of any size.",
            _clamped,
        ),
        in_single_precision(recurrence.rnn_encoder),
    ],
    properties=[Property("equal to nn.RNN with the same weights", _like_pytorch)],
    forbids=["rnn", "gru", "lstm"],
    counts=False,  # no mark asks for counts, and they take longest where there are many steps
)  # fmt: skip

# ------------------------------------------------------------------------------------- a linear recurrence as a scan


def _pair(a, b) -> Tensor:
    return torch.stack([a, b], dim=-1)


def _combined(first, second, axis) -> Tensor:
    (a1, b1), (a2, b2) = first.unbind(-1), second.unbind(-1)
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=axis)


def columns_of_a_table(first, second) -> Tensor:
    a, b = first[:, 0] * second[:, 0], second[:, 0] * first[:, 1] + second[:, 1]
    return torch.stack([a, b], dim=1)


def unbound_along_the_first_axis(first, second) -> Tensor:
    (a1, b1), (a2, b2) = first.unbind(), second.unbind()
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=-1)


combine = Check(
    reference=recurrence.combine,
    cases=[
        random_case(k=(), label="one pair of steps"), random_case(k=(5,)), random_case(k=(3, 4), dtype=torch.float64),
        explicit_case("double, then add 1", torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0])),
        random_case(k=(4,), dtype=torch.float64, label="k = 4, in float64"),
    ],
    misconceptions=[
        Misconception(
            "a and b swapped",
            lambda first, second: _pair(second[..., 0] * first[..., 1] + second[..., 1], first[..., 0] * second[..., 0]),
            "The result is a step too, and is kept like one: its factor a in column 0, its term b in column 1.",
        ),
        Misconception(
            "the second step done first",
            lambda first, second: _pair(first[..., 0] * second[..., 0], first[..., 0] * second[..., 1] + first[..., 1]),
            "Put the result of the first step into the second: a2 (a1 h + b1) + b2. It is b1 that gets multiplied by a2.",
        ),
        Misconception(
            "an operator that is not associative",
            lambda first, second: _pair(second[..., 0], second[..., 0] * first[..., 1] + second[..., 1]),
            "The term b is right, but the factor of the first step got lost. Then the grouping matters: (x∘y)∘z isn't x∘(y∘z). In "
            "a2 (a1 h + b1) + b2 both factors stand before h: a1·a2.",
        ),
        Misconception(
            "a tanh inside",
            lambda first, second: _pair(first[..., 0] * second[..., 0], torch.tanh(second[..., 0] * first[..., 1] + second[..., 1])),
            "Two tanh steps in a row are not one tanh step with other numbers. That is why this works for linear recurrences only.",
        ),
        Misconception(
            "b1 not multiplied",
            lambda first, second: _pair(first[..., 0] * second[..., 0], first[..., 1] + second[..., 1]),
            "What the first step added passes through the second step too, and is multiplied by its a2.",
        ),
        Misconception(
            "b1 multiplied by its own a", lambda first, second: _pair(first[..., 0] * second[..., 0], first[..., 0] * first[..., 1] + second[..., 1]),
            "What the first step added passes through the *second* step, and is multiplied by a2: a2 (a1 h + b1) + b2.",
        ),
        Misconception(
            "b1 multiplied by both factors", lambda first, second: _pair(first[..., 0] * second[..., 0], first[..., 0] * second[..., 0] * first[..., 1] + second[..., 1]),
            "b1 is multiplied only by a2, the factor of the step that comes after it. If you write in place: a2 is overwritten by a1·a2 before b is "
            "computed.",
        ),
        Misconception(
            "both terms multiplied crosswise", lambda first, second: _pair(first[..., 0] * second[..., 0], first[..., 0] * second[..., 1] + second[..., 0] * first[..., 1]),
            "b1 is multiplied by a2, for the second step comes after it. b2 is added last, and nothing multiplies it.",
        ),
        Misconception(
            "factors added", lambda first, second: _pair(first[..., 0] + second[..., 0], second[..., 0] * first[..., 1] + second[..., 1]),
            "The first step multiplies h by a1, the second multiplies that by a2: factors multiply.",
        ),
        Misconception(
            "everything multiplied", lambda first, second: first * second,
            "Only the factors multiply. The terms b follow from a2 (a1 h + b1) + b2.",
        ),
        Misconception(
            "everything added", lambda first, second: first + second,
            "That would be right for a running sum (all a = 1) if the factors were left alone. Here every step also multiplies.",
        ),
        Misconception(
            "the pair put at axis 1", lambda first, second: _combined(first, second, 1),
            "The pair (a, b) is the *last* axis, `dim=-1`. Axis 1 is the last only for a plain list of pairs.",
            raises="IndexError",
        ),
        Misconception(
            "columns of a plain list of pairs", columns_of_a_table,
            "`first[:, 0]` is the first entry along axis 1, which is the last axis of a plain list of pairs only. `first[..., 0]` is that of the last axis, "
            "whatever stands before it.",
            raises="IndexError",
        ),
        Misconception(
            "taken apart along the first axis", unbound_along_the_first_axis,
            "`unbind()` takes the first axis apart. The pair (a, b) is the last: `unbind(-1)`.",
            raises="ValueError",
        ),
        in_single_precision(recurrence.combine),
    ],
)  # fmt: skip


def _counting(operator) -> Callable:
    """The operator on all columns but the last; in the last, its nesting depth."""

    def counted(first: Tensor, second: Tensor) -> Tensor:
        if first.shape != second.shape:
            raise ValueError(
                f"the operator takes two tensors of one shape, and got `{tuple(first.shape)}` and `{tuple(second.shape)}`."
            )
        depth = torch.maximum(first[..., -1:], second[..., -1:]) + 1
        return torch.cat([operator(first[..., :-1], second[..., :-1]), depth], dim=-1)

    return counted


def affine_step(first: Tensor, second: Tensor) -> Tensor:
    (a1, b1), (a2, b2) = first.unbind(-1), second.unbind(-1)
    return torch.stack([a1 * a2, a2 * b1 + b2], dim=-1)


def matrix_product(first: Tensor, second: Tensor) -> Tensor:
    return (first.unflatten(-1, (2, 2)) @ second.unflatten(-1, (2, 2))).flatten(-2)


def plain_sum(first: Tensor, second: Tensor) -> Tensor:
    return first + second


def _elements(n: int, width: int) -> RandomArg:
    """Elements near 1 in size, so that long products neither vanish nor explode, with a zero depth in the last column."""

    def make(generator: Generator) -> Tensor:
        angles = 6.3 * torch.rand(n, 1, generator=generator)
        turns = torch.cat([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], dim=1)  # 2×2 rotations
        steps = torch.cat(
            [0.9 - 1.8 * torch.rand(n, 1, generator=generator), torch.randn(n, 1, generator=generator)], dim=1
        )
        values = {
            1: torch.randn(n, 1, generator=generator),
            2: steps,
            4: turns + 0.1 * torch.randn(n, 4, generator=generator),
        }
        return torch.cat([values[width], torch.zeros(n, 1)], dim=1)

    return RandomArg(make)


def scan_case(what: str, operator, width: int, n: int) -> Case:
    counted = RandomArg(lambda _: _counting(operator))
    return explicit_case(f"{what}, n = {n}", counted, _elements(n, width))


def _depth(output: Tensor) -> int:
    return int(output[..., -1].max())


def _allowed(n: int) -> int:
    """Twice ⌈log2 n⌉ and one: what a scan with the fewest operations (Blelloch) needs, up the tree and down again."""
    return 2 * math.ceil(math.log2(n)) + 1


def _made_by_the_operator(seen: Observation) -> bool:
    return _depth(seen.output) >= math.ceil(math.log2(len(seen.args[1])))


def _shallow(seen: Observation) -> bool:
    return _depth(seen.output) <= _allowed(len(seen.args[1]))


def _one_by_one(seen: Observation) -> bool:
    return _depth(seen.output) >= len(seen.args[1]) - 1 > _allowed(len(seen.args[1]))


def _block_by_block(seen: Observation) -> bool:
    n = len(seen.args[1])
    return _allowed(n) < _depth(seen.output) < n - 1


def scan_one_by_one(operator, elements) -> Tensor:
    rows = [elements[0]]
    for element in elements[1:]:
        rows.append(operator(rows[-1], element))
    return torch.stack(rows)


def scan_by_blocks(operator, elements) -> Tensor:
    size = math.ceil(math.sqrt(len(elements)))
    blocks = [scan_one_by_one(operator, block) for block in elements.split(size)]
    rows, carry = [blocks[0]], blocks[0][-1]
    for block in blocks[1:]:
        rows.append(operator(carry.expand_as(block), block))
        carry = operator(carry, block[-1])
    return torch.cat(rows)


def _rounds(operator, elements, reaches) -> Tensor:
    """One round for each reach: every row takes in the row that lies so far before it."""
    for reach in reaches:
        elements = torch.cat([elements[:reach], operator(elements[:-reach], elements[reach:])])
    return elements


def _powers(n):
    return [2**power for power in range(math.ceil(math.log2(n)))]


def scan_exclusive(operator, elements) -> Tensor:
    rows = _rounds(operator, elements, _powers(len(elements)))
    return torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])


def scan_in_the_wrong_order(operator, elements) -> Tensor:
    return _rounds(lambda first, second: operator(second, first), elements, _powers(len(elements)))


def scan_one_round_short(operator, elements) -> Tensor:
    return _rounds(operator, elements, _powers(len(elements))[:-1])


def scan_with_steps_of_one(operator, elements) -> Tensor:
    return _rounds(operator, elements, [1 for _ in _powers(len(elements))])


def scan_from_the_end(operator, elements) -> Tensor:
    rows = _rounds(lambda first, second: operator(second, first), elements.flip(0), _powers(len(elements)))
    return rows.flip(0)


def scan_all(operator, elements) -> Tensor:
    return _rounds(operator, elements, _powers(len(elements)))


def _first_powers(count: int) -> list[int]:
    return [2**power for power in range(count)]


def zeros_for_missing_neighbours(operator, elements) -> Tensor:
    for reach in _powers(len(elements)):
        left = torch.zeros_like(elements)
        left[reach:] = elements[:-reach]
        elements = operator(left, elements)
    return elements


def steps_for_missing_neighbours(operator, elements) -> Tensor:
    """The first rows are combined with (1, 0), the step that changes nothing."""
    for reach in _powers(len(elements)):
        left = torch.zeros_like(elements)
        left[:reach, 0] = 1
        left[reach:] = elements[:-reach]
        elements = operator(left, elements)
    return elements


def rows_of_two_put_before(operator, elements) -> Tensor:
    for reach in _powers(len(elements)):
        nothing = elements.new_tensor([1.0, 0.0]).repeat(reach, 1)
        elements = operator(torch.cat([nothing, elements[:-reach]]), elements)
    return elements


def scan_with_combine(operator, elements) -> Tensor:
    return scan_all(lambda a, b: _pair(a[..., 0] * b[..., 0], b[..., 0] * a[..., 1] + b[..., 1]), elements)


def scan_with_combine_of_any_width(operator, elements) -> Tensor:
    return scan_all(
        lambda a, b: torch.cat([a[..., :1] * b[..., :1], b[..., :1] * a[..., 1:] + b[..., 1:]], -1), elements
    )


def halves_with_one_row(operator, elements) -> Tensor:
    if len(elements) == 1:
        return elements
    left, right = (halves_with_one_row(operator, half) for half in elements.tensor_split([len(elements) // 2]))
    return torch.cat([left, operator(left[-1:], right)])


def pairs_of_even_rows(operator, elements) -> Tensor:
    if len(elements) == 1:
        return elements
    pairs = pairs_of_even_rows(operator, operator(elements[0::2], elements[1::2]))
    rows = elements.clone()
    rows[1::2] = pairs
    rows[2::2] = operator(pairs[:-1], elements[2::2])
    return rows


def total_everywhere(operator, elements) -> Tensor:
    rows = _rounds(operator, elements, _powers(len(elements)))
    return rows[-1:].expand_as(rows).clone()


def scan_that_reads_new_values(operator, elements) -> Tensor:
    rows = elements.clone()
    for reach in _powers(len(rows)):
        for i in range(reach, len(rows)):
            rows[i] = operator(rows[i - reach], rows[i])
    return rows


scan = Check(
    reference=recurrence.associative_scan,
    cases=[
        scan_case("linear steps", affine_step, 2, 8), as_float64(scan_case("sums", plain_sum, 1, 5)), scan_case("linear steps", affine_step, 2, 13),
        scan_case("2×2 matrices", matrix_product, 4, 40),
        scan_case("linear steps", affine_step, 2, 1), scan_case("linear steps", affine_step, 2, 2), scan_case("linear steps", affine_step, 2, 11),
        as_float64(scan_case("sums", plain_sum, 1, 2_500)),  # blocks of up to 128 rows, one after the other, make too long a chain here
    ],
    counts=False,  # the elements count their depth themselves
    view=lambda output: output[:, :-1],  # how deep the values were computed stands in the last column
    behaviours=[
        Behaviour(
            "made by the operator that was handed over", _made_by_the_operator,
            "The values are right, but they weren't made by the `operator` that was handed over, or not by it alone: it counts its own nesting in the last "
            "column, and n elements can't be combined at less than ⌈log2 n⌉.",
        ),
        Behaviour(
            "depth about log2 n", _shallow,
            "The values are right, but some of them come out of a chain of operators that is longer than 2⌈log2 n⌉ + 1 (the check's operator "
            "counts its own nesting).",
        )
    ],
    misconceptions=[
        Misconception(
            "one element after the other", scan_one_by_one,
            "The last value waits for n − 1 operators in a row, just like an RNN. Associativity lets you choose the "
            "brackets: combine neighbours first, all pairs at once, then pairs of pairs. (The last column of the tables is the depth.)",
            cost=_one_by_one,
        ),
        Misconception(
            "blocks, one after the other", scan_by_blocks,
            "Blocks help, but within a block, or from block to block, there is still a chain that grows much faster than log2 n. Double the reach at "
            "every round instead. (The last column of the tables is the depth.)",
            cost=_block_by_block,
        ),
        Misconception(
            "exclusive instead of inclusive", scan_exclusive,
            "Row i leaves element i out. An inclusive scan takes it in: row 0 is element 0, and the last row is everything.",
        ),
        Misconception(
            "operands in the wrong order", scan_in_the_wrong_order,
            "What comes earlier stands on the left: operator(earlier, later). Sums don't care; steps and matrices do.",
        ),
        Misconception(
            "one round too few", scan_one_round_short,
            "After r rounds a row covers 2^r elements, so ⌈log2 n⌉ rounds are needed: round up. Go on while the reach is smaller than n.",
        ),
        Misconception(
            "a reach that does not double", scan_with_steps_of_one,
            "After the first round each row covers two elements. If it now takes in its neighbour, they overlap. Reach twice as far back.",
        ),
        Misconception(
            "a reach that is squared", lambda operator, elements: _rounds(operator, elements, [reach for reach in (1, 2, 4, 16) if reach < len(elements)]),
            "After 1, 2 and 4 comes 8: the reach doubles. With 16 in its place some elements are never reached.",
        ),
        Misconception(
            "only the last row", lambda operator, elements: scan_all(operator, elements)[-1],
            "That is a reduction, everything combined. A scan keeps all n partial results.",
        ),
        Misconception(
            "a reach that grows by one", lambda operator, elements: _rounds(operator, elements, range(1, len(elements))),
            "After the first round each row covers two elements, after the second up to four: the reach doubles. With 3 in place of 4, rows overlap, and "
            "elements are combined twice.",
        ),
        Misconception(
            "scanned from the end", scan_from_the_end,
            "Row i is made of the elements up to i, not of those from i on.",
        ),
        Misconception(
            "the total in every row", total_everywhere,
            "That is a reduction. A scan keeps all the partial results: row i stops at element i.",
        ),
        Misconception(
            "values read that this round has changed", scan_that_reads_new_values,
            "All pairs of a round are combined at once, from the values before the round. In a loop in place, row i reads row i − reach when "
            "it already has its new value.",
        ),
        Misconception(
            "⌊log2 n⌋ rounds", lambda operator, elements: _rounds(operator, elements, _first_powers(int(math.log2(len(elements))))),
            "Rounded down, the rounds don't suffice unless n is a power of 2. Go on while the reach is smaller than n: ⌈log2 n⌉ rounds.",
        ),
        Misconception(
            "log2 n rounded to the nearest", lambda operator, elements: _rounds(operator, elements, _first_powers(round(math.log2(len(elements))))),
            "For n = 5 or 40 the nearest is one too few. Go on while the reach is smaller than n: ⌈log2 n⌉ rounds.",
        ),
        Misconception(
            "zeros for the neighbours that are missing", zeros_for_missing_neighbours,
            "The first `reach` rows have no row so far to their left: they are done, and are passed on as they are. Zeros change nothing in a "
            "sum, but they wipe out a step or a matrix.",
        ),
        Misconception(
            "a neutral element taken for granted", steps_for_missing_neighbours,
            "The first `reach` rows have no row so far to their left: they are done, and are passed on as they are. You combine them with (1, 0), which "
            "changes nothing for steps only. Another operator has another neutral element, or none.",
        ),
        Misconception(
            "rows of two numbers put before the first", rows_of_two_put_before,
            "You fill up on the left with (1, 0), the step that changes nothing. Elements may be of any width (here a column more, in which the operator counts its "
            "nesting), and other operators have another neutral element, or none: the first `reach` rows are done, and are passed on as they are.",
            raises="RuntimeError",
        ),
        Misconception(
            "a round too few where n is one more than a power of 2",
            lambda operator, elements: _rounds(operator, elements, [reach for reach in _powers(len(elements)) if reach < len(elements) - 1]),
            "For n = 2, 3, 5, 9 … the last row still lacks the first element. Go on while the reach is smaller than n, not than n − 1.",
        ),
        Misconception(
            "combine in place of the operator", scan_with_combine,
            "The scan is for any operator: call the `operator` that was handed over. `combine` is only one of them.",
            raises="RuntimeError",
        ),
        Misconception(
            "combine, for rows of any width, in place of the operator", scan_with_combine_of_any_width,
            "The scan is for any operator: call the `operator` that was handed over. `combine` is only one of them.",
        ),
        Misconception(
            "one row against many", halves_with_one_row,
            "The operator takes two tensors of one shape. Repeat the last row of the left half as often as the right half has rows: "
            "`left[-1:].expand_as(right)`.",
            raises="ValueError",
        ),
        Misconception(
            "pairs, for even numbers of rows only", pairs_of_even_rows,
            "With an odd number of rows the last one has no partner: `elements[0::2]` is one longer than `elements[1::2]`. Set it aside before you "
            "pair the others.",
            raises="ValueError",
        ),
        Misconception(
            "exclusive, with the first row kept", lambda operator, elements: torch.cat([elements[:1], scan_all(operator, elements)[:-1]]),
            "Row i takes element i in: row 1 is elements 0 and 1 combined. Yours are one row late.",
        ),
    ],
)  # fmt: skip

associative_scan = CheckGroup("associative_scan", combine, scan)
