"""What the checks of steps share: inputs that stay as they are, and rows that see no key."""

from collections.abc import Callable

from torch import Tensor
from torch.utils._pytree import tree_leaves

from helpers.engine.compare import agree, tolerance
from helpers.engine.observe import Observation


def hand_on(seen: Observation, given: Tensor) -> None:
    """A call gets copies of its inputs. If it changed one in place, what the caller gave is changed too."""
    if any(isinstance(key, int) for key in seen.modified):
        given.copy_(given == 0)


def empty_rows_aside(slip: Callable, drive: Callable) -> Callable:
    """A mark: the output is that of a slip, but for queries that see no key at all. `softmax` makes their rows NaN,
    PyTorch's own attention 0."""

    def shown(seen: Observation) -> bool:
        pairs = zip(tree_leaves(seen.output), tree_leaves(drive(slip, *seen.args)), strict=True)
        numbers = [(got.nan_to_num(0.0), like.nan_to_num(0.0)) for got, like in pairs if isinstance(like, Tensor)]
        return all(agree(got, like, tolerance(seen.args)) for got, like in numbers)

    return shown
