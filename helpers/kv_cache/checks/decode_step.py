"""A layer reads new tokens after old ones, whose keys and values it gets and returns."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from helpers.engine.answers.mask import Mask
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, Sizes, attend
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.drivers import unpack, watch
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers
from helpers.transformer_lm.positions import rotary_embedding

from .. import decoding
from .decoding import empty_rows_aside, hand_on

__all__ = ["decode_step"]


def drive_steps(answer, x: Tensor, chunks: tuple[int, ...], weights: tuple, h: int) -> tuple:
    """All outputs, fed chunk by chunk, and the keys and values in the end; a step gets those that the last returned."""
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
        scales = (1.5 * loud, 1.5, 1, 1)  # scores that matter
        return tuple(scale * torch.randn(d, d, generator=g, dtype=dtype) * d**-0.5 for scale in scales)

    return explicit_case(label, normal(b, sum(chunks), d), chunks, RandomArg(weights), h)


def turned(t, split, at):
    return rotary_embedding(split(t), at)


def not_turned(t, split, at):
    return split(t)


def all_at_start(t, split, at):
    return turned(t, split, at[:1].expand(len(at)))


@dataclass(frozen=True)
class Step(Attention):
    """n new tokens after m old ones, at the positions `at`. split: of (b, n, d) it makes (b, h, n, d_h)."""

    weights: Callable = lambda *weights: weights
    split: Callable = lambda t, h: t.unflatten(-1, (h, -1)).transpose(1, 2)
    start: Callable = lambda m: m
    q: Callable = turned  # (x w_q, split, at) → (b, h, n, d_h)
    k: Callable = turned
    v: Callable = not_turned
    join: Callable = lambda old, new: torch.cat([old, new], dim=2)
    store: Callable = lambda keys: keys  # all keys as they are returned
    read: Callable = lambda keys, values, m: (keys, values)
    shift: Callable = lambda n, m: m  # of the triangle
    merge: Callable = lambda heads: heads.transpose(1, 2).flatten(2)
    kept: Callable = lambda t, m: t  # of all keys and values


@composable
def step(**changed) -> Callable:
    """A decoding step with these steps of its own changed."""
    steps = Step(**changed)

    def answer(x, keys, values, w_q, w_k, w_v, w_o):
        w_q, w_k, w_v, w_o = steps.weights(w_q, w_k, w_v, w_o)
        n, (_, h, m, d_h) = x.shape[1], keys.shape
        split, at = lambda t: steps.split(t, h), torch.arange(n) + steps.start(m)
        q, k, v = steps.q(x @ w_q, split, at), steps.k(x @ w_k, split, at), steps.v(x @ w_v, split, at)
        keys, values = steps.store(steps.join(keys, k)), steps.join(values, v)
        seen, mixed = steps.read(keys, values, m)
        mask = torch.ones(n, seen.shape[2]).tril(steps.shift(n, m)) == 1
        out = steps.merge(attend(steps, q, seen, mixed, mask, Sizes(d_h, x.shape[-1], h))[0]) @ w_o
        return out, steps.kept(keys, m), steps.kept(values, m)

    return answer


def all_turned(keys):
    return rotary_embedding(keys, torch.arange(keys.shape[2]))


def new_keys_turned(keys, values, m):
    new = rotary_embedding(keys[:, :, m:], torch.arange(m, keys.shape[2]))
    return torch.cat([keys[:, :, :m], new], dim=2), values


def new_only(**changed) -> Callable:
    return step(join=lambda old, new: new, shift=lambda n, m: 0, **changed)


itself_unseen = step(shift=lambda n, m: m - 1)

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
        *slips(step, Scale.none, Scale.by_width, Scale.by_root_of_token_width, Mask.after_softmax),
        *slips(step, Softmax.no_maximum, Softmax.maximum_of_hidden, Softmax.one_maximum, Mask.plus_infinity),
        position_off_by_one=step(start=lambda m: max(0, m - 1)),
        from_0_in_every_chunk=step(start=lambda m: 0),
        m_added_twice=Wrong(step(start=lambda m: 2 * m), variants=(step(shift=lambda n, m: 2 * m),)),
        one_position_for_chunk=step(q=all_at_start, k=all_at_start),
        query_at_0=step(q=lambda t, split, at: turned(t, split, at - at[0])),
        no_positions=step(q=not_turned, k=not_turned),
        keys_not_turned=step(k=not_turned),
        turned_once_more=step(store=all_turned),
        turned_after_joining=step(k=not_turned, store=all_turned),
        stored_unturned=step(k=not_turned, read=new_keys_turned),
        turned_when_read=step(k=not_turned, read=lambda keys, values, m: (all_turned(keys), values)),
        turned_before_split=step(
            q=lambda t, split, at: split(rotary_embedding(t, at)), k=lambda t, split, at: split(rotary_embedding(t, at))
        ),
        values_turned=step(v=turned),
        shifted_by_n=step(shift=lambda n, m: n),
        not_shifted=step(shift=lambda n, m: 0),
        not_shifted_for_chunks=step(shift=lambda n, m: 0 if n > 1 else m),
        prompt_masked_only=step(shift=lambda n, m: n + m if m else 0),
        not_masked=step(shift=lambda n, m: n + m),
        itself_unseen=Wrong(itself_unseen, recognise=empty_rows_aside(itself_unseen, drive_steps)),
        finite_number=step(hide=lambda scores, mask: scores.masked_fill(~mask, -1e3)),
        finite_number_off=step(hide=lambda scores, mask: scores - 1e3 * ~mask),
        over_queries=step(normalise=lambda hidden, mask, scores: hidden.softmax(dim=-2).nan_to_num(0.0)),
        merged_unswapped=step(merge=lambda heads: heads.reshape(len(heads), heads.shape[2], -1)),
        split_unswapped=step(split=lambda t, h: t.reshape(len(t), h, t.shape[1], -1)),
        dealt_out=step(
            split=lambda t, h: t.unflatten(-1, (-1, h)).permute(0, 3, 1, 2),
            merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
        ),
        w_o_transposed=step(weights=lambda w_q, w_k, w_v, w_o: (w_q, w_k, w_v, w_o.mT)),
        weights_transposed=step(weights=lambda *weights: [w.mT for w in weights]),
        no_output_projection=step(
            weights=lambda w_q, w_k, w_v, w_o: (w_q, w_k, w_v, torch.eye(len(w_o), dtype=w_o.dtype))
        ),
        appended_afterwards=step(read=lambda keys, values, m: (keys[:, :, :m], values[:, :, :m])),
        old_never_read=Wrong(new_only(), variants=(new_only(), new_only(start=lambda m: 0))),
        new_before_old=step(join=lambda old, new: torch.cat([new, old], dim=2)),
        new_returned_only=step(kept=lambda t, m: t[:, :, m:]),
        new_not_stored=step(kept=lambda t, m: t[:, :, :m]),
    ),
)
