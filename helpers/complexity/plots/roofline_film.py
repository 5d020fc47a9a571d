"""A model that writes, under the roof of a device, as a slider: more texts at once, and smaller numbers."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch

from helpers.film import film, play
from helpers.measuring.devices import Device
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, waits_for

from .roofline import roof_of

__all__ = ["roofline_film"]

COLOURS = (QUERY, VALUE, WEIGHT, KEY)


@waits_for("roofline", "decode_table")
def roofline_film(
    roofline: Callable,
    load: Callable,
    machine: Device,
    b: Sequence[int],
    n: Sequence[int],
    dtypes: Sequence[torch.dtype],
) -> None:
    """Dots under a roof, one per length n of the texts: with more texts b at once they move to the right, those of
    long texts hardly at all."""
    play(_film(roofline, load, machine, b, n, dtypes))


def _film(roofline: Callable, load: Callable, machine: Device, b, n, dtypes) -> str:
    """load(b, n): FLOPs and elements moved."""
    figure, axis = plt.subplots(figsize=(8.5, 4), layout="none")
    figure.subplots_adjust(left=0.1, right=0.97, top=0.9, bottom=0.15)
    frames = [(dtype, texts) for dtype in dtypes for texts in b]

    def frame(now: tuple[torch.dtype, int]) -> str:
        dtype, texts = now
        loads = [(length, *load(texts, length)) for length in n]
        found = [
            (
                length,
                flops / elements / dtype.itemsize,
                *roofline(flops, elements, dtype, machine.peak, machine.bandwidth),
            )
            for length, flops, elements in loads
        ]
        axis.clear()
        _draw(axis, roofline, machine, found)
        bits = 8 * dtype.itemsize
        axis.set_title(f"{machine.name}: write a token for b = {texts:,}, numbers kept in {bits} bits", fontsize=10.5)
        return _told(found, texts, bits)

    described = (
        f"The roof of {machine.name}, and a dot for texts of {', '.join(f'{length:,}' for length in n)} "
        "tokens. With more texts at once the dots climb the slope; those of long texts stop."
    )
    return film(figure, frame, frames, described, milliseconds=2000, still=len(b) - 1)


def _draw(axis, roofline: Callable, machine: Device, found: list[tuple[int, float, float, str]]) -> None:
    axis.loglog(*roof_of(roofline, machine), color=OUTPUT, lw=2)
    for place, ((length, intensity, reached, _), colour) in enumerate(zip(found, COLOURS)):
        axis.plot(intensity, reached, "os^D"[place], ms=9, color=colour, label=f"n = {length:,}")
    axis.axvline(machine.ridge, color=OUTPUT, ls=":", lw=1)
    axis.text(
        machine.ridge * 0.93, machine.peak / 900, "ridge", rotation=90, ha="right", fontsize=9, color=as_text(OUTPUT)
    )
    axis.set(xlim=(0.4, 4 * machine.ridge), ylim=(machine.peak / 1000, machine.peak * 2))
    axis.set(xlabel="arithmetic intensity in FLOPs per byte", ylabel="attainable FLOP/s")
    axis.legend(frameon=False, loc="upper left", title="tokens before")


def _told(found: list[tuple[int, float, float, str]], texts: int, bits: int) -> str:
    said = "; ".join(f"n = {length:,}: {intensity:.3g} FLOPs per byte" for length, intensity, _, _ in found)
    waits = [length for length, *_, bound in found if bound == "memory"]
    if len(waits) == len(found):
        end = "All wait for memory."
    elif waits:
        end = f"With n = {' and '.join(f'{length:,}' for length in waits)} it is memory that sets the pace."
    else:
        end = "None waits for memory."
    return f"{texts:,} text{'s' * (texts > 1)} at once, {bits} bits. {said}. {end}"
