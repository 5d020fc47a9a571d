"""decayed_attention: out_t = q_t S_t with S_t = γ_t S_{t−1} + k_tᵀ v_t, token by token and in chunks."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check, CheckGroup
from helpers.engine.observe import MATRIX_PRODUCTS, Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import decayed_attention as reference
from .decay import IN_BOTH_FORMS, OTHER_WORDS_IN_CHUNKS, Decay, all_left, decayed, left_of
from .recurrence import (
    IN_THEIR_DTYPE,
    MOST_PER_CHUNK,
    State,
    Walk,
    backwards,
    changed_in_place,
    chunks,
    chunks_anew,
    in_another_dtype,
    last_chunk_dropped,
    last_chunk_left_at_0,
    limits_of_chunks,
    limits_of_tokens,
    outer,
    sums_anew,
    token_by_token,
    walk,
    whole_chunks_joined,
)
from .sparse import all_pairs_scored, ready_made, square_made

__all__ = ["decayed_attention"]

recurrent, chunked = reference.recurrent_decayed_attention, reference.chunked_decayed_attention

# ---------------------------------------------------------------------------------------------------------------- cases


def factors(*shape: int, low: float = 0.3, high: float = 1.0, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Decays between low and high."""
    return RandomArg(lambda generator: (low + (high - low) * torch.rand(shape, generator=generator)).to(dtype))


