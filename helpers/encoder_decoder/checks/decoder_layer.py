"""The check of `DecoderLayer`."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, Misconception
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

__all__ = ["DecoderLayer"]


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
    names=(
        "output: sequences tokens features",
        "output in training mode, every dropout at rate 1: sequences tokens features",
        "gradient of x: sequences tokens features",
        "gradient of the memory: sequences tokens features",
    ),
    cases=[
        _decoder(
            "n = 5, m = 7, d = 12, 3 heads, causal, one mask for the memory of both sequences",
            b=2,
            n=5,
            m=7,
            d=12,
            h=3,
            d_ff=20,
            masks="shared",
        ),
        _decoder("n = m = 6, d = 8, 2 heads, causal", b=3, n=6, m=6, d=8, h=2, d_ff=11, masks="causal"),
        _decoder("causal, and padding in the memory", b=3, n=7, m=4, d=10, h=5, d_ff=6, masks="both"),
        _decoder(
            "two masks with a row for each token; training mode and gradients, in float64",
            b=2,
            n=5,
            m=5,
            d=9,
            h=3,
            d_ff=14,
            masks="rows",
            dtype=torch.float64,
        ),
        _decoder("no mask at all, n = 4, m = 6", b=2, n=4, m=6, d=8, h=4, d_ff=5, masks="none"),
    ],
    misconceptions=wrong_answers(
        __file__,
        *(
            Misconception(
                f"dropout after the {sublayer} that never stops",
                wrong,
                "After `layer.eval()` nothing may be dropped. `F.dropout` must be told `self.training`; `nn.Dropout` sees to that itself.",
            )
            for sublayer, wrong in (
                ("self-attention", DecoderSelfAttentionAlwaysDrops),
                ("cross-attention", DecoderCrossAttentionAlwaysDrops),
                ("feed-forward network", DecoderFeedForwardAlwaysDrops),
            )
        ),
        cross_attention_masked_causally=DecoderCrossCausal,
        queries_from_encoder=DecoderQueriesFromMemory,
        two_arguments_cross_attention_swapped=Wrong(DecoderAnsweredByTheTarget, raises="RuntimeError"),
        mask_handed_on_as_memory=Wrong(DecoderMaskAsMemory, raises="RuntimeError"),
        cross_attention_that_reads_target=DecoderReadsItself,
        self_attention_twice=DecoderReadsItselfMasked,
        no_cross_attention=DecoderWithoutCross,
        cross_attention_before_self_attention=DecoderCrossFirst,
        memory_both_attentions=DecoderReadsMemoryInBoth,
        one_attention_under_two_names=DecoderWithAnAttentionOfTwoNames,
        dropout_between_two_linear_layers_none=DecoderDropsTheHiddenLayer,
        one_attention_both=DecoderOneAttentionForBoth,
        two_attentions_swapped=DecoderAttentionsSwapped,
        cross_attention_asks_with_layers_input=DecoderAsksWithItsInput,
        both_attentions_at_once=DecoderBothAttentionsAtOnce,
        causal_mask_not_used=DecoderOwnMaskLost,
        causal_mask_inverted=DecoderOwnMaskInverted,
        every_token_sees_itself_whatever_mask=DecoderEachSeesItself,
        causal_mask_whatever_given=DecoderAlwaysCausal,
        causal_mask_place_given_one=DecoderCausalWhereMasked,
        causal_mask_where_none_given=DecoderCausalWhereNothingIsMasked,
        causal_mask_beside_given_one=DecoderCausalToo,
        targets_mask_where_memory_has_none=Wrong(DecoderMemoryMaskedLikeTheTarget, raises="RuntimeError"),
        memorys_mask_not_used=DecoderMemoryMaskLost,
        memorys_mask_inverted=DecoderMemoryMaskInverted,
        norm_before_sublayer_pre_norm=DecoderPreNorm,
        sublayers_output_normalised_not_sum=DecoderNormOfSublayer,
        no_residual_around_self_attention=DecoderWithoutResidualOfSelf,
        no_residual_around_cross_attention=DecoderWithoutResidualOfCross,
        no_residual_around_feed_forward_network=DecoderWithoutResidualOfFeed,
        last_residual_taken_from_before_cross=DecoderFeedsBesideTheCrossAttention,
        no_norms=DecoderWithoutNorms,
        no_norm_at_end=DecoderWithoutLastNorm,
        norm2_last_two_sums=DecoderWithoutItsThirdNorm,
        one_norm_all_sums=DecoderWithOneNorm,
        two_norms_swapped=DecoderNormsSwapped,
        no_relu=DecoderWithoutRelu,
        gelu_instead_relu=DecoderWithGelu,
        relu_at_end_too=DecoderWithReluAtTheEnd,
        no_feed_forward_network=DecoderWithoutFeedForward,
        dropout_that_never_stops=DecoderAlwaysDrops,
        dropout_after_norm=DecoderDropsTheOutput,
        no_dropout=DecoderNeverDrops,
        dropout_on_sum=DecoderDropsTheSum,
        rate_dropout_own=DecoderWithARateOfItsOwn,
        no_dropout_after_self_attention=DecoderSelfAttentionNotDropped,
        no_dropout_after_cross_attention=DecoderCrossAttentionNotDropped,
        no_dropout_after_feed_forward_network=DecoderFeedForwardNotDropped,
        dropout_that_doesnt_scale_what_it=DecoderDropsWithoutScale,
        dropout_that_divides_by_0_at_rate_1=DecoderDropsByHand,
        dropout_another_place_too_or_by_another=DecoderDropsTwice,
        memory_cut_off_from_gradients=DecoderMemoryDetached,
        whole_tokens_dropped=DecoderDropsWholeTokens,
        memory_hidden_only_what_none_tokens_may=DecoderHidesWhatNobodyMayRead,
        one_row_memorys_mask_all_tokens=DecoderOneRowOfTheMask,
        cross_attention_causal_where_both=DecoderCrossCausalWhereLengthsAgree,
        mask_two_axes_taken_one_sequences=Wrong(DecoderMaskOfTwoAxesForAll, raises="RuntimeError"),
        mask_kept_all_shape=DecoderKeepsTheFirstMask,
        memorys_mask_kept_all_shape=DecoderKeepsTheFirstMemoryMask,
        two_masks_swapped=Wrong(DecoderMasksSwapped, raises="RuntimeError"),
        one_norm_under_two_names=DecoderWithANormOfTwoNames,
        stream_changed_place=DecoderInPlace,
    ),
    within={torch.float32: ROUNDING},
    forbids=FORBIDDEN,
)
