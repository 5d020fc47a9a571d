"""Right answers of unit 08 in other styles: loops, einsum, other layouts of the cache, other orders of work."""

import math

import torch
import torch.nn.functional as F

from helpers.transformer_lm.positions import rotary_embedding

# ------------------------------------------------------------------------------------------------ formulas and quizzes


def projections_by_loop(n, layers):
    seen = repeated = 0
    for step in range(1, n + 1):
        repeated += step - (1 if step > seen else 0)
        seen = step
    return layers * repeated


def projections_as_a_binomial(n, layers):
    return layers * math.comb(n, 2)


redundant_projections = {
    "a sum over the steps": projections_by_loop,
    "pairs of tokens": lambda n, layers: layers * math.comb(n, 2),
    "binomial coefficient": projections_as_a_binomial,
}
what_to_store = {"a capital letter": lambda: "C", "in a list": lambda: ["c"]}
new_operations = {
    "separated by commas": lambda: "d, g, b, f, a, e, c",
    "a list of letters": lambda: ["d", "g", "b", "f", "a", "e", "c"],
    "arrows and capitals": lambda: "D → G → B → F → A → E → C",
}


def cost_by_sums(n, d):
    def step(projected, queries, keys):
        return 4 * 2 * projected * d * d + 2 * 2 * queries * keys * d

    return (
        step(1, 1, n), step(n, n, n), sum(step(1, 1, t) for t in range(1, n + 1)), sum(step(t, t, t) for t in range(1, n + 1)),
    )  # fmt: skip


