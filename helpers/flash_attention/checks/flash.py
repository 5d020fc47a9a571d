"""The walk over tiles of scores in named steps, which the tiled passes share, and slips of it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Slip

from ..online import finite


def tile_sizes(n: int, m: int, d: int, d_v: int, causal: bool, block_q: int, block_k: int) -> dict:
    return {"n": n, "m": m, "d": d, "d_v": d_v, "causal": causal, "block_q": block_q, "block_k": block_k}


@dataclass(frozen=True)
class At:
    """A tile: its queries, its keys, and the sizes of the whole. keys: how many there are to walk over."""

    causal: bool
    n: int
    m: int
    d: int
    d_v: int
    keys: int
    block_q: int
    block_k: int
    rows: slice
    columns: slice | None = None

    @property
    def offset(self) -> int:
        return self.m - self.n


def scaled_by(factor: Callable) -> Callable:
    return lambda q, k, at: factor(at) * q @ k.mT


@dataclass(frozen=True)
class Walk:
    """Over all tiles of keys for each tile of queries."""

    blocks: Callable = lambda n, m, block_q, block_k: (block_q, block_k)
    fill: Callable = lambda x, block_k: x  # keys and values, before the walk
    end: Callable = lambda at: at.keys  # of the walk over the keys; where causal
    width: Callable = lambda at: at.block_k  # how many keys a tile has
    skip: Callable = lambda at: False
    score: Callable = scaled_by(lambda at: at.d**-0.5)  # (q, k, at) → scores of a tile
    masked: Callable = lambda at: True  # whether a tile gets a mask; where causal
    hidden: Callable = lambda i, j, at: j > i + at.offset  # which scores of queries i, keys j get `never`
    never: float = -math.inf
    one_row: Callable = iter  # tiles of scores of one row of tiles: made one at a time
    all_rows: Callable = iter


def walk(steps: Walk, q, k, v, causal: bool, block_q: int, block_k: int) -> tuple[Tensor, Iterator]:
    """The values, and for each tile of queries where it is and the walk over its tiles: (at, scores)."""
    n, m = q.shape[-2], k.shape[-2]
    block_q, block_k = steps.blocks(n, m, block_q, block_k)
    k, v = steps.fill(k, block_k), steps.fill(v, block_k)

    def tiles(at: At) -> Iterator:
        for j in range(0, steps.end(at) if causal else at.keys, block_k):
            here = replace(at, columns=slice(j, max(j, min(j + steps.width(at), at.keys))))
            if not (causal and steps.skip(here)):
                yield here, steps.score(q[..., at.rows, :], k[..., here.columns, :], here)

    sizes = causal, n, m, q.shape[-1], v.shape[-1], k.shape[-2], block_q, block_k
    rows = (At(*sizes, slice(i, min(i + block_q, n))) for i in range(0, n, block_q))
    return v, steps.all_rows((at, steps.one_row(tiles(at))) for at in rows)


def hide(steps: Walk, s: Tensor, at: At) -> Tensor:
    if not (at.causal and steps.masked(at)):
        return s
    i, j = torch.arange(at.rows.start, at.rows.stop)[:, None], torch.arange(at.columns.start, at.columns.stop)
    return s.masked_fill(steps.hidden(i, j, at), steps.never)


@dataclass(frozen=True)
class Forward(Walk):
    """The steps of the tiled forward pass."""

    start: float = -math.inf  # of the running maximum
    starts_anew: Callable = lambda at: True
    unless_hidden: str = ""  # "skip" or "stop" at a tile whose scores are all hidden
    largest: Callable = lambda s, unhidden: s.amax(-1, keepdim=True)
    shift: Callable = finite  # what is subtracted, from the new maximum
    rescale: Callable = lambda old, new: torch.exp(old - new)
    old_sum: Callable = lambda l_i, alpha: alpha * l_i
    old_acc: Callable = lambda acc, alpha: alpha * acc
    gathered: Callable = lambda acc, l_i: acc  # after each tile
    divide: Callable = lambda acc, l_i: acc / l_i.masked_fill(l_i == 0, 1.0)
    lse: Callable = lambda m_i, l_i: m_i + torch.log(l_i)
    join: Callable = lambda outs, q, block_q: torch.cat(outs, dim=-2)


@composable
def tiled(**changed) -> Callable:
    """The tiled forward pass with these steps changed."""
    steps = Forward(**changed)

    def forward(q, k, v, causal=False, block_q=64, block_k=64) -> tuple[Tensor, Tensor]:
        values, rows = walk(steps, q, k, v, causal, block_q, block_k)
        outs, lses = [], []
        for row, tiles in rows:
            if row.rows.start == 0 or steps.starts_anew(row):
                l_i = torch.zeros_like(q[..., row.rows, :1])
                m_i, acc = torch.full_like(l_i, steps.start), l_i * v[..., :1, :]
            for at, unhidden in tiles:
                s = hide(steps, unhidden, at)
                if steps.unless_hidden and (s == -math.inf).all():
                    if steps.unless_hidden == "stop":
                        break
                    continue
                m_i, l_i, acc = _update(steps, m_i, l_i, acc, s, unhidden, values[..., at.columns, :])
            outs.append(steps.divide(acc, l_i))
            lses.append(steps.lse(m_i, l_i).squeeze(-1))
        return steps.join(outs, q, block_q), torch.cat(lses, dim=-1)

    return forward


def _update(steps: Forward, m_i, l_i, acc, s, unhidden, v) -> tuple[Tensor, Tensor, Tensor]:
    m_new = torch.maximum(m_i, steps.largest(s, unhidden))
    shift = steps.shift(m_new)
    alpha, p = steps.rescale(m_i, shift), torch.exp(s - shift)
    l_i = steps.old_sum(l_i, alpha) + p.sum(-1, keepdim=True)
    return m_new, l_i, steps.gathered(steps.old_acc(acc, alpha) + p @ v, l_i)


def last_seen(at: At, more: int = 0) -> int:
    """The end of a walk that skips tiles of which no query sees anything."""
    return min(at.keys, at.rows.stop + at.offset + more)


class Tiles:
    """Slips of the walk."""

    whole = Slip(blocks=lambda n, m, block_q, block_k: (n, m))
    whole_rows = Slip(blocks=lambda n, m, block_q, block_k: (block_q, m))
    all_kept = Slip(one_row=list, all_rows=list)
    row_kept = Slip(one_row=list)
    keys_cut_with_block_q = Slip(width=lambda at: at.block_q)
    last_lost = Slip(fill=lambda x, block_k: x[..., : x.shape[-2] // block_k * block_k, :])
    skipped_too_early = Slip(end=lambda at: min(at.keys, max(0, at.rows.start + 1 + at.offset)))
    skipped_from_top_left = Slip(end=lambda at: min(at.keys, at.rows.stop))
    ends_at_last_position = Slip(end=lambda at: last_seen(at, -1))
    early_unmasked = Slip(masked=lambda at: at.columns.start >= at.rows.start + at.offset)


class Diagonal:
    """Slips of the causal mask."""

    aligned_per_tile = Slip(hidden=lambda i, j, at: j - at.columns.start > i - at.rows.start)
    offset_turned_round = Slip(hidden=lambda i, j, at: j > i - at.offset)
    offset_never_negative = Slip(hidden=lambda i, j, at: j > i + max(at.offset, 0))
    ignored = Slip(masked=lambda at: False)


def dense(q, k, v, causal) -> tuple[Tensor, Tensor]:
    """Output and logsumexp from all scores at once; rows that see nothing are 0."""
    scores = hidden_scores(q, k, causal)
    return scores.softmax(-1).nan_to_num(0.0) @ v, scores.logsumexp(-1)


def hidden_scores(q, k, causal) -> Tensor:
    n, m = q.shape[-2], k.shape[-2]
    hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1) & torch.tensor(causal)
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)


def score_count(seen: Observation) -> int:
    """How many scores there are in all, over all leading axes."""
    q, k = seen.args[:2]
    return q.numel() // q.shape[-1] * k.shape[-2]


def fair(seen: Observation) -> int:
    """A size that nothing must reach: twice the largest input, or twice a tile."""
    batch = math.prod(seen.args[0].shape[:-2])
    return 2 * max(batch * math.prod(seen.args[-2:]), *(x.numel() for x in seen.args[:3]))


def square_made(seen: Observation) -> bool:
    """Whether a tensor of n × m elements was made, where that is far more than inputs and tiles have."""
    return seen.largest >= score_count(seen) > fair(seen)
