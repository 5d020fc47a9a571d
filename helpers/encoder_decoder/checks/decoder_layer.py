"""The check of `DecoderLayer`."""

import torch
from torch import Generator, Tensor, nn

from helpers.engine.answers.common_misconceptions import visible_mask
from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers
from helpers.multi_head.heads import MultiHeadAttention

from .. import layers
from .layers import ALL, FORBIDDEN, ROUNDING, at_half_the_rate, built, causal, normal, padded, settled, weights_like
from .sublayers import (
    Around,
    Dropout,
    Feed,
    Given,
    Handed,
    Sublayers,
    always_dropped,
    first_kept,
    only,
    set_up,
    through,
    undropped,
    without_residual,
)

__all__ = ["DecoderLayer"]


def _run_decoder(
    cls, sizes: tuple, weights: dict[str, Tensor], x: Tensor, memory: Tensor, masks: tuple, thorough: bool
) -> Tensor | tuple:
    told = settled(built(cls, sizes, weights), (x, memory, *masks), thorough)
    return (*told, at_half_the_rate(cls, layers.DecoderLayer, reads_memory=True)) if thorough else told


def _decoder(label: str, *, b: int, n: int, m: int, d: int, h: int, d_ff: int, masks: str, dtype=torch.float32) -> Case:
    """masks: "none", "causal", "padding" (of the memory), "both", "shared": causal, and one (n, m) for the memory of
    all sequences, or "rows": another mask for each token and sequence, neither of them causal. A case in float64 is a
    thorough one."""
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


@composable
def decoder(order=("own", "cross", "feed"), norms=(1, 2, 3), **changed) -> type[nn.Module]:
    """The decoder's layer with these steps changed."""
    steps = Sublayers(order, norms, **changed)

    class Layer(nn.Module):
        def __init__(self, d, h, d_ff, dropout=0.1):
            super().__init__()
            self.self_attn, self.cross_attn = MultiHeadAttention(d, h), MultiHeadAttention(d, h)
            set_up(self, steps, d, d_ff, dropout)

        def forward(self, x, memory, mask=None, memory_mask=None):
            return through(self, x, Given(mask, memory, memory_mask))

    return Layer


def queries_from_the_memory(at, x):
    memory = at.given.memory
    return at.norm(memory + at.drop(at.layer.cross_attn(memory, x)))


def asking_with_what_came_before(at, x):
    return at.norm(x + at.drop(at.sublayer(at.before)))


def own_mask(change):
    """Self-attention with the mask change(mask, causal one); the mask may be None."""
    return lambda layer, x, given: layer.self_attn(x, mask=change(given.mask, causal(x.shape[1])))


def memory_mask(change):
    """Cross-attention whose mask is changed, where there is one."""
    return lambda layer, x, given: layer.cross_attn(
        x, given.memory, None if given.memory_mask is None else change(given.memory_mask)
    )


def read_causally(layer, x, given):
    seen = torch.ones(x.shape[1], given.memory.shape[1], dtype=torch.bool).tril()
    return layer.cross_attn(x, given.memory, seen if given.memory_mask is None else seen & given.memory_mask)


def read_causally_where_lengths_agree(layer, x, given):
    mask, seen = given.mask, given.memory_mask
    if mask is not None and given.memory.shape[1] == x.shape[1]:
        seen = mask if seen is None else seen & mask
    return layer.cross_attn(x, given.memory, seen)


def read_with_the_targets_mask(layer, x, given):
    return layer.cross_attn(x, given.memory, given.mask if given.memory_mask is None else given.memory_mask)


