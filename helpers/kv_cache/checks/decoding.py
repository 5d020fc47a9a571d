"""Checks of writing token by token: a layer's step, grouped heads, the loop around a model, and what can't be cached."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_leaves

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Behaviour, Check, Misconception
from helpers.engine.compare import Message, agree, tolerance
from helpers.engine.drivers import unpack, watch
from helpers.engine.observe import Observation
from helpers.transformer_lm.transformer import Config, DecoderLM

from .. import decoding
from ..cache import GrowingCache

__all__ = ["bidirectional_cannot_cache", "decode_step", "generate_cached", "mqa_gqa_cache"]


def hand_on(seen: Observation, given: Tensor) -> None:
    """A call gets copies of its inputs. If it changed one in place, what the caller gave is changed as well: then the card says so."""
    if any(isinstance(key, int) for key in seen.modified):
        given.copy_(given == 0)


def empty_rows_aside(slip: Callable, drive: Callable) -> Callable:
    """A mark: the output is that of a slip, but for queries that see no key at all. `softmax` makes their rows NaN, PyTorch's own attention 0."""

    def shown(seen: Observation) -> bool:
        pairs = zip(tree_leaves(seen.output), tree_leaves(drive(slip, *seen.args)), strict=True)
        numbers = [(got.nan_to_num(0.0), like.nan_to_num(0.0)) for got, like in pairs if isinstance(like, Tensor)]
        return all(agree(got, like, tolerance(seen.args)) for got, like in numbers)

    return shown


