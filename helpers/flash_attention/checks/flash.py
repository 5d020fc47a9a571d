"""Checks of the tiled forward pass. Values force every rescale; the largest tensor and the FLOPs show whether it is tiled at all."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.observe import Observation


def tile_sizes(n: int, m: int, d: int, d_v: int, causal: bool, block_q: int, block_k: int) -> dict:
    return {"n": n, "m": m, "d": d, "d_v": d_v, "causal": causal, "block_q": block_q, "block_k": block_k}


def _hidden(rows, columns, offset, slip) -> Tensor:
    """Which scores of a tile are hidden: key j > query i + offset."""
    i, j = torch.arange(rows.start, rows.stop)[:, None] + offset, torch.arange(columns.start, columns.stop)
    return {
        "aligned per tile": j - columns.start > i - offset - rows.start,
        "from the top left": j > i - offset,
        "offset never negative": j > i + max(-offset, 0),
        "offset turned round": j > i - 2 * offset,
        "without itself": j >= i,
        "one ahead": j > i + 1,
        "turned round": j < i,
        "not causal": torch.zeros_like(j > i),
    }.get(slip, j > i)


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
        "no scale": 1.0,
        "scaled twice": 1 / d,
        "scaled by the tile": block_k**-0.5,
        "scaled by d_v": v.shape[-1] ** -0.5,
    }.get(slip, d**-0.5)
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


EARLY_TILES = (
    "You mask only tiles that begin at or after the position of the tile's first query. A tile of keys that begins before it may end after it. Mask every "
    "tile whose *last* key lies after that position."
)

LAST_POSITION = "Your walk over the keys ends before the key at the last query's own position, which is seen too. Add 1 to the end: `range` leaves its end out."
