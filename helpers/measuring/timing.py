"""A stopwatch for notebooks: the best of several tries, and a GPU is waited for."""

import time
from collections.abc import Callable

import torch


def seconds(function: Callable[[], object], tries: int = 5) -> float:
    """The shortest time that `function()` took. A first call, which may have to warm up, isn't counted."""
    function()
    return min(_once(function) for _ in range(tries))


def _once(function: Callable[[], object]) -> float:
    _finish()
    start = time.perf_counter()
    function()
    _finish()
    return time.perf_counter() - start


def _finish() -> None:
    """GPU work runs on after a call returns: wait until it is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
