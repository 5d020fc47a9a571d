"""Pictures of unit 09: what tiling saves and costs, counted and measured."""

import functools
import math
import time
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers.engine.observe import Observation, observe
from helpers.environment import device
from helpers.labels import name_lines
from helpers.measuring import growth
from helpers.measuring.devices import this_machine
from helpers.measuring.kernel_traffic import numbers_moved
from helpers.measuring.live_memory import peak_bytes
from helpers.measuring.timing import seconds
from helpers.qkv_attention.attention import scaled_dot_product_attention
from helpers.style import HALF_WEIGHT, KEY, MASKED, OUTPUT, QUERY, WEIGHT, as_text, show, waits_for

from .. import traffic

__all__ = ["backward_memory", "causal_saving", "kernel_speed", "largest_tensor", "time_and_memory"]


def _heads(n: int, d: int, heads: int = 1, **options) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(1, heads, n, d, **options) for _ in range(3))


def _counted(function: Callable, *args) -> Observation:
    return _that_worked(observe(function, args))


def _that_worked(seen: Observation) -> Observation:
    """An answer that isn't written yet, or fails, says so as if it had been called directly."""
    if error := seen.error or seen.backward_error:
        raise NotImplementedError if error.kind == "NotImplementedError" else RuntimeError(str(error))
    return seen


@waits_for("flash_attention_forward")
def largest_tensor(forward: Callable, lengths: Sequence[int], d: int, block: int) -> None:
    """Elements of the largest tensor that was ever made, plain and tiled, with the exponents of n."""
    curves = {"standard": [], "yours, tiled": []}
    for n in lengths:
        q, k, v = _heads(n, d)
        curves["standard"].append(_counted(scaled_dot_product_attention, q, k, v).largest)
        curves["yours, tiled"].append(_counted(forward, q, k, v, False, block, block).largest)
    figure, axis = plt.subplots(figsize=(6.5, 3.2))
    for (name, values), colour, mark in zip(curves.items(), (OUTPUT, WEIGHT), "so"):
        axis.loglog(
            lengths, values, mark + "-", color=colour, label=f"{name}: n^{growth.slope(lengths[-3:], values[-3:]):.1f}"
        )
    axis.set(title=f"elements of the largest tensor (d = {d}, tiles of {block})", xlabel="n")
    axis.set_xticks(lengths, lengths)
    axis.minorticks_off()
    axis.legend(frameon=False)
    show()


@waits_for("flash_attention_forward")
def causal_saving(
    forward: Callable, n: int = 240, d: int = 16, sides: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 24)
) -> None:
    """Counted FLOPs of the causal pass over those of the full one, for ever smaller tiles."""
    q, k, v = _heads(n, d)
    shares = []
    for side in sides:
        full, causal = (_counted(forward, q, k, v, flag, n // side, n // side).flops for flag in (False, True))
        shares.append(causal / full)
    figure, axis = plt.subplots(figsize=(6.5, 3))
    axis.plot(
        sides,
        [(side + 1) / (2 * side) for side in sides],
        color=OUTPUT,
        ls="--",
        label="½ (1 + 1/T): triangle of tiles",
    )
    axis.plot(sides, shares, "o", color=WEIGHT, label="yours, counted")
    axis.axhline(0.5, color=MASKED, zorder=0)
    axis.set(
        title="causal FLOPs / full FLOPs", xlabel="T, tiles along one side", ylim=(0.4, 1.1), yticks=[0.5, 0.75, 1]
    )
    axis.legend(frameon=False)
    show()


@waits_for("flash_attention_backward")
def backward_memory(attention: Callable, lengths: Sequence[int], d: int = 32) -> None:
    """What forward keeps for backward, and the peak of both, over n; a line says how near the gradients are."""
    _print_gaps(attention)
    kept, peaks = ({"standard": [], "yours, tiled": []} for _ in range(2))
    for n in lengths:
        inputs = _heads(n, d, requires_grad=True)
        for name, way in zip(kept, (scaled_dot_product_attention, attention)):
            kept[name].append(_with_gradients(way, inputs).saved)
            peaks[name].append(peak_bytes(functools.partial(_both_passes, way, inputs)) / 2**20)
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 3.6))
    _growing(axes[0], "numbers kept from forward for backward", lengths, kept)
    _growing(axes[1], "peak memory of both beyond the inputs: MB", lengths, peaks)
    said = []
    for axis, curves in zip(axes, (kept, peaks)):
        most, ours = (values[-1] for values in curves.values())
        _apart(axis, lengths[-1], most, ours)
        said.append(f"{most:,.6g} and {ours:,.6g}")
    show(
        f"Two log-log plots over n, standard attention and yours. At n = {lengths[-1]} they keep {said[0]} numbers for "
        f"the backward pass, and need {said[1]} MB at their worst moment."
    )


