"""The check of `flash_attention_forward`."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, power_before_division
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import flash
from .flash import (
    _dense,
    _fair,
    _finish,
    _hidden,
    _hidden_scores,
    _step,
    score_count,
    square_made,
    tile_sizes,
    tiled,
    tiled_with_slip,
)

__all__ = ["flash_attention_forward"]

WITHIN = {torch.float32: (1e-3, 2e-4), torch.float64: (1e-9, 1e-11)}
"""Scores of some hundred have lost digits in float32 before the softmax, and differently with every order of the sums."""


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
    """The same numbers in views: rows of all heads lie side by side in memory, as in heads that were split off and transposed."""
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
    """Many tiles, in long rows. Twice the largest input is enough for every tensor, and one product of each kind for the scores and values. All
    that is held at one time is less than one row of tiles: they don't pile up."""
    words = f"{'causal, ' * causal}n = {n}, m = {m}, tiles of {block_q} × {block_k}: counted"
    return random_case(
        words,
        **tile_sizes(n, m, d, d_v, causal, block_q, block_k),
        max_flops=5 * n * m * (d + d_v) // 2,
        max_elements=2 * max(n, m) * max(d, d_v),
        max_living=3 * block_q * m // 4,
    )


def in_float32(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    out, lse = tiled_with_slip(q, k, v, causal, block_q, block_k)
    return out.float(), lse.float()


def lse_in_float32(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    out, lse = tiled_with_slip(q, k, v, causal, block_q, block_k)
    return out, lse.float()


def all_keys_of_a_stripe(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    n, m = q.shape[-2], k.shape[-2]
    parts = []
    for i in range(0, n, block_q):
        rows = q[..., i : i + block_q, :]
        hidden = torch.ones(rows.shape[-2], m, dtype=torch.bool).triu(m - n + i + 1) & torch.tensor(causal)
        scores = (rows @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        parts.append((scores.softmax(-1).nan_to_num(0.0) @ v, scores.logsumexp(-1)))
    return torch.cat([out for out, _ in parts], dim=-2), torch.cat([lse for _, lse in parts], dim=-1)


def tiles_kept(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    """All tiles of scores first, and the walk afterwards."""
    n, m = q.shape[-2], k.shape[-2]
    places = [
        (slice(i, min(i + block_q, n)), slice(j, min(j + block_k, m)))
        for i in range(0, n, block_q)
        for j in range(0, m, block_k)
    ]
    tiles = {}
    for rows, columns in places:
        s = q[..., rows, :] @ k[..., columns, :].mT / math.sqrt(q.shape[-1])
        tiles[rows.start, columns.start] = s.masked_fill(_hidden(rows, columns, m - n, ""), -math.inf) if causal else s
    walks = {}
    for rows, columns in places:
        new = torch.full_like(q[..., rows, :1], -math.inf), torch.zeros_like(q[..., rows, :1]), 0.0
        tile = tiles[rows.start, columns.start]
        walks[rows.start] = _step(*walks.get(rows.start, new), tile, v[..., columns, :], "")
    parts = [_finish(*walk, "") for walk in walks.values()]
    return torch.cat([out for out, _ in parts], dim=-2), torch.cat([lse for _, lse in parts], dim=-1)


def tiles_of_a_row_kept(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    """All tiles of scores that a tile of queries meets, then the walk over them."""
    n, m, parts = q.shape[-2], k.shape[-2], []
    for i in range(0, n, block_q):
        rows, tiles = slice(i, min(i + block_q, n)), []
        for j in range(0, m, block_k):
            columns = slice(j, min(j + block_k, m))
            s = q[..., rows, :] @ k[..., columns, :].mT / math.sqrt(q.shape[-1])
            tiles.append(s.masked_fill(_hidden(rows, columns, m - n, ""), -math.inf) if causal else s)
        walk = torch.full_like(q[..., rows, :1], -math.inf), torch.zeros_like(q[..., rows, :1]), 0.0
        for tile, values in zip(tiles, v.split(block_k, dim=-2)):
            walk = _step(*walk, tile, values, "")
        parts.append(_finish(*walk, ""))
    return torch.cat([out for out, _ in parts], dim=-2), torch.cat([lse for _, lse in parts], dim=-1)


def scored_twice(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    n, m, parts = q.shape[-2], k.shape[-2], []
    for i in range(0, n, block_q):
        rows, lse, out = slice(i, min(i + block_q, n)), torch.full_like(q[..., i : i + block_q, 0], -math.inf), 0.0
        for values in (False, True):  # first the logsumexp of the whole row, then the weights
            for j in range(0, m, block_k):
                columns = slice(j, min(j + block_k, m))
                s = q[..., rows, :] @ k[..., columns, :].mT / math.sqrt(q.shape[-1])
                s = s.masked_fill(_hidden(rows, columns, m - n, ""), -math.inf) if causal else s
                if values:
                    out = out + torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None]) @ v[..., columns, :]
                else:
                    lse = torch.logaddexp(lse, s.logsumexp(-1))
        parts.append((out, lse))
    return torch.cat([out for out, _ in parts], dim=-2), torch.cat([lse for _, lse in parts], dim=-1)


def _of_each_tile(q, k, v, causal, block_k) -> tuple[Tensor, Tensor]:
    """Output and logsumexp of every tile of keys by itself: (tiles, *batch, n, d_v), (tiles, *batch, n)."""
    scores, hidden = _hidden_scores(q, k, causal)
    scores = scores.masked_fill(hidden, -math.inf).split(block_k, dim=-1)
    outs = [s.softmax(-1).nan_to_num(0.0) @ part for s, part in zip(scores, v.split(block_k, dim=-2))]
    return torch.stack(outs), torch.stack([s.logsumexp(-1) for s in scores])


def normalised_per_tile(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    outs, lses = _of_each_tile(q, k, v, causal, block_k)
    return outs.sum(0), lses.logsumexp(0)


def averaged_tiles(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    outs, lses = _of_each_tile(q, k, v, causal, block_k)
    return outs.mean(0), lses.logsumexp(0)


def last_tile_alone(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    outs, lses = _of_each_tile(q, k, v, causal, block_k)
    return outs[-1], lses[-1]


def stripe_made(seen: Observation) -> bool:
    """Whether a tile of queries met all keys at once, or a tile of keys all queries."""
    (q, k), (block_q, block_k) = seen.args[:2], seen.args[-2:]
    stripe = min(block_q * k.shape[-2], block_k * q.shape[-2])
    return score_count(seen) > seen.largest >= math.prod(q.shape[:-2]) * stripe > _fair(seen)


def tiles_pile_up(seen: Observation) -> bool:
    """Whether as many numbers were held at one time as there are scores, and no tensor was larger than a tile or an input."""
    return not square_made(seen) and not stripe_made(seen) and seen.living >= score_count(seen) > 4 * _fair(seen)


def row_piles_up(seen: Observation) -> bool:
    """Whether about as many numbers were held at one time as a row (or a column) of tiles has, and far fewer than there are scores."""
    (q, k), (block_q, block_k) = seen.args[:2], seen.args[-2:]
    row = math.prod(q.shape[:-2]) * max(block_q * k.shape[-2], block_k * q.shape[-2])
    large = square_made(seen) or stripe_made(seen) or tiles_pile_up(seen)
    return not large and seen.living >= 3 * row // 4 > 2 * _fair(seen)


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
        explicit_case("scores that climb and fall by 90 a key", *climbing_scores(4, 7, 90.0), False, 4, 3),
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
        explicit_case("causal, scores that climb by 90 a key", *climbing_scores(6, 6, 90.0), True, 3, 2),
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
        no_rescale_accumulator=tiled("acc not rescaled"),
        no_rescale_sum=tiled("sum not rescaled"),
        no_rescale_at_all=tiled("nothing rescaled"),
        rescaled_by_wrong_factor=tiled("inverse"),
        rescaled_by_wrong_factor_from_second=tiled("inverse later"),
        every_tile_normalised_by_itself=normalised_per_tile,
        tiles_outputs_averaged=averaged_tiles,
        divided_by_sum_at_every_tile=tiled("divided at every tile"),
        never_normalised=tiled("not normalised"),
        only_last_tile_keys=last_tile_alone,
        state_carried_over_next_queries=Wrong(tiled("state kept"), raises="RuntimeError"),
        one_maximum_whole_tile=tiled("one maximum"),
        no_maximum_subtracted=tiled("no maximum"),
        buffers_float32_whatever_goes=in_float32,
        logsumexp_float32_whatever_goes=lse_in_float32,
        very_low_scores_taken_masked_ones=tiled("low scores"),
        zeros_taken_empty_slots=tiled("zeros hidden"),
        tiles_keys_cut_with_block_q=tiled("keys cut with block_q"),
        offset_that_never_negative=tiled("offset never negative"),
        offset_turned_round=tiled("offset turned round"),
        tiles_skipped_from_top_left=tiled("walk from the top left"),
        output_as_wide_as_queries=Wrong(tiled("as wide as q"), raises="RuntimeError"),
        positions_full_tile_queries=Wrong(tiled("positions of a full tile"), raises="RuntimeError"),
        only_one_tile_masked_each_row_tiles=tiled("one tile masked"),
        tiles_that_begin_before_queries_left=tiled("early tiles unmasked"),
        last_position_taken_end=tiled("ends at the last position"),
        scaled_by_width_values=tiled("scaled by d_v"),
        initial_maximum_0=tiled("from 0"),
        causal_mask_aligned_per_tile=tiled("aligned per tile"),
        causal_mask_from_top_left=tiled("from the top left"),
        causal_mask_that_hides_token_itself=tiled("without itself"),
        causal_mask_that_shows_next_token=tiled("one ahead"),
        causal_mask_that_hides_past=tiled("turned round"),
        causal_ignored=tiled("not causal"),
        hidden_scores_set_0=tiled("zero scores"),
        large_negative_number_place_minus=tiled("a large negative number"),
        large_negative_number_place_minus_2=tiled("a large negative number, skipping"),
        maximum_taken_over_hidden_scores=tiled("maximum first"),
        tiles_skipped_too_early=tiled("skipped too early"),
        minus_minus_minus=tiled("−∞ − −∞"),
        minus_minus_minus_inside_loop=tiled("−∞ − −∞, skipping"),
        with_0_divided_by_0=tiled("zero over zero"),
        last_short_tile_lost=tiled("short tile lost"),
        last_tile_filled_up_with_zeros=tiled("zeros"),
        no_scale=tiled("no scale"),
        scaled_twice=tiled("scaled twice"),
        scaled_again_every_tile=tiled("scaled again in every tile"),
        scaled_by_width_tile=tiled("scaled by the tile"),
        only_log_l_as_logsumexp=tiled("log l"),
        m_l_as_logsumexp=tiled("m + l"),
        m_minus_log_l_as_logsumexp=tiled("m − log l"),
        logsumexp_base_2=tiled("base 2"),
        walk_beyond_last_key=Wrong(tiled("beyond the last key"), raises="IndexError"),
        maximum_as_logsumexp=tiled("m"),
        n_m_matrix_memory=Wrong(
            lambda q, k, v, causal=False, block_q=64, block_k=64: _dense(q, k, v, causal), cost=square_made
        ),
        whole_row_or_column_tiles_at_once=Wrong(all_keys_of_a_stripe, cost=stripe_made),
        all_tiles_scores_kept=Wrong(tiles_kept, cost=tiles_pile_up),
        tiles_row_kept=Wrong(tiles_of_a_row_kept, cost=row_piles_up),
        scores_computed_twice=Wrong(scored_twice, cost=_more_products),
    ),
    forbids=NO_FUSED_ATTENTION,
    within=WITHIN,
)
