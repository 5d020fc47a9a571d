"""Attention tile by tile: a running maximum, sum and output, and never the n × m scores."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, power_before_division
from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import flash
from ..online import finite
from .flash import (
    Diagonal,
    Tiles,
    Walk,
    fair,
    hidden_scores,
    hide,
    last_seen,
    scaled_by,
    score_count,
    square_made,
    tile_sizes,
    tiled,
    walk,
)

__all__ = ["flash_attention_forward"]

WITHIN = {torch.float32: (1e-3, 2e-4), torch.float64: (1e-9, 1e-11)}
"""Scores of some hundred have lost digits in float32 before the softmax, others with every order of the sums."""


def levelled_scores(shape_q: tuple[int, int], m: int, d_v: int, scores) -> tuple[RandomArg, RandomArg, RandomArg]:
    """q (n, d), k (m, d), v (m, d_v) whose scaled scores are a little noise around scores(i, j)."""
    n, d = shape_q

    def near(row: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        x = 0.3 * torch.randn(len(row), d, generator=generator)
        x[:, 0] = row
        return x

    i, j = torch.arange(n).float(), torch.arange(m).float()
    of_queries, of_keys = scores(i, j)
    return (
        RandomArg(lambda generator: near(of_queries * math.sqrt(d), generator)),
        RandomArg(lambda generator: near(of_keys, generator)),
        RandomArg(lambda generator: torch.randn(m, d_v, generator=generator)),
    )


def heads_split(case: Case) -> Case:
    """The same numbers in views: rows of all heads lie side by side in memory, as in heads that were split off."""
    lying = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2) if isinstance(x, Tensor) else x
    return replace(case, label=f"{case.label}, heads split off", draw=lambda *how: tuple(map(lying, case.draw(*how))))


def with_a_key_of_zeros(case: Case) -> Case:
    """The same case, but the scores of the key in the middle are 0, as those of what fills up a tile would be."""

    def draw(*how) -> tuple:
        q, k, *others = case.draw(*how)
        return q, k * (torch.arange(k.shape[-2])[:, None] != k.shape[-2] // 2), *others

    return replace(case, label=f"{case.label}, a key of zeros", draw=draw)


def climbing_scores(n: int, m: int, step: float) -> tuple[RandomArg, RandomArg, RandomArg]:
    """Every second query's scores climb along the keys by `step`, those of the others fall."""
    return levelled_scores((n, 4), m, 3, lambda i, j: (1 - 2 * (i % 2), step * j))


def low_scores(
    n: int, m: int, d_v: int = 3, level: float = -120.0, dtype: torch.dtype = torch.float32
) -> tuple[RandomArg, ...]:
    """All scores near `level`: e^−120 is 0 in float32."""
    drawn = levelled_scores((n, 4), m, d_v, lambda i, j: (torch.ones_like(i), torch.full_like(j, level)))
    return tuple(RandomArg(lambda generator, x=x: x.make(generator).to(dtype)) for x in drawn)


def counted_tiles(n: int, m: int, d: int, d_v: int, block_q: int, block_k: int, causal: bool = False) -> Case:
    """Many tiles, in long rows. Twice the largest input is enough for every tensor, and one product of each kind for
    scores and values. All that is held at one time is less than one row of tiles: they don't pile up."""
    words = f"{'causal, ' * causal}n = {n}, m = {m}, tiles of {block_q} × {block_k}: counted"
    return random_case(
        words,
        **tile_sizes(n, m, d, d_v, causal, block_q, block_k),
        max_flops=5 * n * m * (d + d_v) // 2,
        max_elements=2 * max(n, m) * max(d, d_v),
        max_living=3 * block_q * m // 4,
    )


