"""The way through the course: its units, what each needs, and what it is worth. `python -m helpers.start_here.plots.course_map FILE.svg` writes it."""

import json
import sys
import textwrap
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from helpers.style import EDGE, FAINT_QUERY, FAINT_WEIGHT, MASKED, OUTPUT, show

__all__ = ["course_map"]

UNITS = Path(__file__).parents[2] / "units.json"  # `attn build` makes it
NEEDS = {"00": "", "01": "00", "02": "00", "03": "02", "04": "02 03", "05": "04", "06": "05", "07": "04", "08": "04 05 07", "09": "02 07", "10": "02 07"}  # fmt: skip
PLACES = {"00": (0, 1.5), "01": (1, 2.9), "02": (1, 1.5), "03": (2, 1.5), "04": (3, 1.5), "05": (4, 0.5), "07": (4, 2.2),
          "06": (5, 0), "08": (5, 1.1), "09": (5, 2.2), "10": (5, 3.3)}  # fmt: skip
KINDS = {
    "start": (MASKED, "00 01"),
    "attention": (FAINT_QUERY, "02 03 04 05 06"),
    "what it costs, and how to pay less": (FAINT_WEIGHT, "07 08 09 10"),
}
WIDTH, HEIGHT = 0.8, 0.8


def course_map() -> None:
    """All units as boxes with an arrow from each that a unit needs first."""
    _draw()
    show(
        "A map of the course: "
        + "; ".join(f"unit {unit} needs {needs.replace(' ', ' and ')}" for unit, needs in NEEDS.items() if needs)
        + "."
    )


def _draw() -> None:
    units = json.loads(UNITS.read_text(encoding="utf-8"))
    _, axis = plt.subplots(figsize=(10.5, 4.9), layout="none")
    axis.set_position((0, 0, 1, 1))
    axis.set(xlim=(-0.5, 5.5), ylim=(3.85, -0.55))
    axis.axis("off")
    for unit in NEEDS:
        _box(axis, unit, units[unit]["title"], sum(one["points"] for one in units[unit]["graded"]))
        for needed in _directly(unit):
            _arrow(axis, needed, unit)
    for row, (kind, (colour, _)) in enumerate(KINDS.items()):
        axis.plot(-0.38, 3.1 + 0.25 * row, "s", ms=11, color=colour, mec=EDGE)
        axis.text(-0.28, 3.1 + 0.25 * row, kind, va="center", fontsize=9, color=OUTPUT)


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


def _arrow(axis: Axes, source: str, target: str) -> None:
    (x0, y0), (x1, y1) = PLACES[source], PLACES[target]
    style = {"arrowstyle": "-|>", "color": OUTPUT, "lw": 1.2, "shrinkA": 1, "shrinkB": 1}
    axis.annotate("", (x1 - WIDTH / 2, y1), (x0 + WIDTH / 2, y0), arrowprops=style)


def main(file: str) -> None:
    """Write the map as SVG: the same bytes for the same course and the same matplotlib."""
    with matplotlib.rc_context({"svg.hashsalt": "map", "svg.fonttype": "none", "font.family": "sans-serif"}):
        _draw()
        plt.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    matplotlib.use("Agg")
    main(*sys.argv[1:])
