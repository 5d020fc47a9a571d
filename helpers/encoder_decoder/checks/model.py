"""Checks of the whole model: what is embedded how, which layer reads which, and who may see whom."""

import contextlib
import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.compare import Message
from helpers.engine.drivers import choice
from helpers.transformer_lm.positions import sinusoidal_positions

from .. import model as reference
from ..layers import DecoderLayer, EncoderLayer
from .layers import (
    ALL,
    FORBIDDEN,
    IN_ITS_PLACE,
    NOT_SCALED,
    TOKENS,
    WHOLE,
    WHOLE_TOKENS,
    added,
    causal,
    choices,
    in_training,
    loaded,
    seen_call,
    told_gradients,
    twice,
    weights_like,
    where_it_drops,
)

__all__ = ["EncoderDecoder", "which_connects_where"]

PAD, START = reference.PAD, reference.START


def _run(cls: Callable, sizes: tuple, weights: dict[str, Tensor], source: Tensor, target: Tensor, asks: str) -> tuple:
    """The memory, and logits: those of the "whole" model after a call with less to read, or those of `decode`, its other "half", or
    all that `_thorough` tells."""
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
    """Memory and logits, of the model and of `decode`, where a word between others is hidden from both halves and another one from the
    decoder alone, a PAD isn't hidden, and the target has lost its first; the memory's gradient; and memory and logits in training mode,
    where every dropout drops all."""
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
    return (
        memory,
        logits,
        half.output,
        *told_gradients(half, "the memory"),
        *trained,
        Message(f"logits of dtype {logits.dtype}"),
    )


HALF = (7, 5, 4, 2, 3, 1, 0.5)  # words of source and target, d, h, d_ff, layers and the rate of dropout
SILENT = (
    "self_attn.w_o",
    "linear2",
)  # their weights are 0, so that few outputs are possible; 6.1 and 6.2 look into the layers


def _at_half_the_rate(cls: Callable) -> tuple[Message, Message, Message]:
    """Where encoder and decoder drop, in words: all that can come out of sequences of one token is listed (see layers.py). And whether
    the encoder learns."""
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
    """Weights; source and target, sequences of one token each, and a memory; what may come out of encoder and decoder."""
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
    """The logits, with 0 for any number where the target is padding: nothing is asked there, but NaN would spoil the gradients."""
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


def _model(
    label: str,
    *,
    b: int,
    n: int,
    m: int,
    d: int,
    h: int,
    d_ff: int,
    layers: int,
    padding=True,
    words=(29, 23),
    dtype=torch.float32,
    ends=False,
    asks="halves",
) -> Case:
    """words: of source and target; in float64 so many that Xavier's start is far from d^(−½). ends: the targets end one after the other, all but the first in padding. asks: for the
    "whole" model or for its "halves". A case in float64 asks for all there is."""
    sizes = (*words, d, h, d_ff, layers, ALL)
    like = reference.EncoderDecoder(*sizes)

    def source(generator: Generator) -> Tensor:
        tokens = torch.randint(START, words[0], (b, m), generator=generator)
        lengths = torch.randint(1, m, (b, 1), generator=generator)
        lengths[0] = m
        return tokens.masked_fill(torch.arange(m) >= lengths, PAD) if padding else tokens

    def target(generator: Generator) -> Tensor:
        tokens = torch.randint(START, words[1], (b, n), generator=generator)
        return tokens.masked_fill(torch.arange(n) >= n - torch.arange(b)[:, None], PAD) if ends else tokens

    return explicit_case(
        label,
        sizes,
        RandomArg(lambda generator: weights_like(like, generator, dtype)),
        RandomArg(source),
        RandomArg(target),
        "all" if dtype == torch.float64 else asks,
    )


