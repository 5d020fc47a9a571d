"""The check of latent attention: right values alone are not enough, for they come out of an expanded cache too. What is made on the way counts."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, normal
from helpers.engine.check import Check, Property
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision
from helpers.engine.wrong_answers import Wrong, wrong_answers

from ..latent_attention import latent_attention as reference
from ..latent_attention import with_keys_and_values

__all__ = ["latent_attention"]


def latent_step(
    label: str,
    m: int,
    *,
    b: int,
    d: int,
    h: int,
    d_h: int,
    d_c: int,
    dtype=torch.float32,
    loud: float = 1.0,
    limited: bool = False,
) -> Case:
    """One step after m tokens. loud: how much larger the scores are than usual. limited: keys and values are too dear to make."""

    def matrix(*shape: int, inner: int, scale: float = 1.0) -> Tensor:
        return normal(*shape, scale=scale * inner**-0.5, dtype=dtype)

    n = m + 1
    limits = (
        dict(max_elements=_largest(b, n, d, h, d_h, d_c), max_flops=_flops(b, n, d, h, d_h, d_c)) if limited else {}
    )
    return explicit_case(
        label,
        normal(b, d, dtype=dtype),
        normal(b, m, d_c, dtype=dtype),
        matrix(d, d_c, inner=d),
        matrix(h, d, d_h, inner=d, scale=1.5 * loud),
        matrix(h, d_c, d_h, inner=d_c, scale=2.0),
        matrix(h, d_c, d_h, inner=d_c),
        matrix(h, d_h, d, inner=h * d_h),
        **limits,
    )


def _largest(b: int, n: int, d: int, h: int, d_h: int, d_c: int) -> int:
    """Room for the latents, the scores and absorbed matrices. Half of all keys is more."""
    assert max(b * n * d_c, b * h * n, h * d * d_c) < b * h * n * d_h // 2, (
        "keys must be larger than all that is needed"
    )
    return b * h * n * d_h // 2


def _flops(b: int, n: int, d: int, h: int, d_h: int, d_c: int) -> int:
    """Scores and mixing in the latents' space, the new token, both products of absorbed matrices. Making keys costs d_h / 2 times the scores."""
    attention, token, absorbed = 4 * b * h * n * d_c, 2 * b * (d * d_c + 2 * h * (d + d_c) * d_h), 4 * h * d * d_h * d_c
    everything = attention + token + absorbed + 4 * b * h * d * d_c
    assert everything < 2 * b * n * h * d_c * d_h, "keys must be dearer than all that is needed"
    return everything


def _step(inputs, *, scale=None, q=None, weigh=None, mix=None, merge=None) -> tuple[Tensor, Tensor]:
    """The right step with one thing changed. q: the heads' queries against the latents; mix: heads of the mixed latents."""
    x, latents, w_dkv, w_q, w_uk, w_uv, w_o = inputs
    latents = _joined(inputs)
    heads = torch.einsum("bd,hde->bhe", x, w_q)
    q = torch.einsum("bhe,hce->bhc", heads, w_uk) if q is None else q(heads)
    scores = q @ latents.mT * (w_q.shape[-1] ** -0.5 if scale is None else scale)
    weights = scores.softmax(dim=-1) if weigh is None else weigh(scores)
    mixed = weights @ latents
    out = torch.einsum("bhc,hce->bhe", mixed, w_uv) if mix is None else mix(mixed)
    return (torch.einsum("bhe,hed->bd", out, w_o) if merge is None else merge(out)), latents


def _joined(inputs) -> Tensor:
    return torch.cat([inputs[1], (inputs[0] @ inputs[2])[:, None]], dim=1)


def scaled_by_a_share_of_the_width(*inputs) -> tuple[Tensor, Tensor]:
    share = inputs[0].shape[-1] // len(inputs[3])
    return _step(inputs, scale=share**-0.5 if share else math.inf)


def new_latent_not_stored(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs)[0], inputs[1]


def attends_before_it_stores(*inputs) -> tuple[Tensor, Tensor]:
    x, latents, w_dkv, w_q, w_uk, w_uv, w_o = inputs
    q = torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk)
    mixed = (q @ latents.mT * w_q.shape[-1] ** -0.5).softmax(dim=-1) @ latents
    return torch.einsum("bhc,hce,hed->bd", mixed, w_uv, w_o), _joined(inputs)


def new_latent_in_front(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs)[0], torch.cat([(inputs[0] @ inputs[2])[:, None], inputs[1]], dim=1)


def only_the_new_latent(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs)[0], (inputs[0] @ inputs[2])[:, None]


def one_latent_overwritten(*inputs) -> tuple[Tensor, Tensor]:
    """The oldest makes room for the newest, as in a ring that is always full."""
    return _step((inputs[0], inputs[1][:, 1:], *inputs[2:]))


def up_projection_transposed(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, q=lambda heads: torch.einsum("bhe,hec->bhc", heads, inputs[4]))


