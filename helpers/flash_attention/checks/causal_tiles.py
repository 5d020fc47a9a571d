"""The check of `causal_tiles`."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, WHOLE, comes_as_float
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import flash
from .flash import _dense, score_count, square_made, tile_sizes, tiled, tiled_with_slip

__all__ = ["causal_tiles"]

causal_tiles_count = Check(
    exercise="causal_tiles",
    reference=flash.causal_tiles,
    cases=[
        explicit_case("n = m = 12, tiles of 4 × 4", 12, 12, 4, 4),
        explicit_case("n = m = 12, tiles of 4 × 2", 12, 12, 4, 2),
        explicit_case("n = m = 12, tiles of 2 × 4", 12, 12, 2, 4),
        explicit_case("n = m = 11, tiles of 4 × 3: ragged", 11, 11, 4, 3),
        explicit_case("the last 7 of 11 positions, tiles of 2 × 3", 7, 11, 2, 3),
        explicit_case("13 queries, 6 keys, tiles of 3 × 2", 13, 6, 3, 2),
        explicit_case("n = m = 1024, tiles of 128 × 64", 1024, 1024, 128, 64),
    ],
    within=(0.0, 0.0),
    properties=[WHOLE],
    misconceptions=wrong_answers(
        __file__,
        comes_as_float(flash.causal_tiles),
        all_tiles=lambda n, m, block_q, block_k: -(-n // block_q) * -(-m // block_k),
        half_all_tiles=lambda n, m, block_q, block_k: -(-n // block_q) * -(-m // block_k) // 2,
        tiles_on_diagonal_left_out=lambda n, m, block_q, block_k: sum(
            max(0, min(i + 1 + m - n, m)) // block_k for i in range(0, n, block_q)
        ),
        judged_by_tiles_first_query=lambda n, m, block_q, block_k: sum(
            -(-max(0, i + 1 + m - n) // block_k) for i in range(0, n, block_q)
        ),
        positions_counted_from_top_left=lambda n, m, block_q, block_k: sum(
            -(-min(i + block_q, n, m) // block_k) for i in range(0, n, block_q)
        ),
        t_t_1_over_2=lambda n, m, block_q, block_k: -(-n // block_q) * (-(-n // block_q) + 1) // 2,
        allowed_pairs_divided_by_size_tile=lambda n, m, block_q, block_k: (
            -(-sum(max(0, min(i + 1 + m - n, m)) for i in range(n)) // (block_q * block_k))
        ),
        short_tiles_not_counted=lambda n, m, block_q, block_k: sum(
            min(max(0, i + block_q + m - n), m) // block_k for i in range(0, n // block_q * block_q, block_q)
        ),
        one_tile_too_many_where_something_seen=lambda n, m, block_q, block_k: sum(
            min(seen // block_k + 1, -(-m // block_k)) if (seen := max(0, min(i + block_q, n) + m - n)) else 0
            for i in range(0, n, block_q)
        ),
        last_tile_queries_not_cut_short=lambda n, m, block_q, block_k: sum(
            -(-max(0, i + block_q + m - n) // block_k) for i in range(0, n, block_q)
        ),
        offset_m_minus_n_rounded_by_itself=lambda n, m, block_q, block_k: sum(
            max(0, min(-(-min(i + block_q, n) // block_k) - (n - m) // block_k, -(-m // block_k)))
            for i in range(0, n, block_q)
        ),
        remainder_m_minus_n_lost=lambda n, m, block_q, block_k: sum(
            max(0, min(-(-min(i + block_q, n) // block_k) + (m - n) // block_k, -(-m // block_k)))
            for i in range(0, n, block_q)
        ),
        staircase_whole_tiles_whatever_their=lambda n, m, block_q, block_k: sum(
            min(row + 1 + max(0, -(-m // block_k) - -(-n // block_q)), -(-m // block_k))
            for row in range(-(-n // block_q))
        ),
        last_keys_number_taken_number_keys=lambda n, m, block_q, block_k: sum(
            -(-max(0, min(i + block_q, n) - 1 + m - n) // block_k) for i in range(0, n, block_q)
        ),
        one_tile_too_many=lambda n, m, block_q, block_k: sum(
            min(max(0, min(i + block_q, n) + m - n) // block_k + 1, -(-m // block_k)) for i in range(0, n, block_q)
        ),
        negative_number_tiles=lambda n, m, block_q, block_k: sum(
            -(-(min(i + block_q, n) + m - n) // block_k) for i in range(0, n, block_q)
        ),
        tiles_that_skipped=lambda n, m, block_q, block_k: (
            -(-n // block_q) * -(-m // block_k)
            - sum(-(-max(0, min(i + block_q, n) + m - n) // block_k) for i in range(0, n, block_q))
        ),
    ),
)


def skipping_tiles(batch: tuple[int, ...], n: int, m: int, d: int, d_v: int, block_q: int, block_k: int) -> Case:
    """A causal case whose FLOPs are those of the tiles that must be visited."""
    tile = 2 * block_q * block_k * (d + d_v + 1)  # 1 more: the sums, taken as a product with ones
    return random_case(
        f"causal, n = {n}, m = {m}, tiles of {block_q} × {block_k}: skipped tiles cost nothing",
        batch=batch,
        **tile_sizes(n, m, d, d_v, True, block_q, block_k),
        max_flops=math.prod(batch) * flash.causal_tiles(n, m, block_q, block_k) * tile,
        max_elements=2 * math.prod(batch) * max(n, m) * max(d, d_v),
    )


def _nothing_skipped(seen: Observation) -> bool:
    """Whether the products of a causal pass suffice for all pairs."""
    q, _, v, causal = seen.args[:4]
    return causal and seen.flops >= 2 * score_count(seen) * (q.shape[-1] + v.shape[-1]) and not square_made(seen)


def _pairs(seen: Observation, keys: int = 0, tiles: int = 0) -> int:
    """The pairs of all tiles that are visited, by walks that go on for so many keys, or whole tiles, too many."""
    q, k, _, _, block_q, block_k = seen.args
    n, m = q.shape[-2], k.shape[-2]
    ends = ((i, min(i + block_q, n)) for i in range(0, n, block_q))
    walked = ((stop - i, tiles - (-max(0, stop + m - n + keys) // block_k)) for i, stop in ends)
    return math.prod(q.shape[:-2]) * sum(rows * min(m, count * block_k) for rows, count in walked)


def _took(seen: Observation, scored: int, mixed: int) -> bool:
    """Whether the FLOPs of a causal pass are those of so many scores, and of values for so many pairs."""
    q, _, v, causal = seen.args[:4]
    return causal and seen.flops == 2 * (scored * q.shape[-1] + mixed * v.shape[-1])


def _scores_of_all_tiles(seen: Observation) -> bool:
    """Whether all scores were made, and values were mixed in the visited tiles alone."""
    return _took(seen, score_count(seen), _pairs(seen))


def _scores_of_the_first_hidden_tiles(seen: Observation) -> bool:
    """Whether a tile more was scored in each row of tiles, and values were mixed in the visited tiles alone."""
    return _took(seen, _pairs(seen, tiles=1), _pairs(seen))


def _one_tile_too_many(seen: Observation) -> bool:
    """Whether the FLOPs are those of a walk that ends one key too late."""
    return _took(seen, _pairs(seen, keys=1), _pairs(seen, keys=1))


skipped_tiles = Check(
    exercise="flash_attention_forward",
    reference=flash.flash_attention_forward,
    names=("output: queries features", "logsumexp: queries"),
    cases=[
        skipping_tiles((), 24, 24, 4, 3, 8, 4),
        skipping_tiles((2,), 24, 26, 3, 5, 6, 4),
        skipping_tiles((), 30, 17, 4, 2, 6, 5),
        random_case("not causal: nothing is skipped", **tile_sizes(9, 14, 4, 3, False, 4, 3)),
    ],
    misconceptions=wrong_answers(
        __file__,
        every_tile_computed_then_hidden=Wrong(
            lambda q, k, v, causal=False, block_q=64, block_k=64: tiled_with_slip(q, k, v, causal, block_q, block_k),
            cost=_nothing_skipped,
        ),
        one_tile_too_many_where_it_begins_right=Wrong(tiled("one tile too many"), cost=_one_tile_too_many),
        tiles_skipped_after_their_scores_were=Wrong(tiled("skipped late"), cost=_scores_of_all_tiles),
        stopped_after_scores_first_hidden_tile=Wrong(tiled("stopped late"), cost=_scores_of_the_first_hidden_tiles),
        n_m_matrix_memory=Wrong(
            lambda q, k, v, causal=False, block_q=64, block_k=64: _dense(q, k, v, causal), cost=square_made
        ),
        tiles_skipped_too_early=tiled("skipped too early"),
        visited_tiles_left_without_mask=lambda q, k, v, causal=False, block_q=64, block_k=64: _unmasked(
            q, k, v, causal, block_q, block_k
        ),
        tiles_that_begin_before_queries_left=tiled("early tiles unmasked"),
        last_position_taken_end=tiled("ends at the last position"),
        skipped_from_top_left=tiled("walk from the top left"),
        causal_even_where_it_isnt_asked=lambda q, k, v, causal=False, block_q=64, block_k=64: tiled_with_slip(
            q, k, v, True, block_q, block_k
        ),
    ),
    forbids=NO_FUSED_ATTENTION,
)


def _unmasked(q, k, v, causal, block_q, block_k) -> tuple[Tensor, Tensor]:
    """Each tile of queries against the keys that its last query sees."""
    n, m = q.shape[-2], k.shape[-2]
    ends = [(i, min(i + block_q, n)) for i in range(0, n, block_q)]
    reach = [max(0, stop + m - n) if causal else m for _, stop in ends]
    reach = [min(-(-keys // block_k) * block_k, m) for keys in reach]
    parts = [
        _dense(q[..., i:stop, :], k[..., :keys, :], v[..., :keys, :], False) for (i, stop), keys in zip(ends, reach)
    ]
    return torch.cat([out for out, _ in parts], dim=-2), torch.cat([lse for _, lse in parts], dim=-1)


causal_tiles = CheckGroup("causal_tiles", causal_tiles_count, skipped_tiles)
