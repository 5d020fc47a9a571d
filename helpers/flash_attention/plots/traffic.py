"""Pictures of what attention moves: bytes and time over the length, and where both algorithms stand under the roof."""

from collections.abc import Callable

import matplotlib.pyplot as plt

from helpers.complexity import roofline
from helpers.measuring.devices import A100, DATASHEETS, Device
from helpers.style import KEY, OUTPUT, QUERY, SKY, VALUE, WEIGHT, as_text, show, waits_for

from .. import traffic

__all__ = ["attention_on_roofline", "traffic_against_n"]

LENGTHS = [2**power for power in range(9, 18)]
CHIPS = {16: SKY, 48: OUTPUT, 164: QUERY}  # kB of shared memory
BYTES = {2.0**20: "1 MB", 2.0**25: "32 MB", 2.0**30: "1 GB", 2.0**35: "32 GB"}
TIMES = {1e-6: "1 µs", 1e-5: "10 µs", 1e-4: "0.1 ms", 1e-3: "1 ms", 1e-2: "10 ms", 1e-1: "100 ms"}


@waits_for("hbm_traffic")
def traffic_against_n(standard: Callable, tiled: Callable, d: int = 64) -> None:
    """Bytes of one head in 16 bits over n, for three sizes of chip, and the time that they take on an A100 beside the arithmetic's."""
    size = A100.dtype.itemsize
    far = [standard(n, d, size) for n in LENGTHS]
    near = {kilobytes: [tiled(n, d, kilobytes * 1024, size) for n in LENGTHS] for kilobytes in CHIPS}
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.3))
    _moved(axes[0], far, near)
    _times(axes[1], far, near[164], d)
    for axis, ticks in zip(axes, (BYTES, TIMES), strict=True):
        axis.set_yticks(list(ticks), ticks.values())
        axis.set_xticks(LENGTHS[1::2], [f"{n // 1024}k" for n in LENGTHS[1::2]])
        axis.minorticks_off()
        axis.set(xlabel="tokens n")
    axes[0].set_title(f"bytes moved for one head, d = {d}, 16 bits")
    axes[1].set_title("the same as time on an A100, nothing overlapping")
    show()


def _moved(axis, far: list[int], near: dict[int, list[int]]) -> None:
    axis.loglog(LENGTHS, far, color=KEY, lw=3, alpha=0.6, label="standard")
    for kilobytes, values in near.items():
        label = f"tiled, {kilobytes} kB on the chip: {far[-1] / values[-1]:.1f} times fewer"
        axis.loglog(
            LENGTHS, values, color=CHIPS[kilobytes], lw=2, ls=(0, (4, 2)) if kilobytes == 16 else "-", label=label
        )
    axis.set_ylim(top=30 * far[-1])
    axis.legend(frameon=False, fontsize=9, loc="upper left")


def _times(axis, far: list[int], near: list[int], d: int) -> None:
    """At full bandwidth and at full speed: whichever takes longer sets the pace."""
    computing = [traffic.attention_flops(n, d) / A100.peak for n in LENGTHS]
    moving = [[value / A100.bandwidth for value in values] for values in (far, near)]
    axis.loglog(LENGTHS, moving[0], color=KEY, lw=3, alpha=0.6, label="standard: moving")
    axis.loglog(LENGTHS, computing, color=OUTPUT, ls="--", lw=2, label="both: computing")
    axis.loglog(LENGTHS, moving[1], color=QUERY, lw=2, label="tiled, 164 kB: moving")
    axis.fill_between(LENGTHS, computing, moving[0], color=KEY, alpha=0.12, lw=0)
    middle = LENGTHS.index(8192)
    height = (computing[middle] * moving[0][middle]) ** 0.5
    axis.text(
        LENGTHS[middle],
        height,
        "units wait for memory",
        ha="center",
        va="center",
        fontsize=9,
        color=as_text(KEY),
        rotation=32,
    )
    axis.legend(frameon=False, fontsize=9, loc="upper left")


def attention_on_roofline(d: int = 64, n: int = 16384) -> None:
    """The roofs of three GPUs; on each the standard algorithm (ring) and the tiled one with that GPU's shared memory (dot)."""
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