def in_float32(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    return tuple(x.float() for x in tiled()(q, k, v, causal, block_q, block_k))


def lse_in_float32(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    out, lse = tiled()(q, k, v, causal, block_q, block_k)
    return out, lse.float()


def scored_twice(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    """For each tile of queries the logsumexp of the whole row, then the weights."""
    outs, lses = [], []
    first, again = (walk(Walk(), q, k, v, causal, block_q, block_k)[1] for _ in range(2))
    for (_, tiles), (_, same) in zip(first, again):
        lses.append(torch.stack([hide(Walk(), s, at).logsumexp(-1) for at, s in tiles]).logsumexp(0))
        shift = finite(lses[-1])[..., None]
        outs.append(sum(torch.exp(hide(Walk(), s, at) - shift) @ v[..., at.columns, :] for at, s in same))
    return torch.cat(outs, dim=-2), torch.cat(lses, dim=-1)


def of_each_tile(together: Callable) -> Callable:
    """together: outputs (tiles, *batch, n, d_v) and logsumexps (tiles, *batch, n) of the tiles → the answer."""

    def forward(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
        scores = hidden_scores(q, k, causal).split(block_k, dim=-1)
        outs = [s.softmax(-1).nan_to_num(0.0) @ part for s, part in zip(scores, v.split(block_k, dim=-2))]
        return together(torch.stack(outs), torch.stack([s.logsumexp(-1) for s in scores]))

    return forward


def zeros_hidden(q, k, at) -> Tensor:
    s = at.d**-0.5 * q @ k.mT
    return s.masked_fill(s == 0, -math.inf)


def as_wide_as_q(outs, q, block_q) -> Tensor:
    room = torch.zeros_like(q)
    for place, out in zip(room.split(block_q, dim=-2), outs):
        place[...] = out
    return room


def in_a_full_tile(i, j, at) -> Tensor:
    return j > torch.arange(at.rows.start, at.rows.start + at.block_q)[:, None] + at.offset


def stripe_made(seen: Observation) -> bool:
    """Whether a tile of queries met all keys at once, or a tile of keys all queries."""
    (q, k), (block_q, block_k) = seen.args[:2], seen.args[-2:]
    stripe = min(block_q * k.shape[-2], block_k * q.shape[-2])
    return score_count(seen) > seen.largest >= math.prod(q.shape[:-2]) * stripe > fair(seen)


def tiles_pile_up(seen: Observation) -> bool:
    """Whether as many numbers were held at one time as there are scores, but in no tensor larger than a tile."""
    return not square_made(seen) and not stripe_made(seen) and seen.living >= score_count(seen) > 4 * fair(seen)


def row_piles_up(seen: Observation) -> bool:
    """Whether about as many numbers were held at one time as a row (or column) of tiles has, and far fewer than all."""
    (q, k), (block_q, block_k) = seen.args[:2], seen.args[-2:]
    row = math.prod(q.shape[:-2]) * max(block_q * k.shape[-2], block_k * q.shape[-2])
    large = square_made(seen) or stripe_made(seen) or tiles_pile_up(seen)
    return not large and seen.living >= 3 * row // 4 > 2 * fair(seen)


def _more_products(seen: Observation) -> bool:
    """Whether more matrix products were taken than one for the scores and one for the values."""
    q, _, v = seen.args[:3]
    return seen.flops >= 2.5 * score_count(seen) * (q.shape[-1] + v.shape[-1]) and not square_made(seen)


flash_attention_forward = Check(
    reference=flash.flash_attention_forward,
    names=("output: queries features", "logsumexp: queries"),
    cases=[
        with_a_key_of_zeros(random_case("n = 4, m = 9, tiles of 2 × 3", **tile_sizes(4, 9, 5, 2, False, 2, 3))),
        heads_split(
            random_case(
                "2×3 sequences, n = 5, m = 7, tiles of 4 × 3: ragged",
                batch=(2, 3),
                **tile_sizes(5, 7, 4, 3, False, 4, 3),
            )
        ),
        explicit_case("scores that climb and fall by 90 per key", *climbing_scores(4, 7, 90.0), False, 4, 3),
        explicit_case("all scores near −120", *low_scores(3, 5), False, 2, 3),
        explicit_case(
            "all scores near −30,000, float64", *low_scores(3, 5, level=-30_000.0, dtype=torch.float64), False, 2, 3
        ),
        random_case("causal, n = m = 7, tiles of 4 × 3", batch=(2,), **tile_sizes(7, 7, 4, 3, True, 4, 3)),
        random_case("causal, the last 6 of 13 positions", **tile_sizes(6, 13, 3, 5, True, 4, 5)),
        random_case("causal, 7 queries, 5 keys: rows that see nothing", **tile_sizes(7, 5, 4, 3, True, 3, 2)),
        random_case(
            "causal, 8 queries, 3 keys: a whole tile of queries sees nothing", **tile_sizes(8, 3, 5, 6, True, 4, 2)
        ),
        explicit_case("causal, scores that climb by 90 per key", *climbing_scores(6, 6, 90.0), True, 3, 2),
        random_case("tiles larger than the input", **tile_sizes(5, 6, 4, 3, False, 64, 64)),
        random_case(
            "causal, n = 6, m = 8, float64", batch=(2,), dtype=torch.float64, **tile_sizes(6, 8, 5, 3, True, 4, 3)
        ),
        counted_tiles(160, 160, 2, 2, 32, 8),
        counted_tiles(160, 170, 3, 2, 32, 9, causal=True),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(flash.flash_attention_forward),
        *slips(tiled, Tiles.keys_cut_with_block_q, Tiles.last_lost, Tiles.skipped_too_early),
        *slips(tiled, Tiles.skipped_from_top_left, Tiles.ends_at_last_position, Tiles.early_unmasked),
        *slips(tiled, Diagonal.aligned_per_tile, Diagonal.offset_turned_round, Diagonal.offset_never_negative),
        *slips(tiled, Diagonal.ignored),
        Tiles.whole.made(tiled, cost=square_made),
        Tiles.whole_rows.made(tiled, cost=stripe_made),
        Tiles.all_kept.made(tiled, cost=tiles_pile_up),
        Tiles.row_kept.made(tiled, cost=row_piles_up),
        scores_computed_twice=Wrong(scored_twice, cost=_more_products),
        no_rescale_accumulator=tiled(old_acc=lambda acc, alpha: acc),
        no_rescale_sum=tiled(old_sum=lambda l_i, alpha: l_i),
        no_rescale_at_all=tiled(rescale=lambda old, new: 1.0),
        wrong_factor=tiled(rescale=lambda old, new: torch.exp(new - old)),
        wrong_factor_later=tiled(rescale=lambda old, new: torch.exp(new - old).masked_fill(old == -math.inf, 0.0)),
        each_normalised=of_each_tile(lambda outs, lses: (outs.sum(0), lses.logsumexp(0))),
        averaged=of_each_tile(lambda outs, lses: (outs.mean(0), lses.logsumexp(0))),
        last_tile_alone=of_each_tile(lambda outs, lses: (outs[-1], lses[-1])),
        divided_at_every_tile=tiled(gathered=lambda acc, l_i: acc / l_i, divide=lambda acc, l_i: acc),
        never_normalised=tiled(divide=lambda acc, l_i: acc),
        divided_by_0=tiled(divide=lambda acc, l_i: acc / l_i),
        state_carried_over=Wrong(tiled(starts_anew=lambda at: False), raises="RuntimeError"),
        maximum_from_0=tiled(start=0.0),
        one_maximum_for_a_tile=tiled(largest=lambda s, unhidden: s.amax((-2, -1), keepdim=True)),
        maximum_of_hidden=tiled(
            largest=lambda s, unhidden: unhidden.amax(-1, keepdim=True), divide=lambda acc, l_i: acc / l_i
        ),
        no_maximum=tiled(shift=torch.zeros_like, rescale=lambda old, new: 1.0, lse=lambda m_i, l_i: torch.log(l_i)),
        low_scores_masked=tiled(shift=lambda m_new: m_new.masked_fill(m_new < -1e4, 0.0)),
        minus_infinity_twice=tiled(shift=lambda m_new: m_new, divide=lambda acc, l_i: acc / l_i),
        minus_infinity_twice_in_loop=tiled(shift=lambda m_new: m_new, end=last_seen),
        in_float32=in_float32,
        lse_in_float32=lse_in_float32,
        zeros_for_empty=tiled(score=zeros_hidden),
        filled_up_with_zeros=tiled(fill=lambda x, block_k: F.pad(x, (0, 0, 0, -x.shape[-2] % block_k))),
        as_wide_as_queries=Wrong(tiled(join=as_wide_as_q), raises="RuntimeError"),
        positions_of_a_full_tile=Wrong(tiled(hidden=in_a_full_tile), raises="RuntimeError"),
        only_one_tile_masked=tiled(masked=lambda at: at.columns.start <= at.rows.start + at.offset < at.columns.stop),
        walk_beyond_last_key=Wrong(tiled(end=lambda at: at.rows.start + at.block_q + at.offset), raises="IndexError"),
        from_top_left=tiled(hidden=lambda i, j, at: j > i),
        hides_itself=tiled(hidden=lambda i, j, at: j >= i + at.offset),
        shows_next=tiled(hidden=lambda i, j, at: j > i + at.offset + 1),
        hides_past=tiled(hidden=lambda i, j, at: j < i + at.offset),
        hidden_scores_0=tiled(never=0.0),
        large_negative=tiled(never=-1e9),
        large_negative_skipped=tiled(never=-1e9, end=last_seen),
        no_scale=tiled(score=scaled_by(lambda at: 1.0)),
        scaled_twice=tiled(score=scaled_by(lambda at: 1 / at.d)),
        scaled_in_every_tile=tiled(score=scaled_by(lambda at: at.d ** (-0.5 * (1 + at.columns.start // at.block_k)))),
        scaled_by_tile=tiled(score=scaled_by(lambda at: at.block_k**-0.5)),
        scaled_by_values=tiled(score=scaled_by(lambda at: at.d_v**-0.5)),
        lse_log_l=tiled(lse=lambda m_i, l_i: torch.log(l_i)),
        lse_m_plus_l=tiled(lse=lambda m_i, l_i: m_i + l_i),
        lse_m_minus_log_l=tiled(lse=lambda m_i, l_i: m_i - torch.log(l_i)),
        lse_base_2=tiled(lse=lambda m_i, l_i: (m_i + torch.log(l_i)) / math.log(2)),
        lse_maximum=tiled(lse=lambda m_i, l_i: m_i),
    ),
    forbids=NO_FUSED_ATTENTION,
    within=WITHIN,
)
