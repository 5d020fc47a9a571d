"""How much a call keeps for its way back: what autograd saves, and what an `autograd.Function` hangs on its `ctx`
itself. And how much the object of a method keeps for its next call."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves

CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of "
    "shape {} was changed after it had been kept for the way back"
)


class SavedTensors:
    """The storages that are kept. A storage is counted once, however many views of it are kept, and whole."""

    def __init__(self, free: Iterable[Any]) -> None:
        self.free = {leaf.untyped_storage().data_ptr() for leaf in free if isinstance(leaf, Tensor)}  # the inputs
        self.storages: dict[int, tuple[torch.UntypedStorage, int]] = {}  # held, so that no address is given out again

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Inside, what autograd saves is noted."""
        with saved_tensors_hooks(self._pack, _unpack):
            yield

    def elements(self, output: Any) -> int:
        """How many numbers are kept for the way back of `output`."""
        for ctx in _contexts(output):
            for leaf in tree_leaves(list(vars(ctx).values())):
                self._note(leaf)
        return sum(elements for _, elements in self.storages.values())

    def _pack(self, tensor: Tensor) -> tuple[Tensor, int]:
        self._note(tensor)
        return tensor, tensor._version

    def _note(self, leaf: Any) -> None:
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
            storage = leaf.untyped_storage()
            if storage.data_ptr() not in self.free:
                self.storages[storage.data_ptr()] = storage, storage.nbytes() // leaf.element_size()


def _unpack(packed: tuple[Tensor, int]) -> Tensor:
    """The tensor. With hooks PyTorch leaves out its own look at whether it has been changed meanwhile: here it is."""
    tensor, version = packed
    if tensor._version != version:
        raise RuntimeError(CHANGED.format(tuple(tensor.shape)))
    return tensor


def _contexts(output: Any) -> Iterator[Any]:
    """The `ctx` of every `autograd.Function` that the graph of `output` goes through."""
    waiting = [leaf.grad_fn for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
    met = set(waiting)
    while waiting:
        node = waiting.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            yield node
        further = {other for other, _ in node.next_functions if other is not None} - met
        met |= further
        waiting += further


def of_its_object(function: Any) -> int:
    """How many numbers there is room for in the storages of the tensors that a bound method's object has as attributes;
    0 of a plain function. A view keeps the whole of its storage."""
    leaves = tree_leaves(dict(getattr(getattr(function, "__self__", None), "__dict__", {})))
    storages = {
        leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes() // leaf.element_size()
        for leaf in leaves
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided
    }
    return sum(storages.values())
