"""Checks of linear attention with decay, as a recurrence and in chunks.

Most slips are written as one (n, n) matrix of decays: what is left of token s when token t reads.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from helpers.engine.cases import Case, RandomArg, explicit_case, normal
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import (
    in_single_precision,
    written_for_one_batch_axis,
    written_without_a_batch,
)
from helpers.engine.compare import agree, in_float64, tolerance
from helpers.engine.observe import MATRIX_PRODUCTS, Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import decayed_attention as reference
from .linear_attention import MOST_PER_CHUNK
from .sparse import all_pairs_scored, changed_in_place, square_made

__all__ = ["decayed_attention"]


def factors(*shape: int, low: float = 0.3, high: float = 1.0, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Decays between low and high."""
    return RandomArg(lambda generator: (low + (high - low) * torch.rand(shape, generator=generator)).to(dtype))


def resets(*shape: int, dtype: torch.dtype = torch.float32) -> RandomArg:
    """Decays of 1, and here and there one that wipes the state."""

    def draw(generator: torch.Generator) -> Tensor:
        wiped = torch.rand(shape, generator=generator) < 0.3
        return torch.where(wiped, torch.tensor(1e-9, dtype=torch.float64), 1.0).to(dtype)

    return RandomArg(draw)


def decaying(
    label: str,
    n: int,
    d: int,
    d_v: int,
    *c: int,
    batch: tuple = (),
    gamma: Callable = factors,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
    limits: dict | None = None,
    **range_,
) -> Case:
    """A case; `c` is the size of a chunk where there is one, `range_` the range of the decays."""
    q, k, v = (normal(*batch, n, width, scale=scale, dtype=dtype) for width in (d, d, d_v))
    return explicit_case(label, q, k, v, gamma(*batch, n, dtype=dtype, **range_), *c, **(limits or {}))


def forgotten_before(n: int, d: int, d_v: int, c: int) -> Case:
    """Only the last chunk remembers. Sums of logarithms over the whole text are so large there that float32 has lost their decimals."""

    def draw(generator: torch.Generator) -> Tensor:
        remembers = torch.arange(n) >= n - c
        return torch.where(remembers, 0.6 + 0.4 * torch.rand(n, generator=generator), 1e-15)

    q, k, v = (normal(n, width) for width in (d, d, d_v))
    return explicit_case(f"n = {n}, c = {c}, γ of 10⁻¹⁵ up to the last chunk", q, k, v, RandomArg(draw), c)


def long_decaying(n: int, d: int, d_v: int, low: float = 0.6) -> Case:
    limits = {"max_flops": 2 * 2 * 2 * n * d * (d_v + 1), "max_elements": 2 * n * (d + 1) * (d_v + 1)}
    label = f"n = {n}: counted, O(n d²), in float64"
    return decaying(label, n, d, d_v, low=low, dtype=torch.float64, limits=limits)