def resets(*shape: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Decays of 1, and here and there one that wipes the state."""

    def draw(generator: Generator) -> Tensor:
        wiped = torch.rand(shape, generator=generator) < 0.3
        return torch.where(wiped, torch.tensor(1e-9, dtype=torch.float64), 1.0).to(dtype)

    return RandomArg(draw)


def decaying(
    label, n, d, d_v, *c, batch=(), gamma=factors, scale=1.0, dtype=torch.float32, limits=None, **range_
) -> Case:
    """A case; `c` is the size of a chunk where there is one, `range_` the range of the decays."""
    q, k, v = (normal(*batch, n, width, scale=scale, dtype=dtype) for width in (d, d, d_v))
    return explicit_case(label, q, k, v, gamma(*batch, n, dtype=dtype, **range_), *c, **(limits or {}))


def forgotten_before(n: int, d: int, d_v: int, c: int) -> Case:
    """Only the last chunk remembers. Sums of logarithms over the whole text are so large there that float32 has lost
    their decimals."""

    def draw(generator: Generator) -> Tensor:
        remembers = torch.arange(n) >= n - c
        return torch.where(remembers, 0.6 + 0.4 * torch.rand(n, generator=generator), 1e-15)

    q, k, v = (normal(n, width) for width in (d, d, d_v))
    return explicit_case(f"n = {n}, c = {c}, γ of 10⁻¹⁵ up to the last chunk", q, k, v, RandomArg(draw), c)


def long_decaying(n: int, d: int, d_v: int, low: float = 0.6) -> Case:
    label = f"n = {n}: counted, O(n d²), in float64"
    return decaying(label, n, d, d_v, low=low, dtype=torch.float64, limits=limits_of_tokens(n, d, d_v))


def long_decaying_chunks(n: int, d: int, d_v: int, c: int, low: float = 0.6) -> Case:
    label = f"n = {n}, c = {c}: counted, O(n d² + n c d), in float64"
    return decaying(label, n, d, d_v, c, low=low, dtype=torch.float64, limits=limits_of_chunks(n, d, d_v, c))


# ------------------------------------------------------------------------------------------------------- token by token


@dataclass(frozen=True)
class Fading(Walk):
    faded: Callable = lambda state, gamma: gamma * state


@composable
def fading(**changed: Callable) -> Callable:
    steps = Fading(**changed)
    return lambda q, k, v, gamma, *c: walk(steps, q, k, v, gamma)


def _left_of_all(gamma: Tensor, t: int) -> Tensor:
    """Row t of the mask, and no more of it, as a column (…, t + 1, 1)."""
    total = gamma.log().cumsum(-1)
    return (total[..., t : t + 1] - total[..., : t + 1]).exp().unsqueeze(-1)


def by_rows(q, k, v, gamma) -> Tensor:
    rows = []
    for t in range(q.shape[-2]):
        weights = (q[..., t : t + 1, :] @ k.mT)[..., : t + 1] * _left_of_all(gamma, t).mT
        rows.append(weights @ v[..., : t + 1, :])
    return torch.cat(rows, dim=-2)


def past_anew(q, k, v, gamma) -> Tensor:
    rows = []
    for t in range(q.shape[-2]):
        state = (_left_of_all(gamma, t) * k[..., : t + 1, :]).mT @ v[..., : t + 1, :]
        rows.append(q[..., t : t + 1, :] @ state)
    return torch.cat(rows, dim=-2)


def divided_by_products(q, k, v, gamma) -> Tensor:
    """All states at once; 0/0 or 0 · ∞ where the product of the factors is smaller than any number."""
    products = gamma.cumprod(-1)[..., None, None]
    states = products * (k[..., :, None] * v[..., None, :] / products).cumsum(-3)
    return (q[..., None, :] @ states).squeeze(-2)


def _product_underflowed(seen: Observation) -> bool:
    """A mark: NaN at the last token and none at the first, where the product of all factors is 0 for a computer."""
    gamma = seen.args[3]
    tiny = gamma.cumprod(-1)[..., -1] < torch.finfo(gamma.dtype).tiny
    return bool(_nan_in(row=-1, not_in=0)(seen) and tiny.any())


def _nan_in(row: int, not_in: int) -> Callable:
    def shown(seen: Observation) -> bool:
        return bool(seen.output[..., row, :].isnan().any() and not seen.output[..., not_in, :].isnan().any())

    return shown


recurrent_decayed_attention = Check(
    reference=recurrent,
    properties=[IN_THEIR_DTYPE],
    cases=[
        decaying("n = 5, d = 4, d_v = 3", 5, 4, 3),
        decaying("two batch axes, in float64", 7, 3, 5, batch=(2, 3), dtype=torch.float64),
        decaying("γ = 1: nothing is forgotten", 6, 5, 2, low=1.0, dtype=torch.float64),
        decaying("n = 40, γ near 0", 40, 3, 4, low=1e-6, high=1e-3),
        decaying("γ = 1, here and there near 0", 9, 4, 3, gamma=resets),
        long_decaying(300, 4, 3),
        long_decaying(260, 3, 6),
        decaying("one token", 1, 3, 2),
        decaying(
            *("n = 6, a batch axis: gradients, in float64", 6, 4, 3),
            batch=(2,),
            dtype=torch.float64,
            limits={"gradient": True},
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(fading(faded=lambda state, g: state.mul_(g), join=lambda old, new: old.add_(new))),
        *slips(decayed, *OTHER_WORDS_IN_CHUNKS, *IN_BOTH_FORMS),
        in_another_dtype(recurrent),
        *ready_made(recurrent),
        *slips(fading, State.overwritten, State.one_for_the_batch, State.d_by_d, State.cut_off),
        backwards(recurrent),
        all_pairs=Wrong(decayed(), cost=square_made),
        past_anew=Wrong(past_anew, cost=sums_anew),
        row_by_row=Wrong(by_rows, cost=all_pairs_scored),
        divided_by_products=Wrong(divided_by_products, recognise=_product_underflowed),
        factor_without_axes=Wrong(fading(factor=lambda gamma, t: gamma[..., t]), raises="RuntimeError"),
        factor_with_one_axis=Wrong(fading(factor=lambda gamma, t: gamma[..., t, None]), raises="RuntimeError"),
    ),
)

# ------------------------------------------------------------------------------------------------------------ in chunks


@dataclass(frozen=True)
class Sums:
    """Of the logarithms of all factors up to each token, (…, n); and the first and last token of its chunk."""

    log: Tensor
    total: Tensor
    begin: Tensor  # before its chunk
    end: Tensor  # to the end of its chunk
    first: Tensor
    last: Tensor


def sums(gamma: Tensor, c: int) -> Sums:
    place, log = torch.arange(gamma.shape[-1]), gamma.double().log()  # in float64, as in `left_of`
    first, total = place // c * c, log.cumsum(-1)
    last = (first + c - 1).clamp(max=len(place) - 1)
    return Sums(log, total, (total - log)[..., first], total[..., last], first, last)


def reader(x: Tensor) -> Tensor:
    return x[..., :, None]


def writer(x: Tensor) -> Tensor:
    return x[..., None, :]


@dataclass(frozen=True)
class FourDecays:
    """Logarithms of what is left: inside a chunk; of the state, at its reader; of a key at the end of its chunk; and of
    the state from chunk to chunk."""

    inside: Callable = lambda s: reader(s.total) - writer(s.total)
    read: Callable = lambda s: s.total - s.begin
    keep: Callable = lambda s: s.end - s.total
    carry: Callable = lambda s: reader(s.begin) - writer(s.end)


@composable
def in_chunks(**changed: Callable) -> Callable:
    steps = FourDecays(**changed)

    def answer(q, k, v, gamma, c) -> Tensor:
        s = sums(gamma, c)
        across = reader(steps.read(s)) + steps.carry(s) + writer(steps.keep(s))
        left = torch.where(reader(s.first) == s.first, steps.inside(s), across)
        later = torch.ones(left.shape[-2:], dtype=torch.bool).triu(1)
        return q @ k.mT * left.masked_fill(later, -torch.inf).exp().to(gamma.dtype) @ v

    return answer


def only_at(s: Sums, places: Tensor) -> Tensor:
    """The running sum of the logarithms at these places alone."""
    return torch.where(torch.arange(len(places)) == places, s.log, 0).cumsum(-1)


def carry_without_first(s: Sums) -> Tensor:
    """Of the state's own first factors only those of chunks on its way."""
    firsts = only_at(s, s.first)
    return reader(s.begin) - writer(s.end) - reader((firsts - s.log)[..., s.first]) + writer(firsts)


def carry_by_last(s: Sums) -> Tensor:
    lasts = only_at(s, s.last)
    own = torch.where(torch.arange(len(s.last)) == s.last, s.log, 0)
    return reader(lasts - own) - writer(lasts[..., s.last])


def by_chunk(left: Callable) -> Callable:
    """left: (γ, chunk of the reader, chunk of the read) → what is left."""

    def answer(q, k, v, gamma, c) -> Tensor:
        return q @ k.mT * left(gamma, *chunks(q.shape[-2], c)) @ v

    return answer


def counted_twice(q, k, v, gamma, c) -> Tensor:
    """The chunk is in the state already when its tokens read it."""
    s, left = sums(gamma, c), left_of(gamma)
    same = reader(s.first) == s.first
    again = (reader(s.total - s.begin) + writer(s.end - s.total)).exp()
    across = torch.where(same, again, left * reader(s.end - s.begin).exp())
    return q @ k.mT * (across.to(gamma.dtype) + left * same) @ v


def factors_of_chunk(of_chunk: Callable) -> Callable:
    """of_chunk: (…, c) → the factor that all its tokens have."""

    def answer(q, k, v, gamma, c) -> Tensor:
        return decayed()(q, k, v, torch.cat([of_chunk(part).expand_as(part) for part in gamma.split(c, -1)], dim=-1))

    return answer


@dataclass(frozen=True)
class Loop:
    mask: Callable = left_of  # of a chunk's factors
    carried: Callable = lambda state: state
    faded: Callable = lambda state, factor: factor * state
    join: Callable = lambda old, new: old + new


@composable
def loop(**changed: Callable) -> Callable:
    steps = Loop(**changed)

    def answer(q, k, v, gamma, c) -> Tensor:
        state, outputs = torch.zeros_like(outer(k[..., :1, :], v[..., :1, :])), []
        for q_c, k_c, v_c, g_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.split(c, -1)):
            mask, left = steps.mask(g_c), g_c.cumprod(-1)[..., None]
            outputs.append((q_c @ k_c.mT * mask) @ v_c + left * (q_c @ state))
            own = outer(mask[..., -1, :, None] * k_c, v_c)
            state = steps.carried(steps.join(steps.faded(state, left[..., -1:, :]), own))
        return torch.cat(outputs, dim=-2)

    return answer


