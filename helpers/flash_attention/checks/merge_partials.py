"""The check of `merge_partials`."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import online

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
    """The logsumexps of one part rise from −300 to 300, those of the other fall: each is far above the other in some row."""
    levels = torch.linspace(-300, 300, n)
    rising, falling = (
        RandomArg(lambda generator, sign=sign: sign * levels + torch.randn(n, generator=generator)) for sign in (1, -1)
    )
    return explicit_case("rows from −300 to 300, and from 300 to −300", _out(n, d), rising, _out(n, d), falling)


def _merged(out_a, lse_a, out_b, lse_b, share) -> tuple[Tensor, Tensor]:
    """The right logsumexp, and the outputs with other shares: share(lse_a, lse_b) is what a gets of 1."""
    a = share(lse_a, lse_b)[..., None]
    return a * out_a + (1 - a) * out_b, torch.logaddexp(lse_a, lse_b)


def _share(lse_a, lse_b) -> Tensor:
    """What a gets, whatever the logsumexps."""
    return torch.where(lse_a == lse_b, 0.5, torch.sigmoid(lse_a - lse_b))


def weights_without_maximum(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b = torch.exp(lse_a)[..., None], torch.exp(lse_b)[..., None]
    return (a * out_a + b * out_b) / (a + b), torch.log(a + b).squeeze(-1)


def measured_against(first: bool) -> Callable:
    """All relative to one of the two parts, and not to the larger one."""

    def merge(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
        if not first:
            out_a, lse_a, out_b, lse_b = out_b, lse_b, out_a, lse_a
        empty = lse_a == -math.inf
        ratio = torch.exp(lse_b - lse_a.masked_fill(empty, 0.0))
        out = (out_a + ratio[..., None] * out_b) / (1 + ratio)[..., None]
        return torch.where(empty[..., None], out_b, out), torch.where(empty, lse_b, lse_a + torch.log1p(ratio))

    return merge


def shares_that_are_not_normalised(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b)
    top = top.masked_fill(top == -math.inf, 0.0)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    return a[..., None] * out_a + b[..., None] * out_b, top + torch.log(a + b)


def shares_over_the_rows(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b = (torch.softmax(lse, dim=-1).nan_to_num(0.0)[..., None] for lse in (lse_a, lse_b))
    return a * out_a + b * out_b, torch.logaddexp(lse_a, lse_b)


def parts_minus_infinity(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b)
    a, b = torch.exp(lse_a - top)[..., None], torch.exp(lse_b - top)[..., None]
    return (a * out_a + b * out_b) / (a + b), top + torch.log(a + b).squeeze(-1)


def _weights_of(lse_a, lse_b, top) -> tuple[Tensor, Tensor, Tensor]:
    """Both weights against `top`, and a divisor that is never 0."""
    top = top.masked_fill(top == -math.inf, 0.0)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    return a[..., None], b[..., None], (a + b).masked_fill(a + b == 0, 1.0)[..., None]


def one_maximum_for_both_parts(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b).max()
    a, b, total = _weights_of(lse_a, lse_b, top)
    return (a * out_a + b * out_b) / total, top + torch.log((a + b).squeeze(-1))


def low_parts_taken_for_empty(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b).clamp(min=-1e4)
    a, b, total = _weights_of(lse_a, lse_b, top)
    return (a * out_a + b * out_b) / total, top + torch.log((a + b).squeeze(-1))


def something_added_to_the_divisor(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    a, b, _ = _weights_of(lse_a, lse_b, torch.maximum(lse_a, lse_b))
    return (a * out_a + b * out_b) / (a + b + 1e-6), torch.logaddexp(lse_a, lse_b)


def unseen_rows_with_lse_0(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    out, lse = _merged(out_a, lse_a, out_b, lse_b, _share)
    return out, lse.masked_fill(lse == -math.inf, 0.0)


def unseen_only_as_a_whole(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    if lse_a.isinf().all():
        return out_b, lse_b
    if lse_b.isinf().all():
        return out_a, lse_a
    return parts_minus_infinity(out_a, lse_a, out_b, lse_b)


def other_part_for_all_rows(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    if (lse_a == -math.inf).any():
        return out_b, lse_b
    if (lse_b == -math.inf).any():
        return out_a, lse_a
    return _merged(out_a, lse_a, out_b, lse_b, _share)


def unseen_only_as_a_whole_in_the_shares(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    """The logsumexp is right in every row, and the shares are not."""
    out = unseen_only_as_a_whole(out_a, lse_a, out_b, lse_b)[0]
    return out, torch.logaddexp(lse_a, lse_b)


def unseen_rows_near_the_smallest_number(out_a, lse_a, out_b, lse_b) -> tuple[Tensor, Tensor]:
    out, lse = _merged(out_a, lse_a, out_b, lse_b, _share)
    return out, lse.masked_fill(lse == -math.inf, math.log(1e-30))


def finite_stand_in(number: float) -> Callable:
    """The right logsumexp, and shares in which this number stands for −∞."""
    standing_in = lambda lse: lse.masked_fill(lse == -math.inf, number)
    share = lambda a, b: torch.sigmoid(standing_in(a) - standing_in(b))
    return lambda out_a, lse_a, out_b, lse_b: _merged(out_a, lse_a, out_b, lse_b, share)


def _unseen_rows_finite(seen: Observation) -> bool:
    """A mark: a logsumexp that is finite where that of both parts is −∞."""
    unseen = (seen.args[1] == -math.inf) & (seen.args[3] == -math.inf)
    return bool(unseen.any() and seen.output[1][unseen].isfinite().all())


def right_shares_wrong_lse(out_a, lse_a, out_b, lse_b, lse) -> tuple[Tensor, Tensor]:
    return _merged(out_a, lse_a, out_b, lse_b, _share)[0], lse


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
        plain_average=lambda out_a, lse_a, out_b, lse_b: _merged(
            out_a, lse_a, out_b, lse_b, lambda a, b: 0.5 + 0 * _share(a, b)
        ),
        outputs_added=lambda out_a, lse_a, out_b, lse_b: (out_a + out_b, torch.logaddexp(lse_a, lse_b)),
        weights_without_maximum=weights_without_maximum,
        everything_measured_against_first_part=measured_against(first=True),
        everything_measured_against_second_part=measured_against(first=False),
        shares_proportion_logsumexps=lambda out_a, lse_a, out_b, lse_b: _merged(
            out_a, lse_a, out_b, lse_b, lambda a, b: (a / (a + b)).nan_to_num(0.5)
        ),
        shares_that_dont_sum_1=shares_that_are_not_normalised,
        shares_swapped=lambda out_a, lse_a, out_b, lse_b: _merged(
            out_a, lse_a, out_b, lse_b, lambda a, b: _share(b, a)
        ),
        only_larger_part=lambda out_a, lse_a, out_b, lse_b: _merged(
            out_a, lse_a, out_b, lse_b, lambda a, b: (a > b).to(a)
        ),
        shares_taken_over_rows=shares_over_the_rows,
        logsumexps_added=lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(
            out_a, lse_a, out_b, lse_b, lse_a + lse_b
        ),
        larger_logsumexp_kept=lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(
            out_a, lse_a, out_b, lse_b, torch.maximum(lse_a, lse_b)
        ),
        logsumexp_without_maximum=lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(
            out_a, lse_a, out_b, lse_b, torch.log(torch.exp(lse_a) + torch.exp(lse_b))
        ),
        mean_sums_logsumexp=lambda out_a, lse_a, out_b, lse_b: right_shares_wrong_lse(
            out_a, lse_a, out_b, lse_b, torch.logaddexp(lse_a, lse_b) - math.log(2)
        ),
        one_maximum_all_rows=one_maximum_for_both_parts,
        very_low_logsumexps_taken_empty_parts=low_parts_taken_for_empty,
        small_number_added_divisor=something_added_to_the_divisor,
        logsumexp_0_row_that_neither_part_saw=unseen_rows_with_lse_0,
        finite_logsumexp_row_that_neither_part=Wrong(
            unseen_rows_near_the_smallest_number, recognise=_unseen_rows_finite
        ),
        finite_number_minus_shares=finite_stand_in(-100.0),
        empty_rows_treated_only_where_all_rows=unseen_only_as_a_whole_in_the_shares,
        empty_rows_treated_only_where_all_rows_2=unseen_only_as_a_whole,
        one_part_all_rows_where_other_has_empty=other_part_for_all_rows,
        minus_minus_minus=parts_minus_infinity,
    ),
    within={
        torch.float32: (1e-3, 1e-4),
        torch.float64: (1e-9, 1e-11),
    },  # at 300 a logsumexp in float32 has no more than 5 digits behind the point
)
