"""The check of `EncoderLayer`."""

import torch
from torch import Tensor, nn

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
    only,
    other_mask,
    set_up,
    sum_dropped,
    through,
    undropped,
    without_residual,
)

__all__ = ["EncoderLayer"]


def _run_encoder(
    cls, sizes: tuple, weights: dict[str, Tensor], x: Tensor, mask: Tensor | None, thorough: bool
) -> Tensor | tuple:
    told = settled(built(cls, sizes, weights), (x,) if mask is None else (x, mask), thorough)
    return (*told, at_half_the_rate(cls, layers.EncoderLayer)) if thorough else told


def _encoder(label: str, *, b: int, m: int, d: int, h: int, d_ff: int, masks: str, dtype=torch.float32) -> Case:
    """masks: "none", "padding", (b, m, m), or (b, 1, m) where it is "spread", "shared" by all sequences, (m, m), or
    "rows", another for each token. A case in float64 is a thorough one; its masks are none that are shared."""
    like = layers.EncoderLayer(d, h, d_ff)
    weights = RandomArg(lambda generator: weights_like(like, generator, dtype))
    mask = {
        "none": None,
        "padding": padded(b, m, m),
        "spread": padded(b, 1, m),
        "shared": visible_mask(m, m),
        "rows": visible_mask(b, m, m),
    }[masks]
    return explicit_case(label, (d, h, d_ff, ALL), weights, normal(b, m, d, dtype=dtype), mask, dtype == torch.float64)


@composable
def encoder(**changed) -> type[nn.Module]:
    """The encoder's layer with these steps changed."""
    steps = Sublayers(**changed)

    class Layer(nn.Module):
        def __init__(self, d, h, d_ff, dropout=0.1):
            super().__init__()
            self.self_attn = MultiHeadAttention(d, h)
            set_up(self, steps, d, d_ff, dropout)

        def forward(self, x, mask=None):
            return through(self, x, Given(mask))

    return Layer


def causal_too(layer, x, given):
    seen = causal(x.shape[1])
    return layer.self_attn(x, mask=seen if given.mask is None else seen & given.mask)


def causal_where_none_is_given(layer, x, given):
    return layer.self_attn(x, mask=causal(x.shape[1]) if given.mask is None else given.mask)


EncoderLayer = Check(
    reference=layers.EncoderLayer,
    drive=_run_encoder,
    names=(
        "output: sequences tokens features",
        "output in training mode, every dropout at rate 1: sequences tokens features",
        "gradient of x: sequences tokens features",
    ),
    cases=[
        _encoder("m = 5, d = 12, 3 heads, d_ff = 20", b=2, m=5, d=12, h=3, d_ff=20, masks="none"),
        _encoder("padding, m = 7, d = 8, 2 heads, d_ff = 11", b=3, m=7, d=8, h=2, d_ff=11, masks="spread"),
        _encoder("one mask for all 3 sequences, m = 6", b=3, m=6, d=6, h=2, d_ff=7, masks="shared"),
        _encoder(
            "a mask for each token; training mode and gradients, in float64",
            **{"b": 2, "m": 4, "d": 10, "h": 5, "d_ff": 6, "masks": "rows", "dtype": torch.float64},
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        *slips(encoder, Around.pre_norm, Around.sublayer_normalised, Around.stream_overwritten),
        *slips(encoder, Feed.no_relu, Feed.gelu, Feed.relu_at_the_end_too, Feed.dropped_inside),
        *slips(encoder, Handed.mask_as_memory, Handed.mask_ignored, Handed.mask_inverted, Handed.itself_seen),
        *slips(encoder, Handed.mask_kept),
        *slips(encoder, Dropout.never_stops, Dropout.never_starts, Dropout.on_the_sum, Dropout.after_the_norm),
        *slips(encoder, Dropout.rate_of_its_own, Dropout.not_scaled, Dropout.divides_by_0, Dropout.twice),
        *slips(encoder, Dropout.whole_tokens),
        no_residuals=encoder(around=without_residual),
        no_residual_of_attention=encoder(around=only("own", without_residual)),
        no_residual_of_feed_forward=encoder(around=only("feed", without_residual)),
        old_residual=encoder(around=only("feed", lambda at, x: at.norm(at.before + at.drop(at.sublayer(x))))),
        side_by_side=encoder(around=only("feed", lambda at, x: at.norm(x + at.drop(at.sublayer(at.before))))),
        no_norms=encoder(norms=(0, 0)),
        no_norm_at_the_end=encoder(norms=(1, 0)),
        one_norm=encoder(norms=(1, 1)),
        norms_swapped=encoder(norms=(2, 1)),
        norm_of_two_names=encoder(tied=("norm1", "norm2")),
        feed_forward_first=encoder(order=("feed", "own")),
        no_feed_forward=Wrong(
            encoder(order=("own",)), variants=(encoder(feed=lambda layer, x, given: torch.zeros_like(x)),)
        ),
        relu_first=encoder(feed=lambda layer, x, given: layer.linear2(layer.linear1(x.relu()))),
        causal_too=encoder(own=causal_too),
        causal_where_none_is_given=encoder(own=causal_where_none_is_given),
        hidden_from_all=encoder(own=other_mask(lambda mask: mask.any(dim=-2, keepdim=True))),
        one_row=encoder(own=other_mask(lambda mask: mask[..., :1, :])),
        padding_as_queries_too=encoder(own=other_mask(lambda mask: mask & mask.mT if mask.shape[-2] == 1 else mask)),
        mask_and_its_transpose=encoder(own=other_mask(lambda mask: mask & mask.mT)),
        dropout_on_the_first_sum=encoder(around=only("own", sum_dropped)),
        dropout_on_the_input=encoder(around=lambda at, x: at.norm(x + at.sublayer(at.drop(x)))),
        no_dropout_after_attention=encoder(around=only("own", undropped)),
        no_dropout_after_feed_forward=encoder(around=only("feed", undropped)),
        attention_always_dropped=encoder(around=only("own", always_dropped)),
        feed_forward_always_dropped=encoder(around=only("feed", always_dropped)),
    ),
    within={torch.float32: ROUNDING},
    forbids=FORBIDDEN,
)