class _Model(nn.Module):
    """Right, in small steps: each slip below changes one."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__()
        self.d = d
        self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d**-0.5)
        self.encoder = nn.ModuleList(EncoderLayer(d, h, d_ff, dropout) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(d, h, d_ff, dropout) for _ in range(layers))
        self.head, self.dropout = nn.Linear(d, target_words), nn.Dropout(dropout)

    def positions(self, x):
        return sinusoidal_positions(x.shape[1], self.d).to(x)

    def embed(self, tokens, embedding):
        x = embedding(tokens) * math.sqrt(self.d)
        return self.dropout(x + self.positions(x))

    def embed_source(self, tokens):
        return self.embed(tokens, self.source_embedding)

    def embed_target(self, tokens):
        return self.embed(tokens, self.target_embedding)

    def encoder_mask(self, real):
        return real[:, None]

    def memory_mask(self, real, n):
        return real[:, None]

    def own_mask(self, n):
        return causal(n)

    def outputs(self, source, real):
        """Of the embedding and of every encoder layer."""
        found = [self.embed_source(source)]
        for layer in self.encoder:
            found.append(layer(found[-1], self.encoder_mask(real)))
        return found

    def encode(self, source, real):
        return self.outputs(source, real)[-1]

    def read(self, memory, index):
        return memory

    def decode(self, target, memory, real):
        x = self.embed_target(target)
        for index, layer in enumerate(self.decoder):
            x = layer(
                x, self.read(memory, index), self.own_mask(target.shape[1]), self.memory_mask(real, target.shape[1])
            )
        return self.head(x)

    def forward(self, source, target):
        real = source != PAD
        return self.decode(target, self.encode(source, real), real)


class ReadsTheEmbeddings(_Model):
    def encode(self, source, real):
        return self.outputs(source, real)[0]


class ReadsTheFirstLayer(_Model):
    def encode(self, source, real):
        return self.outputs(source, real)[1]


class ReadsTheLayerBeside(_Model):
    """Decoder layer i reads encoder layer i."""

    def encode(self, source, real):
        self.kept = self.outputs(source, real)[1:]
        return self.kept[-1]

    def read(self, memory, index):
        return self.kept[index]


class ReadsTheEncoderBackwards(ReadsTheLayerBeside):
    def read(self, memory, index):
        return self.kept[-1 - index]


class MemoryForTheFirstLayerAlone(_Model):
    def decode(self, target, memory, real):
        x, n = self.embed_target(target), target.shape[1]
        for index, layer in enumerate(self.decoder):
            own = (x, causal(n)) if index else (memory, self.memory_mask(real, n))
            x = layer(x, own[0], causal(n), own[1])
        return self.head(x)


class EncoderShared(_Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.encoder = nn.ModuleList([self.encoder[0]] * len(self.encoder))


class DecoderShared(_Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.decoder = nn.ModuleList([self.decoder[0]] * len(self.decoder))


class AllShared(EncoderShared, DecoderShared):
    pass


class EncoderNotStacked(_Model):
    def encode(self, source, real):
        return self.encoder[-1](self.embed_source(source), self.encoder_mask(real))


class DecoderNotStacked(_Model):
    def decode(self, target, memory, real):
        x, n = self.embed_target(target), target.shape[1]
        return self.head(self.decoder[-1](x, memory, causal(n), self.memory_mask(real, n)))


class WithoutScale(_Model):
    def embed(self, tokens, embedding):
        x = embedding(tokens)
        return self.dropout(x + self.positions(x))


class SourceWithoutScale(_Model):
    def embed_source(self, tokens):
        x = self.source_embedding(tokens)
        return self.dropout(x + self.positions(x))


class TargetWithoutScale(_Model):
    def embed_target(self, tokens):
        x = self.target_embedding(tokens)
        return self.dropout(x + self.positions(x))


class ScaledByTheWidth(_Model):
    def embed(self, tokens, embedding):
        x = embedding(tokens) * self.d
        return self.dropout(x + self.positions(x))


class ScaledByHalfTheWidth(_Model):
    def embed(self, tokens, embedding):
        x = embedding(tokens) * self.d / 2
        return self.dropout(x + self.positions(x))


class PositionsScaledToo(_Model):
    def embed(self, tokens, embedding):
        x = embedding(tokens)
        return self.dropout((x + self.positions(x)) * math.sqrt(self.d))


class EmbeddingDividedByRoot(_Model):
    def embed(self, tokens, embedding):
        x = embedding(tokens) / math.sqrt(self.d)
        return self.dropout(x + self.positions(x))


class WithoutPositions(_Model):
    def positions(self, x):
        return torch.zeros_like(x)


class PositionsInSourceOnly(_Model):
    def embed_target(self, tokens):
        return self.dropout(self.target_embedding(tokens) * math.sqrt(self.d))


class PositionsInTargetOnly(_Model):
    def embed_source(self, tokens):
        return self.dropout(self.source_embedding(tokens) * math.sqrt(self.d))


class PositionsFromOne(_Model):
    def positions(self, x):
        return sinusoidal_positions(x.shape[1] + 1, self.d)[1:].to(x)


class PositionsInHalves(_Model):
    def positions(self, x):
        table = sinusoidal_positions(x.shape[1], self.d).to(x)
        return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


class OneEmbedding(_Model):
    def embed_target(self, tokens):
        return self.embed(tokens, self.source_embedding)


class WithoutCausalMask(_Model):
    def own_mask(self, n):
        return None


class OwnTokenHidden(_Model):
    def own_mask(self, n):
        mask = torch.ones(n, n, dtype=torch.bool).tril(-1)
        mask[0, 0] = True
        return mask


class SeesOneAhead(_Model):
    def own_mask(self, n):
        return torch.ones(n, n, dtype=torch.bool).tril(1)


class MemoryMaskedCausally(_Model):
    def memory_mask(self, real, n):
        return real[:, None] & torch.ones(n, real.shape[1], dtype=torch.bool).tril()


class EncoderMaskedCausally(_Model):
    def encoder_mask(self, real):
        return real[:, None] & causal(real.shape[1])


class PaddingReadByEncoder(_Model):
    def encoder_mask(self, real):
        return None


class PaddingReadByDecoder(_Model):
    def memory_mask(self, real, n):
        return None


class PaddingReadByBoth(PaddingReadByEncoder, PaddingReadByDecoder):
    pass


class PaddingSetToZero(PaddingReadByDecoder):
    def decode(self, target, memory, real):
        return super().decode(target, memory.masked_fill(~real[..., None], 0.0), real)


class RealInverted(_Model):
    """`real` as what is hidden."""

    def encoder_mask(self, real):
        return ~real[:, None]

    def memory_mask(self, real, n):
        return ~real[:, None]


class PaddingTakenForReal(_Model):
    def forward(self, source, target):
        real = source == PAD
        return self.decode(target, self.encode(source, real), real)


class EmbeddingsSwapped(_Model):
    def embed_source(self, tokens):
        return self.embed(tokens, self.target_embedding)

    def embed_target(self, tokens):
        return self.embed(tokens, self.source_embedding)


class WithSoftmax(_Model):
    def decode(self, target, memory, real):
        return super().decode(target, memory, real).softmax(dim=-1)


class WithLogSoftmax(_Model):
    def decode(self, target, memory, real):
        return super().decode(target, memory, real).log_softmax(dim=-1)


class WithoutHead(_Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.last = self.head

    def decode(self, target, memory, real):
        x, n = self.embed_target(target), target.shape[1]
        for layer in self.decoder:
            x = layer(x, memory, causal(n), self.memory_mask(real, n))
        return x

    def load_state_dict(self, weights, strict=True):
        return super().load_state_dict(weights, strict=False)


class LastTokenAlone(_Model):
    def decode(self, target, memory, real):
        return super().decode(target, memory, real)[:, -1]


class DropsForEver(_Model):
    def train(self, mode=True):
        return super().train(True)


class EncodesWhatItFinds(_Model):
    """`encode` looks for PAD itself."""

    def encode(self, source, real):
        return super().encode(source, source != PAD)


class EncodesWhatItFindsToo(_Model):
    """`encode` looks for PAD itself, and goes by `real` as well."""

    def encode(self, source, real):
        return super().encode(source, real & (source != PAD))


class DecodesWithTheMaskOfEncode(_Model):
    """`encode` keeps its `real`, and `decode` uses that."""

    def encode(self, source, real):
        self.kept = real
        return super().encode(source, real)

    def memory_mask(self, real, n):
        return self.kept[:, None]


class HidesTheEnd(_Model):
    """Of `real` only the number of words in a row."""

    def encoder_mask(self, real):
        return (torch.arange(real.shape[1]) < real.sum(dim=1, keepdim=True))[:, None]

    def memory_mask(self, real, n):
        return self.encoder_mask(real)


class TargetPaddingAsksNothing(_Model):
    """Rows of the causal mask are emptied where the target is padding."""

    def decode(self, target, memory, real):
        x = self.embed_target(target)
        own = causal(target.shape[1]) & (target != PAD)[:, :, None]
        for layer in self.decoder:
            x = layer(x, memory, own, real[:, None])
        return self.head(x)


class KeepsItsMask(_Model):
    def own_mask(self, n):
        if not hasattr(self, "kept"):
            self.kept = causal(n)
        return self.kept


class KeepsItsMaskAndCutsIt(KeepsItsMask):
    def own_mask(self, n):
        return super().own_mask(n)[:n, :n]


class KeepsItsLargestMask(_Model):
    def own_mask(self, n):
        if not hasattr(self, "kept") or len(self.kept) < n:
            self.kept = causal(n)
        return self.kept


class KeepsItsPositions(_Model):
    def positions(self, x):
        if not hasattr(self, "kept"):
            self.kept = super().positions(x)
        return self.kept[: x.shape[1]]


class TargetPositionsFromOne(_Model):
    def embed_target(self, tokens):
        x = self.target_embedding(tokens) * math.sqrt(self.d)
        return self.dropout(x + sinusoidal_positions(x.shape[1] + 1, self.d)[1:].to(x))


class TiedHead(_Model):
    def __init__(self, source_words, target_words, *sizes):
        super().__init__(source_words, target_words, *sizes)
        self.head.weight = self.target_embedding.weight


class OneEmbeddingForEqualVocabularies(_Model):
    def __init__(self, source_words, target_words, *sizes):
        super().__init__(source_words, target_words, *sizes)
        if source_words == target_words:
            self.target_embedding = self.source_embedding


def table_of(size: int) -> type[_Model]:
    """A model whose positions are a table that ends."""

    class TableThatEnds(_Model):
        def positions(self, x):
            return sinusoidal_positions(size, self.d)[: x.shape[1]].to(x)

    return TableThatEnds


class LoudTarget(_Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        nn.init.normal_(self.target_embedding.weight)


class LoudSource(_Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        nn.init.normal_(self.source_embedding.weight)


class LoudEmbeddings(LoudTarget, LoudSource):
    pass


class XavierEmbeddings(_Model):
    """As after a loop over all parameters, of which only the embeddings show: the others are loaded."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.xavier_uniform_(embedding.weight)


