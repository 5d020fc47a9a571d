"""The check of `decode_step`."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import unpack, watch
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import decoding
from .decoding import empty_rows_aside, hand_on

__all__ = ["decode_step"]


def drive_steps(answer, x: Tensor, chunks: tuple[int, ...], weights: tuple, h: int) -> tuple:
    """The outputs of all tokens, fed chunk by chunk, and the keys and values in the end; each step gets those that the one before returned."""
    keys = values = x.new_zeros(len(x), h, 0, x.shape[-1] // h)
    outputs = []
    for chunk in x.clone().split(chunks, dim=1):
        seen = watch(answer, chunk, keys, values, *weights)
        hand_on(seen, x)
        out, keys, values = unpack(seen.output, "outputs", "keys", "values")
        outputs.append(out)
    shapes = [(len(x), n, x.shape[-1]) for n in chunks]
    right = all(isinstance(out, Tensor) and tuple(out.shape) == shape for out, shape in zip(outputs, shapes))
    return torch.cat(outputs, dim=1) if right else tuple(outputs), keys, values


def fed_in_chunks(
    label: str, *chunks: int, b: int = 2, h: int = 3, d_h: int = 4, dtype=torch.float32, loud: float = 1.0
) -> Case:
    """loud: how much larger the scores are than usual."""
    d = h * d_h

    def normal(*shape: int, scale: float = 1.0) -> RandomArg:
        return RandomArg(lambda g: scale * torch.randn(shape, generator=g, dtype=dtype))

    def weights(g: Generator) -> tuple[Tensor, ...]:
        return tuple(
            s * torch.randn(d, d, generator=g, dtype=dtype) * d**-0.5 for s in (1.5 * loud, 1.5, 1, 1)
        )  # scores that matter

    return explicit_case(label, normal(b, sum(chunks), d), chunks, RandomArg(weights), h)


def _turned(x, positions) -> Tensor:
    """RoPE: features (2i, 2i + 1) of the token at position t, turned by t · 10000^(−2i/d)."""
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _heads(x, h) -> Tensor:
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def _attend(q, keys, values, seen, scale) -> Tensor:
    scores = (q @ keys.mT * scale).masked_fill(~seen, -torch.inf)
    return (scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2)


def _step(
    inputs, start=None, q_start=None, v_start=None, seen=None, scale=None, front=False, again=False
) -> tuple[Tensor, Tensor, Tensor]:
    """A step with one thing changed: where positions start, what is seen, in which order new tokens are stored."""
    x, keys, values, w_q, w_k, w_v, w_o = inputs
    n, m, h = x.shape[1], keys.shape[2], keys.shape[1]
    q, k, v = _heads(x @ w_q, h), _heads(x @ w_k, h), _heads(x @ w_v, h)
    start = m if start is None else start
    q, k = _turned(q, torch.arange(n) + (start if q_start is None else q_start)), _turned(k, torch.arange(n) + start)
    v = v if v_start is None else _turned(v, torch.arange(n) + v_start)
    keys = torch.cat([k, keys] if front else [keys, k], dim=2)
    keys = _turned(keys, torch.arange(m + n)) if again else keys
    values = torch.cat([v, values] if front else [values, v], dim=2)
    seen = torch.ones(n, m + n).tril(m) == 1 if seen is None else seen
    return _attend(q, keys, values, seen, q.shape[-1] ** -0.5 if scale is None else scale) @ w_o, keys, values


def _sizes(inputs):
    return inputs[0].shape[1], inputs[1].shape[2]


def appended_after_attending(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    x, keys, values, w_q, w_k, w_v, w_o = inputs
    _, all_keys, all_values = _step(inputs)
    n, m, h = x.shape[1], keys.shape[2], keys.shape[1]
    q = _turned(_heads(x @ w_q, h), torch.arange(m, m + n))
    return _attend(q, keys, values, torch.ones(n, m) == 1, q.shape[-1] ** -0.5) @ w_o, all_keys, all_values


def forgets_the_old(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    out, keys, values = _step(inputs)
    m = inputs[1].shape[2]
    return out, keys[:, :, m:], values[:, :, m:]


def forgets_the_new(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _step(inputs)[0], inputs[1], inputs[2]


def without_output_projection(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _step((*inputs[:-1], torch.eye(inputs[0].shape[-1], dtype=inputs[0].dtype)))


def keys_not_turned(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    x, keys, values, w_q, w_k, w_v, w_o = inputs
    n, m, h = x.shape[1], keys.shape[2], keys.shape[1]
    keys, values = torch.cat([keys, _heads(x @ w_k, h)], 2), torch.cat([values, _heads(x @ w_v, h)], 2)
    q = _turned(_heads(x @ w_q, h), torch.arange(m, m + n))
    return _attend(q, keys, values, torch.ones(n, m + n).tril(m) == 1, q.shape[-1] ** -0.5) @ w_o, keys, values


def no_positions(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    x, keys, values, w_q, w_k, w_v, w_o = inputs
    n, m, h = x.shape[1], keys.shape[2], keys.shape[1]
    keys, values = torch.cat([keys, _heads(x @ w_k, h)], 2), torch.cat([values, _heads(x @ w_v, h)], 2)
    q = _heads(x @ w_q, h)
    return _attend(q, keys, values, torch.ones(n, m + n).tril(m) == 1, q.shape[-1] ** -0.5) @ w_o, keys, values


def _split(inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the new tokens, not yet turned."""
    x, keys, _, w_q, w_k, w_v, _ = inputs
    return tuple(_heads(x @ w, keys.shape[1]) for w in (w_q, w_k, w_v))


