"""Checks of the encoder's and the decoder's layer: what is added, what is normalised, who asks whom."""

import functools
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import visible_mask
from helpers.engine.compare import Message
from helpers.engine.drivers import Stopped
from helpers.engine.observe import Observation, observe
from helpers.multi_head.heads import MultiHeadAttention

from .. import layers

__all__ = ["DecoderLayer", "EncoderLayer"]

ROUNDING = (1e-4, 1e-4)
ITSELF = "A mask may hide a token from itself, too: hand it on as it is, without `| torch.eye(…)`."
FORBIDDEN = ["multi_head_attention", "transformer_encoder_layer"]  # PyTorch's own layers in disguise


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Standard normal numbers."""
    return RandomArg(lambda generator: torch.randn(shape, generator=generator, dtype=dtype))


def padded(b: int, rows: int, m: int) -> RandomArg:
    """A mask (b, rows, m) that hides the last tokens of all sequences but the first, for all rows alike."""

    def draw(generator: Generator) -> Tensor:
        lengths = torch.randint(1, m, (b, 1, 1), generator=generator)
        lengths[0] = m
        return (torch.arange(m) < lengths).expand(b, rows, m).clone()

    return RandomArg(draw)


def causal(n: int) -> Tensor:
    """Token i sees tokens 0 … i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def weights_like(module: nn.Module, generator: Generator, dtype: torch.dtype) -> dict[str, Tensor]:
    """RandomArg weights for every parameter of a module: large enough that each of them shows in the output."""

    def draw(name: str, like: Tensor) -> Tensor:
        drawn = torch.randn(like.shape, generator=generator, dtype=dtype)
        if "norm" in name and name.endswith("weight"):
            return 1 + drawn / 3
        return drawn * 1.5 / math.sqrt(like.shape[-1]) if like.dim() > 1 else drawn / 2

    return {name: draw(name, like) for name, like in module.state_dict().items()}


def built(cls: Callable, sizes: Sequence, weights: dict[str, Tensor]) -> nn.Module:
    """The module, with these weights, in their dtype."""
    return loaded(cls(*sizes), weights)


