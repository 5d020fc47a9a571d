"""How many numbers an interpreted kernel moves between memory and chip: what its loads and stores let through."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

import numpy as np


def numbers_moved(call: Callable[[], object]) -> int:
    """By all kernels that `call()` launches."""
    counts: list[int] = []
    with _noting("create_masked_load", 1, counts), _noting("create_masked_store", 2, counts):
        call()
    return sum(counts)


def _noting(name: str, mask: int, counts: list[int]) -> AbstractContextManager:
    """The interpreter's function of this name notes how many places its mask (an argument's number) lets through."""
    from triton.runtime.interpreter import InterpreterBuilder  # after `helpers.kernels`: the first import settles it

    access = getattr(InterpreterBuilder, name)

    def noted(self, *args, **kwargs):
        through = np.asarray(args[mask].data).astype(bool)
        counts.append(int(np.broadcast_to(through, np.shape(args[0].data)).sum()))
        return access(self, *args, **kwargs)

    return mock.patch.object(InterpreterBuilder, name, noted)
