"""Latent attention. Right values are not enough, for they come out of an expanded cache too: what is made on the way
counts."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.engine.answers.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision
from helpers.engine.answers.scale import Scale
from helpers.engine.answers.softmax import Softmax
from helpers.engine.answers.steps import Attention, Sizes, attend
from helpers.engine.cases import Case, explicit_case, normal
from helpers.engine.check import Check, Property
from helpers.engine.two_slips import composable
from helpers.engine.wrong_answers import Wrong, slips, wrong_answers

from ..latent_attention import latent_attention as reference
from ..latent_attention import with_keys_and_values

__all__ = ["latent_attention"]


def latent_step(
    label: str, m: int, *, b: int, d: int, h: int, d_h: int, d_c: int, dtype=torch.float32, loud=1.0, limited=False
) -> Case:
    """One step after m tokens. loud: how much larger scores are than usual. limited: keys and values are too dear."""

    def matrix(*shape: int, inner: int, scale: float = 1.0) -> Tensor:
        return normal(*shape, scale=scale * inner**-0.5, dtype=dtype)

    sizes = b, m + 1, d, h, d_h, d_c
    return explicit_case(
        label,
        normal(b, d, dtype=dtype),
        normal(b, m, d_c, dtype=dtype),
        matrix(d, d_c, inner=d),
        matrix(h, d, d_h, inner=d, scale=1.5 * loud),
        matrix(h, d_c, d_h, inner=d_c, scale=2.0),
        matrix(h, d_c, d_h, inner=d_c),
        matrix(h, d_h, d, inner=h * d_h),
        **(dict(max_elements=_largest(*sizes), max_flops=_flops(*sizes)) if limited else {}),
    )


def _largest(b: int, n: int, d: int, h: int, d_h: int, d_c: int) -> int:
    """Room for the latents, the scores and absorbed matrices. Half of all keys is more."""
    half = b * h * n * d_h // 2
    assert max(b * n * d_c, b * h * n, h * d * d_c) < half, "keys must be larger than all that is needed"
    return half


def _flops(b: int, n: int, d: int, h: int, d_h: int, d_c: int) -> int:
    """Scores and mixing in the latents' space, the new token, both products of absorbed matrices. Making keys costs
    d_h / 2 times the scores."""
    attention, token, absorbed = 4 * b * h * n * d_c, 2 * b * (d * d_c + 2 * h * (d + d_c) * d_h), 4 * h * d * d_h * d_c
    everything = attention + token + absorbed + 4 * b * h * d * d_c
    assert everything < 2 * b * n * h * d_c * d_h, "keys must be dearer than all that is needed"
    return everything


def join(old, new):
    return torch.cat([old, new], dim=1)


@dataclass(frozen=True)
class Latent(Attention):
    """One new token. old, new: latents."""

    weights: Callable = lambda *weights: weights
    old: Callable = lambda latents: latents
    seen: Callable = join
    kept: Callable = join
    absorb: Callable = lambda q, w_uk: torch.einsum("bhe,hce->bhc", q, w_uk)
    heads: Callable = lambda mixed, w_uv: torch.einsum("bhc,hce->bhe", mixed, w_uv)
    merge: Callable = lambda heads, w_o: torch.einsum("bhe,hed->bd", heads, w_o)


@composable
def latent(**changed) -> Callable:
    """A decoding step with these steps of its own changed."""
    steps = Latent(**changed)

    def answer(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
        w_q, w_uk, w_uv, w_o = steps.weights(w_q, w_uk, w_uv, w_o)
        old, new = steps.old(latents), (x @ w_dkv)[:, None]
        q, seen = steps.absorb(torch.einsum("bd,hde->bhe", x, w_q), w_uk), steps.seen(old, new)
        mixed, _ = attend(steps, q, seen, seen, sizes=Sizes(w_q.shape[-1], x.shape[-1], len(w_q)))
        return steps.merge(steps.heads(mixed, w_uv), w_o), steps.kept(old, new)

    return answer


def scores_cut_off(hidden, mask, scores):
    exponentials = scores.clamp(max=80.0).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def cut_into_heads(w_q, w_uk, w_uv, w_o):
    """A head's own features of the latent alone count."""
    h, d_c, _ = w_uk.shape
    own = (torch.arange(d_c) * h // d_c == torch.arange(h)[:, None])[..., None]
    return w_q, w_uk * own, w_uv * own, w_o


def keys_and_values_stored(*inputs):
    output, latents = reference(*inputs)
    return output, torch.cat([torch.einsum("bmc,hce->bhme", latents, w) for w in inputs[4:6]], dim=-1)


def only_keys_absorbed(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    latents = join(latents, (x @ w_dkv)[:, None])
    weights = (torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk) @ latents.mT / math.sqrt(w_q.shape[-1])).softmax(dim=-1)
    heads = weights[:, :, None] @ torch.einsum("bmc,hce->bhme", latents, w_uv)  # (b, h, 1, d_h)
    return torch.einsum("bhe,hed->bd", heads[:, :, 0], w_o), latents


def head_by_head_with_keys(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    latents, out = join(latents, (x @ w_dkv)[:, None]), torch.zeros_like(x)
    for head in range(len(w_q)):
        q, keys, values = x @ w_q[head], latents @ w_uk[head], latents @ w_uv[head]
        weights = (keys @ q[..., None] / math.sqrt(q.shape[-1])).softmax(dim=1)  # (b, m + 1, 1)
        out = out + (weights.mT @ values)[:, 0] @ w_o[head]
    return out, latents


def latents_copied_for_every_head(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    latents = join(latents, (x @ w_dkv)[:, None])
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


latent_attention = Check(
    reference=reference,
    properties=[
        Property(
            "two tensors come back",
            lambda output, *_: isinstance(output, (tuple, list)) and len(output) == 2,
            "Return two things: the output, and the latents of all tokens.",
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
        *slips(latent, Scale.none, Scale.by_width, Scale.by_root_of_token_width),
        *slips(latent, Softmax.never_normalised, Softmax.no_maximum, Softmax.one_maximum),
        by_root_of_d_c=latent(
            score=lambda q, latents: q @ latents.mT / math.sqrt(q.shape[-1]), scale=lambda products, sizes: products
        ),
        by_root_of_d_over_h=latent(scale=lambda products, sizes: products / math.sqrt(sizes.d // sizes.h)),
        by_root_of_all_heads=latent(scale=lambda products, sizes: products / math.sqrt(sizes.h * sizes.d_h)),
        new_not_stored=latent(kept=lambda old, new: old),
        appended_afterwards=latent(seen=lambda old, new: old),
        new_before_old=latent(kept=lambda old, new: torch.cat([new, old], dim=1)),
        new_returned_only=latent(kept=lambda old, new: new),
        oldest_dropped=latent(old=lambda latents: latents[:, 1:]),
        not_transposed=Wrong(
            latent(absorb=lambda q, w_uk: torch.einsum("bhe,hec->bhc", q, w_uk)), raises="RuntimeError"
        ),
        reshaped=latent(absorb=lambda q, w_uk: torch.einsum("bhe,hec->bhc", q, w_uk.reshape(w_uk.mT.shape))),
        w_uv_for_both=latent(weights=lambda w_q, w_uk, w_uv, w_o: (w_q, w_uv, w_uv, w_o)),
        w_uk_for_both=latent(weights=lambda w_q, w_uk, w_uv, w_o: (w_q, w_uk, w_uk, w_o)),
        exchanged=latent(weights=lambda w_q, w_uk, w_uv, w_o: (w_q, w_uv, w_uk, w_o)),
        over_heads=latent(normalise=lambda hidden, mask, scores: scores.softmax(dim=1)),
        over_heads_and_tokens=latent(
            normalise=lambda hidden, mask, scores: scores.flatten(1).softmax(dim=-1).view(scores.shape)
        ),
        cut_off=latent(normalise=scores_cut_off),
        weights_shared=latent(
            normalise=lambda hidden, mask, scores: scores.mean(1, keepdim=True).softmax(-1).expand(scores.shape)
        ),
        cut_into_heads=latent(weights=cut_into_heads),
        first_heads_weights=latent(
            weights=lambda w_q, w_uk, w_uv, w_o: (w_q, w_uk[:1].expand_as(w_uk), w_uv[:1].expand_as(w_uv), w_o)
        ),
        averaged=latent(merge=lambda heads, w_o: torch.einsum("bhe,hed->bhd", heads, w_o).mean(dim=1)),
        feature_by_feature=latent(merge=lambda heads, w_o: heads.mT.flatten(1) @ w_o.flatten(0, 1)),
        no_output_projection=latent(merge=lambda heads, w_o: heads.flatten(1)),
        w_uv_left_out=Wrong(latent(heads=lambda mixed, w_uv: mixed), raises="RuntimeError"),
        keys_stored=keys_and_values_stored,
        keys_made=Wrong(with_keys_and_values, cost=_keys_and_values_made),
        one_absorbed=Wrong(only_keys_absorbed, cost=_one_of_both_made),
        made_head_by_head=Wrong(head_by_head_with_keys, cost=_made_in_parts),
        copied_for_every_head=Wrong(latents_copied_for_every_head, cost=_latents_for_every_head),
    ),
)
