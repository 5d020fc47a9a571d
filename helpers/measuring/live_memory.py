"""How much memory a computation needs at its worst moment, beyond its inputs: counted as tensors come and go.

On a GPU the allocator itself knows. On a CPU nobody does, so every tensor made there is followed until it dies.
"""

import weakref
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(function: Callable[[], object]) -> int:
    """The most bytes that tensors made by `function()` take up at one time: on a GPU and on the CPU, added up."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with _Living() as living:
        function()
    return living.peak + (torch.cuda.max_memory_allocated() - before if torch.cuda.is_available() else 0)


class _Living(TorchDispatchMode):
    """The sizes of all storages on the CPU made while it is on. A storage lives as long as a tensor looks at it."""

    def __init__(self):
        super().__init__()
        self.known, self.viewers, self.sizes = set(), Counter(), {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.known.update(self._place(leaf) for leaf in tree_leaves((args, kwargs)) if self._is_old(leaf))
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, Tensor) and leaf.device.type == "cpu" and self._place(leaf) not in self.known:
                self._follow(leaf)
        return output

    def _is_old(self, leaf) -> bool:
        """An input from before: not ours to count."""
        return isinstance(leaf, Tensor) and self._place(leaf) not in self.viewers

    @staticmethod
    def _place(tensor: Tensor) -> int:
        return tensor.untyped_storage()._cdata

    def _follow(self, tensor: Tensor) -> None:
        place = self._place(tensor)
        if not self.viewers[place]:
            self.sizes[place] = tensor.untyped_storage().nbytes()
            self.now += self.sizes[place]
            self.peak = max(self.peak, self.now)
        self.viewers[place] += 1
        weakref.finalize(tensor, self._forget, place).atexit = False

    def _forget(self, place: int) -> None:
        self.viewers[place] -= 1
        if not self.viewers[place]:
            del self.viewers[place]
            self.now -= self.sizes.pop(place)
