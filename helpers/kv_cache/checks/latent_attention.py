"""The check of latent attention: right values alone are not enough, for they come out of an expanded cache too. What is made on the way counts."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import Case, explicit_case, normal
from helpers.engine.check import Check, Misconception, Property
from helpers.engine.common_misconceptions import NO_FUSED_ATTENTION, in_single_precision

from ..latent_attention import latent_attention as reference
from ..latent_attention import with_keys_and_values

__all__ = ["latent_attention"]


def latent_step(
    label: str, m: int, *, b: int, d: int, h: int, d_h: int, d_c: int, dtype=torch.float32, loud: float = 1.0,
    limited: bool = False,
) -> Case:  # fmt: skip
    """One step after m tokens. loud: how much larger the scores are than usual. limited: keys and values are too dear to make."""

    def matrix(*shape: int, inner: int, scale: float = 1.0) -> Tensor:
        return normal(*shape, scale=scale * inner**-0.5, dtype=dtype)

    n = m + 1
    limits = (
        dict(max_elements=_largest(b, n, d, h, d_h, d_c), max_flops=_flops(b, n, d, h, d_h, d_c)) if limited else {}
    )
    return explicit_case(
        label, normal(b, d, dtype=dtype), normal(b, m, d_c, dtype=dtype),
        matrix(d, d_c, inner=d), matrix(h, d, d_h, inner=d, scale=1.5 * loud), matrix(h, d_c, d_h, inner=d_c, scale=2.0),
        matrix(h, d_c, d_h, inner=d_c), matrix(h, d_h, d, inner=h * d_h), **limits,
    )  # fmt: skip


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
    properties=[Property("two tensors come back", _both_returned, "Return two things: the output, and the latents of all tokens.")],
    forbids=NO_FUSED_ATTENTION,
    names=("output: sequences features", "latents: sequences tokens features"),
    cases=[
        latent_step("5 tokens in the cache", 5, b=3, d=7, h=2, d_h=4, d_c=6),
        latent_step("the first token of a text", 0, b=2, d=5, h=4, d_h=3, d_c=12),
        latent_step("8 tokens, one sequence, in float64", 8, b=1, d=6, h=5, d_h=2, d_c=10, dtype=torch.float64),
        latent_step("scores of a thousand and more", 6, b=2, d=8, h=3, d_h=5, d_c=9, loud=400.0, dtype=torch.float64),
        latent_step("scores of a thousand and more, one head", 4, b=1, d=8, h=1, d_h=5, d_c=9, loud=40_000.0, dtype=torch.float64),
        latent_step("299 tokens, and no room for keys or values", 299, b=2, d=10, h=6, d_h=8, d_c=12, limited=True),
    ],
    misconceptions=[
        Misconception(
            "scaled by √d_c instead of √d_h", lambda *inputs: _step(inputs, scale=inputs[1].shape[-1] ** -0.5),
            "Your products have d_c terms, but their sums are the scores of a query and a key of width d_h, only bracketed in another way. "
            "The model was trained with 1/√d_h: the scale stays.",
        ),
        Misconception(
            "no scale", lambda *inputs: _step(inputs, scale=1.0),
            "Divide the scores by √d_h, with absorbed matrices too.",
        ),
        Misconception(
            "scaled by d_h instead of its root", lambda *inputs: _step(inputs, scale=1 / inputs[3].shape[-1]),
            "Divide the scores by the *root* of d_h.",
        ),
        Misconception(
            "scaled by the root of the model's width", lambda *inputs: _step(inputs, scale=inputs[0].shape[-1] ** -0.5),
            "A score is a dot product within one head. Divide it by the root of d_h, the width of that head.",
        ),
        Misconception(
            "scaled by the root of d / h", scaled_by_a_share_of_the_width,
            "Here a head's width need not be d / h: it is the last axis of `w_q`. Divide the scores by the root of that.",
        ),
        Misconception(
            "scaled by the root of all heads' width", lambda *inputs: _step(inputs, scale=(len(inputs[3]) * inputs[3].shape[-1]) ** -0.5),
            "A score is a dot product within one head. Divide it by the root of d_h, not of h · d_h.",
        ),
        Misconception(
            "the new latent not stored", new_latent_not_stored,
            "You return the latents as they came. The next step will not see this token.",
        ),
        Misconception(
            "appended after attending", attends_before_it_stores,
            "A token attends to itself too: append its latent before you compute the scores.",
        ),
        Misconception(
            "the new latent put before the old", new_latent_in_front,
            "The latents come back in the order of the text: the newest stands last.",
        ),
        Misconception(
            "only the new latent returned", only_the_new_latent,
            "What you return is the next step's cache: the old latents belong to it.",
        ),
        Misconception(
            "the oldest latent dropped", one_latent_overwritten,
            "The new latent comes after the m old ones, and nothing is dropped: the token attends to m + 1, and m + 1 come back.",
        ),
        Misconception(
            "the up-projection used without its transpose", up_projection_transposed,
            "`w_uk[i]` goes from the latent (d_c) to the key (d_h). The query goes the other way, from d_h to d_c: that is the transpose.",
            raises="RuntimeError",
        ),
        Misconception(
            "the up-projection reshaped instead of transposed", up_projection_reshaped,
            "A reshape to (d_h, d_c) has the right shape and the wrong numbers: it reads on along the rows. Rows and columns must change places, `.mT`.",
        ),
        Misconception(
            "W_UV absorbed into the query", values_up_projection_for_both,
            "The scores ask for keys, and keys are made by W_UK. W_UV makes values: it belongs after the softmax.",
        ),
        Misconception(
            "W_UK for the values too", keys_up_projection_for_both,
            "One latent gives two things: a key by W_UK, a value by W_UV. After the softmax use W_UV.",
        ),
        Misconception(
            "the two up-projections exchanged", up_projections_exchanged,
            "W_UK makes keys: it is absorbed into the query, before the softmax. W_UV makes values: it comes after the softmax.",
        ),
        Misconception(
            "scores instead of weights", without_a_softmax,
            "The softmax is missing. It stands between W_UK and W_UV, and can't be absorbed.",
        ),
        Misconception(
            "the softmax over the heads", softmax_over_the_heads,
            "Each head shares out its attention over the tokens. All heads read the same latents, but each has a softmax of its own: along the "
            "last axis of (b, h, m + 1).",
        ),
        Misconception(
            "one softmax over heads and tokens together", softmax_over_heads_and_tokens,
            "The weights of *each* head sum to 1 over the tokens.",
        ),
        Misconception(
            "a softmax without its maximum", softmax_without_maximum,
            "exp of a large score is infinite, and ∞/∞ is NaN. Take the row's largest score off first, as `softmax` does.",
        ),
        Misconception(
            "one maximum for all rows", one_maximum_for_all,
            "The largest score of the whole tensor was taken off every row. Where a row lies far below it all exponentials are 0, and 0/0 is NaN. Each row "
            "has a maximum of its own: along the last axis.",
        ),
        Misconception(
            "scores cut off before exp", scores_cut_off,
            "All scores above the limit become equal, and share the attention. Take the row's largest score off instead: then no exponential is above 1, and the "
            "weights stay the same.",
        ),
        Misconception(
            "one set of weights for all heads", one_softmax_for_all_heads,
            "The heads share the latents, not the weights: each head has its own query and its own W_UK, so its own scores.",
        ),
        Misconception(
            "the latent cut into heads", latent_cut_into_heads,
            "Keys and values are cut into heads, a latent isn't. Every head reads all d_c features of it, each through its own W_UK and W_UV.",
        ),
        Misconception(
            "the first head's up-projections for all heads", first_heads_up_projections,
            "What is shared is the latent. Head i has its own `w_uk[i]` and `w_uv[i]`.",
        ),
        Misconception(
            "the heads averaged", mean_of_the_heads,
            "W_O adds up what the heads bring (unit 04: an output is a sum over heads). A mean is smaller by the factor h.",
        ),
        Misconception(
            "heads merged feature by feature", merged_feature_by_feature,
            "The rows of W_O lie head after head: `w_o[0]`, then `w_o[1]`. Lay the heads side by side in the same order, all features of the first head "
            "first. (Swapping the axes before they are merged mixes them.)",
        ),
        Misconception(
            "no output projection", without_output_projection,
            "The heads' outputs, (b, h, d_h), go through `w_o` and are summed: the output has the width d of the input.",
        ),
        Misconception(
            "W_UV left out", latents_mixed_into_the_output,
            "What you mix are latents, of width d_c. `w_uv` makes a head's output of them, of width d_h, and `w_o` comes after it.",
            raises="RuntimeError",
        ),
        Misconception(
            "keys and values stored", keys_and_values_stored,
            "Then a token takes 2 · h · d_h numbers again. The cache holds the latents, d_c numbers a token.",
        ),
        Misconception(
            "keys and values made in every step", with_keys_and_values,
            "The numbers are right and the cache is small. But every step makes the keys and values of all tokens again. Move the brackets: multiply the query by "
            "W_UK, and the mixed latents by W_UV.",
            cost=_keys_and_values_made,
        ),
        Misconception(
            "one of the two absorbed, the other used on all tokens", only_keys_absorbed,
            "One of the two is absorbed. W_UK goes to the query, before the scores. W_UV goes after the softmax: mix the *latents*, then use it on what is mixed, "
            "once for each head.",
            cost=_one_of_both_made,
        ),
        Misconception(
            "keys and values made head by head", head_by_head_with_keys,
            "A loop over the heads is fine. But inside it you multiply all latents by W_UK and W_UV, in every step. Multiply the query by W_UK, and the mixed latents by W_UV.",
            cost=_made_in_parts,
        ),
        Misconception(
            "a tensor with all latents for every head", latents_copied_for_every_head,
            "All heads read the same latents. Written out for every head, they are larger than the keys that they replace. Use the heads as rows: a query (b, h, d_c) times "
            "latents (b, d_c, m + 1).",
            cost=_latents_for_every_head,
        ),
        in_single_precision(reference),
    ],
)  # fmt: skip
