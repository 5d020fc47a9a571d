"""The check of `residual`."""

import torch

from helpers.engine.answers.common_misconceptions import in_single_precision
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import layers as reference
from .layers import NOT_OVERWRITTEN, _keeping, _layer, _offset

__all__ = ["residual"]


def random_layers(label: str, count: int, *shape: int, dtype=torch.float32, keep: bool = False) -> Case:
    drawn = [_keeping(_layer(shape[-1])) if keep else _layer(shape[-1]) for _ in range(count)]
    return explicit_case(
        label,
        _offset(*shape, centre=0.5, scale=1.0, dtype=dtype),
        RandomArg(lambda g: [layer.make(g) for layer in drawn]),
    )


def _on_another_axis(seen) -> bool:
    """Whether the states are right, and stand on another axis than the first."""
    right = reference.residual(*seen.args)
    turned = (seen.output.movedim(axis, 0) for axis in range(1, right.dim()))
    return any(other.shape == right.shape and torch.allclose(other, right, rtol=1e-3, atol=1e-4) for other in turned)


@composable
def stream(step=lambda now, f, first: now + f(now), told=lambda states: states):
    """All states of the stream, by other steps, or told in another way."""

    def answer(x, layers):
        states = [x]
        for layer in layers:
            states.append(step(states[-1], layer, x))
        return told(torch.stack(states))

    return answer


residual = Check(
    exercise="residual",
    reference=reference.residual,
    cases=[
        random_layers("one layer, 3 tokens, d = 4", 1, 3, 4),
        random_layers("4 layers, d = 5", 4, 2, 5),
        random_layers("3 layers, 2 sequences of 4 tokens, d = 6", 3, 2, 4, 6),
        random_layers("no layer at all", 0, 3, 2),
        random_layers("2 layers that keep what they read, in float64", 2, 4, 3, dtype=torch.float64, keep=True),
    ],
    properties=[NOT_OVERWRITTEN],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.residual),
        replaced=stream(lambda now, f, first: f(now)),
        added_to_the_first=stream(lambda now, f, first: first + f(now)),
        first_read=stream(lambda now, f, first: now + f(first)),
        input_twice=stream(lambda now, f, first: now + first + f(now)),
        subtracted=stream(lambda now, f, first: now - f(now)),
        half_each=stream(lambda now, f, first: (now + f(now)) / 2),
        multiplied=stream(lambda now, f, first: now * f(now)),
        last_alone=stream(told=lambda states: states[-1]),
        without_input=stream(told=lambda states: states[1:]),
        added_alone=stream(told=lambda states: torch.cat([states[:1], states[1:] - states[:-1]])),
        one_tensor=stream(told=lambda states: states[-1:].expand_as(states)),
        another_axis=Wrong(stream(told=lambda states: torch.stack(list(states), dim=-3)), recognise=_on_another_axis),
    ),
)
