"""Pictures of the roofline: devices, workloads under their roofs, and products measured on this machine."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch

from helpers.environment import device
from helpers.measuring.devices import Device
from helpers.measuring.timing import seconds
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, show, waits_for

__all__ = ["measured_products", "rooflines"]

COLOURS = (VALUE, KEY, WEIGHT, QUERY)
INTENSITIES = [2 ** (power / 4) for power in range(-8, 65)]


def roof_of(roofline: Callable, machine: Device) -> tuple[list[float], list[float]]:
    """Intensities, that of the ridge among them, and the attainable FLOP/s at each."""
    places, size = sorted([*INTENSITIES, machine.ridge]), machine.dtype.itemsize
    return places, [roofline(place * size, 1, machine.dtype, machine.peak, machine.bandwidth)[0] for place in places]


@waits_for("roofline")
def rooflines(
    roofline: Callable, devices: Sequence[Device], loads: dict[str, Callable[[], tuple[float, float]]]
) -> None:
    """The roof of every device; each load (FLOPs, elements) as a dotted line, with a dot under each roof."""
    figure, axis = plt.subplots(figsize=(9, 5))
    for machine, colour in zip(devices, COLOURS):
        places, roof = roof_of(roofline, machine)
        axis.loglog(places, roof, color=colour, lw=2)
        axis.text(
            places[-1],
            roof[-1] * 1.12,
            _in_words(machine),
            color=as_text(colour),
            fontsize=8.5,
            ha="right",
            va="bottom",
        )
        for flops, elements in (load() for load in loads.values()):
            reached, _ = roofline(flops, elements, machine.dtype, machine.peak, machine.bandwidth)
            axis.plot(flops / elements / machine.dtype.itemsize, reached, "o", color=colour, ms=7, mec="white")
    top = 4 * max(machine.peak for machine in devices)
    for name, (flops, elements) in ((name, load()) for name, load in loads.items()):
        axis.axvline(flops / elements / 2, color=OUTPUT, ls=":", lw=1)
        axis.text(flops / elements / 2, top, name, ha="center", fontsize=9, color=OUTPUT, backgroundcolor="white")
    axis.set(ylim=(None, 3 * top), ylabel="attainable FLOP/s")
    axis.set_xlabel("arithmetic intensity in FLOPs per byte (dotted: at 2 bytes an element)")
    axis.set_title(
        "what each device can reach at best: a slope for its memory, a ceiling for its arithmetic",
        fontsize=10.5,
        loc="left",
    )
    reached = {
        name: flops / elements / 2 for name, (flops, elements) in ((name, load()) for name, load in loads.items())
    }
    show(
        f"Roofs of {len(devices)} devices over arithmetic intensity on log-log axes. "
        + "; ".join(f"“{name}” lies at {place:.0f} FLOPs per byte" for name, place in reached.items())
        + " in 16 bits."
    )


def _in_words(machine: Device) -> str:
    peak = f"{machine.peak / 1e12:.0f} TFLOP/s" if machine.peak > 1e12 else f"{machine.peak / 1e9:.0f} GFLOP/s"
    return f"{machine.name}: {peak} in {str(machine.dtype).removeprefix('torch.')}, {machine.bandwidth / 1e9:,.0f} GB/s"


@waits_for("arithmetic_intensity", "roofline")
def measured_products(roofline: Callable, intensity: Callable, machine: Device, width: int) -> None:
    """(n, d) times (d, d) for n = 1 … 256: the speed measured here, under the roof measured here."""
    weight = torch.randn(width, width, device=device(), dtype=machine.dtype)
    rows = [4**power for power in range(5)]
    inputs = [torch.randn(n, width, device=device(), dtype=machine.dtype) for n in rows]
    speeds = [2 * n * width**2 / seconds(lambda x=x: x @ weight) for n, x in zip(rows, inputs)]
    places = [intensity(n, width, width, machine.dtype) for n in rows]
    figure, axis = plt.subplots(figsize=(7.5, 3.6))
    axis.loglog(*roof_of(roofline, machine), color=QUERY, lw=2, label="the roof: your function, measured ceilings")
    size = machine.dtype.itemsize
    roofs = [roofline(x * size, 1, machine.dtype, machine.peak, machine.bandwidth)[0] for x in places]
    above = [n for n, speed, roof in zip(rows, speeds, roofs) if speed > 1.05 * roof]
    for n, x, y in zip(rows, places, speeds):
        axis.loglog(x, y, "o", ms=8, color=KEY, mfc="white" if n in above else KEY, mew=2)
        axis.annotate(
            f"n = {n}",
            (x, y),
            xytext=(0, 9 if n in above else -17),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    axis.plot([], [], "o", ms=8, color=KEY, label=f"measured: (n, {width}) × ({width}, {width})")
    if above:
        label = "above the roof: a cache helped, or the ceilings were measured in a busy moment"
        axis.plot([], [], "o", ms=8, color=KEY, mfc="white", mew=2, label=label)
    axis.set(xlim=(0.2, 2000), xlabel="FLOPs per byte", ylabel="FLOP/s")
    axis.set_ylim(min(*speeds, machine.peak / 4) / 4, max(*speeds, machine.peak) * 2.5)
    axis.legend(frameon=False, loc="lower right", fontsize=8.5)
    show()