def loaded(module: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """A module with these weights, in their dtype."""
    if next(iter(weights.values())).dtype == torch.float64:
        module.double()
    buffers = dict(module.named_buffers())
    there = module.state_dict() if buffers else {}  # with the buffers that are kept: no weights, they stay as they are
    module.load_state_dict({name: table for name, table in buffers.items() if name in there} | weights)
    return module


ALL = 1.0  # the rate of dropout in all cases: in training mode nothing is left of a sublayer, and nothing is left to chance
RANDOM = Message("in training mode another output each time, though dropout at rate 1 leaves nothing to chance")


def settled(module: nn.Module, inputs: tuple, thorough: bool) -> Tensor | tuple:
    """The output in evaluation mode; in a thorough case also that in training mode, where every dropout drops all, what became of the
    inputs, and the gradients of those that are floats."""
    module.eval()
    if not thorough:
        return module(*copies(inputs))
    module(*map(other_way_round, inputs))  # of this nothing may be left
    seen = seen_call(module, inputs)
    module.train()
    kept = Message("its inputs changed in place" if seen.modified else "its inputs left as they are")
    return (
        seen.output,
        in_training(module(*map(twice, inputs)), len(inputs[0])),
        kept,
        *told_gradients(seen, *GRADIENTS_OF[: sum(map(_is_float, inputs))]),
    )


def other_way_round(one: Tensor | None) -> Tensor | None:
    """Features, or the keys that a mask shows, from last to first."""
    return one if one is None else one.flip(-1)


def _is_float(one: Tensor | None) -> bool:
    return one is not None and one.is_floating_point()


def copies(inputs: tuple) -> tuple:
    """For a call that may change its inputs."""
    return tuple(one.clone() if isinstance(one, Tensor) else one for one in inputs)


def seen_call(function: Callable, inputs: tuple) -> Observation:
    """One call on copies of its inputs, and its way back. A student's error goes on to the card."""
    seen = observe(function, inputs, gradient=True, counts=False)
    if seen.error:
        raise Stopped(seen.error)
    return seen


def twice(batch: Tensor | None) -> Tensor | None:
    """Every sequence of a batch once more, behind all of them."""
    return None if batch is None else torch.cat([batch, batch])


def in_training(output: Tensor, b: int) -> Tensor | Message:
    """The output for b sequences that stand there `twice`, once; what chance makes different is not compared."""
    if not isinstance(output, Tensor) or output.shape[:1] != (2 * b,) or not output.is_floating_point():
        return output
    first, again = output.chunk(2)
    return first if torch.allclose(first, again, equal_nan=True) else RANDOM


GRADIENTS_OF = ("x", "the memory")


def told_gradients(seen: Observation, *names: str) -> tuple:
    """Gradients of a call, one for each of its inputs with a name; those that are missing in words."""
    if seen.backward_error:
        return (Message(f"the backward pass stops with an error: {seen.backward_error.kind}"),) * len(names)
    pairs = zip(names, seen.gradients or (None,) * len(names), strict=True)
    return tuple(Message(f"no gradient comes back to {name}") if one is None else one for name, one in pairs)


# ------------------------------------------------------------------------------------------------------ dropout at rate ½

# At rate 1 one dropout hides another. At rate ½ a feature of what a sublayer gives becomes 0 or twice as large: three features have so
# few outputs that all can be listed, and the output must be among them. (PyTorch's own layers drop once more, between ReLU and
# `linear2`. Students know them, so that is allowed, and listed too.) Whole tokens are dropped by `nn.Dropout1d`, which can lead to nothing else
# than `nn.Dropout` can by chance. So that list comes first, and there are so many tokens that chance never drops or keeps each of them as a whole.

HALF = (3, 1, 2, 0.5)  # d, h, d_ff and the rate
TOKENS = 20  # sequences of one token each
WHOLE_TOKENS = "At rate ½ your tokens keep all of their features or none. `nn.Dropout` drops each feature by itself; `nn.Dropout1d` and `nn.Dropout2d` drop whole rows."
KEPT_MASK = "A mask belongs to one call. The next one may have the same shape and hide other keys: use the one that is handed in."
BY_HAND = "At rate 1 nothing is left, so what remains is 0: yours divides it by 1 − p = 0, and 0/0 is NaN. `nn.Dropout` knows that rate too."
WHOLE = Message("at rate ½ whole tokens are dropped, not single features")
IN_ITS_PLACE = Message("dropout where it belongs")
NOT_SCALED = Message("at rate ½ what dropout leaves is not doubled")
ELSEWHERE = Message("at rate ½ an output that dropout on what each sublayer gives can't lead to")


def choices(x: Tensor, scale: float, whole: bool = False) -> Tensor:
    """Each feature dropped or scaled, in all combinations, (…, d) → (…, 2^d, d); of a whole token all or none, (…, d) → (…, 2, d)."""
    kept = torch.tensor([0.0, 1.0], dtype=x.dtype)
    kept = kept[:, None] if whole else torch.cartesian_prod(*[kept] * x.shape[-1])
    return x[..., None, :] * scale * kept


def added(norm: nn.Module, x: Tensor, given: Tensor, scale: float, whole: bool = False) -> Tensor:
    """norm(x + dropout(given)) in all combinations, for s possible inputs of each sequence of one token: (b, s, d) → (b, s·2^d, d)."""
    return norm(x[:, :, None] + choices(given, scale, whole)).flatten(1, 2)


def all_that_can_come_out(
    layer: nn.Module, x: Tensor, memory: Tensor | None = None, *, scale: float, whole: str = ""
) -> Tensor:
    """Of a layer of ours in training mode that reads sequences of one token: (b, 1, d) → (b, s, d). whole: the sublayer, if any, of which
    whole tokens are dropped."""
    x = added(layer.norm1, x, layer.self_attn(x), scale, whole == "self")
    x = x if memory is None else added(layer.norm2, x, layer.cross_attn(x, memory), scale, whole == "cross")
    hidden = layer.linear1(x).relu()  # (b, s, d_ff)
    hidden = torch.cat([hidden[:, :, None], choices(hidden, scale)], dim=2)  # (b, s, 1 + 2^d_ff, d_ff)
    last = layer.norm2 if memory is None else layer.norm3
    x = x.repeat_interleave(hidden.shape[2], dim=1)
    return added(last, x, layer.linear2(hidden).flatten(1, 2), scale, whole == "feed")


def where_it_drops(got: Tensor, possible: list[tuple[Message, Tensor]]) -> Message:
    """In words: which of the lists (b, s, d) is the first that holds what came out, (b, 1, d)."""
    found = (words for words, listed in possible if _in_the_list(got, listed))
    return next(found, ELSEWHERE)


def _in_the_list(got: Tensor, listed: Tensor) -> bool:
    if not isinstance(got, Tensor) or got.shape != (len(listed), 1, listed.shape[-1]):
        return False
    return bool(((got.detach() - listed).abs().amax(dim=2).amin(dim=1) < 1e-7).all())


@functools.cache
@torch.no_grad()
def _halved(like: type[nn.Module], reads_memory: bool) -> tuple[dict, tuple, list]:
    """Weights, inputs of sequences of one token, and what may come out."""
    generator, (d, *_) = Generator().manual_seed(1), HALF
    weights = weights_like(like(*HALF), generator, torch.float64)
    inputs = [
        torch.randn(TOKENS, n, d, generator=generator, dtype=torch.float64) for n in ((1, 4) if reads_memory else (1,))
    ]
    layer = built(like, HALF, weights)
    kinds = [
        (WHOLE, 2.0, "self"),
        (WHOLE, 2.0, "cross"),
        (WHOLE, 2.0, "feed"),
        (IN_ITS_PLACE, 2.0, ""),
        (NOT_SCALED, 1.0, ""),
    ]
    possible = [
        (words, all_that_can_come_out(layer, *inputs, scale=scale, whole=whole))
        for words, scale, whole in kinds
        if reads_memory or whole != "cross"
    ]
    return weights, tuple(inputs), possible


def at_half_the_rate(cls: Callable, like: type[nn.Module], reads_memory: bool = False) -> Message:
    """Where a layer drops, in words."""
    weights, inputs, possible = _halved(like, reads_memory)
    layer = built(cls, HALF, weights)
    layer.train()
    return where_it_drops(layer(*copies(inputs)), possible)


# ------------------------------------------------------------------------------------------------- the encoder's layer


def _run_encoder(
    cls, sizes: tuple, weights: dict[str, Tensor], x: Tensor, mask: Tensor | None, thorough: bool
) -> Tensor | tuple:
    told = settled(built(cls, sizes, weights), (x,) if mask is None else (x, mask), thorough)
    return (*told, at_half_the_rate(cls, layers.EncoderLayer)) if thorough else told


def _encoder(label: str, *, b: int, m: int, d: int, h: int, d_ff: int, masks: str, dtype=torch.float32) -> Case:
    """masks: "none", "padding", (b, m, m), or (b, 1, m) where it is "spread", "shared" by all sequences, (m, m), or "rows", another
    for each token. A case in float64 is a thorough one; its masks are none that are shared."""
    like = layers.EncoderLayer(d, h, d_ff)
    weights = RandomArg(lambda generator: weights_like(like, generator, dtype))
    mask = {
        "none": None, "padding": padded(b, m, m), "spread": padded(b, 1, m), "shared": visible_mask(m, m), "rows": visible_mask(b, m, m),
    }[masks]  # fmt: skip
    return explicit_case(label, (d, h, d_ff, ALL), weights, normal(b, m, d, dtype=dtype), mask, dtype == torch.float64)


class _Encoder(nn.Module):
    """Right, in small steps: each slip below changes one."""

    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.p = dropout

    def drop(self, x):
        return F.dropout(x, self.p, self.training)

    def attend(self, x, mask):
        return self.drop(self.self_attn(x, mask=mask))

    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x).relu()))

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.feed(x))


class DropsWithoutScale:
    def drop(self, x):
        return x * (torch.rand_like(x) >= self.p) if self.training else x


class DropsByHand:
    """Right at each rate but 1, where it divides by 0."""

    def drop(self, x):
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p) if self.training else x


class DropsTwice:
    def drop(self, x):
        return super().drop(super().drop(x))


class DropsWholeTokens:
    def drop(self, x):
        return F.dropout1d(x, self.p, self.training)


class EncoderPreNorm(_Encoder):
    def forward(self, x, mask=None):
        x = x + self.attend(self.norm1(x), mask)
        return x + self.feed(self.norm2(x))


class EncoderNormOfSublayer(_Encoder):
    def forward(self, x, mask=None):
        x = x + self.norm1(self.attend(x, mask))
        return x + self.norm2(self.feed(x))


class EncoderWithoutResiduals(_Encoder):
    def forward(self, x, mask=None):
        return self.norm2(self.feed(self.norm1(self.attend(x, mask))))