def _print_gaps(attention: Callable) -> None:
    """How far the student's gradients are from those of plain attention, in float64."""
    inputs = [torch.randn(2, length, 8, dtype=torch.float64) for length in (40, 50, 50)]
    pairs = zip(*(_with_gradients(way, inputs).gradients for way in (attention, scaled_dot_product_attention)))
    gaps = [(ours - plain).abs().max().item() for ours, plain in pairs]
    print("Your gradients differ from PyTorch's by at most {:.0e} (dQ), {:.0e} (dK) and {:.0e} (dV).".format(*gaps))


def _both_passes(attention: Callable, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(attention(*inputs).sum(), inputs)


def _with_gradients(function: Callable, inputs: Sequence[Tensor]) -> Observation:
    return _that_worked(observe(function, tuple(inputs), gradient=True))


@waits_for("flash_attention_forward")
def time_and_memory(
    ways: dict[str, Callable], lengths: Sequence[int], d: int = 64, kernels: dict[str, Callable] | None = None
) -> None:
    """Measured time and peak memory of kinds of attention over n, one head. `kernels` join on a GPU, if they work."""
    if device().type == "cuda":
        small = _heads(48, d, device=device())
        ways = ways | {name: kernel for name, kernel in (kernels or {}).items() if not observe(kernel, small).error}
    times, peaks = ({name: [] for name in ways} for _ in range(2))
    for n in lengths:
        inputs = _heads(n, d, device=device())
        for name, way in ways.items():
            times[name].append(1e3 * _best_time(functools.partial(way, *inputs)))
            peaks[name].append(peak_bytes(functools.partial(way, *inputs)) / 2**20)
    clock = "milliseconds" if device().type == "cuda" else "milliseconds on one thread"
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 3.8))
    for axis, title, curves in zip(axes, (f"time: {clock}", "peak memory beyond the inputs: MB"), (times, peaks)):
        _growing(axis, title, lengths, curves)
    last = {name: values[-1] for name, values in peaks.items()}
    _apart(axes[1], lengths[-1], *(list(last.values())[place] for place in (0, -1)))
    said = ", ".join(f"{name}: {size:.3g} MB" for name, size in last.items())
    show(
        f"Time and peak memory of {len(ways)} kinds of attention over n, log-log, each with its exponent of n. Peak "
        f"memory at n = {lengths[-1]}: {said}."
    )


def _apart(axis, n: int, most: float, ours: float) -> None:
    """An arrow from one curve's end to the other's, and how many times less the second needs."""
    if most > ours > 0:
        axis.annotate("", (n, ours), (n, most), arrowprops={"arrowstyle": "<->", "color": KEY, "lw": 1.4})
        look = {"ha": "right", "va": "center", "fontsize": 9, "color": as_text(KEY)}
        place = n, math.sqrt(most * ours)
        axis.annotate(f"{most / ours:.0f} times\nless", place, (-5, 0), textcoords="offset points", **look)


def _growing(axis, title: str, lengths: Sequence[int], curves: dict[str, Sequence[float]]) -> None:
    """A log-log panel: each curve with its name and its exponent of n, fitted to the last three points, at its end."""
    ends = []
    for (name, values), colour, mark in zip(curves.items(), (OUTPUT, QUERY, WEIGHT, HALF_WEIGHT), "s^oD"):
        axis.loglog(lengths, values, mark + "-", color=colour)
        ends.append((f"{name}: $n^{{{growth.slope(lengths[-3:], values[-3:]):.1f}}}$", values[-1], colour))
    axis.set_title(title, fontsize=10, loc="left")
    axis.set(xlabel="tokens n")
    axis.set_xticks(lengths, lengths)
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    name_lines(axis, lengths[-1], ends, apart=0.09, size=9)


