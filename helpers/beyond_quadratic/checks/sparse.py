"""Attention that leaves pairs out, in steps: over gathered keys, or under a mask; with slips, marks and cases."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import (
    in_single_precision,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, attend, attention
from helpers.engine.cases import Case, RandomArg, normal, random_case
from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Slip, Wrong, shared


@dataclass(frozen=True)
class Gathered(Attention):
    """Query i reads the keys in row i of a table (n, c)."""

    score: Callable = lambda q, k: (k @ q[..., None]).squeeze(-1)  # of keys (…, n, c, d)
    mix: Callable = lambda weights, v, sizes: (weights[..., None, :] @ v).squeeze(-2)
    queries: Callable = lambda q, v: q
    keys_of: Callable = lambda k, table: k[..., table, :]
    values_of: Callable = lambda v, table: v[..., table, :]


def attend_to(steps: Gathered, q: Tensor, k: Tensor, v: Tensor, table: Tensor, valid: Tensor) -> Tensor:
    """The output of queries that read a table's keys, in the slots that are valid."""
    return attend(steps, steps.queries(q, v), steps.keys_of(k, table), steps.values_of(v, table), valid)[0]


def gathered(read: Callable, **changed: Callable) -> Callable:
    """read: (n, *what is given after q, k, v) → table and valid slots."""
    steps = Gathered(**changed)

    def answer(q: Tensor, k: Tensor, v: Tensor, *given) -> Tensor:
        return attend_to(steps, q, k, v, *read(q.shape[-2], *given))

    return answer


def pairs(allowed: Callable, **changed: Callable) -> Callable:
    """The same through a mask of all pairs. allowed: (i, j, *given) → whether query i reads key j."""
    attended = attention(**changed)

    def answer(q: Tensor, k: Tensor, v: Tensor, *given) -> Tensor:
        i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        return attended(q, k, v, allowed(i, j, *given))

    return answer


def row_by_row(allowed: Callable) -> Callable:
    """The same, a query at a time."""
    attended = attention()

    def answer(q: Tensor, k: Tensor, v: Tensor, *given) -> Tensor:
        rows, j = range(q.shape[-2]), torch.arange(k.shape[-2])
        return torch.cat([attended(q[..., i : i + 1, :], k, v, allowed(i, j, *given)) for i in rows], dim=-2)

    return answer


def near(i: Tensor | int, j: Tensor, w: int) -> Tensor:
    """Whether key j is in the window of query i."""
    return (i - j).abs() <= w


