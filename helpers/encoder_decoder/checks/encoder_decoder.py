"""The check of `EncoderDecoder`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.hints import Hint
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.transformer_lm.positions import sinusoidal_positions

from .. import model as reference
from ..layers import DecoderLayer, EncoderLayer
from .layers import ALL, FORBIDDEN, causal, weights_like
from .model_runs import run

__all__ = ["EncoderDecoder"]

PAD, START = reference.PAD, reference.START


def _model(
    label: str,
    *,
    b,
    n,
    m,
    d,
    h,
    d_ff,
    layers,
    words=(29, 23),
    padding=True,
    ends=False,
    dtype=torch.float32,
    asks="half",
) -> Case:
    """words: of source and target; in float64 so many that Xavier's start is far from d^(−½). ends: the targets end one
    after the other, all but the first in padding. asks: for the "whole" model or for its other "half"; in float64 for
    all there is."""
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

    weights = RandomArg(lambda generator: weights_like(like, generator, dtype))
    asks = "all" if dtype == torch.float64 else asks
    return explicit_case(label, sizes, weights, RandomArg(source), RandomArg(target), asks)


def times_root(model, x, side):
    return x * math.sqrt(model.d)


def from_0(model, x, side):
    return sinusoidal_positions(x.shape[1], model.d).to(x)


def undropped(model, x, side):
    return x + model.steps.positions(model, x, side)


def dropped(model, x, side):
    return F.dropout(undropped(model, x, side), model.rate, model.training)


@dataclass(frozen=True)
class Steps:
    """The steps of the model. side: source or target."""

    rates: Callable = lambda rate: (
        rate,
        rate,
        rate,
    )  # of the encoder's layers, the decoder's, and behind the embeddings
    begun: Callable = lambda model: None  # as soon as it is made
    mode: Callable = lambda training: training
    table: Callable = lambda model, side: getattr(model, f"{side}_embedding")
    scaled: Callable = times_root  # (model, x, side) → x
    positions: Callable = from_0  # (model, x, side) → what is added
    joined: Callable = dropped  # (model, x, side) → x with its positions
    words: Callable = lambda source: source != PAD  # → `real`, in `forward`
    shown: Callable = lambda source, real: real  # what `encode` takes for real
    stack: Callable = lambda layers, side: layers
    encoder_mask: Callable = lambda model, real: real[:, None]
    memory: Callable = lambda outputs: outputs[-1]  # of those of the embedding and of all encoder layers
    handed: Callable = lambda memory: memory  # from `encode` to `decode`, in `forward`
    own_mask: Callable = lambda model, target: causal(target.shape[1])
    read: Callable = lambda model, memory, real, index: memory  # by decoder layer i
    memory_mask: Callable = lambda model, real, n: real[:, None]
    head: Callable = lambda model, x: model.head(x)


@composable
def transformer(**changed) -> type[nn.Module]:
    """The model with these steps changed."""
    steps = Steps(**changed)

    class Model(nn.Module):
        def __init__(self, source_words, target_words, d, h, d_ff, layers, dropout=0.1):
            super().__init__()
            self.d, self.steps = d, steps
            self.source_embedding, self.target_embedding = nn.Embedding(source_words, d), nn.Embedding(target_words, d)
            for embedding in (self.source_embedding, self.target_embedding):
                nn.init.normal_(embedding.weight, std=d**-0.5)
            encoders, decoders, self.rate = steps.rates(dropout)
            self.encoder = nn.ModuleList(EncoderLayer(d, h, d_ff, encoders) for _ in range(layers))
            self.decoder = nn.ModuleList(DecoderLayer(d, h, d_ff, decoders) for _ in range(layers))
            self.head = nn.Linear(d, target_words)
            steps.begun(self)

        def train(self, mode=True):
            return super().train(steps.mode(mode))

        def embed(self, tokens, side):
            return steps.joined(self, steps.scaled(self, steps.table(self, side)(tokens), side), side)

        def encode(self, source, real):
            self.outputs, real = [self.embed(source, "source")], steps.shown(source, real)
            for layer in steps.stack(self.encoder, "source"):
                self.outputs.append(layer(self.outputs[-1], steps.encoder_mask(self, real)))
            return steps.memory(self.outputs)

        def decode(self, target, memory, real):
            x, own, read = self.embed(target, "target"), steps.own_mask(self, target), steps.memory_mask
            for index, layer in enumerate(steps.stack(self.decoder, "target")):
                x = layer(x, steps.read(self, memory, real, index), own, read(self, real, target.shape[1]))
            return steps.head(self, x)

        def forward(self, source, target):
            real = steps.words(source)
            return self.decode(target, steps.handed(self.encode(source, real)), real)

    return Model


class MemoryForTheFirstLayerAlone(transformer()):
    def decode(self, target, memory, real):
        x, own = self.embed(target, "target"), causal(target.shape[1])
        for index, layer in enumerate(self.decoder):
            x = layer(x, x, own, own) if index else layer(x, memory, own, real[:, None])
        return self.head(x)


def at(which, changed, right):
    """A step (model, x, side) changed at the source or at the target alone."""
    return lambda model, x, side: (changed if side == which else right)(model, x, side)


def unscaled(model, x, side):
    return x


def nowhere(model, x, side):
    return torch.zeros_like(x)


def from_1(model, x, side):
    return sinusoidal_positions(x.shape[1] + 1, model.d)[1:].to(x)


def in_halves(model, x, side):
    table = from_0(model, x, side)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


def first_positions(model, x, side):
    """Those of the first call, for good."""
    if not hasattr(model, "kept"):
        model.kept = from_0(model, x, side)
    return model.kept[: x.shape[1]]


def positions_up_to(size):
    """A table that ends."""
    return lambda model, x, side: sinusoidal_positions(size, model.d)[: x.shape[1]].to(x)


def dropped_twice(model, x, side):
    return F.dropout(dropped(model, x, side), model.rate, model.training)


def dropped_whole(model, x, side):
    return F.dropout1d(undropped(model, x, side), model.rate, model.training)


def dropped_before_the_positions(model, x, side):
    return F.dropout(x, model.rate, model.training) + from_0(model, x, side)


def shared(*stacks):
    """One layer in a list several times."""

    def begun(model):
        for stack in stacks:
            layers = getattr(model, stack)
            setattr(model, stack, nn.ModuleList([layers[0]] * len(layers)))

    return begun


def started(init, *sides):
    """Embeddings that begin in another way."""

    def begun(model):
        for side in sides:
            init(getattr(model, f"{side}_embedding").weight)

    return begun


def quietly(weight):
    return nn.init.normal_(weight, std=1 / (2 * weight.shape[1]))


def with_a_tied_head(model):
    model.head.weight = model.target_embedding.weight


def with_one_table_for_equal_sizes(model):
    if model.source_embedding.num_embeddings == model.target_embedding.num_embeddings:
        model.target_embedding = model.source_embedding


def nothing_hidden(model, real, n=0):
    return None


def words_hidden(model, real, n=0):
    return ~real[:, None]


def up_to_their_number(model, real, n=0):
    """Of `real` only the number of words in a row."""
    return (torch.arange(real.shape[1]) < real.sum(dim=1, keepdim=True))[:, None]


def remembered(model, real):
    model.kept = real
    return real[:, None]


def causal_too(model, real, n):
    return real[:, None] & torch.ones(n, real.shape[1], dtype=torch.bool).tril()


def own_token_hidden(model, target):
    mask = causal(target.shape[1]).tril(-1)
    mask[0, 0] = True
    return mask


def one_ahead(model, target):
    n = target.shape[1]
    return torch.ones(n, n, dtype=torch.bool).tril(1)


def targets_padding_too(model, target):
    return causal(target.shape[1]) & (target != PAD)[:, :, None]


def first_mask(model, target):
    if not hasattr(model, "kept"):
        model.kept = causal(target.shape[1])
    return model.kept


def largest_mask(model, target):
    if not hasattr(model, "kept") or len(model.kept) < target.shape[1]:
        model.kept = causal(target.shape[1])
    return model.kept


def last_layer_alone(which):
    return lambda layers, side: layers[-1:] if side == which else layers


def too_short(size: int) -> Hint:
    """Of a table of positions; it tells the size."""
    asks = "Ask `sinusoidal_positions` for as many rows as there are tokens."
    return Hint(f"a table of positions that ends at {size}", f"A sequence may have more than {size} tokens. {asks}")


EncoderDecoder = Check(
    reference=reference.EncoderDecoder,
    drive=run,
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
            **{"b": 2, "n": 4, "m": 5, "d": 10, "h": 5, "d_ff": 14, "layers": 2},
            **{"padding": False, "words": (101, 101), "dtype": torch.float64},
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        *(
            Wrong(transformer(positions=positions_up_to(size)), raises="RuntimeError", hint=too_short(size))
            for size in (32, 50, 64, 100, 128, 200, 256, 500, 512, 1000)
        ),
        reads_embeddings=transformer(memory=lambda outputs: outputs[0]),
        reads_first_layer=transformer(memory=lambda outputs: outputs[1]),
        reads_the_layer_beside=transformer(read=lambda model, memory, real, index: model.outputs[1 + index]),
        reads_from_the_top=transformer(read=lambda model, memory, real, index: model.outputs[-1 - index]),
        memory_for_the_first_layer=MemoryForTheFirstLayerAlone,
        encoder_shared=transformer(begun=shared("encoder")),
        decoder_shared=transformer(begun=shared("decoder")),
        both_shared=transformer(begun=shared("encoder", "decoder")),
        encoder_not_stacked=transformer(stack=last_layer_alone("source")),
        decoder_not_stacked=transformer(stack=last_layer_alone("target")),
        unscaled=transformer(scaled=unscaled),
        source_unscaled=transformer(scaled=at("source", unscaled, times_root)),
        target_unscaled=transformer(scaled=at("target", unscaled, times_root)),
        times_d=transformer(scaled=lambda model, x, side: x * model.d),
        times_half_of_d=transformer(scaled=lambda model, x, side: x * model.d / 2),
        divided_by_root=transformer(scaled=lambda model, x, side: x / math.sqrt(model.d)),
        positions_scaled_too=transformer(positions=lambda model, x, side: from_0(model, x, side) * math.sqrt(model.d)),
        no_positions=transformer(positions=nowhere),
        no_positions_in_target=transformer(positions=at("target", nowhere, from_0)),
        no_positions_in_source=transformer(positions=at("source", nowhere, from_0)),
        positions_from_1=transformer(positions=from_1),
        target_from_1=transformer(positions=at("target", from_1, from_0)),
        positions_in_halves=transformer(positions=in_halves),
        positions_kept=Wrong(transformer(positions=first_positions), raises="RuntimeError"),
        embeddings_swapped=Wrong(
            transformer(
                table=lambda model, side: model.target_embedding if side == "source" else model.source_embedding
            ),
            raises="IndexError",
        ),
        one_embedding=transformer(table=lambda model, side: model.source_embedding),
        one_embedding_for_equal_sizes=transformer(begun=with_one_table_for_equal_sizes),
        tied_head=transformer(begun=with_a_tied_head),
        not_causal=transformer(own_mask=lambda model, target: None),
        own_token_hidden=transformer(own_mask=own_token_hidden),
        one_ahead=transformer(own_mask=one_ahead),
        targets_padding_too=transformer(own_mask=targets_padding_too),
        causal_mask_kept=Wrong(transformer(own_mask=first_mask), raises="RuntimeError"),
        causal_mask_kept_and_cut=Wrong(
            transformer(own_mask=lambda model, target: first_mask(model, target)[: target.shape[1], : target.shape[1]]),
            raises="RuntimeError",
        ),
        largest_mask_kept=Wrong(transformer(own_mask=largest_mask), raises="RuntimeError"),
        cross_attention_causal=transformer(memory_mask=causal_too),
        encoder_causal=transformer(encoder_mask=lambda model, real: real[:, None] & causal(real.shape[1])),
        padding_read=transformer(encoder_mask=nothing_hidden, memory_mask=nothing_hidden),
        padding_read_by_encoder=transformer(encoder_mask=nothing_hidden),
        padding_read_by_decoder=transformer(memory_mask=nothing_hidden),
        padding_set_to_0=transformer(
            memory_mask=nothing_hidden,
            read=lambda model, memory, real, index: memory.masked_fill(~real[..., None], 0.0),
        ),
        words_hidden=transformer(encoder_mask=words_hidden, memory_mask=words_hidden),
        padding_taken_for_words=transformer(words=lambda source: source == PAD),
        queries_hidden=transformer(encoder_mask=lambda model, real: real[:, :, None]),
        queries_hidden_too=transformer(encoder_mask=lambda model, real: real[:, :, None] & real[:, None]),
        number_of_words=transformer(encoder_mask=up_to_their_number, memory_mask=up_to_their_number),
        looks_for_pad=transformer(shown=lambda source, real: source != PAD),
        looks_for_pad_too=transformer(shown=lambda source, real: real & (source != PAD)),
        decodes_with_the_encoders_mask=transformer(
            encoder_mask=remembered, memory_mask=lambda model, real, n: model.kept[:, None]
        ),
        softmax=transformer(head=lambda model, x: model.head(x).softmax(dim=-1)),
        log_softmax=transformer(head=lambda model, x: model.head(x).log_softmax(dim=-1)),
        no_head=transformer(head=lambda model, x: x),
        last_position_only=transformer(head=lambda model, x: model.head(x)[:, -1]),
        always_drops=transformer(mode=lambda training: True),
        never_drops=transformer(rates=lambda rate: (0.0, 0.0, 0.0)),
        layers_rate_of_their_own=transformer(rates=lambda rate: (0.1, 0.1, rate)),
        encoders_rate_of_its_own=transformer(rates=lambda rate: (0.1, rate, rate)),
        decoders_rate_of_its_own=transformer(rates=lambda rate: (rate, 0.1, rate)),
        dropped_before_the_positions=transformer(joined=dropped_before_the_positions),
        source_not_dropped=transformer(joined=at("source", undropped, dropped)),
        target_not_dropped=transformer(joined=at("target", undropped, dropped)),
        embeddings_not_dropped=transformer(joined=undropped),
        source_dropped_twice=transformer(joined=at("source", dropped_twice, dropped)),
        target_dropped_twice=transformer(joined=at("target", dropped_twice, dropped)),
        both_dropped_twice=transformer(joined=dropped_twice),
        source_dropped_whole=transformer(joined=at("source", dropped_whole, dropped)),
        target_dropped_whole=transformer(joined=at("target", dropped_whole, dropped)),
        both_dropped_whole=transformer(joined=dropped_whole),
        memory_detached=transformer(read=lambda model, memory, real, index: memory.detach()),
        encoder_cut_off=transformer(handed=lambda memory: memory.detach()),
        target_loud=transformer(begun=started(nn.init.normal_, "target")),
        source_loud=transformer(begun=started(nn.init.normal_, "source")),
        both_loud=transformer(begun=started(nn.init.normal_, "source", "target")),
        xaviers_start=transformer(begun=started(nn.init.xavier_uniform_, "source", "target")),
        target_quiet=transformer(begun=started(quietly, "target")),
        source_quiet=transformer(begun=started(quietly, "source")),
        both_quiet=transformer(begun=started(quietly, "source", "target")),
    ),
    within={
        torch.float32: (3e-4, 3e-4),
        torch.float64: (1e-6, 1e-6),
    },  # positions may come in float32: late ones in few digits
    forbids=FORBIDDEN,
)
