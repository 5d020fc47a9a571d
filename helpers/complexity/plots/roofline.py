"""Pictures of the roofline: devices, workloads under their roofs, and products measured on this machine."""

from collections.abc import Callable, Iterable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.lines import Line2D

from helpers.environment import device
from helpers.measuring.devices import Device
from helpers.measuring.timing import seconds
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, show, waits_for

__all__ = ["measured_products", "rooflines"]

COLOURS, MARKS = (VALUE, KEY, WEIGHT, QUERY), "osD^v"
INTENSITIES = [2 ** (power / 4) for power in range(-8, 65)]


def roof_of(roofline: Callable, machine: Device) -> tuple[list[float], list[float]]:
    """Intensities, that of the ridge among them, and the attainable FLOP/s at each."""
    places, size = sorted([*INTENSITIES, machine.ridge]), machine.dtype.itemsize
    return places, [roofline(place * size, 1, machine.dtype, machine.peak, machine.bandwidth)[0] for place in places]


@waits_for("roofline")
def rooflines(
    roofline: Callable, devices: Sequence[Device], loads: dict[str, Callable[[], tuple[float, float]]]
) -> None:
    """The roof of every device with its ridge, and under it each load (FLOPs, elements): hollow where memory decides,
    full where arithmetic does."""
    placed = {name: load() for name, load in loads.items()}
    figure, axis = plt.subplots(figsize=(10.5, 5))
    axis.set(xscale="log", yscale="log", xlim=(0.2, 3000))
    for machine, colour in zip(devices, COLOURS):
        _roof(axis, roofline, machine, colour, placed.values())
    axis.set_ylim(axis.get_ylim()[0], 4 * max(machine.peak for machine in devices))
    for (name, (flops, elements)), mark in zip(placed.items(), MARKS):
        place = flops / elements / 2
        axis.axvline(place, color=OUTPUT, ls=":", lw=1, zorder=0)
        axis.plot(place, 1.03, mark, color=OUTPUT, ms=6, transform=axis.get_xaxis_transform(), clip_on=False)
        axis.annotate(
            f"{name}: {place:.0f}",
            (place, 1.03),
            xycoords=axis.get_xaxis_transform(),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=OUTPUT,
            annotation_clip=False,
        )
    axis.set_ylabel("attainable FLOP/s")
    axis.set_xlabel("arithmetic intensity in FLOPs per byte (the loads above and dotted: at 2 bytes an element)")
    hollow, full = (
        Line2D([], [], ls="", marker="o", ms=8, color=OUTPUT, mfc=face, mew=2) for face in ("white", OUTPUT)
    )
    words = ["under the slope: memory decides", "under the ceiling: arithmetic decides"]
    axis.legend([hollow, full], words, frameon=False, loc="lower right", fontsize=9)
    where = "; ".join(
        f"“{name}” lies at {flops / elements / 2:.0f} FLOPs per byte" for name, (flops, elements) in placed.items()
    )
    show(
        f"Roofs of {len(devices)} devices over arithmetic intensity on log-log axes, each with its ridge. {where} in "
        "16 bits."
    )


def _roof(axis, roofline: Callable, machine: Device, colour: str, loads: Iterable[tuple[float, float]]) -> None:
    """A device's roof with its name at its end and the intensity of its ridge, and a mark for each load."""
    places, roof = roof_of(roofline, machine)
    end, ridge = axis.get_xlim()[1], machine.ridge
    axis.plot(places, roof, color=colour, lw=2)
    axis.annotate(
        _in_words(machine),
        (end, roof[-1]),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=as_text(colour),
        annotation_clip=False,
    )
    axis.annotate(
        f"ridge: {ridge:.3g}",
        (ridge, max(roof)),
        xytext=(4, -5),
        textcoords="offset points",
        va="top",
        fontsize=8.5,
        color=as_text(colour),
    )
    for (flops, elements), mark in zip(loads, MARKS):
        reached, _ = roofline(flops, elements, machine.dtype, machine.peak, machine.bandwidth)
        place = flops / elements / machine.dtype.itemsize
        face = "white" if place < ridge else colour
        axis.plot(place, reached, mark, color=colour, ms=8, mfc=face, mew=2, zorder=3)


def _in_words(machine: Device) -> str:
    peak = f"{machine.peak / 1e12:.0f} TFLOP/s" if machine.peak > 1e12 else f"{machine.peak / 1e9:.0f} GFLOP/s"
    return f"{machine.name}, {str(machine.dtype).removeprefix('torch.')}\n{peak}, {machine.bandwidth / 1e9:,.0f} GB/s"


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
