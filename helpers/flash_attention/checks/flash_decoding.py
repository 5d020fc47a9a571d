"""One query, its keys in parts. That there are parts, and that none waits for another, is counted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, power_before_division
from helpers.engine.cases import Case, RandomArg, explicit_case, normal, random_case
from helpers.engine.check import Behaviour, Check
from helpers.engine.observe import Observation
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import flash, online
from ..online import finite
from .flash import dense
from .flash_attention_forward import WITHIN, levelled_scores, low_scores

__all__ = ["flash_decoding"]

AT_ONCE = 120  # tensor operations: einsum and padding need about 60; a loop over 48 parts at least 250


def _parts(x, splits, size) -> Tensor:
    return F.pad(x, (0, 0, 0, splits * size - x.shape[-2])).unflatten(-2, (splits, size))


@dataclass(frozen=True)
class Decoding:
    """The steps of flash decoding. Of each part: (…, splits, keys) or (…, splits)."""

    empty: Callable = lambda places, k, m: places >= m  # which keys were added to fill the parts up
    factor: Callable = lambda d: d**-0.5
    weights: Callable = lambda scores: scores.softmax(-1).nan_to_num(0.0)
    shares: Callable = lambda lse, largest, keys: lse.softmax(-1)


def _partials(steps: Decoding, q, k, v, splits) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each part the output (*batch, splits, d_v), logsumexp and maximum (*batch, splits), and how many keys."""
    m, size = k.shape[-2], -(-k.shape[-2] // splits)
    k, v = _parts(k, splits, size), _parts(v, splits, size)
    empty = steps.empty(torch.arange(splits * size).view(splits, size), k, m)
    scores = (q[..., None, :, :] @ k.mT).squeeze(-2) * steps.factor(q.shape[-1])
    scores = scores.masked_fill(empty, -math.inf)
    outs = (steps.weights(scores)[..., None, :] @ v).squeeze(-2)
    return outs, scores.logsumexp(-1), scores.amax(-1), (~empty).sum(-1).to(q)


@composable
def decoding(**changed) -> Callable:
    """Flash decoding with these steps changed."""
    steps = Decoding(**changed)

    def decode(q, k, v, splits) -> Tensor:
        outs, *of_parts = _partials(steps, q, k, v, splits)
        return _mixed(outs, steps.shares(*of_parts))

    return decode


def _mixed(outs, shares) -> Tensor:
    """(*batch, splits, d_v) and (*batch, splits) → (*batch, 1, d_v)"""
    return (shares[..., None] * outs).sum(-2, keepdim=True)


def in_proportion(numbers: Tensor) -> Tensor:
    return numbers / numbers.sum(-1, keepdim=True)


def _some_zero_keys(m: int, d: int) -> RandomArg:
    """Real keys, of which every third is zero."""

    def draw(generator: torch.Generator) -> Tensor:
        k = torch.randn(2, m, d, generator=generator)
        k[:, ::3] = 0
        return k

    return RandomArg(draw)


def keys_at_the_end_lost(q, k, v, splits) -> Tensor:
    kept = max(k.shape[-2] // splits, 1) * splits
    return decoding()(q, k[..., :kept, :], v[..., :kept, :], splits)


def equal_parts(x: Tensor, splits: int) -> Sequence[Tensor]:
    """What is left over is dropped."""
    splits = min(splits, x.shape[-2])
    size = x.shape[-2] // splits
    return x[..., : size * splits, :].split(size, -2)


def mean_of_parts(divide: Callable) -> Callable:
    """The plain mean of what each part's own softmax gives."""

    def decode(q, k, v, splits) -> Tensor:
        parts = zip(divide(k, splits), divide(v, splits))
        return torch.stack([dense(q, keys, values, False)[0] for keys, values in parts]).mean(0)

    return decode


def merged_over(axis: int) -> Callable:
    """Outputs of the parts (*batch, splits, 1, d_v) that are merged over this axis, -3 being right."""

    def decode(q, k, v, splits) -> Tensor:
        outs, lse, *_ = _partials(Decoding(), q, k, v, splits)
        return (lse[..., None, None].softmax(axis) * outs.unsqueeze(-2)).sum(axis)

    return decode


def part_after_part(q, k, v, splits) -> Tensor:
    outs, lses = [], []
    size = -(-k.shape[-2] // splits)
    for keys, values in zip(k.split(size, -2), v.split(size, -2)):
        scores = q @ keys.mT / math.sqrt(q.shape[-1])
        outs.append(scores.softmax(-1) @ values)
        lses.append(scores.logsumexp(-1))
    return _mixed(torch.cat(outs, dim=-2), torch.cat(lses, dim=-1).softmax(-1))


def merged_part_after_part(q, k, v, splits) -> Tensor:
    outs, lse, *_ = _partials(Decoding(), q, k, v, splits)
    merged = outs[..., :1, :], lse[..., :1]
    for i in range(1, splits):
        merged = online.merge_partials(*merged, outs[..., i : i + 1, :], lse[..., i : i + 1])
    return merged[0]


def _outputs_of_parts(seen: Observation) -> int:
    """How many numbers the outputs of all parts have together, empty ones left out."""
    _, _, v, splits = seen.args
    *batch, m, d_v = v.shape
    return math.prod(batch) * math.ceil(m / math.ceil(m / splits)) * d_v


def _parts_apart(seen: Observation) -> bool:
    """Whether no tensor could hold the outputs of all parts side by side."""
    return seen.largest < _outputs_of_parts(seen)


def _products(seen: Observation) -> int:
    return sum(seen.operations[name] for name in ("mm", "bmm", "baddbmm", "addmm", "mv", "dot"))


def _never_in_parts(seen: Observation) -> bool:
    return _parts_apart(seen) and _products(seen) <= 2


def _one_after_the_other(seen: Observation) -> bool:
    """A loop has products of its own for every part."""
    return sum(seen.operations.values()) > AT_ONCE or (_parts_apart(seen) and _products(seen) > 2)


def _merged_in_a_loop(seen: Observation) -> bool:
    """Whether a few products served all parts, and the operations are still those of a loop."""
    return sum(seen.operations.values()) > AT_ONCE and 0 < _products(seen) <= 4


def _far_apart(m: int, d_v: int, step: float) -> tuple[RandomArg, RandomArg, RandomArg]:
    """One query whose scores climb by `step` a key."""
    return levelled_scores((1, 4), m, d_v, lambda i, j: (torch.ones_like(i), step * j))


def _sequences_apart(m: int, d_v: int, level: float) -> tuple[RandomArg, ...]:
    """Two sequences: all scores of one are near `level`, all of the other near −`level`."""
    both = [
        levelled_scores((1, 4), m, d_v, lambda i, j, at=at: (torch.ones_like(i), torch.full_like(j, at)))
        for at in (level, -level)
    ]
    return tuple(
        RandomArg(lambda g, pair=pair: torch.stack([x.make(g) for x in pair])) for pair in zip(*both, strict=True)
    )


def counted_parts(m: int, splits: int, d: int, d_v: int, batch: tuple[int, ...] = ()) -> Case:
    """Many parts in few operations, and none of them as long as all keys together."""
    return random_case(
        f"m = {m} in {splits} parts, in at most {AT_ONCE} operations",
        batch=batch,
        **{"m": m, "d": d, "d_v": d_v, "splits": splits},
        max_operations=AT_ONCE,
        max_elements=math.prod(batch) * splits * m * (d + d_v),
    )


flash_decoding = Check(
    reference=flash.flash_decoding,
    cases=[
        random_case("m = 12 in 4 parts", m=12, d=4, d_v=5, splits=4, scale=1.5),
        random_case("2×3 sequences, m = 11 in 3 parts: uneven", batch=(2, 3), m=11, d=3, d_v=6, splits=3, scale=1.5),
        random_case("m = 7 in 10 parts: some are empty", batch=(2,), m=7, d=2, d_v=5, splits=10, scale=1.5),
        random_case("m = 9 in 6 parts: short and empty ones", m=9, d=3, d_v=8, splits=6, scale=2.0),
        explicit_case("scores that climb by 40 per key, m = 12 in 4 parts", *_far_apart(12, 5, 40.0), 4),
        explicit_case("scores near −120, m = 9 in 2 parts", *low_scores(1, 9, 7), 2),
        explicit_case(
            "some keys are zero, m = 8 in 3 parts", normal(2, 1, 4), _some_zero_keys(8, 4), normal(2, 8, 5), 3
        ),
        explicit_case(
            "float64, scores near −30,000, m = 7 in 3 parts",
            *low_scores(1, 7, 5, level=-30_000.0, dtype=torch.float64),
            3,
        ),
        explicit_case("scores near 150 and near −150, m = 10 in 3 parts", *_sequences_apart(10, 6, 150.0), 3),
        counted_parts(96, 48, 3, 4),
    ],
    misconceptions=wrong_answers(
        __file__,
        power_before_division(flash.flash_decoding),
        merged_in_a_loop=Wrong(merged_part_after_part, cost=_merged_in_a_loop),
        part_after_part=Wrong(part_after_part, cost=_one_after_the_other),
        never_split=Wrong(lambda q, k, v, splits: dense(q, k, v, False)[0], cost=_never_in_parts),
        averaged=Wrong(
            decoding(shares=lambda lse, largest, keys: torch.ones_like(lse) / lse.shape[-1]),
            variants=(mean_of_parts(lambda x, splits: x.chunk(splits, -2)), mean_of_parts(equal_parts)),
        ),
        by_number_of_keys=decoding(shares=lambda lse, largest, keys: in_proportion(keys)),
        added=decoding(shares=lambda lse, largest, keys: torch.ones_like(lse)),
        by_logsumexps=decoding(shares=lambda lse, largest, keys: in_proportion(finite(lse))),
        by_maxima=decoding(shares=lambda lse, largest, keys: largest.softmax(-1)),
        not_normalised=decoding(shares=lambda lse, largest, keys: torch.exp(lse - largest.amax(-1, keepdim=True))),
        no_maximum=decoding(shares=lambda lse, largest, keys: in_proportion(torch.exp(lse))),
        largest_only=decoding(shares=lambda lse, largest, keys: F.one_hot(lse.argmax(-1), lse.shape[-1]).to(lse)),
        softmax_over_parts=decoding(weights=lambda scores: scores.softmax(-2).nan_to_num(0.0)),
        padding_counts=decoding(empty=lambda places, k, m: torch.zeros_like(places, dtype=torch.bool)),
        one_added_key_counts=decoding(empty=lambda places, k, m: places > m),
        empty_parts_nan=decoding(weights=lambda scores: scores.softmax(-1)),
        zeros_for_missing=decoding(empty=lambda places, k, m: (k == 0).all(-1)),
        axis_from_front=Wrong(merged_over(1), variants=(merged_over(0), merged_over(1))),
        keys_at_end_lost=keys_at_the_end_lost,
        no_scale=decoding(factor=lambda d: 1.0),
    ),
    behaviours=[
        Behaviour(
            "the parts side by side",
            lambda seen: not _parts_apart(seen),
            "No tensor was large enough to hold the outputs of all parts side by side.",
        )
    ],
    forbids=NO_FUSED_ATTENTION,
    within=WITHIN,
)
