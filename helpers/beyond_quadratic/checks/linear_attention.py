"""linear_attention: φ(q) φ(k)ᵀ in place of the softmax; all at once, token by token and in chunks."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.answers.steps import attention
from helpers.engine.cases import Case, RandomArg, as_float64, explicit_case, normal, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Slip, Wrong, slips, wrong_answers

from .. import linear_attention as reference
from .recurrence import (
    State,
    Walk,
    backwards,
    changed_in_place,
    chunks_anew,
    last_chunk_dropped,
    last_chunk_left_at_0,
    limits_of_chunks,
    limits_of_tokens,
    outer,
    phi,
    sums_anew,
    token_by_token,
    walk,
    whole_chunks_joined,
)
from .sparse import all_pairs_scored, ready_made, square_made

__all__ = ["linear_attention"]


def as_it_is(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True)
class Linear:
    queries: Callable = phi
    keys: Callable = phi
    values: Callable = as_it_is
    divide: Callable = lambda above, below: above / below


def linear(parts: Callable, **changed: Callable) -> Callable:
    """parts: (q, k, v, *c) → what stands above and below the fraction bar; q and k have their features already."""
    steps = Linear(**changed)
    return lambda q, k, v, *c: steps.divide(*parts(steps.queries(q), steps.keys(k), steps.values(v), *c))


def instead(parts: Callable, below: Callable) -> Callable:
    """The same parts with another normaliser."""
    return lambda q, k, v, *c: (parts(q, k, v, *c)[0], below(q, k))


def of_keys(q: Tensor, k: Tensor) -> Tensor:
    """The normaliser of each query, if it reads all of these keys."""
    return (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)


def all_keys(q, k, v, *c) -> tuple[Tensor, Tensor]:
    return q @ outer(k, v), of_keys(q, k)


def above_alone(above: Tensor, below: Tensor) -> Tensor:
    return above


def number_added(above: Tensor, below: Tensor) -> Tensor:
    return above / (below + 1e-6)


def lower_limit(above: Tensor, below: Tensor) -> Tensor:
    return above / below.clamp_min(1e-6)


def shows_number_added(parts: Callable) -> Callable:
    """A mark: the normaliser that the output implies is too large, by the same number in every row."""

    def shown(seen: Observation) -> bool:
        q, k, v = (x.double() for x in seen.args[:3])
        above, below = parts(phi(q), phi(k), v)
        extra = above / seen.output.double() - below
        return bool(extra.min() > 0 and extra.max() - extra.min() < 0.05 * extra.max())

    return shown


def _of_scaled(x: Tensor) -> Tensor:
    return phi(x / math.sqrt(x.shape[-1]))


class Features:
    """φ goes on queries and keys as they are."""

    unmapped_keys = Slip(keys=as_it_is)
    unmapped_queries = Slip(queries=as_it_is)
    scaled = Slip(queries=_of_scaled, keys=_of_scaled)
    scaled_queries = Slip(queries=_of_scaled)


# ---------------------------------------------------------------------------------------------------------------- cases


def far_below_zero(n: int, m: int, d: int, d_v: int, *rest: int) -> Case:
    """Features near e^−10: a normaliser so small that a number added to it shows, and a smallest value for it too."""
    q, k = (normal(length, d, mean=-10, dtype=torch.float64) for length in (n, m))
    return explicit_case("inputs near −10, in float64", q, k, normal(m, d_v, dtype=torch.float64), *rest)


def large_after_small(n: int, d: int, d_v: int, c: int) -> Case:
    """The last token of the second chunk has a large key and a larger value: a sum from which they are taken off again
    has lost what stood there before."""
    place = 2 * c - 1

    def keys(generator: Generator) -> Tensor:
        noise = torch.randn(n, d, generator=generator, dtype=torch.float64)
        return torch.where(torch.arange(n)[:, None] == place, 10 + noise, noise - 10)

    def values(generator: Generator) -> Tensor:
        noise = torch.randn(n, d_v, generator=generator, dtype=torch.float64)
        return torch.where(torch.arange(n)[:, None] == place, 1e4 * noise, noise)

    words = f"n = {n}, c = {c}: a large token after small ones, in float64"
    return explicit_case(words, normal(n, d, dtype=torch.float64), RandomArg(keys), RandomArg(values), c)


def long_sequences(n: int, m: int, d: int, d_v: int) -> Case:
    """Twice what the two products need; n · m would be many times more."""
    limits = {"max_flops": 2 * 2 * (n + m) * d * (d_v + 1), "max_elements": 2 * max(n, m) * (d + 1) * (d_v + 1)}
    limits["max_elementwise"] = 5 * limits["max_elements"]
    return random_case(f"n = {n}, m = {m}: counted, O((n + m) d²)", n=n, m=m, d=d, d_v=d_v, **limits)


def long_causal(n: int, d: int, d_v: int) -> Case:
    return random_case(f"n = {n}: counted, O(n d²)", n=n, d=d, d_v=d_v, **limits_of_tokens(n, d, d_v))


def long_chunks(n: int, d: int, d_v: int, c: int) -> Case:
    label = f"n = {n}, c = {c}: counted, O(n d² + n c d)"
    return random_case(label, n=n, d=d, d_v=d_v, c=c, **limits_of_chunks(n, d, d_v, c))


# ---------------------------------------------------------------------------------------------------------- all at once


@composable
def once(**changed: Callable) -> Callable:
    return linear(all_keys, **changed)


def square_for_normaliser(q, k, v) -> tuple[Tensor, Tensor]:
    return q @ outer(k, v), (q @ k.mT).sum(-1, keepdim=True)


def _square_for_normaliser_alone(seen: Observation) -> bool:
    """A mark: n × m numbers and no more, the work of the two linear products, and of one that makes these numbers."""
    q, k, v = seen.args
    pairs, products = q.shape[-2] * k.shape[-2], (q.shape[-2] + k.shape[-2]) * q.shape[-1] * v.shape[-1]
    return seen.largest == pairs and seen.flops == 2 * (pairs * q.shape[-1] + products)


def by_rows(q, k, v, causal=False) -> tuple[Tensor, Tensor]:
    n = q.shape[-2]
    ends = [t + 1 if causal else k.shape[-2] for t in range(n)]
    rows = [((q[..., t : t + 1, :] @ k.mT)[..., :end], end) for t, end in enumerate(ends)]
    above = torch.cat([row @ v[..., :end, :] for row, end in rows], dim=-2)
    return above, torch.cat([row.sum(-1, keepdim=True) for row, _ in rows], dim=-2)


all_at_once = Check(
    reference=reference.linear_attention,
    cases=[
        random_case(n=5, m=7, d=4, d_v=3),
        random_case(
            "batch = 2×3, n = 4, m = 6: gradients, in float64",
            **{"batch": (2, 3), "n": 4, "m": 6, "d": 3, "d_v": 5, "dtype": torch.float64},
            gradient=True,
        ),
        random_case(n=4, m=5, d=6, d_v=2, scale=3.0, label="large inputs"),
        long_sequences(300, 350, 4, 3),
        long_sequences(280, 240, 3, 6),
        far_below_zero(4, 6, 3, 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        *ready_made(reference.linear_attention),
        *slips(once, Features.unmapped_keys, Features.unmapped_queries, Features.scaled, Features.scaled_queries),
        square_for_normaliser=Wrong(linear(square_for_normaliser), cost=_square_for_normaliser_alone),
        square_first=Wrong(linear(lambda q, k, v: (q @ k.mT @ v, (q @ k.mT).sum(-1, keepdim=True))), cost=square_made),
        row_by_row=Wrong(linear(by_rows), cost=all_pairs_scored),
        undivided=once(divide=above_alone),
        by_number_of_keys=linear(lambda q, k, v: (q @ outer(k, v), k.shape[-2])),
        one_normaliser=once(divide=lambda above, below: above / below.sum(-2, keepdim=True)),
        unmapped=once(queries=as_it_is, keys=as_it_is),
        mapped_values=once(values=phi),
        elu_alone=once(queries=F.elu, keys=F.elu),
        softmax_attention=attention(),
        softmax_features=once(queries=lambda q: q.softmax(-1), keys=lambda k: k.softmax(-2), divide=above_alone),
        softmax_of_features=Wrong(
            linear(lambda q, k, v: ((q @ k.mT).softmax(-1) @ v, 1)),
            variants=(linear(lambda q, k, v: ((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v, 1)),),
        ),
        number_added=Wrong(once(divide=number_added), recognise=shows_number_added(all_keys)),
        lower_limit=once(divide=lower_limit),
        axis_from_front=Wrong(
            once(divide=lambda above, below: above / below.squeeze(-1).unsqueeze(1)), raises="RuntimeError"
        ),
    ),
)

# --------------------------------------------------------------------------------- causal, under a mask of all pairs


def softmax_under_triangle(divisor: Callable) -> Callable:
    """Causal softmax attention of the features."""

    def answer(q, k, v, *c) -> Tensor:
        scores = phi(q) @ phi(k).mT / divisor(q.shape[-1])
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ v

    return answer


SOFTMAX_LEFT = Wrong(softmax_under_triangle(lambda d: 1), variants=(softmax_under_triangle(math.sqrt),))


def places(q: Tensor) -> tuple[Tensor, Tensor]:
    place = torch.arange(q.shape[-2])
    return place[:, None], place


def causal_pairs(i, j, *c) -> Tensor:
    return j <= i


def inside_chunk(i, j, c) -> Tensor:
    return (i // c == j // c) & (j <= i)


def earlier_chunks(i, j, c) -> Tensor:
    return i // c > j // c


def up_to_own_chunk(i, j, c) -> Tensor:
    return i // c >= j // c


def weighted(counted: Callable, in_normaliser: Callable | None = None) -> Callable:
    """counted: how often query i reads key j; in_normaliser: the same below the fraction bar."""
    below = in_normaliser or counted

    def parts(q, k, v, *c) -> tuple[Tensor, Tensor]:
        scores, (i, j) = q @ k.mT, places(q)
        return (scores * counted(i, j, *c)) @ v, (scores * below(i, j, *c)).sum(-1, keepdim=True)

    return parts


@composable
def under_triangle(**changed: Callable) -> Callable:
    return linear(weighted(causal_pairs), **changed)


# ------------------------------------------------------------------------------------------------------- token by token


@composable
def walked(**changed: Callable) -> Callable:
    """State and normaliser as one: the values have a 1 at their end."""
    steps = Walk(**changed)

    def parts(q, k, v, *c) -> tuple[Tensor, Tensor]:
        read = walk(steps, q, k, torch.cat([v, torch.ones_like(v[..., :1])], dim=-1))
        return read[..., :-1], read[..., -1:]

    return parts


causal = walked()


@composable
def recurrent(**changed: Callable) -> Callable:
    return linear(causal, **changed)


@composable
def with_state(**changed: Callable) -> Callable:
    return linear(walked(**changed))


@composable
def without_normaliser(**changed: Callable) -> Callable:
    steps = Walk(**changed)
    return lambda q, k, v, *c: walk(steps, phi(q), phi(k), v)


def so_far(q: Tensor, k: Tensor) -> Tensor:
    return torch.arange(1, q.shape[-2] + 1)[:, None]


def past_anew(q, k, v) -> Tensor:
    rows = []
    for t in range(q.shape[-2]):
        past, q_t = k[..., : t + 1, :], q[..., t : t + 1, :]
        rows.append(q_t @ outer(past, v[..., : t + 1, :]) / of_keys(q_t, past))
    return torch.cat(rows, dim=-2)


recurrent_linear_attention = Check(
    reference=reference.recurrent_linear_attention,
    cases=[
        random_case(n=5, d=4, d_v=3),
        random_case(
            "batch = 2×3, n = 7: gradients, in float64",
            **{"batch": (2, 3), "n": 7, "d": 3, "d_v": 5, "dtype": torch.float64},
            gradient=True,
        ),
        random_case(n=6, d=5, d_v=2, scale=3.0, label="large inputs"),
        long_causal(300, 4, 3),
        long_causal(260, 3, 6),
        random_case(n=1, d=3, d_v=2, label="one token"),
        far_below_zero(6, 6, 3, 5),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(with_state(join=lambda old, new: old.add_(new))),
        *ready_made(reference.recurrent_linear_attention),
        *slips(recurrent, Features.unmapped_keys, Features.unmapped_queries, Features.scaled, Features.scaled_queries),
        *slips(with_state, State.read_before, State.one_for_the_batch, State.cut_off),
        *slips(without_normaliser, State.d_by_d),
        backwards(reference.recurrent_linear_attention),
        triangle_of_all=Wrong(under_triangle(), cost=square_made),
        past_anew=Wrong(lambda q, k, v: past_anew(phi(q), phi(k), v), cost=sums_anew),
        causal_row_by_row=Wrong(linear(lambda q, k, v: by_rows(q, k, v, causal=True)), cost=all_pairs_scored),
        overwritten=lambda q, k, v: v.clone(),  # φ(q)·φ(kₜ) vₜ / φ(q)·φ(kₜ)
        of_all_tokens=linear(instead(causal, of_keys)),
        not_causal=once(),
        softmax_of_features=SOFTMAX_LEFT,
        state_undivided=recurrent(divide=above_alone),
        of_one_token=linear(instead(causal, lambda q, k: (q * k).sum(-1, keepdim=True))),
        by_number_so_far=linear(instead(causal, so_far)),
        number_added=Wrong(recurrent(divide=number_added), recognise=shows_number_added(causal)),
        lower_limit=recurrent(divide=lower_limit),
    ),
)

# ------------------------------------------------------------------------------------------------------------ in chunks


@composable
def loop(
    mask: Callable = torch.tril, divide: Callable = torch.div, join: Callable = torch.add, carried: Callable = as_it_is
) -> Callable:
    """mask: what cuts a chunk's scores to a triangle. join: (a sum, the chunk's own) → the sum for the next one."""

    def answer(q, k, v, c) -> Tensor:
        q, k, outputs = phi(q), phi(k), []
        state, total = torch.zeros_like(outer(k[..., :1, :], v[..., :1, :])), torch.zeros_like(k[..., :1, :])
        for q_c, k_c, v_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2)):
            inside = mask(q_c @ k_c.mT)
            below = q_c @ total.mT + inside.sum(-1, keepdim=True)
            outputs.append(divide(q_c @ state + inside @ v_c, below))
            state = carried(join(state, outer(k_c, v_c)))
            total = carried(join(total, k_c.sum(-2, keepdim=True)))
        return torch.cat(outputs, dim=-2)

    return answer


def fixed_triangle(q, k, v, c) -> Tensor:
    triangle = torch.ones(c, c, dtype=q.dtype).tril()
    return loop(mask=lambda scores: scores * triangle)(q, k, v, c)


def padded(before: Callable, divide: Callable) -> Callable:
    """All chunks at once, the last one filled up. before: of the chunks' sums those of what stands before each.
    divide: (above, below, cut) → output, where `cut` takes off what was filled up."""

    def answer(q, k, v, c) -> Tensor:
        n = q.shape[-2]
        q, k, v = (F.pad(x, (0, 0, 0, -n % c)).unflatten(-2, (-1, c)) for x in (phi(q), phi(k), v))
        inside, own, total = (q @ k.mT).tril(), outer(k, v), k.sum(-2, keepdim=True)
        above, below = inside @ v + q @ before(own), inside.sum(-1, keepdim=True) + q @ before(total).mT
        return divide(above, below, lambda x: x.flatten(-3, -2)[..., :n, :])

    return answer


def shifted(own: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(own[..., :1, :, :]), own.cumsum(-3)[..., :-1, :, :]], dim=-3)


def two_fractions(shares: int) -> Callable:
    """State and triangle with a normaliser each; they are added, and from the second chunk on divided by `shares`."""

    def answer(q, k, v, c) -> Tensor:
        scores, (i, j) = phi(q) @ phi(k).mT, places(q)
        inside, past = scores * ((i // c == j // c) & (j <= i)), scores * (i // c > j // c)
        near = inside @ v / inside.sum(-1, keepdim=True)
        far = past @ v / past.sum(-1, keepdim=True).where(i >= c, torch.ones((), dtype=q.dtype))
        return torch.where(i >= c, (near + far) / shares, near)

    return answer


def past_anew_at_every_chunk(q, k, v, c) -> Tensor:
    q, k, outputs = phi(q), phi(k), []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        past, inside = k[..., :start, :], (q_c @ k_c.mT).tril()
        below = of_keys(q_c, past) + inside.sum(-1, keepdim=True)
        outputs.append((q_c @ outer(past, v[..., :start, :]) + inside @ v_c) / below)
    return torch.cat(outputs, dim=-2)


right = under_triangle()

chunked_linear_attention = Check(
    reference=reference.chunked_linear_attention,
    cases=[
        random_case(n=8, d=4, d_v=3, c=4),
        random_case(batch=(2, 3), n=11, d=3, d_v=5, c=3, dtype=torch.float64),
        # rows that fill up the last chunk have 0/0 if they are divided, which only shows on the way back
        random_case(
            "n = 7, c = 3: gradients, in float64",
            **{"batch": (2,), "n": 7, "d": 3, "d_v": 5, "c": 3, "dtype": torch.float64},
            gradient=True,
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
        changed_in_place(loop(join=lambda old, new: old.add_(new))),
        *ready_made(reference.chunked_linear_attention),
        *slips(under_triangle, Features.scaled, Features.scaled_queries),
        *slips(loop, State.cut_off),
        *slips(without_normaliser, State.d_by_d),
        # the price
        softmax_of_features=SOFTMAX_LEFT,
        squares_of_chunks=Wrong(right, cost=square_made),
        token_by_token=Wrong(recurrent(), cost=token_by_token),
        past_anew_at_every_chunk=Wrong(past_anew_at_every_chunk, cost=chunks_anew),
        # which tokens
        state_lost=linear(weighted(inside_chunk)),
        open_inside=linear(weighted(up_to_own_chunk)),
        chunk_left_out=linear(weighted(earlier_chunks)),
        itself_left_out=linear(weighted(lambda i, j, c: j < i)),
        counted_twice=linear(weighted(lambda i, j, c: up_to_own_chunk(i, j, c) + 1 * inside_chunk(i, j, c))),
        last_chunk_alone=linear(weighted(lambda i, j, c: (i // c - j // c <= 1) & (j <= i))),
        not_causal_at_all=once(),
        rolled_round=linear(weighted(lambda i, j, c: (j <= i) + 1 * (i < c))),
        last_chunk_left_at_0=last_chunk_left_at_0(right),
        last_chunk_dropped=last_chunk_dropped(right),
        whole_chunks_joined=Wrong(whole_chunks_joined(right), raises="ValueError"),
        fixed_triangle=Wrong(fixed_triangle, raises="RuntimeError"),
        # the normaliser
        chunks_undivided=under_triangle(divide=above_alone),
        normaliser_lost=linear(weighted(causal_pairs, inside_chunk)),
        chunk_not_in_normaliser=linear(weighted(causal_pairs, earlier_chunks)),
        whole_chunk_in_normaliser=linear(weighted(causal_pairs, up_to_own_chunk)),
        two_fractions_added=two_fractions(1),
        two_fractions_averaged=two_fractions(2),
        number_added=Wrong(loop(divide=number_added), recognise=shows_number_added(causal)),
        own_sum_taken_off=padded(lambda own: own.cumsum(-3) - own, lambda above, below, cut: cut(above) / cut(below)),
        filled_rows_divided=padded(shifted, lambda above, below, cut: cut(above / below)),
    ),
)

linear_attention = CheckGroup("linear_attention", all_at_once, recurrent_linear_attention, chunked_linear_attention)
