"""Attention over some keys and over others, merged by their logsumexps."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import online
from ..online import finite

__all__ = ["merge_partials"]


def _lse(*shape: int, level: float = 0.0, dead: str = "") -> RandomArg:
    """Logsumexps around `level`. dead: "first" makes row 0 −∞, "all" every row."""

    def draw(generator: torch.Generator) -> torch.Tensor:
        lse = torch.randn(shape, generator=generator) + level
        lse[..., : {"": 0, "first": 1, "all": shape[-1]}[dead]] = -math.inf
        return lse

    return RandomArg(draw)


def _out(*shape: int, dead: str = "") -> RandomArg:
    """Partial outputs to go with these: rows that saw nothing are 0."""

    def draw(generator: torch.Generator) -> torch.Tensor:
        out = torch.randn(shape, generator=generator)
        out[..., : {"": 0, "first": 1, "all": shape[-2]}[dead], :] = 0.0
        return out

    return RandomArg(draw)


def two_parts(label: str, n: int, d: int, batch: tuple[int, ...] = (), level=(0.0, 0.0), dead=("", "")) -> Case:
    """A case of `merge_partials`: parts a and b with their levels, and what is dead in each."""
    parts = [(_out(*batch, n, d, dead=gone), _lse(*batch, n, level=high, dead=gone)) for high, gone in zip(level, dead)]
    return explicit_case(label, *parts[0], *parts[1])


def rows_far_apart(n: int, d: int) -> Case:
    """The logsumexps of one part rise from −300 to 300, those of the other fall: each is far above in some row."""
    levels = torch.linspace(-300, 300, n)
    rising, falling = (
        RandomArg(lambda generator, sign=sign: sign * levels + torch.randn(n, generator=generator)) for sign in (1, -1)
    )
    return explicit_case("rows from −300 to 300, and from 300 to −300", _out(n, d), rising, _out(n, d), falling)


def right_share(lse_a, lse_b) -> Tensor:
    """What a gets of 1, whatever the logsumexps."""
    return torch.where(lse_a == lse_b, 0.5, torch.sigmoid(lse_a - lse_b))


@composable
def merged(share: Callable = right_share, lse: Callable = torch.logaddexp) -> Callable:
    """Both from (lse_a, lse_b). share: what a gets of 1."""

    def answer(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
        a = share(lse_a, lse_b)[..., None]
        return a * out_a + (1 - a) * out_b, lse(lse_a, lse_b)

    return answer


def never_0(total) -> Tensor:
    return total.masked_fill(total == 0, 1.0)


def measured(top: Callable, divisor: Callable = never_0) -> Callable:
    """Exponentials of both against top(lse_a, lse_b), divided by divisor(their sum)."""

    def answer(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
        largest = top(lse_a, lse_b)
        a, b = torch.exp(lse_a - largest)[..., None], torch.exp(lse_b - largest)[..., None]
        return (a * out_a + b * out_b) / divisor(a + b), largest + torch.log(a + b).squeeze(-1)

    return answer


def larger(lse_a, lse_b) -> Tensor:
    return finite(torch.maximum(lse_a, lse_b))


def first(lse_a, lse_b) -> Tensor:
    return finite(torch.where(lse_a == -math.inf, lse_b, lse_a))


def over_the_rows(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b = (torch.softmax(lse, dim=-1).nan_to_num(0.0)[..., None] for lse in (lse_a, lse_b))
    return a * out_a + b * out_b, torch.logaddexp(lse_a, lse_b)


def other_part_where(rows: Callable, otherwise: Callable) -> Callable:
    """The other part as it is, where any or all rows of one are empty."""

    def answer(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
        if rows(lse_a == -math.inf):
            return out_b, lse_b
        if rows(lse_b == -math.inf):
            return out_a, lse_a
        return otherwise(out_a, lse_a, out_b, lse_b)

    return answer


empty_as_a_whole = other_part_where(torch.all, measured(torch.maximum, lambda total: total))


def _unseen_rows_finite(seen: Observation) -> bool:
    """A mark: a logsumexp that is finite where that of both parts is −∞."""
    unseen = (seen.args[1] == -math.inf) & (seen.args[3] == -math.inf)
    return bool(unseen.any() and seen.output[1][unseen].isfinite().all())


merge_partials = Check(
    reference=online.merge_partials,
    names=("output: queries features", "logsumexp: queries"),
    cases=[
        random_case(n=5, d=3),
        random_case(batch=(2, 3), n=4, d=5),
        two_parts("large logsumexps, near 300", 4, 3, level=(300.0, 301.0)),
        two_parts("very negative logsumexps, near −300", 3, 4, level=(-301.0, -300.0)),
        two_parts("one part counts far more", 4, 2, batch=(2,), level=(3.0, -2.0)),
        two_parts("a row that one part saw nothing of", 4, 3, dead=("first", "")),
        two_parts(
            "a first part near −30,000, a second part that saw nothing", 3, 5, level=(-30_000.0, 0.0), dead=("", "all")
        ),
        two_parts("a row that neither part saw", 4, 3, batch=(2,), dead=("first", "first")),
        two_parts("nothing anywhere", 3, 2, dead=("all", "all")),
        rows_far_apart(5, 3),
        random_case("float64", batch=(2,), n=3, d=4, dtype=torch.float64),
    ],
    misconceptions=wrong_answers(
        __file__,
        average=merged(lambda a, b: torch.full_like(a, 0.5)),
        outputs_added=lambda out_a, lse_a, out_b, lse_b: (out_a + out_b, torch.logaddexp(lse_a, lse_b)),
        no_maximum=measured(lambda a, b: torch.zeros_like(a), lambda total: total),
        against_first=measured(first),
        against_second=measured(lambda a, b: first(b, a)),
        by_logsumexps=merged(lambda a, b: (a / (a + b)).nan_to_num(0.5)),
        not_normalised=measured(larger, torch.ones_like),
        swapped=merged(lambda a, b: right_share(b, a)),
        larger_only=merged(lambda a, b: (a > b).to(a)),
        over_the_rows=over_the_rows,
        lse_added=merged(lse=torch.add),
        lse_averaged=merged(lse=lambda a, b: (a + b) / 2),
        lse_larger=merged(lse=torch.maximum),
        lse_without_maximum=merged(lse=lambda a, b: torch.log(torch.exp(a) + torch.exp(b))),
        lse_mean=merged(lse=lambda a, b: torch.logaddexp(a, b) - math.log(2)),
        one_maximum=measured(lambda a, b: finite(torch.maximum(a, b).max())),
        low_parts_empty=measured(lambda a, b: torch.maximum(a, b).clamp(min=-1e4)),
        divisor_raised=measured(larger, lambda total: total + 1e-6),
        lse_0=merged(lse=lambda a, b: finite(torch.logaddexp(a, b))),
        lse_finite=Wrong(
            merged(lse=lambda a, b: torch.logaddexp(a, b).nan_to_num(neginf=math.log(1e-30))),
            recognise=_unseen_rows_finite,
        ),
        finite_in_shares=merged(lambda a, b: torch.sigmoid(a.nan_to_num(neginf=-100.0) - b.nan_to_num(neginf=-100.0))),
        shares_empty_as_a_whole=lambda out_a, lse_a, out_b, lse_b: (
            empty_as_a_whole(out_a, lse_a, out_b, lse_b)[0],
            torch.logaddexp(lse_a, lse_b),
        ),
        empty_as_a_whole=empty_as_a_whole,
        one_part_for_all_rows=other_part_where(torch.any, merged()),
        minus_infinity_twice=measured(torch.maximum, lambda total: total),
    ),
    # At 300 a logsumexp in float32 has no more than 5 digits behind the point.
    within={torch.float32: (1e-3, 1e-4), torch.float64: (1e-9, 1e-11)},
)