def long_decaying_chunks(n: int, d: int, d_v: int, c: int, low: float = 0.6) -> Case:
    limits = {
        "max_flops": 2 * 2 * n * (2 * d * (d_v + 1) + c * (d + d_v + 1)),
        "max_elements": 2 * n * max((d + 1) * (d_v + 1), c),
        "max_operations": MOST_PER_CHUNK * -(-n // c),
    }
    label = f"n = {n}, c = {c}: counted, O(n d² + n c d), in float64"
    return decaying(label, n, d, d_v, c, low=low, dtype=torch.float64, limits=limits)


IN_THEIR_DTYPE = Property(
    "the dtype of the inputs",
    lambda output, q, *_: output.dtype == q.dtype,
    "The numbers are right, but they come in another dtype than the inputs.",
)


def in_another_dtype(answer: Callable) -> Misconception:
    """The right numbers, left in float64."""
    return Misconception(
        "the result in another dtype",
        lambda *args: answer(*tree_map(in_float64, args)),
        "Your output is float64, but the inputs are float32. If you compute in float64 on purpose, convert the result: `.to(v.dtype)`. Tensors that you "
        "make yourself get the inputs' dtype with `v.new_zeros(…)`.",
        lambda seen: seen.output.dtype == torch.float64 != seen.args[0].dtype,
    )


def _mixed(q, k, v, weights) -> Tensor:
    return (q @ k.mT * weights) @ v


def _all(gamma) -> Tensor:
    """1 for s ≤ t."""
    return torch.ones(gamma.shape[-1], gamma.shape[-1], dtype=gamma.dtype).tril().expand(*gamma.shape, -1)


def _left(gamma) -> Tensor:
    """In float64, where a difference of two sums over a long text has digits to spare."""
    return reference.decay_mask(gamma.double()).to(gamma.dtype)


def _phi(x) -> Tensor:
    return F.elu(x) + 1


def _earlier(weights) -> Tensor:
    """Row t − 1 of the weights in row t."""
    return torch.cat([torch.zeros_like(weights[..., :1, :]), weights[..., :-1, :]], dim=-2)


def _steps(gamma) -> Tensor:
    """t − s where it is not negative."""
    place = torch.arange(gamma.shape[-1], dtype=gamma.dtype)
    return (place[:, None] - place).clamp(min=0)


def normalised(q, k, v, weights, above=None) -> Tensor:
    scores = q @ k.mT
    return (scores * (weights if above is None else above)) @ v / (scores * weights).sum(-1, keepdim=True)


def one_state_for_the_batch(q, k, v, gamma) -> Tensor:
    axes = tuple(range(k.dim() - 2))
    state, outputs = 0, []
    for t in range(q.shape[-2]):
        new = k[..., t, :, None] * v[..., t, None, :]
        state = gamma[..., t, None, None] * state + (new.sum(axes, keepdim=True) if axes else new)
        outputs.append((q[..., t, None, :] @ state).squeeze(-2))
    return torch.stack(outputs, dim=-2)


def factor_without_axes(q, k, v, gamma, axes: int) -> Tensor:
    """axes: how many axes the factor gets behind its own; the state has two."""
    state, outputs = torch.zeros_like(k[..., :1, :].mT @ v[..., :1, :]), []
    for t in range(q.shape[-2]):
        state = gamma[(..., t, *[None] * axes)] * state + k[..., t : t + 1, :].mT @ v[..., t : t + 1, :]
        outputs.append(q[..., t : t + 1, :] @ state)
    return torch.cat(outputs, dim=-2)


def state_changed_in_place(q, k, v, gamma) -> Tensor:
    state, outputs = torch.zeros_like(k[..., :1, :].mT @ v[..., :1, :]), []
    for t in range(q.shape[-2]):
        state *= gamma[..., t, None, None]
        state += k[..., t : t + 1, :].mT @ v[..., t : t + 1, :]
        outputs.append(q[..., t : t + 1, :] @ state)
    return torch.cat(outputs, dim=-2)


def state_of_d_by_d(q, k, v, gamma) -> Tensor:
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], k.shape[-1])
    return q @ (gamma[..., :1, None] * state + k[..., :1, :].mT @ v[..., :1, :])


def _left_of_all(gamma, t: int) -> Tensor:
    """Row t of the mask, and no more of it, as a column (…, t + 1, 1)."""
    total = gamma.log().cumsum(-1)
    return (total[..., t : t + 1] - total[..., : t + 1]).exp().unsqueeze(-1)


def by_rows(q, k, v, gamma) -> Tensor:
    rows = []
    for t in range(q.shape[-2]):
        weights = (q[..., t : t + 1, :] @ k.mT)[..., : t + 1] * _left_of_all(gamma, t).mT
        rows.append(weights @ v[..., : t + 1, :])
    return torch.cat(rows, dim=-2)


