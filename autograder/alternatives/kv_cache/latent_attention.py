"""Right answers of latent_attention in other styles."""

import math

import torch
import torch.nn.functional as F


def absorbed_head_by_head(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    latents = torch.cat([latents, (x @ w_dkv).unsqueeze(1)], dim=1)
    out = torch.zeros_like(x)
    for head in range(w_q.shape[0]):
        q = x @ w_q[head] @ w_uk[head].T  # (b, d_c)
        scores = (latents @ q.unsqueeze(-1)).squeeze(-1) / w_q.shape[2] ** 0.5
        mixed = (torch.softmax(scores, dim=-1).unsqueeze(1) @ latents).squeeze(1)
        out = out + mixed @ w_uv[head] @ w_o[head]
    return out, latents


def matrices_absorbed_first(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    """What a server does once, when it loads the weights: one matrix in the place of two."""
    into_query, into_output = w_q @ w_uk.mT, w_uv @ w_o  # (h, d, d_c) and (h, d_c, d)
    latents = torch.cat((latents, torch.matmul(x, w_dkv)[:, None, :]), 1)
    q = torch.einsum("bd,hdc->bhc", x, into_query)
    weights = F.softmax(torch.einsum("bhc,bmc->bhm", q, latents) * w_uk.shape[-1] ** -0.5, dim=2)
    mixed = torch.einsum("bhm,bmc->bhc", weights, latents)
    return torch.einsum("bhc,hcd->bd", mixed, into_output), latents


def room_made_and_filled(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    (b, m, d_c), d_h = latents.shape, w_q.shape[-1]
    room = latents.new_empty(b, m + 1, d_c)
    room[:, :m], room[:, m] = latents, x @ w_dkv
    q = (x @ w_q).transpose(0, 1) / d_h**0.5  # (b, h, d_h): scaled before it is brought to the latents
    q = (q.unsqueeze(2) @ w_uk.mT).squeeze(2)
    weights = torch.softmax(q.bmm(room.transpose(1, 2)), -1)
    heads = weights.bmm(room).unsqueeze(2) @ w_uv  # (b, h, 1, d_h)
    return heads.flatten(1) @ w_o.flatten(0, 1), room


def one_sequence_after_the_other(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    outputs, caches = [], []
    for token, old in zip(x, latents):
        cache = torch.vstack([old, token @ w_dkv])
        q = ((token @ w_q)[:, None] @ w_uk.mT)[:, 0]  # (h, d_c)
        weights = (q @ cache.T / math.sqrt(w_uk.size(2))).softmax(-1)
        heads = (weights @ cache)[:, None] @ w_uv  # (h, 1, d_h)
        outputs.append((heads @ w_o).sum(dim=0)[0])
        caches.append(cache)
    return torch.stack(outputs), torch.stack(caches)


def softmax_by_hand(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    new = torch.einsum("bd,dc->bc", x, w_dkv)
    cache = torch.cat([latents, new.unsqueeze(1)], dim=1)
    q = torch.einsum("bd,hde->hbe", x, w_q)
    q = torch.einsum("hbe,hce->hbc", q, w_uk)
    scores = torch.einsum("hbc,bnc->hbn", q, cache) / math.sqrt(q.new_tensor(w_q.shape[-1]))
    scores = scores - scores.max(dim=-1, keepdim=True).values
    powers = torch.exp(scores)
    mixed = torch.einsum("hbn,bnc->hbc", powers, cache) / powers.sum(dim=-1)[..., None]
    return (mixed @ w_uv @ w_o).sum(dim=0), cache


def old_and_new_apart(x, latents, w_dkv, w_q, w_uk, w_uv, w_o):
    """The scores of the old tokens and of the new one, joined; the new latent is stored at the end."""
    new = x @ w_dkv
    q = torch.einsum("bd,hde,hce->bhc", x, w_q, w_uk)
    scores = torch.cat([q @ latents.mT, q @ new[..., None]], dim=-1) * w_q.shape[-1] ** -0.5
    weights = scores.softmax(dim=-1)
    mixed = weights[..., :-1] @ latents + weights[..., -1:] * new[:, None]
    return torch.einsum("bhc,hce,hed->bd", mixed, w_uv, w_o), torch.cat([latents, new[:, None]], dim=1)


latent_attention = {
    "head by head": absorbed_head_by_head,
    "absorbed matrices, made first": matrices_absorbed_first,
    "room made and filled; heads laid side by side": room_made_and_filled,
    "one sequence after the other": one_sequence_after_the_other,
    "softmax by hand, heads first": softmax_by_hand,
    "scores of old and new apart": old_and_new_apart,
}