def slots_of(mask: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Keys and valid slots, found in a table of all pairs."""
    valid, keys = mask.float().topk(min(most, mask.shape[-1]))
    return keys, valid > 0


# ---------------------------------------------------------------------------------------------------------------- slips


def _from_a_view(x: Tensor, table: Tensor) -> Tensor:
    """x[..., table, :], gathered from a view (…, n, m, d): on the way back that shape is filled with numbers."""
    n, slots = table.shape
    view = x.unsqueeze(-3).expand(*x.shape[:-2], n, *x.shape[-2:])
    return view.gather(-2, table[..., None].expand(*x.shape[:-2], n, slots, x.shape[-1]))


def second_axis(x: Tensor, table: Tensor) -> Tensor:
    """x[..., table, :] with exactly one batch axis."""
    return x[:, table]


def _zeros_hidden(scores: Tensor, valid: Tensor) -> Tensor:
    scores = scores * valid
    return scores.masked_fill(scores == 0, -math.inf)


class Slots:
    """A query reads the slots of its row that are valid, whatever stands in the others."""

    from_a_view = Slip(keys_of=_from_a_view, values_of=_from_a_view)
    one_batch_axis = Slip(
        score=lambda q, k: (k * q[..., None, :]).sum(-1),
        mix=lambda weights, v, sizes: (weights[..., None] * v).sum(-2),
        keys_of=second_axis,
        values_of=second_axis,
        raises="IndexError RuntimeError",
    )
    zeros_taken = Slip(hide=_zeros_hidden)
    finite_number = Slip(hide=lambda scores, valid: scores.masked_fill(~valid, -1e4))
    axis_from_front = Slip(normalise=lambda hidden, valid, scores: hidden.softmax(1))
    out_of_range = Slip(**Softmax.no_maximum.steps)
    by_width_of_values = Slip(queries=lambda q, v: q * math.sqrt(q.shape[-1] / v.shape[-1]))


def ready_made(reference: Callable) -> tuple[Wrong, ...]:
    """What goes wrong with other dtypes and batches."""
    return (in_single_precision(reference), written_for_one_batch_axis(reference), written_without_a_batch(reference))


def _of_width(width: int, reference: Callable) -> Callable:
    return lambda q, k, v, w, *g: reference(q, k, v, width, *g)


def other_width(reference: Callable) -> Wrong:
    """The right answer for another w than that of the call."""
    windows = tuple(_of_width(width, reference) for width in range(8))
    return shared(__file__, "other_width", windows[2], variants=windows)


def cut_or_not(slip: Callable) -> tuple[Callable, Callable]:
    """A slip, and the same after w was cut to n − 1, as some do first."""
    return slip, lambda q, k, v, w, *g: slip(q, k, v, min(w, q.shape[-2] - 1), *g)


# ---------------------------------------------------------------------------------------------------------------- marks


def square_made(seen: Observation) -> bool:
    """Whether a tensor of n × m elements was made."""
    q, k = seen.args[:2]
    return seen.largest >= q.shape[-2] * k.shape[-2]


def all_pairs_scored(seen: Observation) -> bool:
    """Whether the work suffices for all n · m scores, as matrix products or as products of single numbers and their
    sums, though no such matrix was made."""
    q, k = seen.args[:2]
    return not square_made(seen) and max(seen.flops, seen.elementwise) >= 2 * q.numel() * k.shape[-2]


def scores_of_all_pairs(seen: Observation) -> bool:
    """Whether all n · m scores were computed at once: by matrix products, or as products of single numbers."""
    q, k = seen.args[:2]
    work = q.numel() * k.shape[-2]
    return square_made(seen) and (seen.flops >= 2 * work or seen.largest >= work)


def square_on_the_way_back(seen: Observation) -> bool:
    """Whether the backward pass, and it alone, made a tensor with all keys for every query."""
    q, k = seen.args[:2]
    return seen.largest < q.shape[-2] * k.numel() <= seen.backward_largest


def overflowed(seen: Observation) -> bool:
    """Whether an output is NaN where the power of some score is more, or less, than float32 can hold."""
    q, k = seen.args[:2]
    return bool(seen.output.isnan().any() and (q @ k.mT).abs().max() / math.sqrt(q.shape[-1]) > 89)


def hidden_too_softly(reference: Callable) -> Callable:
    """A mark: numbers are wrong where all scores are far below 0."""

    def shown(seen: Observation) -> bool:
        q, k = seen.args[:2]
        low = (q @ k.mT).max() / math.sqrt(q.shape[-1]) < -90
        right = agree(seen.output, reference(*seen.args), tolerance(seen.args))
        return bool(low and seen.output.isfinite().all()) and not right

    return shown


# ---------------------------------------------------------------------------------------------------------------- cases


def long_sequence(n: int, d: int, d_v: int, slots: int, cost: str, **reads: int) -> Case:
    """slots: how many scores any right way may need in all, far fewer than n²."""
    sizes = ", ".join(f"{name} = {size}" for name, size in {"n": n, **reads}.items())
    limits = {"max_flops": 2 * slots * (d + d_v), "max_elements": slots * max(d, d_v)}
    limits["max_elementwise"] = 5 * limits["max_elements"]
    return random_case(f"{sizes}: counted, O({cost})", n=n, d=d, d_v=d_v, **reads, **limits)


def far_below(n: int, m: int, d_v: int, size: float = 128.0) -> tuple[RandomArg, RandomArg, RandomArg]:
    """Queries and keys at d = 4 whose scores are near −2 · size², and values; in float64, where a logsumexp of that
    size has digits to spare."""
    keys = RandomArg(lambda generator: torch.randint(-1, 2, (m, 4), generator=generator).double() / 64 - size)
    return RandomArg(lambda _: torch.full((n, 4), size, dtype=torch.float64)), keys, normal(m, d_v, dtype=torch.float64)


def with_a_token_of_zeros(case: Case) -> Case:
    """The same case, with a key and value of zeros: its score is 0, as that of an empty slot often is."""

    def draw(*how) -> tuple:
        q, k, v, *others = case.draw(*how)
        named = others[0][0, 0] if isinstance(others[0], Tensor) else k.shape[-2] // 2  # in a table: a key that is read
        real = torch.arange(k.shape[-2])[:, None] != named
        return q, k * real, v * real, *others

    return replace(case, label=f"{case.label}, a token of zeros", draw=draw)
