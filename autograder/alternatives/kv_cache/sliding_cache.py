"""Right answers of sliding_cache in other styles."""

import math

import torch
import torch.nn.functional as F


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


class RingBehindProperties(SlidingTokenByToken):
    """Nobody can put other rings in the place of these: a check that tries meets an AttributeError."""

    def __init__(self, b, h, window, d_h, dtype=torch.float32):
        self.window, self.length = window, 0
        self.rings = torch.zeros(2, b, h, window, d_h, dtype=dtype)

    keys = property(lambda self: self.rings[0])
    values = property(lambda self: self.rings[1])


sliding_cache = {
    "token by token, slots in any order": SlidingTokenByToken,
    "the end of old and new kept": SlidingByCutting,
    "everything moved on by one": SlidingByRolling,
    "one token at a time": RingTokenByToken,
    "ages of the slots, without sorting the ring": RingByAge,
    "in order, copies of a long chunk": RoomInOrder,
    "rings behind read-only properties": RingBehindProperties,
}