def _in_both(to_form: Callable[[Callable], Callable], chunks: bool = False) -> list[Misconception]:
    """Slips that can be made in either form. to_form: makes of a function of (q, k, v, γ) one of the form's own arguments. Where
    there are two hints the second one is for chunks."""
    return [
        Misconception(name, to_form(function), hints[-1] if chunks else hints[0])
        for name, function, *hints in (
            (
                "the decay forgotten",
                lambda q, k, v, g: _mixed(q, k, v, _all(g)),
                "Your state never fades. Multiply the old state by γₜ before token t is added.",
                "Nothing fades in yours. Put the factors in all four places: the scores inside a chunk, what its tokens read of the old state, the old "
                "state when the chunk is over, and the keys that are added to it.",
            ),
            (
                "the new token decayed with the state",
                lambda q, k, v, g: _mixed(q, k, v, _left(g) * g[..., None, :]),
                "γₜ lets the *old* state fade. You multiply the new token by its own factor as well. Add that token in full.",
            ),
            (
                "the decay of the token before",
                lambda q, k, v, g: _mixed(q, k, v, _left(g.roll(1, -1))),
                "When token t comes, the state fades by γₜ, the factor of token t itself. You use that of the token before it.",
            ),
            (
                "decayed twice at every step",
                lambda q, k, v, g: _mixed(q, k, v, _left(g * g)),
                "From one token to the next the state fades once, by γₜ. Yours fades by γₜ².",
            ),
            (
                "γ on the new token instead of the state",
                lambda q, k, v, g: _mixed(q, k, v, _all(g) * g[..., None, :]),
                "γₜ belongs to the old state: γₜ S + kᵀ v. You multiply the new token by it, so nothing is ever forgotten.",
            ),
            (
                "a moving average",
                lambda q, k, v, g: _mixed(q, k, v, _left(g) * (1 - g[..., None, :])),
                "You multiply the new token by 1 − γₜ. The state is a sum that fades, not an average: add kᵀ v in full.",
            ),
            (
                "1 − γ instead of γ",
                lambda q, k, v, g: _mixed(q, k, v, _left((1 - g).clamp(min=1e-30))),
                "γₜ is what is left, not what is lost: γₜ = 1 forgets nothing.",
            ),
            (
                "the first token's decay for all",
                lambda q, k, v, g: _mixed(q, k, v, _left(g[..., :1].expand_as(g))),
                "Every token has its own factor. You use that of the first token for all of them.",
            ),
            (
                "powers of the reading token's factor",
                lambda q, k, v, g: _mixed(q, k, v, g[..., :, None] ** _steps(g) * _all(g)),
                "You let token s fade by powers of γₜ. That is right only if all factors are equal. It fades by the product of the factors of tokens s + "
                "1, …, t.",
            ),
            (
                "powers of the read token's factor",
                lambda q, k, v, g: _mixed(q, k, v, g[..., None, :] ** _steps(g) * _all(g)),
                "You let token s fade by powers of its own factor γₛ. It fades by the factors of the tokens after it, s + 1, …, t.",
            ),
            (
                "the output decayed too",
                lambda q, k, v, g: _mixed(q, k, v, _left(g) * g[..., :, None]),
                "You multiply the output by γₜ. It is qₜSₜ, without a factor.",
            ),
            (
                "the state read before the token is added",
                lambda q, k, v, g: _mixed(q, k, v, _earlier(_left(g))),
                "You read the state as it was before token t. First let it fade, then add token t, then read.",
                "In yours token t reads what token t − 1 should read. Token t reads itself too, and all that is older has faded by γₜ as well.",
            ),
            (
                "the token itself left out",
                lambda q, k, v, g: _mixed(q, k, v, _left(g).tril(-1)),
                "You read the state after it has faded and before token t is added. Token t reads itself too: add first, then read.",
                "Token t reads itself too, and has not faded: the diagonal of the mask of decays is 1.",
            ),
            (
                "γ taken for a logarithm",
                lambda q, k, v, g: _mixed(q, k, v, _left(g.exp())),
                "γₜ is the factor itself, between 0 and 1. You multiply by e to the power γₜ, which is more than 1, so the state grows.",
            ),
            (
                "a second sigmoid on the decay",
                lambda q, k, v, g: _mixed(q, k, v, _left(g.sigmoid())),
                "γₜ is between 0 and 1 already: the gate's sigmoid has been applied before it gets here.",
            ),
            (
                "not causal",
                lambda q, k, v, g: _mixed(q, k, v, _left(g) + _left(g).mT.triu(1)),
                "In yours a token reads later tokens too. Token t reads only tokens 0 … t.",
            ),
            (
                "divided by a normaliser",
                lambda q, k, v, g: normalised(q, k, v, _left(g)),
                "You divide by the sum of the weights. Without a feature map weights may be negative, and their sum near 0. There is no normaliser here: "
                "the output is qₜSₜ.",
            ),
            (
                "a normaliser that decays beside a state that doesn't",
                lambda q, k, v, g: normalised(q, k, v, _left(g), _all(g)),
                "The factor belongs to the state. Yours never fades, and you divide by a normaliser that does. Leave the normaliser out, and let the state "
                "fade.",
            ),
            (
                "a feature map on queries and keys",
                lambda q, k, v, g: _mixed(_phi(q), _phi(k), v, _left(g)),
                "There is no φ here: q and k are taken as they are. (It was there to make weights positive for the normaliser, and there is none either.)",
            ),
            (
                "feature map and normaliser as before",
                lambda q, k, v, g: normalised(_phi(q), _phi(k), v, _left(g)),
                "That is the linear attention of 10.5 with decay. Here q and k are taken as they are, and the output isn't divided.",
            ),
            (
                "divided by √d",
                lambda q, k, v, g: _mixed(q, k, v, _left(g)) / q.shape[-1] ** 0.5,
                "You divide by √d. That is for the softmax, and there is none here: leave it out.",
            ),
        )
    ]