class QuietTarget(_Model):
    def __init__(self, source_words, target_words, d, *sizes):
        super().__init__(source_words, target_words, d, *sizes)
        nn.init.normal_(self.target_embedding.weight, std=1 / (2 * d))


class QuietSource(_Model):
    def __init__(self, source_words, target_words, d, *sizes):
        super().__init__(source_words, target_words, d, *sizes)
        nn.init.normal_(self.source_embedding.weight, std=1 / (2 * d))


class QuietEmbeddings(QuietTarget, QuietSource):
    pass


class LayersWithARateOfTheirOwn(_Model):
    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers)
        self.dropout = nn.Dropout(dropout)


class EncoderWithARateOfItsOwn(_Model):
    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, dropout)
        self.encoder = nn.ModuleList(EncoderLayer(d, h, d_ff) for _ in range(layers))


class DecoderWithARateOfItsOwn(_Model):
    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, dropout)
        self.decoder = nn.ModuleList(DecoderLayer(d, h, d_ff) for _ in range(layers))


class DropsBeforeThePositions(_Model):
    def embed(self, tokens, embedding):
        x = self.dropout(embedding(tokens) * math.sqrt(self.d))
        return x + self.positions(x)


class SourceDroppedTwice(_Model):
    def embed_source(self, tokens):
        return self.dropout(super().embed_source(tokens))