def _best_time(call: Callable[[], object]) -> float:
    """Seconds. On a CPU of this process on one thread: other programs and the number of cores don't count."""
    if device().type == "cuda":
        return seconds(call)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return min(_process_time(call) for _ in range(3))
    finally:
        torch.set_num_threads(threads)


def _process_time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


@waits_for("triton_forward")
def kernel_speed(
    kernel: Callable, tiles: Sequence[tuple[int, int]] = ((32, 32), (64, 64), (128, 64)), d: int = 64
) -> None:
    """On a GPU: TFLOP/s of the kernel for some tile sizes, under the measured ceiling. Elsewhere: what it moves."""
    q, k, v = _heads(48, 16, device=device())
    seen = observe(kernel, (q, k, v))
    if seen.error and seen.error.kind == "NotImplementedError":
        raise NotImplementedError
    if seen.error:
        print(f"The kernel did not run: {seen.error.message or seen.error.kind}")
    elif device().type == "cuda":
        _tflops(kernel, tiles, d)
    else:
        _interpreted(kernel)


def _tflops(kernel: Callable, tiles: Sequence[tuple[int, int]], d: int) -> None:
    """16 heads in float16. A tile size that the GPU has no room for is left out."""
    lengths, ceiling = (1024, 2048, 4096, 8192), this_machine().peak / 1e12
    ways = {f"yours, {a}×{b}": lambda q, k, v, a=a, b=b: kernel(q, k, v, False, a, b) for a, b in tiles}
    ways["SDPA"] = torch.nn.functional.scaled_dot_product_attention
    figure, axis = plt.subplots(figsize=(7.5, 3.8))
    for (name, way), colour in zip(ways.items(), (HALF_WEIGHT, WEIGHT, KEY, QUERY)):
        speeds = []
        for n in lengths:
            q, k, v = _heads(n, d, heads=16, device=device(), dtype=torch.float16)
            try:
                speeds.append(16 * 4 * n**2 * d / seconds(functools.partial(way, q, k, v)) / 1e12)
            except Exception as error:  # Triton has several names for "this does not fit"
                print(f"{name}, n = {n}: {type(error).__name__}")
                break
        axis.plot(lengths[: len(speeds)], speeds, "o-", color=colour, label=name)
    axis.axhline(ceiling, color=OUTPUT, ls="--", label=f"bare matrix products: {ceiling:.0f}")
    axis.set(title=f"forward TFLOP/s, 16 heads, d = {d}, float16", xlabel="n", xscale="log", ylim=(0, None))
    axis.set_xticks(lengths, lengths)
    axis.minorticks_off()
    axis.legend(frameon=False, fontsize=9)
    show()


def _interpreted(kernel: Callable, n: int = 256, d: int = 32, heights: Sequence[int] = (16, 32, 64, 128)) -> None:
    """Without a GPU a kernel is simulated: what it moves can be counted, how fast it is can't."""
    inputs = _heads(n, d)
    outputs, moved = [], {"standard attention": traffic.standard_traffic(n, d, itemsize=1)}
    for rows in heights:
        run = lambda rows=rows: outputs.append(kernel(*inputs, False, rows, 64)[0])
        moved[f"yours, tiles of {rows} queries"] = numbers_moved(run)
    gap = (torch.stack(outputs) - scaled_dot_product_attention(*inputs)).abs().max()
    print(f"No GPU here, so your kernel is interpreted. Largest difference from plain attention: {gap:.0e}")
    standard = moved["standard attention"]
    words = [f"{count:,}" + f", {standard / count:.1f} times fewer" * (count != standard) for count in moved.values()]
    figure, axis = plt.subplots(figsize=(8.5, 2.8))
    bars = axis.barh(list(moved), list(moved.values()), color=[OUTPUT, *[WEIGHT] * len(heights)])
    axis.bar_label(bars, words, padding=4)
    axis.set_title(f"numbers moved between memory and chip (n = {n}, d = {d})", loc="left")
    axis.set(xticks=[], xlim=(0, 1.25 * max(moved.values())))
    axis.spines["bottom"].set_visible(False)
    axis.invert_yaxis()
    show(f"Bars of the numbers moved for n = {n}. {'; '.join(map(': '.join, zip(moved, words)))}.")
