"""The check of `permutation_equivariance`."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import RandomArg, as_float64, explicit_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention

__all__ = ["permutation_equivariance"]


def self_attention(d: int, generator: torch.Generator) -> Callable:
    """A layer with drawn weights that doesn't know the order of its tokens."""
    weights = [torch.randn(d, d, generator=generator) for _ in range(3)]
    return lambda x: attention.scaled_dot_product_attention(*(x @ w.to(x) for w in weights))


def _with_positions(d: int, generator: torch.Generator) -> Callable:
    """The same, with something different added to every position."""
    layer = self_attention(d, generator)
    return lambda x: layer(x + torch.linspace(-1, 1, x.shape[0]).to(x)[:, None])


def _with_faint_positions(d: int, generator: torch.Generator) -> Callable:
    layer = self_attention(d, generator)
    return lambda x: layer(x) + 1e-3 * torch.linspace(-1, 1, x.shape[0]).to(x)[:, None]


def _with_positions_fainter_still(d: int, generator: torch.Generator) -> Callable:
    """Its gap is of a billionth: more than float64 rounds, and less than anybody would take for a gap in float32."""
    layer = self_attention(d, generator)
    return lambda x: layer(x) + 1e-9 * torch.linspace(-1, 1, x.shape[0]).to(x)[:, None]


def running_mean(d: int, generator: torch.Generator):
    return lambda x: x.cumsum(0) / torch.arange(1, len(x) + 1).to(x)[:, None]


def _pushed_down(d: int, generator: torch.Generator) -> Callable:
    """All outputs fall with the length of the first token."""
    return lambda x: x - x[:1].norm(dim=-1, keepdim=True)


def after_a_short_token(n: int, d: int) -> tuple[RandomArg, RandomArg]:
    """Tokens of which the first is the shortest by far, and a permutation."""
    tokens, shift = tokens_and_shift(n, d)
    lengths = torch.tensor([0.01, *[1.0] * (n - 1)])[:, None]
    return RandomArg(lambda g: tokens.make(g) * lengths), shift


def tokens_and_shift(n: int, d: int) -> tuple[RandomArg, RandomArg]:
    """Tokens, and a permutation that isn't its own inverse."""
    shift = torch.eye(n).roll(1, dims=0)[torch.tensor([1, 0, *range(2, n)])]
    return RandomArg(lambda g: torch.randn(n, d, generator=g)), RandomArg(lambda _: shift)


def layer_case(make, d: int) -> RandomArg:
    return RandomArg(lambda generator: make(d, generator))


def small_gaps_rounded(layer, x, p) -> Tensor:
    moved, kept = layer(p @ x), p @ layer(x)
    return torch.tensor(0.0) if torch.allclose(moved, kept, atol=1e-2) else (moved - kept).abs().max()


permutation_equivariance = Check(
    exercise="permutation_equivariance",
    reference=attention.permutation_gap,
    cases=[
        explicit_case("self-attention, n = 5, d = 3", layer_case(self_attention, 3), *tokens_and_shift(5, 3)),
        explicit_case("self-attention, n = d = 4", layer_case(self_attention, 4), *tokens_and_shift(4, 4)),
        as_float64(
            explicit_case("positions added, n = 5, d = 3", layer_case(_with_positions, 3), *tokens_and_shift(5, 3))
        ),
        explicit_case("a running mean, n = d = 4", layer_case(running_mean, 4), *tokens_and_shift(4, 4)),
        explicit_case("outputs that only fall, n = 5, d = 3", layer_case(_pushed_down, 3), *after_a_short_token(5, 3)),
        explicit_case(
            "positions that hardly count, n = 5, d = 3", layer_case(_with_faint_positions, 3), *tokens_and_shift(5, 3)
        ),
        as_float64(
            explicit_case(
                "a gap of a billionth, n = 6, d = 2",
                layer_case(_with_positions_fainter_still, 2),
                *tokens_and_shift(6, 2),
            )
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        p_on_wrong_side=Wrong(lambda layer, x, p: (layer(x @ p) - layer(x) @ p).abs().max(), raises="RuntimeError"),
        output_not_permuted=lambda layer, x, p: (layer(p @ x) - layer(x)).abs().max(),
        inverse_permutation_on_output=lambda layer, x, p: (layer(p @ x) - p.mT @ layer(x)).abs().max(),
        inverse_permutation_on_input=lambda layer, x, p: (layer(p.mT @ x) - p @ layer(x)).abs().max(),
        differences_with_their_signs=lambda layer, x, p: (layer(p @ x) - p @ layer(x)).sum(),
        mean_difference=lambda layer, x, p: (layer(p @ x) - p @ layer(x)).abs().mean(),
        largest_difference_without_absolute=lambda layer, x, p: (layer(p @ x) - p @ layer(x)).max(),
        matrix_norm_instead_largest_entry=lambda layer, x, p: torch.linalg.matrix_norm(
            layer(p @ x) - p @ layer(x), ord=torch.inf
        ),
        smallest_difference=lambda layer, x, p: (layer(p @ x) - p @ layer(x)).abs().min(),
        square_largest_difference=lambda layer, x, p: ((layer(p @ x) - p @ layer(x)) ** 2).max(),
        length_difference=lambda layer, x, p: (layer(p @ x) - p @ layer(x)).norm(),
        small_gaps_rounded_0=Wrong(small_gaps_rounded, recognise=lambda seen: float(seen.output) == 0),
        rounded_gap=Wrong(
            lambda layer, x, p: round((layer(p @ x) - p @ layer(x)).abs().max().item(), 4),
            recognise=lambda seen: any(
                float(seen.output) == round(attention.permutation_gap(*seen.args).item(), digits)
                for digits in range(1, 9)
            ),
        ),
        inverse_order_on_both_sides=lambda layer, x, p: (layer(p.mT @ x) - p.mT @ layer(x)).abs().max(),
    ),
)
