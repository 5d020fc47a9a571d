"""A ring buffer: the room of a token that has left the window is taken by the newest (Mistral 7B: Jiang et al., 2023,
section 2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


class SlidingCache:
    """Keys and values of the last `window` tokens; token t lies in slot t mod window."""

    def __init__(self, b: int, h: int, window: int, d_h: int, dtype: torch.dtype = torch.float32):
        self.window, self.length = window, 0
        self.keys, self.values = (torch.zeros(b, h, window, d_h, dtype=dtype) for _ in range(2))

    def attend(
        self, q: Float[Tensor, "b h n d_h"], k: Float[Tensor, "b h n d_h"], v: Float[Tensor, "b h n d_h"]
    ) -> Float[Tensor, "b h n d_h"]:
        """Outputs of n new tokens. Each sees itself and the window − 1 tokens before. Then stores the new ones."""
        first = max(0, self.length - self.window)  # the oldest token that is still here
        slots = torch.arange(first, self.length) % self.window
        keys = torch.cat([self.keys[:, :, slots], k], dim=2)  # oldest first, then the new ones
        values = torch.cat([self.values[:, :, slots], v], dim=2)
        query = torch.arange(self.length, self.length + q.shape[2])[:, None]
        age = query - torch.arange(first, self.length + q.shape[2])  # (n, m)
        scores = (q @ keys.mT / math.sqrt(q.shape[-1])).masked_fill((age < 0) | (age >= self.window), -torch.inf)
        self._store(k, v)
        return scores.softmax(dim=-1) @ values

    def _store(self, k: Tensor, v: Tensor) -> None:
        self.length += k.shape[2]
        k, v = k[:, :, -self.window :], v[:, :, -self.window :]  # of a long chunk only the end stays
        slots = torch.arange(self.length - k.shape[2], self.length) % self.window
        self.keys[:, :, slots], self.values[:, :, slots] = k, v
