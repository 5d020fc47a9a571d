"""The way through the course: its units, what each needs, and what it is worth.
`python -m helpers.start_here.plots.course_map FILE.svg` writes it."""

import json
import sys
import textwrap
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch

from helpers.style import EDGE, FAINT_QUERY, FAINT_WEIGHT, MASKED, OUTPUT, QUERY, show

__all__ = ["course_map"]

UNITS = Path(__file__).parents[2] / "units.json"  # `attn build` makes it
NEEDS = {
    "00": "",
    "01": "00",
    "02": "00",
    "03": "02",
    "04": "02 03",
    "05": "04",
    "06": "05",
    "07": "04",
    "08": "04 05 07",
    "09": "02 07",
    "10": "02 07",
}
COMES_BACK = {"10": "01"}
"""Unit → an earlier one that it doesn't need, and whose idea it takes up again."""
PLACES = {
    "00": (0, 1.5),
    "01": (1, 2.9),
    "02": (1, 1.5),
    "03": (2, 1.5),
    "04": (3, 1.5),
    "05": (4, 0.5),
    "07": (4, 2.2),
    "06": (5, 0),
    "08": (5, 1.1),
    "09": (5, 2.2),
    "10": (5, 3.3),
}
KINDS = {
    "start": (MASKED, "00 01"),
    "attention": (FAINT_QUERY, "02 03 04 05 06"),
    "what it costs, and how to pay less": (FAINT_WEIGHT, "07 08 09 10"),
}
WIDTH, HEIGHT = 0.8, 0.8
NEEDED = {"arrowstyle": "-|>", "color": QUERY, "lw": 1.6}
AGAIN = {"arrowstyle": "-|>", "color": OUTPUT, "lw": 1.4, "ls": (0, (4, 3))}
WAY = {"color": EDGE, "alpha": 0.4, "lw": 11, "solid_capstyle": "round", "solid_joinstyle": "round"}


def course_map() -> None:
    """All units as boxes, a band through them in the recommended order, an arrow from each to those that need it."""
    _draw()
    needs = "; ".join(f"unit {unit} needs {needs.replace(' ', ' and ')}" for unit, needs in NEEDS.items() if needs)
    again = "; ".join(f"unit {unit} takes up an idea of {earlier}" for unit, earlier in COMES_BACK.items())
    show(
        f"A map of the course. The recommended order is that of the numbers, 00 to 10. {needs[0].upper()}{needs[1:]}. "
        f"{again[0].upper()}{again[1:]}, which no unit needs."
    )


def _draw() -> None:
    units = json.loads(UNITS.read_text(encoding="utf-8"))
    _, axis = plt.subplots(figsize=(10.5, 4.9), layout="none")
    axis.set_position((0, 0, 1, 1))
    axis.set(xlim=(-0.5, 5.5), ylim=(3.85, -0.55))
    axis.axis("off")
    axis.plot(*zip(*(PLACES[unit] for unit in sorted(PLACES))), zorder=0, **WAY)
    for unit in NEEDS:
        _box(axis, unit, units[unit]["title"], sum(one["points"] for one in units[unit]["graded"]))
        for needed in _directly(unit):
            _arrow(axis, needed, unit, NEEDED)
    for unit, earlier in COMES_BACK.items():
        _arrow(axis, earlier, unit, AGAIN)
    _legend(axis)


def _legend(axis: Axes) -> None:
    lines = {
        "the recommended way: in the order of the numbers": Line2D([], [], **WAY),
        "needs the unit where the arrow starts": Line2D([], [], color=QUERY, lw=1.6, marker=">", markevery=[1]),
        "takes up an idea of that unit again": Line2D([], [], color=OUTPUT, lw=1.4, ls=(0, (4, 3))),
    }
    kinds = {kind: Patch(facecolor=colour, edgecolor=EDGE) for kind, (colour, _) in KINDS.items()}
    shown = {**lines, **kinds}
    axis.legend(
        shown.values(),
        shown.keys(),
        loc="upper left",
        bbox_to_anchor=(0.01, 0.99),
        ncols=2,
        frameon=False,
        fontsize=9,
        labelcolor=OUTPUT,
        handlelength=2.6,
        labelspacing=0.7,
    )


def _directly(unit: str) -> list[str]:
    """What a unit needs that isn't needed by something else that it needs."""
    needed = NEEDS[unit].split()
    return [one for one in needed if not any(one in _all(other) for other in needed if other != one)]


def _all(unit: str) -> set[str]:
    """All that comes before a unit."""
    direct = set(NEEDS[unit].split())
    return direct.union(*map(_all, direct)) if direct else set()


def _box(axis: Axes, unit: str, title: str, points: int) -> None:
    x, y = PLACES[unit]
    colour = next(colour for colour, members in KINDS.values() if unit in members.split())
    corner = x - WIDTH / 2, y - HEIGHT / 2
    axis.add_patch(
        FancyBboxPatch(
            corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.06", facecolor=colour, edgecolor=EDGE
        )
    )
    axis.text(x, y - 0.25, unit, ha="center", va="center", fontsize=12, weight="bold")
    axis.text(x, y + 0.03, textwrap.fill(title, 17), ha="center", va="center", fontsize=9)
    axis.text(x, y + 0.31, f"{points} points", ha="center", va="center", fontsize=8, color=OUTPUT)


def _arrow(axis: Axes, source: str, target: str, look: dict) -> None:
    (x0, y0), (x1, y1) = PLACES[source], PLACES[target]
    style = {"shrinkA": 1, "shrinkB": 1, **look}
    axis.annotate("", (x1 - WIDTH / 2, y1), (x0 + WIDTH / 2, y0), arrowprops=style)


def main(file: str) -> None:
    """Write the map as SVG: the same bytes for the same course and the same matplotlib."""
    with matplotlib.rc_context({"svg.hashsalt": "map", "svg.fonttype": "none", "font.family": "sans-serif"}):
        _draw()
        plt.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    matplotlib.use("Agg")
    main(*sys.argv[1:])
