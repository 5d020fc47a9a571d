"""Right answers of decode_step in other styles."""

import torch
import torch.nn.functional as F

from helpers.transformer_lm.positions import rotary_embedding


def turn(x, positions):
    """RoPE, with complex numbers."""
    d = x.shape[-1]
    angles = positions.double()[:, None] * 10_000.0 ** (-torch.arange(0, d, 2).double() / d)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (d // 2, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


def step_by_sdpa(x, keys, values, w_q, w_k, w_v, w_o):
    (b, n, d), (h, m) = x.shape, keys.shape[1:3]
    q, k, v = ((x @ w).view(b, n, h, d // h).transpose(1, 2) for w in (w_q, w_k, w_v))
    place = torch.arange(m, m + n)
    keys, values = torch.cat((keys, turn(k, place)), 2), torch.cat((values, v), 2)
    mask = torch.arange(m + n) <= place[:, None]
    out = F.scaled_dot_product_attention(turn(q, place), keys, values, attn_mask=mask)
    return out.transpose(1, 2).reshape(b, n, d) @ w_o, keys, values


def step_token_by_token(x, keys, values, w_q, w_k, w_v, w_o):
    h, outs = keys.shape[1], []
    for row in x.unbind(dim=1):
        m = torch.tensor([keys.shape[2]])
        q, k, v = (torch.einsum("bd,de->be", row, w).unflatten(1, (h, 1, -1)) for w in (w_q, w_k, w_v))
        keys, values = torch.cat([keys, turn(k, m)], 2), torch.cat([values, v], 2)
        scores = torch.einsum("bhid,bhmd->bhim", turn(q, m), keys) / keys.shape[3] ** 0.5
        outs.append(torch.einsum("bhim,bhmd->bihd", scores.softmax(-1), values).flatten(2) @ w_o)
    return torch.cat(outs, dim=1), keys, values


def step_into_room(x, keys, values, w_q, w_k, w_v, w_o):
    """All positions at once; one projection for all three; room made beforehand, and a mask that is added."""
    (b, n, d), (h, m) = x.shape, keys.shape[1:3]
    q, k, v = (x @ torch.cat([w_q, w_k, w_v], dim=1)).view(b, n, 3, h, d // h).permute(2, 0, 3, 1, 4)
    room = x.new_empty(2, b, h, m + n, d // h)
    room[0, :, :, :m], room[1, :, :, :m], room[1, :, :, m:] = keys, values, v
    both = turn(torch.cat([q, k]), m + torch.arange(n))
    room[0, :, :, m:] = both[b:]
    bias = torch.full((n, m + n), -torch.inf).triu(m + 1).to(x)
    weights = (both[:b] @ room[0].mT * (d // h) ** -0.5 + bias).softmax(-1)
    return torch.einsum("bhim,bhmd->bihd", weights, room[1]).reshape(b, n, d) @ w_o, room[0], room[1]


def step_head_by_head(x, keys, values, w_q, w_k, w_v, w_o):
    h, m = keys.shape[1:3]
    place = m + torch.arange(x.shape[1])
    split = [(x @ w).chunk(h, dim=-1) for w in (w_q, w_k, w_v)]
    new_k, new_v = torch.stack([turn(k, place) for k in split[1]], 1), torch.stack(split[2], 1)
    keys, values = torch.cat([keys, new_k], 2), torch.cat([values, new_v], 2)
    heads = []
    for i, q in enumerate(split[0]):
        scores = turn(q, place) @ keys[:, i].transpose(1, 2) * keys.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[1:]).triu(m + 1) > 0
        heads.append(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values[:, i])
    return torch.cat(heads, dim=-1) @ w_o, keys, values


def step_with_one_joint_projection(x, keys, values, w_q, w_k, w_v, w_o):
    d, (_, h, m, d_h) = (x.shape[-1], keys.shape)
    weights = torch.stack([w_q, w_k, w_v]).view(3, d, h, d_h)
    q, k, v = torch.einsum("bnd,tdhe->tbhne", x, weights)
    where = m + torch.arange(x.shape[1])
    keys = torch.cat([keys, rotary_embedding(k, where)], dim=-2)
    values = torch.cat([values, v], dim=-2)
    scores = torch.einsum("bhie,bhje->bhij", rotary_embedding(q / d_h**0.5, where), keys)
    future = torch.arange(keys.shape[-2]) > where.unsqueeze(1)
    scores.masked_fill_(future, -torch.inf)
    scores = scores - scores.logsumexp(dim=-1, keepdim=True)
    return (torch.einsum("bhij,bhje,hed->bid", scores.exp(), values, w_o.view(h, d_h, d)), keys, values)


def step_token_after_token(x, keys, values, w_q, w_k, w_v, w_o):
    h, d_h = (keys.shape[1], keys.shape[3])
    outputs = []
    for token in x.split(1, dim=1):
        q, k, v = [(token @ w).unflatten(-1, (h, d_h)).movedim(2, 1) for w in (w_q, w_k, w_v)]
        here = torch.tensor([keys.shape[2]])
        keys = torch.cat([keys, rotary_embedding(k, here)], dim=2)
        values = torch.cat([values, v], dim=2)
        weights = torch.softmax(rotary_embedding(q, here) @ keys.mT * d_h ** (-0.5), dim=-1)
        outputs.append((weights @ values).movedim(1, 2).flatten(2) @ w_o)
    return (torch.cat(outputs, dim=1), keys, values)


decode_step = {
    "with PyTorch's operator and a mask": step_by_sdpa,
    "token by token, einsum": step_token_by_token,
    "one projection, room made beforehand": step_into_room,
    "heads one by one": step_head_by_head,
    "einsum with one joint projection": step_with_one_joint_projection,
    "one token after the other, no mask": step_token_after_token,
}
