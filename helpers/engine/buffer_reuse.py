"""What earlier calls of a function returned, and whether a later one has overwritten it: a buffer used again."""

from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

FUNCTIONS = 4  # that are remembered: a student's, and those of ours that are called between its calls
TENSORS = 16  # of each
LARGEST = 1 << 16  # elements; larger ones are not kept


class PreviousOutputs:
    """The outputs of the functions that were called last, as they were returned, each with a copy made at once."""

    def __init__(self) -> None:
        self.outputs: OrderedDict[Callable, list[tuple[Tensor, Tensor]]] = OrderedDict()

    def overwritten(self, function: Callable, output: Any) -> bool:
        """Whether other numbers stand now in what this function has returned before. Its output is kept, too. Objects
        with methods may hand out views of what they keep; only plain functions are looked at."""
        if not isinstance(function, FunctionType):
            return False
        before = self.outputs.pop(function, [])
        tensors = [leaf for leaf in tree_leaves(output) if _is_small(leaf)]
        self.outputs[function] = [*before, *((one, _copy(one)) for one in tensors)][-TENSORS:]
        if len(self.outputs) > FUNCTIONS:
            self.outputs.popitem(last=False)
        return any(not torch.equal(_copy(live), copy) for live, copy in before)


def _is_small(leaf: Any) -> bool:
    plain = (
        type(leaf) is Tensor
        and leaf.layout == torch.strided
        and not (leaf.is_meta or leaf.is_nested or leaf.is_quantized)
    )
    return plain and leaf.numel() <= LARGEST


def _copy(tensor: Tensor) -> Tensor:
    """In float64, for not every dtype of floats has a `nan_to_num`."""
    return tensor.double().nan_to_num() if tensor.is_floating_point() else tensor.clone()