class TargetDroppedTwice(_Model):
    def embed_target(self, tokens):
        return self.dropout(super().embed_target(tokens))


class BothDroppedTwice(SourceDroppedTwice, TargetDroppedTwice):
    pass


class SourceDroppedWhole(_Model):
    def embed_source(self, tokens):
        x = self.source_embedding(tokens) * math.sqrt(self.d)
        return F.dropout1d(x + self.positions(x), self.dropout.p, self.training)


class TargetDroppedWhole(_Model):
    def embed_target(self, tokens):
        x = self.target_embedding(tokens) * math.sqrt(self.d)
        return F.dropout1d(x + self.positions(x), self.dropout.p, self.training)


class BothDroppedWhole(SourceDroppedWhole, TargetDroppedWhole):
    pass


class SourceNotDropped(_Model):
    def embed_source(self, tokens):
        x = self.source_embedding(tokens) * math.sqrt(self.d)
        return x + self.positions(x)


class TargetNotDropped(_Model):
    def embed_target(self, tokens):
        x = self.target_embedding(tokens) * math.sqrt(self.d)
        return x + self.positions(x)


class QueriesHidden(_Model):
    """`real` as rows of the mask, not as columns."""

    def encoder_mask(self, real):
        return real[:, :, None]


class QueriesHiddenToo(_Model):
    """`real` as rows and as columns."""

    def encoder_mask(self, real):
        return real[:, :, None] & real[:, None]