def past_anew(q, k, v, gamma) -> Tensor:
    rows = []
    for t in range(q.shape[-2]):
        state = (_left_of_all(gamma, t) * k[..., : t + 1, :]).mT @ v[..., : t + 1, :]
        rows.append(q[..., t : t + 1, :] @ state)
    return torch.cat(rows, dim=-2)


def quotients_in_the_recurrence(q, k, v, gamma) -> Tensor:
    """All states at once; 0/0 or 0 · ∞ where the product of the factors is smaller than any number."""
    products = gamma.cumprod(-1)[..., None, None]
    states = products * (k[..., :, None] * v[..., None, :] / products).cumsum(-3)
    return (q[..., None, :] @ states).squeeze(-2)


def _product_underflowed(seen: Observation) -> bool:
    """A mark: NaN at the last token and none at the first, where the product of all factors is 0 for a computer."""
    output, gamma = seen.output, seen.args[3]
    late = output[..., -1, :].isnan().any() and not output[..., 0, :].isnan().any()
    return bool(late and (gamma.cumprod(-1)[..., -1] < torch.finfo(gamma.dtype).tiny).any())


def state_cut_off(q, k, v, gamma) -> Tensor:
    """No gradient goes through the sum."""
    return chunk_state_cut_off(q, k, v, gamma, 1)


def _sums_anew(seen: Observation) -> bool:
    q, _, v = seen.args[:3]
    (n, d), d_v = q.shape[-2:], v.shape[-1]
    again = n * (n + 1) * d * d_v
    return not square_made(seen) and again <= seen.flops <= again + 4 * n * d * (d_v + 1)


