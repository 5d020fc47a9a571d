"""How many tiles a causal pass visits, and a tiled pass that leaves out the others."""

import math
from collections.abc import Callable

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION
from helpers.engine.cases import Case, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import flash
from .flash import Tiles, last_seen, score_count, square_made, tile_sizes, tiled

__all__ = ["causal_tiles"]


def up(a: int, b: int) -> int:
    return -(-a // b)


def each_row(tiles: Callable) -> Callable:
    """tiles: how many tiles of `size` keys the queries i to end − 1 visit."""
    return lambda n, m, block_q, block_k: sum(
        tiles(i, min(i + block_q, n), n, m, block_k) for i in range(0, n, block_q)
    )


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
    misconceptions=wrong_answers(
        __file__,
        area=lambda n, m, block_q, block_k: sum(max(0, i + 1 + m - n) for i in range(n)) // (block_q * block_k),
        all_tiles=lambda n, m, block_q, block_k: up(n, block_q) * up(m, block_k),
        half_of_all=lambda n, m, block_q, block_k: up(n, block_q) * up(m, block_k) // 2,
        diagonal_left_out=each_row(lambda i, end, n, m, size: max(0, i + 1 + m - n) // size),
        by_first_query=each_row(lambda i, end, n, m, size: up(max(0, i + 1 + m - n), size)),
        from_top_left=each_row(lambda i, end, n, m, size: up(min(end, m), size)),
        triangle=lambda n, m, block_q, block_k: up(n, block_q) * (up(n, block_q) + 1) // 2,
        pairs_by_size=lambda n, m, block_q, block_k: up(
            sum(max(0, i + m - n) for i in range(1, n + 1)), block_q * block_k
        ),
        short_not_counted=lambda n, m, block_q, block_k: sum(
            max(0, end + m - n) // block_k for end in range(block_q, n + 1, block_q)
        ),
        one_more_where_seen=each_row(
            lambda i, end, n, m, size: min((end + m - n) // size + 1, up(m, size)) if end + m > n else 0
        ),
        last_not_cut=lambda n, m, block_q, block_k: sum(
            up(max(0, i + block_q + m - n), block_k) for i in range(0, n, block_q)
        ),
        offset_rounded=each_row(lambda i, end, n, m, size: max(0, min(up(end, size) - (n - m) // size, up(m, size)))),
        remainder_lost=each_row(lambda i, end, n, m, size: max(0, min(up(end, size) + (m - n) // size, up(m, size)))),
        staircase=lambda n, m, block_q, block_k: sum(
            min(row + 1 + max(0, up(m, block_k) - up(n, block_q)), up(m, block_k)) for row in range(up(n, block_q))
        ),
        last_key_not_counted=each_row(lambda i, end, n, m, size: up(max(0, end - 1 + m - n), size)),
        one_more=each_row(lambda i, end, n, m, size: min(max(0, end + m - n) // size + 1, up(m, size))),
        negative=each_row(lambda i, end, n, m, size: up(end + m - n, size)),
        skipped=each_row(lambda i, end, n, m, size: up(m, size) - up(max(0, end + m - n), size)),
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
        *slips(tiled, Tiles.skipped_too_early, Tiles.skipped_from_top_left),
        *slips(tiled, Tiles.early_unmasked, Tiles.ends_at_last_position),
        Tiles.whole.made(tiled, cost=square_made),
        computed_then_hidden=Wrong(tiled(), cost=_nothing_skipped),
        one_key_too_far=Wrong(tiled(end=lambda at: last_seen(at, 1)), cost=_one_tile_too_many),
        skipped_late=Wrong(tiled(unless_hidden="skip"), cost=_scores_of_all_tiles),
        stopped_late=Wrong(tiled(unless_hidden="stop"), cost=_scores_of_the_first_hidden_tiles),
        no_mask=tiled(end=last_seen, masked=lambda at: False),
        always_causal=lambda q, k, v, causal=False, block_q=64, block_k=64: tiled()(q, k, v, True, block_q, block_k),
    ),
    forbids=NO_FUSED_ATTENTION,
)

causal_tiles = CheckGroup("causal_tiles", causal_tiles_count, skipped_tiles)
