"""Pictures of unit 09: the walk over the square of scores, tile by tile, and what it moves."""

from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from helpers.film import film, play
from helpers.style import EDGE, FAINT_WEIGHT, HALF_WEIGHT, KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT, ink, show

__all__ = ["tile_walk", "tile_walk_still"]

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class Walk:
    """Attention of n queries to n keys of width d, in square tiles of `block` rows; n is a multiple of it."""

    n: int = 1024
    d: int = 64
    block: int = 256

    @property
    def side(self) -> int:
        """Tiles along one side of the square."""
        return self.n // self.block

    @property
    def standard(self) -> int:
        """Numbers that attention in three separate steps moves."""
        return 4 * self.n**2 + 4 * self.n * self.d

    def moved(self, steps: int) -> dict[str, int]:
        """Numbers moved after so many tiles, by what they are."""
        tile, rows = self.block * self.d, -(-steps // self.side)
        done = steps // self.side
        return {"Q": rows * tile, "K": steps * tile, "V": steps * tile, "O, L": done * (tile + self.block)}


def tile_walk(n: int = 1024, d: int = 64, block: int = 256) -> None:
    """The walk as a film, one frame per tile: what is on the chip, what was read. Its last frame is the whole story."""
    play(_film(Walk(n, d, block)))


def tile_walk_still(n: int = 1024, d: int = 64, block: int = 256) -> None:
    """The walk halfway, as one picture."""
    walk = Walk(n, d, block)
    figure = plt.figure(figsize=(9.5, 4.5), layout="none")
    _frame(figure, walk, step=walk.side * (walk.side // 2) + walk.side // 2 + 1)
    with plt.rc_context({"figure.autolayout": False}):
        show()


def _film(walk: Walk) -> str:
    figure = plt.figure(figsize=(9.5, 4.5), layout="none")

    def frame(step: int) -> str:
        figure.clear()
        _frame(figure, walk, step)
        return _told(walk, step)

    described = (
        "Flash attention walks over the square of scores tile by tile, row after row; what is on the chip is solid."
    )
    return film(figure, frame, range(1, walk.side**2 + 2), described, milliseconds=1200)


def _told(walk: Walk, step: int) -> str:
    """A frame in words."""
    moved = sum(walk.moved(min(step, walk.side**2)).values()) / 1e6
    if step > walk.side**2:
        return (
            f"Done: {moved:.2f} million numbers were moved, {walk.standard / 1e6 / moved:.1f} times fewer than the "
            f"{walk.standard / 1e6:.2f} million of three separate steps. No score ever left the chip."
        )
    i, j = divmod(step - 1, walk.side)
    first = f"A new row: {subscripted('Q', i)} is fetched, and stays. " if j == 0 else ""
    last = f" The row is complete: {subscripted('O', i)} is written." if j == walk.side - 1 else ""
    return (
        f"Tile {step} of {walk.side**2}. {first}{subscripted('K', j)} and {subscripted('V', j)} come in, the scores "
        f"{subscripted('S', i, j)} are made, used and forgotten.{last} So far {moved:.2f} million numbers were moved."
    )


def _frame(figure, walk: Walk, step: int) -> None:
    """Step 1 … side²: that tile is on the chip. One step more: all is done."""
    square = figure.add_axes((0.01, 0.02, 0.5, 0.93))
    chip = figure.add_axes((0.55, 0.45, 0.44, 0.5))
    traffic = figure.add_axes((0.64, 0.12, 0.34, 0.2))
    i, j = divmod(step - 1, walk.side)
    over = step > walk.side**2
    _square(square, walk, step, None if over else (i, j))
    _summary(chip, walk) if over else _chip(chip, walk, i, j)
    _traffic(traffic, walk, min(step, walk.side**2), "tiled" if over else "so far")


def _square(axis, walk: Walk, step: int, now: tuple[int, int] | None) -> None:
    """The tiles of the scores, with Q on the left, K and V on top, and O on the right: what is on the chip is solid."""
    side = walk.side
    for i in range(side):
        _tile(axis, -0.75, i, 0.5, 1, QUERY, "Q", i, solid=now is not None and i == now[0])
        done = step > side * (i + 1) or now is None
        _tile(axis, side + 0.25, i, 0.5, 1, OUTPUT, "O", i, solid=now is None or i == now[0], ready=done)
        _tile(axis, i, -0.7, 1, 0.45, KEY, "K", i, solid=now is not None and i == now[1])
        _tile(axis, i, -1.25, 1, 0.45, VALUE, "V", i, solid=now is not None and i == now[1])
        for j in range(side):
            _score(axis, i, j, step - 1 - (i * side + j), side, whole=now is None)
    axis.text(
        side / 2,
        side + 0.12,
        f"{walk.n} × {walk.n} scores in tiles of {walk.block} × {walk.block}",
        ha="center",
        va="top",
        fontsize=9,
        color=OUTPUT,
    )
    axis.set(xlim=(-0.85, side + 0.85), ylim=(side + 0.45, -1.35), aspect="equal")
    axis.axis("off")


def _tile(axis, x, y, width, height, colour, name, index, *, solid, ready=False) -> None:
    alpha = 1.0 if solid else 0.55 if ready else 0.18
    axis.add_patch(
        Rectangle((x + 0.03, y + 0.03), width - 0.06, height - 0.06, facecolor=colour, alpha=alpha, edgecolor=colour)
    )
    axis.text(
        x + width / 2,
        y + height / 2,
        subscripted(name, index),
        ha="center",
        va="center",
        fontsize=10,
        color=ink(colour) if solid else "black",
    )


def subscripted(name: str, *indices: int) -> str:
    return name + "".join(str(index + 1) for index in indices).translate(SUBSCRIPTS)


def _score(axis, i: int, j: int, age: int, side: int, *, whole: bool) -> None:
    """A tile of scores: not made yet (age < 0), on the chip (0), or used and forgotten, with the number of its step."""
    live = age == 0 and not whole
    face, edge, style = (
        (WEIGHT, WEIGHT, "-") if live else ("white", EDGE, "-") if age < 0 else (FAINT_WEIGHT, HALF_WEIGHT, "--")
    )
    axis.add_patch(Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, facecolor=face, edgecolor=edge, ls=style, lw=1))
    if live:
        axis.text(j + 0.5, i + 0.5, subscripted("S", i, j), ha="center", va="center", fontsize=14, color="white")
    elif age >= 0:
        axis.text(j + 0.5, i + 0.5, str(i * side + j + 1), ha="center", va="center", fontsize=9, color=WEIGHT)


def _chip(axis, walk: Walk, i: int, j: int) -> None:
    """What the fast memory holds at this moment."""
    axis.add_patch(Rectangle((0, 0), 10, 6, facecolor=MASKED, edgecolor=OUTPUT, lw=1.2))
    axis.text(0.3, 5.5, "on the chip", fontsize=10, color=OUTPUT, va="center")
    boxes = [
        ("Q", (i,), QUERY, 0.3, 1.1),
        ("K", (j,), KEY, 1.7, 1.1),
        ("V", (j,), VALUE, 3.1, 1.1),
        ("S", (i, j), WEIGHT, 4.5, 2.1),
        ("O", (i,), OUTPUT, 6.9, 1.1),
    ]
    for name, indices, colour, x, width in boxes:
        axis.add_patch(Rectangle((x, 2.75), width, 2.1, facecolor=colour))
        axis.text(
            x + width / 2, 3.8, subscripted(name, *indices), ha="center", va="center", color=ink(colour), fontsize=12
        )
    for k, name in enumerate(("m", "ℓ")):
        axis.add_patch(Rectangle((8.3 + 0.75 * k, 2.75), 0.55, 2.1, facecolor=OUTPUT))
        axis.text(8.575 + 0.75 * k, 3.8, name, ha="center", va="center", color="white", fontsize=11)
    first = (
        "fetch " + (f"{subscripted('Q', i)}, " if j == 0 else "") + f"{subscripted('K', j)} and {subscripted('V', j)}"
    )
    last = f", then write {subscripted('O', i)}" if j == walk.side - 1 else ""
    axis.text(0.3, 1.75, first, fontsize=10, va="center")
    axis.text(
        0.3,
        0.75,
        f"make {subscripted('S', i, j)}, rescale {subscripted('O', i)}, add, forget {subscripted('S', i, j)}{last}",
        fontsize=10,
        va="center",
    )
    _box(axis)


def _summary(axis, walk: Walk) -> None:
    axis.add_patch(Rectangle((0, 0), 10, 6, facecolor=MASKED, edgecolor=OUTPUT, lw=1.2))
    lines = [
        ((WEIGHT,), f"Scores: {walk.side**2} tiles, each made, used and forgotten."),
        ((QUERY,), "Q: every tile read once."),
        ((KEY, VALUE), f"K and V: read once for every row, {walk.side} times."),
        ((OUTPUT,), "O: every tile written once, at the end of its row."),
    ]
    for y, (colours, line) in zip((5.0, 3.67, 2.33, 1.0), lines):
        for k, colour in enumerate(colours):
            axis.add_patch(Rectangle((0.3 + 0.3 * k, y - 0.3), 0.6 / len(colours), 0.6, facecolor=colour))
        axis.text(1.2, y, line, fontsize=10, va="center")
    _box(axis)


def _box(axis) -> None:
    axis.set(xlim=(-0.05, 10.05), ylim=(-0.05, 6.05))
    axis.axis("off")


def _traffic(axis, walk: Walk, steps: int, label: str) -> None:
    """Numbers moved so far, against what standard attention moves in the end."""
    left = 0.0
    for numbers, colour in zip(walk.moved(steps).values(), (QUERY, KEY, VALUE, OUTPUT)):
        axis.barh(0, numbers / 1e6, left=left, color=colour, height=0.62)
        left += numbers / 1e6
    axis.text(left, 0, f"  {left:.2f}", va="center", fontsize=9)
    axis.barh(1, walk.standard / 1e6, color=MASKED, height=0.62)
    axis.text(walk.standard / 1e6, 1, f"{walk.standard / 1e6:.2f} ", va="center", ha="right", fontsize=9, color=OUTPUT)
    axis.set(xlim=(0, walk.standard / 1e6), ylim=(1.5, -0.5))
    axis.set_yticks([0, 1], [label, "standard"], fontsize=9)
    axis.set_title("million numbers moved between memory and chip", fontsize=9.5, loc="right", color=OUTPUT)
    axis.tick_params(length=0, labelsize=9)
    axis.spines[:].set_visible(False)
    axis.set_xticks([])
