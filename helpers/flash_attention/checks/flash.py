"""Checks of the tiled forward pass. Values force every rescale; the largest tensor and the FLOPs show whether it is tiled at all."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, WHOLE, comes_as_float, power_before_division
from helpers.engine.observe import Observation

from .. import flash

__all__ = ["causal_tiles", "flash_attention_forward"]

WITHIN = {torch.float32: (1e-3, 2e-4), torch.float64: (1e-9, 1e-11)}
"""Scores of some hundred have lost digits in float32 before the softmax, and differently with every order of the sums."""

# ------------------------------------------------------------------------------------------------------------- inputs


def tile_sizes(n: int, m: int, d: int, d_v: int, causal: bool, block_q: int, block_k: int) -> dict:
    return {"n": n, "m": m, "d": d, "d_v": d_v, "causal": causal, "block_q": block_q, "block_k": block_k}


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
        RandomArg(lambda generator: near(of_queries * math.sqrt(d), generator)), RandomArg(lambda generator: near(of_keys, generator)),
        RandomArg(lambda generator: torch.randn(m, d_v, generator=generator)),
    )  # fmt: skip


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
    return random_case(words, **tile_sizes(n, m, d, d_v, causal, block_q, block_k),
                 max_flops=5 * n * m * (d + d_v) // 2, max_elements=2 * max(n, m) * max(d, d_v), max_living=3 * block_q * m // 4)  # fmt: skip


# -------------------------------------------------------------------------------------------------- the slips, in tiles


def _hidden(rows, columns, offset, slip) -> Tensor:
    """Which scores of a tile are hidden: key j > query i + offset."""
    i, j = torch.arange(rows.start, rows.stop)[:, None] + offset, torch.arange(columns.start, columns.stop)
    return {
        "aligned per tile": j - columns.start > i - offset - rows.start, "from the top left": j > i - offset,
        "offset never negative": j > i + max(-offset, 0), "offset turned round": j > i - 2 * offset, "without itself": j >= i, "one ahead": j > i + 1, "turned round": j < i, "not causal": torch.zeros_like(j > i),
    }.get(slip, j > i)  # fmt: skip


def _is_masked(first, columns, slip) -> bool:
    """Whether the tile of these keys gets a mask, where the tile's first query stands at position `first`."""
    if slip == "one tile masked":
        return columns.start <= first < columns.stop
    return columns.start >= first or slip != "early tiles unmasked"


def _step(m_i, l_i, acc, s, v, slip="", top=None) -> tuple[Tensor, Tensor, Tensor]:
    """One tile of scores s and values v, with one thing wrong. top: the maximum of each row, where it isn't that of s."""
    m_new = torch.maximum(m_i, s.amax(-1, keepdim=True) if top is None else top)
    unseen = m_new < -1e4 if slip == "low scores" else m_new == -math.inf
    shift = m_new if slip.startswith("−∞ − −∞") else m_new.masked_fill(unseen, 0.0)
    alpha = torch.exp(shift - m_i) if slip in ("inverse", "inverse later") else torch.exp(m_i - shift)
    alpha = alpha.masked_fill(m_i == -math.inf, 0.0) if slip == "inverse later" else alpha
    if slip == "no maximum":
        shift, alpha = torch.zeros_like(shift), torch.ones_like(alpha)
    p = torch.exp(s - shift)
    old_l = l_i if slip in ("sum not rescaled", "nothing rescaled") else alpha * l_i
    old_acc = acc if slip in ("acc not rescaled", "nothing rescaled") else alpha * acc
    l_new = old_l + p.sum(-1, keepdim=True)
    if slip == "divided at every tile":
        return m_new, l_new, (old_acc + p @ v) / l_new
    return m_new, l_new, old_acc + p @ v


def _finish(m_i, l_i, acc, slip) -> tuple[Tensor, Tensor]:
    kept = {
        "m + l": m_i + l_i,
        "log l": torch.log(l_i),
        "no maximum": torch.log(l_i),
        "m": m_i,
        "base 2": (m_i + torch.log(l_i)) / math.log(2),
        "m − log l": m_i - torch.log(l_i),
    }
    lse = kept.get(slip, m_i + torch.log(l_i))
    below = l_i if slip in ("−∞ − −∞", "zero over zero", "maximum first") else l_i.masked_fill(l_i == 0, 1.0)
    out = acc if slip in ("not normalised", "divided at every tile") else acc / below
    return out, lse.squeeze(-1)


