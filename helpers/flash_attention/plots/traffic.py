"""Pictures of what attention moves: bytes and time over the length, and where both algorithms stand under the roof."""

from collections.abc import Callable

import matplotlib.pyplot as plt

from helpers.complexity import roofline
from helpers.labels import name_lines
from helpers.measuring.devices import A100, DATASHEETS, Device
from helpers.style import KEY, OUTPUT, QUERY, SKY, VALUE, WEIGHT, as_text, show, waits_for

from .. import traffic

__all__ = ["attention_on_roofline", "traffic_against_n"]

LENGTHS = [2**power for power in range(9, 18)]
CHIPS = {16: SKY, 48: VALUE, 164: QUERY}  # kB of shared memory
AT = 2**14


@waits_for("hbm_traffic")
def traffic_against_n(standard: Callable, tiled: Callable, d: int = 64) -> None:
    """One head in 16 bits: the bytes that both ways move, with tiles for three sizes of chip; and on an A100 the time
    for moving beside the time for computing."""
    size = A100.dtype.itemsize
    moved = {"standard": (lambda n: standard(n, d, size), KEY)}
    for kilobytes, colour in CHIPS.items():
        moved[f"tiles, {kilobytes} kB"] = lambda n, chip=1024 * kilobytes: tiled(n, d, chip, size), colour
    figure, axes = plt.subplots(1, 2, figsize=(12, 3.6), layout="constrained", width_ratios=[1.1, 1])
    said = _moved(axes[0], {name: ([way(n) for n in LENGTHS], colour) for name, (way, colour) in moved.items()})
    said += _times(axes[1], {name: way(AT) for name, (way, _) in moved.items()}, traffic.attention_flops(AT, d))
    show(f"Bytes over n, log-log, and times at n = {AT}. {'; '.join(said)}.")


def _moved(axis, ways: dict[str, tuple[list[int], str]]) -> list[str]:
    """A line for each way; at its end how many times fewer bytes than the first."""
    (most, *_), ends = next(iter(ways.values())), []
    for name, (values, colour) in ways.items():
        axis.loglog(LENGTHS, values, color=colour, lw=2)
        fewer = f": {most[-1] / values[-1]:.1f} times fewer" * (values is not most)
        ends.append((name + fewer, values[-1], colour))
    axis.set_xticks(LENGTHS[1::2], [f"{n // 1024}k" for n in LENGTHS[1::2]])
    axis.set_yticks([2**20, 2**30, 2**40], ["1 MB", "1 GB", "1 TB"])
    axis.minorticks_off()
    axis.set_title("bytes moved", loc="left")
    axis.set_xlabel("tokens n")
    name_lines(axis, LENGTHS[-1], ends, apart=0.1, size=9.5)
    return [name for name, *_ in ends]


def _times(axis, ways: dict[str, int], flops: int) -> list[str]:
    """A pair of bars for each way: the longer one sets the pace."""
    moving = [1e3 * count / A100.bandwidth for count in ways.values()]
    computing = 1e3 * flops / A100.peak
    for shift, times, colour, label in (
        (-0.2, moving, KEY, "moving"),
        (0.2, [computing] * len(ways), QUERY, "computing"),
    ):
        bars = axis.barh([row + shift for row in range(len(ways))], times, 0.38, color=colour, label=label)
        axis.bar_label(bars, [f"{time:.2f}" for time in times], padding=3)
    axis.set_yticks(range(len(ways)), ways)
    axis.set_title(f"milliseconds on an A100, n = {AT // 1024}k", loc="left")
    axis.set(xticks=[], xlim=(0, 1.15 * max(moving)))
    axis.spines["bottom"].set_visible(False)
    axis.invert_yaxis()
    axis.legend(frameon=False, loc="lower right")
    return [f"{name}: {time:.2f} ms for moving, {computing:.2f} for computing" for name, time in zip(ways, moving)]


def attention_on_roofline(d: int = 64, n: int = 16384) -> None:
    """The roofs of three GPUs; on each the standard algorithm (ring) and the tiled one with its shared memory (dot)."""
    intensities = [2 ** (power / 32) for power in range(112, 358)]
    figure, axis = plt.subplots(figsize=(9, 4.6))
    for machine, colour in zip(DATASHEETS, (VALUE, KEY, WEIGHT), strict=True):
        roof = [_reached(intensity, machine) for intensity in intensities]
        axis.loglog(intensities, roof, color=colour, lw=2.5, alpha=0.5)
        axis.text(
            intensities[-1], roof[-1] * 1.08, machine.name, ha="right", va="bottom", fontsize=9.5, color=as_text(colour)
        )
        _step_up(axis, machine, *_intensities(machine, n, d), colour)
    axis.plot([], [], "o", ms=9, mfc="white", mec=OUTPUT, mew=2, label=f"standard: d/2 = {d // 2} FLOPs per byte")
    axis.plot([], [], "o", ms=9, color=OUTPUT, label="tiled: nearly one FLOP per byte for each row of a tile")
    axis.set(
        title=f"attention forward, n = {n:,}, d = {d}, 16 bits", xlabel="FLOPs per byte", ylabel="attainable TFLOP/s"
    )
    axis.set_xticks([16, 32, 64, 128, 256, 512, 1024, 2048], [16, 32, 64, 128, 256, 512, 1024, 2048])
    axis.set_yticks([1e13, 1e14, 1e15], [10, 100, 1000])
    axis.minorticks_off()
    axis.margins(y=0.1)
    axis.legend(frameon=False, loc="lower right")
    show()


def _step_up(axis, machine: Device, standard: float, tiled: float, colour: str) -> None:
    """From the ring up the roof to the dot, and how many times faster that can be."""
    low, high = _reached(standard, machine), _reached(tiled, machine)
    axis.plot(standard, low, "o", ms=9, mfc="white", mec=colour, mew=2)
    axis.plot(tiled, high, "o", ms=9, color=colour)
    words = f"{tiled:.0f} FLOPs per byte, {high / low:.1f} times as fast"
    axis.annotate(
        words, (tiled, high), xytext=(6, -16), textcoords="offset points", fontsize=9.5, color=as_text(colour)
    )


def _reached(intensity: float, machine: Device) -> float:
    return roofline.roofline(intensity * machine.dtype.itemsize, 1, machine.dtype, machine.peak, machine.bandwidth)[0]


def _intensities(machine: Device, n: int, d: int) -> tuple[float, float]:
    """FLOPs per byte of the standard algorithm, and of the tiled one with all the shared memory of a multiprocessor."""
    size, flops = machine.dtype.itemsize, traffic.attention_flops(n, d)
    tiled = traffic.tiled_traffic(n, d, traffic.ON_CHIP[machine], size)
    return flops / traffic.standard_traffic(n, d, size), flops / tiled
