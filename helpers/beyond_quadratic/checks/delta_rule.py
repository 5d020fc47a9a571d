"""The check of the delta rule. Most slips are one line of the step from state to state, so they share the loop."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import (
    in_single_precision,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..delta_rule import delta_rule as reference
from .decayed_attention import IN_THEIR_DTYPE, in_another_dtype
from .sparse import changed_in_place, square_made

__all__ = ["delta_rule"]


def strengths(*shape: int, low: float = 0.1, high: float = 1.0, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Numbers between low and high."""
    return RandomArg(lambda generator: (low + (high - low) * torch.rand(shape, generator=generator)).to(dtype))


def few_keys(n: int, d: int, kinds: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """n keys of few directions, each with a length of its own: what stands under a key is written again and again."""

    def draw(generator: torch.Generator) -> Tensor:
        directions, lengths = torch.randn(kinds, d, generator=generator), 0.5 + torch.rand(n, 1, generator=generator)
        return (lengths * directions[torch.arange(n) % kinds]).to(dtype)

    return RandomArg(draw)


def written(
    label: str,
    n: int,
    d: int,
    d_v: int,
    *,
    batch: tuple = (),
    scale: float = 1.0,
    low: float = 0.1,
    high: float = 1.0,
    dtype: torch.dtype = torch.float32,
    keys: RandomArg | None = None,
    **limits,
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


def _unit(k) -> Tensor:
    return k / k.norm(dim=-1, keepdim=True)


def _outer(k, v) -> Tensor:
    return k.mT @ v


def walk(q, k, v, beta, step: Callable, before: bool = False, width: int = 0) -> Tensor:
    """The loop over tokens. step: (state, k_t, v_t, β_t) → the next state. before: read before the step. width: that of the state, if it isn't d_v."""
    state, outputs = k.new_zeros(*k.shape[:-2], k.shape[-1], width or v.shape[-1]), []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        after = step(state, k_t, v_t, beta[..., t, None, None])
        outputs.append(q_t @ (state if before else after))
        state = after
    return torch.cat(outputs, dim=-2)


def _delta(state, k, v, beta) -> Tensor:
    return state + beta * _outer(k, v - k @ state)


def by_step(step: Callable) -> Callable:
    """A slip in the step; the keys are right."""
    return lambda q, k, v, beta: walk(q, _unit(k), v, beta, step)


def by_keys(keys: Callable) -> Callable:
    """A slip in what is done to the keys; the step is right."""
    return lambda q, k, v, beta: walk(q, keys(k), v, beta, _delta)


def recalled_by_the_query(q, k, v, beta) -> Tensor:
    k, state, outputs = _unit(k), k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        state = state + beta[..., t, None, None] * _outer(k_t, v_t - q_t @ state)
        outputs.append(q_t @ state)
    return torch.cat(outputs, dim=-2)


def corrections_as_outputs(q, k, v, beta) -> Tensor:
    k, state, outputs = _unit(k), k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        k_t, v_t = k[..., t : t + 1, :], v[..., t : t + 1, :]
        wrong_by = v_t - k_t @ state
        outputs.append(wrong_by)
        state = state + beta[..., t, None, None] * _outer(k_t, wrong_by)
    return torch.cat(outputs, dim=-2)


def normalised_output(q, k, v, beta) -> Tensor:
    k = _unit(k)
    return walk(q, k, v, beta, _delta) / (q * k.cumsum(-2)).sum(-1, keepdim=True)


def one_state_for_the_batch(q, k, v, beta) -> Tensor:
    axes = tuple(range(k.dim() - 2))

    def step(state, k_t, v_t, b_t):
        new = b_t * _outer(k_t, v_t - k_t @ state)
        return state + (new.sum(axes, keepdim=True) if axes else new)

    return walk(q, _unit(k), v, beta, step)


def _written_values(k, v, beta) -> Tensor:
    """All corrections at once, from a triangle of n × n."""
    products = (beta[..., None] * (k @ k.mT)).tril(-1)
    eye = torch.eye(k.shape[-2], dtype=k.dtype)
    return torch.linalg.solve_triangular(eye + products, beta[..., None] * v, upper=False, unitriangular=True)


def all_at_once(q, k, v, beta) -> Tensor:
    k = _unit(k)
    return (q @ k.mT).tril() @ _written_values(k, v, beta)


def _longer(eps: float) -> tuple[Callable, Callable]:
    """Keys divided by a length to which a number was added, outside of the root or inside."""
    return (
        lambda k: k / (k.norm(dim=-1, keepdim=True) + eps),
        lambda k: k / (k.square().sum(-1, keepdim=True) + eps).sqrt(),
    )


def _number_added(seen: Observation) -> bool:
    """A mark: the output is that of keys with one of the usual small numbers in their length, and one so small that it isn't seen is none."""
    q, k, v, beta = seen.args
    within, right = tolerance(seen.args), reference(*seen.args)
    keys = (form(k) for eps in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8) for form in _longer(eps))
    outputs = (walk(q, one, v, beta, _delta) for one in keys)
    return any(agree(seen.output, one, within) and not agree(one, right, within) for one in outputs)


def state_changed_in_place(q, k, v, beta) -> Tensor:
    k, outputs = _unit(k), []
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        state += beta[..., t, None, None] * _outer(k_t, v_t - k_t @ state)
        outputs.append(q_t @ state)
    return torch.cat(outputs, dim=-2)


def state_of_d_by_d(q, k, v, beta) -> Tensor:
    return walk(q, _unit(k), v, beta, _delta, width=k.shape[-1])


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
        changed_in_place(state_changed_in_place),
        in_another_dtype(reference),
        in_single_precision(reference),
        written_for_one_batch_axis(reference),
        written_without_a_batch(reference),
        added_instead_corrected=by_step(lambda state, k, v, b: state + b * _outer(k, v)),
        forgotten=by_step(lambda state, k, v, b: _delta(state, k, v, 1)),
        keys_not_normalised=by_keys(lambda k: k),
        only_on_new_value=by_step(lambda state, k, v, b: state + _outer(k, b * v - k @ state)),
        only_on_old_value=by_step(lambda state, k, v, b: state + _outer(k, v - b * (k @ state))),
        applied_twice=by_step(lambda state, k, v, b: state + b * _outer(b * k, v - k @ state)),
        with_1_minus_instead=by_step(lambda state, k, v, b: _delta(state, k, v, 1 - b)),
        state_read_before_token_written=lambda q, k, v, beta: walk(q, _unit(k), v, beta, _delta, before=True),
        old_value_looked_up_with_query=recalled_by_the_query,
        old_value_added_once_more=by_step(lambda state, k, v, b: state + b * _outer(k, v + k @ state)),
        sign_correction_turned=by_step(lambda state, k, v, b: state - b * _outer(k, v - k @ state)),
        everything_faded_not_only_what_stored=by_step(lambda state, k, v, b: (1 - b) * state + b * _outer(k, v)),
        state_overwritten_by_correction=by_step(lambda state, k, v, b: b * _outer(k, v - k @ state)),
        queries_normalised_as_well=lambda q, k, v, beta: walk(_unit(q), _unit(k), v, beta, _delta),
        queries_normalised_instead_keys=lambda q, k, v, beta: walk(_unit(q), k, v, beta, _delta),
        values_normalised=lambda q, k, v, beta: walk(q, _unit(k), _unit(v), beta, _delta),
        small_number_added_length=Wrong(by_keys(_longer(1e-6)[0]), recognise=_number_added),
        smallest_length_keys=by_keys(lambda k: k / k.norm(dim=-1, keepdim=True).clamp_min(1e-3)),
        keys_divided_by_square_their_length=by_keys(lambda k: k / (k * k).sum(-1, keepdim=True)),
        keys_divided_by_sum_their_absolute=by_keys(lambda k: k / k.abs().sum(-1, keepdim=True)),
        keys_divided_by_root_d=by_keys(lambda k: k / k.shape[-1] ** 0.5),
        keys_normalised_over_tokens=by_keys(lambda k: k / k.norm(dim=-2, keepdim=True)),
        norms_axis_counted_from_front=by_keys(lambda k: F.normalize(k, dim=1)),
        one_norm_all_keys=by_keys(lambda k: k / k.norm(dim=(-2, -1), keepdim=True)),
        softmax_on_keys=by_keys(lambda k: k.softmax(-1)),
        feature_map_linear_attention_on_keys=by_keys(lambda k: _unit(F.elu(k) + 1)),
        feature_maps_on_queries_keys=lambda q, k, v, beta: walk(F.elu(q) + 1, _unit(F.elu(k) + 1), v, beta, _delta),
        normalised_looking_up_not_writing=lambda q, k, v, beta: walk(
            q, k, v, beta, lambda state, k, v, b: state + b * _outer(k, v - _unit(k) @ state)
        ),
        normalised_writing_not_looking_up=lambda q, k, v, beta: walk(
            q, k, v, beta, lambda state, k, v, b: state + b * _outer(_unit(k), v - k @ state)
        ),
        one_all_tokens=lambda q, k, v, beta: walk(q, _unit(k), v, beta[..., :1].expand_as(beta), _delta),
        second_sigmoid_on=lambda q, k, v, beta: walk(q, _unit(k), v, beta.sigmoid(), _delta),
        divided_by_normaliser=normalised_output,
        divided_by_root_d=lambda q, k, v, beta: walk(q / q.shape[-1] ** 0.5, _unit(k), v, beta, _delta),
        corrections_returned=corrections_as_outputs,
        read_with_key=lambda q, k, v, beta: walk(_unit(k), _unit(k), v, beta, _delta),
        sequence_read_backwards=lambda q, k, v, beta: reference(*(x.flip(-2) for x in (q, k, v)), beta.flip(-1)).flip(
            -2
        ),
        one_state_whole_batch=one_state_for_the_batch,
        triangle_n_n=Wrong(all_at_once, cost=square_made),
        state_d_d=Wrong(state_of_d_by_d, raises="RuntimeError"),
        looked_up_value_cut_off_from_gradients=by_step(
            lambda state, k, v, b: state + b * _outer(k, v - (k @ state).detach())
        ),
        state_cut_off_from_gradients_where_it=by_step(
            lambda state, k, v, b: state + b * _outer(k, v - k @ state.detach())
        ),
        length_cut_off_from_gradients=by_keys(lambda k: k / k.norm(dim=-1, keepdim=True).detach()),
        state_cut_off_from_gradients=by_step(lambda state, k, v, b: _delta(state.detach(), k, v, b)),
    ),
)
