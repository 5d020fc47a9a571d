"""A decoding step with fewer heads of keys and values than of queries."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.engine.answers.scale import Scale
from helpers.engine.answers.steps import Attention, attend
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import unpack, watch
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from .. import decoding
from .decoding import empty_rows_aside, hand_on

__all__ = ["mqa_gqa_cache"]


def drive_groups(answer, q: Tensor, k: Tensor, v: Tensor, chunks: tuple[int, ...]):
    """How many heads are stored, all outputs, and the keys and values in the end."""
    keys = values = k[:, :, :0]
    outputs = []
    for parts in zip(*(t.clone().split(chunks, dim=2) for t in (q, k, v))):
        shape = (*k.shape[:2], keys.shape[2] + parts[1].shape[2], k.shape[3])
        seen = watch(answer, *parts, keys, values)
        hand_on(seen, q)
        out, keys, values = unpack(seen.output, "outputs", "keys", "values")
        outputs.append(out)
        if not all(isinstance(part, Tensor) and part.shape == shape for part in (keys, values)):
            told = f"{_shape(keys)} and {_shape(values)} come back as keys and values, not {shape}"
            return Message(told), None, None, None
    pairs = zip(outputs, q.split(chunks, dim=2))
    right = all(isinstance(out, Tensor) and out.shape == part.shape for out, part in pairs)
    return Message("h_kv heads are stored"), torch.cat(outputs, dim=2) if right else tuple(outputs), keys, values


def _shape(part):
    return tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__


def grouped_heads(label: str, *chunks: int, h: int, h_kv: int, b: int = 2, d_h: int = 4, dtype=torch.float32) -> Case:
    def normal(heads: int, scale: float = 1.0) -> RandomArg:
        return RandomArg(lambda g: scale * torch.randn(b, heads, sum(chunks), d_h, generator=g, dtype=dtype))

    return explicit_case(label, normal(h, 2.0), normal(h_kv), normal(h_kv), chunks)


def in_groups(t, h):
    return t.repeat_interleave(h // t.shape[1], dim=1)


def in_turn(t, h):
    return t.repeat(1, h // t.shape[1], 1, 1)


@dataclass(frozen=True)
class Grouped(Attention):
    """n new tokens after m old ones."""

    queries: Callable = lambda q, h_kv: q
    given: Callable = lambda t, h: t  # new and old keys and values, before they are joined
    spread: Callable = in_groups  # (keys, h) → h heads of h_kv
    spread_values: Callable | None = None  # where it is another way than that of the keys
    shift: Callable = lambda n, m: m  # of the triangle
    kept: Callable = lambda t, m: t


@composable
def grouped(**changed) -> Callable:
    """A decoding step with these steps of its own changed."""
    steps = Grouped(**changed)

    def answer(q, k, v, keys, values):
        (_, h, n, _), m = q.shape, keys.shape[2]
        k, v, keys, values = (steps.given(t, h) for t in (k, v, keys, values))
        keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        q, spread_values = steps.queries(q, k.shape[1]), steps.spread_values or steps.spread
        mask = torch.ones(n, m + n).tril(steps.shift(n, m)) == 1
        output, _ = attend(steps, q, steps.spread(keys, q.shape[1]), spread_values(values, q.shape[1]), mask)
        return output, steps.kept(keys, m), steps.kept(values, m)

    return answer


def rows_of_the_mask_in_turn(q, k, v, keys, values):
    """A group's queries are laid one head below the other, the mask's rows are repeated one by one."""
    (b, h, n, d_h), h_kv, m = q.shape, k.shape[1], keys.shape[2]
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    seen = (torch.ones(n, m + n).tril(m) == 1).repeat_interleave(h // h_kv, dim=0)
    scores = q.reshape(b, h_kv, -1, d_h) @ keys.mT / math.sqrt(d_h)
    return (scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ values).reshape(b, h, n, -1), keys, values


itself_unseen = grouped(shift=lambda n, m: m - 1)

mqa_gqa_cache = Check(
    exercise="mqa_gqa_cache",
    reference=decoding.grouped_decode_step,
    drive=drive_groups,
    names=(
        "outputs: sequences heads tokens features",
        "keys: sequences heads tokens features",
        "values: sequences heads tokens features",
    ),
    cases=[
        grouped_heads("6 query heads, 2 key/value heads, one by one", *[1] * 5, h=6, h_kv=2),
        grouped_heads(
            "6 query heads, 3 key/value heads, chunks of 4, 1, 2, in float64",
            4,
            1,
            2,
            h=6,
            h_kv=3,
            d_h=5,
            dtype=torch.float64,
        ),
        grouped_heads("one key/value head (multi-query)", 3, 1, 1, h=4, h_kv=1, b=1),
        grouped_heads("as many as query heads (multi-head)", 2, 3, 1, h=3, h_kv=3),
    ],
    misconceptions=wrong_answers(
        __file__,
        *slips(grouped, Scale.none),
        queries_averaged=grouped(queries=lambda q, h_kv: in_groups(q.unflatten(1, (h_kv, -1)).mean(dim=2), q.shape[1])),
        in_turn=grouped(spread=in_turn),
        values_in_turn=grouped(spread_values=in_turn),
        keys_in_turn=grouped(spread=in_turn, spread_values=in_groups),
        first_for_all=grouped(spread=lambda t, h: t[:, :1].expand(-1, h, -1, -1)),
        mean_for_all=grouped(spread=lambda t, h: t.mean(dim=1, keepdim=True).expand(-1, h, -1, -1)),
        reversed=grouped(spread=lambda t, h: in_groups(t.flip(1), h)),
        all_stored=grouped(given=in_groups),
        repeated_h_kv_times=Wrong(
            grouped(spread=lambda t, h: t.repeat_interleave(t.shape[1], dim=1)), raises="RuntimeError"
        ),
        not_shifted=grouped(shift=lambda n, m: 0),
        not_shifted_for_chunks=grouped(shift=lambda n, m: 0 if n > 1 else m),
        itself_unseen=Wrong(itself_unseen, recognise=empty_rows_aside(itself_unseen, drive_groups)),
        not_stored=grouped(kept=lambda t, m: t[:, :, :m]),
        prompt_masked_only=grouped(shift=lambda n, m: m + n if m else 0),
        mask_in_another_order=rows_of_the_mask_in_turn,
        one_query_a_group=grouped(queries=lambda q, h_kv: q[:, :: q.shape[1] // h_kv]),
        not_masked=grouped(shift=lambda n, m: m + n),
    ),
)
