"""How much the outputs of old tokens change when one is added behind them."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import wrong_answers

from .. import decoding

__all__ = ["bidirectional_cannot_cache"]


def _attention(d: int, generator: Generator, causal: bool) -> Callable:
    weights = [torch.randn(d, d, generator=generator) / math.sqrt(d) for _ in range(3)]

    def layer(x: Tensor) -> Tensor:
        q, k, v = (x @ w.to(x) for w in weights)
        scores = q @ k.mT / math.sqrt(d)
        later = torch.ones(scores.shape, dtype=torch.bool).triu(1)
        return (scores.masked_fill(later, -torch.inf) if causal else scores).softmax(dim=-1) @ v

    return layer


def causal_attention(d: int) -> RandomArg:
    return RandomArg(lambda g: _attention(d, g, causal=True))


def bidirectional_attention(d: int) -> RandomArg:
    return RandomArg(lambda g: _attention(d, g, causal=False))


def _one_later_layer(d: int) -> RandomArg:
    """Causal, then bidirectional: one layer that looks ahead is enough."""

    def make(generator: Generator) -> Callable:
        first, second = _attention(d, generator, True), _attention(d, generator, False)
        return lambda x: second(first(x))

    return RandomArg(make)


def two_ahead(x: Tensor) -> Tensor:
    """Token t mixes itself with token t + 2: of the old tokens only one changes, and it isn't the last."""
    return x + torch.cat([x[2:], torch.zeros_like(x[:2])])


def up_and_further_down(x: Tensor) -> Tensor:
    """With every token that comes, the outputs of even tokens rise by 1, those of odd ones fall by 2."""
    return x + len(x) * (1 - 3 * (torch.arange(len(x))[:, None] % 2)).to(x)


def random_tokens(n: int, d: int, dtype=torch.float32) -> tuple[RandomArg, RandomArg]:
    return normal(n, d, dtype=dtype), normal(1, d, dtype=dtype)


def layer_case(label: str, layer: RandomArg | Callable, n: int, d: int, dtype=torch.float32) -> Case:
    drawn = layer if isinstance(layer, RandomArg) else RandomArg(lambda _: layer)
    return explicit_case(label, drawn, *random_tokens(n, d, dtype))


@composable
def change(
    kept: Callable = lambda after: after[:-1],
    before: Callable = lambda layer, x, new: layer(x),
    size: Callable = lambda change: change.abs().max(),
) -> Callable:
    """kept: of the outputs with the new token behind all others; before: what they are compared with."""
    return lambda layer, x, new: size(kept(layer(torch.cat([x, new]))) - before(layer, x, new))


bidirectional_cannot_cache = Check(
    exercise="bidirectional_cannot_cache",
    reference=decoding.change_of_old_outputs,
    cases=[
        layer_case("causal attention, n = 5, d = 4", causal_attention(4), 5, 4),
        layer_case("bidirectional attention, n = 5, d = 4", bidirectional_attention(4), 5, 4),
        layer_case("a causal layer, then a bidirectional one, in float64", _one_later_layer(3), 6, 3, torch.float64),
        layer_case("every token looks two ahead", two_ahead, 4, 3),
        layer_case("every output falls by 1 for each token", lambda x: x - len(x), 5, 2),
        layer_case("some outputs rise, others fall further", up_and_further_down, 5, 3),
        layer_case("a layer that returns x itself", lambda x: x, 3, 4),
        layer_case("outputs that change their sign with every token", lambda x: x * (-1) ** len(x), 4, 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        new_in_front=lambda layer, x, new: (layer(torch.cat([new, x]))[: len(x)] - layer(x)).abs().max(),
        output_against_input=change(before=lambda layer, x, new: x),
        new_alone=lambda layer, x, new: (layer(x) - layer(new)).abs().max(),
        last_n=change(kept=lambda after: after[1:]),
        summed=change(size=lambda change: change.sum()),
        upwards=change(size=lambda change: change.max()),
        downwards=change(size=lambda change: -change.min()),
        absolute_too_late=change(size=lambda change: change.max().abs()),
        absolute_too_early=change(kept=lambda after: after[:-1].abs(), before=lambda layer, x, new: layer(x).abs()),
        mean=change(size=lambda change: change.abs().mean()),
        last_old_only=change(size=lambda change: change[-1].abs().max()),
        new_with_last=change(kept=lambda after: after[-1], before=lambda layer, x, new: layer(x)[-1]),
    ),
)
