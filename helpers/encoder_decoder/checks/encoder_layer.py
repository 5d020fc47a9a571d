"""The check of `EncoderLayer`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check
from helpers.engine.common_misconceptions import visible_mask
from helpers.engine.wrong_answers import Wrong, wrong_answers
from helpers.multi_head.heads import MultiHeadAttention

from .. import layers
from .layers import (
    ALL,
    FORBIDDEN,
    ROUNDING,
    DropsByHand,
    DropsTwice,
    DropsWholeTokens,
    DropsWithoutScale,
    KeepsTheFirstMask,
    at_half_the_rate,
    built,
    causal,
    normal,
    padded,
    settled,
    weights_like,
)

__all__ = ["EncoderLayer"]


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
        "none": None,
        "padding": padded(b, m, m),
        "spread": padded(b, 1, m),
        "shared": visible_mask(m, m),
        "rows": visible_mask(b, m, m),
    }[masks]
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
            b=2,
            m=4,
            d=10,
            h=5,
            d_ff=6,
            masks="rows",
            dtype=torch.float64,
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        norm_before_sublayer_pre_norm=EncoderPreNorm,
        sublayers_output_normalised_not_sum=EncoderNormOfSublayer,
        no_residual_connections=EncoderWithoutResiduals,
        no_residual_around_attention=EncoderWithoutFirstResidual,
        no_residual_around_feed_forward_network=EncoderWithoutSecondResidual,
        second_residual_taken_from_layers_input=EncoderWithTheOldResidual,
        feed_forward_network_beside_attention=EncoderInParallel,
        no_norms=EncoderWithoutNorms,
        no_norm_at_end=EncoderWithoutLastNorm,
        one_norm_both_sums=EncoderWithOneNorm,
        two_norms_swapped=EncoderWithNormsSwapped,
        feed_forward_network_first=EncoderFeedForwardFirst,
        no_feed_forward_network=EncoderWithoutFeedForward,
        no_relu=EncoderWithoutRelu,
        relu_before_first_linear_layer=EncoderWithReluFirst,
        gelu_instead_relu=EncoderWithGelu,
        relu_at_end_too=EncoderWithReluAtTheEnd,
        mask_handed_on_as_memory=Wrong(EncoderMaskAsMemory, raises="RuntimeError"),
        mask_not_used=EncoderWithoutMask,
        causal_mask_encoder=EncoderCausal,
        causal_mask_where_none_given=EncoderCausalWhereNothingIsMasked,
        mask_inverted=EncoderMaskInverted,
        every_token_sees_itself_whatever_mask=EncoderEachSeesItself,
        dropout_that_never_stops=EncoderAlwaysDrops,
        no_dropout=EncoderNeverDrops,
        dropout_on_sum=EncoderDropsTheSum,
        dropout_on_first_sum=EncoderDropsTheFirstSum,
        dropout_between_two_linear_layers_none=EncoderDropsTheHiddenLayer,
        dropout_after_attention_that_never=EncoderAttentionAlwaysDrops,
        dropout_after_feed_forward_network_that=EncoderFeedForwardAlwaysDrops,
        dropout_on_what_sublayer_reads=EncoderDropsTheInput,
        dropout_after_norm=EncoderDropsTheOutput,
        rate_dropout_own=EncoderWithARateOfItsOwn,
        no_dropout_after_attention=EncoderAttentionNotDropped,
        no_dropout_after_feed_forward_network=EncoderFeedForwardNotDropped,
        dropout_that_doesnt_scale_what_it=EncoderDropsWithoutScale,
        dropout_that_divides_by_0_at_rate_1=EncoderDropsByHand,
        dropout_another_place_too_or_by_another=EncoderDropsTwice,
        whole_tokens_dropped=EncoderDropsWholeTokens,
        hidden_only_what_none_tokens_may_read=EncoderHidesWhatNobodyMayRead,
        one_row_mask_all_tokens=EncoderOneRowOfTheMask,
        padding_hidden_as_queries_too=EncoderHidesQueriesToo,
        mask_kept_all_shape=EncoderKeepsTheFirstMask,
        mask_together_with_transpose=EncoderMaskAndItsTranspose,
        one_norm_under_two_names=EncoderWithANormOfTwoNames,
        stream_changed_place=EncoderInPlace,
    ),
    within={torch.float32: ROUNDING},
    forbids=FORBIDDEN,
)
