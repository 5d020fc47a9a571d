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
TIMES = {0.25: "¼", 0.5: "½", 1: "1", 2: "2", 4: "4", 8: "8", 16: "16"}


@waits_for("hbm_traffic")
def traffic_against_n(standard: Callable, tiled: Callable, d: int = 64) -> None:
    """One head in 16 bits: how many times fewer bytes tiles move, for three sizes of chip, and the time for moving over
    the time for computing on an A100."""
    size = A100.dtype.itemsize
    far = [standard(n, d, size) for n in LENGTHS]
    near = {kilobytes: [tiled(n, d, kilobytes * 1024, size) for n in LENGTHS] for kilobytes in CHIPS}
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.9), layout="constrained")
    _fewer(axes[0], far, near)
    _waits(axes[1], {"standard": (far, KEY), "tiled, 164 kB": (near[164], QUERY)}, d)
    for axis in axes:
        axis.set(xlabel="tokens n", xscale="log", yscale="log", xlim=(LENGTHS[0], 12 * LENGTHS[-1]))
        axis.set_xticks(LENGTHS[1::2], [f"{n // 1024}k" for n in LENGTHS[1::2]])
        axis.set_yticks(list(TIMES), TIMES.values())
        axis.minorticks_off()
    show()


def _fewer(axis, far: list[int], near: dict[int, list[int]]) -> None:
    axis.hlines(1, LENGTHS[0], LENGTHS[-1], color=KEY, lw=3, alpha=0.6)
    for kilobytes, values in near.items():
        times = [one / other for one, other in zip(far, values, strict=True)]
        axis.plot(LENGTHS, times, color=CHIPS[kilobytes], lw=2, ls=(0, (4, 2)) if kilobytes == 16 else "-")
        _name(axis, times[-1], f"{kilobytes} kB: {times[-1]:.1f} times", CHIPS[kilobytes])
    axis.set_title("how many times fewer bytes tiles move")
    axis.set_ylim(0.7, 16)


def _waits(axis, ways: dict[str, tuple[list[int], str]], d: int) -> None:
    """Above 1 memory sets the pace, below it arithmetic."""
    axis.axhspan(1, 16, color=KEY, alpha=0.12, lw=0)
    axis.axhline(1, color=OUTPUT, lw=1, ls="--")
    for name, (moved, colour) in ways.items():
        ratio = [
            n_bytes / A100.bandwidth / (traffic.attention_flops(n, d) / A100.peak)
            for n, n_bytes in zip(LENGTHS, moved, strict=True)
        ]
        axis.plot(LENGTHS, ratio, color=colour, lw=2)
        _name(axis, ratio[-1], f"{name}: {ratio[-1]:.2g}", colour)
    for height, text, upright in (
        (14, "the units wait for memory", "top"),
        (0.28, "memory waits for the units", "bottom"),
    ):
        axis.text(LENGTHS[0] * 1.15, height, text, color=as_text(OUTPUT), va=upright)
    axis.set_title("time for moving over time for computing, on an A100")
    axis.set_ylim(0.25, 16)


def _name(axis, height: float, text: str, colour: str) -> None:
    """What a line is, beside its end."""
    axis.text(LENGTHS[-1] * 1.2, height, text, color=as_text(colour), va="center", fontsize=9)


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