decode_cost = {
    "sums over the steps": cost_by_sums,
    "closed forms, as a list": lambda n, d: [
        8 * d * d + 4 * n * d,
        n * (8 * d * d + 4 * n * d),
        8 * n * d * d + 4 * d * (n * (n + 1) // 2),
        8 * d * d * (n * (n + 1) // 2) + 4 * d * (n * (n + 1) * (2 * n + 1) // 6),
    ],
}


def bytes_of_tensors(layers, h, h_kv, d, n, b, size):
    key = torch.empty(b, h_kv, n, d // h, device="meta")
    return layers * (key.numel() + key.numel()) * size


def bytes_as_a_product(layers, h, h_kv, d, n, b, size):
    everything = math.prod([2, layers, b, n, d, size])
    return everything * h_kv // h


cache_bytes = {
    "counted in tensors without memory": bytes_of_tensors,
    "per token first": lambda layers, h, h_kv, d, n, b, size: (2 * layers * h_kv * d // h * size) * n * b,
    "rounded at the end": lambda layers, h, h_kv, d, n, b, size: round(2.0 * layers * d * (h_kv / h) * n * b * size),
    "product of a list, divided last": bytes_as_a_product,
}

# -------------------------------------------------------------------------------------------------------------- KVCache


class CacheInOneTensor:
    """Keys and values in one tensor with a first axis of 2."""

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32):
        self.room, self.length = torch.empty(2, b, h, capacity, d_h, dtype=dtype), 0

    def append(self, k, v):
        start, end = self.length, self.length + k.size(2)
        if end > self.room.size(3):
            raise ValueError(f"{end} tokens don't fit")
        self.room[0, :, :, start:end].copy_(k)
        self.room[1, :, :, start:end].copy_(v)
        self.length = end
        return self.room[0].narrow(2, 0, end), self.room[1].narrow(2, 0, end)


class CacheTokensFirst:
    """The token axis first, written row by row."""

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32):
        self.k = torch.zeros(capacity, b, h, d_h, dtype=dtype)
        self.v = torch.zeros(capacity, b, h, d_h, dtype=dtype)
        self.capacity, self.length = capacity, 0

    def append(self, k, v):
        if k.shape[2] > self.capacity - self.length:
            raise ValueError("full")
        for place in range(k.shape[2]):
            self.k[self.length], self.v[self.length] = k[:, :, place], v[:, :, place]
            self.length += 1
        return self.k[: self.length].permute(1, 2, 0, 3), self.v[: self.length].permute(1, 2, 0, 3)


class CacheByIndex(torch.nn.Module):
    """A module with buffers, written with index_copy_."""

    def __init__(self, b, h, capacity, d_h, dtype=torch.float32):
        super().__init__()
        self.register_buffer("keys", torch.zeros((b, h, capacity, d_h), dtype=dtype))
        self.register_buffer("values", torch.zeros((b, h, capacity, d_h), dtype=dtype))
        self.length = 0

    def append(self, k, v):
        index = torch.arange(self.length, self.length + k.shape[2])
        if len(index) and index[-1] >= self.keys.shape[2]:
            raise ValueError("no room left")
        self.keys.index_copy_(2, index, k)
        self.values.index_copy_(2, index, v)
        self.length += k.shape[2]
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


class BothInOneTensor:
    def __init__(self, b, h, capacity, d_h, dtype=torch.float32):
        self._room = torch.empty(2, b, h, capacity, d_h, dtype=dtype)
        self.length = 0

    def append(self, k, v):
        n = k.size(-2)
        if n > self._room.size(3) - self.length:
            raise ValueError(f"room for {self._room.size(3) - self.length} tokens, but {n} came")
        for half, new in zip(self._room, (k, v)):
            half.narrow(2, self.length, n).copy_(new)
        self.length += n
        return tuple(self._room.narrow(3, 0, self.length).unbind())


KVCache = {
    "one tensor for both": CacheInOneTensor,
    "the token axis first, row by row": CacheTokensFirst,
    "a module with buffers, by index": CacheByIndex,
    "one tensor for both, torch.empty, narrow and copy_": BothInOneTensor,
}

# ----------------------------------------------------------------------------------------------------------- decode_step


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

# ------------------------------------------------------------------------------------------------------- generate_cached


def generate_in_one_loop(model, prompt, n):
    tokens, cache, read = prompt, None, 0
    for _ in range(n):
        logits, cache = model(tokens[:, read:], read, cache)
        read = tokens.shape[1]
        tokens = torch.cat([tokens, logits[:, -1].argmax(-1)[:, None]], 1)
    return tokens[:, -n:]


def generate_into_room(model, prompt, n):
    written = torch.empty(len(prompt), n, dtype=torch.long)
    new, start, cache = prompt, 0, None
    for place in range(n):
        logits, cache = model(new, start, cache)
        start += new.shape[1]
        written[:, place] = logits[:, -1].max(dim=-1).indices
        new = written[:, place : place + 1].clone()
    return written


def generate_until_there_are_enough(model, prompt, n):
    logits, cache = model(prompt, 0, None)
    out = [torch.topk(logits[:, -1], 1).indices]
    while len(out) < n:
        logits, cache = model(out[-1], prompt.shape[1] + len(out) - 1, cache)
        out.append(torch.topk(logits[:, -1], 1).indices)
    return torch.hstack(out)


def generate_by_recursion(model, prompt, n, start=0, cache=None):
    logits, cache = model(prompt, start, cache)
    token = torch.topk(logits[:, -1], 1).indices
    rest = [generate_by_recursion(model, token, n - 1, start + prompt.shape[1], cache)] if n > 1 else []
    return torch.hstack([token, *rest])


def generated_into_a_room(model, prompt, n):
    b, p = prompt.shape
    written = prompt.new_empty(b, n)
    tokens, cache = (prompt, None)
    for i in range(n):
        logits, cache = model(tokens, 0 if i == 0 else p + i - 1, cache)
        written[:, i] = torch.max(logits.select(1, -1), dim=-1).indices
        tokens = written.narrow(1, i, 1).clone()
    return written


generate_cached = {
    "one loop, reading what is new": generate_in_one_loop,
    "into a tensor made beforehand": generate_into_room,
    "until there are enough, by topk": generate_until_there_are_enough,
    "recursion": generate_by_recursion,
    "preallocated result, torch.max": generated_into_a_room,
}


def change_as_infinity_norm(layer, x, new):
    return torch.dist(layer(torch.vstack((x, new)))[: x.size(0)], layer(x), p=math.inf)


def larger_of_up_and_down(layer, x, new):
    *old, _ = layer(torch.cat((x, new)))
    change = torch.stack(old).sub(layer(x))
    low, high = change.aminmax()
    return torch.maximum(high, -low)


bidirectional_cannot_cache = {
    "by slices, as a number": lambda layer, x, new: torch.max(
        torch.abs(layer(torch.vstack((x, new)))[:-1] - layer(x))
    ).item(),
    "row by row": lambda layer, x, new: max(
        (after - before).abs().max() for before, after in zip(layer(x), layer(torch.cat((x, new), dim=0)))
    ),
    "the norm": lambda layer, x, new: torch.linalg.vector_norm(
        layer(torch.cat([x, new]))[: x.shape[0]] - layer(x), ord=math.inf
    ),
    "infinity norm": change_as_infinity_norm,
    "larger of up and down": larger_of_up_and_down,
}

# --------------------------------------------------------------------------------------------------------- mqa_gqa_cache


def groups_as_an_axis(q, k, v, keys, values):
    b, h, n, d_h = q.shape
    keys, values = torch.cat([keys, k], -2), torch.cat([values, v], -2)
    m = keys.shape[2]
    grouped = q.view(b, k.shape[1], -1, n, d_h)  # (b, h_kv, group, n, d_h)
    scores = torch.einsum("bkgnd,bkmd->bkgnm", grouped, keys) / math.sqrt(d_h)
    scores = scores.masked_fill(torch.arange(m) > torch.arange(m - n, m)[:, None], -torch.inf)
    return torch.einsum("bkgnm,bkmd->bkgnd", scores.softmax(-1), values).flatten(1, 2), keys, values


def groups_by_sdpa(q, k, v, keys, values):
    keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    mask = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - q.shape[2])
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True), keys, values