def up_projection_reshaped(*inputs) -> tuple[Tensor, Tensor]:
    h, d_c, d_h = inputs[4].shape
    return _step(inputs, q=lambda heads: torch.einsum("bhe,hec->bhc", heads, inputs[4].reshape(h, d_h, d_c)))


def values_up_projection_for_both(*inputs) -> tuple[Tensor, Tensor]:
    return _step((*inputs[:4], inputs[5], *inputs[5:]))


def keys_up_projection_for_both(*inputs) -> tuple[Tensor, Tensor]:
    return _step((*inputs[:5], inputs[4], inputs[6]))


def up_projections_exchanged(*inputs) -> tuple[Tensor, Tensor]:
    return _step((*inputs[:4], inputs[5], inputs[4], inputs[6]))


def without_a_softmax(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, weigh=lambda scores: scores)


def softmax_over_the_heads(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, weigh=lambda scores: scores.softmax(dim=1))


def softmax_over_heads_and_tokens(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, weigh=lambda scores: scores.flatten(1).softmax(dim=-1).view(scores.shape))


def softmax_without_maximum(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, weigh=lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True))


def scores_cut_off(*inputs) -> tuple[Tensor, Tensor]:
    def weigh(scores) -> Tensor:
        exponentials = scores.clamp(max=80.0).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return _step(inputs, weigh=weigh)


def one_maximum_for_all(*inputs) -> tuple[Tensor, Tensor]:
    def weigh(scores) -> Tensor:
        exponentials = (scores - scores.max()).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return _step(inputs, weigh=weigh)


def merged_feature_by_feature(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, merge=lambda heads: heads.mT.flatten(1) @ inputs[6].flatten(0, 1))


def one_softmax_for_all_heads(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, weigh=lambda scores: scores.mean(dim=1, keepdim=True).softmax(dim=-1).expand(scores.shape))


def _slices(inputs) -> Tensor:
    """(h, d_c): True where a feature of the latent lies in a head's own slice."""
    h, d_c = inputs[4].shape[:2]
    return torch.arange(d_c) * h // d_c == torch.arange(h)[:, None]


def latent_cut_into_heads(*inputs) -> tuple[Tensor, Tensor]:
    mine = _slices(inputs)[..., None]
    return _step((*inputs[:4], inputs[4] * mine, inputs[5] * mine, inputs[6]))


def first_heads_up_projections(*inputs) -> tuple[Tensor, Tensor]:
    return _step((*inputs[:4], *(w[:1].expand(w.shape) for w in inputs[4:6]), inputs[6]))


def mean_of_the_heads(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, merge=lambda heads: torch.einsum("bhe,hed->bhd", heads, inputs[6]).mean(dim=1))


def without_output_projection(*inputs) -> tuple[Tensor, Tensor]:
    return _step(inputs, merge=lambda heads: heads.flatten(1))


def latents_mixed_into_the_output(*inputs) -> tuple[Tensor, Tensor]:
    """w_uv forgotten: what is mixed are latents, and they have no width d_h."""
    return _step(inputs, mix=lambda mixed: mixed)


def keys_and_values_stored(*inputs) -> tuple[Tensor, Tensor]:
    keys, values = (torch.einsum("bmc,hce->bhme", _joined(inputs), w) for w in inputs[4:6])
    return _step(inputs)[0], torch.cat([keys, values], dim=-1)


def only_keys_absorbed(*inputs) -> tuple[Tensor, Tensor]:
    x, _, _, w_q, w_uk, w_uv, w_o = inputs
    latents = _joined(inputs)
    weights = (torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk) @ latents.mT / math.sqrt(w_q.shape[-1])).softmax(dim=-1)
    heads = weights[:, :, None] @ torch.einsum("bmc,hce->bhme", latents, w_uv)  # (b, h, 1, d_h)
    return torch.einsum("bhe,hed->bd", heads[:, :, 0], w_o), latents


def head_by_head_with_keys(*inputs) -> tuple[Tensor, Tensor]:
    x, _, _, w_q, w_uk, w_uv, w_o = inputs
    latents, out = _joined(inputs), torch.zeros_like(x)
    for head in range(len(w_q)):
        q, keys, values = x @ w_q[head], latents @ w_uk[head], latents @ w_uv[head]
        weights = (keys @ q[..., None] / math.sqrt(q.shape[-1])).softmax(dim=1)  # (b, m + 1, 1)
        out = out + (weights.mT @ values)[:, 0] @ w_o[head]
    return out, latents


def latents_copied_for_every_head(*inputs) -> tuple[Tensor, Tensor]:
    x, _, _, w_q, w_uk, w_uv, w_o = inputs
    latents = _joined(inputs)
    copies = latents[:, None].repeat(1, len(w_q), 1, 1)  # (b, h, m + 1, d_c)
    q = torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk)
    weights = (copies @ q[..., None] / math.sqrt(w_q.shape[-1])).softmax(dim=2)
    return torch.einsum("bhc,hce,hed->bd", (weights.mT @ copies)[:, :, 0], w_uv, w_o), latents