def _new_positions(inputs) -> Tensor:
    n, m = _sizes(inputs)
    return torch.arange(m, m + n)


def _triangle(inputs, shift) -> Tensor:
    n, m = _sizes(inputs)
    return torch.ones(n, m + n).tril(shift) == 1


def stored_unturned(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    out, _, values = _step(inputs)
    return out, torch.cat([inputs[1], _split(inputs)[1]], dim=2), values


def turned_when_read(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = _split(inputs)
    keys, values = torch.cat([inputs[1], k], dim=2), torch.cat([inputs[2], v], dim=2)
    q, turned = _turned(q, _new_positions(inputs)), _turned(keys, torch.arange(keys.shape[2]))
    seen = _triangle(inputs, inputs[1].shape[2])
    return _attend(q, turned, values, seen, q.shape[-1] ** -0.5) @ inputs[-1], keys, values


def old_keys_turned_too(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = _split(inputs)
    keys, values = torch.cat([inputs[1], k], dim=2), torch.cat([inputs[2], v], dim=2)
    q, keys = _turned(q, _new_positions(inputs)), _turned(keys, torch.arange(keys.shape[2]))
    return (
        _attend(q, keys, values, _triangle(inputs, inputs[1].shape[2]), q.shape[-1] ** -0.5) @ inputs[-1],
        keys,
        values,
    )


def turned_before_the_split(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    x, keys, values, w_q, w_k, w_v, w_o = inputs
    h, positions = keys.shape[1], _new_positions(inputs)
    q, k = (_heads(_turned(x @ w, positions), h) for w in (w_q, w_k))
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, _heads(x @ w_v, h)], dim=2)
    return _attend(q, keys, values, _triangle(inputs, inputs[1].shape[2]), q.shape[-1] ** -0.5) @ w_o, keys, values


def _weighted(inputs, weigh, merge=lambda mixed: mixed.transpose(1, 2).flatten(2)) -> tuple[Tensor, Tensor, Tensor]:
    """A step with other weights, weigh(scores, seen), or another way to merge the heads."""
    _, keys, values = _step(inputs)
    q = _turned(_split(inputs)[0], _new_positions(inputs))
    weights = weigh(q @ keys.mT / math.sqrt(q.shape[-1]), _triangle(inputs, inputs[1].shape[2]))
    return merge(weights @ values) @ inputs[-1], keys, values


def _softmax(scores, seen) -> Tensor:
    return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)


def masked_after_the_softmax(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _weighted(inputs, lambda scores, seen: scores.softmax(dim=-1) * seen)


def hidden_behind(number: float) -> Callable:
    """A finite number for the scores that are hidden."""
    return lambda *inputs: _weighted(inputs, lambda scores, seen: scores.masked_fill(~seen, number).softmax(dim=-1))


def a_number_taken_off(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _weighted(inputs, lambda scores, seen: (scores - 1e3 * ~seen).softmax(dim=-1))


def softmax_without_maximum(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    def weigh(scores, seen) -> Tensor:
        exponentials = scores.exp() * seen
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return _weighted(inputs, weigh)


def maximum_of_hidden_scores(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    def weigh(scores, seen) -> Tensor:
        weights = scores.softmax(dim=-1) * seen
        return weights / weights.sum(dim=-1, keepdim=True)

    return _weighted(inputs, weigh)


def one_maximum_for_all(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    def weigh(scores, seen) -> Tensor:
        hidden = scores.masked_fill(~seen, -torch.inf)
        exponentials = (hidden - hidden.max()).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return _weighted(inputs, weigh)


def softmax_over_the_queries(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _weighted(inputs, lambda scores, seen: scores.masked_fill(~seen, -torch.inf).softmax(dim=-2).nan_to_num(0.0))


def merged_without_swapping(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _weighted(inputs, _softmax, lambda mixed: mixed.reshape(inputs[0].shape))


def split_without_swapping(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    x, keys, values, w_q, w_k, w_v, w_o = inputs
    b, n, _ = x.shape
    q, k, v = ((x @ w).reshape(b, keys.shape[1], n, -1) for w in (w_q, w_k, w_v))
    positions, seen = _new_positions(inputs), _triangle(inputs, keys.shape[2])
    keys, values = torch.cat([keys, _turned(k, positions)], dim=2), torch.cat([values, v], dim=2)
    return _attend(_turned(q, positions), keys, values, seen, q.shape[-1] ** -0.5) @ w_o, keys, values


def features_dealt_out(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Feature i goes to head i % h, and comes back from there."""
    x, keys, values, *projections, w_o = inputs
    q, k, v = ((x @ w).unflatten(-1, (-1, keys.shape[1])).permute(0, 3, 1, 2) for w in projections)
    positions, seen = _new_positions(inputs), _triangle(inputs, keys.shape[2])
    keys, values = torch.cat([keys, _turned(k, positions)], dim=2), torch.cat([values, v], dim=2)
    scores = _turned(q, positions) @ keys.mT * q.shape[-1] ** -0.5
    return (_softmax(scores, seen) @ values).permute(0, 2, 3, 1).flatten(2) @ w_o, keys, values


def output_weight_transposed(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _step((*inputs[:-1], inputs[-1].mT))


def itself_unseen(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _step(inputs, seen=_triangle(inputs, _sizes(inputs)[1] - 1))


def upper_left_for_chunks(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    n, m = _sizes(inputs)
    return _step(inputs, seen=_triangle(inputs, 0 if n > 1 else m))


def weights_transposed(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    return _step((*inputs[:3], *(w.mT for w in inputs[3:])))


decode_step = Check(
    reference=decoding.decode_step,
    drive=drive_steps,
    names=(
        "outputs: sequences tokens features",
        "keys: sequences heads tokens features",
        "values: sequences heads tokens features",
    ),
    cases=[
        fed_in_chunks("5 tokens one by one", *[1] * 5),
        fed_in_chunks("a prompt of 4, then single tokens", 4, 1, 1),
        fed_in_chunks("chunks of 3, 1 and 4", 3, 1, 4, h=2, d_h=6),
        fed_in_chunks("chunks of 2 and 5, in float64", 2, 5, b=1, h=1, d_h=8, dtype=torch.float64),
        fed_in_chunks(
            "scores of a thousand and more, in float64", 3, 2, 1, h=2, d_h=6, dtype=torch.float64, loud=1500.0
        ),
        fed_in_chunks(
            "scores of a thousand and more, one head, one by one",
            1,
            1,
            1,
            b=1,
            h=1,
            d_h=6,
            dtype=torch.float64,
            loud=1500.0,
        ),
        fed_in_chunks("scores of many thousands, in float64", 2, 3, b=3, h=4, d_h=6, dtype=torch.float64, loud=9000.0),
    ],
    misconceptions=wrong_answers(
        __file__,
        position_off_by_one=lambda *inputs: _step(inputs, start=max(0, inputs[1].shape[2] - 1)),
        positions_from_0_every_chunk=lambda *inputs: _step(inputs, start=0),
        query_at_position_0=lambda *inputs: _step(inputs, q_start=0),
        no_positions_at_all=no_positions,
        keys_that_not_turned=keys_not_turned,
        all_keys_turned_once_more_after_joining=lambda *inputs: _step(inputs, again=True),
        keys_turned_after_joining_instead=old_keys_turned_too,
        new_keys_stored_unturned=stored_unturned,
        keys_turned_only_when_they_read=turned_when_read,
        turned_before_heads_split=turned_before_the_split,
        triangle_shifted_by_n_instead_m=lambda *inputs: _step(inputs, seen=_triangle(inputs, _sizes(inputs)[0])),
        mask_prompt_only=lambda *inputs: _step(
            inputs, seen=_triangle(inputs, sum(_sizes(inputs)) if _sizes(inputs)[1] else 0)
        ),
        masked_after_softmax=masked_after_the_softmax,
        finite_number_hidden_scores=hidden_behind(-1e3),
        finite_number_taken_off_hidden_scores=a_number_taken_off,
        softmax_without_maximum=softmax_without_maximum,
        maximum_over_hidden_scores_too=maximum_of_hidden_scores,
        one_maximum_all_rows=one_maximum_for_all,
        softmax_over_queries=softmax_over_the_queries,
        heads_merged_without_swapping_axes_back=merged_without_swapping,
        heads_split_without_swapping_axes=split_without_swapping,
        features_dealt_out_heads_turn=features_dealt_out,
        w_o_transposed=output_weight_transposed,
        triangle_at_upper_left_chunks_only=upper_left_for_chunks,
        weights_transposed=weights_transposed,
        no_scale=lambda *inputs: _step(inputs, scale=1.0),
        scaled_by_d_h_instead_root=lambda *inputs: _step(inputs, scale=1 / (inputs[0].shape[-1] // inputs[1].shape[1])),
        values_turned_too=lambda *inputs: _step(inputs, v_start=inputs[1].shape[2]),
        triangle_not_shifted=lambda *inputs: _step(
            inputs, seen=torch.ones(_sizes(inputs)[0], sum(_sizes(inputs))).tril() == 1
        ),
        chunk_without_mask=lambda *inputs: _step(inputs, seen=torch.ones(_sizes(inputs)[0], sum(_sizes(inputs))) == 1),
        token_that_doesnt_see_itself=Wrong(itself_unseen, recognise=empty_rows_aside(itself_unseen, drive_steps)),
        appended_after_attending=appended_after_attending,
        new_tokens_put_before_old=lambda *inputs: _step(inputs, front=True),
        only_new_tokens_returned=forgets_the_old,
        new_tokens_not_stored=forgets_the_new,
        scaled_by_root_d_instead_root_d_h=lambda *inputs: _step(inputs, scale=inputs[0].shape[-1] ** -0.5),
        no_output_projection=without_output_projection,
    ),
)
