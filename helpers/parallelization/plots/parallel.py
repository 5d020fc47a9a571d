"""Pictures of attention as work that can be handed out, with times measured on this machine."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.environment import device, device_name
from helpers.measuring.timing import seconds
from helpers.style import FAINT_QUERY, KEY, QUERY, as_text, show, waits_for

__all__ = ["time_over_length", "worker_pool"]


@waits_for("rnn_encoder", "attention_one_token")
def time_over_length(
    rnn: Callable, attention: Callable, lengths: Sequence[int] = (16, 64, 256, 1024, 2048), d: int = 64
) -> None:
    """Measured time of an RNN layer and of attention over the number of tokens, on this device."""
    times: dict[str, list[float]] = {"RNN, token after token": [], "attention, matrix form": []}
    where = device()
    weights, zeros = [torch.randn(d, d, device=where) / d**0.5 for _ in range(2)], torch.zeros(d, device=where)
    for n in lengths:
        x = torch.randn(1, n, d, device=where)
        works = lambda: rnn(x, *weights, zeros), lambda: attention(x[0], x[0], x[0])  # noqa: B023
        for measured, work in zip(times.values(), works, strict=True):
            measured.append(1e3 * seconds(work))
    figure, axis = plt.subplots(figsize=(7.5, 3.2))
    for (name, measured), colour in zip(times.items(), (KEY, QUERY), strict=True):
        axis.plot(lengths, measured, "o-", color=colour, label=name)
        higher = measured[-1] == max(values[-1] for values in times.values())
        axis.annotate(
            f"{measured[-1]:.3g} ms",
            (lengths[-1], measured[-1]),
            xytext=(8, 1 if higher else -9),
            textcoords="offset points",
            color=as_text(colour),
        )
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="tokens n",
        ylabel="milliseconds",
        title=f"one layer, d = {d}, on {device_name()}",
    )
    axis.set_xticks(lengths, lengths)
    axis.set_xlim(lengths[0] / 1.3, lengths[-1] * 2.2)
    axis.minorticks_off()
    axis.legend(frameon=False)
    show()


@waits_for("chunked_attention")
def worker_pool(chunk: Callable[..., Tensor], n: int = 2048, size: int = 128, d: int = 64) -> None:
    """Run the chunks in pools of 1, 2, … workers, each worker on one thread; draw who did what when, and the time."""
    q, k, v = (torch.randn(n, d) for _ in range(3))
    pools = [count for count in (1, 2, 4, 8) if count <= max(2, _cores())]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runs = [
            min((_pooled(chunk, (q, k, v), size, count) for _ in range(3)), key=lambda run: run[1]) for count in pools
        ]
        whole = torch.softmax(q @ k.T / d**0.5, dim=-1) @ v
    finally:
        torch.set_num_threads(before)
    _draw_pools(pools, runs)
    joined = runs[-1][2]
    gap = (
        f"{(joined - whole).abs().max().item():.1g}"
        if joined.shape == whole.shape
        else f"none can be taken, of {tuple(joined.shape)}"
    )
    print(f"{n // size} chunks of {size} queries; largest difference from attention in one piece: {gap}.")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pooled(chunk: Callable, tensors: tuple, size: int, workers: int) -> tuple[list[tuple], float, Tensor]:
    """The jobs as (number, worker, start, duration), the time of the whole, and the output."""
    jobs, names = [], {}

    def work(start: int) -> Tensor:
        begin = time.perf_counter()
        rows = chunk(*tensors, start, start + size)
        worker = names.setdefault(threading.get_ident(), len(names))
        jobs.append((1 + start // size, worker, begin - opened, time.perf_counter() - begin))
        return rows

    with ThreadPoolExecutor(workers) as pool:
        opened = time.perf_counter()
        parts = list(pool.map(work, range(0, len(tensors[0]), size)))
        total = time.perf_counter() - opened
    return jobs, total, torch.cat(parts)


def _draw_pools(pools: list[int], runs: list[tuple]) -> None:
    """All pools on one axis of time: a row a worker, a numbered bar a chunk, and behind them the time of the whole."""
    rows, alone = sum(pools), 1e3 * runs[0][1]
    figure, axis = plt.subplots(figsize=(9.5, 0.36 * rows + 0.34 * len(pools) + 0.9))
    y, ticks = 0.0, {}
    for workers, (jobs, total, _) in zip(pools, runs, strict=True):
        _pool(axis, y, workers, jobs, 1e3 * total, alone)
        ticks |= {y + worker: f"worker {worker + 1}" for worker in range(workers)}
        y += workers + 0.9
    axis.set_yticks(list(ticks), list(ticks.values()), fontsize=9)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.set(xlim=(0, 1.22 * alone), ylim=(y - 0.7, -0.9), xlabel="milliseconds since the pool was opened")
    axis.set_title(
        "the same chunks (numbers) for more workers; pale: a worker with nothing to do", fontsize=10, loc="left"
    )
    took = ", ".join(f"{1e3 * total:.0f} ms with {workers}" for workers, (_, total, _) in zip(pools, runs, strict=True))
    show(
        f"Who worked on which chunk when, one row per worker, for pools of {', '.join(map(str, pools))}. It all took "
        f"{took}."
    )


def _pool(axis, y: float, workers: int, jobs: list[tuple], total: float, alone: float) -> None:
    """One pool: its workers' rows from y on, its end, and where it would end if work were shared without loss."""
    axis.barh([y + worker for worker in range(workers)], total, height=0.82, color=FAINT_QUERY)
    for number, worker, start, duration in jobs:
        axis.barh(y + worker, 1e3 * duration, left=1e3 * start, height=0.82, color=QUERY, edgecolor="white", lw=0.8)
        if duration > 0.016 * alone / 1e3:  # otherwise its number has no room
            axis.text(
                1e3 * (start + duration / 2), y + worker, number, ha="center", va="center", fontsize=8, color="white"
            )
    share = alone / workers
    if workers > 1:
        axis.plot([share, share], [y - 0.55, y + workers - 0.45], color=KEY, lw=2.2)
        axis.text(
            share, y - 0.55, f"1/{workers} of {alone:.0f} ms ", ha="right", va="bottom", fontsize=8, color=as_text(KEY)
        )
    axis.text(max(total, share), y + (workers - 1) / 2, f"  {total:.0f} ms", va="center", fontsize=10, weight="bold")