recurrent_decayed_attention = Check(
    reference=reference.recurrent_decayed_attention,
    properties=[IN_THEIR_DTYPE],
    cases=[
        decaying("n = 5, d = 4, d_v = 3", 5, 4, 3),
        decaying("two batch axes, in float64", 7, 3, 5, batch=(2, 3), dtype=torch.float64),
        decaying("γ = 1: nothing is forgotten", 6, 5, 2, low=1.0, dtype=torch.float64),
        decaying("n = 40, γ near 0", 40, 3, 4, low=1e-6, high=1e-3),
        decaying("γ = 1, here and there near 0", 9, 4, 3, gamma=resets),
        long_decaying(300, 4, 3),
        long_decaying(260, 3, 6),
        decaying("one token", 1, 3, 2),
        decaying(
            "n = 6, a batch axis: gradients, in float64",
            6,
            4,
            3,
            batch=(2,),
            dtype=torch.float64,
            limits={"gradient": True},
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(state_changed_in_place),
        *_in_both(lambda function: function),
        in_another_dtype(reference.recurrent_decayed_attention),
        in_single_precision(reference.recurrent_decayed_attention),
        written_for_one_batch_axis(reference.recurrent_decayed_attention),
        written_without_a_batch(reference.recurrent_decayed_attention),
        causal_by_masking_full_n_n_matrix=Wrong(lambda q, k, v, g: _mixed(q, k, v, _left(g)), cost=square_made),
        past_summed_up_again_at_every_token=Wrong(past_anew, cost=_sums_anew),
        every_query_against_every_key_piece_by=Wrong(by_rows, cost=all_pairs_scored),
        state_overwritten_instead_added=lambda q, k, v, g: (q * k).sum(-1, keepdim=True) * v,
        sequence_read_backwards=lambda q, k, v, g: reference.recurrent_decayed_attention(
            *(x.flip(-2) for x in (q, k, v)), g.flip(-1)
        ).flip(-2),
        one_state_whole_batch=one_state_for_the_batch,
        state_d_d=Wrong(state_of_d_by_d, raises="RuntimeError"),
        divided_by_product_that_underflows=Wrong(quotients_in_the_recurrence, recognise=_product_underflowed),
        state_cut_off_from_gradients=state_cut_off,
        factor_without_states_axes=Wrong(lambda q, k, v, g: factor_without_axes(q, k, v, g, 0), raises="RuntimeError"),
        factor_with_one_states_axes=Wrong(lambda q, k, v, g: factor_without_axes(q, k, v, g, 1), raises="RuntimeError"),
    ),
)


def chunk_weights(gamma, c: int, slip: str) -> Tensor:
    """What is left of token s at token t if one of the four decays of the chunked form is wrong: inside a chunk, of the state at
    the reader (read), of the state from chunk to chunk (carry), of a key at the end of its chunk (keep)."""
    n = gamma.shape[-1]
    log, place = gamma.double().log(), torch.arange(n)  # in float64, as in `_left`
    total = log.cumsum(-1)
    first = place // c * c
    last = (first + c - 1).clamp(max=n - 1)
    begin, end = (total - log)[..., first], total[..., last]  # sums before a token's chunk, and to its end
    reader, writer = (lambda x: x[..., :, None]), (lambda x: x[..., None, :])
    inside = reader(total) - writer(total)
    read, keep, carry = total - begin, end - total, reader(begin) - writer(end)
    if slip == "inside":
        inside = inside * 0
    elif slip == "inside, own":
        inside = inside + writer(log)
    elif slip == "read":
        read = read * 0
    elif slip == "read, short":
        read = read - log
    elif slip == "read, first":
        read = read - log[..., first]
    elif slip == "read and carry, first":  # of the state's own first factors only those of chunks on its way
        firsts = torch.where(place == first, log, 0).cumsum(-1)
        read, carry = read - log[..., first], carry - reader((firsts - log)[..., first]) + writer(firsts)
    elif slip == "read, whole":
        read = end - begin
    elif slip == "read, twice":
        read = read + end - begin
    elif slip == "keep":
        keep = keep * 0
    elif slip == "keep, turned":
        keep = total - begin
    elif slip == "keep, own":
        keep = keep + log
    elif slip == "keep, whole":
        keep = end - begin
    elif slip == "carry":
        carry = carry * 0
    elif slip == "carry, last":
        ends = torch.where(place == last, log, 0).cumsum(-1)
        carry = reader(ends - torch.where(place == last, log, 0)) - writer(ends[..., last])
    across = reader(read) + carry + writer(keep)
    same = first[:, None] == first
    weights = torch.where(same, inside, across)
    return weights.masked_fill(place[:, None] < place, -torch.inf).exp().to(gamma.dtype)


def _slip(kind: str) -> Callable:
    return lambda q, k, v, gamma, c: _mixed(q, k, v, chunk_weights(gamma, c, kind))


def _pairs(n: int, c: int) -> tuple[Tensor, Tensor]:
    """Which pairs stand in one chunk, and in which the key's chunk is an earlier one."""
    chunk = torch.arange(n) // c
    return chunk[:, None] == chunk, chunk[:, None] > chunk


def _only(kind: str) -> Callable:
    def function(q, k, v, gamma, c) -> Tensor:
        same, earlier = _pairs(q.shape[-2], c)
        chunk = torch.arange(q.shape[-2]) // c
        kept = {
            "boundary": same,
            "past": earlier,
            "two": same | (chunk[:, None] - chunk == 1),
        }[kind]
        return _mixed(q, k, v, _left(gamma) * kept)

    return function


def open_inside(q, k, v, gamma, c) -> Tensor:
    same, _ = _pairs(q.shape[-2], c)
    return _mixed(q, k, v, _left(gamma) + same.to(q).triu(1))


def counted_twice(q, k, v, gamma, c) -> Tensor:
    """The chunk is in the state already when its tokens read it."""
    same, _ = _pairs(q.shape[-2], c)
    weights = chunk_weights(gamma, c, "")
    log = gamma.double().log()
    total, place = log.cumsum(-1), torch.arange(q.shape[-2])
    first = place // c * c
    last = (first + c - 1).clamp(max=q.shape[-2] - 1)
    again = (total - (total - log)[..., first])[..., :, None] + (total[..., last] - total)[..., None, :]
    across = torch.where(
        same, again.exp(), weights * (total[..., last] - (total - log)[..., first]).exp()[..., :, None]
    )
    return _mixed(q, k, v, across.to(gamma.dtype) + weights * same)


def first_of_a_chunk(q, k, v, gamma, c) -> Tensor:
    return _mixed(q, k, v, _left(gamma[..., torch.arange(q.shape[-2]) // c * c]))


def mean_of_a_chunk(q, k, v, gamma, c) -> Tensor:
    means = torch.cat([part.mean(-1, keepdim=True).expand_as(part) for part in gamma.split(c, -1)], dim=-1)
    return _mixed(q, k, v, _left(means))


def short_chunk_lost(q, k, v, gamma, c) -> Tensor:
    whole = (torch.arange(q.shape[-2]) < q.shape[-2] // c * c)[:, None]
    return _mixed(q, k, v, _left(gamma)) * whole


def short_chunk_dropped(q, k, v, gamma, c) -> Tensor:
    return _mixed(q, k, v, _left(gamma))[..., : max(q.shape[-2] // c, 1) * c, :]


def whole_chunks_joined(q, k, v, gamma, c) -> Tensor:
    right = _mixed(q, k, v, _left(gamma))
    return torch.cat([right[..., chunk * c : (chunk + 1) * c, :] for chunk in range(q.shape[-2] // c)], dim=-2)


def _faded(fading: Tensor, state: Tensor, new: Tensor) -> Tensor:
    return fading * state + new


def _chunked(q, k, v, gamma, c, mask: Callable[[Tensor], Tensor] = _left, carried: Callable = _faded) -> Tensor:
    state, outputs = torch.zeros_like(k[..., :1, :].mT @ v[..., :1, :]), []
    for q_c, k_c, v_c, g_c in zip(q.split(c, -2), k.split(c, -2), v.split(c, -2), gamma.split(c, -1)):
        inside, left = mask(g_c), g_c.cumprod(-1)[..., None]
        outputs.append((q_c @ k_c.mT * inside) @ v_c + left * (q_c @ state))
        state = carried(left[..., -1:, :], state, (inside[..., -1, :, None] * k_c).mT @ v_c)
    return torch.cat(outputs, dim=-2)


def fixed_triangle(q, k, v, gamma, c) -> Tensor:
    triangle = torch.ones(c, c, dtype=q.dtype).tril()
    return _chunked(q, k, v, gamma, c, mask=lambda g: _left(g) * triangle)


def summed_over_the_text(q, k, v, gamma, c) -> Tensor:
    """Right, but for what float32 has lost of sums that begin at the first token and not at the chunk's."""
    total = F.pad(gamma.log().cumsum(-1), (1, 0))  # with what stands before token t at t
    state, outputs = 0, []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        here, before = total[..., start + 1 : start + c + 1], total[..., start : start + 1]
        later = torch.ones(here.shape[-1], here.shape[-1], dtype=torch.bool).triu(1)
        mask = (here[..., :, None] - here[..., None, :]).masked_fill(later, -torch.inf).exp()
        left = (here - before).exp()[..., None]
        outputs.append((q_c @ k_c.mT * mask) @ v_c + (left * (q_c @ state) if outputs else 0))
        state = left[..., -1:, :] * state + (mask[..., -1, :, None] * k_c).mT @ v_c
    return torch.cat(outputs, dim=-2)


def chunk_state_cut_off(q, k, v, gamma, c) -> Tensor:
    """No gradient goes through the sum."""
    return _chunked(q, k, v, gamma, c, carried=lambda *parts: _faded(*parts).detach())


def _faded_in_place(fading: Tensor, state: Tensor, new: Tensor) -> Tensor:
    state *= fading
    state += new
    return state


def chunk_state_changed_in_place(q, k, v, gamma, c) -> Tensor:
    return _chunked(q, k, v, gamma, c, carried=_faded_in_place)


def cut_off_too_late(q, k, v, gamma, c) -> Tensor:
    """Right values; but the exponential of a later token is infinite, and 0 times its slope is NaN."""

    def mask(g):
        total = g.log().cumsum(-1)
        return (total[..., :, None] - total[..., None, :]).exp().tril()

    return _chunked(q, k, v, gamma, c, mask)


def quotients_of_products(q, k, v, gamma, c) -> Tensor:
    """0/0 for late tokens, where the product of all factors is smaller than any number."""

    def mask(g):
        products = g.cumprod(-1)
        return (products[..., :, None] / products[..., None, :]).tril()

    return _chunked(q, k, v, gamma, c, mask)


def infinity_times_zero(q, k, v, gamma, c) -> Tensor:
    """NaN for early tokens, where the exponential of what is to be cut off is infinite."""

    def mask(g):
        total = g.log().cumsum(-1)
        return (total[..., :, None] - total[..., None, :]).exp() * _all(g)

    return _chunked(q, k, v, gamma, c, mask)


def lifted(gamma, least: float) -> tuple[Tensor, Tensor]:
    """Factors kept away from 0: as a smallest value, and by adding a number."""
    return gamma.clamp(min=least), gamma + least


def _factors_lifted(seen: Observation) -> bool:
    """A mark: the output is that of factors that are kept away from 0 by one of the usual small numbers."""
    q, k, v, gamma, _ = seen.args
    within = tolerance(seen.args)
    right = _mixed(q, k, v, _left(gamma))
    forms = [
        _mixed(q, k, v, _left(form)) for least in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8) for form in lifted(gamma, least)
    ]
    return any(agree(seen.output, form, within) and not agree(form, right, within) for form in forms)


def _nan_in(row: int, not_in: int) -> Callable:
    def shown(seen: Observation) -> bool:
        return bool(seen.output[..., row, :].isnan().any() and not seen.output[..., not_in, :].isnan().any())

    return shown


def past_anew_at_every_chunk(q, k, v, gamma, c) -> Tensor:
    outputs = []
    for start in range(0, q.shape[-2], c):
        q_c, k_c, v_c = (x[..., start : start + c, :] for x in (q, k, v))
        g_c, state = gamma[..., start : start + c], 0
        if start:
            total = gamma[..., :start].log().cumsum(-1)
            left = (total[..., -1:] - total).exp()[..., None]
            state = g_c.cumprod(-1)[..., None] * (q_c @ ((left * k[..., :start, :]).mT @ v[..., :start, :]))
        outputs.append(state + (q_c @ k_c.mT * _left(g_c)) @ v_c)
    return torch.cat(outputs, dim=-2)


def _chunks_anew(seen: Observation) -> bool:
    q, _, v, _, c = seen.args
    again = q.numel() * q.shape[-2] * v.shape[-1] // c
    return not square_made(seen) and 0.9 * again <= seen.flops < 1.5 * again


def token_after_token(q, k, v, gamma, c) -> Tensor:
    return reference.recurrent_decayed_attention(q, k, v, gamma)


def _token_by_token(seen: Observation) -> bool:
    return seen.args[4] >= 20 and sum(seen.operations.values()) >= 5 * seen.args[0].shape[-2]


def mask_row_by_row(q, k, v, gamma, c) -> Tensor:
    """Each row of the mask is the row above it, faded, and a 1."""

    def mask(g):
        row, rows = torch.zeros_like(g), []
        for t, one in enumerate(torch.eye(g.shape[-1], dtype=g.dtype)):
            row = row * g[..., t : t + 1] + one
            rows.append(row)
        return torch.stack(rows, dim=-2)

    return _chunked(q, k, v, gamma, c, mask)


def _chunks_with_a_loop(seen: Observation) -> bool:
    """A mark: too many operations, but only the matrix products of chunks."""
    q, *_, c = seen.args
    chunks, products = -(-q.shape[-2] // c), sum(seen.operations[name] for name in MATRIX_PRODUCTS)
    return sum(seen.operations.values()) > MOST_PER_CHUNK * chunks and 3 * chunks <= products < q.shape[-2]


def backwards_in_chunks(q, k, v, gamma, c) -> Tensor:
    return reference.recurrent_decayed_attention(*(x.flip(-2) for x in (q, k, v)), gamma.flip(-1)).flip(-2)


chunked_decayed_attention = Check(
    reference=reference.chunked_decayed_attention,
    within={torch.float64: (1e-8, 1e-9)},  # the slope at γ = 0.001 is a difference of numbers a thousand times as large
    properties=[IN_THEIR_DTYPE],
    cases=[
        decaying("n = 8, c = 4", 8, 4, 3, 4),
        decaying(
            "n = 11, c = 3, two batch axes: gradients, in float64",
            11,
            3,
            5,
            3,
            batch=(2, 3),
            dtype=torch.float64,
            limits={"gradient": True},
        ),
        decaying("n = 7, c = 2, γ = 1: nothing is forgotten", 7, 5, 2, 2, low=1.0, dtype=torch.float64),
        decaying("a chunk longer than the sequence", 5, 3, 4, 9),
        decaying("n = 12, c = 5, γ near 0", 12, 3, 4, 5, low=1e-6, high=1e-3),
        decaying(
            "n = 10, c = 4, γ = 1, here and there near 0, in float64", 10, 4, 3, 4, gamma=resets, dtype=torch.float64
        ),
        decaying("c = 1: one token in each chunk", 6, 3, 2, 1),
        long_decaying_chunks(608, 4, 3, 50),
        long_decaying_chunks(525, 3, 6, 25),
        long_decaying_chunks(602, 8, 7, 4),
        forgotten_before(630, 3, 4, 30),
        decaying(
            "n = 130, c = 128, γ = 0.001: gradients, in float64",
            130,
            2,
            3,
            128,
            low=0.001,
            high=0.001,
            dtype=torch.float64,
            limits={"gradient": True},
        ),
    ],
    misconceptions=wrong_answers(
        __file__,
        changed_in_place(chunk_state_changed_in_place),
        *_in_both(lambda function: lambda q, k, v, gamma, c: function(q, k, v, gamma), chunks=True),
        in_another_dtype(reference.chunked_decayed_attention),
        in_single_precision(reference.chunked_decayed_attention),
        written_for_one_batch_axis(reference.chunked_decayed_attention),
        written_without_a_batch(reference.chunked_decayed_attention),
        causal_by_masking_full_n_n_matrix_2=Wrong(lambda q, k, v, g, c: _mixed(q, k, v, _left(g)), cost=square_made),
        loop_over_tokens_mask=Wrong(mask_row_by_row, cost=_chunks_with_a_loop),
        loop_over_tokens_instead_chunks=Wrong(token_after_token, cost=_token_by_token),
        past_summed_up_again_at_every_chunk=Wrong(past_anew_at_every_chunk, cost=_chunks_anew),
        no_decay_inside_chunk=_slip("inside"),
        tokens_own_factor_counted_inside_chunk=_slip("inside, own"),
        state_read_as_if_it_didnt_fade_inside=_slip("read"),
        readers_own_decay_left_out=_slip("read, short"),
        chunks_first_decay_left_out_readers=_slip("read, first"),
        chunks_first_decay_left_out_old_state=_slip("read and carry, first"),
        one_factor_all_readers_chunk=_slip("read, whole"),
        chunks_decay_twice=_slip("read, twice"),
        keys_added_state_as_if_they_were_all=_slip("keep"),
        keys_decayed_from_chunks_beginning=_slip("keep, turned"),
        keys_own_decay_counted=_slip("keep, own"),
        one_factor_all_keys_chunk=_slip("keep, whole"),
        old_state_handed_on_without_decay=_slip("carry"),
        one_step_decay_whole_chunk=_slip("carry, last"),
        first_decay_chunk_all_tokens=first_of_a_chunk,
        mean_decay_chunk=mean_of_a_chunk,
        state_lost_at_chunks_boundary=_only("boundary"),
        chunk_itself_left_out=_only("past"),
        state_that_holds_only_last_chunk=_only("two"),
        not_causal_inside_chunk=open_inside,
        chunk_counted_twice=counted_twice,
        last_short_chunk_left_at_0=short_chunk_lost,
        last_short_chunk_dropped=short_chunk_dropped,
        chunks_counted_by_rounding_down_even=Wrong(whole_chunks_joined, raises="ValueError"),
        triangle_fixed_size=Wrong(fixed_triangle, raises="RuntimeError"),
        later_tokens_cut_off_after_exponential=cut_off_too_late,
        sequence_read_backwards_2=backwards_in_chunks,
        state_d_d=Wrong(lambda q, k, v, gamma, c: state_of_d_by_d(q, k, v, gamma), raises="RuntimeError"),
        quotients_products_that_underflow=Wrong(quotients_of_products, recognise=_nan_in(row=-1, not_in=0)),
        factors_kept_away_from_0=Wrong(
            lambda q, k, v, gamma, c: _mixed(q, k, v, _left(lifted(gamma, 1e-3)[0])), recognise=_factors_lifted
        ),
        infinity_times_0=Wrong(infinity_times_zero, recognise=_nan_in(row=0, not_in=-1)),
        logarithms_summed_over_whole_text=summed_over_the_text,
        state_cut_off_from_gradients=chunk_state_cut_off,
    ),
)

decayed_attention = CheckGroup("decayed_attention", recurrent_decayed_attention, chunked_decayed_attention)
