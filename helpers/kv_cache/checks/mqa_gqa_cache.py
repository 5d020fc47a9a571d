"""The check of `mqa_gqa_cache`."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.compare import Message
from helpers.engine.drivers import unpack, watch
from helpers.engine.wrong_answers import Wrong, wrong_answers

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
            return (
                Message(f"{_shape(keys)} and {_shape(values)} come back as keys and values, not {shape}"),
                None,
                None,
                None,
            )
    right = all(
        isinstance(out, Tensor) and out.shape == part.shape for out, part in zip(outputs, q.split(chunks, dim=2))
    )
    return Message("h_kv heads are stored"), torch.cat(outputs, dim=2) if right else tuple(outputs), keys, values


def _shape(part):
    return tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__


def grouped_heads(label: str, *chunks: int, h: int, h_kv: int, b: int = 2, d_h: int = 4, dtype=torch.float32) -> Case:
    def normal(heads: int, scale: float = 1.0) -> RandomArg:
        return RandomArg(lambda g: scale * torch.randn(b, heads, sum(chunks), d_h, generator=g, dtype=dtype))

    return explicit_case(label, normal(h, 2.0), normal(h_kv), normal(h_kv), chunks)


def _grouped_step(
    inputs, spread, masked=True, shift=None, scale=None, spread_values=None
) -> tuple[Tensor, Tensor, Tensor]:
    """spread: makes h heads of h_kv; spread_values: the same where it is another way for the values."""
    q, k, v, keys, values = inputs
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    n, m = q.shape[2], keys.shape[2]
    seen = torch.ones(n, m).tril(shift if shift is not None else m - n if masked else m) == 1
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q @ spread(keys, q.shape[1]).mT * scale).masked_fill(~seen, -torch.inf)
    return scores.softmax(dim=-1) @ (spread_values or spread)(values, q.shape[1]), keys, values


def _old_tokens(inputs) -> int:
    return inputs[3].shape[2]


def triangle_for_chunks_only(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The triangle stands at the upper left; a single token gets no mask."""
    return _grouped_step(inputs, _in_groups, shift=0 if inputs[0].shape[2] > 1 else _old_tokens(inputs))


def itself_unseen_in_groups(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _grouped_step(inputs, _in_groups, shift=_old_tokens(inputs) - 1)


def _in_groups(t, h) -> Tensor:
    return t.repeat_interleave(h // t.shape[1], dim=1)


def _in_turn(t, h) -> Tensor:
    return t.repeat(1, h // t.shape[1], 1, 1)


def _first_for_all(t, h) -> Tensor:
    return t[:, :1].expand(-1, h, -1, -1)


def _mean_for_all(t, h) -> Tensor:
    return t.mean(dim=1, keepdim=True).expand(-1, h, -1, -1)


def _reversed_groups(t, h) -> Tensor:
    return t.flip(1).repeat_interleave(h // t.shape[1], dim=1)


def mask_for_the_prompt_only(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    n, m = inputs[0].shape[2], _old_tokens(inputs)
    return _grouped_step(inputs, _in_groups, shift=m + n if m else 0)


def rows_of_the_mask_in_turn(q, k, v, keys, values) -> tuple[Tensor, Tensor, Tensor]:
    """A group's queries are laid one head below the other, the mask's rows are repeated one by one."""
    (b, h, n, d_h), h_kv, m = q.shape, k.shape[1], keys.shape[2]
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    seen = (torch.ones(n, m + n).tril(m) == 1).repeat_interleave(h // h_kv, dim=0)
    scores = q.reshape(b, h_kv, -1, d_h) @ keys.mT / math.sqrt(d_h)
    return (scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ values).reshape(b, h, n, -1), keys, values


def repeated_h_kv_times(q, k, v, keys, values) -> tuple[Tensor, Tensor, Tensor]:
    return _grouped_step((q, k, v, keys, values), lambda t, h: t.repeat_interleave(t.shape[1], dim=1))


def nothing_stored(q, k, v, keys, values) -> tuple[Tensor, Tensor, Tensor]:
    return _grouped_step((q, k, v, keys, values), _in_groups)[0], keys, values


def stores_all_heads(q, k, v, keys, values) -> tuple[Tensor, Tensor, Tensor]:
    keys, values = (_in_groups(t, q.shape[1]) for t in (keys, values))
    return _grouped_step((q, _in_groups(k, q.shape[1]), _in_groups(v, q.shape[1]), keys, values), _in_groups)


def one_query_a_group(q, k, v, keys, values) -> tuple[Tensor, Tensor, Tensor]:
    return _grouped_step((q[:, :: q.shape[1] // k.shape[1]], k, v, keys, values), _in_groups)


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
        key_over_value_heads_turn=lambda *inputs: _grouped_step(inputs, _in_turn),
        values_turn_keys_groups=lambda *inputs: _grouped_step(inputs, _in_groups, spread_values=_in_turn),
        keys_turn_values_groups=lambda *inputs: _grouped_step(inputs, _in_turn, spread_values=_in_groups),
        first_key_over_value_head_all=lambda *inputs: _grouped_step(inputs, _first_for_all),
        mean_key_over_value_heads=lambda *inputs: _grouped_step(inputs, _mean_for_all),
        groups_wrong_way_round=lambda *inputs: _grouped_step(inputs, _reversed_groups),
        all_h_heads_stored=stores_all_heads,
        repeated_h_kv_times=Wrong(repeated_h_kv_times, raises="RuntimeError"),
        triangle_at_upper_left=lambda *inputs: _grouped_step(inputs, _in_groups, shift=0),
        triangle_at_upper_left_chunks_only=triangle_for_chunks_only,
        token_that_doesnt_see_itself=Wrong(
            itself_unseen_in_groups, recognise=empty_rows_aside(itself_unseen_in_groups, drive_groups)
        ),
        no_scale=lambda *inputs: _grouped_step(inputs, _in_groups, scale=1.0),
        new_tokens_not_stored=nothing_stored,
        mask_prompt_only=mask_for_the_prompt_only,
        masks_rows_another_order_than_queries=rows_of_the_mask_in_turn,
        one_query_head_per_group=one_query_a_group,
        chunk_without_mask=lambda *inputs: _grouped_step(inputs, _in_groups, masked=False),
    ),
)