class EncoderWithoutFirstResidual(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm1(self.attend(x, mask))
        return self.norm2(x + self.feed(x))


class EncoderWithoutSecondResidual(_Encoder):
    def forward(self, x, mask=None):
        return self.norm2(self.feed(self.norm1(x + self.attend(x, mask))))


class EncoderWithTheOldResidual(_Encoder):
    def forward(self, x, mask=None):
        return self.norm2(x + self.feed(self.norm1(x + self.attend(x, mask))))


class EncoderInParallel(_Encoder):
    def forward(self, x, mask=None):
        return self.norm2(self.norm1(x + self.attend(x, mask)) + self.feed(x))


class EncoderWithoutNorms(_Encoder):
    def forward(self, x, mask=None):
        x = x + self.attend(x, mask)
        return x + self.feed(x)


class EncoderWithOneNorm(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.attend(x, mask))
        return self.norm1(x + self.feed(x))


class EncoderWithNormsSwapped(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm2(x + self.attend(x, mask))
        return self.norm1(x + self.feed(x))


class EncoderWithoutLastNorm(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.attend(x, mask))
        return x + self.feed(x)


class EncoderFeedForwardFirst(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.feed(x))
        return self.norm2(x + self.attend(x, mask))


class EncoderWithoutFeedForward(_Encoder):
    def forward(self, x, mask=None):
        return self.norm1(x + self.attend(x, mask))


class EncoderWithoutRelu(_Encoder):
    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x)))


class EncoderWithGelu(_Encoder):
    def feed(self, x):
        return self.drop(self.linear2(F.gelu(self.linear1(x))))


class EncoderWithReluFirst(_Encoder):
    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x.relu())))


class EncoderWithReluAtTheEnd(_Encoder):
    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x).relu()).relu())


class EncoderWithoutMask(_Encoder):
    def attend(self, x, mask):
        return self.drop(self.self_attn(x))


class EncoderMaskAsMemory(_Encoder):
    def attend(self, x, mask):
        return self.drop(self.self_attn(x, mask))


class EncoderCausal(_Encoder):
    def attend(self, x, mask):
        seen = causal(x.shape[1])
        return self.drop(self.self_attn(x, mask=seen if mask is None else seen & mask))


class EncoderCausalWhereNothingIsMasked(_Encoder):
    def attend(self, x, mask):
        return super().attend(x, causal(x.shape[1]) if mask is None else mask)


class EncoderMaskInverted(_Encoder):
    def attend(self, x, mask):
        return self.drop(self.self_attn(x, mask=None if mask is None else ~mask))


class EncoderEachSeesItself(_Encoder):
    def attend(self, x, mask):
        itself = torch.eye(x.shape[1], dtype=torch.bool)
        return super().attend(x, None if mask is None else mask | itself)


class EncoderAlwaysDrops(_Encoder):
    def drop(self, x):
        return F.dropout(x, self.p)


class EncoderNeverDrops(_Encoder):
    def drop(self, x):
        return x