def tiled_with_slip(q, k, v, causal, block_q, block_k, slip="") -> tuple[Tensor, Tensor]:
    """The tiled pass with one thing wrong, by the name of the slip."""
    n, m, d = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = {
        "no scale": 1.0, "scaled twice": 1 / d, "scaled by the tile": block_k**-0.5, "scaled by d_v": v.shape[-1] ** -0.5
    }.get(slip, d**-0.5)  # fmt: skip
    keys = m // block_k * block_k if slip == "short tile lost" else m
    k, v = (F.pad(x, (0, 0, 0, -m % block_k)) for x in (k, v)) if slip == "zeros" else (k, v)
    keys = k.shape[-2] if slip == "zeros" else keys
    parts = []
    for i in range(0, n, block_q):
        rows = slice(i, min(i + block_q, n))
        if i == 0 or slip != "state kept":
            l_i = torch.zeros_like(q[..., rows, :1])
            m_i, acc = torch.full_like(l_i, 0.0 if slip == "from 0" else -math.inf), l_i * v[..., :1, :]
        reach = min(keys, max(0, i + 1 + m - n)) if slip == "skipped too early" and causal else keys
        reach = i + block_q + m - n if slip == "beyond the last key" and causal else reach
        reach = min(keys, rows.stop + m - n + 1) if slip == "one tile too many" and causal else reach
        reach = min(keys, max(0, rows.stop + m - n)) if slip.endswith(", skipping") and causal else reach
        reach = min(keys, rows.stop) if slip == "walk from the top left" and causal else reach
        reach = min(keys, rows.stop - 1 + m - n) if slip == "ends at the last position" and causal else reach
        for j in range(0, reach, block_k):
            columns = slice(j, max(j, min(j + (block_q if slip == "keys cut with block_q" else block_k), keys)))
            times = 1 + j // block_k if slip == "scaled again in every tile" else 1
            s = scale**times * q[..., rows, :] @ k[..., columns, :].mT
            s = raw = s.masked_fill(s == 0, -math.inf) if slip == "zeros hidden" else s
            if causal and _is_masked(i + m - n, columns, slip):
                masked = slice(i, i + block_q) if slip == "positions of a full tile" else rows
                s = s.masked_fill(_hidden(masked, columns, m - n, slip), _never(slip))
            if slip == "skipped late" and (s == -math.inf).all():
                continue
            if slip == "stopped late" and (s == -math.inf).all():
                break
            top = (raw if slip == "maximum first" else s).amax((-2, -1) if slip == "one maximum" else -1, keepdim=True)
            m_i, l_i, acc = _step(m_i, l_i, acc, s, v[..., columns, :], slip, top)
        parts.append(_finish(m_i, l_i, acc, slip))
    out = torch.cat([out for out, _ in parts], dim=-2)
    return _as_wide_as_q(q, out, block_q) if slip == "as wide as q" else out, torch.cat(
        [lse for _, lse in parts], dim=-1
    )


def tiled(slip: str) -> Callable:
    """An answer that is right but for this slip of `tiled_with_slip`."""
    return lambda q, k, v, causal=False, block_q=64, block_k=64: tiled_with_slip(
        q, k, v, causal, block_q, block_k, slip
    )


def _as_wide_as_q(q, out, block_q) -> Tensor:
    room = torch.zeros_like(q)
    for i in range(0, q.shape[-2], block_q):
        room[..., i : i + block_q, :] = out[..., i : i + block_q, :]
    return room


