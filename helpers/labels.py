"""Names at the ends of lines, in the place of a legend that one has to look up colour by colour."""

import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes

from helpers.style import as_text

End = tuple[str, float, str]
"""Name, last value and colour of a line."""
UNBROKEN = "\xa0"  # a space at which no line breaks


def name_lines(axis: Axes, x: float, ends: Sequence[End], *, apart: float = 0.06, size: float = 8.5) -> None:
    """Write each name right of x, where its line ends, in its colour. Lines that end alike share a label.

    Labels stay `apart` (a share of the axis' height) from each other. Call it when the limits of the axis are set."""
    groups = _together(ends)
    true = [_height(axis, group[0][1]) for group in groups]
    for group, end, place in zip(groups, true, _spread(true, apart), strict=True):
        together = " · ".join(name.replace(" ", UNBROKEN) for name, _, _ in group)
        words = textwrap.fill(together, 36).replace(UNBROKEN, " ")
        colour = group[-1][2]  # of lines that lie on each other the last one is seen
        axis.annotate(
            words,
            (x, end),
            (1.05, place),
            xycoords=("data", "axes fraction"),
            textcoords="axes fraction",
            fontsize=size,
            color=as_text(colour),
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5)},
        )


def _together(ends: Sequence[End]) -> list[list[End]]:
    """Lines that end alike, the lowest first."""
    groups: list[list[End]] = []
    for end in sorted(ends, key=lambda one: one[1]):
        if groups and math.isclose(groups[-1][0][1], end[1], rel_tol=1e-3):
            groups[-1].append(end)
        else:
            groups.append([end])
    return groups


def _height(axis: Axes, y: float) -> float:
    """Where a value lies between the limits of the axis: 0 is below, 1 above."""
    low, high = axis.get_ylim()
    return math.log(y / low) / math.log(high / low) if axis.get_yscale() == "log" else (y - low) / (high - low)


def _spread(places: Sequence[float], apart: float) -> list[float]:
    """The heights nearest to `places` (lowest first) that are `apart`: labels that are too close share what they have
    to move. (Pool adjacent violators, on the heights less the room that the labels below need.)"""
    blocks: list[tuple[float, int]] = []  # mean and number of labels
    for index, place in enumerate(places):
        blocks.append((place - index * apart, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, count), (high, more) = blocks[-2:]
            blocks[-2:] = [((low * count + high * more) / (count + more), count + more)]
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + index * apart for index, mean in enumerate(means)]
