"""Both layers of unit 06 in named steps, and the slips that either of them can have."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.engine.wrong_answers import Slip


@dataclass(frozen=True)
class Given:
    """What a layer is called with beside its tokens."""

    mask: Tensor | None
    memory: Tensor | None = None
    memory_mask: Tensor | None = None


@dataclass(frozen=True)
class At:
    """One sublayer and what stands around it. name: own, cross or feed. before: what the sublayer before it has
    read."""

    layer: nn.Module
    given: Given
    name: str
    number: int
    before: Tensor

    def sublayer(self, x):
        return getattr(self.layer.steps, self.name)(self.layer, x, self.given)

    def drop(self, x):
        return self.layer.steps.drop(x, self.layer.rate, self.layer.training)

    def norm(self, x):
        return getattr(self.layer, f"norm{self.number}")(x) if self.number else x


def normed_sum(at, x):
    return at.norm(x + at.drop(at.sublayer(x)))


def reads_itself(layer, x, given):
    return layer.self_attn(x, mask=given.mask)


def reads_memory(layer, x, given):
    return layer.cross_attn(x, given.memory, given.memory_mask)


def two_maps(layer, x, given):
    return layer.linear2(layer.linear1(x).relu())


def drop_some(x, rate, training):
    return F.dropout(x, rate, training)


@dataclass(frozen=True)
class Sublayers:
    """The steps of the encoder's layer; the decoder's has another order."""

    order: tuple[str, ...] = ("own", "feed")
    norms: tuple[int, ...] = (1, 2)  # the number of the norm after each of them, 0 for none
    own: Callable = reads_itself  # (layer, x, given) → what it gives
    cross: Callable = reads_memory
    feed: Callable = two_maps
    around: Callable = normed_sum  # (at, x) → the stream behind a sublayer
    drop: Callable = drop_some  # (x, rate, training) → x
    rate: Callable = float  # of the argument `dropout`
    tied: tuple[str, ...] = ()  # two names of one module


def set_up(layer: nn.Module, steps: Sublayers, d: int, d_ff: int, dropout: float) -> None:
    """What both layers have beside their attentions."""
    layer.steps, layer.rate = steps, steps.rate(dropout)
    layer.linear1, layer.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
    for number in (1, 2, 3) if hasattr(layer, "cross_attn") else (1, 2):
        setattr(layer, f"norm{number}", nn.LayerNorm(d))
    if steps.tied:
        setattr(layer, steps.tied[1], getattr(layer, steps.tied[0]))


def through(layer: nn.Module, x: Tensor, given: Given) -> Tensor:
    """The stream behind all sublayers."""
    before = x
    for name, number in zip(layer.steps.order, layer.steps.norms, strict=False):
        before, x = x, layer.steps.around(At(layer, given, name, number, before), x)
    return x


def only(name, around):
    """Another way around one sublayer, and the right one around the others."""
    return lambda at, x: around(at, x) if at.name == name else normed_sum(at, x)


def undropped(at, x):
    return at.norm(x + at.sublayer(x))


def always_dropped(at, x):
    return at.norm(x + F.dropout(at.sublayer(x), at.layer.rate))


def sum_dropped(at, x):
    return at.norm(at.drop(x + at.sublayer(x)))


def without_residual(at, x):
    return at.norm(at.drop(at.sublayer(x)))


def _overwriting(at, x):
    x += at.drop(at.sublayer(x))
    return at.norm(x)


class Around:
    """norm(x + dropout(sublayer(x))) around each sublayer, in a new tensor."""

    pre_norm = Slip(around=lambda at, x: x + at.drop(at.sublayer(at.norm(x))))
    sublayer_normalised = Slip(around=lambda at, x: x + at.norm(at.drop(at.sublayer(x))))
    stream_overwritten = Slip(around=only("own", _overwriting))


class Feed:
    """linear1, ReLU, linear2, and dropout behind them."""

    no_relu = Slip(feed=lambda layer, x, given: layer.linear2(layer.linear1(x)))
    gelu = Slip(feed=lambda layer, x, given: layer.linear2(F.gelu(layer.linear1(x))))
    relu_at_the_end_too = Slip(feed=lambda layer, x, given: two_maps(layer, x, given).relu())
    dropped_inside = Slip(
        feed=lambda layer, x, given: layer.linear2(F.dropout(layer.linear1(x).relu(), layer.rate, layer.training)),
        around=only("feed", undropped),
    )


class Dropout:
    """Once, on what each sublayer gives, in training mode alone, by the rate that the layer was made with."""

    never_stops = Slip(drop=lambda x, rate, training: F.dropout(x, rate))
    never_starts = Slip(drop=lambda x, rate, training: x)
    on_the_sum = Slip(around=sum_dropped)
    after_the_norm = Slip(around=lambda at, x: at.drop(at.norm(x + at.sublayer(x))))
    rate_of_its_own = Slip(rate=lambda dropout: 0.1)
    not_scaled = Slip(drop=lambda x, rate, training: x * (torch.rand_like(x) >= rate) if training else x)
    divides_by_0 = Slip(drop=lambda x, rate, training: x * (torch.rand_like(x) >= rate) / (1 - rate) if training else x)
    twice = Slip(drop=lambda x, rate, training: drop_some(drop_some(x, rate, training), rate, training))
    whole_tokens = Slip(drop=F.dropout1d)


def other_mask(change):
    """Self-attention whose mask is changed, where there is one."""
    return lambda layer, x, given: layer.self_attn(x, mask=None if given.mask is None else change(given.mask))


def itself_too(mask):
    return mask | torch.eye(mask.shape[-1], dtype=torch.bool)


def first_kept(layer, mask):
    """A mask made ready once for each shape."""
    kept = getattr(layer, "kept", None)
    layer.kept = mask if mask is None or kept is None or kept.shape != mask.shape else kept
    return layer.kept


class Handed:
    """The mask is handed on to self-attention as it is."""

    mask_as_memory = Slip(own=lambda layer, x, given: layer.self_attn(x, given.mask), raises="RuntimeError")
    itself_seen = Slip(own=other_mask(itself_too))
    mask_inverted = Slip(own=other_mask(lambda mask: ~mask))
    mask_ignored = Slip(own=lambda layer, x, given: layer.self_attn(x))
    mask_kept = Slip(own=lambda layer, x, given: layer.self_attn(x, mask=first_kept(layer, given.mask)))
