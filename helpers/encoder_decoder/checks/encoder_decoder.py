"""The check of `EncoderDecoder`."""

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
from helpers.engine.wrong_answers import Wrong, wrong_answers
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

__all__ = ["EncoderDecoder"]

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
    names=(
        "memory: sequences tokens features",
        "logits: sequences positions words",
        "logits of decode: sequences positions words",
        "gradient of the memory: sequences tokens features",
        "memory in training mode, every dropout at rate 1: sequences tokens features",
        "logits in training mode, every dropout at rate 1: sequences positions words",
    ),
    cases=[  # the cheapest first: a diagnosis tries all slips on it, and few of them on the others
        _model("1 layer, m = 4, n = 9", b=3, n=9, m=4, d=6, h=1, d_ff=7, layers=1, asks="whole"),
        _model("m = 1,024, n = 3, d = 16", b=1, n=3, m=1024, d=16, h=1, d_ff=9, layers=1),
        _model("3 layers, n = m = 6, d = 8", b=3, n=6, m=6, d=8, h=2, d_ff=10, layers=3, ends=True),
        _model(
            "two vocabularies of 101 words; training mode and gradients, in float64",
            b=2,
            n=4,
            m=5,
            d=10,
            h=5,
            d_ff=14,
            layers=2,
            padding=False,
            words=(101, 101),
            dtype=torch.float64,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        *(
            Misconception(
                f"dropout in another place too, or by another rate, in {half}",
                wrong,
                f"At rate ½ each feature that dropout acts on is either 0 or doubled, and that can't lead to the output of {half}. Dropout acts *once* on the sum of "
                "embedding and position, and once in each sublayer.",
            )
            for half, wrong in (
                ("`encode`", SourceDroppedTwice),
                ("`decode`", TargetDroppedTwice),
                ("`encode` and `decode`", BothDroppedTwice),
            )
        ),
        *(
            Misconception(f"whole tokens dropped in {half}", wrong, WHOLE_TOKENS)
            for half, wrong in (
                ("`encode`", SourceDroppedWhole),
                ("`decode`", TargetDroppedWhole),
                ("`encode` and `decode`", BothDroppedWhole),
            )
        ),
        *(
            Misconception(
                name,
                wrong,
                "The mask is as large as the first target, and too small for a longer one that comes later. (After a first target of one token it is (1, 1), which is spread over all and hides "
                "nothing.) Make it anew in every call.",
                raises="RuntimeError",
            )
            for name, wrong in (
                ("a causal mask kept from the first call", KeepsItsMask),
                ("a causal mask kept from the first call, cut for shorter targets", KeepsItsMaskAndCutsIt),
            )
        ),
        *(
            Misconception(
                f"a table of positions that ends at {size}",
                table_of(size),
                f"A sequence may have more than {size} tokens. Ask `sinusoidal_positions` for as many rows as there are tokens.",
                raises="RuntimeError",
            )
            for size in (32, 50, 64, 100, 128, 200, 256, 500, 512, 1000)
        ),
        *(
            Misconception(
                name,
                wrong,
                "*Both* embeddings start with standard deviation d^(−½). Yours starts smaller, so words are faint beside their positions. (In Python `d**-1/2` is half of 1/d: a power "
                "comes before a division. Write `d**-0.5`.)",
            )
            for name, wrong in (
                ("a quiet target embedding", QuietTarget),
                ("a quiet source embedding", QuietSource),
                ("quiet embeddings", QuietEmbeddings),
            )
        ),
        decoder_reads_embeddings=ReadsTheEmbeddings,
        decoder_reads_first_encoder_layer=ReadsTheFirstLayer,
        decoder_layer_i_reads_encoder_layer_i=ReadsTheLayerBeside,
        decoder_reads_encoder_from_top_down=ReadsTheEncoderBackwards,
        only_first_decoder_layer_reads_memory=MemoryForTheFirstLayerAlone,
        all_encoder_layers_share_their=EncoderShared,
        all_decoder_layers_share_their=DecoderShared,
        layers_both_stacks_share_their=AllShared,
        encoder_layers_that_all_read_embeddings=EncoderNotStacked,
        decoder_layers_that_all_read_embeddings=DecoderNotStacked,
        embeddings_without_factor_root_d=WithoutScale,
        no_factor_root_d_source=SourceWithoutScale,
        no_factor_root_d_target=TargetWithoutScale,
        embeddings_multiplied_by_d=ScaledByTheWidth,
        embeddings_multiplied_by_d_over_2=ScaledByHalfTheWidth,
        positions_multiplied_by_root_d_too=PositionsScaledToo,
        embeddings_divided_by_root_d=EmbeddingDividedByRoot,
        no_positions=WithoutPositions,
        no_positions_target=PositionsInSourceOnly,
        no_positions_source=PositionsInTargetOnly,
        positions_that_start_at_1=PositionsFromOne,
        sines_cosines_two_halves=PositionsInHalves,
        two_embeddings_swapped=Wrong(EmbeddingsSwapped, raises="IndexError"),
        one_embedding_both_vocabularies=OneEmbedding,
        no_causal_mask=WithoutCausalMask,
        own_token_hidden=OwnTokenHidden,
        look_at_next_token=SeesOneAhead,
        cross_attention_masked_causally=MemoryMaskedCausally,
        causal_mask_encoder=EncoderMaskedCausally,
        padding_read_by_both=PaddingReadByBoth,
        padding_read_by_encoder=PaddingReadByEncoder,
        padding_read_by_decoder=PaddingReadByDecoder,
        memorys_padding_set_0_not_hidden=PaddingSetToZero,
        real_hidden_padding_read=RealInverted,
        forward_takes_padding_words=PaddingTakenForReal,
        queries_hidden_encoder_not_keys=QueriesHidden,
        queries_hidden_encoder_too=QueriesHiddenToo,
        softmax_at_end=WithSoftmax,
        log_softmax_at_end=WithLogSoftmax,
        no_head=WithoutHead,
        logits_last_position_only=LastTokenAlone,
        dropout_that_never_stops=DropsForEver,
        no_dropout=DropsNothing,
        layers_with_rate_dropout_their_own=LayersWithARateOfTheirOwn,
        encoder_layers_with_rate_dropout_their=EncoderWithARateOfItsOwn,
        decoder_layers_with_rate_dropout_their=DecoderWithARateOfItsOwn,
        dropout_before_positions_added=DropsBeforeThePositions,
        no_dropout_after_sources_embedding=SourceNotDropped,
        no_dropout_after_targets_embedding=TargetNotDropped,
        no_dropout_after_embedding=EmbeddingNotDropped,
        encode_that_looks_pad_itself=EncodesWhatItFinds,
        encode_that_looks_pad_beside_real=EncodesWhatItFindsToo,
        decoder_that_hides_what_was_hidden_from=DecodesWithTheMaskOfEncode,
        real_taken_length=HidesTheEnd,
        targets_padding_masked_as_queries=TargetPaddingAsksNothing,
        causal_mask_kept_from_longest_target=Wrong(KeepsItsLargestMask, raises="RuntimeError"),
        positions_kept_from_first_call=Wrong(KeepsItsPositions, raises="RuntimeError"),
        positions_target_counted_from_1=TargetPositionsFromOne,
        head_that_targets_embedding=TiedHead,
        one_embedding_where_both_vocabularies=OneEmbeddingForEqualVocabularies,
        memory_cut_off_from_gradients=MemoryDetached,
        forward_that_cuts_encoder_off_from=EncodesWithoutGradients,
        loud_target_embedding=LoudTarget,
        loud_source_embedding=LoudSource,
        embeddings_from_xaviers_start=XavierEmbeddings,
        loud_embeddings=LoudEmbeddings,
    ),
    within={
        torch.float32: (3e-4, 3e-4),
        torch.float64: (1e-6, 1e-6),
    },  # positions may come in float32: late ones in few digits
    forbids=FORBIDDEN,
)
