"""Right answers of EncoderDecoder in other styles."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from autograder.alternatives.encoder_decoder.decoder_layer import AnnotatedDecoderLayer, HuggingFaceDecoderLayer
from autograder.alternatives.encoder_decoder.encoder_layer import AnnotatedEncoderLayer, FairseqEncoderLayer
from helpers.encoder_decoder.model import PAD
from helpers.transformer_lm.positions import sinusoidal_positions


class AnnotatedModel(nn.Module):
    """Clones by deep copies; the mask of unit 03's kind, (b, 1, m)."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__()
        clones = lambda module: nn.ModuleList(copy.deepcopy(module) for _ in range(layers))  # noqa: E731
        self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
        nn.init.normal_(self.source_embedding.weight, std=d**-0.5)
        nn.init.normal_(self.target_embedding.weight, std=d**-0.5)
        self.encoder = clones(AnnotatedEncoderLayer(d, h, d_ff, dropout))
        self.decoder = clones(AnnotatedDecoderLayer(d, h, d_ff, dropout))
        self.head = nn.Linear(d, target_words)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("pe", sinusoidal_positions(1024, d))

    def embedded(self, embedding, tokens):
        x = embedding(tokens) * math.sqrt(self.pe.shape[1])
        return self.drop(x + self.pe[: tokens.size(1)].to(x.dtype))

    def encode(self, source, real):
        x = self.embedded(self.source_embedding, source)
        for layer in self.encoder:
            x = layer(x, real.unsqueeze(-2))
        return x

    def decode(self, target, memory, real):
        n = target.size(-1)
        subsequent = torch.triu(torch.ones(n, n), diagonal=1) == 0
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, subsequent, real.unsqueeze(-2))
        return self.head(x)

    def forward(self, source, target):
        return self.decode(target, self.encode(source, source != PAD), source != PAD)


class FullMaskModel(AnnotatedModel):
    """Masks written out, (b, n, m) each."""

    def encode(self, source, real):
        b, m = source.shape
        x = self.embedded(self.source_embedding, source)
        for layer in self.encoder:
            x = layer(x, real[:, None, :].repeat(1, m, 1))
        return x

    def decode(self, target, memory, real):
        b, n = target.shape
        places = torch.arange(n)
        own = (places[None, :] <= places[:, None]).expand(b, n, n)
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, own, real[:, None, :].expand(b, n, memory.shape[1]))
        return F.linear(x, self.head.weight, self.head.bias)


class PaddedTargetModel(AnnotatedModel):
    """Hides the target's padding too, as many do: no real token would have read it anyway."""

    def decode(self, target, memory, real):
        n = target.shape[1]
        own = torch.ones(n, n, dtype=torch.bool).tril() & (target != PAD)[:, None, :]
        own = own | torch.eye(n, dtype=torch.bool)
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, own, real[:, None])
        return self.head(x)


class ComparedPlacesModel(AnnotatedModel):
    """A table of positions that is not saved; the causal mask by comparing places."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, dropout)
        self.register_buffer("pe", sinusoidal_positions(1024, d), persistent=False)

    def decode(self, target, memory, real):
        i = torch.arange(target.shape[-1])
        x = self.embedded(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, memory, mask=i[:, None] >= i, memory_mask=real.unsqueeze(1))
        return self.head(x)


class StackedModel(AnnotatedModel):
    """`functools.reduce` in place of the loops, and layers of other styles inside."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__(source_words, target_words, d, h, d_ff, layers, dropout)
        self.encoder = nn.ModuleList([FairseqEncoderLayer(d, h, d_ff, dropout) for _ in range(layers)])
        self.decoder = nn.ModuleList([HuggingFaceDecoderLayer(d, h, d_ff, dropout) for _ in range(layers)])

    def encode(self, source, real):
        from functools import reduce

        return reduce(
            lambda x, layer: layer(x, real[:, None]), self.encoder, self.embedded(self.source_embedding, source)
        )


class RecursiveModel(nn.Module):
    """Through the layers by recursion; the embeddings made small afterwards; the causal mask as what is not later."""

    def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
        super().__init__()
        sizes = {"d": d, "h": h, "d_ff": d_ff, "dropout": dropout}
        self.encoder = nn.ModuleList(AnnotatedEncoderLayer(**sizes) for _ in range(layers))
        self.decoder = nn.ModuleList(AnnotatedDecoderLayer(**sizes) for _ in range(layers))
        self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
        with torch.no_grad():
            for embedding in (self.source_embedding, self.target_embedding):
                embedding.weight.mul_(d**-0.5)
        self.head, self.drop = nn.Linear(d, target_words), nn.Dropout(dropout)

    def through(self, layers, x, *rest):
        return self.through(layers[1:], layers[0](x, *rest), *rest) if layers else x

    def embed(self, table, tokens):
        d = table.embedding_dim
        return self.drop(torch.add(sinusoidal_positions(tokens.size(1), d), table(tokens), alpha=d**0.5))

    def encode(self, source, real):
        return self.through(list(self.encoder), self.embed(self.source_embedding, source), real[:, None, :])

    def decode(self, target, memory, real):
        later = torch.ones(target.size(1), target.size(1)).triu(1).bool()
        x = self.embed(self.target_embedding, target)
        return self.head(self.through(list(self.decoder), x, memory, ~later, real[:, None, :]))

    def forward(self, source, target):
        real = ~(source == PAD)
        return self.decode(target, memory=self.encode(source, real), real=real)


EncoderDecoder = {
    "a recursion over the layers": RecursiveModel,
    "deep copies and a buffer of positions (Annotated Transformer)": AnnotatedModel,
    "masks written out": FullMaskModel,
    "a buffer that is not saved; places compared": ComparedPlacesModel,
    "the target's padding hidden too": PaddedTargetModel,
    "other layers inside, reduce in place of a loop": StackedModel,
}
