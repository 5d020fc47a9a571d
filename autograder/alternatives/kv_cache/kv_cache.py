"""Right answers of KVCache in other styles."""

import torch


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
