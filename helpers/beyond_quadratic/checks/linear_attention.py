"""Checks of linear attention in its three forms. The work is counted: the n × m matrix made first is found."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal, random_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.common_misconceptions import (
    in_single_precision,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.observe import Observation

from .. import linear_attention as reference
from .sparse import all_pairs_scored, changed_in_place, square_made

__all__ = ["linear_attention"]


def _phi(x) -> Tensor:
    return F.elu(x) + 1


def _ratio(q, k, v) -> Tensor:
    """Linear attention of queries and keys that have their features already, all keys read."""
    return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])


def _masked(q, k, v, diagonal=0) -> Tensor:
    """The causal form as a full n × n matrix with a triangle cut out."""
    weights = (q @ k.mT).tril(diagonal)
    return weights @ v / weights.sum(-1, keepdim=True)


def _by_rows(q, k, v, causal=False) -> Tensor:
    n = q.shape[-2]
    ends = [t + 1 if causal else k.shape[-2] for t in range(n)]
    rows = [((q[..., t : t + 1, :] @ k.mT)[..., :end], end) for t, end in enumerate(ends)]
    return torch.cat([row @ v[..., :end, :] / row.sum(-1, keepdim=True) for row, end in rows], dim=-2)


def far_below_zero(n: int, m: int, d: int, d_v: int, *rest: int) -> Case:
    """Features near e^−10: a normaliser so small that a number added to it shows, and a smallest value for it too."""
    q, k = (normal(length, d, mean=-10, dtype=torch.float64) for length in (n, m))
    return explicit_case("inputs near −10, in float64", q, k, normal(m, d_v, dtype=torch.float64), *rest)


def large_after_small(n: int, d: int, d_v: int, c: int) -> Case:
    """The last token of the second chunk has a large key and a larger value: a sum from which they are taken off again has lost what stood there before."""
    place = 2 * c - 1

    def keys(generator: torch.Generator) -> Tensor:
        noise = torch.randn(n, d, generator=generator, dtype=torch.float64)
        return torch.where(torch.arange(n)[:, None] == place, 10 + noise, noise - 10)

    def values(generator: torch.Generator) -> Tensor:
        noise = torch.randn(n, d_v, generator=generator, dtype=torch.float64)
        return torch.where(torch.arange(n)[:, None] == place, 1e4 * noise, noise)

    words = f"n = {n}, c = {c}: a large token after small ones, in float64"
    return explicit_case(words, normal(n, d, dtype=torch.float64), RandomArg(keys), RandomArg(values), c)


def _number_added(normaliser) -> Callable:
    """A mark: the normaliser that the output implies is too large, by the same number in every row."""

    def shown(seen: Observation) -> bool:
        above, below = normaliser(*(x.double() for x in seen.args[:3]))
        extra = above / seen.output.double() - below
        return bool(extra.min() > 0 and extra.max() - extra.min() < 0.05 * extra.max())

    return shown


EPSILON_HINT = (
    "φ is above 0 for all inputs used here, so the normaliser is never 0, and nothing has to be added. For inputs near −10 all features are tiny: there "
    "your number is no longer small beside the normaliser, and the weights sum to less than 1."
)
SMALLEST_HINT = "The normaliser is never 0 here. For inputs near −10 it is below your limit, which takes its place, and the weights sum to less than 1."
SCALE_HINT = "A factor of 1/√d keeps a softmax from saturating. There is no softmax here, and the formula has no scale."


def _scaled(q) -> Tensor:
    return q / math.sqrt(q.shape[-1])


# -------------------------------------------------------------------------------------------------- all tokens at once


def _parts(q, k, v) -> tuple[Tensor, Tensor]:
    """Above and below the fraction bar."""
    q, k = _phi(q), _phi(k)
    return q @ (k.mT @ v), (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)


def square_for_the_normaliser(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return q @ (k.mT @ v) / (q @ k.mT).sum(-1, keepdim=True)


def _square_for_the_normaliser_alone(seen: Observation) -> bool:
    """A mark: n × m numbers and no more, and the work of the two linear products and of one that makes these numbers."""
    q, k, v = seen.args
    pairs, linear = q.shape[-2] * k.shape[-2], (q.shape[-2] + k.shape[-2]) * q.shape[-1] * v.shape[-1]
    return seen.largest == pairs and seen.flops == 2 * (pairs * q.shape[-1] + linear)


def normaliser_axis_from_the_front(q, k, v) -> Tensor:
    above, below = _parts(q, k, v)
    return above / below.squeeze(-1).unsqueeze(1)


def with_a_small_number(q, k, v) -> Tensor:
    above, below = _parts(q, k, v)
    return above / (below + 1e-6)


def with_a_smallest_normaliser(q, k, v) -> Tensor:
    above, below = _parts(q, k, v)
    return above / below.clamp_min(1e-6)


def one_normaliser(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None]).sum(-2, keepdim=True)


def softmax_features(q, k, v) -> Tensor:
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def long_sequences(n: int, m: int, d: int, d_v: int) -> Case:
    """Twice what the two products need; n · m would be many times more."""
    return random_case(f"n = {n}, m = {m}: counted, O((n + m) d²)", n=n, m=m, d=d, d_v=d_v,
                 max_flops=2 * 2 * (n + m) * d * (d_v + 1), max_elements=2 * max(n, m) * (d + 1) * (d_v + 1))  # fmt: skip


_all_at_once = Check(
    reference=reference.linear_attention,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3),
        random_case(batch=(2, 3), n=4, m=6, d=3, d_v=5, dtype=torch.float64, gradient=True, label="batch = 2×3, n = 4, m = 6: gradients, in float64"),
        random_case(n=4, m=5, d=6, d_v=2, scale=3.0, label="large inputs"), long_sequences(300, 350, 4, 3), long_sequences(280, 240, 3, 6),
        far_below_zero(4, 6, 3, 5),
    ],
    misconceptions=[
        Misconception(
            "an n × m matrix for the normaliser", square_for_the_normaliser,
            "Your numerator is right. For the denominator you make all n · m weights and then sum the rows. Sum the keys first: row i has the sum φ(qᵢ) · Σ "
            "φ(k).",
            cost=_square_for_the_normaliser_alone,
        ),
        Misconception(
            "the n × m matrix made first", lambda q, k, v: (_phi(q) @ _phi(k).mT @ v) / (_phi(q) @ _phi(k).mT).sum(-1, keepdim=True),
            "Python multiplies from left to right, so `q @ k.mT @ v` makes the n × m matrix first. Put the brackets round the keys and values: φ(q) (φ(k)ᵀ "
            "v).",
            cost=square_made,
        ),
        Misconception(
            "quadratic attention, piece by piece", lambda q, k, v: _by_rows(_phi(q), _phi(k), v),
            "You never store an n × m matrix, but every query still meets every key. Sum φ(k)ᵀ v up once, for all queries.",
            cost=all_pairs_scored,
        ),
        Misconception(
            "the normaliser forgotten", lambda q, k, v: _phi(q) @ (_phi(k).mT @ v),
            "The weights φ(q)·φ(k) don't sum to 1 by themselves. Divide each row by φ(q) · Σ φ(k).",
        ),
        Misconception(
            "divided by the number of keys", lambda q, k, v: _phi(q) @ (_phi(k).mT @ v) / k.shape[-2],
            "The sum of the weights is φ(q) · Σ φ(k), and it differs from query to query. It is not the number of keys.",
        ),
        Misconception(
            "one normaliser for all queries", one_normaliser,
            "The weights of each query must sum to 1: every row has its own normaliser, φ(qᵢ) · Σ φ(k).",
        ),
        Misconception(
            "no feature map on the keys", lambda q, k, v: _ratio(_phi(q), k, v),
            "Without φ the keys have negative entries, and weights can be negative or sum to nearly 0. φ goes on the queries and the keys.",
        ),
        Misconception(
            "no feature map on the queries", lambda q, k, v: _ratio(q, _phi(k), v),
            "Without φ the queries have negative entries, and weights can be negative or sum to nearly 0. φ goes on both.",
        ),
        Misconception(
            "no feature map at all", lambda q, k, v: _ratio(q, k, v),
            "Plain dot products can be negative and their sum can be near 0, so the weights can be negative or huge. Use φ.",
        ),
        Misconception(
            "the feature map on the values too", lambda q, k, v: _ratio(_phi(q), _phi(k), _phi(v)),
            "Only the weights have to be positive. The values are mixed as they are.",
        ),
        Misconception(
            "elu without the 1", lambda q, k, v: _ratio(F.elu(q), F.elu(k), v),
            "elu alone goes down to −1. The 1 lifts it above 0, so that all weights are positive.",
        ),
        Misconception(
            "softmax attention", lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v,
            "That is full attention: its exponential couples every query with every key, and the brackets can't be moved.",
        ),
        Misconception(
            "a softmax on queries and keys", softmax_features,
            "That is a kind of linear attention too (Shen et al., 2021), but here the features are φ = elu + 1, with a normaliser.",
        ),
        Misconception(
            "divided by √d before the feature map",
            lambda q, k, v: _ratio(_phi(_scaled(q)), _phi(_scaled(k)), v), SCALE_HINT,
        ),
        Misconception(
            "the queries divided by √d before the feature map", lambda q, k, v: _ratio(_phi(_scaled(q)), _phi(k), v), SCALE_HINT
        ),
        Misconception("a small number added to the normaliser", with_a_small_number, EPSILON_HINT, _number_added(_parts)),
        Misconception("a lower limit for the normaliser", with_a_smallest_normaliser, SMALLEST_HINT),
        Misconception(
            "the normaliser's axis counted from the front", normaliser_axis_from_the_front,
            "The normaliser is one number for each row, (…, n, 1). `unsqueeze(1)` puts the new axis last only without a batch, `unsqueeze(-1)` always.",
            raises="RuntimeError",
        ),
        in_single_precision(reference.linear_attention),
        written_for_one_batch_axis(reference.linear_attention),
        written_without_a_batch(reference.linear_attention),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- as a recurrence


def _cumulated(q, k, v, shift=0) -> tuple[Tensor, Tensor]:
    """States and normalisers after every token (shift = 1: before it), all at once."""
    states = (k[..., :, None] * v[..., None, :]).cumsum(-3)
    totals = k.cumsum(-2)
    if shift:
        states, totals = (
            torch.cat([torch.zeros_like(x[..., :1, :]), x[..., :-1, :]], dim=-2) for x in (states.flatten(-2), totals)
        )
        states = states.unflatten(-1, (k.shape[-1], v.shape[-1]))
    return states, totals


def _read(q, states, totals) -> Tensor:
    return (q[..., None, :] @ states).squeeze(-2) / (q * totals).sum(-1, keepdim=True)


def updated_after_reading(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return _read(q, *_cumulated(q, k, v, shift=1))


def recurrent_without_normaliser(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return (q[..., None, :] @ _cumulated(q, k, v)[0]).squeeze(-2)


def normaliser_of_one_token(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return _read(q, _cumulated(q, k, v)[0], k)


def normaliser_of_all_tokens(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return _read(q, _cumulated(q, k, v)[0], k.sum(-2, keepdim=True))


def divided_by_time(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    time = torch.arange(1, q.shape[-2] + 1)[:, None]
    return (q[..., None, :] @ _cumulated(q, k, v)[0]).squeeze(-2) / time


def one_state_for_the_batch(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    states, totals = _cumulated(q, k, v)
    axes = tuple(range(k.dim() - 2))
    if axes:
        states, totals = states.sum(axes, keepdim=True), totals.sum(axes, keepdim=True)
    return _read(q, states, totals)


def state_overwritten(q, k, v) -> Tensor:
    return v.clone()  # φ(q)·φ(k_t) v_t / φ(q)·φ(k_t): the token reads itself alone


def state_backwards(q, k, v) -> Tensor:
    q, k = _phi(q), _phi(k)
    return _masked(q.flip(-2), k.flip(-2), v.flip(-2)).flip(-2)


def recurrent_raw_keys(q, k, v) -> Tensor:
    return _read(_phi(q), *_cumulated(q, k, v))


def recurrent_raw_queries(q, k, v) -> Tensor:
    return _read(q, *_cumulated(q, _phi(k), v))


def _causal_parts(q, k, v) -> tuple[Tensor, Tensor]:
    q, k = _phi(q), _phi(k)
    states, totals = _cumulated(q, k, v)
    return (q[..., None, :] @ states).squeeze(-2), (q * totals).sum(-1, keepdim=True)


def recurrent_with_a_small_number(q, k, v) -> Tensor:
    above, below = _causal_parts(q, k, v)
    return above / (below + 1e-6)


def recurrent_with_a_smallest_normaliser(q, k, v) -> Tensor:
    above, below = _causal_parts(q, k, v)
    return above / below.clamp_min(1e-6)


def state_changed_in_place(q, k, v) -> Tensor:
    q, k, outputs = _phi(q), _phi(k), []
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], 1, k.shape[-1])
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        state += k_t.mT @ v_t
        total += k_t
        outputs.append(q_t @ state / (q_t * total).sum(-1, keepdim=True))
    return torch.cat(outputs, dim=-2)


def square_state(q, k, v) -> Tensor:
    k = _phi(k)
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], k.shape[-1])
    return _read(_phi(q), state + k[..., :1, :].mT @ v[..., :1, :], k)


CUT_OFF_HINT = "Keys and values get gradients from the later tokens that read the state. `detach()` (or `no_grad`, `.data`) stops them. Leave it out."
SQUARE_HINT = (
    "The state sums up φ(k)ᵀ v, a column of d times a row of d_v: it has the shape (…, d, d_v), and d_v need not be d."
)


def state_cut_off(q, k, v) -> Tensor:
    """No gradient goes through the sums."""
    return chunk_state_cut_off(q, k, v, 1)


def past_anew(q, k, v) -> Tensor:
    q, k, rows = _phi(q), _phi(k), []
    for t in range(q.shape[-2]):
        past = k[..., : t + 1, :]
        q_t = q[..., t : t + 1, :]
        rows.append(q_t @ (past.mT @ v[..., : t + 1, :]) / (q_t * past.sum(-2, keepdim=True)).sum(-1, keepdim=True))
    return torch.cat(rows, dim=-2)


def _sums_anew(seen: Observation) -> bool:
    q, _, v = seen.args
    (n, d), d_v = q.shape[-2:], v.shape[-1]
    again = n * (n + 1) * d * d_v
    return not square_made(seen) and again <= seen.flops <= again + 4 * n * d * (d_v + 1)


def long_causal(n: int, d: int, d_v: int, **sizes) -> Case:
    return random_case(f"n = {n}: counted, O(n d²)", n=n, d=d, d_v=d_v, max_flops=2 * 2 * 2 * n * d * (d_v + 1),
                 max_elements=2 * n * (d + 1) * (d_v + 1), **sizes)  # fmt: skip


recurrent_linear_attention = Check(
    reference=reference.recurrent_linear_attention,
    cases=[
        random_case(n=5, d=4, d_v=3),
        random_case(batch=(2, 3), n=7, d=3, d_v=5, dtype=torch.float64, gradient=True, label="batch = 2×3, n = 7: gradients, in float64"),
        random_case(n=6, d=5, d_v=2, scale=3.0, label="large inputs"), long_causal(300, 4, 3), long_causal(260, 3, 6),
        random_case(n=1, d=3, d_v=2, label="one token"), far_below_zero(6, 6, 3, 5),
    ],
    misconceptions=[
        Misconception(
            "causal by masking a full n × n matrix", lambda q, k, v: _masked(_phi(q), _phi(k), v),
            "That makes n² weights. Go through the tokens one by one and keep a state of d × d_v instead.",
            cost=square_made,
        ),
        Misconception(
            "the past summed up again at every token", past_anew,
            "The state of token t is the state of token t − 1 and one term more. Keep it, and add: then every token costs the same.",
            cost=_sums_anew,
        ),
        Misconception(
            "quadratic attention, piece by piece", lambda q, k, v: _by_rows(_phi(q), _phi(k), v, causal=True),
            "You never store an n × n matrix, but each query still meets the keys one by one. The state already holds their sum; each token adds one term "
            "to it.",
            cost=all_pairs_scored,
        ),
        Misconception(
            "the normaliser of all tokens", normaliser_of_all_tokens,
            "Your normaliser is the sum over *all* keys, the later ones too. Both sums, the state and the normaliser, must end at token t. (If you append z "
            "to a list and then write `z += …`, all entries of the list change.)",
        ),
        Misconception(
            "not causal: a full sum for every token", lambda q, k, v: _ratio(_phi(q), _phi(k), v),
            "Token t may read tokens 0 … t. A sum over the whole sequence lets it read the future.",
        ),
        Misconception(
            "state updated after reading", updated_after_reading,
            "Token t reads itself too. Add φ(kₜ)ᵀ vₜ to the state first and read it then. (In yours the first token has nothing to read: 0/0 = NaN.)",
        ),
        Misconception(
            "the normaliser forgotten", recurrent_without_normaliser,
            "The weights φ(qₜ)·φ(kₛ) don't sum to 1. Carry Σ φ(kₛ) along beside the state and divide by φ(qₜ) · Σ φ(kₛ).",
        ),
        Misconception(
            "a normaliser of one token", normaliser_of_one_token,
            "The state has summed up all tokens so far, so the normaliser has to sum up their keys: carry it along too.",
        ),
        Misconception(
            "divided by the number of tokens so far", divided_by_time,
            "The sum of the weights is φ(qₜ) · Σ φ(kₛ), not t + 1: the weights aren't 1 each.",
        ),
        Misconception(
            "state overwritten instead of added to", state_overwritten,
            "Your state holds only the newest token, so every token reads only itself. The state is a running *sum*.",
        ),
        Misconception(
            "the sequence read backwards", state_backwards,
            "Your state starts at the last token, so each token reads itself and the future.",
        ),
        Misconception(
            "one state for the whole batch", one_state_for_the_batch,
            "Each sequence needs its own state: it has the batch axes too, (…, d, d_v).",
        ),
        Misconception(
            "no feature map on the keys", recurrent_raw_keys,
            "Without φ on the keys the weights can be negative, and the normaliser can pass through 0.",
        ),
        Misconception(
            "no feature map on the queries", recurrent_raw_queries,
            "Without φ on the queries the weights can be negative, and the normaliser can pass through 0.",
        ),
        Misconception(
            "divided by √d before the feature map",
            lambda q, k, v: _masked(_phi(_scaled(q)), _phi(_scaled(k)), v), SCALE_HINT,
        ),
        Misconception(
            "the queries divided by √d before the feature map", lambda q, k, v: _masked(_phi(_scaled(q)), _phi(k), v), SCALE_HINT
        ),
        Misconception("a small number added to the normaliser", recurrent_with_a_small_number, EPSILON_HINT, _number_added(_causal_parts)),
        Misconception("a lower limit for the normaliser", recurrent_with_a_smallest_normaliser, SMALLEST_HINT),
        Misconception("the state cut off from its gradients", state_cut_off, CUT_OFF_HINT),
        changed_in_place(state_changed_in_place),
        Misconception("a state of d × d", square_state, SQUARE_HINT, raises="RuntimeError"),
        in_single_precision(reference.recurrent_linear_attention),
        written_for_one_batch_axis(reference.recurrent_linear_attention),
        written_without_a_batch(reference.recurrent_linear_attention),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ in chunks


def _chunk_mask(n, c, kind) -> Tensor:
    """Which pairs a slip in the chunked form leaves: `i` reads `j`."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    same, past = i // c == j // c, i // c > j // c
    return {
        "boundary": same & (j <= i), "inside": same | past, "past": past, "strict": past | (same & (j < i)),
        "last": ((i // c - j // c == 1) | same) & (j <= i), "two": past | (i // c == j // c), "right": j <= i,
    }[kind]  # fmt: skip


def _chunked_as(q, k, v, c, kind, total="", twice=False) -> Tensor:
    n = q.shape[-2]
    pairs = _chunk_mask(n, c, kind).to(q)
    if twice:
        pairs = pairs + _chunk_mask(n, c, "right").to(q) * (torch.arange(n)[:, None] // c == torch.arange(n) // c)
    scores = _phi(q) @ _phi(k).mT
    weights = scores * pairs
    below = (scores * _chunk_mask(n, c, total).to(q)) if total else weights
    return weights @ v / below.sum(-1, keepdim=True)


def chunked_without_normaliser(q, k, v, c) -> Tensor:
    return (_phi(q) @ _phi(k).mT).tril() @ v


def last_chunk_lost(q, k, v, c) -> Tensor:
    whole = (torch.arange(q.shape[-2]) < q.shape[-2] // c * c)[:, None]
    return _masked(_phi(q), _phi(k), v) * whole


def whole_chunks_joined(q, k, v, c) -> Tensor:
    right = _masked(_phi(q), _phi(k), v)
    return torch.cat([right[..., chunk * c : (chunk + 1) * c, :] for chunk in range(q.shape[-2] // c)], dim=-2)


def _in_chunks(q, k, v, c, mask: Callable = torch.tril, carried: Callable = torch.add) -> Tensor:
    """mask: what cuts the scores of a chunk to a triangle. carried: (a sum, the chunk's own) → the sum that the next chunk reads."""
    q, k, outputs = _phi(q), _phi(k), []
    state, total = torch.zeros_like(k[..., :1, :].mT @ v[..., :1, :]), torch.zeros_like(k[..., :1, :])
    for q_c, k_c, v_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2)):
        inside = mask(q_c @ k_c.mT)
        outputs.append((q_c @ state + inside @ v_c) / (q_c @ total.mT + inside.sum(-1, keepdim=True)))
        state, total = carried(state, k_c.mT @ v_c), carried(total, k_c.sum(-2, keepdim=True))
    return torch.cat(outputs, dim=-2)


def fixed_triangle(q, k, v, c) -> Tensor:
    triangle = torch.ones(c, c, dtype=q.dtype).tril()
    return _in_chunks(q, k, v, c, mask=lambda scores: scores * triangle)


def sums_rolled_round(q, k, v, c) -> Tensor:
    n, scores = q.shape[-2], _phi(q) @ _phi(k).mT
    first = (torch.arange(n) < c)[:, None]
    weights = scores * (_chunk_mask(n, c, "right").to(q) + first.to(q))
    return weights @ v / weights.sum(-1, keepdim=True)


def _padded(q, k, v, c, before: Callable) -> tuple[Tensor, Tensor]:
    """Above and below the fraction bar, all chunks at once, (…, chunks, c, ·). before: of the chunks' sums those of what stands before each."""
    q, k, v = (F.pad(x, (0, 0, 0, -x.shape[-2] % c)).unflatten(-2, (-1, c)) for x in (_phi(q), _phi(k), v))
    inside, own, total = (q @ k.mT).tril(), k.mT @ v, k.sum(-2, keepdim=True)
    return inside @ v + q @ before(own), inside.sum(-1, keepdim=True) + q @ before(total).mT


def _cut(x, n: int) -> Tensor:
    """The first n rows, without what was filled up."""
    return x.flatten(-3, -2)[..., :n, :]


def own_sum_taken_off(q, k, v, c) -> Tensor:
    above, below = _padded(q, k, v, c, lambda own: own.cumsum(-3) - own)
    return _cut(above, q.shape[-2]) / _cut(below, q.shape[-2])


def filled_rows_divided(q, k, v, c) -> Tensor:
    """Right values; but rows that fill up the last chunk are 0/0 before they are cut off, and so are gradients."""

    def before(own):
        return torch.cat([torch.zeros_like(own[..., :1, :, :]), own.cumsum(-3)[..., :-1, :, :]], dim=-3)

    above, below = _padded(q, k, v, c, before)
    return _cut(above / below, q.shape[-2])


def chunk_state_cut_off(q, k, v, c) -> Tensor:
    """No gradient goes through the sums."""
    return _in_chunks(q, k, v, c, carried=lambda old, new: (old + new).detach())


def chunk_state_changed_in_place(q, k, v, c) -> Tensor:
    q, k, outputs = _phi(q), _phi(k), []
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    total = k.new_zeros(*k.shape[:-2], 1, k.shape[-1])
    for q_c, k_c, v_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2)):
        inside = (q_c @ k_c.mT).tril()
        below = (q_c * total).sum(-1, keepdim=True) + inside.sum(-1, keepdim=True)
        outputs.append((q_c @ state + inside @ v_c) / below)
        state += k_c.mT @ v_c
        total += k_c.sum(-2, keepdim=True)
    return torch.cat(outputs, dim=-2)


def _two_fractions(q, k, v, c, parts) -> Tensor:
    """State and triangle with a normaliser each; they are added, and from the second chunk on divided by `parts`."""
    scores, n = _phi(q) @ _phi(k).mT, q.shape[-2]
    inside, past = (scores * _chunk_mask(n, c, kind).to(q) for kind in ("boundary", "past"))
    later = (torch.arange(n) >= c)[:, None]
    near = inside @ v / inside.sum(-1, keepdim=True)
    far = past @ v / past.sum(-1, keepdim=True).where(later, torch.ones((), dtype=q.dtype))
    return torch.where(later, (near + far) / parts, near)


def past_anew_at_every_chunk(q, k, v, c) -> Tensor:
    q, k, outputs = _phi(q), _phi(k), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        past, inside = k[..., :start, :], (q_c @ k_c.mT).tril()
        below = (q_c * past.sum(-2, keepdim=True)).sum(-1, keepdim=True) + inside.sum(-1, keepdim=True)
        outputs.append((q_c @ (past.mT @ v[..., :start, :]) + inside @ v_c) / below)
    return torch.cat(outputs, dim=-2)


def _chunks_anew(seen: Observation) -> bool:
    q, _, v, c = seen.args
    again = q.numel() * q.shape[-2] * v.shape[-1] // c  # n²/2c multiply-adds for every entry of the state
    return not square_made(seen) and 0.9 * again <= seen.flops < 1.5 * again


def token_after_token(q, k, v, c) -> Tensor:
    q, k = _phi(q), _phi(k)
    state, total, outputs = 0, 0, []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = q[..., t : t + 1, :], k[..., t : t + 1, :], v[..., t : t + 1, :]
        state, total = state + k_t.mT @ v_t, total + k_t
        outputs.append(q_t @ state / (q_t * total).sum(-1, keepdim=True))
    return torch.cat(outputs, dim=-2)


def _token_by_token(seen: Observation) -> bool:
    long_chunks_alone = seen.args[3] >= 20  # a short chunk takes as many operations as its tokens would
    return long_chunks_alone and sum(seen.operations.values()) >= 5 * seen.args[0].shape[-2]


MOST_PER_CHUNK = 120  # operations: right answers take 20 to 70, and a loop over the 25 tokens of a chunk at least 125


def long_chunks(n: int, d: int, d_v: int, c: int) -> Case:
    return random_case(f"n = {n}, c = {c}: counted, O(n d² + n c d)", n=n, d=d, d_v=d_v, c=c, max_operations=MOST_PER_CHUNK * -(-n // c),
                 max_flops=2 * 2 * n * (2 * d * (d_v + 1) + c * (d + d_v + 1)),
                 max_elements=2 * n * max((d + 1) * (d_v + 1), c))  # fmt: skip


chunked_linear_attention = Check(
    reference=reference.chunked_linear_attention,
    cases=[
        random_case(n=8, d=4, d_v=3, c=4),
        random_case(batch=(2, 3), n=11, d=3, d_v=5, c=3, dtype=torch.float64),
        # rows that fill up the last chunk have 0/0 if they are divided, which only shows on the way back
        random_case(batch=(2,), n=7, d=3, d_v=5, c=3, dtype=torch.float64, gradient=True, label="n = 7, c = 3: gradients, in float64"),
        random_case(n=7, d=5, d_v=2, c=2, scale=2.0, label="n = 7, c = 2, large inputs"),
        random_case(n=5, d=3, d_v=4, c=9, label="a chunk longer than the sequence"),
        # most sizes of a chunk come in both dtypes: a triangle that was kept from another call has that one's
        long_chunks(608, 4, 3, 25), as_float64(long_chunks(525, 3, 6, 25)), as_float64(long_chunks(602, 8, 7, 4)), random_case(n=8, d=4, d_v=3, c=3, label="n = 8 again, now with c = 3"),
        random_case(n=5, d=3, d_v=2, c=1, label="c = 1: one token in each chunk"), far_below_zero(7, 7, 3, 5, 2),
        large_after_small(13, 3, 4, 5),
    ],
    misconceptions=[
        Misconception(
            "causal by masking a full n × n matrix", lambda q, k, v, c: _masked(_phi(q), _phi(k), v),
            "Compute scores only inside each chunk, c × c. Earlier chunks come in through the state.",
            cost=square_made,
        ),
        Misconception(
            "a loop over tokens instead of chunks", token_after_token,
            "One step for each token is the slow recurrent form again. Take one step for each chunk, with matrix products inside it.",
            cost=_token_by_token,
        ),
        Misconception(
            "the state lost at the chunk's boundary", lambda q, k, v, c: _chunked_as(q, k, v, c, "boundary"),
            "Each of your chunks starts from an empty state. Carry the state and the normaliser from chunk to chunk.",
        ),
        Misconception(
            "not causal inside a chunk", lambda q, k, v, c: _chunked_as(q, k, v, c, "inside"),
            "Inside its own chunk a token may read only the tokens up to itself: mask the c × c scores with `tril`.",
        ),
        Misconception(
            "the chunk itself left out", lambda q, k, v, c: _chunked_as(q, k, v, c, "past"),
            "Your tokens read only the earlier chunks. Add the causal attention inside the chunk. (In yours the first chunk has nothing to read: 0/0 = NaN.)",
        ),
        Misconception(
            "the token itself left out", lambda q, k, v, c: _chunked_as(q, k, v, c, "strict"),
            "A token reads itself too. `tril()` keeps the diagonal, `tril(-1)` doesn't. (In yours the first token has nothing to read: 0/0 = NaN.)",
        ),
        Misconception(
            "the chunk counted twice", lambda q, k, v, c: _chunked_as(q, k, v, c, "inside", twice=True),
            "You add the chunk to the state before you read the state, and then add the chunk's own scores as well. Read the state of the earlier chunks "
            "first, then update it.",
        ),
        Misconception(
            "a state that holds only the last chunk", lambda q, k, v, c: _chunked_as(q, k, v, c, "last"),
            "The state is a running sum over *all* earlier chunks. Yours is replaced at each boundary.",
        ),
        Misconception(
            "the normaliser lost at the chunk's boundary", lambda q, k, v, c: _chunked_as(q, k, v, c, "right", total="boundary"),
            "Two sums are carried from chunk to chunk: Σ φ(k)ᵀ v and Σ φ(k). You carry only the first.",
        ),
        Misconception(
            "the chunk missing in the normaliser", lambda q, k, v, c: _chunked_as(q, k, v, c, "right", total="past"),
            "The weights inside the chunk have to be in the normaliser as well: add the row sums of the triangle. (In the first chunk your normaliser is 0, "
            "so the output is ±∞.)",
        ),
        Misconception(
            "the whole chunk in the normaliser", lambda q, k, v, c: _chunked_as(q, k, v, c, "right", total="inside"),
            "Your numerator is causal, and the normaliser isn't: it holds all keys of the chunk, later ones too. Read the sum of the keys before "
            "you add the chunk to it, and add the row sums of the triangle.",
        ),
        Misconception(
            "the chunk's own sum taken off again", own_sum_taken_off,
            "A sum that has held a large number has lost the last digits of the small ones, and subtracting the large one doesn't bring them back: "
            "the larger it was, the more is lost. Shift the running sums by one chunk, with zeros in front.",
        ),
        Misconception(
            "rows that fill up the last chunk divided too", filled_rows_divided,
            "The rows of zeros that fill up the last chunk are 0/0 = NaN. You cut them off after the division, and the backward pass brings NaN back "
            "from them. Cut numerator and normaliser to n rows first, then divide.",
        ),
        Misconception("the state cut off from its gradients", chunk_state_cut_off, CUT_OFF_HINT),
        Misconception(
            "the normaliser forgotten", chunked_without_normaliser,
            "Divide by the sum of all weights of a row: those that went through the state and those inside the chunk.",
        ),
        Misconception(
            "the last short chunk left at 0", last_chunk_lost,
            "n need not be a multiple of c. In yours the rows of the last, shorter chunk stay 0. `split(c)` gives that chunk too.",
        ),
        Misconception(
            "not causal at all", lambda q, k, v, c: _ratio(_phi(q), _phi(k), v),
            "Token t may read tokens 0 … t. A sum over the whole sequence lets it read the future.",
        ),
        Misconception(
            "the past summed up again at every chunk", past_anew_at_every_chunk,
            "You sum up all earlier tokens again for every chunk, and that grows as n²/c. Keep the state from chunk to chunk, and add the chunk's own sum "
            "to it.",
            cost=_chunks_anew,
        ),
        Misconception(
            "the last short chunk dropped", lambda q, k, v, c: _masked(_phi(q), _phi(k), v)[..., : max(q.shape[-2] // c, 1) * c, :],
            "n need not be a multiple of c, and `n // c` rounds down: the tokens of the last, shorter chunk get no output, so the last rows are missing. "
            "`split(c)` gives that chunk too.",
        ),
        Misconception(
            "chunks counted by rounding down, even to none", whole_chunks_joined,
            "`n // c` rounds down: the last rows are missing where the last chunk is shorter, and where c is larger than n there is no chunk at all.",
            raises="ValueError",
        ),
        Misconception(
            "a triangle of fixed size", fixed_triangle,
            "The last chunk can be shorter than c. Then its triangle must be smaller too: `torch.tril` of the scores themselves always fits.",
            raises="RuntimeError",
        ),
        Misconception(
            "state and triangle normalised separately, then added", lambda q, k, v, c: _two_fractions(q, k, v, c, 1),
            "Each fraction has weights that sum to 1, so together they sum to 2. Add the two numerators, add the two denominators, then divide once.",
        ),
        Misconception(
            "state and triangle normalised separately, then averaged", lambda q, k, v, c: _two_fractions(q, k, v, c, 2),
            "The past and the chunk don't weigh the same. Add the two numerators, add the two denominators, then divide once.",
        ),
        Misconception(
            "divided by √d before the feature map",
            lambda q, k, v, c: _masked(_phi(_scaled(q)), _phi(_scaled(k)), v), SCALE_HINT,
        ),
        Misconception(
            "the queries divided by √d before the feature map", lambda q, k, v, c: _masked(_phi(_scaled(q)), _phi(k), v), SCALE_HINT
        ),
        Misconception(
            "a small number added to the normaliser", lambda q, k, v, c: recurrent_with_a_small_number(q, k, v), EPSILON_HINT,
            _number_added(_causal_parts),
        ),
        Misconception(
            "the sum of all chunks in front of the first", sums_rolled_round,
            "Before the first chunk there is nothing, so its state and its normaliser begin at 0. `roll` brings the last running sum round to the front: "
            "the first tokens read the whole text. Put zeros there.",
        ),
        changed_in_place(chunk_state_changed_in_place),
        Misconception("a state of d × d", lambda q, k, v, c: square_state(q, k, v), SQUARE_HINT, raises="RuntimeError"),
        in_single_precision(reference.chunked_linear_attention),
        written_for_one_batch_axis(reference.chunked_linear_attention),
        written_without_a_batch(reference.chunked_linear_attention),
    ],
)  # fmt: skip

linear_attention = CheckGroup("linear_attention", _all_at_once, recurrent_linear_attention, chunked_linear_attention)