def in_float32(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    out, lse = tiled_with_slip(q, k, v, causal, block_q, block_k)
    return out.float(), lse.float()


def lse_in_float32(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
    out, lse = tiled_with_slip(q, k, v, causal, block_q, block_k)
    return out, lse.float()


def _never(slip):
    return {"a large negative number": -1e9, "a large negative number, skipping": -1e9, "zero scores": 0.0}.get(
        slip, -math.inf
    )


def _hidden_scores(q, k, causal) -> tuple[Tensor, Tensor]:
    """All scores, scaled, and where a causal mask hides them."""
    n, m = q.shape[-2], k.shape[-2]
    hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1) & torch.tensor(causal)
    return q @ k.mT / math.sqrt(q.shape[-1]), hidden


def _dense(q, k, v, causal) -> tuple[Tensor, Tensor]:
    scores, hidden = _hidden_scores(q, k, causal)
    scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v, scores.logsumexp(-1)


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


# ----------------------------------------------------------------------------------------------------------- the checks


def score_count(seen: Observation) -> int:
    """How many scores there are in all, over all leading axes."""
    q, k = seen.args[:2]
    return q.numel() // q.shape[-1] * k.shape[-2]


def _fair(seen: Observation) -> int:
    """A size that nothing must reach: twice the largest input, or twice a tile."""
    batch = math.prod(seen.args[0].shape[:-2])
    return 2 * max(batch * math.prod(seen.args[-2:]), *(x.numel() for x in seen.args[:3]))


def square_made(seen: Observation) -> bool:
    """Whether a tensor of n × m elements was made, where that is far more than inputs and tiles have."""
    return seen.largest >= score_count(seen) > _fair(seen)


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


NEVER_MADE = (
    "You made a tensor with an entry for each of the n · m pairs: all scores, or a mask for all of them. Make scores and mask for one tile of "
    "block_q × block_k pairs at a time."
)

EARLY_TILES = (
    "You mask only tiles that begin at or after the position of the tile's first query. A tile of keys that begins before it may end after it. Mask every "
    "tile whose *last* key lies after that position."
)
LAST_POSITION = "Your walk over the keys ends before the key at the last query's own position, which is seen too. Add 1 to the end: `range` leaves its end out."

flash_attention_forward = Check(
    reference=flash.flash_attention_forward,
    names=("output: queries features", "logsumexp: queries"),
    cases=[
        with_a_key_of_zeros(random_case("n = 4, m = 9, tiles of 2 × 3", **tile_sizes(4, 9, 5, 2, False, 2, 3))),
        heads_split(random_case("2×3 sequences, n = 5, m = 7, tiles of 4 × 3: ragged", batch=(2, 3), **tile_sizes(5, 7, 4, 3, False, 4, 3))),
        explicit_case("scores that climb and fall by 90 a key", *climbing_scores(4, 7, 90.0), False, 4, 3),
        explicit_case("all scores near −120", *low_scores(3, 5), False, 2, 3),
        explicit_case("all scores near −30,000, float64", *low_scores(3, 5, level=-30_000.0, dtype=torch.float64), False, 2, 3),
        random_case("causal, n = m = 7, tiles of 4 × 3", batch=(2,), **tile_sizes(7, 7, 4, 3, True, 4, 3)),
        random_case("causal, the last 6 of 13 positions", **tile_sizes(6, 13, 3, 5, True, 4, 5)),
        random_case("causal, 7 queries, 5 keys: rows that see nothing", **tile_sizes(7, 5, 4, 3, True, 3, 2)),
        random_case("causal, 8 queries, 3 keys: a whole tile of queries sees nothing", **tile_sizes(8, 3, 5, 6, True, 4, 2)),
        explicit_case("causal, scores that climb by 90 a key", *climbing_scores(6, 6, 90.0), True, 3, 2),
        random_case("tiles larger than the input", **tile_sizes(5, 6, 4, 3, False, 64, 64)),
        random_case("causal, n = 6, m = 8, float64", batch=(2,), dtype=torch.float64, **tile_sizes(6, 8, 5, 3, True, 4, 3)),
        counted_tiles(160, 160, 2, 2, 32, 8), counted_tiles(160, 170, 3, 2, 32, 9, causal=True),
    ],
    misconceptions=[
        Misconception(
            "no rescale of the accumulator", tiled("acc not rescaled"),
            "When the maximum grows, the accumulator shrinks like the sum, since it is made of the same exponentials. Multiply it by the same "
            "factor, e^(m_i − m_new).",
        ),
        Misconception(
            "no rescale of the sum", tiled("sum not rescaled"),
            "You rescale the accumulator, but not the sum that it is divided by. Multiply both by the same factor, e^(m_i − m_new).",
        ),
        Misconception(
            "no rescale at all", tiled("nothing rescaled"),
            "Old terms were taken against the old maximum. Before you add new ones, multiply sum and accumulator by e^(m_i − m_new). (A factor "
            "that is computed after the maximum was overwritten is always 1.)",
        ),
        Misconception(
            "rescaled by the wrong factor", tiled("inverse"),
            "Your factor is upside down: a larger maximum makes old terms smaller, so it is at most 1. In the first tile yours is e^∞, and ∞ · "
            "0 is NaN. (Line 10 of algorithm 1 in the paper of FlashAttention-2 prints an inverse. It is a misprint.)",
        ),
        Misconception(
            "rescaled by the wrong factor from the second tile on", tiled("inverse later"),
            "Your factor is upside down: a larger maximum makes old terms smaller, so it is at most 1. (Line 10 of algorithm 1 in the paper of "
            "FlashAttention-2 prints an inverse. It is a misprint.)",
        ),
        Misconception(
            "every tile normalised by itself", normalised_per_tile,
            "A softmax over one tile sums to 1 whatever the other tiles hold, so your weights sum to the number of tiles. Divide once, at the "
            "end, by the sum over all tiles.",
        ),
        Misconception(
            "the tiles' outputs averaged", averaged_tiles,
            "A tile that holds most of the attention must count more. Add up the numerators Σ e^(s − m_i) v of all tiles, and divide once, at "
            "the end, by the sum.",
        ),
        Misconception(
            "divided by the sum at every tile", tiled("divided at every tile"),
            "The accumulator is a numerator. If it is divided in the loop, the next tile is added to something that is normalised already. "
            "Divide once, after the last tile.",
        ),
        Misconception(
            "never normalised", tiled("not normalised"),
            "After the last tile the accumulator holds Σ e^(s − m_i) v. Divided by ℓ_i = Σ e^(s − m_i) it becomes the output.",
        ),
        Misconception(
            "only the last tile of keys", last_tile_alone,
            "Maximum, sum and accumulator start again at every tile of keys. They must start once for each tile of queries.",
        ),
        Misconception(
            "state carried over to the next queries", tiled("state kept"),
            "Maximum, sum and accumulator belong to the rows of one tile of queries. Start all three afresh for every tile of queries: where "
            "the last tile is shorter, they don't even fit.",
            raises="RuntimeError",
        ),
        Misconception(
            "one maximum for a whole tile", tiled("one maximum"),
            "You take one maximum for all rows of a tile. In a row far below it all exponentials are 0. Take a maximum for each row.",
        ),
        Misconception(
            "no maximum subtracted", tiled("no maximum"),
            "In float32 e^500 is infinite, which ends in NaN, and e^−120 is 0. Subtract the running maximum of the row before the exponential.",
        ),
        Misconception(
            "buffers in float32 whatever goes in", in_float32,
            "`torch.empty` and `torch.zeros` make float32 tensors unless told otherwise, and float64 results are rounded. Output and logsumexp "
            "must have the dtype of q: `q.new_empty(…)`, or `dtype=q.dtype`.",
        ),
        Misconception(
            "the logsumexp in float32 whatever goes in", lse_in_float32,
            "The output has the dtype of q, but your logsumexp is float32. It must have the dtype of q too.",
        ),
        Misconception(
            "very low scores taken for masked ones", tiled("low scores"),
            "A score of −30,000 is a score, and where it is the largest of its row its exponential is 1. Only −∞ means masked: compare with −∞ itself.",
        ),
        Misconception(
            "zeros taken for empty slots", tiled("zeros hidden"),
            "A key may be at a right angle to the query, or all zeros: its score is 0, and it still gets its share. Which keys exist follows from their "
            "positions, not from the scores.",
        ),
        Misconception(
            "tiles of keys cut with block_q", tiled("keys cut with block_q"),
            "The walk over the keys goes in steps of block_k, and each of its tiles has block_k keys. With block_q some are counted twice or left out.",
        ),
        Misconception(
            "an offset that is never negative", tiled("offset never negative"),
            "With n > m the offset m − n is negative. You use 0 in its place, so queries see n − m keys too many. Keep the negative offset: the "
            "first queries see nothing.",
        ),
        Misconception(
            "the offset turned round", tiled("offset turned round"),
            "The n queries are the last n of the m positions, so query i stands at position i + (m − n). You put it at i + (n − m).",
        ),
        Misconception(
            "tiles skipped from the top left", tiled("walk from the top left"),
            "Your walk over the keys ends at key i, where i is the number of the tile's last query. This query stands at position i + (m − n), "
            "so the walk must go on to there.",
        ),
        Misconception(
            "an output as wide as the queries", tiled("as wide as q"),
            "The output is a mixture of values: its width is d_v, which need not be d.",
            raises="RuntimeError",
        ),
        Misconception(
            "positions for a full tile of queries", tiled("positions of a full tile"),
            "You make block_q positions for every tile of queries. The last tile may be shorter: it needs as many positions as it has rows.",
            raises="RuntimeError",
        ),
        Misconception(
            "only one tile masked in each row of tiles", tiled("one tile masked"),
            "The diagonal may cross several tiles of keys. Mask every tile that holds a key after the position of one of the queries.",
        ),
        Misconception(
            "tiles that begin before the queries left unmasked", tiled("early tiles unmasked"), EARLY_TILES,
        ),
        Misconception(
            "the last position taken for the end", tiled("ends at the last position"), LAST_POSITION,
        ),
        Misconception(
            "scaled by the width of the values", tiled("scaled by d_v"),
            "A score is a dot product of a query and a key, with d terms: divide by √d. The width of the values plays no role.",
        ),
        Misconception(
            "initial maximum 0", tiled("from 0"),
            "Where all scores are far below 0, a maximum of 0 makes every exponential 0, as if no key had been seen. Start below every number.",
        ),
        Misconception(
            "causal mask aligned per tile", tiled("aligned per tile"),
            "Your mask starts a new diagonal in each tile. Compare positions in the sequence: row r of the tile is query i + r, at position i + "
            "r + (m − n), and column c is key j + c.",
        ),
        Misconception(
            "causal mask from the top left", tiled("from the top left"),
            "You put query i at position i. The n queries are the last n of the m positions, so it stands at i + (m − n).",
        ),
        Misconception(
            "a causal mask that hides the token itself", tiled("without itself"),
            "A token sees itself: hide only keys after its position, j > i + (m − n).",
        ),
        Misconception(
            "a causal mask that shows the next token", tiled("one ahead"),
            "The diagonal is one too far to the right: the last key that query i may see is the one at its own position.",
        ),
        Misconception(
            "a causal mask that hides the past", tiled("turned round"),
            "You hide the keys before the query and show those after it. Hide the keys *after* the query.",
        ),
        Misconception(
            "causal ignored", tiled("not causal"),
            "With causal=True a query sees no key after its own position: set these scores to −∞ before the maximum is taken.",
        ),
        Misconception(
            "hidden scores set to 0", tiled("zero scores"),
            "A score of 0 is not small: e^0 = 1. Set hidden scores to −∞.",
        ),
        Misconception(
            "a large negative number in place of −∞", tiled("a large negative number"),
            "A row that sees nothing then has the same score everywhere, and its softmax is a mean of values that are hidden. With −∞ its sum "
            "is 0: set its output to 0.",
        ),
        Misconception(
            "a large negative number in place of −∞, and hidden tiles skipped", tiled("a large negative number, skipping"),
            "A row that sees nothing then has the same score everywhere, and its softmax is a mean of values that are hidden. With −∞ its sum "
            "is 0: set its output to 0.",
        ),
        Misconception(
            "the maximum taken over hidden scores", tiled("maximum first"),
            "You take the maximum before you hide. A hidden score may be far above all visible ones: then all exponentials are 0, and 0 / 0 is "
            "NaN. Hide first, then take the maximum.",
        ),
        Misconception(
            "tiles skipped too early", tiled("skipped too early"),
            "You stop at the last key that the tile's *first* query sees. Its last query sees more. Skip a tile only if no query of the tile "
            "sees any of its keys.",
        ),
        Misconception(
            "−∞ minus −∞", tiled("−∞ − −∞"),
            "As long as a row has seen nothing its maximum is −∞, and −∞ − (−∞) is NaN. Subtract 0 there instead: e^(−∞ − 0) is the 0 you want.",
        ),
        Misconception(
            "−∞ minus −∞ inside the loop", tiled("−∞ − −∞, skipping"),
            "As long as a row has seen nothing its maximum is −∞, and −∞ − (−∞) is NaN, in the exponent and in the factor. Subtract 0 there instead.",
        ),
        Misconception(
            "0 divided by 0", tiled("zero over zero"),
            "A row that sees nothing has sum 0 and accumulator 0, and 0 / 0 is NaN. Divide by 1 in those rows: their output is then 0.",
        ),
        Misconception(
            "the last short tile lost", tiled("short tile lost"),
            "You leave out the last keys. m need not be a multiple of block_k: the last tile of keys is only shorter.",
        ),
        Misconception(
            "the last tile filled up with zeros", tiled("zeros"),
            "A key of zeros has score 0, and e^0 = 1, so it gets a weight. Scores beyond the last key must be −∞, or not be there.",
        ),
        Misconception(
            "no scale", tiled("no scale"),
            "You don't divide the scores by √d. Do so in every tile.",
        ),
        Misconception(
            "scaled twice", tiled("scaled twice"),
            "The queries and the scores were both divided by √d. Once is right.",
        ),
        Misconception(
            "scaled again in every tile", tiled("scaled again in every tile"),
            "The queries are divided by √d inside the loop over the keys, and the next tile finds them divided already. Scale the scores, or the queries once "
            "before that loop.",
        ),
        Misconception(
            "scaled by the width of a tile", tiled("scaled by the tile"),
            "A dot product has d terms, however wide the tile is: divide by √d.",
        ),
        Misconception(
            "only log ℓ as logsumexp", tiled("log l"),
            "Only the logsumexp is wrong. The sum was taken after the maximum was subtracted. Add the maximum again: lse = m_i + log ℓ_i.",
        ),
        Misconception(
            "m + ℓ as logsumexp", tiled("m + l"),
            "Only the logsumexp is wrong: you return m_i + ℓ_i. It is m_i + log ℓ_i.",
        ),
        Misconception(
            "m − log ℓ as logsumexp", tiled("m − log l"),
            "Only the logsumexp is wrong. Add the logarithm, don't subtract it: lse = m_i + log ℓ_i.",
        ),
        Misconception(
            "the logsumexp in base 2", tiled("base 2"),
            "You return a logarithm to base 2, log₂ Σ e^s. Return the natural one: multiply it by log 2.",
        ),
        Misconception(
            "a walk beyond the last key", tiled("beyond the last key"),
            "The last tile of queries may be short, and for it i + block_q + (m − n) is larger than m. A tile of keys that begins at m or later "
            "is empty and has no maximum. End the walk at `min(m, …)`.",
            raises="IndexError",
        ),
        power_before_division(flash.flash_attention_forward),
        Misconception(
            "the maximum as logsumexp", tiled("m"),
            "Only the logsumexp is wrong: you return the maximum. The logsumexp is m_i + log ℓ_i.",
        ),
        Misconception(
            "an n × m matrix in memory",
            lambda q, k, v, causal=False, block_q=64, block_k=64: _dense(q, k, v, causal), NEVER_MADE, cost=square_made,
        ),
        Misconception(
            "a whole row or column of tiles at once", all_keys_of_a_stripe,
            "You made scores, or a mask, for one tile of queries and all keys (or one tile of keys and all queries). That grows with the "
            "sequence and no longer fits on chip. Walk over the other side in tiles too.",
            cost=stripe_made,
        ),
        Misconception(
            "all tiles of scores kept", tiles_kept,
            "No tensor is larger than a tile, but you keep the tiles, and all tiles together are the n × m scores again. Use a tile up before the "
            "next one is made.",
            cost=tiles_pile_up,
        ),
        Misconception(
            "the tiles of a row kept", tiles_of_a_row_kept,
            "No tensor is larger than a tile, but you keep tiles until a whole row of them is there: block_q × m numbers, which grow with the "
            "sequence. Use a tile up before the next one is made. With the running maximum one tile at a time is enough.",
            cost=row_piles_up,
        ),
        Misconception(
            "the scores computed twice", scored_twice,
            "You walk over the keys once for the logsumexp and again for the values. With a running maximum that rescales what was gathered, "
            "one walk is enough.",
            cost=_more_products,
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
    within=WITHIN,
)  # fmt: skip

# --------------------------------------------------------------------------------------------- tiles that are skipped


def _ceil(a, b):
    return -(-a // b)


causal_tiles_count = Check(
    exercise="causal_tiles",
    reference=flash.causal_tiles,
    cases=[
        explicit_case("n = m = 12, tiles of 4 × 4", 12, 12, 4, 4), explicit_case("n = m = 12, tiles of 4 × 2", 12, 12, 4, 2),
        explicit_case("n = m = 12, tiles of 2 × 4", 12, 12, 2, 4), explicit_case("n = m = 11, tiles of 4 × 3: ragged", 11, 11, 4, 3),
        explicit_case("the last 7 of 11 positions, tiles of 2 × 3", 7, 11, 2, 3), explicit_case("13 queries, 6 keys, tiles of 3 × 2", 13, 6, 3, 2),
        explicit_case("n = m = 1024, tiles of 128 × 64", 1024, 1024, 128, 64),
    ],
    within=(0.0, 0.0),
    properties=[WHOLE],
    misconceptions=[
        Misconception(
            "all tiles", lambda n, m, block_q, block_k: -(-n // block_q) * -(-m // block_k),
            "You count all tiles. Those that lie entirely above the diagonal have no allowed pair: leave them out.",
        ),
        Misconception(
            "half of all tiles", lambda n, m, block_q, block_k: -(-n // block_q) * -(-m // block_k) // 2,
            "Half of the pairs is not half of the tiles: a tile that the diagonal crosses is visited as a whole, and with n ≠ m the diagonal "
            "lies elsewhere. Count, for each row of tiles, the tiles that its last query sees.",
        ),
        Misconception(
            "tiles on the diagonal left out",
            lambda n, m, block_q, block_k: sum(
                max(0, min(i + 1 + m - n, m)) // block_k for i in range(0, n, block_q)
            ),
            "You count only tiles in which every pair is allowed. A tile must be visited if one of its pairs is allowed.",
        ),
        Misconception(
            "judged by the tile's first query",
            lambda n, m, block_q, block_k: sum(-(-max(0, i + 1 + m - n) // block_k) for i in range(0, n, block_q)),
            "The last query of a tile sees furthest. It decides which tiles of keys are visited.",
        ),
        Misconception(
            "positions counted from the top left",
            lambda n, m, block_q, block_k: sum(-(-min(i + block_q, n, m) // block_k) for i in range(0, n, block_q)),
            "The n queries are the last n of the m positions: query i stands at position i + m − n and sees i + m − n + 1 keys.",
        ),
        Misconception(
            "t (t + 1) / 2", lambda n, m, block_q, block_k: -(-n // block_q) * (-(-n // block_q) + 1) // 2,
            "That counts a triangle of square tiles with as many keys as queries. Tiles may be wider than high, and m may differ from n.",
        ),
        Misconception(
            "allowed pairs divided by the size of a tile",
            lambda n, m, block_q, block_k: -(-sum(max(0, min(i + 1 + m - n, m)) for i in range(n)) // (block_q * block_k)),
            "A tile on the diagonal counts as a whole, even if only some of its pairs are allowed.",
        ),
        Misconception(
            "short tiles not counted",
            lambda n, m, block_q, block_k: sum(
                min(max(0, i + block_q + m - n), m) // block_k for i in range(0, n // block_q * block_q, block_q)
            ),
            "The last tile of queries and the last tile of keys may be short. They are visited too.",
        ),
        Misconception(
            "one tile too many where something is seen",
            lambda n, m, block_q, block_k: sum(
                min(seen // block_k + 1, -(-m // block_k)) if (seen := max(0, min(i + block_q, n) + m - n)) else 0
                for i in range(0, n, block_q)
            ),
            "If the last query of a tile sees r keys, ⌈r / block_k⌉ tiles are visited. ⌊r / block_k⌋ + 1 is one too many where r is a multiple "
            "of block_k.",
        ),
        Misconception(
            "the last tile of queries not cut short",
            lambda n, m, block_q, block_k: sum(-(-max(0, i + block_q + m - n) // block_k) for i in range(0, n, block_q)),
            "The last tile of queries may be short: it ends at query n − 1. Use `min(i + block_q, n)`.",
        ),
        Misconception(
            "the offset m − n rounded by itself",
            lambda n, m, block_q, block_k: sum(
                max(0, min(-(-min(i + block_q, n) // block_k) - (n - m) // block_k, -(-m // block_k))) for i in range(0, n, block_q)
            ),
            "You round m − n to whole tiles, and add it to another rounded number. Where m − n is no multiple of block_k, that can be a tile too many. Add first, and "
            "round the sum once.",
        ),
        Misconception(
            "the remainder of m − n lost",
            lambda n, m, block_q, block_k: sum(
                max(0, min(-(-min(i + block_q, n) // block_k) + (m - n) // block_k, -(-m // block_k))) for i in range(0, n, block_q)
            ),
            "You turn m − n into whole tiles and drop what is left over. Where it is no multiple of block_k, that can be a tile too few. Add first, and round the sum once.",
        ),
        Misconception(
            "a staircase of whole tiles, whatever their shape",
            lambda n, m, block_q, block_k: sum(
                min(row + 1 + max(0, -(-m // block_k) - -(-n // block_q)), -(-m // block_k)) for row in range(-(-n // block_q))
            ),
            "You count one tile more in each row of tiles. That is right only if the tiles are square and their corners lie on the diagonal. In "
            "general, count how many keys the last query of a row of tiles sees.",
        ),
        comes_as_float(flash.causal_tiles),
        Misconception(
            "the last key's number taken for the number of keys",
            lambda n, m, block_q, block_k: sum(-(-max(0, min(i + block_q, n) - 1 + m - n) // block_k) for i in range(0, n, block_q)),
            "A query that sees the keys 0 to j sees j + 1 keys. Without the 1 a tile is lost where only its first key is seen.",
        ),
        Misconception(
            "one tile too many",
            lambda n, m, block_q, block_k: sum(
                min(max(0, min(i + block_q, n) + m - n) // block_k + 1, -(-m // block_k)) for i in range(0, n, block_q)
            ),
            "If the last query of a tile sees r keys, ⌈r / block_k⌉ tiles are visited. ⌊r / block_k⌋ + 1 is one too many where r is a multiple "
            "of block_k, and where no key is seen.",
        ),
        Misconception(
            "a negative number of tiles",
            lambda n, m, block_q, block_k: sum(-(-(min(i + block_q, n) + m - n) // block_k) for i in range(0, n, block_q)),
            "With more queries than keys the first queries see no key. That is 0 tiles, and not fewer: `max(0, …)`.",
        ),
        Misconception(
            "the tiles that are skipped",
            lambda n, m, block_q, block_k: -(-n // block_q) * -(-m // block_k)
            - sum(-(-max(0, min(i + block_q, n) + m - n) // block_k) for i in range(0, n, block_q)),
            "You return how many tiles are skipped. Return how many are visited.",
        ),
    ],
)  # fmt: skip


def skipping_tiles(batch: tuple[int, ...], n: int, m: int, d: int, d_v: int, block_q: int, block_k: int) -> Case:
    """A causal case whose FLOPs are those of the tiles that must be visited."""
    tile = 2 * block_q * block_k * (d + d_v + 1)  # 1 more: the sums, taken as a product with ones
    return random_case(f"causal, n = {n}, m = {m}, tiles of {block_q} × {block_k}: skipped tiles cost nothing", batch=batch,
                 **tile_sizes(n, m, d, d_v, True, block_q, block_k),
                 max_flops=math.prod(batch) * flash.causal_tiles(n, m, block_q, block_k) * tile,
                 max_elements=2 * math.prod(batch) * max(n, m) * max(d, d_v))  # fmt: skip


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
        skipping_tiles((), 24, 24, 4, 3, 8, 4), skipping_tiles((2,), 24, 26, 3, 5, 6, 4), skipping_tiles((), 30, 17, 4, 2, 6, 5),
        random_case("not causal: nothing is skipped", **tile_sizes(9, 14, 4, 3, False, 4, 3)),
    ],
    misconceptions=[
        Misconception(
            "every tile computed, then hidden",
            lambda q, k, v, causal=False, block_q=64, block_k=64: tiled_with_slip(q, k, v, causal, block_q, block_k),
            "A tile of which nothing is visible changes neither maximum nor sum nor accumulator. Don't compute it: end the walk over the keys at "
            "the last one that any query of the tile can see.",
            cost=_nothing_skipped,
        ),
        Misconception(
            "one tile too many where it begins right after the last key", tiled("one tile too many"),
            "Your walk visits one more tile where a tile begins right after the last key that the queries see. No query sees a key of this "
            "tile. Stop there: compare with ≥, not with >.",
            cost=_one_tile_too_many,
        ),
        Misconception(
            "tiles skipped after their scores were made", tiled("skipped late"),
            "You make the scores of a tile first, and skip it if all are hidden. By then half of the work is done. The positions tell you "
            "before.",
            cost=_scores_of_all_tiles,
        ),
        Misconception(
            "stopped after the scores of the first hidden tile were made", tiled("stopped late"),
            "You leave the loop at the first tile that is hidden completely, but only after you have made its scores. The positions tell you "
            "before.",
            cost=_scores_of_the_first_hidden_tiles,
        ),
        Misconception(
            "an n × m matrix in memory",
            lambda q, k, v, causal=False, block_q=64, block_k=64: _dense(q, k, v, causal), NEVER_MADE, cost=square_made,
        ),
        Misconception(
            "tiles skipped too early", tiled("skipped too early"),
            "You stop at the last key that the tile's *first* query sees. Its last query sees more. Skip a tile only if no query of the tile "
            "sees any of its keys.",
        ),
        Misconception(
            "visited tiles left without a mask",
            lambda q, k, v, causal=False, block_q=64, block_k=64: _unmasked(q, k, v, causal, block_q, block_k),
            "You visit the right tiles, but without a mask. In tiles that the diagonal crosses some pairs are hidden: mask them.",
        ),
        Misconception(
            "tiles that begin before the queries left unmasked", tiled("early tiles unmasked"), EARLY_TILES,
        ),
        Misconception(
            "the last position taken for the end", tiled("ends at the last position"), LAST_POSITION,
        ),
        Misconception(
            "skipped from the top left", tiled("walk from the top left"),
            "Query i stands at position i + (m − n). With m > n the queries of a tile see m − n keys more than you visit.",
        ),
        Misconception(
            "causal even where it isn't asked for",
            lambda q, k, v, causal=False, block_q=64, block_k=64: tiled_with_slip(q, k, v, True, block_q, block_k),
            "You hide later keys also with causal=False. Then every query sees all keys.",
        ),
    ],
    forbids=NO_FUSED_ATTENTION,
)  # fmt: skip


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