# ------------------------------------------------------------------------------------------------- one layer, one step


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
    names=("outputs: sequences tokens features", "keys: sequences heads tokens features", "values: sequences heads tokens features"),
    cases=[
        fed_in_chunks("5 tokens one by one", *[1] * 5),
        fed_in_chunks("a prompt of 4, then single tokens", 4, 1, 1),
        fed_in_chunks("chunks of 3, 1 and 4", 3, 1, 4, h=2, d_h=6),
        fed_in_chunks("chunks of 2 and 5, in float64", 2, 5, b=1, h=1, d_h=8, dtype=torch.float64),
        fed_in_chunks("scores of a thousand and more, in float64", 3, 2, 1, h=2, d_h=6, dtype=torch.float64, loud=1500.0),
        fed_in_chunks("scores of a thousand and more, one head, one by one", 1, 1, 1, b=1, h=1, d_h=6, dtype=torch.float64, loud=1500.0),
        fed_in_chunks("scores of many thousands, in float64", 2, 3, b=3, h=4, d_h=6, dtype=torch.float64, loud=9000.0),
    ],
    misconceptions=[
        Misconception(
            "position off by one", lambda *inputs: _step(inputs, start=max(0, inputs[1].shape[2] - 1)),
            "Counting from 0, the token after m others stands at position m. Your new token stands at m − 1, where the last token of the cache stands already.",
        ),
        Misconception(
            "positions from 0 in every chunk", lambda *inputs: _step(inputs, start=0),
            "The new tokens come after m others: their positions are m … m + n − 1. With positions from 0 every chunk looks like the beginning of the text.",
        ),
        Misconception(
            "the query at position 0", lambda *inputs: _step(inputs, q_start=0),
            "Query and key of a token stand at the same position. If the query stays at 0, its distances to all keys are wrong.",
        ),
        Misconception(
            "no positions at all", no_positions,
            "Without the turn the layer doesn't know the order of its tokens. Turn queries and keys by their positions (`rotary_embedding`).",
        ),
        Misconception(
            "keys that are not turned", keys_not_turned,
            "The score depends on the distance only if both are turned, the query by its position and the key by its own.",
        ),
        Misconception(
            "all keys turned once more after joining", lambda *inputs: _step(inputs, again=True),
            "You turn the new keys, join them, and turn all keys again: the new ones twice, the old ones in every step. Turn only the new keys, once.",
        ),
        Misconception(
            "keys turned after joining instead of before", old_keys_turned_too,
            "The old keys in `keys` are turned already, and you turn them again. Turn only the new keys, then join.",
        ),
        Misconception(
            "new keys stored unturned", stored_unturned,
            "Your scores use turned keys, but you return the new keys unturned. The next step expects all of `keys` turned.",
        ),
        Misconception(
            "keys turned only when they are read", turned_when_read,
            "The keys that you get are turned, and those that you return should be. So each key is turned once, not again in every step.",
        ),
        Misconception(
            "turned before the heads are split", turned_before_the_split,
            "A head has d_h features, and each head is turned by itself. If you turn all d features at once, they get other angles. Split first.",
        ),
        Misconception(
            "the triangle shifted by n instead of m", lambda *inputs: _step(inputs, seen=_triangle(inputs, _sizes(inputs)[0])),
            "The first new token sees the m old ones and itself. The triangle is shifted by the number of *old* tokens; with m = n the two "
            "can't be told apart.",
        ),
        Misconception(
            "a mask for the prompt only",
            lambda *inputs: _step(inputs, seen=_triangle(inputs, sum(_sizes(inputs)) if _sizes(inputs)[1] else 0)),
            "A chunk after old tokens has a future too. The mask is needed whenever n > 1, whatever m is.",
        ),
        Misconception(
            "masked after the softmax", masked_after_the_softmax,
            "Weights that are set to 0 after the softmax leave a sum below 1. Put −∞ into the scores, before the softmax.",
        ),
        Misconception(
            "a finite number for hidden scores", hidden_behind(-1e3),
            "Here scores go below −1000 too. Where all visible scores are lower than your number, the hidden ones get the attention. Only −∞ is below "
            "every score.",
        ),
        Misconception(
            "a finite number taken off hidden scores", a_number_taken_off,
            "Scores lie more than 1000 apart here: a hidden one may be the largest still when 1000 is taken off. Only −∞ is below every score.",
        ),
        Misconception(
            "a softmax without its maximum", softmax_without_maximum,
            "exp of a large score is infinite, and ∞/∞ is NaN. Take the row's largest score off first, as `softmax` does.",
        ),
        Misconception(
            "a maximum over hidden scores too", maximum_of_hidden_scores,
            "The largest score of a row may be a hidden one. If it is far above those that are seen, all their exponentials become 0, and 0/0 is NaN. "
            "Hide first (−∞ in the scores), then take the maximum or call `softmax`.",
        ),
        Misconception(
            "one maximum for all rows", one_maximum_for_all,
            "The largest score of the whole tensor was taken off every row. Where a row lies far below it all exponentials are 0, and 0/0 is NaN. Each row "
            "has a maximum of its own: along the last axis.",
        ),
        Misconception(
            "the softmax over the queries", softmax_over_the_queries,
            "Each query shares out its attention over the keys: the softmax runs along the last axis of the scores. (With one new token every weight of yours "
            "is 1.)",
        ),
        Misconception(
            "heads merged without swapping the axes back", merged_without_swapping,
            "(b, h, n, d_h) must become (b, n, h, d_h) before the heads are laid side by side. With one new token it makes no difference; with "
            "more, tokens and heads get mixed.",
        ),
        Misconception(
            "heads split without swapping the axes", split_without_swapping,
            "A row of `x @ w` holds the heads of one token side by side: (b, n, d) becomes (b, n, h, d_h), and then the axes n and h change places.",
        ),
        Misconception(
            "features dealt out to the heads in turn", features_dealt_out,
            "The first d_h features of a token are head 0's, the next d_h head 1's: `unflatten(-1, (h, d_h))`, with h in front.",
        ),
        Misconception(
            "W_O transposed", output_weight_transposed,
            "Multiply the merged heads by `w_o` as it is: `heads @ w_o`. `F.linear` and `nn.Linear` multiply by the transpose of their matrix, and W_O is "
            "square, so nothing complains.",
        ),
        Misconception(
            "the triangle at the upper left, for chunks only", upper_left_for_chunks,
            "A single token is right, and a chunk after old tokens sees too little: `is_causal=True` and a plain `tril()` begin at the upper left corner, "
            "where the *old* tokens stand. Shift the triangle by m.",
        ),
        Misconception(
            "weights transposed", weights_transposed,
            "The weights are given for `x @ w`, with a column for every feature of the result. `nn.Linear` keeps its matrix the other way round.",
        ),
        Misconception(
            "no scale", lambda *inputs: _step(inputs, scale=1.0),
            "Divide the scores by √d_h.",
        ),
        Misconception(
            "scaled by d_h instead of its root", lambda *inputs: _step(inputs, scale=1 / (inputs[0].shape[-1] // inputs[1].shape[1])),
            "The size of a dot product grows with the *root* of its number of terms: divide by √d_h.",
        ),
        Misconception(
            "values turned too", lambda *inputs: _step(inputs, v_start=inputs[1].shape[2]),
            "Positions belong in the scores. A value is what is handed over, and it is handed over as it is.",
        ),
        Misconception(
            "the triangle not shifted", lambda *inputs: _step(inputs, seen=torch.ones(_sizes(inputs)[0], sum(_sizes(inputs))).tril() == 1),
            "Row 0 of your mask is the first *new* token, and it may see all m old ones too. Shift the triangle by m: `tril(m)`. With one "
            "new token nothing is masked.",
        ),
        Misconception(
            "a chunk without a mask", lambda *inputs: _step(inputs, seen=torch.ones(_sizes(inputs)[0], sum(_sizes(inputs))) == 1),
            "One new token needs no mask, but a chunk does: its first token must not see its last. A test with single tokens never notices.",
        ),
        Misconception(
            "a token that doesn't see itself", itself_unseen,
            "A token attends to itself as well: row i sees the columns 0 … m + i. (In yours the very first token sees nothing.)",
            empty_rows_aside(itself_unseen, drive_steps),
        ),
        Misconception(
            "appended after attending", appended_after_attending,
            "The new tokens attend to themselves and to each other, so their keys and values must be joined to the old ones before the scores are computed.",
        ),
        Misconception(
            "new tokens put before the old", lambda *inputs: _step(inputs, front=True),
            "The mask counts columns in the order of the text. Join [old, new], not [new, old].",
        ),
        Misconception(
            "only the new tokens returned", forgets_the_old,
            "The next step gets what you return. It then sees the tokens of the last step and itself, and nothing older.",
        ),
        Misconception(
            "the new tokens not stored", forgets_the_new,
            "You return the cache as it came. The next step will not see these tokens.",
        ),
        Misconception(
            "scaled by √d instead of √d_h", lambda *inputs: _step(inputs, scale=inputs[0].shape[-1] ** -0.5),
            "A dot product within one head has d_h terms: divide by the root of d_h.",
        ),
        Misconception(
            "no output projection", without_output_projection,
            "The last step is missing: multiply the heads, side by side, by W_O.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- grouped heads


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
    names=("outputs: sequences heads tokens features", "keys: sequences heads tokens features", "values: sequences heads tokens features"),
    cases=[
        grouped_heads("6 query heads, 2 key/value heads, one by one", *[1] * 5, h=6, h_kv=2),
        grouped_heads("6 query heads, 3 key/value heads, chunks of 4, 1, 2, in float64", 4, 1, 2, h=6, h_kv=3, d_h=5, dtype=torch.float64),
        grouped_heads("one key/value head (multi-query)", 3, 1, 1, h=4, h_kv=1, b=1),
        grouped_heads("as many as query heads (multi-head)", 2, 3, 1, h=3, h_kv=3),
    ],
    misconceptions=[
        Misconception(
            "key/value heads in turn", lambda *inputs: _grouped_step(inputs, _in_turn),
            "Neighbouring query heads form a group: with 6 and 2, heads 0, 1, 2 read key/value head 0. `repeat` deals them out in turn; "
            "`repeat_interleave` keeps groups together.",
        ),
        Misconception(
            "the values in turn, the keys in groups", lambda *inputs: _grouped_step(inputs, _in_groups, spread_values=_in_turn),
            "A query head reads the key and the value of the same head. Your keys are repeated in groups, your values are dealt out in turn: "
            "`repeat_interleave` for both.",
        ),
        Misconception(
            "the keys in turn, the values in groups", lambda *inputs: _grouped_step(inputs, _in_turn, spread_values=_in_groups),
            "A query head reads the key and the value of the same head. Your values are repeated in groups, your keys are dealt out in turn: "
            "`repeat_interleave` for both.",
        ),
        Misconception(
            "the first key/value head for all", lambda *inputs: _grouped_step(inputs, _first_for_all),
            "Query head i reads key/value head `i // (h // h_kv)`. Head 0 for all is right only where there is one (multi-query attention).",
        ),
        Misconception(
            "the mean of the key/value heads", lambda *inputs: _grouped_step(inputs, _mean_for_all),
            "Heads are averaged once, when a trained model is turned into one with fewer heads. A step averages nothing: each group reads its own key/value head.",
        ),
        Misconception(
            "the groups the wrong way round", lambda *inputs: _grouped_step(inputs, _reversed_groups),
            "The first group of query heads reads the first key/value head.",
        ),
        Misconception(
            "all h heads stored", stores_all_heads,
            "h_kv heads go in and h_kv heads come out, or the cache is as large as without groups. Repeat them only to read them, and return them "
            "unrepeated.",
        ),
        Misconception(
            "repeated h_kv times", repeated_h_kv_times,
            "Each key/value head is read by h / h_kv query heads, so repeat it h / h_kv times. h_kv times is the same only where h = h_kv².",
            raises="RuntimeError",
        ),
        Misconception(
            "the triangle at the upper left", lambda *inputs: _grouped_step(inputs, _in_groups, shift=0),
            "`is_causal=True` and a plain `tril()` start at the upper left corner: row 0 sees only column 0. But row 0 is the first of the *new* tokens, "
            "and must see all m old ones too.",
        ),
        Misconception(
            "the triangle at the upper left, for chunks only", triangle_for_chunks_only,
            "A single token is right, and a chunk sees too little: its rows begin at the upper left corner, where the *old* tokens stand. Shift the "
            "triangle by m.",
        ),
        Misconception(
            "a token that doesn't see itself", itself_unseen_in_groups,
            "A token attends to itself as well: row i sees the columns 0 … m + i. (In yours the very first token sees nothing.)",
            empty_rows_aside(itself_unseen_in_groups, drive_groups),
        ),
        Misconception(
            "no scale", lambda *inputs: _grouped_step(inputs, _in_groups, scale=1.0),
            "Divide the scores by √d_h, with grouped heads too.",
        ),
        Misconception(
            "the new tokens not stored", nothing_stored,
            "You return the cache as it came. The next step will not see these tokens.",
        ),
        Misconception(
            "a mask for the prompt only", mask_for_the_prompt_only,
            "A chunk after old tokens has a future too. The mask is needed whenever n > 1, whatever m is.",
        ),
        Misconception(
            "the mask's rows in another order than the queries", rows_of_the_mask_in_turn,
            "If you stack the heads of a group as rows, each head needs all n rows of the mask in order: `repeat`. `repeat_interleave` repeats each row by "
            "itself, and then rows and queries no longer match.",
        ),
        Misconception(
            "one query head per group", one_query_a_group,
            "Only keys and values are shared. There are still h query heads, and h outputs.",
        ),
        Misconception(
            "a chunk without a mask", lambda *inputs: _grouped_step(inputs, _in_groups, masked=False),
            "The first token of a chunk must not see its last. Shift the triangle by the m old tokens.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ the loop around a model


def drive_generation(answer, model, prompt: Tensor, n: int):
    """The tokens, the calls of the model, and how many tokens it had to read."""
    calls, read = 0, 0

    def counted(tokens, start, cache) -> tuple[Tensor, Tensor]:
        nonlocal calls, read
        calls, read = calls + 1, read + tokens.shape[1]
        return model(tokens, start, cache)

    counted.__qualname__ = "model"  # what an error message calls it
    seen = watch(answer, counted, prompt, n)
    hand_on(seen, prompt)
    return seen.output, calls, read


def _no_call_too_many(seen) -> bool:
    _, calls, read = seen.output
    return calls <= seen.args[2] and read < seen.args[1].shape[1] + seen.args[2]


def _one_call_too_many(seen) -> bool:
    _, calls, read = seen.output
    return calls == seen.args[2] + 1 and read == seen.args[1].shape[1] + seen.args[2]


def _read_again(seen) -> bool:
    return seen.output[2] > seen.args[1].shape[1] + seen.args[2]


def _in_small_calls(seen) -> bool:
    _, calls, read = seen.output
    return calls > seen.args[2] and read < seen.args[1].shape[1] + seen.args[2]


def one_call_too_many(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = []
    for step in range(n):
        tokens.append(_best(logits))
        logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
    return torch.cat(tokens, dim=1)


def riddle_model(v: int) -> RandomArg:
    """A model whose next token depends on every token, on its position and on the order in which the cache holds them."""

    def model(tokens, start, cache) -> tuple[Tensor, Tensor]:
        positions = (start + torch.arange(tokens.shape[1])).expand(tokens.shape)
        new = (tokens + 2) * (positions + 3) % v  # (b, n)
        cache = new if cache is None else torch.cat([cache, new], dim=1)
        order = torch.arange(1, cache.shape[1] + 1)
        mixed = ((cache + order) ** 2 * order).cumsum(dim=1)[:, -tokens.shape[1] :] % v
        return torch.nn.functional.one_hot(mixed, v).float(), cache

    return RandomArg(lambda _: model)


def small_transformer(generator: Generator):
    """A small DecoderLM with drawn weights; the cache is a list with a pair of tensors for each layer."""
    lm = DecoderLM(Config(vocabulary=31, d=24, h=3, h_kv=3, layers=2)).requires_grad_(False)
    for parameter in lm.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 2 / math.sqrt(parameter.shape[-1]))

    def model(tokens, start, cache):
        layers = [GrowingCache() for _ in lm.blocks]
        for layer, (keys, values) in zip(layers, cache or []):
            layer.append(keys, values)
        return lm(tokens, cache=layers), [(layer.keys, layer.values) for layer in layers]

    return model


def random_prompt(b: int, p: int, v: int) -> RandomArg:
    return RandomArg(lambda g: torch.randint(v, (b, p), generator=g))


def _best(logits) -> Tensor:
    return logits[:, -1:].argmax(dim=-1)


def _written(model, prompt, n, *, start=0, late=0, row=-1, first=None) -> Tensor:
    logits, cache = model(prompt, start, None)
    tokens = [logits[:, row].argmax(dim=-1, keepdim=True)]
    if first is not None:
        tokens = [first]
    for step in range(n - 1):
        logits, cache = model(tokens[-1], prompt.shape[1] + step + late, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def without_a_cache(model, prompt, n) -> Tensor:
    tokens = prompt
    for _ in range(n):
        tokens = torch.cat([tokens, _best(model(tokens, 0, None)[0])], dim=1)
    return tokens[:, prompt.shape[1] :]


def everything_again(model, prompt, n) -> Tensor:
    tokens, cache = prompt, None
    for _ in range(n):
        logits, cache = model(tokens, 0, cache)
        tokens = torch.cat([tokens, _best(logits)], dim=1)
    return tokens[:, prompt.shape[1] :]


def prompt_by_tokens(model, prompt, n) -> Tensor:
    cache = None
    for place in range(prompt.shape[1]):
        logits, cache = model(prompt[:, place : place + 1], place, cache)
    tokens = [_best(logits)]
    for step in range(n - 1):
        logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def prompt_backwards(model, prompt, n) -> Tensor:
    return _written(model, prompt.flip(1), n)


def forgets_the_cache(model, prompt, n) -> Tensor:
    token, tokens = _best(model(prompt, 0, None)[0]), []
    for step in range(n):
        tokens.append(token)
        token = _best(model(token, prompt.shape[1] + step, None)[0])
    return torch.cat(tokens, dim=1)


def old_cache_for_ever(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = [_best(logits)]
    for step in range(n - 1):
        logits, _ = model(tokens[-1], prompt.shape[1] + step, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def last_prompt_token_twice(model, prompt, n) -> Tensor:
    _, cache = model(prompt, 0, None)
    token, tokens = prompt[:, -1:], []
    for step in range(n):
        logits, cache = model(token, prompt.shape[1] + step, cache)
        token = _best(logits)
        tokens.append(token)
    return torch.cat(tokens, dim=1)


def start_stays(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = [_best(logits)]
    for _ in range(n - 1):
        logits, cache = model(tokens[-1], prompt.shape[1], cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def start_at_zero(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = [_best(logits)]
    for step in range(n - 1):
        logits, cache = model(tokens[-1], step, cache)
        tokens.append(_best(logits))
    return torch.cat(tokens, dim=1)


def one_tensor_for_all(model, prompt, n) -> Tensor:
    return _written(model, prompt, n)[:, -1:].expand(-1, n).clone()


def the_same_for_the_whole_batch(model, prompt, n) -> Tensor:
    logits, cache = model(prompt, 0, None)
    tokens = []
    for step in range(n):
        best = logits[:, -1].argmax() % logits.shape[-1]
        tokens.append(best.expand(len(prompt), 1))
        if step < n - 1:
            logits, cache = model(tokens[-1], prompt.shape[1] + step, cache)
    return torch.cat(tokens, dim=1)


def tokens_as_floats(model, prompt, n) -> Tensor:
    tokens = torch.zeros(len(prompt), n)
    tokens[:] = _written(model, prompt, n)
    return tokens


def not_with_one_token(model, prompt, n) -> Tensor:
    tokens = _written(model, prompt, n)
    return torch.cat([tokens[:, :1], torch.stack(list(tokens[:, 1:].unbind(1)), dim=1)], dim=1)


generate_cached = Check(
    reference=decoding.generate_cached,
    drive=drive_generation,
    view=lambda output: output[0],
    behaviours=[
        Behaviour("every token read once", _no_call_too_many,
                  "The model has p + n − 1 tokens to read, in n calls: the prompt, then every new token but the last."),
    ],
    cases=[
        explicit_case("a prompt of 4, 6 new tokens", riddle_model(101), random_prompt(2, 4, 101), 6),
        explicit_case("a prompt of 1, 4 new tokens", riddle_model(97), random_prompt(3, 1, 97), 4),
        explicit_case("a prompt of 7, 3 new tokens", riddle_model(89), random_prompt(1, 7, 89), 3),
        explicit_case("a prompt of 5, 1 new token", riddle_model(83), random_prompt(3, 5, 83), 1),
        explicit_case("a small Transformer", RandomArg(small_transformer), random_prompt(2, 5, 31), 5),
    ],
    misconceptions=[
        Misconception(
            "no cache at all", without_a_cache,
            "Each call reads the whole text again. Hand the cache back in, and let the model read only the newest token.",
            cost=_read_again,
        ),
        Misconception(
            "everything read again into the cache", everything_again,
            "The old tokens are in the cache already. If the model reads them again, they are in it twice.",
        ),
        Misconception(
            "the prompt read token by token", prompt_by_tokens,
            "A prompt is known as a whole: one call can read all of it.",
            cost=_in_small_calls,
        ),
        Misconception(
            "the last token read too", one_call_too_many,
            "The last call of the model isn't needed: nothing is written after the last token.",
            cost=_one_call_too_many,
        ),
        Misconception(
            "the prompt backwards", prompt_backwards,
            "Feed the prompt in the order in which it is written.",
        ),
        Misconception(
            "the cache not handed back in", forgets_the_cache,
            "A model that gets one token and no cache knows nothing but that token. Pass on what the last call returned.",
        ),
        Misconception(
            "always the prompt's cache", old_cache_for_ever,
            "Every call returns a cache with the new token in it. Pass that one on, or the model never sees what was written.",
        ),
        Misconception(
            "the last prompt token read twice", last_prompt_token_twice,
            "The last row of the prompt's logits already gives the first new token. Feed that token next, not the last prompt token again.",
        ),
        Misconception(
            "position off by one", lambda model, prompt, n: _written(model, prompt, n, late=1),
            "Positions count from 0: a prompt of p tokens fills 0 … p − 1, and the first new token stands at p.",
        ),
        Misconception(
            "the batch taken for the prompt's length",
            lambda model, prompt, n: _written(model, prompt, n, late=len(prompt) - prompt.shape[1]),
            "`len(prompt)` is b, the number of prompts. Tokens lie along axis 1: a prompt is `prompt.shape[1]` tokens long.",
        ),
        Misconception(
            "a position that stays", start_stays,
            "Each new token stands one position after the one before.",
        ),
        Misconception(
            "positions that begin again after the prompt", start_at_zero,
            "The text goes on where the prompt ended. The first new token stands at position p.",
        ),
        Misconception(
            "the first row of the logits", lambda model, prompt, n: _written(model, prompt, n, row=0),
            "Row i of the logits is about the token after token i. What comes after the prompt stands in the last row.",
        ),
        Misconception(
            "the first new token left out", lambda model, prompt, n: _written(model, prompt, n + 1)[:, 1:],
            "The logits of the prompt give the first new token. It belongs to the answer.",
        ),
        Misconception(
            "one tensor for all tokens", one_tensor_for_all,
            "Every column shows the last token. If one tensor is overwritten at each step, the list holds it n times, with the last token.",
        ),
        Misconception(
            "one token for the whole batch", the_same_for_the_whole_batch,
            "`argmax()` without `dim` looks at all rows together. Each sequence has a likeliest token of its own: `dim=-1`.",
        ),
        Misconception(
            "tokens that come as floats", tokens_as_floats,
            "The numbers are right, but tokens are whole numbers, and no embedding takes a float. `torch.zeros(b, n)` is float32: say `dtype=torch.long`, or "
            "join what `argmax` gives.",
        ),
        Misconception(
            "an error for n = 1", not_with_one_token,
            "With n = 1 nothing comes after the first new token, and an empty list can't be joined. n ≥ 1 is allowed.",
            raises="RuntimeError",
        ),
        Misconception(
            "the prompt returned too", lambda model, prompt, n: torch.cat([prompt, _written(model, prompt, n)], dim=1),
            "Return only the n new tokens.",
        ),
    ],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------- what can't be cached


def _attention(d: int, generator: Generator, causal: bool) -> Callable:
    weights = [torch.randn(d, d, generator=generator) / math.sqrt(d) for _ in range(3)]

    def layer(x: Tensor) -> Tensor:
        q, k, v = (x @ w.to(x) for w in weights)
        scores = q @ k.mT / math.sqrt(d)
        later = torch.ones(scores.shape, dtype=torch.bool).triu(1)
        return (scores.masked_fill(later, -torch.inf) if causal else scores).softmax(dim=-1) @ v

    return layer


def causal_attention(d: int) -> RandomArg:
    return RandomArg(lambda g: _attention(d, g, causal=True))


def bidirectional_attention(d: int) -> RandomArg:
    return RandomArg(lambda g: _attention(d, g, causal=False))


def _one_later_layer(d: int) -> RandomArg:
    """Causal, then bidirectional: one layer that looks ahead is enough."""

    def make(generator: Generator) -> Callable:
        first, second = _attention(d, generator, True), _attention(d, generator, False)
        return lambda x: second(first(x))

    return RandomArg(make)


def _last_sees_less(d: int) -> RandomArg:
    """Token t mixes itself with token t + 2: of the old tokens only one changes, and it isn't the last."""
    return RandomArg(lambda _: lambda x: x + torch.cat([x[2:], torch.zeros_like(x[:2])]))


def _one_lower_each(x: Tensor) -> Tensor:
    return x - len(x)


def _up_and_further_down(x: Tensor) -> Tensor:
    """With every token that comes, the outputs of even tokens rise by 1, those of odd ones fall by 2."""
    return x + len(x) * (1 - 3 * (torch.arange(len(x))[:, None] % 2)).to(x)


def _signs_by_length(x: Tensor) -> Tensor:
    return x * (-1) ** len(x)


def _nothing_done(x: Tensor) -> Tensor:
    return x


def random_tokens(n: int, d: int, dtype=torch.float32) -> tuple[RandomArg, RandomArg]:
    return normal(n, d, dtype=dtype), normal(1, d, dtype=dtype)


bidirectional_cannot_cache = Check(
    exercise="bidirectional_cannot_cache",
    reference=decoding.change_of_old_outputs,
    cases=[
        explicit_case("causal attention, n = 5, d = 4", causal_attention(4), *random_tokens(5, 4)),
        explicit_case("bidirectional attention, n = 5, d = 4", bidirectional_attention(4), *random_tokens(5, 4)),
        explicit_case("a causal layer, then a bidirectional one, in float64", _one_later_layer(3), *random_tokens(6, 3, torch.float64)),
        explicit_case("every token looks two ahead", _last_sees_less(3), *random_tokens(4, 3)),
        explicit_case("every output falls by 1 for each token", RandomArg(lambda _: _one_lower_each), *random_tokens(5, 2)),
        explicit_case("some outputs rise, others fall further", RandomArg(lambda _: _up_and_further_down), *random_tokens(5, 3)),
        explicit_case("a layer that returns x itself", RandomArg(lambda _: _nothing_done), *random_tokens(3, 4)),
        explicit_case("outputs that change their sign with every token", RandomArg(lambda _: _signs_by_length), *random_tokens(4, 5)),
    ],
    misconceptions=[
        Misconception(
            "the new token in front", lambda layer, x, new: (layer(torch.cat([new, x]))[: len(x)] - layer(x)).abs().max(),
            "New text comes at the end: join [x, new].",
        ),
        Misconception(
            "the last n outputs compared", lambda layer, x, new: (layer(torch.cat([x, new]))[1:] - layer(x)).abs().max(),
            "The old tokens keep their places 0 … n − 1. The last row belongs to the new token: leave that one out.",
        ),
        Misconception(
            "the sum of the differences", lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).sum(),
            "Changes up and down cancel in a sum. Take absolute values, then the largest.",
        ),
        Misconception(
            "the largest change upwards", lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).max(),
            "A change downwards counts as well. Take absolute values before the maximum.",
        ),
        Misconception(
            "the largest change downwards", lambda layer, x, new: (layer(x) - layer(torch.cat([x, new]))[: len(x)]).max(),
            "A change upwards counts as well. Take absolute values before the maximum.",
        ),
        Misconception(
            "the absolute value taken after the maximum", lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).max().abs(),
            "By then a large change downwards has lost against a small one upwards. Absolute values first, then the maximum.",
        ),
        Misconception(
            "absolute values before the difference",
            lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)].abs() - layer(x).abs()).abs().max(),
            "Then an output that changes its sign and keeps its size counts as unchanged. First the difference, then its absolute value.",
        ),
        Misconception(
            "the mean difference", lambda layer, x, new: (layer(torch.cat([x, new]))[: len(x)] - layer(x)).abs().mean(),
            "The largest difference is asked for: a mean hides one token that changes.",
        ),
        Misconception(
            "the last old token only", lambda layer, x, new: (layer(torch.cat([x, new]))[len(x) - 1] - layer(x)[-1]).abs().max(),
            "Any old token may change, not only the one beside the new. Compare all of them.",
        ),
        Misconception(
            "the new token's output compared with the last old one", lambda layer, x, new: (layer(torch.cat([x, new]))[-1] - layer(x)[-1]).abs().max(),
            "The new token's output has nothing to be compared with. The question is how the *old* outputs change.",
        ),
    ],
)  # fmt: skip