DecoderLayer = Check(
    reference=layers.DecoderLayer,
    drive=_run_decoder,
    names=(
        "output: sequences tokens features",
        "output in training mode, every dropout at rate 1: sequences tokens features",
        "gradient of x: sequences tokens features",
        "gradient of the memory: sequences tokens features",
    ),
    cases=[
        _decoder(
            "n = 5, m = 7, d = 12, 3 heads, causal, one mask for the memory of both sequences",
            **{"b": 2, "n": 5, "m": 7, "d": 12, "h": 3, "d_ff": 20, "masks": "shared"},
        ),
        _decoder("n = m = 6, d = 8, 2 heads, causal", b=3, n=6, m=6, d=8, h=2, d_ff=11, masks="causal"),
        _decoder("causal, and padding in the memory", b=3, n=7, m=4, d=10, h=5, d_ff=6, masks="both"),
        _decoder(
            "two masks with a row for each token; training mode and gradients, in float64",
            **{"b": 2, "n": 5, "m": 5, "d": 9, "h": 3, "d_ff": 14, "masks": "rows", "dtype": torch.float64},
        ),
        _decoder("no mask at all, n = 4, m = 6", b=2, n=4, m=6, d=8, h=4, d_ff=5, masks="none"),
    ],
    misconceptions=wrong_answers(
        __file__,
        *slips(decoder, Handed.mask_as_memory, Handed.mask_ignored, Handed.mask_inverted, Handed.itself_seen),
        *slips(decoder, Handed.mask_kept),
        *slips(decoder, Around.pre_norm, Around.sublayer_normalised, Around.stream_overwritten),
        *slips(decoder, Feed.no_relu, Feed.gelu, Feed.relu_at_the_end_too, Feed.dropped_inside),
        *slips(decoder, Dropout.never_stops, Dropout.never_starts, Dropout.on_the_sum, Dropout.after_the_norm),
        *slips(decoder, Dropout.rate_of_its_own, Dropout.not_scaled, Dropout.divides_by_0, Dropout.twice),
        *slips(decoder, Dropout.whole_tokens),
        read_causally=decoder(cross=read_causally),
        read_causally_where_lengths_agree=decoder(cross=read_causally_where_lengths_agree),
        queries_from_the_memory=decoder(around=only("cross", queries_from_the_memory)),
        arguments_swapped=Wrong(
            decoder(cross=lambda layer, x, given: layer.cross_attn(given.memory, x, given.memory_mask)),
            raises="RuntimeError",
        ),
        reads_the_target=decoder(cross=lambda layer, x, given: layer.cross_attn(x, x)),
        self_attention_twice=decoder(cross=lambda layer, x, given: layer.cross_attn(x, x, given.mask)),
        no_cross=Wrong(
            decoder(order=("own", "feed"), norms=(1, 3)),
            variants=(decoder(cross=lambda layer, x, given: torch.zeros_like(x)),),
        ),
        cross_first=decoder(order=("cross", "own", "feed")),
        memory_in_both=decoder(own=lambda layer, x, given: layer.self_attn(x, given.memory, given.memory_mask)),
        attention_of_two_names=decoder(tied=("self_attn", "cross_attn")),
        one_attention=decoder(cross=lambda layer, x, given: layer.self_attn(x, given.memory, given.memory_mask)),
        attentions_swapped=decoder(
            own=lambda layer, x, given: layer.cross_attn(x, mask=given.mask),
            cross=lambda layer, x, given: layer.self_attn(x, given.memory, given.memory_mask),
        ),
        asks_with_the_input=decoder(around=only("cross", asking_with_what_came_before)),
        attentions_at_once=decoder(norms=(0, 2, 3), around=only("cross", asking_with_what_came_before)),
        memory_detached=decoder(
            cross=lambda layer, x, given: layer.cross_attn(x, given.memory.detach(), given.memory_mask)
        ),
        always_causal=decoder(own=own_mask(lambda mask, causal: causal)),
        causal_in_its_place=decoder(own=own_mask(lambda mask, causal: None if mask is None else causal)),
        causal_where_none_is_given=decoder(own=own_mask(lambda mask, causal: causal if mask is None else mask)),
        causal_too=decoder(own=own_mask(lambda mask, causal: causal if mask is None else causal & mask)),
        targets_mask=Wrong(decoder(cross=read_with_the_targets_mask), raises="RuntimeError"),
        memory_mask_ignored=decoder(cross=lambda layer, x, given: layer.cross_attn(x, given.memory)),
        memory_mask_inverted=decoder(cross=memory_mask(lambda mask: ~mask)),
        hidden_from_all=decoder(cross=memory_mask(lambda mask: mask.any(dim=-2, keepdim=True))),
        one_row=decoder(cross=memory_mask(lambda mask: mask[..., :1, :])),
        mask_of_the_sequences=Wrong(
            decoder(cross=memory_mask(lambda mask: mask[:, None, :] if mask.dim() == 2 else mask)),
            raises="RuntimeError",
        ),
        memory_mask_kept=decoder(
            cross=lambda layer, x, given: layer.cross_attn(x, given.memory, first_kept(layer, given.memory_mask))
        ),
        masks_swapped=Wrong(
            decoder(
                own=lambda layer, x, given: layer.self_attn(x, mask=given.memory_mask),
                cross=lambda layer, x, given: layer.cross_attn(x, given.memory, given.mask),
            ),
            raises="RuntimeError",
        ),
        no_residual_of_self_attention=decoder(around=only("own", without_residual)),
        no_residual_of_cross_attention=decoder(around=only("cross", without_residual)),
        no_residual_of_feed_forward=decoder(around=only("feed", without_residual)),
        old_residual=decoder(around=only("feed", lambda at, x: at.norm(at.before + at.drop(at.sublayer(x))))),
        no_norms=decoder(norms=(0, 0, 0)),
        no_norm_at_the_end=decoder(norms=(1, 2, 0)),
        norm_2_twice=decoder(norms=(1, 2, 2)),
        one_norm=decoder(norms=(1, 1, 1)),
        norms_swapped=decoder(norms=(1, 3, 2)),
        norm_of_two_names=decoder(tied=("norm1", "norm2")),
        no_feed_forward=Wrong(
            decoder(order=("own", "cross")), variants=(decoder(feed=lambda layer, x, given: torch.zeros_like(x)),)
        ),
        no_dropout_after_self_attention=decoder(around=only("own", undropped)),
        no_dropout_after_cross_attention=decoder(around=only("cross", undropped)),
        no_dropout_after_feed_forward=decoder(around=only("feed", undropped)),
        self_attention_always_dropped=decoder(around=only("own", always_dropped)),
        cross_attention_always_dropped=decoder(around=only("cross", always_dropped)),
        feed_forward_always_dropped=decoder(around=only("feed", always_dropped)),
    ),
    within={torch.float32: ROUNDING},
    forbids=FORBIDDEN,
)
