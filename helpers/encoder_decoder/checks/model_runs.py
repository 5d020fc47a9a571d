"""What a model of an encoder and a decoder does, in numbers and in words."""

import contextlib
import functools
import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from helpers.engine.compare import Message

from .. import model as reference
from .layers import (
    IN_ITS_PLACE,
    NOT_SCALED,
    TOKENS,
    WHOLE,
    added,
    choices,
    in_training,
    loaded,
    seen_call,
    told_gradients,
    twice,
    weights_like,
    where_it_drops,
)

PAD, START = reference.PAD, reference.START


def run(cls: Callable, sizes: tuple, weights: dict[str, Tensor], source: Tensor, target: Tensor, asks: str) -> tuple:
    """The memory, and logits: those of the "whole" model after a call with less to read, or those of `decode`, its
    other "half", or all that `_thorough` tells."""
    model, real = cls(*sizes), source != PAD
    began = _began(model.state_dict(), sizes[2])
    loaded(model, weights)
    model.eval()
    if asks == "all":
        return *_thorough(model, source, target), began, *_at_half_the_rate(cls)
    if asks == "whole":
        model(source[:, :2], target[:, :2])  # of this nothing may be left
        logits = model(source, target)
        return model.encode(source, real), _asked_for(logits, target)
    memory = model.encode(source, real)
    return memory, _asked_for(model.decode(target, memory, real), target)


def _thorough(model: nn.Module, source: Tensor, target: Tensor) -> tuple:
    """Memory and logits, of the model and of `decode`, where a word between others is hidden from both halves and
    another one from the decoder alone, a PAD isn't hidden, and the target has lost its first; the memory's gradient;
    and memory and logits in training mode, where every dropout drops all."""
    logits, real, read = model(source, target), source != PAD, source.clone()
    real[0, 1], read[0, -1] = False, PAD  # told to hide a word, and to show a PAD
    memory = model.encode(read, real)
    real = real.clone()  # `encode` may have kept its own
    real[-1, 0] = False
    half = seen_call(model.decode, (target[:, 1:], memory, real))
    model.train()
    both, shown, b = twice(source), twice(source != PAD), len(source)
    encoded = model.encode(both, shown)
    trained = in_training(encoded, b), in_training(model.decode(twice(target), encoded, shown), b)
    gradient, dtype = told_gradients(half, "the memory"), Message(f"logits of dtype {logits.dtype}")
    return memory, logits, half.output, *gradient, *trained, dtype


HALF = (7, 5, 4, 2, 3, 1, 0.5)  # words of source and target, d, h, d_ff, layers and the rate of dropout

SILENT = (
    "self_attn.w_o",
    "linear2",
)  # weights of 0, so that few outputs are possible; 6.1 and 6.2 look into the layers


def _at_half_the_rate(cls: Callable) -> tuple[Message, Message, Message]:
    """Where encoder and decoder drop, in words: all that can come out of sequences of one token is listed (see
    layers.py). And whether the encoder learns."""
    weights, source, target, memory, encoded, decoded = _halved()
    model = loaded(cls(*HALF), weights)
    model.train()
    read = model.encode(source.clone(), source != PAD)
    written = model.decode(target.clone(), memory.clone(), torch.ones(memory.shape[:2], dtype=torch.bool))
    drops = Message(f"encode: {where_it_drops(read, encoded)}"), Message(f"decode: {where_it_drops(written, decoded)}")
    return *drops, _learns(model, source.clone(), target.clone())


def _learns(model: nn.Module, source: Tensor, target: Tensor) -> Message:
    """Whether what `forward` hands to `decode` hangs on the encoder's weights. The model is of no use afterwards."""
    handed: list[bool] = []

    def decode(*inputs, **named):
        floats = [one for one in (*inputs, *named.values()) if isinstance(one, Tensor) and one.is_floating_point()]
        handed.append(any(one.requires_grad for one in floats))
        return torch.zeros(*target.shape, HALF[1], dtype=torch.float64)

    model.decode = decode
    with contextlib.suppress(Exception):  # another decoder may give more than logits
        model(source, target)
    return Message("forward: no gradient reaches the encoder" if handed == [False] else "forward: the encoder learns")


@functools.cache
@torch.no_grad()
def _halved() -> tuple:
    """Weights; source and target, sequences of one token each, and a memory; what may come out of encoder and
    decoder."""
    generator, model = Generator().manual_seed(2), reference.EncoderDecoder(*HALF)
    drawn = weights_like(model, generator, torch.float64)
    weights = {name: 0 * weight if any(part in name for part in SILENT) else weight for name, weight in drawn.items()}
    loaded(model, weights).eval()
    source, target = (torch.randint(START, words, (TOKENS, 1), generator=generator) for words in HALF[:2])
    memory = torch.randn(TOKENS, 1, HALF[2], generator=generator, dtype=torch.float64)

    def encoded(scale: float, whole: bool) -> Tensor:
        layer, x = model.encoder[0], choices(model.embed(source, model.source_embedding), scale, whole).flatten(1, 2)
        return layer.norm2(layer.norm1(x))

    def decoded(scale: float, whole: bool) -> Tensor:
        layer, x = model.decoder[0], choices(model.embed(target, model.target_embedding), scale, whole).flatten(1, 2)
        x = added(layer.norm2, layer.norm1(x), layer.cross_attn(layer.norm1(x), memory), scale)
        return model.head(layer.norm3(x))

    kinds = (WHOLE, 2.0, True), (IN_ITS_PLACE, 2.0, False), (NOT_SCALED, 1.0, False)
    lists = [[(words, possible(scale, whole)) for words, scale, whole in kinds] for possible in (encoded, decoded)]
    return weights, source, target, memory, *lists


def _asked_for(logits: Tensor, target: Tensor) -> Tensor:
    """The logits, with 0 for any number where the target is padding: nothing is asked there, but NaN would spoil the
    gradients."""
    if not isinstance(logits, Tensor) or logits.shape[:2] != target.shape:
        return logits
    return logits.masked_fill((target == PAD)[..., None] & logits.isfinite(), 0.0)


def _began(weights: dict[str, Tensor], d: int) -> Message:
    """Whether both embeddings begin with standard deviation d^(−½), as far as so few numbers can tell."""
    tables = {name: weights.get(f"{name}_embedding.weight") for name in ("source", "target")}
    kinds = {name: _size(table, d) for name, table in tables.items() if table is not None}
    off = [f"the {name}'s embedding with {kind}" for name, kind in kinds.items() if kind]
    if off:
        return Message(f"not both embeddings begin with standard deviation d^(−½): {' and '.join(off)}")
    return Message("both embeddings begin with standard deviation d^(−½)")


def _size(table: Tensor, d: int) -> str:
    """Which standard deviation it is, where it isn't about d^(−½)."""
    size = table.std().item() * math.sqrt(d)
    if 0.65 < size < 1.5:
        return ""
    if 0.9 < size / math.sqrt(2 * d / sum(table.shape)) < 1.1:
        return "that of Xavier's start"
    return "a larger one" if size > 1 else "a smaller one"
