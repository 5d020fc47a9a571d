"""delta_rule: of v_t − k_t S_{t−1}, the value less what its key looks up, the part β_t is written to the state."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..delta_rule import delta_rule as reference
from .recurrence import IN_THEIR_DTYPE, State, Walk, backwards, changed_in_place, in_another_dtype, outer, phi, walk
from .sparse import ready_made, square_made

__all__ = ["delta_rule"]


def strengths(*shape: int, low: float = 0.1, high: float = 1.0, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Numbers between low and high."""
    return RandomArg(lambda generator: (low + (high - low) * torch.rand(shape, generator=generator)).to(dtype))


def few_keys(n: int, d: int, kinds: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """n keys of few directions, each with a length of its own: what stands under a key is written again and again."""

    def draw(generator: Generator) -> Tensor:
        directions, lengths = torch.randn(kinds, d, generator=generator), 0.5 + torch.rand(n, 1, generator=generator)
        return (lengths * directions[torch.arange(n) % kinds]).to(dtype)

    return RandomArg(draw)


def written(
    label, n, d, d_v, *, batch=(), scale=1.0, low=0.1, high=1.0, dtype=torch.float32, keys=None, **limits
) -> Case:
    """A case; scale: that of the keys; low, high: the range of β."""
    q, v = normal(*batch, n, d, dtype=dtype), normal(*batch, n, d_v, dtype=dtype)
    k = keys or normal(*batch, n, d, scale=scale, dtype=dtype)
    return explicit_case(label, q, k, v, strengths(*batch, n, low=low, high=high, dtype=dtype), **limits)


def long_written(n: int, d: int, d_v: int) -> Case:
    """Room for chunks of up to 16 tokens, where n² pairs would be many times as much."""
    label = f"n = {n}: counted, O(n d²), in float64"
    flops, elements = 4 * n * (3 * d * (d_v + 1) + 16 * (d + d_v + 1)), 2 * n * (d + 1) * (d_v + 1)
    return written(label, n, d, d_v, dtype=torch.float64, max_flops=flops, max_elements=elements)


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def as_it_is(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True)
class Delta(Walk):
    queries: Callable = as_it_is
    keys: Callable = unit
    values: Callable = as_it_is
    strength: Callable = as_it_is
    added: Callable = lambda state, k, v, b: b * outer(k, v - k @ state)


@composable
def delta(**changed: Callable) -> Callable:
    steps = Delta(**changed)
    return lambda q, k, v, beta: walk(steps, steps.queries(q), steps.keys(k), steps.values(v), steps.strength(beta))


def looked_up_with_query(q, k, v, beta) -> Tensor:
    """What is looked up with the query stands beside the key, which is written."""
    both, d = torch.cat([unit(k), q], dim=-1), k.shape[-1]
    steps = Walk(
        empty=lambda k, v: k.new_zeros(*k.shape[:-2], d, v.shape[-1]),
        added=lambda state, k, v, b: b * outer(k[..., :d], v - k[..., d:] @ state),
    )
    return walk(steps, q, both, v, beta)


def divided_by_normaliser(q, k, v, beta) -> Tensor:
    return reference(q, k, v, beta) / (q * unit(k).cumsum(-2)).sum(-1, keepdim=True)


def all_at_once(q, k, v, beta) -> Tensor:
    """All corrections from a triangle of n × n."""
    k, eye = unit(k), torch.eye(k.shape[-2], dtype=k.dtype)
    products = (beta[..., None] * (k @ k.mT)).tril(-1)
    written = torch.linalg.solve_triangular(eye + products, beta[..., None] * v, upper=False, unitriangular=True)
    return (q @ k.mT).tril() @ written


def longer(length: Callable, eps: float) -> Callable:
    """A number added to the keys' length."""
    return delta(keys=lambda k: k / length(k, eps))


def outside_of_root(k: Tensor, eps: float) -> Tensor:
    return k.norm(dim=-1, keepdim=True) + eps


def inside_of_root(k: Tensor, eps: float) -> Tensor:
    return (k.square().sum(-1, keepdim=True) + eps).sqrt()


SMALL = (1e-6, 1e-3, 1e-4, 1e-5, 1e-7, 1e-8)
LONGER = tuple(longer(length, eps) for eps in SMALL for length in (outside_of_root, inside_of_root))

delta_rule = Check(
    reference=reference,
    properties=[IN_THEIR_DTYPE],
    cases=[
        written("n = 5, d = 4, d_v = 3", 5, 4, 3),
        written("two batch axes, in float64", 7, 3, 5, batch=(2, 3), dtype=torch.float64),
        written("long keys", 6, 5, 2, scale=4.0),
        written("keys of length 10⁻⁷, in float64", 7, 4, 3, scale=5e-8, dtype=torch.float64),
        written("three keys, written four times each", 12, 4, 3, keys=few_keys(12, 4, 3)),
        written("two keys, written five times each, β = 1, d_v = d", 10, 4, 4, keys=few_keys(10, 4, 2), low=1.0),
        written("β near 0, in float64", 8, 3, 4, low=0.0, high=1e-3, dtype=torch.float64),
        long_written(300, 4, 3),
        long_written(260, 3, 6),
        written("one token", 1, 3, 2),
        written("gradients, in float64", 6, 3, 4, dtype=torch.float64, gradient=True),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(delta(join=lambda old, new: old.add_(new))),
        in_another_dtype(reference),
        *ready_made(reference),
        *slips(delta, State.read_before, State.overwritten, State.one_for_the_batch, State.d_by_d, State.cut_off),
        backwards(reference),
        # the correction
        only_added=delta(added=lambda state, k, v, b: b * outer(k, v)),
        old_value_added=delta(added=lambda state, k, v, b: b * outer(k, v + k @ state)),
        sign_turned=delta(added=lambda state, k, v, b: -b * outer(k, v - k @ state)),
        everything_faded=delta(faded=lambda state, b: (1 - b) * state, added=lambda state, k, v, b: b * outer(k, v)),
        looked_up_with_query=looked_up_with_query,
        lookup_cut_off=delta(added=lambda state, k, v, b: b * outer(k, v - (k @ state).detach())),
        state_cut_off_at_lookup=delta(added=lambda state, k, v, b: b * outer(k, v - k @ state.detach())),
        # β
        beta_forgotten=delta(added=lambda state, k, v, b: outer(k, v - k @ state)),
        beta_on_new_value=delta(added=lambda state, k, v, b: outer(k, b * v - k @ state)),
        beta_on_old_value=delta(added=lambda state, k, v, b: outer(k, v - b * (k @ state))),
        beta_twice=delta(strength=lambda beta: beta * beta),
        one_minus_beta=delta(strength=lambda beta: 1 - beta),
        one_beta=delta(strength=lambda beta: beta[..., :1].expand_as(beta)),
        second_sigmoid=delta(strength=lambda beta: beta.sigmoid()),
        # lengths
        keys_as_they_are=delta(keys=as_it_is),
        queries_too=delta(queries=unit),
        queries_instead=delta(queries=unit, keys=as_it_is),
        values_normalised=delta(values=unit),
        number_added=Wrong(LONGER[0], variants=LONGER),
        smallest_length=delta(keys=lambda k: k / k.norm(dim=-1, keepdim=True).clamp_min(1e-3)),
        by_square_of_length=delta(keys=lambda k: k / (k * k).sum(-1, keepdim=True)),
        by_sum_of_entries=delta(keys=lambda k: k / k.abs().sum(-1, keepdim=True)),
        keys_by_root_of_d=delta(keys=lambda k: k / k.shape[-1] ** 0.5),
        over_tokens=delta(keys=lambda k: k / k.norm(dim=-2, keepdim=True)),
        axis_from_front=delta(keys=lambda k: F.normalize(k, dim=1)),
        one_norm=delta(keys=lambda k: k / k.norm(dim=(-2, -1), keepdim=True)),
        softmax_on_keys=delta(keys=lambda k: k.softmax(-1)),
        feature_map_on_keys=delta(keys=lambda k: unit(phi(k))),
        feature_maps=delta(queries=phi, keys=lambda k: unit(phi(k))),
        normalised_to_look_up=delta(keys=as_it_is, added=lambda state, k, v, b: b * outer(k, v - unit(k) @ state)),
        normalised_to_write=delta(keys=as_it_is, added=lambda state, k, v, b: b * outer(unit(k), v - k @ state)),
        length_cut_off=delta(keys=lambda k: k / k.norm(dim=-1, keepdim=True).detach()),
        # the output
        divided_by_normaliser=divided_by_normaliser,
        by_root_of_d=delta(queries=lambda q: q / q.shape[-1] ** 0.5),
        corrections_returned=delta(read=lambda q, before, after, k, v: v - k @ before),
        read_with_key=delta(read=lambda q, before, after, k, v: k @ after),
        triangle=Wrong(all_at_once, cost=square_made),
    ),
)
