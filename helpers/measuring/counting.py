"""Count what PyTorch really does: FLOPs of matrix products, and elements that products and softmaxes read and write."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Count(NamedTuple):
    """What one run did."""

    flops: int  # of matrix products, 2 per multiply-add
    elements: int  # operands and results of matrix products and softmaxes, each once


def count(function: Callable[[], object]) -> Count:
    """Run `function()` and count."""
    with _Counter() as counter:
        function()
    return Count(counter.flops, counter.elements)


class _Counter(TorchDispatchMode):
    """Sees every operation that reaches PyTorch's kernels."""

    def __init__(self):
        super().__init__()
        from torch.utils.flop_counter import flop_registry  # imports triton where there is one: not before it is needed

        self.formulas, self.flops, self.elements = flop_registry, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        formula = self.formulas.get(func.overloadpacket)
        if formula:
            self.flops += formula(*args, **(kwargs or {}), out_val=output)
        if formula or func.overloadpacket.__name__ == "_softmax":
            self.elements += sum(leaf.numel() for leaf in tree_leaves((args, output)) if isinstance(leaf, Tensor))
        return output
