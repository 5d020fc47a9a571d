"""The check of the delta rule. Most slips are one line of the step from state to state, so they share the loop."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import (
    in_single_precision,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation

from ..delta_rule import delta_rule as reference
from .decayed_attention import IN_THEIR_DTYPE, in_another_dtype
from .linear_attention import CUT_OFF_HINT
from .sparse import AXIS_HINT, changed_in_place, square_made

__all__ = ["delta_rule"]


# ---------------------------------------------------------------------------------------------------------------- inputs


def strengths(*shape: int, low: float = 0.1, high: float = 1.0, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Numbers between low and high."""
    return RandomArg(lambda generator: (low + (high - low) * torch.rand(shape, generator=generator)).to(dtype))


def few_keys(n: int, d: int, kinds: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """n keys of few directions, each with a length of its own: what stands under a key is written again and again."""

    def draw(generator: torch.Generator) -> Tensor:
        directions, lengths = torch.randn(kinds, d, generator=generator), 0.5 + torch.rand(n, 1, generator=generator)
        return (lengths * directions[torch.arange(n) % kinds]).to(dtype)

    return RandomArg(draw)


def written(label: str, n: int, d: int, d_v: int, *, batch: tuple = (), scale: float = 1.0, low: float = 0.1, high: float = 1.0,
            dtype: torch.dtype = torch.float32, keys: RandomArg | None = None, **limits) -> Case:  # fmt: skip
    """A case; scale: that of the keys; low, high: the range of β."""
    q, v = normal(*batch, n, d, dtype=dtype), normal(*batch, n, d_v, dtype=dtype)
    k = keys or normal(*batch, n, d, scale=scale, dtype=dtype)
    return explicit_case(label, q, k, v, strengths(*batch, n, low=low, high=high, dtype=dtype), **limits)


def long_written(n: int, d: int, d_v: int) -> Case:
    """Room for chunks of up to 16 tokens, where n² pairs would be many times as much."""
    label = f"n = {n}: counted, O(n d²), in float64"
    flops, elements = 4 * n * (3 * d * (d_v + 1) + 16 * (d + d_v + 1)), 2 * n * (d + 1) * (d_v + 1)
    return written(label, n, d, d_v, dtype=torch.float64, max_flops=flops, max_elements=elements)


# ----------------------------------------------------------------------------------------------------------------- slips


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


LOOK_UP_HINT = (
    "The output depends on the old state and on the key through the looked-up value, so gradients must flow there, too. `detach()` (or `no_grad`, `.data`) "
    "stops them. Leave it out."
)

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
        long_written(300, 4, 3), long_written(260, 3, 6),
        written("one token", 1, 3, 2),
        written("gradients, in float64", 6, 3, 4, dtype=torch.float64, gradient=True),
    ],
    misconceptions=[
        Misconception(
            "added instead of corrected", by_step(lambda state, k, v, b: state + b * _outer(k, v)),
            "That is linear attention again: the old value under this key stays, and the new one is added to it. Write βₜ times the difference vₜ − kₜSₜ₋₁.",
        ),
        Misconception(
            "β forgotten", by_step(lambda state, k, v, b: _delta(state, k, v, 1)),
            "βₜ says how much of the correction is written. Yours writes all of it, as if β were 1.",
        ),
        Misconception(
            "keys not normalised", by_keys(lambda k: k),
            "With a key of length 2 the state returns 4 times what was written, and correcting overshoots. Divide each key by its length first.",
        ),
        Misconception(
            "β only on the new value", by_step(lambda state, k, v, b: state + _outer(k, b * v - k @ state)),
            "βₜ multiplies the whole correction, vₜ − kₜSₜ₋₁. Yours erases the old value completely and writes only a part of the new one.",
        ),
        Misconception(
            "β only on the old value", by_step(lambda state, k, v, b: state + _outer(k, v - b * (k @ state))),
            "βₜ multiplies the whole correction, vₜ − kₜSₜ₋₁. Yours writes the new value in full and erases only a part of the old one.",
        ),
        Misconception(
            "β applied twice", by_step(lambda state, k, v, b: state + b * _outer(b * k, v - k @ state)),
            "βₜ is in the formula once. Yours counts as βₜ², for example if it is on the key and on the correction.",
        ),
        Misconception(
            "1 − β instead of β", by_step(lambda state, k, v, b: _delta(state, k, v, 1 - b)),
            "βₜ is the part that is written: with β = 1 the new value replaces the old one.",
        ),
        Misconception(
            "the state read before the token is written",
            lambda q, k, v, beta: walk(q, _unit(k), v, beta, _delta, before=True),
            "You read the old state. Write token t first, then read.",
        ),
        Misconception(
            "the old value looked up with the query", recalled_by_the_query,
            "You look the old value up with the query. Look it up with the *key*, kₜSₜ₋₁; the query reads after the writing.",
        ),
        Misconception(
            "the old value added once more", by_step(lambda state, k, v, b: state + b * _outer(k, v + k @ state)),
            "You add the old value. Subtract it: vₜ − kₜSₜ₋₁.",
        ),
        Misconception(
            "the sign of the correction turned", by_step(lambda state, k, v, b: state - b * _outer(k, v - k @ state)),
            "You subtract the correction. Add it: vₜ − kₜSₜ₋₁ leads from the stored value to the new one.",
        ),
        Misconception(
            "everything faded, not only what is stored under the key", by_step(lambda state, k, v, b: (1 - b) * state + b * _outer(k, v)),
            "You multiply the whole state by 1 − βₜ, so the values of all keys fade. The delta rule erases only what is stored under *this* key, βₜ kᵀ(k "
            "S); all that is at a right angle to the key stays.",
        ),
        Misconception(
            "the state overwritten by the correction", by_step(lambda state, k, v, b: b * _outer(k, v - k @ state)),
            "The correction is *added* to the state. Yours replaces it, and every other key is lost.",
        ),
        Misconception(
            "queries normalised as well", lambda q, k, v, beta: walk(_unit(q), _unit(k), v, beta, _delta),
            "You divide the queries by their length, too. Only the keys get length 1.",
        ),
        Misconception(
            "queries normalised instead of keys", lambda q, k, v, beta: walk(_unit(q), k, v, beta, _delta),
            "Divide the keys by their length, not the queries. A key is used twice, to look up and to write, so its length counts squared.",
        ),
        Misconception(
            "values normalised", lambda q, k, v, beta: walk(q, _unit(k), _unit(v), beta, _delta),
            "You divide the values by their length. Only the keys get length 1.",
        ),
        Misconception(
            "a small number added to the length", by_keys(_longer(1e-6)[0]),
            "No key is zero here. With a number added, the length is too large and the keys come out too short: by far, if they are only 10⁻⁷ long. Divide "
            "by the length itself. (`F.normalize` is right: it takes the larger of the length and 10⁻¹².)",
            _number_added,
        ),
        Misconception(
            "a smallest length for keys", by_keys(lambda k: k / k.norm(dim=-1, keepdim=True).clamp_min(1e-3)),
            "Your smallest length is larger than the length of some keys (they are about 10⁻⁷ long), so these don't get length 1. No key is zero, so no "
            "smallest length is needed; that of `F.normalize`, 10⁻¹², is small enough.",
        ),
        Misconception(
            "keys divided by the square of their length", by_keys(lambda k: k / (k * k).sum(-1, keepdim=True)),
            "You divide by the sum of squares. The length is its root: `k.norm(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "keys divided by the sum of their absolute entries", by_keys(lambda k: k / k.abs().sum(-1, keepdim=True)),
            "Then the absolute entries sum to 1. The length is the root of the sum of squares: `k.norm(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "keys divided by √d", by_keys(lambda k: k / k.shape[-1] ** 0.5),
            "Divided by √d, keys have a length of about 1. Each key must have length 1 exactly: divide it by its own norm.",
        ),
        Misconception(
            "keys normalised over the tokens", by_keys(lambda k: k / k.norm(dim=-2, keepdim=True)),
            "You take the norm over the n tokens. Take it over the d entries of each key, `dim=-1`. (Over the tokens it also looks into the future.)",
        ),
        Misconception(
            "the norm's axis counted from the front", by_keys(lambda k: F.normalize(k, dim=1)), f"{AXIS_HINT} (`F.normalize` takes `dim=1` if you give none.)"
        ),
        Misconception(
            "one norm for all keys", by_keys(lambda k: k / k.norm(dim=(-2, -1), keepdim=True)),
            "Every key is divided by a length of its own: `norm(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "a softmax on the keys", by_keys(lambda k: k.softmax(-1)),
            "A softmax makes the entries sum to 1. Here their squares must sum to 1: divide by the norm.",
        ),
        Misconception(
            "the feature map of linear attention on the keys", by_keys(lambda k: _unit(F.elu(k) + 1)),
            "There is no feature map here. Only divide the keys by their length.",
        ),
        Misconception(
            "feature maps on queries and keys", lambda q, k, v, beta: walk(F.elu(q) + 1, _unit(F.elu(k) + 1), v, beta, _delta),
            "There is no feature map here. Only divide the keys by their length.",
        ),
        Misconception(
            "normalised for looking up, not for writing", lambda q, k, v, beta: walk(
                q, k, v, beta, lambda state, k, v, b: state + b * _outer(k, v - _unit(k) @ state)),
            "You write with the key as it came. Divide it by its length once, and use that key both to look up and to write.",
        ),
        Misconception(
            "normalised for writing, not for looking up", lambda q, k, v, beta: walk(
                q, k, v, beta, lambda state, k, v, b: state + b * _outer(_unit(k), v - k @ state)),
            "You look up with the key as it came. Divide it by its length once, and use that key both to look up and to write.",
        ),
        Misconception(
            "one β for all tokens", lambda q, k, v, beta: walk(q, _unit(k), v, beta[..., :1].expand_as(beta), _delta),
            "Every token has a β of its own: βₜ is `beta[..., t]`.",
        ),
        Misconception(
            "a second sigmoid on β", lambda q, k, v, beta: walk(q, _unit(k), v, beta.sigmoid(), _delta),
            "β is between 0 and 1 already: the gate's sigmoid was applied before. Use it as it is.",
        ),
        Misconception(
            "divided by a normaliser", normalised_output,
            "You divide by q · Σ k, which may be 0 or negative. There is no normaliser here: the output is qₜSₜ.",
        ),
        Misconception(
            "divided by √d", lambda q, k, v, beta: walk(q / q.shape[-1] ** 0.5, _unit(k), v, beta, _delta),
            "You divide by √d. That is for the softmax, and there is none here: leave it out.",
        ),
        Misconception(
            "the corrections returned", corrections_as_outputs,
            "You return vₜ − kₜSₜ₋₁, what was written. The output is what the query reads: qₜSₜ.",
        ),
        Misconception(
            "read with the key", lambda q, k, v, beta: walk(_unit(k), _unit(k), v, beta, _delta),
            "You read with the key. The key writes, the query reads: the output is qₜSₜ.",
        ),
        Misconception(
            "the sequence read backwards", lambda q, k, v, beta: reference(*(x.flip(-2) for x in (q, k, v)), beta.flip(-1)).flip(-2),
            "Your state starts at the last token, so each token reads itself and the future.",
        ),
        Misconception(
            "one state for the whole batch", one_state_for_the_batch,
            "Each sequence needs its own state: it has the batch axes too, (…, d, d_v).",
        ),
        Misconception(
            "a triangle of n × n", all_at_once,
            "You make a tensor with a number for each of the n × n pairs. Keep a d × d_v state and update it token by token, or in chunks of up to 16 "
            "tokens.",
            cost=square_made,
        ),
        Misconception(
            "a state of d × d", state_of_d_by_d,
            "The state is a sum of kᵀ times a value: it has the shape (…, d, d_v), and d_v need not be d.",
            raises="RuntimeError",
        ),
        changed_in_place(state_changed_in_place),
        Misconception(
            "the looked-up value cut off from its gradients",
            by_step(lambda state, k, v, b: state + b * _outer(k, v - (k @ state).detach())), LOOK_UP_HINT,
        ),
        Misconception(
            "the state cut off from its gradients where it is looked up",
            by_step(lambda state, k, v, b: state + b * _outer(k, v - k @ state.detach())), LOOK_UP_HINT,
        ),
        Misconception(
            "the length cut off from its gradients", by_keys(lambda k: k / k.norm(dim=-1, keepdim=True).detach()),
            "The length depends on the key too, and a part of the key's gradient comes through it. `detach()` (or `no_grad`, `.data`) leaves that part out: "
            "the division belongs to the function.",
        ),
        Misconception(
            "the state cut off from its gradients", by_step(lambda state, k, v, b: _delta(state.detach(), k, v, b)), CUT_OFF_HINT
        ),
        in_another_dtype(reference),
        in_single_precision(reference),
        written_for_one_batch_axis(reference),
        written_without_a_batch(reference),
    ],
)  # fmt: skip