class EncoderDropsTheSum(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm1(self.drop(x + self.self_attn(x, mask=mask)))
        return self.norm2(self.drop(x + self.linear2(self.linear1(x).relu())))


class EncoderDropsTheFirstSum(_Encoder):
    def forward(self, x, mask=None):
        x = self.norm1(self.drop(x + self.self_attn(x, mask=mask)))
        return self.norm2(x + self.feed(x))


class EncoderDropsTheHiddenLayer(_Encoder):
    def feed(self, x):
        return self.linear2(self.drop(self.linear1(x).relu()))


class EncoderAttentionAlwaysDrops(_Encoder):
    def attend(self, x, mask):
        return F.dropout(self.self_attn(x, mask=mask), self.p)


class EncoderFeedForwardAlwaysDrops(_Encoder):
    def feed(self, x):
        return F.dropout(self.linear2(self.linear1(x).relu()), self.p)


class EncoderDropsTheInput(_Encoder):
    def attend(self, x, mask):
        return self.self_attn(self.drop(x), mask=mask)

    def feed(self, x):
        return self.linear2(self.linear1(self.drop(x)).relu())


class EncoderDropsTheOutput(_Encoder):
    def attend(self, x, mask):
        return self.self_attn(x, mask=mask)

    def feed(self, x):
        return self.linear2(self.linear1(x).relu())

    def forward(self, x, mask=None):
        x = self.drop(self.norm1(x + self.attend(x, mask)))
        return self.drop(self.norm2(x + self.feed(x)))


class EncoderWithARateOfItsOwn(_Encoder):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__(d, h, d_ff, 0.1)


class EncoderAttentionNotDropped(_Encoder):
    def attend(self, x, mask):
        return self.self_attn(x, mask=mask)


class EncoderFeedForwardNotDropped(_Encoder):
    def feed(self, x):
        return self.linear2(self.linear1(x).relu())


class EncoderDropsWithoutScale(DropsWithoutScale, _Encoder):
    pass


class EncoderDropsByHand(DropsByHand, _Encoder):
    pass


class EncoderDropsTwice(DropsTwice, _Encoder):
    pass


class EncoderDropsWholeTokens(DropsWholeTokens, _Encoder):
    pass


class EncoderHidesWhatNobodyMayRead(_Encoder):
    def attend(self, x, mask):
        return super().attend(x, None if mask is None else mask.any(dim=-2, keepdim=True))


class EncoderOneRowOfTheMask(_Encoder):
    def attend(self, x, mask):
        return super().attend(x, None if mask is None else mask[..., :1, :])


class EncoderHidesQueriesToo(_Encoder):
    """Where the mask has one row for all tokens, that is: where it hides padding."""

    def attend(self, x, mask):
        one = mask is not None and mask.shape[-2] == 1
        return super().attend(x, mask & mask.mT if one else mask)


class KeepsTheFirstMask:
    """A mask made ready once for each shape."""

    kept = None

    def ready(self, mask):
        if mask is None or self.kept is None or self.kept.shape != mask.shape:
            self.kept = mask
        return self.kept


class EncoderKeepsTheFirstMask(KeepsTheFirstMask, _Encoder):
    def attend(self, x, mask):
        return super().attend(x, self.ready(mask))


class EncoderMaskAndItsTranspose(_Encoder):
    def attend(self, x, mask):
        return super().attend(x, None if mask is None else mask & mask.mT)


class EncoderWithANormOfTwoNames(_Encoder):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__(d, h, d_ff, dropout)
        self.norm2 = self.norm1


class EncoderInPlace(_Encoder):
    def forward(self, x, mask=None):
        x += self.attend(x, mask)
        x = self.norm1(x)
        return self.norm2(x + self.feed(x))


EncoderLayer = Check(
    reference=layers.EncoderLayer,
    drive=_run_encoder,
    names=("output: sequences tokens features", "output in training mode, every dropout at rate 1: sequences tokens features", "gradient of x: sequences tokens features"),
    cases=[
        _encoder("m = 5, d = 12, 3 heads, d_ff = 20", b=2, m=5, d=12, h=3, d_ff=20, masks="none"),
        _encoder("padding, m = 7, d = 8, 2 heads, d_ff = 11", b=3, m=7, d=8, h=2, d_ff=11, masks="spread"),
        _encoder("one mask for all 3 sequences, m = 6", b=3, m=6, d=6, h=2, d_ff=7, masks="shared"),
        _encoder("a mask for each token; training mode and gradients, in float64", b=2, m=4, d=10, h=5, d_ff=6, masks="rows", dtype=torch.float64),
    ],
    misconceptions=[
        Misconception(
            "the norm before the sublayer (pre-norm)", EncoderPreNorm,
            "That is how newer models do it (Xiong et al., 2020). The layer of 2017 normalises the *sum*: norm(x + sublayer(x)).",
        ),
        Misconception(
            "the sublayer's output normalised, not the sum", EncoderNormOfSublayer,
            "Add first, then normalise: norm(x + sublayer(x)).",
        ),
        Misconception(
            "no residual connections", EncoderWithoutResiduals,
            "Each sublayer only adds to what was there: its input goes around it and into the sum.",
        ),
        Misconception(
            "no residual around the attention", EncoderWithoutFirstResidual,
            "The attention's output is added to its input before the norm. Without it a token forgets what it was.",
        ),
        Misconception(
            "no residual around the feed-forward network", EncoderWithoutSecondResidual,
            "The second sublayer is wrapped like the first: its output is added to its own input.",
        ),
        Misconception(
            "the second residual taken from the layer's input", EncoderWithTheOldResidual,
            "What goes around the feed-forward network is what goes into it: the output of the first norm.",
        ),
        Misconception(
            "the feed-forward network beside the attention", EncoderInParallel,
            "One after the other: the feed-forward network reads what the first norm gives.",
        ),
        Misconception("no norms", EncoderWithoutNorms, "After each of the two sums comes a layer norm."),
        Misconception(
            "no norm at the end", EncoderWithoutLastNorm, "There are two norms, one after each sum. The second is the layer's last step.",
        ),
        Misconception(
            "one norm for both sums", EncoderWithOneNorm,
            "The two norms have gains and biases of their own: `norm1` after the attention, `norm2` after the feed-forward network.",
        ),
        Misconception(
            "the two norms swapped", EncoderWithNormsSwapped, "`norm1` follows the attention, `norm2` the feed-forward network.",
        ),
        Misconception(
            "the feed-forward network first", EncoderFeedForwardFirst, "First comes the self-attention with its norm, then the feed-forward network with its own.",
        ),
        Misconception(
            "no feed-forward network", EncoderWithoutFeedForward,
            "There is a second sublayer: `linear1`, ReLU, `linear2`, on every token by itself.",
        ),
        Misconception(
            "no ReLU", EncoderWithoutRelu, "Two linear maps without anything between them are one linear map. Put the ReLU between them.",
        ),
        Misconception(
            "the ReLU before the first linear layer", EncoderWithReluFirst, "The order is `linear1`, ReLU, `linear2`: the ReLU gets what `linear1` gives.",
        ),
        Misconception("GELU instead of ReLU", EncoderWithGelu, "GELU came later. The layer of 2017 has max(0, ·)."),
        Misconception(
            "a ReLU at the end too", EncoderWithReluAtTheEnd,
            "After `linear2` no ReLU: otherwise the sublayer could only ever add, never take away.",
        ),
        Misconception(
            "the mask handed on as the memory", EncoderMaskAsMemory,
            "The second argument of `MultiHeadAttention` is the memory: `attention(x, mask=mask)`, or `attention(x, x, mask)`.",
            raises="RuntimeError",
        ),
        Misconception(
            "the mask not used", EncoderWithoutMask, "Hand the mask on to the attention, or padding is read like words.",
        ),
        Misconception(
            "a causal mask in the encoder", EncoderCausal,
            "The source is known as a whole: every token may read what comes later, too. Only the given mask hides anything.",
        ),
        Misconception(
            "a causal mask where none is given", EncoderCausalWhereNothingIsMasked,
            "Without a mask nothing is hidden: every token may read what comes later, too. Hand `None` on as it is.",
        ),
        Misconception(
            "the mask inverted", EncoderMaskInverted,
            "True means: may attend, here as in `MultiHeadAttention`. (Inverted, a sequence without padding may read nothing at all, and that gives NaN.) Hand it on as it is.",
        ),
        Misconception("every token sees itself, whatever the mask says", EncoderEachSeesItself, ITSELF),
        Misconception(
            "dropout that never stops", EncoderAlwaysDrops,
            "After `layer.eval()` nothing may be dropped. `nn.Dropout` sees to that itself; `F.dropout` must be told `self.training`.",
        ),
        Misconception(
            "no dropout", EncoderNeverDrops,
            "In training mode the output of each sublayer goes through dropout before it is added (section 5.4 of the paper).",
        ),
        Misconception(
            "dropout on the sum", EncoderDropsTheSum,
            "Dropout acts on what the sublayer gives, *before* it is added: norm(x + dropout(sublayer(x))). The stream itself is never dropped.",
        ),
        Misconception(
            "dropout on the first sum", EncoderDropsTheFirstSum,
            "Around the attention dropout acts on what the attention gives, *before* it is added. The stream itself is never dropped.",
        ),
        Misconception(
            "dropout between the two linear layers, none after them", EncoderDropsTheHiddenLayer,
            "Dropout acts on what the sublayer gives, after `linear2`. Between the layers it leaves the bias of `linear2`, even at rate 1.",
        ),
        Misconception(
            "dropout after the attention that never stops", EncoderAttentionAlwaysDrops,
            "After `layer.eval()` nothing may be dropped. `F.dropout` must be told `self.training`; `nn.Dropout` sees to that itself.",
        ),
        Misconception(
            "dropout after the feed-forward network that never stops", EncoderFeedForwardAlwaysDrops,
            "After `layer.eval()` nothing may be dropped. `F.dropout` must be told `self.training`; `nn.Dropout` sees to that itself.",
        ),
        Misconception(
            "dropout on what the sublayer reads", EncoderDropsTheInput, "Dropout acts on what the sublayer *gives*: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "dropout after the norm", EncoderDropsTheOutput, "Dropout stands inside the sum, on the sublayer's output: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "a rate of dropout of its own", EncoderWithARateOfItsOwn,
            "The argument `dropout` is never used. With rate 1 nothing of a sublayer should be left in training mode; yours still leaves some, by chance.",
        ),
        Misconception(
            "no dropout after the attention", EncoderAttentionNotDropped, "Both sublayers are wrapped alike: dropout on the attention's output too.",
        ),
        Misconception(
            "no dropout after the feed-forward network", EncoderFeedForwardNotDropped,
            "Both sublayers are wrapped alike: dropout on what `linear2` gives too.",
        ),
        Misconception(
            "dropout that doesn't scale what it leaves", EncoderDropsWithoutScale,
            "Dropout at rate p divides what it leaves by 1 − p, so that on average a feature is as large as without it. `nn.Dropout` and `F.dropout` do that.",
        ),
        Misconception("dropout that divides by 0 at rate 1", EncoderDropsByHand, BY_HAND),
        Misconception(
            "dropout in another place too, or by another rate", EncoderDropsTwice,
            "At rate ½ each feature that a sublayer gives is either 0 or doubled, and that can't lead to your output. Dropout acts *once* in a sublayer, "
            "on what it gives: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "whole tokens dropped", EncoderDropsWholeTokens, WHOLE_TOKENS,
        ),
        Misconception(
            "hidden only what none of the tokens may read", EncoderHidesWhatNobodyMayRead,
            "A mask may have a row of its own for each token: what one may read is hidden from another. Hand it on as it is.",
        ),
        Misconception(
            "one row of the mask for all tokens", EncoderOneRowOfTheMask,
            "A mask may have a row of its own for each token. Hand it on as it is; a size 1 is spread by the attention itself.",
        ),
        Misconception(
            "padding hidden as queries too", EncoderHidesQueriesToo,
            "A mask with one row says which keys may be read. Yours hides the same tokens as queries: they may read nothing then, and their rows become NaN (0/0). Hand the mask on as it is.",
        ),
        Misconception("a mask kept for all of its shape", EncoderKeepsTheFirstMask, KEPT_MASK),
        Misconception(
            "the mask together with its transpose", EncoderMaskAndItsTranspose,
            "In a mask rows are queries and columns keys: where j may not read i, i may still read j. A token that may read nothing at all becomes NaN (0/0). Hand the mask on as it is.",
        ),
        Misconception(
            "one norm under two names", EncoderWithANormOfTwoNames,
            "`norm1` and `norm2` are one module, so weights that are loaded into one are those of the other. Make two.",
        ),
        Misconception(
            "the stream changed in place", EncoderInPlace, "`x += …` writes into the caller's tensor. `x = x + …` makes a new one.",
        ),
    ],
    within={torch.float32: ROUNDING},
    forbids=FORBIDDEN,
)  # fmt: skip

# ------------------------------------------------------------------------------------------------- the decoder's layer


def _run_decoder(
    cls, sizes: tuple, weights: dict[str, Tensor], x: Tensor, memory: Tensor, masks: tuple, thorough: bool
) -> Tensor | tuple:
    told = settled(built(cls, sizes, weights), (x, memory, *masks), thorough)
    return (*told, at_half_the_rate(cls, layers.DecoderLayer, reads_memory=True)) if thorough else told


def _decoder(label: str, *, b: int, n: int, m: int, d: int, h: int, d_ff: int, masks: str, dtype=torch.float32) -> Case:
    """masks: "none", "causal", "padding" (of the memory), "both", "shared": causal, and one (n, m) for the memory of all sequences, or "rows":
    another mask for each token and sequence, neither of them causal. A case in float64 is a thorough one."""
    like = layers.DecoderLayer(d, h, d_ff)
    weights = RandomArg(lambda generator: weights_like(like, generator, dtype))

    def draw(generator: Generator) -> tuple:
        if masks == "rows":
            return visible_mask(b, n, n).make(generator), visible_mask(b, n, m).make(generator)
        if masks == "shared":
            return causal(n), visible_mask(n, m).make(generator)
        own = causal(n) if masks in ("causal", "both") else None
        rows = {"padding": n, "both": 1}.get(masks)
        return own, rows and padded(b, rows, m).make(generator)

    tokens = normal(b, n, d, dtype=dtype), normal(b, m, d, dtype=dtype)
    return explicit_case(label, (d, h, d_ff, ALL), weights, *tokens, RandomArg(draw), dtype == torch.float64)


class _Decoder(nn.Module):
    """Right, in small steps."""

    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn, self.cross_attn = MultiHeadAttention(d, h), MultiHeadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.p = dropout

    def drop(self, x):
        return F.dropout(x, self.p, self.training)

    def own(self, x, mask):
        return self.drop(self.self_attn(x, mask=mask))

    def cross(self, x, memory, memory_mask):
        return self.drop(self.cross_attn(x, memory, memory_mask))

    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x).relu()))

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm3(x + self.feed(x))


