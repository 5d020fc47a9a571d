"""The ladder of matrix products: how fast this machine multiplies, from a loop in Python to a GPU."""

from collections.abc import Callable, Iterator

import matplotlib.pyplot as plt
import numpy as np
import torch

from helpers.measuring.timing import seconds
from helpers.style import QUERY, show, waits_for

__all__ = ["gflops_ladder"]


@waits_for("matmul_gflops")
def gflops_ladder(gflops: Callable[[int, int, int, float], float]) -> None:
    """Measured GFLOP/s of one matrix product in pure Python, numpy, PyTorch on one thread and on all, and on a GPU if
    there is one."""
    rungs = {name: float(gflops(size, size, size, seconds(product))) for name, size, product in _rungs()}
    figure, axis = plt.subplots(figsize=(8, 0.55 * len(rungs) + 1.1))
    slowest, speeds = min(rungs.values()), list(rungs.values())
    axis.plot(speeds, range(len(rungs)), "o", ms=9, color=QUERY)
    for row, speed in enumerate(speeds):
        times = f", {speed / slowest:,.0f} times the slowest" if speed > slowest else ""
        axis.annotate(
            f"{speed:,.3g} GFLOP/s{times}", (speed, row), (10, 0), textcoords="offset points", va="center", fontsize=9
        )
    axis.set(
        xscale="log", xlabel="GFLOP/s (each tick is ten times the one before)", xlim=(slowest / 3, 500 * max(speeds))
    )
    axis.set_yticks(range(len(rungs)), rungs)
    axis.grid(axis="x", alpha=0.3)
    axis.set(ylim=(len(rungs) - 0.5, -0.5), title="one matrix product on this machine")
    show(
        "Measured GFLOP/s of a matrix product: "
        + ", ".join(f"{name} {speed:.3g}" for name, speed in rungs.items())
        + "."
    )


def _rungs() -> Iterator[tuple[str, int, Callable]]:
    """Name, size of the square matrices, and the product to be timed. One by one: each sets its own threads."""
    a = torch.randn(1024, 1024)
    small, array, threads = a[:64, :64].tolist(), a.numpy(), torch.get_num_threads()
    yield "pure Python", 64, lambda: _python_matmul(small, small)
    yield "numpy", 1024, lambda: np.matmul(array, array)
    try:
        torch.set_num_threads(1)
        yield "torch, 1 thread", 1024, lambda: a @ a
    finally:
        torch.set_num_threads(threads)
    if threads > 1:
        yield f"torch, {threads} threads", 1024, lambda: a @ a
    if torch.cuda.is_available():
        large = torch.randn(4096, 4096, device="cuda")
        yield "torch, GPU", 4096, lambda: large @ large


def _python_matmul(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    columns = list(zip(*b, strict=True))
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]
