"""A model that writes, under the roof of a device: more texts at once, as a dot to drag."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from matplotlib.ticker import EngFormatter

from helpers.board import CELL, LINES, Board
from helpers.film import film, play
from helpers.measuring.devices import Device
from helpers.style import EDGE, KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT, waits_for

from .roofline import roof_of

__all__ = ["roofline_film"]

LOOK = ((QUERY, 24), (VALUE, 4), (WEIGHT, 3), (KEY, 5))
"""Color and corners of the dots, one per length."""
LEFT, RIGHT, TOP, BOTTOM = 2.7, 14.7, 1.1, 9.2  # of what the axes enclose, in cells
SIZE = 9.4  # of the letters, in points


class Dot(NamedTuple):
    """Texts of one length under the roof."""

    length: int
    intensity: float
    reached: float
    bound: str


@dataclass(frozen=True)
class Axes:
    """FLOPs per byte and FLOP/s on a board, both logarithmic: the least and the most that they show."""

    intensities: tuple[float, float]
    speeds: tuple[float, float]

    def at(self, intensity: float, speed: float) -> tuple[float, float]:
        """The place, in cells."""
        x, y = _share(intensity, *self.intensities), _share(speed, *self.speeds)
        return LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP)


@waits_for("roofline", "decode_table")
def roofline_film(
    roofline: Callable, load: Callable, machine: Device, b: Sequence[int], n: Sequence[int], dtype: torch.dtype
) -> None:
    """Dots under a roof, one per length n of the texts, of which the first can be dragged: to more texts b at once."""
    play(_film(roofline, load, machine, b, n, dtype))


def _film(roofline: Callable, load: Callable, machine: Device, b, n, dtype: torch.dtype) -> str:
    """load(b, n): FLOPs and elements moved."""

    def dot(texts: int, length: int) -> Dot:
        flops, elements = load(texts, length)
        reached, bound = roofline(flops, elements, dtype, machine.peak, machine.bandwidth)
        return Dot(length, flops / elements / dtype.itemsize, reached, bound)

    frames = [(texts, [dot(texts, length) for length in n]) for texts in b]
    furthest = max(dot.intensity for _, dots in frames for dot in dots)
    axes = Axes((0.4, 7 * max(machine.ridge, furthest)), (machine.peak / 1000, 2 * machine.peak))
    board, roof = Board(15, 10.9), list(zip(*roof_of(roofline, machine)))

    def frame(now: tuple[int, list[Dot]]) -> str:
        board.wipe()
        _grid(board, axes)
        _roof(board, axes, machine, roof)
        _dots(board, axes, *now)
        return _told(*now, 8 * dtype.itemsize)

    described = (
        f"The roof of {machine.name}, and a dot for texts of {', '.join(f'{length:,}' for length in n)} "
        f"tokens each, from b = {b[0]:,} to {b[-1]:,} of them at once."
    )
    along = [axes.at(dots[0].intensity, 1)[0] / board.size[0] for _, dots in frames]
    return film(board, frame, frames, described, milliseconds=700, along=along)


def _grid(board: Board, axes: Axes) -> None:
    for intensity in _decades(*axes.intensities):
        x, _ = axes.at(intensity, 1)
        board.line((x, TOP), (x, BOTTOM), colour=MASKED, width=1)
        board.text(x, BOTTOM + 0.4, f"{intensity:g}", size=SIZE)
    for speed in _decades(*axes.speeds):
        _, y = axes.at(1, speed)
        board.line((LEFT, y), (RIGHT, y), colour=MASKED, width=1)
        board.text(LEFT - 0.2, y, _in_words(speed), ha="right", size=SIZE)
    board.text(LEFT, TOP - 0.6, "attainable speed", ha="right", size=SIZE)
    board.text((LEFT + RIGHT) / 2, BOTTOM + 1.2, "arithmetic intensity in FLOPs per byte", size=SIZE)


def _roof(board: Board, axes: Axes, machine: Device, roof: list[tuple[float, float]]) -> None:
    ridge, top = axes.at(machine.ridge, machine.peak)
    board.line((ridge, top), (ridge, BOTTOM), colour=EDGE, width=1)
    board.text(ridge - 0.2, BOTTOM - 0.4, f"ridge: {machine.ridge:.3g}", ha="right", size=SIZE)
    named = f"{machine.name}\n{_in_words(machine.peak)}, {machine.bandwidth / 1e9:,.0f} GB/s"
    board.text(LEFT + 0.3, TOP + 0.7, named, ha="left", size=SIZE)
    low, high = axes.intensities
    board.line(*(axes.at(*point) for point in roof if low <= point[0] <= high), colour=OUTPUT, width=2.5)


def _dots(board: Board, axes: Axes, texts: int, dots: list[Dot]) -> None:
    """The dots, the first on top, and what they are."""
    left, top = RIGHT - 2.4, BOTTOM - 0.8 * len(dots)
    board.text(left - 0.2, top - 0.4, "tokens before", ha="left", size=SIZE)
    for place, (dot, (colour, corners)) in reversed(list(enumerate(zip(dots, LOOK)))):
        _mark(board, (left, top + 0.4 + 0.8 * place), corners, colour, 6)
        board.text(left + 0.4, top + 0.4 + 0.8 * place, f"n = {dot.length:,}", ha="left", size=SIZE, colour=colour)
        _mark(board, axes.at(dot.intensity, dot.reached), corners, colour, 7 if place else 10)
    x, y = axes.at(dots[0].intensity, dots[0].reached)
    board.text(x - 0.2, y - 0.7, f"b = {texts:,}", colour=QUERY, ha="right", size=SIZE, bold=True)


def _mark(board: Board, place: tuple[float, float], corners: int, colour: str, radius: float) -> None:
    """A regular polygon. radius: in pixels."""
    (x, y), (across, down) = place, (radius / CELL[0], radius / CELL[1])
    turns = [2 * math.pi * corner / corners for corner in range(corners)]
    board.area([(x + across * math.sin(turn), y - down * math.cos(turn)) for turn in turns], colour, layer=LINES)


def _told(texts: int, dots: list[Dot], bits: int) -> str:
    said = " ".join(
        f"n = {dot.length:,}: {dot.intensity:.3g} FLOPs per byte, {_in_words(dot.reached)}, bound by {dot.bound}."
        for dot in dots
    )
    return f"{texts:,} text{'s' * (texts > 1)} at once, {bits} bits. {said}"


def _in_words(speed: float) -> str:
    return EngFormatter("FLOP/s")(float(f"{speed:.3g}"))


def _share(value: float, low: float, high: float) -> float:
    """How far a value is on a logarithmic axis, from 0 to 1; what isn't positive is far below."""
    return math.log(max(value, low**2 / high) / low) / math.log(high / low)


def _decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