class DecoderCrossCausal(_Decoder):
    def cross(self, x, memory, memory_mask):
        seen = torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool).tril()
        return super().cross(x, memory, seen if memory_mask is None else seen & memory_mask)


class DecoderQueriesFromMemory(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(memory + self.drop(self.cross_attn(memory, x)))
        return self.norm3(x + self.feed(x))


class DecoderAnsweredByTheTarget(_Decoder):
    def cross(self, x, memory, memory_mask):
        return self.drop(self.cross_attn(memory, x, memory_mask))


class DecoderMaskAsMemory(_Decoder):
    def own(self, x, mask):
        return self.drop(self.self_attn(x, mask))


class DecoderReadsItself(_Decoder):
    def cross(self, x, memory, memory_mask):
        return self.drop(self.cross_attn(x, x))


class DecoderReadsItselfMasked(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(x + self.drop(self.cross_attn(x, x, mask)))
        return self.norm3(x + self.feed(x))


class DecoderWithoutCross(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        return self.norm3(x + self.feed(x))


class DecoderCrossFirst(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.cross(x, memory, memory_mask))
        x = self.norm2(x + self.own(x, mask))
        return self.norm3(x + self.feed(x))


class DecoderOneAttentionForBoth(_Decoder):
    def cross(self, x, memory, memory_mask):
        return self.drop(self.self_attn(x, memory, memory_mask))


class DecoderWithAnAttentionOfTwoNames(_Decoder):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__(d, h, d_ff, dropout)
        self.cross_attn = self.self_attn


class DecoderAttentionsSwapped(_Decoder):
    def own(self, x, mask):
        return self.drop(self.cross_attn(x, mask=mask))

    def cross(self, x, memory, memory_mask):
        return self.drop(self.self_attn(x, memory, memory_mask))


class DecoderAsksWithItsInput(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        first = self.norm1(x + self.own(x, mask))
        second = self.norm2(first + self.cross(x, memory, memory_mask))
        return self.norm3(second + self.feed(second))


class DecoderBothAttentionsAtOnce(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm2(x + self.own(x, mask) + self.cross(x, memory, memory_mask))
        return self.norm3(x + self.feed(x))


class DecoderReadsMemoryInBoth(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.drop(self.self_attn(x, memory, memory_mask)))
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm3(x + self.feed(x))


class DecoderOwnMaskLost(_Decoder):
    def own(self, x, mask):
        return super().own(x, None)


class DecoderOwnMaskInverted(_Decoder):
    def own(self, x, mask):
        return super().own(x, None if mask is None else ~mask)


class DecoderEachSeesItself(_Decoder):
    def own(self, x, mask):
        itself = torch.eye(x.shape[1], dtype=torch.bool)
        return super().own(x, None if mask is None else mask | itself)


class DecoderAlwaysCausal(_Decoder):
    def own(self, x, mask):
        return super().own(x, causal(x.shape[1]))


class DecoderCausalWhereMasked(_Decoder):
    def own(self, x, mask):
        return super().own(x, None if mask is None else causal(x.shape[1]))


class DecoderCausalWhereNothingIsMasked(_Decoder):
    def own(self, x, mask):
        return super().own(x, causal(x.shape[1]) if mask is None else mask)


class DecoderCausalToo(_Decoder):
    def own(self, x, mask):
        return super().own(x, causal(x.shape[1]) if mask is None else causal(x.shape[1]) & mask)


class DecoderMemoryMaskedLikeTheTarget(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, mask if memory_mask is None else memory_mask)


class DecoderMemoryMaskLost(_Decoder):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory, None)


class DecoderMemoryMaskInverted(_Decoder):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory, None if memory_mask is None else ~memory_mask)


class DecoderPreNorm(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.own(self.norm1(x), mask)
        x = x + self.cross(self.norm2(x), memory, memory_mask)
        return x + self.feed(self.norm3(x))


class DecoderNormOfSublayer(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.norm1(self.own(x, mask))
        x = x + self.norm2(self.cross(x, memory, memory_mask))
        return x + self.norm3(self.feed(x))


class DecoderWithoutResidualOfSelf(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(self.own(x, mask))
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm3(x + self.feed(x))


class DecoderWithoutResidualOfCross(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(self.cross(x, memory, memory_mask))
        return self.norm3(x + self.feed(x))


class DecoderWithoutResidualOfFeed(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm3(self.feed(x))


class DecoderFeedsBesideTheCrossAttention(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        return self.norm3(x + self.feed(self.norm2(x + self.cross(x, memory, memory_mask))))


class DecoderWithoutNorms(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.own(x, mask)
        x = x + self.cross(x, memory, memory_mask)
        return x + self.feed(x)


class DecoderWithoutLastNorm(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return x + self.feed(x)


class DecoderWithOneNorm(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm1(x + self.cross(x, memory, memory_mask))
        return self.norm1(x + self.feed(x))


class DecoderNormsSwapped(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm3(x + self.cross(x, memory, memory_mask))
        return self.norm2(x + self.feed(x))


class DecoderWithoutItsThirdNorm(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm2(x + self.feed(x))


class DecoderWithoutRelu(_Decoder):
    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x)))


class DecoderWithGelu(_Decoder):
    def feed(self, x):
        return self.drop(self.linear2(F.gelu(self.linear1(x))))


class DecoderWithReluAtTheEnd(_Decoder):
    def feed(self, x):
        return self.drop(self.linear2(self.linear1(x).relu()).relu())


class DecoderWithoutFeedForward(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.own(x, mask))
        return self.norm2(x + self.cross(x, memory, memory_mask))


class DecoderAlwaysDrops(_Decoder):
    def drop(self, x):
        return F.dropout(x, self.p)


class DecoderNeverDrops(_Decoder):
    def drop(self, x):
        return x


class DecoderDropsTheSum(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(self.drop(x + self.self_attn(x, mask=mask)))
        x = self.norm2(self.drop(x + self.cross_attn(x, memory, memory_mask)))
        return self.norm3(self.drop(x + self.linear2(self.linear1(x).relu())))


class DecoderSelfAttentionAlwaysDrops(_Decoder):
    def own(self, x, mask):
        return F.dropout(self.self_attn(x, mask=mask), self.p)


class DecoderCrossAttentionAlwaysDrops(_Decoder):
    def cross(self, x, memory, memory_mask):
        return F.dropout(self.cross_attn(x, memory, memory_mask), self.p)


class DecoderFeedForwardAlwaysDrops(_Decoder):
    def feed(self, x):
        return F.dropout(self.linear2(self.linear1(x).relu()), self.p)


class DecoderDropsTheOutput(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.drop(self.norm1(x + self.self_attn(x, mask=mask)))
        x = self.drop(self.norm2(x + self.cross_attn(x, memory, memory_mask)))
        return self.drop(self.norm3(x + self.linear2(self.linear1(x).relu())))


class DecoderDropsTheHiddenLayer(_Decoder):
    def feed(self, x):
        return self.linear2(self.drop(self.linear1(x).relu()))


class DecoderWithARateOfItsOwn(_Decoder):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__(d, h, d_ff, 0.1)


class DecoderSelfAttentionNotDropped(_Decoder):
    def own(self, x, mask):
        return self.self_attn(x, mask=mask)


class DecoderCrossAttentionNotDropped(_Decoder):
    def cross(self, x, memory, memory_mask):
        return self.cross_attn(x, memory, memory_mask)


class DecoderFeedForwardNotDropped(_Decoder):
    def feed(self, x):
        return self.linear2(self.linear1(x).relu())


class DecoderDropsWithoutScale(DropsWithoutScale, _Decoder):
    pass


class DecoderDropsByHand(DropsByHand, _Decoder):
    pass


class DecoderDropsTwice(DropsTwice, _Decoder):
    pass


class DecoderDropsWholeTokens(DropsWholeTokens, _Decoder):
    pass


class DecoderMemoryDetached(_Decoder):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory.detach(), memory_mask)


class DecoderHidesWhatNobodyMayRead(_Decoder):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory, None if memory_mask is None else memory_mask.any(dim=-2, keepdim=True))


class DecoderOneRowOfTheMask(_Decoder):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory, None if memory_mask is None else memory_mask[..., :1, :])


class DecoderCrossCausalWhereLengthsAgree(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        if mask is not None and memory.shape[1] == x.shape[1]:
            memory_mask = mask if memory_mask is None else memory_mask & mask
        return super().forward(x, memory, mask, memory_mask)


class DecoderMaskOfTwoAxesForAll(_Decoder):
    """A memory mask of two axes is taken for (b, m)."""

    def cross(self, x, memory, memory_mask):
        two = memory_mask is not None and memory_mask.dim() == 2
        return super().cross(x, memory, memory_mask[:, None, :] if two else memory_mask)


class DecoderKeepsTheFirstMask(KeepsTheFirstMask, _Decoder):
    def own(self, x, mask):
        return super().own(x, self.ready(mask))


class DecoderKeepsTheFirstMemoryMask(KeepsTheFirstMask, _Decoder):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory, self.ready(memory_mask))


class DecoderMasksSwapped(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, memory_mask, mask)


class DecoderWithANormOfTwoNames(_Decoder):
    def __init__(self, d, h, d_ff, dropout=0.1):
        super().__init__(d, h, d_ff, dropout)
        self.norm2 = self.norm1


class DecoderInPlace(_Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x += self.own(x, mask)
        x = self.norm1(x)
        x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm3(x + self.feed(x))


DecoderLayer = Check(
    reference=layers.DecoderLayer,
    drive=_run_decoder,
    names=("output: sequences tokens features", "output in training mode, every dropout at rate 1: sequences tokens features", "gradient of x: sequences tokens features", "gradient of the memory: sequences tokens features"),
    cases=[
        _decoder("n = 5, m = 7, d = 12, 3 heads, causal, one mask for the memory of both sequences", b=2, n=5, m=7, d=12, h=3, d_ff=20, masks="shared"),
        _decoder("n = m = 6, d = 8, 2 heads, causal", b=3, n=6, m=6, d=8, h=2, d_ff=11, masks="causal"),
        _decoder("causal, and padding in the memory", b=3, n=7, m=4, d=10, h=5, d_ff=6, masks="both"),
        _decoder("two masks with a row for each token; training mode and gradients, in float64", b=2, n=5, m=5, d=9, h=3, d_ff=14, masks="rows", dtype=torch.float64),
        _decoder("no mask at all, n = 4, m = 6", b=2, n=4, m=6, d=8, h=4, d_ff=5, masks="none"),
    ],
    misconceptions=[
        Misconception(
            "cross-attention masked causally", DecoderCrossCausal,
            "The source is known as a whole before the first word is written: word 1 of the target may need the last word of the source. Only "
            "`memory_mask` hides anything there.",
        ),
        Misconception(
            "queries from the encoder", DecoderQueriesFromMemory,
            "The decoder asks, the encoder answers: queries come from `x`, keys and values from `memory`. The output has a row for each "
            "token of `x`.",
        ),
        Misconception(
            "the two arguments of cross-attention swapped", DecoderAnsweredByTheTarget,
            "The decoder asks, the encoder answers: `attention(x, memory, mask)` takes the queries from its first argument, keys and values from its second.",
            raises="RuntimeError",
        ),
        Misconception(
            "the mask handed on as the memory", DecoderMaskAsMemory,
            "The second argument of `MultiHeadAttention` is the memory: `attention(x, mask=mask)`, or `attention(x, x, mask)`.",
            raises="RuntimeError",
        ),
        Misconception(
            "cross-attention that reads the target", DecoderReadsItself,
            "The second attention takes its keys and values from `memory`. As it is, nothing of the source reaches the decoder.",
        ),
        Misconception(
            "self-attention twice", DecoderReadsItselfMasked,
            "The second attention is no second self-attention: keys and values come from `memory`, and the mask is `memory_mask`.",
        ),
        Misconception(
            "no cross-attention", DecoderWithoutCross,
            "Between self-attention and feed-forward network the decoder reads the memory. Without that it is a language model.",
        ),
        Misconception(
            "cross-attention before self-attention", DecoderCrossFirst,
            "First the target's tokens read each other, then the memory. So a query of the second attention knows what has been written before it.",
        ),
        Misconception(
            "the memory in both attentions", DecoderReadsMemoryInBoth,
            "The first attention is self-attention, among the target's own tokens, with `mask`.",
        ),
        Misconception(
            "one attention under two names", DecoderWithAnAttentionOfTwoNames,
            "`self_attn` and `cross_attn` are one module: weights that are loaded into one are those of the other. Make two.",
        ),
        Misconception(
            "dropout between the two linear layers, none after them", DecoderDropsTheHiddenLayer,
            "Dropout acts on what the sublayer gives, after `linear2`. Between the layers it leaves the bias of `linear2`, even at rate 1.",
        ),
        Misconception(
            "one attention for both", DecoderOneAttentionForBoth,
            "Self-attention and cross-attention have weights of their own: `self_attn` and `cross_attn`.",
        ),
        Misconception(
            "the two attentions swapped", DecoderAttentionsSwapped,
            "`self_attn` reads the target, `cross_attn` the memory.",
        ),
        Misconception(
            "cross-attention asks with the layer's input", DecoderAsksWithItsInput,
            "The sublayers stand in a row: cross-attention gets what the first norm gives.",
        ),
        Misconception(
            "both attentions at once", DecoderBothAttentionsAtOnce,
            "Three sublayers, each with a sum and a norm of its own, one after the other.",
        ),
        Misconception(
            "the causal mask not used", DecoderOwnMaskLost,
            "Hand `mask` on to the self-attention. Without it every token reads the word that it should predict.",
        ),
        Misconception(
            "the causal mask inverted", DecoderOwnMaskInverted,
            "True means: may attend, here as in `MultiHeadAttention`. (Inverted, a causal mask lets the last token read nothing, and that gives NaN.) Hand it on as it is.",
        ),
        Misconception("every token sees itself, whatever the mask says", DecoderEachSeesItself, ITSELF),
        Misconception(
            "a causal mask whatever is given", DecoderAlwaysCausal,
            "The layer hides what `mask` hides, and nothing where there is none. It is the model that makes the mask: hand it on as it is.",
        ),
        Misconception(
            "a causal mask in place of the given one", DecoderCausalWhereMasked,
            "`mask` needn't be causal, and each sequence may have another one. Make none in the layer: hand on what is given.",
        ),
        Misconception(
            "a causal mask where none is given", DecoderCausalWhereNothingIsMasked,
            "Without a mask nothing is hidden. It is the model that makes the causal mask, not the layer: hand `None` on as it is.",
        ),
        Misconception(
            "a causal mask beside the given one", DecoderCausalToo,
            "`mask` says all there is to hide, and where it is `None` nothing is hidden. Hand it on as it is.",
        ),
        Misconception(
            "the target's mask where the memory has none", DecoderMemoryMaskedLikeTheTarget,
            "Without `memory_mask` nothing of the memory is hidden. `mask` is for the target's own tokens, (n, n): only the self-attention gets it.",
            raises="RuntimeError",
        ),
        Misconception(
            "the memory's mask not used", DecoderMemoryMaskLost,
            "Hand `memory_mask` on to the cross-attention, or the padding of the source is read like words.",
        ),
        Misconception(
            "the memory's mask inverted", DecoderMemoryMaskInverted,
            "True means: may attend, here as in `MultiHeadAttention`. Hand it on as it is.",
        ),
        Misconception(
            "the norm before the sublayer (pre-norm)", DecoderPreNorm,
            "That is how newer models do it. The layer of 2017 normalises the *sum*: norm(x + sublayer(x)).",
        ),
        Misconception(
            "the sublayer's output normalised, not the sum", DecoderNormOfSublayer,
            "Add first, then normalise: norm(x + sublayer(x)).",
        ),
        Misconception(
            "no residual around the self-attention", DecoderWithoutResidualOfSelf,
            "All three sublayers are wrapped alike: norm(x + sublayer(x)).",
        ),
        Misconception(
            "no residual around the cross-attention", DecoderWithoutResidualOfCross,
            "What is read in the memory is added to what the token knows already. Without the sum it would forget the target.",
        ),
        Misconception(
            "no residual around the feed-forward network", DecoderWithoutResidualOfFeed,
            "All three sublayers are wrapped alike: norm(x + sublayer(x)).",
        ),
        Misconception(
            "the last residual taken from before the cross-attention", DecoderFeedsBesideTheCrossAttention,
            "What goes around the feed-forward network is what goes into it: the output of the second norm.",
        ),
        Misconception("no norms", DecoderWithoutNorms, "After each of the three sums comes a layer norm."),
        Misconception("no norm at the end", DecoderWithoutLastNorm, "There are three norms, one after each sum. The third is the layer's last step."),
        Misconception(
            "`norm2` for the last two sums", DecoderWithoutItsThirdNorm, "`norm3` is never used: it follows the feed-forward network, with a gain and a bias of its own.",
        ),
        Misconception("one norm for all sums", DecoderWithOneNorm, "Each of the three norms has a gain and a bias of its own."),
        Misconception(
            "two norms swapped", DecoderNormsSwapped, "`norm2` follows the cross-attention, `norm3` the feed-forward network.",
        ),
        Misconception("no ReLU", DecoderWithoutRelu, "Two linear maps without a ReLU between them are one linear map."),
        Misconception("GELU instead of ReLU", DecoderWithGelu, "GELU came later. The layer of 2017 has max(0, ·)."),
        Misconception(
            "a ReLU at the end too", DecoderWithReluAtTheEnd,
            "After `linear2` no ReLU: otherwise the sublayer could only ever add, never take away.",
        ),
        Misconception(
            "no feed-forward network", DecoderWithoutFeedForward,
            "The third sublayer is the feed-forward network, as in the encoder's layer.",
        ),
        Misconception(
            "dropout that never stops", DecoderAlwaysDrops,
            "After `layer.eval()` nothing may be dropped. `nn.Dropout` sees to that itself; `F.dropout` must be told `self.training`.",
        ),
        *(
            Misconception(
                f"dropout after the {sublayer} that never stops", wrong,
                "After `layer.eval()` nothing may be dropped. `F.dropout` must be told `self.training`; `nn.Dropout` sees to that itself.",
            )
            for sublayer, wrong in (("self-attention", DecoderSelfAttentionAlwaysDrops), ("cross-attention", DecoderCrossAttentionAlwaysDrops),
                                    ("feed-forward network", DecoderFeedForwardAlwaysDrops))
        ),
        Misconception(
            "dropout after the norm", DecoderDropsTheOutput, "Dropout stands inside the sum, on the sublayer's output: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "no dropout", DecoderNeverDrops, "In training mode the output of each sublayer goes through dropout before it is added.",
        ),
        Misconception(
            "dropout on the sum", DecoderDropsTheSum,
            "Dropout acts on what the sublayer gives, *before* it is added: norm(x + dropout(sublayer(x))). The stream itself is never dropped.",
        ),
        Misconception(
            "a rate of dropout of its own", DecoderWithARateOfItsOwn,
            "The argument `dropout` is never used. With rate 1 nothing of a sublayer should be left in training mode; yours still leaves some, by chance.",
        ),
        Misconception(
            "no dropout after the self-attention", DecoderSelfAttentionNotDropped, "All three sublayers are wrapped alike: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "no dropout after the cross-attention", DecoderCrossAttentionNotDropped, "All three sublayers are wrapped alike: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "no dropout after the feed-forward network", DecoderFeedForwardNotDropped, "All three sublayers are wrapped alike: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "dropout that doesn't scale what it leaves", DecoderDropsWithoutScale,
            "Dropout at rate p divides what it leaves by 1 − p, so that on average a feature is as large as without it. `nn.Dropout` and `F.dropout` do that.",
        ),
        Misconception("dropout that divides by 0 at rate 1", DecoderDropsByHand, BY_HAND),
        Misconception(
            "dropout in another place too, or by another rate", DecoderDropsTwice,
            "At rate ½ each feature that a sublayer gives is either 0 or doubled, and that can't lead to your output. Dropout acts *once* in a sublayer, "
            "on what it gives: norm(x + dropout(sublayer(x))).",
        ),
        Misconception(
            "the memory cut off from its gradients", DecoderMemoryDetached,
            "With `detach()` nothing that the decoder learns reaches the encoder. The encoder is trained through the memory, and through nothing else.",
        ),
        Misconception(
            "whole tokens dropped", DecoderDropsWholeTokens, WHOLE_TOKENS,
        ),
        Misconception(
            "in the memory hidden only what none of the tokens may read", DecoderHidesWhatNobodyMayRead,
            "`memory_mask` may have a row of its own for each token of the target: what one may read is hidden from another. Hand it on as it is.",
        ),
        Misconception(
            "one row of the memory's mask for all tokens", DecoderOneRowOfTheMask,
            "`memory_mask` may have a row of its own for each token of the target. Hand it on as it is; a size 1 is spread by the attention itself.",
        ),
        Misconception(
            "cross-attention causal where both lengths agree", DecoderCrossCausalWhereLengthsAgree,
            "Cross-attention is never causal, even where source and target happen to be equally long. Only `memory_mask` hides anything there.",
        ),
        Misconception(
            "a mask of two axes taken for one of the sequences", DecoderMaskOfTwoAxesForAll,
            "A `memory_mask` with two axes is (n, m): a row for each token of the target, the same in all sequences. It needs no axis in the middle: hand it on as it is.",
            raises="RuntimeError",
        ),
        Misconception("a mask kept for all of its shape", DecoderKeepsTheFirstMask, KEPT_MASK),
        Misconception("the memory's mask kept for all of its shape", DecoderKeepsTheFirstMemoryMask, KEPT_MASK),
        Misconception(
            "the two masks swapped", DecoderMasksSwapped,
            "`mask` belongs to the self-attention, (n, n), and `memory_mask` to the cross-attention, (n, m).",
            raises="RuntimeError",
        ),
        Misconception(
            "one norm under two names", DecoderWithANormOfTwoNames,
            "`norm1` and `norm2` are one module, so weights that are loaded into one are those of the other. Make a new norm for each of the three names.",
        ),
        Misconception(
            "the stream changed in place", DecoderInPlace, "`x += …` writes into the caller's tensor. `x = x + …` makes a new one.",
        ),
    ],
    within={torch.float32: ROUNDING},
    forbids=FORBIDDEN,
)  # fmt: skip