def _all_heads(seen, width: int) -> int:
    """Elements of a tensor with `width` features for every token and head, latents or keys."""
    x, latents, _, w_q, *_ = seen.args
    return len(x) * len(w_q) * (latents.shape[1] + 1) * width


def _up_projections(seen) -> int:
    """How often the FLOPs would do to make the keys of all tokens and heads."""
    d_c, d_h = seen.args[4].shape[1:]
    return seen.flops // (2 * _all_heads(seen, d_c * d_h))


def _latents_for_every_head(seen) -> bool:
    return seen.largest == _all_heads(seen, seen.args[4].shape[1])


def _keys_and_values_made(seen) -> bool:
    return _up_projections(seen) == 2 and seen.largest == _all_heads(seen, seen.args[4].shape[2])


def _made_in_parts(seen) -> bool:
    return _up_projections(seen) == 2 and seen.largest < _all_heads(seen, seen.args[4].shape[2])


def _one_of_both_made(seen) -> bool:
    return _up_projections(seen) == 1 and not _latents_for_every_head(seen)


def _both_returned(output, *_) -> bool:
    return isinstance(output, (tuple, list)) and len(output) == 2


latent_attention = Check(
    reference=reference,
    properties=[
        Property(
            "two tensors come back", _both_returned, "Return two things: the output, and the latents of all tokens."
        )
    ],
    forbids=NO_FUSED_ATTENTION,
    names=("output: sequences features", "latents: sequences tokens features"),
    cases=[
        latent_step("5 tokens in the cache", 5, b=3, d=7, h=2, d_h=4, d_c=6),
        latent_step("the first token of a text", 0, b=2, d=5, h=4, d_h=3, d_c=12),
        latent_step("8 tokens, one sequence, in float64", 8, b=1, d=6, h=5, d_h=2, d_c=10, dtype=torch.float64),
        latent_step("scores of a thousand and more", 6, b=2, d=8, h=3, d_h=5, d_c=9, loud=400.0, dtype=torch.float64),
        latent_step(
            "scores of a thousand and more, one head",
            4,
            b=1,
            d=8,
            h=1,
            d_h=5,
            d_c=9,
            loud=40_000.0,
            dtype=torch.float64,
        ),
        latent_step("299 tokens, and no room for keys or values", 299, b=2, d=10, h=6, d_h=8, d_c=12, limited=True),
    ],
    misconceptions=wrong_answers(
        __file__,
        in_single_precision(reference),
        scaled_by_root_d_c_instead_root_d_h=lambda *inputs: _step(inputs, scale=inputs[1].shape[-1] ** -0.5),
        no_scale=lambda *inputs: _step(inputs, scale=1.0),
        scaled_by_d_h_instead_root=lambda *inputs: _step(inputs, scale=1 / inputs[3].shape[-1]),
        scaled_by_root_models_width=lambda *inputs: _step(inputs, scale=inputs[0].shape[-1] ** -0.5),
        scaled_by_root_d_over_h=scaled_by_a_share_of_the_width,
        scaled_by_root_all_heads_width=lambda *inputs: _step(
            inputs, scale=(len(inputs[3]) * inputs[3].shape[-1]) ** -0.5
        ),
        new_latent_not_stored=new_latent_not_stored,
        appended_after_attending=attends_before_it_stores,
        new_latent_put_before_old=new_latent_in_front,
        only_new_latent_returned=only_the_new_latent,
        oldest_latent_dropped=one_latent_overwritten,
        up_projection_used_without_transpose=Wrong(up_projection_transposed, raises="RuntimeError"),
        up_projection_reshaped_instead=up_projection_reshaped,
        w_uv_absorbed_into_query=values_up_projection_for_both,
        w_uk_values_too=keys_up_projection_for_both,
        two_up_projections_exchanged=up_projections_exchanged,
        scores_instead_weights=without_a_softmax,
        softmax_over_heads=softmax_over_the_heads,
        one_softmax_over_heads_tokens_together=softmax_over_heads_and_tokens,
        softmax_without_maximum=softmax_without_maximum,
        one_maximum_all_rows=one_maximum_for_all,
        scores_cut_off_before_exp=scores_cut_off,
        one_set_weights_all_heads=one_softmax_for_all_heads,
        latent_cut_into_heads=latent_cut_into_heads,
        first_heads_up_projections_all_heads=first_heads_up_projections,
        heads_averaged=mean_of_the_heads,
        heads_merged_feature_by_feature=merged_feature_by_feature,
        no_output_projection=without_output_projection,
        w_uv_left_out=Wrong(latents_mixed_into_the_output, raises="RuntimeError"),
        keys_values_stored=keys_and_values_stored,
        keys_values_made_every_step=Wrong(with_keys_and_values, cost=_keys_and_values_made),
        one_two_absorbed_other_used_on_all=Wrong(only_keys_absorbed, cost=_one_of_both_made),
        keys_values_made_head_by_head=Wrong(head_by_head_with_keys, cost=_made_in_parts),
        tensor_with_all_latents_every_head=Wrong(latents_copied_for_every_head, cost=_latents_for_every_head),
    ),
)