class EmbeddingNotDropped(_Model):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.dropout = nn.Identity()


class EncodesWithoutGradients(_Model):
    def forward(self, source, target):
        real = source != PAD
        with torch.no_grad():
            memory = self.encode(source, real)
        return self.decode(target, memory, real)


class MemoryDetached(_Model):
    def read(self, memory, index):
        return memory.detach()


class DropsNothing(_Model):
    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, 0.0)


EncoderDecoder = Check(
    reference=reference.EncoderDecoder,
    drive=_run,
    names=("memory: sequences tokens features", "logits: sequences positions words", "logits of decode: sequences positions words", "gradient of the memory: sequences tokens features", "memory in training mode, every dropout at rate 1: sequences tokens features", "logits in training mode, every dropout at rate 1: sequences positions words"),
    cases=[  # the cheapest first: a diagnosis tries all slips on it, and few of them on the others
        _model("1 layer, m = 4, n = 9", b=3, n=9, m=4, d=6, h=1, d_ff=7, layers=1, asks="whole"),
        _model("m = 1,024, n = 3, d = 16", b=1, n=3, m=1024, d=16, h=1, d_ff=9, layers=1),
        _model("3 layers, n = m = 6, d = 8", b=3, n=6, m=6, d=8, h=2, d_ff=10, layers=3, ends=True),
        _model("two vocabularies of 101 words; training mode and gradients, in float64", b=2, n=4, m=5, d=10, h=5, d_ff=14, layers=2, padding=False, words=(101, 101), dtype=torch.float64),
    ],
    misconceptions=[
        Misconception(
            "the decoder reads the embeddings", ReadsTheEmbeddings,
            "What the decoder reads is what has gone through all encoder layers. Hand the result on in the loop, `x = layer(x, …)`, and return it.",
        ),
        Misconception(
            "the decoder reads the first encoder layer", ReadsTheFirstLayer,
            "The memory is the output of the *last* encoder layer: return after the loop, not in it.",
        ),
        Misconception(
            "decoder layer i reads encoder layer i", ReadsTheLayerBeside,
            "The picture in the paper shows the two stacks side by side, but the arrow starts at the top of the encoder: every decoder layer "
            "reads the output of the last encoder layer.",
        ),
        Misconception(
            "the decoder reads the encoder from the top down", ReadsTheEncoderBackwards,
            "Every decoder layer reads the same memory, the output of the last encoder layer.",
        ),
        Misconception(
            "only the first decoder layer reads the memory", MemoryForTheFirstLayerAlone,
            "Every decoder layer has a cross-attention of its own, and each reads the memory.",
        ),
        Misconception(
            "all encoder layers share their parameters", EncoderShared,
            "`[layer] * layers` is one layer in a list several times. Each layer needs parameters of its own: make a new one each time, or "
            "`copy.deepcopy` it.",
        ),
        Misconception(
            "all decoder layers share their parameters", DecoderShared,
            "`[layer] * layers` is one layer in a list several times. Each layer needs parameters of its own: make a new one each time, or "
            "`copy.deepcopy` it.",
        ),
        Misconception(
            "the layers of both stacks share their parameters", AllShared,
            "A list that holds one layer several times has one set of parameters. Make a new layer each time.",
        ),
        Misconception(
            "encoder layers that all read the embeddings", EncoderNotStacked,
            "Each layer reads the one before: x = layer(x). As it is, only the last one counts.",
        ),
        Misconception(
            "decoder layers that all read the embeddings", DecoderNotStacked,
            "Each layer reads the one before: x = layer(x, …). As it is, only the last one counts.",
        ),
        Misconception(
            "embeddings without the factor √d", WithoutScale,
            "The entries of an embedding are small. Times √d they are as large as the positions that are added (section 3.4 of the paper).",
        ),
        Misconception(
            "no factor √d in the source", SourceWithoutScale, "*Both* embeddings are multiplied by √d, so that they are as large as the positions (section 3.4 of the paper).",
        ),
        Misconception(
            "no factor √d in the target", TargetWithoutScale, "*Both* embeddings are multiplied by √d, so that they are as large as the positions (section 3.4 of the paper).",
        ),
        Misconception(
            "embeddings multiplied by d", ScaledByTheWidth, "The factor is √d, the square root of the width.",
        ),
        Misconception(
            "embeddings multiplied by d/2", ScaledByHalfTheWidth, "The factor is √d. In Python `d ** 1/2` is (d ** 1)/2, for a power comes before a division: write `d ** 0.5` or `math.sqrt(d)`.",
        ),
        Misconception(
            "the positions multiplied by √d too", PositionsScaledToo, "Only the embedding is multiplied by √d. Then the positions are added.",
        ),
        Misconception(
            "embeddings divided by √d", EmbeddingDividedByRoot, "The embeddings are *multiplied* by √d. It is scores that are divided.",
        ),
        Misconception(
            "no positions", WithoutPositions,
            "Attention doesn't know the order of its tokens. Add `sinusoidal_positions` to both embeddings.",
        ),
        Misconception(
            "no positions in the target", PositionsInSourceOnly, "Both sequences get positions, each counted from 0.",
        ),
        Misconception(
            "no positions in the source", PositionsInTargetOnly, "Both sequences get positions, each counted from 0.",
        ),
        Misconception("positions that start at 1", PositionsFromOne, "The first token stands at position 0."),
        Misconception(
            "sines and cosines in two halves", PositionsInHalves,
            "In this course they alternate: sin, cos, sin, cos. `sinusoidal_positions` of unit 05 gives them.",
        ),
        Misconception(
            "the two embeddings swapped", EmbeddingsSwapped, "`source_embedding` is for the words of the source, `target_embedding` for those of the target.",
            raises="IndexError",
        ),
        Misconception(
            "one embedding for both vocabularies", OneEmbedding,
            "Token 7 of the source and token 7 of the target are different words: two vocabularies, two embeddings.",
        ),
        Misconception(
            "no causal mask", WithoutCausalMask,
            "The decoder gets the whole target at once. Without the mask each position reads the word it should predict.",
        ),
        Misconception(
            "the own token hidden", OwnTokenHidden, "Token i sees tokens 0 … i, itself included: `tril()`, without −1.",
        ),
        Misconception("a look at the next token", SeesOneAhead, "Token i sees tokens 0 … i and none after: `tril()`, without +1."),
        Misconception(
            "cross-attention masked causally", MemoryMaskedCausally,
            "The source is known as a whole. In cross-attention only its padding is hidden.",
        ),
        Misconception(
            "a causal mask in the encoder", EncoderMaskedCausally, "The source is known as a whole: in the encoder only padding is hidden.",
        ),
        Misconception(
            "padding read by both", PaddingReadByBoth,
            "Source tokens equal to PAD are no words. Hide them as keys, in the encoder and in cross-attention: `real[:, None]`.",
        ),
        Misconception(
            "padding read by the encoder", PaddingReadByEncoder,
            "Padding is hidden in cross-attention, but the words of the source read it in the encoder. Hide it as a key there too.",
        ),
        Misconception(
            "padding read by the decoder", PaddingReadByDecoder,
            "Padding is hidden in the encoder, but its rows are still there, and cross-attention reads them. Hide them there too.",
        ),
        Misconception(
            "the memory's padding set to 0, not hidden", PaddingSetToZero,
            "A row of zeros has scores too, 0 in every head, and the softmax gives it weight that belongs to the words. Only a mask takes it away: `real[:, None]` for cross-attention.",
        ),
        Misconception(
            "`real` hidden, and the padding read", RealInverted,
            "`real` is True where a token is a word, and a mask is True where a token may be read: hand it on as it is, without `~`.",
        ),
        Misconception(
            "`forward` takes the padding for words", PaddingTakenForReal, "Words are what is *not* PAD: `real = source != PAD`.",
        ),
        Misconception(
            "queries hidden in the encoder, not keys", QueriesHidden,
            "`real[:, :, None]` is (b, m, 1): it hides whole rows. So a padding token sees nothing and becomes NaN, and the words still read padding. Keys are columns: `real[:, None]`.",
        ),
        Misconception(
            "queries hidden in the encoder too", QueriesHiddenToo,
            "A padding token that may see nothing becomes NaN. Where it is hidden later its weight is 0, but 0 · NaN is NaN: it gets into every row that is made of it. Hide only keys, `real[:, None]`.",
        ),
        Misconception(
            "a softmax at the end", WithSoftmax, "The model returns logits. The loss takes the softmax itself, and greedy search needs none.",
        ),
        Misconception(
            "a log-softmax at the end", WithLogSoftmax, "The model returns logits, as they come out of `head`.",
        ),
        Misconception("no head", WithoutHead, "The last step is `head`: from d features to a score for each word of the target."),
        Misconception(
            "logits of the last position only", LastTokenAlone,
            "In training every position is asked for its next token: return the logits of all of them, (b, n, target_words).",
        ),
        Misconception(
            "dropout that never stops", DropsForEver,
            "After `model.eval()` nothing may be dropped. `nn.Dropout` sees to that itself; `F.dropout` must be told `self.training`.",
        ),
        Misconception(
            "no dropout", DropsNothing, "Hand `dropout` on to the layers, and drop after the positions have been added (section 5.4).",
        ),
        Misconception(
            "layers with a rate of dropout of their own", LayersWithARateOfTheirOwn,
            "The layers are made with their default, 0.1, whatever the model was asked for. Hand `dropout` on to them.",
        ),
        Misconception(
            "encoder layers with a rate of dropout of their own", EncoderWithARateOfItsOwn,
            "The decoder's layers drop as the model was told to, the encoder's by their default, 0.1. Hand `dropout` on to both.",
        ),
        Misconception(
            "decoder layers with a rate of dropout of their own", DecoderWithARateOfItsOwn,
            "The encoder's layers drop as the model was told to, the decoder's by their default, 0.1. Hand `dropout` on to both.",
        ),
        Misconception(
            "dropout before the positions are added", DropsBeforeThePositions,
            "What is dropped is the *sum* of embedding and position (section 5.4). Yours adds the positions afterwards, so they always stay.",
        ),
        *(
            Misconception(
                f"dropout in another place too, or by another rate, in {half}", wrong,
                f"At rate ½ each feature that dropout acts on is either 0 or doubled, and that can't lead to the output of {half}. Dropout acts *once* on the sum of "
                "embedding and position, and once in each sublayer.",
            )
            for half, wrong in (("`encode`", SourceDroppedTwice), ("`decode`", TargetDroppedTwice), ("`encode` and `decode`", BothDroppedTwice))
        ),
        *(
            Misconception(f"whole tokens dropped in {half}", wrong, WHOLE_TOKENS)
            for half, wrong in (("`encode`", SourceDroppedWhole), ("`decode`", TargetDroppedWhole), ("`encode` and `decode`", BothDroppedWhole))
        ),
        Misconception(
            "no dropout after the source's embedding", SourceNotDropped, "In training mode *both* sums of embedding and position go through dropout (section 5.4).",
        ),
        Misconception(
            "no dropout after the target's embedding", TargetNotDropped, "In training mode *both* sums of embedding and position go through dropout (section 5.4).",
        ),
        Misconception(
            "no dropout after the embedding", EmbeddingNotDropped, "In training mode the sum of embedding and position goes through dropout too (section 5.4).",
        ),
        Misconception(
            "`encode` that looks for PAD itself", EncodesWhatItFinds,
            "`encode` is told by `real` which tokens are words, and should hide all others, whatever they are. Only `forward` compares with PAD.",
        ),
        Misconception(
            "`encode` that looks for PAD beside `real`", EncodesWhatItFindsToo,
            "`real` alone tells `encode` what to hide. Yours compares with PAD as well, so a token 0 that `real` calls real stays hidden. Only `forward` compares.",
        ),
        Misconception(
            "a decoder that hides what was hidden from the encoder", DecodesWithTheMaskOfEncode,
            "`decode` is told by its own `real` what to hide. Yours goes by what `encode` was told, which may have been another batch.",
        ),
        Misconception(
            "`real` taken for a length", HidesTheEnd,
            "How many words are real doesn't say which: the hidden ones may stand anywhere. Use `real` itself as the mask.",
        ),
        Misconception(
            "the target's padding masked as queries", TargetPaddingAsksNothing,
            "A query that may see nothing gives NaN, and in training NaN spoils all gradients. The target's padding needs no mask.",
        ),
        *(
            Misconception(
                name, wrong,
                "The mask is as large as the first target, and too small for a longer one that comes later. (After a first target of one token it is (1, 1), which is spread over all and hides "
                "nothing.) Make it anew in every call.",
                raises="RuntimeError",
            )
            for name, wrong in (("a causal mask kept from the first call", KeepsItsMask), ("a causal mask kept from the first call, cut for shorter targets", KeepsItsMaskAndCutsIt))
        ),
        Misconception(
            "a causal mask kept from the longest target", KeepsItsLargestMask,
            "The mask grows with the targets, but for a shorter one that comes later it is too large. Cut it, `[:n, :n]`, or make it anew in every call.",
            raises="RuntimeError",
        ),
        Misconception(
            "positions kept from the first call", KeepsItsPositions,
            "The table is made once, as long as the first sequence, and a longer one comes later. Make it anew for each sequence.",
            raises="RuntimeError",
        ),
        Misconception(
            "positions of the target counted from 1", TargetPositionsFromOne,
            "Both sequences count from 0: START is no word, but it stands at position 0 of what the decoder reads.",
        ),
        Misconception(
            "a head that is the target's embedding", TiedHead,
            "`head` is a linear layer of its own here. Where it is tied to the embedding, weights that are loaded into one are those of the other.",
        ),
        Misconception(
            "one embedding where both vocabularies are equally large", OneEmbeddingForEqualVocabularies,
            "Two vocabularies of the same size are still two: token 7 of the one is another word than token 7 of the other.",
        ),
        Misconception(
            "the memory cut off from its gradients", MemoryDetached,
            "With `detach()` nothing that the decoder learns reaches the encoder, which is trained only through the memory.",
        ),
        Misconception(
            "`forward` that cuts the encoder off from its gradients", EncodesWithoutGradients,
            "The logits are right, but the encoder would never learn: it is trained through the memory. In `forward` hand on what `encode` gives as it is, without `torch.no_grad()` or `detach()`.",
        ),
        *(
            Misconception(
                f"a table of positions that ends at {size}", table_of(size),
                f"A sequence may have more than {size} tokens. Ask `sinusoidal_positions` for as many rows as there are tokens.",
                raises="RuntimeError",
            )
            for size in (32, 50, 64, 100, 128, 200, 256, 500, 512, 1000)
        ),
        Misconception(
            "a loud target embedding", LoudTarget,
            "*Both* embeddings start with standard deviation d^(−½). That of the target starts with 1, and drowns its positions.",
        ),
        Misconception(
            "a loud source embedding", LoudSource,
            "*Both* embeddings start with standard deviation d^(−½). That of the source starts with 1, and drowns its positions.",
        ),
        *(
            Misconception(
                name, wrong,
                "*Both* embeddings start with standard deviation d^(−½). Yours starts smaller, so words are faint beside their positions. (In Python `d**-1/2` is half of 1/d: a power "
                "comes before a division. Write `d**-0.5`.)",
            )
            for name, wrong in (("a quiet target embedding", QuietTarget), ("a quiet source embedding", QuietSource), ("quiet embeddings", QuietEmbeddings))
        ),
        Misconception(
            "embeddings from Xavier's start", XavierEmbeddings,
            "Both embeddings start with standard deviation d^(−½). Yours start with √(2 / (words + d)), as `xavier_uniform_` makes them. Where that runs in a loop over all parameters, start the "
            "embeddings after the loop.",
        ),
        Misconception(
            "loud embeddings", LoudEmbeddings,
            "`nn.Embedding` starts with standard deviation 1. Times √d its numbers drown the positions: start both with standard deviation d^(−½).",
        ),
    ],
    within={torch.float32: (3e-4, 3e-4), torch.float64: (1e-6, 1e-6)},  # positions may come in float32: late ones in few digits
    forbids=FORBIDDEN,
)  # fmt: skip

which_connects_where = Check(
    reference=reference.which_connects_where,
    cases=[explicit_case("your choice")],
    drive=choice,
    misconceptions=[
        Misconception(
            "each decoder layer reads the encoder layer beside it", lambda: "a",
            "The picture in the paper is often read like that. But its arrow starts at the top of the encoder, after all its layers.",
        ),
        Misconception(
            "only the first decoder layer reads the memory", lambda: "c",
            "Cross-attention is a part of every decoder layer. The second layer knows more of the target, and can ask better questions.",
        ),
        Misconception(
            "only the last decoder layer reads the memory", lambda: "d",
            "Cross-attention is a part of every decoder layer: what the first one reads, the later ones can work with.",
        ),
        Misconception(
            "the decoder reads all encoder layers", lambda: "e",
            "That would be possible, and has been tried. In the model of 2017 only the output of the last encoder layer is read.",
        ),
    ],
)  # fmt: skip