def fixed_triangle(q, k, v, gamma, c) -> Tensor:
    triangle = torch.ones(c, c, dtype=q.dtype).tril()
    return loop(mask=lambda g: left_of(g) * triangle)(q, k, v, gamma, c)


def quotients(g: Tensor) -> Tensor:
    """0/0 for late tokens, where the product of all factors is smaller than any number."""
    products = g.cumprod(-1)
    return (reader(products) / writer(products)).tril()


def unmasked(g: Tensor) -> Tensor:
    """Infinite where a later token is read."""
    total = g.log().cumsum(-1)
    return (reader(total) - writer(total)).exp()


def mask_row_by_row(g: Tensor) -> Tensor:
    """Each row of the mask is the row above it, faded, and a 1."""
    row, rows = torch.zeros_like(g), []
    for t, one in enumerate(torch.eye(g.shape[-1], dtype=g.dtype)):
        row = row * g[..., t : t + 1] + one
        rows.append(row)
    return torch.stack(rows, dim=-2)


def summed_over_the_text(q, k, v, gamma, c) -> Tensor:
    """Right, but for what float32 has lost of sums that begin at the first token and not at the chunk's."""
    total = F.pad(gamma.log().cumsum(-1), (1, 0))  # with what stands before token t at t
    state, outputs = 0, []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        here, before = total[..., start + 1 : start + c + 1], total[..., start : start + 1]
        later = torch.ones(here.shape[-1], here.shape[-1], dtype=torch.bool).triu(1)
        mask = (reader(here) - writer(here)).masked_fill(later, -torch.inf).exp()
        left = reader((here - before).exp())
        outputs.append((q_c @ k_c.mT * mask) @ v_c + (left * (q_c @ state) if outputs else 0))
        state = left[..., -1:, :] * state + outer(mask[..., -1, :, None] * k_c, v_c)
    return torch.cat(outputs, dim=-2)


