"""The check of `permutation_equivariance`: by how much a layer knows the order of its tokens."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import attention

__all__ = ["permutation_equivariance"]


def self_attention(d: int, generator: torch.Generator) -> Callable:
    """A layer with drawn weights that doesn't know the order of its tokens."""
    weights = [torch.randn(d, d, generator=generator) for _ in range(3)]
    return lambda x: attention.scaled_dot_product_attention(*(x @ w.to(x) for w in weights))


def _positions(x: Tensor) -> Tensor:
    return torch.linspace(-1, 1, len(x)).to(x)[:, None]


def _with_positions(d: int, generator: torch.Generator) -> Callable:
    """The same, with something different added to every position."""
    layer = self_attention(d, generator)
    return lambda x: layer(x + _positions(x))


def _faint(size: float) -> Callable:
    """The same, with positions of this size added to its outputs."""

    def make(d: int, generator: torch.Generator) -> Callable:
        layer = self_attention(d, generator)
        return lambda x: layer(x) + size * _positions(x)

    return make


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


def layer_case(label: str, make: Callable, n: int, d: int, tokens: Callable = tokens_and_shift) -> Case:
    return explicit_case(label, RandomArg(lambda generator: make(d, generator)), *tokens(n, d))


@composable
def gap(
    moved: Callable = lambda layer, x, p: layer(p @ x),
    kept: Callable = lambda layer, x, p: p @ layer(x),
    size: Callable = lambda gap: gap.abs().max(),
) -> Callable:
    """The gap of other outputs, or measured otherwise."""
    return lambda layer, x, p: size(moved(layer, x, p) - kept(layer, x, p))


def small_gaps_rounded(layer, x, p) -> Tensor:
    moved, kept = layer(p @ x), p @ layer(x)
    return torch.tensor(0.0) if torch.allclose(moved, kept, atol=1e-2) else (moved - kept).abs().max()


def _rounded(seen) -> bool:
    gap = attention.permutation_gap(*seen.args).item()
    return any(float(seen.output) == round(gap, digits) for digits in range(1, 9))


permutation_equivariance = Check(
    exercise="permutation_equivariance",
    reference=attention.permutation_gap,
    cases=[
        layer_case("self-attention, n = 5, d = 3", self_attention, 5, 3),
        layer_case("self-attention, n = d = 4", self_attention, 4, 4),
        as_float64(layer_case("positions added, n = 5, d = 3", _with_positions, 5, 3)),
        layer_case("a running mean, n = d = 4", running_mean, 4, 4),
        layer_case("outputs that only fall, n = 5, d = 3", _pushed_down, 5, 3, after_a_short_token),
        layer_case("positions that hardly count, n = 5, d = 3", _faint(1e-3), 5, 3),
        # More than float64 rounds, and less than anybody would take for a gap in float32.
        as_float64(layer_case("a gap of a billionth, n = 6, d = 2", _faint(1e-9), 6, 2)),
    ],
    misconceptions=wrong_answers(
        __file__,
        wrong_side=Wrong(lambda layer, x, p: (layer(x @ p) - layer(x) @ p).abs().max(), raises="RuntimeError"),
        output_not_permuted=gap(kept=lambda layer, x, p: layer(x)),
        against_the_input=gap(kept=lambda layer, x, p: p @ x),
        inverse_on_output=gap(kept=lambda layer, x, p: p.mT @ layer(x)),
        inverse_on_input=gap(moved=lambda layer, x, p: layer(p.mT @ x)),
        signed=gap(size=lambda gap: gap.sum()),
        mean=gap(size=lambda gap: gap.abs().mean()),
        signed_largest=gap(size=lambda gap: gap.max()),
        matrix_norm=gap(size=lambda gap: torch.linalg.matrix_norm(gap, ord=torch.inf)),
        smallest=gap(size=lambda gap: gap.abs().min()),
        square=gap(size=lambda gap: (gap**2).max()),
        length=gap(size=lambda gap: gap.norm()),
        rounded_to_0=Wrong(small_gaps_rounded, recognise=lambda seen: float(seen.output) == 0),
        rounded=Wrong(gap(size=lambda gap: round(gap.abs().max().item(), 4)), recognise=_rounded),
        inverse_on_both=lambda layer, x, p: (layer(p.mT @ x) - p.mT @ layer(x)).abs().max(),
    ),
)
