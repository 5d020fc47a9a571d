"""Checks of linear attention in its three forms. The work is counted: the n × m matrix made first is found."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import (
    in_single_precision,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

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


def _scaled(q) -> Tensor:
    return q / math.sqrt(q.shape[-1])


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
    return random_case(
        f"n = {n}, m = {m}: counted, O((n + m) d²)",
        n=n,
        m=m,
        d=d,
        d_v=d_v,
        max_flops=2 * 2 * (n + m) * d * (d_v + 1),
        max_elements=2 * max(n, m) * (d + 1) * (d_v + 1),
    )


_all_at_once = Check(
    reference=reference.linear_attention,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3),
        random_case(
            batch=(2, 3),
            n=4,
            m=6,
            d=3,
            d_v=5,
            dtype=torch.float64,
            gradient=True,
            label="batch = 2×3, n = 4, m = 6: gradients, in float64",
        ),
        random_case(n=4, m=5, d=6, d_v=2, scale=3.0, label="large inputs"),
        long_sequences(300, 350, 4, 3),
        long_sequences(280, 240, 3, 6),
        far_below_zero(4, 6, 3, 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference.linear_attention),
        written_for_one_batch_axis(reference.linear_attention),
        written_without_a_batch(reference.linear_attention),
        n_m_matrix_normaliser=Wrong(square_for_the_normaliser, cost=_square_for_the_normaliser_alone),
        n_m_matrix_made_first=Wrong(
            lambda q, k, v: (_phi(q) @ _phi(k).mT @ v) / (_phi(q) @ _phi(k).mT).sum(-1, keepdim=True), cost=square_made
        ),
        quadratic_attention_piece_by_piece=Wrong(lambda q, k, v: _by_rows(_phi(q), _phi(k), v), cost=all_pairs_scored),
        normaliser_forgotten=lambda q, k, v: _phi(q) @ (_phi(k).mT @ v),
        divided_by_number_keys=lambda q, k, v: _phi(q) @ (_phi(k).mT @ v) / k.shape[-2],
        one_normaliser_all_queries=one_normaliser,
        no_feature_map_on_keys=lambda q, k, v: _ratio(_phi(q), k, v),
        no_feature_map_on_queries=lambda q, k, v: _ratio(q, _phi(k), v),
        no_feature_map_at_all=lambda q, k, v: _ratio(q, k, v),
        feature_map_on_values_too=lambda q, k, v: _ratio(_phi(q), _phi(k), _phi(v)),
        elu_without_1=lambda q, k, v: _ratio(F.elu(q), F.elu(k), v),
        softmax_attention=lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v,
        softmax_on_queries_keys=softmax_features,
        divided_by_root_d_before_feature_map=lambda q, k, v: _ratio(_phi(_scaled(q)), _phi(_scaled(k)), v),
        queries_divided_by_root_d_before=lambda q, k, v: _ratio(_phi(_scaled(q)), _phi(k), v),
        small_number_added_normaliser=Wrong(with_a_small_number, recognise=_number_added(_parts)),
        lower_limit_normaliser=with_a_smallest_normaliser,
        normalisers_axis_counted_from_front=Wrong(normaliser_axis_from_the_front, raises="RuntimeError"),
    ),
)


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
    return random_case(
        f"n = {n}: counted, O(n d²)",
        n=n,
        d=d,
        d_v=d_v,
        max_flops=2 * 2 * 2 * n * d * (d_v + 1),
        max_elements=2 * n * (d + 1) * (d_v + 1),
        **sizes,
    )


recurrent_linear_attention = Check(
    reference=reference.recurrent_linear_attention,
    cases=[
        random_case(n=5, d=4, d_v=3),
        random_case(
            batch=(2, 3),
            n=7,
            d=3,
            d_v=5,
            dtype=torch.float64,
            gradient=True,
            label="batch = 2×3, n = 7: gradients, in float64",
        ),
        random_case(n=6, d=5, d_v=2, scale=3.0, label="large inputs"),
        long_causal(300, 4, 3),
        long_causal(260, 3, 6),
        random_case(n=1, d=3, d_v=2, label="one token"),
        far_below_zero(6, 6, 3, 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(state_changed_in_place),
        in_single_precision(reference.recurrent_linear_attention),
        written_for_one_batch_axis(reference.recurrent_linear_attention),
        written_without_a_batch(reference.recurrent_linear_attention),
        causal_by_masking_full_n_n_matrix=Wrong(lambda q, k, v: _masked(_phi(q), _phi(k), v), cost=square_made),
        past_summed_up_again_at_every_token=Wrong(past_anew, cost=_sums_anew),
        quadratic_attention_piece_by_piece_2=Wrong(
            lambda q, k, v: _by_rows(_phi(q), _phi(k), v, causal=True), cost=all_pairs_scored
        ),
        normaliser_all_tokens=normaliser_of_all_tokens,
        not_causal_full_sum_every_token=lambda q, k, v: _ratio(_phi(q), _phi(k), v),
        state_updated_after_reading=updated_after_reading,
        normaliser_forgotten_2=recurrent_without_normaliser,
        normaliser_one_token=normaliser_of_one_token,
        divided_by_number_tokens_so_far=divided_by_time,
        state_overwritten_instead_added=state_overwritten,
        sequence_read_backwards=state_backwards,
        one_state_whole_batch=one_state_for_the_batch,
        no_feature_map_on_keys_2=recurrent_raw_keys,
        no_feature_map_on_queries_2=recurrent_raw_queries,
        divided_by_root_d_before_feature_map=lambda q, k, v: _masked(_phi(_scaled(q)), _phi(_scaled(k)), v),
        queries_divided_by_root_d_before=lambda q, k, v: _masked(_phi(_scaled(q)), _phi(k), v),
        small_number_added_normaliser=Wrong(recurrent_with_a_small_number, recognise=_number_added(_causal_parts)),
        lower_limit_normaliser=recurrent_with_a_smallest_normaliser,
        state_cut_off_from_gradients=state_cut_off,
        state_d_d=Wrong(square_state, raises="RuntimeError"),
    ),
)


def _chunk_mask(n, c, kind) -> Tensor:
    """Which pairs a slip in the chunked form leaves: `i` reads `j`."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    same, past = i // c == j // c, i // c > j // c
    return {
        "boundary": same & (j <= i),
        "inside": same | past,
        "past": past,
        "strict": past | (same & (j < i)),
        "last": ((i // c - j // c == 1) | same) & (j <= i),
        "two": past | (i // c == j // c),
        "right": j <= i,
    }[kind]


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
    return random_case(
        f"n = {n}, c = {c}: counted, O(n d² + n c d)",
        n=n,
        d=d,
        d_v=d_v,
        c=c,
        max_operations=MOST_PER_CHUNK * -(-n // c),
        max_flops=2 * 2 * n * (2 * d * (d_v + 1) + c * (d + d_v + 1)),
        max_elements=2 * n * max((d + 1) * (d_v + 1), c),
    )


chunked_linear_attention = Check(
    reference=reference.chunked_linear_attention,
    cases=[
        random_case(n=8, d=4, d_v=3, c=4),
        random_case(batch=(2, 3), n=11, d=3, d_v=5, c=3, dtype=torch.float64),
        # rows that fill up the last chunk have 0/0 if they are divided, which only shows on the way back
        random_case(
            batch=(2,),
            n=7,
            d=3,
            d_v=5,
            c=3,
            dtype=torch.float64,
            gradient=True,
            label="n = 7, c = 3: gradients, in float64",
        ),
        random_case(n=7, d=5, d_v=2, c=2, scale=2.0, label="n = 7, c = 2, large inputs"),
        random_case(n=5, d=3, d_v=4, c=9, label="a chunk longer than the sequence"),
        # most sizes of a chunk come in both dtypes: a triangle that was kept from another call has that one's
        long_chunks(608, 4, 3, 25),
        as_float64(long_chunks(525, 3, 6, 25)),
        as_float64(long_chunks(602, 8, 7, 4)),
        random_case(n=8, d=4, d_v=3, c=3, label="n = 8 again, now with c = 3"),
        random_case(n=5, d=3, d_v=2, c=1, label="c = 1: one token in each chunk"),
        far_below_zero(7, 7, 3, 5, 2),
        large_after_small(13, 3, 4, 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(chunk_state_changed_in_place),
        in_single_precision(reference.chunked_linear_attention),
        written_for_one_batch_axis(reference.chunked_linear_attention),
        written_without_a_batch(reference.chunked_linear_attention),
        causal_by_masking_full_n_n_matrix_2=Wrong(lambda q, k, v, c: _masked(_phi(q), _phi(k), v), cost=square_made),
        loop_over_tokens_instead_chunks=Wrong(token_after_token, cost=_token_by_token),
        state_lost_at_chunks_boundary=lambda q, k, v, c: _chunked_as(q, k, v, c, "boundary"),
        not_causal_inside_chunk=lambda q, k, v, c: _chunked_as(q, k, v, c, "inside"),
        chunk_itself_left_out=lambda q, k, v, c: _chunked_as(q, k, v, c, "past"),
        token_itself_left_out=lambda q, k, v, c: _chunked_as(q, k, v, c, "strict"),
        chunk_counted_twice=lambda q, k, v, c: _chunked_as(q, k, v, c, "inside", twice=True),
        state_that_holds_only_last_chunk=lambda q, k, v, c: _chunked_as(q, k, v, c, "last"),
        normaliser_lost_at_chunks_boundary=lambda q, k, v, c: _chunked_as(q, k, v, c, "right", total="boundary"),
        chunk_missing_normaliser=lambda q, k, v, c: _chunked_as(q, k, v, c, "right", total="past"),
        whole_chunk_normaliser=lambda q, k, v, c: _chunked_as(q, k, v, c, "right", total="inside"),
        chunks_own_sum_taken_off_again=own_sum_taken_off,
        rows_that_fill_up_last_chunk_divided=filled_rows_divided,
        state_cut_off_from_gradients=chunk_state_cut_off,
        normaliser_forgotten_3=chunked_without_normaliser,
        last_short_chunk_left_at_0=last_chunk_lost,
        not_causal_at_all=lambda q, k, v, c: _ratio(_phi(q), _phi(k), v),
        past_summed_up_again_at_every_chunk=Wrong(past_anew_at_every_chunk, cost=_chunks_anew),
        last_short_chunk_dropped=lambda q, k, v, c: _masked(_phi(q), _phi(k), v)[
            ..., : max(q.shape[-2] // c, 1) * c, :
        ],
        chunks_counted_by_rounding_down_even=Wrong(whole_chunks_joined, raises="ValueError"),
        triangle_fixed_size=Wrong(fixed_triangle, raises="RuntimeError"),
        state_triangle_normalised_separately=lambda q, k, v, c: _two_fractions(q, k, v, c, 1),
        state_triangle_normalised_separately_2=lambda q, k, v, c: _two_fractions(q, k, v, c, 2),
        divided_by_root_d_before_feature_map=lambda q, k, v, c: _masked(_phi(_scaled(q)), _phi(_scaled(k)), v),
        queries_divided_by_root_d_before=lambda q, k, v, c: _masked(_phi(_scaled(q)), _phi(k), v),
        small_number_added_normaliser=Wrong(
            lambda q, k, v, c: recurrent_with_a_small_number(q, k, v), recognise=_number_added(_causal_parts)
        ),
        sum_all_chunks_front_first=sums_rolled_round,
        state_d_d=Wrong(lambda q, k, v, c: square_state(q, k, v), raises="RuntimeError"),
    ),
)

linear_attention = CheckGroup("linear_attention", _all_at_once, recurrent_linear_attention, chunked_linear_attention)
