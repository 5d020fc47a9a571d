"""The check of `bidirectional_cannot_cache`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal
from helpers.engine.check import Check
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


def _last_sees_less(d: int) -> RandomArg:
    """Token t mixes itself with token t + 2: of the old tokens only one changes, and it isn't the last."""
    return RandomArg(lambda _: lambda x: x + torch.cat([x[2:], torch.zeros_like(x[:2])]))


def _one_lower_each(x: Tensor) -> Tensor:
    return x - len(x)


def _up_and_further_down(x: Tensor) -> Tensor:
    """With every token that comes, the outputs of even tokens rise by 1, those of odd ones fall by 2."""
    return x + len(x) * (1 - 3 * (torch.arange(len(x))[:, None] % 2)).to(x)


def _signs_by_length(x: Tensor) -> Tensor:
    return x * (-1) ** len(x)


def _nothing_done(x: Tensor) -> Tensor:
    return x


def random_tokens(n: int, d: int, dtype=torch.float32) -> tuple[RandomArg, RandomArg]:
    return normal(n, d, dtype=dtype), normal(1, d, dtype=dtype)


bidirectional_cannot_cache = Check(
    exercise="bidirectional_cannot_cache",
    reference=decoding.change_of_old_outputs,
    cases=[
        explicit_case("causal attention, n = 5, d = 4", causal_attention(4), *random_tokens(5, 4)),
        explicit_case("bidirectional attention, n = 5, d = 4", bidirectional_attention(4), *random_tokens(5, 4)),
        explicit_case(
            "a causal layer, then a bidirectional one, in float64",
            _one_later_layer(3),
            *random_tokens(6, 3, torch.float64),
        ),
        explicit_case("every token looks two ahead", _last_sees_less(3), *random_tokens(4, 3)),
        explicit_case(
            "every output falls by 1 for each token", RandomArg(lambda _: _one_lower_each), *random_tokens(5, 2)
        ),
        explicit_case(
            "some outputs rise, others fall further", RandomArg(lambda _: _up_and_further_down), *random_tokens(5, 3)
        ),
        explicit_case("a layer that returns x itself", RandomArg(lambda _: _nothing_done), *random_tokens(3, 4)),
        explicit_case(
            "outputs that change their sign with every token",
            RandomArg(lambda _: _signs_by_length),
            *random_tokens(4, 5),
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        new_token_front=lambda layer, x, new: (layer(torch.cat([new, x]))[: len(x)] - layer(x)).abs().max(),
        last_n_outputs_compared=lambda layer, x, new: (layer(torch.cat([x, new]))[1:] - layer(x)).abs().max(),
        sum_differences=lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).sum(),
        largest_change_upwards=lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).max(),
        largest_change_downwards=lambda layer, x, new: (layer(x) - layer(torch.cat([x, new]))[: len(x)]).max(),
        absolute_value_taken_after_maximum=lambda layer, x, new: (
            (layer(torch.cat([x, new]))[: len(x)] - layer(x)).max().abs()
        ),
        absolute_values_before_difference=lambda layer, x, new: (
            (layer(torch.cat([x, new]))[: len(x)].abs() - layer(x).abs()).abs().max()
        ),
        mean_difference=lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).abs().mean(),
        last_old_token_only=lambda layer, x, new: (layer(torch.cat([x, new]))[len(x) - 1] - layer(x)[-1]).abs().max(),
        new_tokens_output_compared_with_last=lambda layer, x, new: (
            (layer(torch.cat([x, new]))[-1] - layer(x)[-1]).abs().max()
        ),
    ),
)
