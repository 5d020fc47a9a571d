"""Pictures of the scan: how a prefix doubles its reach, why a tanh step doesn't compose, and a race."""

from collections.abc import Callable, Sequence
from functools import partial

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.measuring.timing import seconds
from helpers.style import EDGE, KEY, MASKED, OUTPUT, QUERY, as_text, show, waits_for

__all__ = ["composed_steps", "scan_race", "scan_rounds"]


def scan_rounds(n: int = 8) -> None:
    """The same prefixes twice: as a chain of n − 1 operators, and in ⌈log2 n⌉ rounds that double the reach."""
    chain = [[min(i + 1, step + 1) if i <= step else 1 for i in range(n)] for step in range(n)]
    doubling, reach = [[1] * n], 1
    while reach < n:
        doubling.append([min(i + 1, 2 * reach) for i in range(n)])
        reach *= 2
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.3))
    _rounds(axes[0], chain, lambda step: [(step - 1, step)], "one after the other")
    _rounds(
        axes[1],
        doubling,
        lambda step: [(i - 2 ** (step - 1), i) for i in range(2 ** (step - 1), n)],
        "doubling the reach",
    )
    show()


def _rounds(axis, covered: list[list[int]], pairs: Callable[[int], list[tuple[int, int]]], title: str) -> None:
    """A row per round. Where a cell changes: how many elements it covers, and lines from those that were combined."""
    n = len(covered[0])
    for step, row in enumerate(covered):
        for i, count in enumerate(row):
            if step and count == covered[step - 1][i]:  # it waits, or it is done
                axis.plot(i, -step, "o", ms=3, color=EDGE, zorder=1)
                continue
            complete = count == i + 1
            axis.text(
                i,
                -step,
                count,
                ha="center",
                va="center",
                fontsize=9,
                zorder=3,
                color="white" if complete else "black",
                bbox={"boxstyle": "round,pad=0.25", "facecolor": QUERY if complete else MASKED, "edgecolor": "white"},
            )
        for source, target in pairs(step) if step else []:
            axis.plot([source, target], [1 - step, -step], color=KEY, lw=1.1, zorder=1)
            axis.plot([target, target], [1 - step, -step], color=OUTPUT, lw=0.7, zorder=1)
    rounds = len(covered) - 1
    axis.set(title=f"{title}: {rounds} rounds", xlim=(-0.6, n - 0.4), ylim=(-rounds - 0.6, 0.6))
    axis.set_xticks(range(n), [f"$x_{i + 1}$" for i in range(n)])
    axis.set_yticks(range(0, -rounds - 1, -1), ["start", *map(str, range(1, rounds + 1))], fontsize=8)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def composed_steps(counts: Sequence[int] = (1, 2, 4, 8)) -> None:
    """The last state as a function of the first, over several steps: a line stays a line; tanh steps bend ever more."""
    generator = torch.Generator().manual_seed(3)
    turns = [torch.linalg.qr(torch.randn(4, 4, generator=generator)).Q for _ in range(max(counts))]
    start = torch.linspace(-2, 2, 400)[:, None] * torch.tensor([[1.0, 0.5, -0.5, 0.2]])
    figure, axes = plt.subplots(1, 2, figsize=(10, 2.7))
    for axis, step, title in zip(axes, (_linear_step, _tanh_step), ("linear steps", "tanh steps"), strict=True):
        state = start
        for index, turn in enumerate(turns, start=1):
            state = step(state, turn)
            if index in counts:
                colour = plt.colormaps["YlGnBu"](0.3 + 0.65 * counts.index(index) / len(counts))
                axis.plot(start[:, 0], state[:, 0], color=colour, lw=1.8, label=f"{index} step{'s' * (index > 1)}")
        axis.set(title=title, xlabel="state before", ylabel="state after")
    axes[0].set_ylim(-3.6, 2.7)
    axes[0].legend(frameon=False, fontsize=8, loc="lower left", ncols=2)
    show()


def _linear_step(state: Tensor, turn: Tensor) -> Tensor:
    return state @ turn


def _tanh_step(state: Tensor, turn: Tensor) -> Tensor:
    return torch.tanh(2 * state @ turn)


@waits_for("associative_scan")
def scan_race(combine: Callable, scan: Callable, lengths: Sequence[int] = (16, 64, 256, 1024, 4096)) -> None:
    """h_t = a_t h_{t−1} + b_t by a loop over the tokens and by the student's scan: measured time, and depth."""
    times: dict[str, list[float]] = {"loop over the tokens": [], "your scan": []}
    for n in lengths:
        steps = torch.stack([0.5 + torch.rand(n, 1) / 2, torch.randn(n, 1)], dim=-1).squeeze(1)
        ways = partial(_loop, steps), partial(lambda steps: scan(combine, steps)[:, 1], steps)
        for measured, work in zip(times.values(), ways, strict=True):
            measured.append(1e3 * seconds(work))
    gap = (_loop(steps) - scan(combine, steps)[:, 1]).abs().max().item()
    figure, (clock, depth) = plt.subplots(1, 2, figsize=(10, 3))
    depths = {"loop over the tokens": list(lengths), "your scan": [_depth(scan, n) for n in lengths]}
    for axis, lines in ((clock, times), (depth, depths)):
        for (name, values), colour in zip(lines.items(), (KEY, QUERY), strict=True):
            axis.plot(lengths, values, "o-", color=colour, label=name)
            axis.annotate(
                f"{values[-1]:,.0f}" if values[-1] > 100 else f"{values[-1]:.3g}",
                (lengths[-1], values[-1]),
                xytext=(8, -3),
                textcoords="offset points",
                color=as_text(colour),
            )
        axis.set(xscale="log", yscale="log", xlabel="tokens n", xlim=(lengths[0] / 1.3, lengths[-1] * 2.6))
        axis.set_xticks(lengths, lengths)
        axis.minorticks_off()
    clock.set(title="measured on this CPU (ms)")
    depth.set(title="steps that must wait for each other")
    clock.legend(frameon=False)
    show()
    print(f"Largest difference between the two at n = {lengths[-1]}: {gap:.1g}.")


def _depth(scan: Callable, n: int) -> int:
    """The longest chain of operators in a scan of n elements: the operator counts its own nesting."""
    return int(scan(lambda first, second: torch.maximum(first, second) + 1, torch.zeros(n, 1)).max())


def _loop(steps: Tensor) -> Tensor:
    state, states = torch.zeros(()), []
    for a, b in steps:
        state = a * state + b
        states.append(state)
    return torch.stack(states)