def past_anew_at_every_chunk(q, k, v, gamma, c) -> Tensor:
    outputs = []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        g_c, state = gamma[..., start : start + c], 0
        if start:
            left = _left_of_all(gamma[..., :start], start - 1)
            state = reader(g_c.cumprod(-1)) * (q_c @ outer(left * k[..., :start, :], v[..., :start, :]))
        outputs.append(state + (q_c @ k_c.mT * left_of(g_c)) @ v_c)
    return torch.cat(outputs, dim=-2)


def _chunks_with_a_loop(seen: Observation) -> bool:
    """A mark: too many operations, but only the matrix products of chunks."""
    q, *_, c = seen.args
    count, products = -(-q.shape[-2] // c), sum(seen.operations[name] for name in MATRIX_PRODUCTS)
    return sum(seen.operations.values()) > MOST_PER_CHUNK * count and 3 * count <= products < q.shape[-2]


def lifted(lift: Callable, least: float) -> Callable:
    """Factors kept away from 0."""
    return decayed(left=lambda g: left_of(lift(g, least)))


SMALL = (1e-3, 1e-2, 1e-4, 1e-5, 1e-6, 1e-8)
LIFTED = tuple(lifted(lift, least) for least in SMALL for lift in (torch.clamp, torch.add))

chunked_decayed_attention = Check(
    reference=chunked,
    within={torch.float64: (1e-8, 1e-9)},  # the slope at γ = 0.001 is a difference of numbers a thousand times as large
    properties=[IN_THEIR_DTYPE],
    cases=[
        decaying("n = 8, c = 4", 8, 4, 3, 4),
        decaying(
            *("n = 11, c = 3, two batch axes: gradients, in float64", 11, 3, 5, 3),
            batch=(2, 3),
            dtype=torch.float64,
            limits={"gradient": True},
        ),
        decaying("n = 7, c = 2, γ = 1: nothing is forgotten", 7, 5, 2, 2, low=1.0, dtype=torch.float64),
        decaying("a chunk longer than the sequence", 5, 3, 4, 9),
        decaying("n = 12, c = 5, γ near 0", 12, 3, 4, 5, low=1e-6, high=1e-3),
        decaying(
            "n = 10, c = 4, γ = 1, here and there near 0, in float64", 10, 4, 3, 4, gamma=resets, dtype=torch.float64
        ),
        decaying("c = 1: one token in each chunk", 6, 3, 2, 1),
        long_decaying_chunks(608, 4, 3, 50),
        long_decaying_chunks(525, 3, 6, 25),
        long_decaying_chunks(602, 8, 7, 4),
        forgotten_before(630, 3, 4, 30),
        decaying(
            *("n = 130, c = 128, γ = 0.001: gradients, in float64", 130, 2, 3, 128),
            **{"low": 0.001, "high": 0.001, "dtype": torch.float64},
            limits={"gradient": True},
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(loop(faded=lambda state, g: state.mul_(g), join=lambda old, new: old.add_(new))),
        *slips(decayed, *IN_BOTH_FORMS),
        in_another_dtype(chunked),
        *ready_made(chunked),
        *slips(fading, State.d_by_d),
        *slips(loop, State.cut_off),
        backwards(chunked),
        forgotten_everywhere=decayed(**Decay.forgotten.steps),
        row_above=decayed(**Decay.read_before.steps),
        diagonal_missing=decayed(**Decay.itself_left_out.steps),
        # the price
        squares_of_chunks=Wrong(decayed(), cost=square_made),
        mask_row_by_row=Wrong(loop(mask=mask_row_by_row), cost=_chunks_with_a_loop),
        token_by_token=Wrong(lambda q, k, v, gamma, c: recurrent(q, k, v, gamma), cost=token_by_token),
        past_anew_at_every_chunk=Wrong(past_anew_at_every_chunk, cost=chunks_anew),
        # the four decays
        inside_none=in_chunks(inside=lambda s: s.total.new_zeros(())),
        inside_own_too=in_chunks(inside=lambda s: reader(s.total) - writer(s.total - s.log)),
        read_in_full=in_chunks(read=lambda s: 0 * s.total),
        read_without_own=in_chunks(read=lambda s: s.total - s.begin - s.log),
        read_without_first=in_chunks(read=lambda s: s.total - s.begin - s.log[..., s.first]),
        first_left_out=in_chunks(read=lambda s: s.total - s.begin - s.log[..., s.first], carry=carry_without_first),
        read_by_whole_chunk=in_chunks(read=lambda s: s.end - s.begin),
        read_after_fading=in_chunks(read=lambda s: s.total - s.begin + s.end - s.begin),
        kept_in_full=in_chunks(keep=lambda s: 0 * s.total),
        kept_from_beginning=in_chunks(keep=lambda s: s.total - s.begin),
        kept_with_own=in_chunks(keep=lambda s: s.end - s.total + s.log),
        kept_by_whole_chunk=in_chunks(keep=lambda s: s.end - s.begin),
        carried_in_full=in_chunks(carry=lambda s: s.total.new_zeros(())),
        carried_by_last=in_chunks(carry=carry_by_last),
        first_of_chunk=factors_of_chunk(lambda part: part[..., :1]),
        mean_of_chunk=factors_of_chunk(lambda part: part.mean(-1, keepdim=True)),
        # which tokens
        state_lost=by_chunk(lambda g, i, j: left_of(g) * (i == j)),
        chunk_left_out=by_chunk(lambda g, i, j: left_of(g) * (i > j)),
        last_chunk_alone=by_chunk(lambda g, i, j: left_of(g) * (i - j <= 1)),
        open_inside=by_chunk(lambda g, i, j: left_of(g) + (i == j).to(g).triu(1)),
        counted_twice=counted_twice,
        last_chunk_left_at_0=last_chunk_left_at_0(decayed()),
        last_chunk_dropped=last_chunk_dropped(decayed()),
        whole_chunks_joined=Wrong(whole_chunks_joined(decayed()), raises="ValueError"),
        fixed_triangle=Wrong(fixed_triangle, raises="RuntimeError"),
        # numbers that a computer doesn't have
        cut_off_too_late=loop(mask=lambda g: unmasked(g).tril()),
        infinity_times_0=Wrong(loop(mask=lambda g: unmasked(g) * all_left(g)), recognise=_nan_in(row=0, not_in=-1)),
        quotients=Wrong(loop(mask=quotients), recognise=_nan_in(row=-1, not_in=0)),
        kept_away_from_0=Wrong(LIFTED[0], variants=LIFTED),
        summed_over_the_text=summed_over_the_text,
    ),
)

decayed_attention = CheckGroup("decayed_attention", recurrent_decayed_attention, chunked_decayed_attention)