def groups_by_loop(q, k, v, keys, values):
    keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    size, (n, m) = q.shape[1] // k.shape[1], (q.shape[2], keys.shape[2])
    heads = []
    for i in range(q.shape[1]):
        scores = q[:, i] @ keys[:, i // size].mT / q.shape[-1] ** 0.5 + torch.full((n, m), -torch.inf).triu(m - n + 1)
        heads.append(scores.softmax(-1) @ values[:, i // size])
    return torch.stack(heads, 1), keys, values


def step_with_groups_as_an_axis(q, k, v, keys, values):
    m, n, h_kv = (keys.shape[2], q.shape[2], k.shape[1])
    keys, values = (torch.cat(pair, dim=2) for pair in ((keys, k), (values, v)))
    grouped = q.unflatten(1, (h_kv, -1))
    scores = torch.einsum("bkgie,bkje->bkgij", grouped, keys).div(q.shape[-1] ** 0.5)
    hidden = torch.ones(n, m + n, dtype=torch.bool).triu(m + 1)
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return (torch.einsum("bkgij,bkje->bkgie", weights, values).flatten(1, 2), keys, values)


def a_call_for_each_group(q, k, v, keys, values):
    n, m = q.shape[2], keys.shape[2]
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    allowed = torch.arange(m, m + n).unsqueeze(1) >= torch.arange(m + n)
    outputs = []
    for j, group in enumerate(q.chunk(k.shape[1], dim=1)):
        shared = (t[:, j : j + 1].expand(-1, group.shape[1], -1, -1) for t in (keys, values))
        outputs.append(F.scaled_dot_product_attention(group, *shared, attn_mask=allowed))
    return torch.cat(outputs, dim=1), keys, values


mqa_gqa_cache = {
    "groups as an axis of their own": groups_as_an_axis,
    "with PyTorch's operator": groups_by_sdpa,
    "a loop over the query heads": groups_by_loop,
    "groups as an axis, einsum, nothing repeated": step_with_groups_as_an_axis,
    "PyTorch's operator for each group": a_call_for_each_group,
}

# --------------------------------------------------------------------------------------------------------- sliding_cache


class SlidingTokenByToken:
    """One token at a time through the ring: store, then attend to all that is there, in any order."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = window, 0
        self.keys, self.values = (
            torch.zeros(b, h, window, d_h, dtype=dtype),
            torch.zeros(b, h, window, d_h, dtype=dtype),
        )

    def attend(self, q, k, v):
        outs = []
        for place in range(q.shape[2]):
            slot = self.length % self.window
            self.keys[:, :, slot], self.values[:, :, slot] = k[:, :, place], v[:, :, place]
            self.length += 1
            filled = min(self.length, self.window)
            keys, values = self.keys[:, :, :filled], self.values[:, :, :filled]
            outs.append(F.scaled_dot_product_attention(q[:, :, place : place + 1], keys, values))
        return torch.cat(outs, 2)


class SlidingByCutting:
    """No ring: the end of [old, new] is kept."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = window, 0
        self.keys = self.values = torch.zeros(b, h, 0, d_h, dtype=dtype)

    def attend(self, q, k, v):
        keys, values = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        n, m = k.shape[2], keys.shape[2]
        band = torch.ones(n, m).tril(m - n).triu(m - n - self.window + 1).bool()
        self.keys, self.values = keys[:, :, -self.window :].clone(), values[:, :, -self.window :].clone()
        self.length += n
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=band)


class SlidingByRolling:
    """The newest always in the last slot; a mask for slots that are still empty."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = window, 0
        self.keys, self.values = torch.zeros(2, b, h, window, d_h, dtype=dtype)

    def attend(self, q, k, v):
        outs = []
        for query, key, value in zip(q.unbind(2), k.unbind(2), v.unbind(2)):
            self.keys, self.values = self.keys.roll(-1, dims=2), self.values.roll(-1, dims=2)
            self.keys[:, :, -1], self.values[:, :, -1] = key, value
            self.length += 1
            scores = torch.einsum("bhd,bhmd->bhm", query, self.keys) / math.sqrt(q.shape[-1])
            empty = torch.arange(self.window) < self.window - self.length
            outs.append(torch.einsum("bhm,bhmd->bhd", scores.masked_fill(empty, -torch.inf).softmax(-1), self.values))
        return torch.stack(outs, dim=2)


class RingTokenByToken:
    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = (window, 0)
        self.keys = torch.zeros(b, h, window, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, window, d_h, dtype=dtype)

    def _one(self, q, k, v):
        slot = self.length % self.window
        self.keys.select(2, slot).copy_(k)
        self.values.select(2, slot).copy_(v)
        self.length += 1
        filled = min(self.length, self.window)
        scores = torch.einsum("bhd,bhsd->bhs", q, self.keys[:, :, :filled]) / math.sqrt(q.shape[-1])
        return torch.einsum("bhs,bhsd->bhd", scores.softmax(-1), self.values[:, :, :filled])

    def attend(self, q, k, v):
        return torch.stack([self._one(*t) for t in zip(q.unbind(2), k.unbind(2), v.unbind(2))], dim=2)


class RingByAge:
    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = (window, 0)
        self.keys = torch.zeros(b, h, window, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, window, d_h, dtype=dtype)

    def attend(self, q, k, v):
        w, t, n = (self.window, self.length, q.shape[2])
        slots = torch.arange(w)
        stored = t - 1 - (t - 1 - slots) % w
        new = torch.arange(t, t + n)
        number = torch.cat([stored, new])
        ok = (number >= 0) & (number <= new[:, None]) & (number > new[:, None] - w)
        scores = q @ torch.cat([self.keys, k], dim=2).mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~ok, -math.inf).softmax(dim=-1)
        result = weights @ torch.cat([self.values, v], dim=2)
        keep = min(n, w)
        self.keys.index_copy_(2, new[n - keep :] % w, k[:, :, n - keep :])
        self.values.index_copy_(2, new[n - keep :] % w, v[:, :, n - keep :])
        self.length = t + n
        return result


class RoomInOrder:
    """The newest in the last slot; of a long chunk copies are put in the place of the rings."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = window, 0
        self.keys = torch.zeros(b, h, window, d_h, dtype=dtype)
        self.values = torch.zeros(b, h, window, d_h, dtype=dtype)

    def attend(self, q, k, v):
        n, w = q.shape[2], self.window
        filled = min(self.length, w)
        keys = torch.cat([self.keys[:, :, w - filled :], k], dim=2)
        values = torch.cat([self.values[:, :, w - filled :], v], dim=2)
        age = torch.arange(filled, filled + n)[:, None] - torch.arange(filled + n)
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=(age >= 0) & (age < w))
        if n >= w:
            self.keys, self.values = k[:, :, n - w :].clone(), v[:, :, n - w :].clone()
        else:
            self.keys[:, :, : w - n] = self.keys[:, :, n:].clone()
            self.values[:, :, : w - n] = self.values[:, :, n:].clone()
            self.keys[:, :, w - n :], self.values[:, :, w - n :] = k, v
        self.length += n
        return out


sliding_cache = {
    "token by token, slots in any order": SlidingTokenByToken,
    "the end of old and new kept": SlidingByCutting,
    "everything moved on by one": SlidingByRolling,
    "one token at a time": RingTokenByToken,
    "ages of the slots, without sorting the ring": RingByAge,
    "in order, copies of a long chunk": RoomInOrder,
}

# ------------------------------------------------------------------------------------------------------- quantized_cache


def keys_by_where(k):
    largest = k.abs().max(dim=2, keepdim=True).values
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    return (k / scale).round().clamp(-127, 127).char(), scale


def values_by_where(v):
    largest = v.abs().max(dim=3, keepdim=True).values
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    return (v / scale).round().clamp(-127, 127).char(), scale


def keys_by_loops(k):
    codes, scale = torch.zeros(k.shape, dtype=torch.int8), torch.zeros(len(k), k.shape[1], 1, k.shape[3], dtype=k.dtype)
    for i in range(len(k)):
        for head in range(k.shape[1]):
            for channel in range(k.shape[3]):
                column = k[i, head, :, channel]
                step = max(column.abs().max().item() / 127, 1e-30)
                scale[i, head, 0, channel] = step
                codes[i, head, :, channel] = torch.round(column / step).to(torch.int8)
    return codes, scale


def values_through_the_keys(v):
    codes, scale = keys_by_where(v.mT)
    return codes.mT, scale.mT


def bytes_by_tensors(b, h, n, d_h, size):
    codes = torch.empty(2, b, h, n, d_h, dtype=torch.int8, device="meta").nbytes
    return codes + size * (
        torch.empty(b, h, 1, d_h, device="meta").numel() + torch.empty(b, h, n, 1, device="meta").numel()
    )


quantized_cache = {
    "torch.where and char": (keys_by_where, values_by_where, bytes_by_tensors),
    "loops; values as transposed keys": (keys_by_loops, values_through_the_keys, lambda b, h, n, d_h, size: b * h * (2 * n * d_h + size * (n + d_h))),
}  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- paged_cache


class PagesWithAFreeList:
    """A list of free page numbers; a page is copied before the first row is written."""

    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.rows = torch.empty(pages * page_size, d, dtype=dtype)
        self.size, self.unused, self.users, self.tables = page_size, list(range(pages)), {}, {}

    @property
    def free_pages(self):
        return len(self.unused)

    def new_page(self):
        if not self.unused:
            raise ValueError("no page left")
        page = self.unused.pop()
        self.users[page] = 1
        return page

    def let_go(self, page):
        self.users[page] -= 1
        if not self.users[page]:
            self.unused.append(page)

    def append(self, name, rows):
        table, length = self.tables.get(name, ([], 0))
        for row in rows:
            if length == len(table) * self.size:
                table.append(self.new_page())
            elif self.users[table[-1]] > 1:
                old, table[-1] = table[-1], self.new_page()
                self.rows[table[-1] * self.size :][: self.size] = self.rows[old * self.size :][: self.size].clone()
                self.let_go(old)
            self.rows[table[-1] * self.size + length % self.size] = row
            length += 1
            self.tables[name] = table, length

    def read(self, name):
        table, length = self.tables[name]
        return torch.stack([self.rows[table[t // self.size] * self.size + t % self.size] for t in range(length)])

    def fork(self, name, new):
        table, length = self.tables[name]
        self.tables[new] = table[:], length
        for page in table:
            self.users[page] += 1

    def free(self, name):
        table, _ = self.tables.pop(name)
        for page in table:
            self.let_go(page)


class PagesWithoutCounters:
    """Who uses a page is seen from the tables: nothing to count, nothing to forget."""

    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.pool, self.tables, self.lengths = torch.zeros(pages, page_size, d, dtype=dtype), {}, {}

    @property
    def free_pages(self):
        return len(self.pool) - len(set(self.used()))

    def used(self):
        return [page for table in self.tables.values() for page in table]

    def unused(self):
        free = [page for page in range(len(self.pool)) if page not in self.used()]
        if not free:
            raise ValueError("all pages are used")
        return free[0]

    def append(self, name, rows):
        table = self.tables.setdefault(name, [])
        for row in rows:
            page, slot = divmod(self.lengths.get(name, 0), self.pool.shape[1])
            if page == len(table):
                table.append(self.unused())
            elif self.used().count(table[page]) > 1:
                copy = self.unused()
                self.pool[copy] = self.pool[table[page]]
                table[page] = copy
            self.pool[table[page]][slot] = row
            self.lengths[name] = self.lengths.get(name, 0) + 1

    def read(self, name):
        return torch.cat([self.pool[page] for page in self.tables[name]])[: self.lengths[name]]

    def fork(self, name, new):
        self.tables[new], self.lengths[new] = [*self.tables[name]], self.lengths[name]

    def free(self, name):
        del self.tables[name], self.lengths[name]


class PagesInSlices:
    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages
        self.table = {}
        self.length = {}

    @property
    def free_pages(self):
        return self.users.count(0)

    def take(self):
        page = self.users.index(0)
        self.users[page] = 1
        return page

    def append(self, name, rows):
        if name not in self.table:
            self.table[name], self.length[name] = ([], 0)
        size = self.pool.shape[1]
        while len(rows):
            place, slot = divmod(self.length[name], size)
            page = self._writable(self.table[name], place, slot)
            part, rows = (rows[: size - slot], rows[size - slot :])
            self.pool[page, slot : slot + len(part)] = part
            self.length[name] += len(part)

    def _writable(self, table, place, slot):
        if slot == 0:
            table.append(self.take())
        elif self.users[table[place]] > 1:
            mine, shared = (self.take(), table[place])
            self.pool[mine, :slot] = self.pool[shared, :slot]
            self.users[shared] -= 1
            table[place] = mine
        return table[place]

    def read(self, name):
        t = torch.arange(self.length[name])
        pages = torch.tensor(self.table[name], dtype=torch.long)
        return self.pool[pages[t // self.pool.shape[1]], t % self.pool.shape[1]]

    def fork(self, name, new):
        self.table[new], self.length[new] = (self.table[name][:], self.length[name])
        for page in self.table[name]:
            self.users[page] += 1

    def free(self, name):
        del self.length[name]
        for page in self.table.pop(name):
            self.users[page] -= 1


class PagesRowByRow:
    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages
        self.table = {}
        self.length = {}

    @property
    def free_pages(self):
        return self.users.count(0)

    def take(self):
        free = [page for page, users in enumerate(self.users) if not users]
        if not free:
            raise ValueError("all pages are in use")
        page = free.pop()
        self.users[page] = 1
        return page

    def append(self, name, rows):
        size = self.pool.size(1)
        table, length = (self.table.setdefault(name, []), self.length.setdefault(name, 0))
        for t, row in enumerate(rows, start=length):
            if t == size * len(table):
                table.append(self.take())
            if self.users[table[-1]] != 1:
                old, table[-1] = (table[-1], self.take())
                self.users[old] -= 1
                self.pool[table[-1]].copy_(self.pool[old])
            self.pool[table[-1]][t % size] = row
            self.length[name] = t + 1

    def read(self, name):
        return self.pool.index_select(0, torch.tensor(self.table[name], dtype=torch.long)).reshape(
            -1, self.pool.shape[-1]
        )[: self.length[name]]

    def fork(self, name, new):
        self.table[new] = [*self.table[name]]
        self.length[new] = self.length[name]
        self.users = [u + (p in self.table[new]) for p, u in enumerate(self.users)]

    def free(self, name):
        gone = self.table.pop(name)
        self.length.pop(name)
        self.users = [u - (p in gone) for p, u in enumerate(self.users)]


paged_cache = {
    "a list of free pages": PagesWithAFreeList,
    "users read off the tables": PagesWithoutCounters,
    "page by page in slices": PagesInSlices,
    "row by row, highest free page first": PagesRowByRow,
}

# ---------------------------------------------------------------------------------------------------------- ragged_batch


def pad_by_lists(prompts):
    longest = max(map(len, prompts))
    tokens = torch.tensor([[7] * (longest - len(prompt)) + prompt.tolist() for prompt in prompts])
    lengths = torch.tensor([[len(prompt)] for prompt in prompts])
    return tokens, torch.arange(longest) >= longest - lengths


def pad_by_sequence(prompts):
    flipped = torch.nn.utils.rnn.pad_sequence([prompt.flip(0) for prompt in prompts], batch_first=True)
    real = torch.nn.utils.rnn.pad_sequence(
        [torch.ones(len(prompt), dtype=torch.bool) for prompt in prompts], batch_first=True
    )
    return flipped.flip(1), real.flip(1)


def rows_by_loops(real, n):
    b, m = real.shape
    positions, mask = torch.zeros(b, n, dtype=torch.long), torch.zeros(b, n, m, dtype=torch.bool)
    for row in range(b):
        for place in range(n):
            token = m - n + place
            positions[row, place] = max(0, int(real[row, : token + 1].sum()) - 1)
            mask[row, place, : token + 1] = real[row, : token + 1]
    return positions, mask


def rows_by_padding(real, n):
    m = real.shape[1]
    padding = (~real).sum(dim=1, keepdim=True)
    token = torch.arange(m - n, m)
    key = torch.arange(m)
    return token - padding, (key <= token[:, None]) & (key >= padding[:, :, None])


def padded_as_lists(prompts):
    m = max(p.numel() for p in prompts)
    rows = [[0] * (m - p.numel()) + p.tolist() for p in prompts]
    real = [[False] * (m - p.numel()) + [True] * p.numel() for p in prompts]
    return (torch.tensor(rows, dtype=prompts[0].dtype), torch.tensor(real))


def corner_of_the_whole_square(real, n):
    b, m = real.shape
    square = real.unsqueeze(1).expand(b, m, m).tril()
    seen = square.sum(dim=-1) - 1
    return (seen[:, m - n :], square[:, m - n :])


ragged_batch = {
    "lists; loops over rows and tokens": (pad_by_lists, rows_by_loops),
    "pad_sequence; the width of the padding": (pad_by_sequence, rows_by_padding),
    "lists, triangle of the whole square cut at the end": (padded_as_lists, corner_of_the_whole_square),
}

# ------------------------------------------------------------------------------------------------------ latent_attention


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
