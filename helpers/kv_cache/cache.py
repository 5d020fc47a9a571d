"""Where a layer keeps keys and values of tokens it has read: as tensors that grow, or in room made beforehand."""

import torch
from jaxtyping import Float
from torch import Tensor


class GrowingCache:
    """The first idea: join old and new. Every append copies all that is old, so n appends copy n²/2 tokens."""

    def __init__(self):
        self.length, self.keys, self.values = 0, None, None

    def append(
        self, k: Float[Tensor, "b h n d_h"], v: Float[Tensor, "b h n d_h"]
    ) -> tuple[Float[Tensor, "b h m d_h"], Float[Tensor, "b h m d_h"]]:
        """Store n new tokens; return the keys and values of all m tokens so far, oldest first."""
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        self.length += k.shape[2]
        return self.keys, self.values


class KVCache:
    """Room for `capacity` tokens, made once. An append writes the new tokens and copies nothing that is old."""

    def __init__(self, b: int, h: int, capacity: int, d_h: int, dtype: torch.dtype = torch.float32):
        self.length = 0
        self.keys, self.values = (torch.zeros(b, h, capacity, d_h, dtype=dtype) for _ in range(2))

    def append(
        self, k: Float[Tensor, "b h n d_h"], v: Float[Tensor, "b h n d_h"]
    ) -> tuple[Float[Tensor, "b h m d_h"], Float[Tensor, "b h m d_h"]]:
        """Store n new tokens; return views of the m tokens so far, oldest first. ValueError, and nothing stored, if
        they don't fit."""
        end = self.length + k.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"The cache has room for {self.keys.shape[2]} tokens, and {end} are wanted.")
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


def what_to_store() -> str:
    """Of the choices in the notebook: the keys and values of every layer."""
    return "c"


def new_operations() -> str:
    """The order of the operations for the next token: project, turn, append, score, softmax, mix, project."""
    return "dgbfaec"
