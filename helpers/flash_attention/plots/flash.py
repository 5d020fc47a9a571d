"""Pictures of unit 09: the walk over the square of scores, tile by tile, and what it moves, saves and costs."""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyArrowPatch, Patch, Polygon, Rectangle
from torch import Tensor

from helpers.engine.observe import observe
from helpers.environment import device
from helpers.film import film, play
from helpers.labels import name_lines
from helpers.masking.masks import causal_mask
from helpers.measuring import growth
from helpers.measuring.devices import this_machine
from helpers.measuring.live_memory import peak_bytes
from helpers.measuring.timing import seconds
from helpers.qkv_attention.attention import scaled_dot_product_attention
from helpers.style import (
    EDGE,
    FAINT_KEY,
    FAINT_QUERY,
    FAINT_WEIGHT,
    HALF_KEY,
    HALF_WEIGHT,
    KEY,
    MASKED,
    OUTPUT,
    QUERY,
    VALUE,
    WEIGHT,
    as_text,
    ink,
    show,
    waits_for,
)

__all__ = [
    "backward_walks",
    "causal_saving",
    "causal_tiles_map",
    "decoding_splits",
    "gradients_agree",
    "kernel_speed",
    "kernel_tiles",
    "largest_tensor",
    "merging",
    "online_softmax_steps",
    "program_offsets",
    "tile_walk",
    "tile_walk_still",
    "time_and_memory",
]

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


# ---------------------------------------------------------------- the walk over the tiles


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
    """The walk as a film, a frame a tile: what is on the chip, what was read. Its last frame is the whole story."""
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
    first = f"A new row: {_name('Q', i)} is fetched, and stays. " if j == 0 else ""
    last = f" The row is complete: {_name('O', i)} is written." if j == walk.side - 1 else ""
    return (
        f"Tile {step} of {walk.side**2}. {first}{_name('K', j)} and {_name('V', j)} come in, the scores "
        f"{_name('S', i, j)} are made, used and forgotten.{last} So far {moved:.2f} million numbers were moved."
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
        _name(name, index),
        ha="center",
        va="center",
        fontsize=10,
        color=ink(colour) if solid else "black",
    )


def _name(name: str, *indices: int) -> str:
    return name + "".join(str(index + 1) for index in indices).translate(SUBSCRIPTS)


def _score(axis, i: int, j: int, age: int, side: int, *, whole: bool) -> None:
    """A tile of scores: not made yet (age < 0), on the chip (0), or used and forgotten, with the number of its step."""
    live = age == 0 and not whole
    face, edge, style = (
        (WEIGHT, WEIGHT, "-") if live else ("white", EDGE, "-") if age < 0 else (FAINT_WEIGHT, HALF_WEIGHT, "--")
    )
    axis.add_patch(Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, facecolor=face, edgecolor=edge, ls=style, lw=1))
    if live:
        axis.text(j + 0.5, i + 0.5, _name("S", i, j), ha="center", va="center", fontsize=14, color="white")
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
        axis.text(x + width / 2, 3.8, _name(name, *indices), ha="center", va="center", color=ink(colour), fontsize=12)
    for k, name in enumerate(("m", "ℓ")):
        axis.add_patch(Rectangle((8.3 + 0.75 * k, 2.75), 0.55, 2.1, facecolor=OUTPUT))
        axis.text(8.575 + 0.75 * k, 3.8, name, ha="center", va="center", color="white", fontsize=11)
    first = "fetch " + (f"{_name('Q', i)}, " if j == 0 else "") + f"{_name('K', j)} and {_name('V', j)}"
    last = f", then write {_name('O', i)}" if j == walk.side - 1 else ""
    axis.text(0.3, 1.75, first, fontsize=10, va="center")
    axis.text(
        0.3,
        0.75,
        f"make {_name('S', i, j)}, rescale {_name('O', i)}, add, forget {_name('S', i, j)}{last}",
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


# ---------------------------------------------------------------- softmax in one pass, and merging


def online_softmax_steps(scores: Sequence[float], block: int) -> None:
    """The running maximum and the running sum, block after block: bars that shrink when a larger maximum turns up."""
    x = torch.tensor(scores, dtype=torch.float64)
    ends = range(block, len(x) + block, block)
    figure, axes = plt.subplots(2, len(ends), figsize=(9.5, 4.6), sharex=True, sharey="row")
    m, total = -math.inf, 0.0
    for (above, below), end in zip(axes.T, ends):
        seen = x[:end]
        new = max(m, x[end - block : end].max().item())
        factor, fresh = math.exp(m - new), torch.exp(x[end - block : end] - new).sum().item()
        _scores_so_far(above, x, end - block, end, new)
        _powers_so_far(below, seen, end - block, m, new)
        below.set_xlabel(
            f"$\\ell$ = {factor:.3g} · {total:.3f} + {fresh:.3f} = {factor * total + fresh:.3f}", fontsize=10
        )
        m, total = new, factor * total + fresh
    axes[0, 0].set_ylabel("score x")
    axes[1, 0].set_ylabel("$e^{\\,x - m}$")
    show()


def _scores_so_far(axis, x: Tensor, start: int, end: int, m: float) -> None:
    colours = [KEY if start <= i < end else HALF_KEY if i < start else MASKED for i in range(len(x))]
    axis.bar(range(len(x)), x.clamp_min(0.06), color=colours)
    axis.axhline(m, color=WEIGHT, ls="--", lw=1.4)
    axis.text(-0.45, m + 0.12, f"m = {m:g}", color=WEIGHT, fontsize=10, va="bottom")
    axis.set(
        title="block " + ", ".join(f"{value:g}" for value in x[start:end].tolist()),
        xticks=[],
        ylim=(0, x.max().item() + 1),
    )


def _powers_so_far(axis, seen: Tensor, start: int, before: float, m: float) -> None:
    """The powers of what was seen. The dotted outline is what an old power was before the maximum rose."""
    powers = torch.exp(seen - m)
    axis.bar(range(len(seen)), powers, color=[HALF_KEY] * start + [KEY] * (len(seen) - start))
    if start and before < m:
        axis.bar(range(start), torch.exp(seen[:start] - before), fill=False, edgecolor=OUTPUT, ls=":", lw=1)
        axis.text(
            -0.45, 1.07, f"old ones × $e^{{{before:g}-{m:g}}}$ = {math.exp(before - m):.3f}", fontsize=9, color=OUTPUT
        )
    elif start:
        axis.text(-0.45, 1.07, "old ones × $e^0$ = 1: they stay", fontsize=9, color=OUTPUT)
    axis.set(ylim=(0, 1.25), xticks=[], yticks=[0, 0.5, 1])


def merging(parts: dict[str, tuple[float, float]]) -> None:
    """Partial results as weights on a beam: `parts` maps a name to (output, e^logsumexp). The beam balances at the
    merged output."""
    places, weights = zip(*parts.values())
    merged = sum(p * w for p, w in parts.values()) / sum(weights)
    low, high = min(places), max(places)
    figure, axis = plt.subplots(figsize=(7, 2.6))
    axis.plot([low - 3, high + 3], [0, 0], color=OUTPUT, lw=4, solid_capstyle="round")
    for (name, (place, weight)), colour in zip(parts.items(), (QUERY, KEY)):
        width, height = 2 * math.sqrt(weight), 0.8 * math.sqrt(weight)  # the area is the weight
        axis.add_patch(Rectangle((place - width / 2, 0.12), width, height, facecolor=colour))
        axis.text(
            place,
            height + 0.3,
            f"{name}: output {place:g}, weight $e^L$ = {weight:g}",
            ha="center",
            fontsize=10,
            color=as_text(colour),
        )
    axis.add_patch(Polygon([(merged, -0.12), (merged - 0.9, -1), (merged + 0.9, -1)], color=WEIGHT))
    axis.text(merged, -1.5, f"merged: {merged:g}", ha="center", color=WEIGHT, fontsize=11)
    mean = sum(places) / len(places)
    axis.plot([mean] * 2, [-0.3, 0.3], color="black", lw=1.5)
    axis.text(mean, 0.45, f"plain mean: {mean:g}", ha="center", fontsize=9)
    axis.set(xlim=(low - 7, high + 7), ylim=(-1.7, 2.1))
    axis.axis("off")
    show()


# ---------------------------------------------------------------- which tiles, in which order


def causal_tiles_map(*shapes: tuple[int, int, int, int]) -> None:
    """Full, diagonal and skipped tiles of causal attention for each (n, m, block_q, block_k)."""
    figure, axes = plt.subplots(
        1, len(shapes), figsize=(9.5, 4.3), width_ratios=[m for _, m, _, _ in shapes], layout="none"
    )
    for axis, shape in zip(axes, shapes):
        _causal_tiles(axis, *shape)
    kinds = {
        "full: no mask needed": WEIGHT,
        "diagonal: allowed pairs": HALF_WEIGHT,
        "diagonal: masked pairs": FAINT_WEIGHT,
        "skipped: never made": "white",
    }
    patches = [Patch(facecolor=colour, edgecolor=EDGE, label=name) for name, colour in kinds.items()]
    figure.legend(handles=patches, loc="lower center", ncol=4, frameon=False, fontsize=9)
    figure.subplots_adjust(left=0.05, right=0.98, top=0.92, bottom=0.2, wspace=0.15)
    with plt.rc_context({"figure.autolayout": False}):
        show()


def _causal_tiles(axis, n: int, m: int, block_q: int, block_k: int) -> None:
    """0 skipped, 1 masked, 2 allowed in a tile that has both, 3 a tile without a masked pair."""
    mask, kind, visited = causal_mask(n, m), torch.zeros(n, m), 0
    for i in range(0, n, block_q):
        for j in range(0, m, block_k):
            tile = mask[i : i + block_q, j : j + block_k]
            visited += tile.any().item()
            kind[i : i + block_q, j : j + block_k] = 3 if tile.all() else tile + 1 if tile.any() else 0
            height, width = tile.shape
            axis.add_patch(
                Rectangle(
                    (j, i),
                    width,
                    height,
                    fill=False,
                    edgecolor="white" if tile.any() else EDGE,
                    lw=1.8 if tile.any() else 0.9,
                )
            )
    axis.imshow(
        kind, cmap=ListedColormap(["white", FAINT_WEIGHT, HALF_WEIGHT, WEIGHT]), vmin=0, vmax=3, extent=(0, m, n, 0)
    )
    total = -(-n // block_q) * -(-m // block_k)
    axis.set_title(f"{n} queries, {m} keys, tiles {block_q} × {block_k}: {visited} of {total} tiles", fontsize=10)
    axis.set(
        xlabel="key",
        ylabel="query",
        xticks=range(0, m + 1, block_k),
        yticks=range(0, n + 1, block_q),
        xlim=(-0.1, m + 0.1),
        ylim=(n + 0.1, -0.1),
    )
    axis.tick_params(length=0, labelsize=8)
    axis.spines[:].set_visible(False)


def backward_walks(side: int = 4) -> None:
    """Who may write where: a program a tile of keys walks down a column, one a tile of queries along a row."""
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4))
    titles = ("dK and dV: one program per tile of keys", "dQ: one program per tile of queries")
    for axis, title, down in zip(axes, titles, (True, False)):
        for i in range(side):
            for j in range(side):
                own = (j if down else i) == 1
                axis.add_patch(Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, facecolor=WEIGHT if own else FAINT_WEIGHT))
            for x, y, width, height, name, colour, own in (
                (-0.6, i, 0.45, 1, "Q" if down else "dQ", QUERY, not down and i == 1),
                (i, -0.6, 1, 0.45, "dK,dV" if down else "K,V", KEY, down and i == 1),
            ):
                axis.add_patch(
                    Rectangle(
                        (x + 0.03, y + 0.03), width - 0.06, height - 0.06, facecolor=colour, alpha=1 if own else 0.2
                    )
                )
                axis.text(
                    x + width / 2,
                    y + height / 2,
                    name,
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=ink(colour) if own else "black",
                )
        start, end = ((1.5, 0.15), (1.5, side - 0.1)) if down else ((0.15, 1.5), (side - 0.1, 1.5))
        axis.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=16, color="white", lw=2))
        axis.set(xlim=(-0.7, side + 0.1), ylim=(side + 0.1, -0.7), aspect="equal")
        axis.set_title(title, fontsize=10)
        axis.axis("off")
    show()


def decoding_splits(tiles: int = 12, workers: int = 4) -> None:
    """One query and a long row of keys: who reads which tile of keys when, alone and shared out."""
    colours = (QUERY, KEY, VALUE, WEIGHT)
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 2.5), sharex=True, sharey=True)
    for axis, count in zip(axes, (1, workers)):
        each = -(-tiles // count)
        for tile in range(tiles):
            worker, step = divmod(tile, each)
            axis.add_patch(Rectangle((step + 0.05, worker + 0.1), 0.9, 0.8, facecolor=colours[worker % 4]))
            axis.text(
                step + 0.5,
                worker + 0.5,
                _name("K", tile),
                ha="center",
                va="center",
                color=ink(colours[worker % 4]),
                fontsize=9,
            )
        if count > 1:
            axis.add_patch(Rectangle((each + 0.2, 0.1), 0.9, count - 0.2, facecolor=OUTPUT))
            axis.text(
                each + 0.65, count / 2, "merge", ha="center", va="center", rotation=90, color="white", fontsize=10
            )
        for worker in range(count, workers):
            axis.text(0.1, worker + 0.5, "idle", va="center", color=OUTPUT, fontsize=9)
        steps = each if count == 1 else each + 1
        axis.set_title(f"{'one worker' if count == 1 else f'{count} workers'}: {steps} steps", fontsize=10.5)
        axis.set(xlim=(0, tiles), ylim=(workers, 0), xlabel="step", xticks=range(0, tiles + 1, 2))
        axis.set_yticks(
            [worker + 0.5 for worker in range(workers)],
            [f"worker {worker + 1}" for worker in range(workers)],
            fontsize=9,
        )
        axis.tick_params(length=0)
    show()


def program_offsets(n: int = 5, d: int = 3, block: int = 2) -> None:
    """The offsets that every program reads, in a row-major matrix and a transposed view; slots outside are crossed."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6))
    titles = (f"x of shape ({n}, {d}), strides ({d}, 1)", f"a transposed view of shape ({n}, {d}), strides (1, {n})")
    colours, width = (QUERY, KEY, VALUE, WEIGHT), 1 << (d - 1).bit_length()
    for axis, title, (down, right) in zip(axes, titles, ((d, 1), (1, n))):
        for row in range(-(-n // block) * block):
            for column in range(width):
                inside, colour = row < n and column < d, colours[row // block % 4]
                axis.add_patch(
                    Rectangle(
                        (column + 0.04, row + 0.05),
                        0.92,
                        0.9,
                        facecolor=colour if inside else "white",
                        alpha=1,
                        edgecolor=colour,
                        ls="-" if inside else ":",
                    )
                )
                offset = row * down + column * right
                axis.text(
                    column + 0.5,
                    row + 0.5,
                    str(offset) if inside else f"{offset} ✗",
                    ha="center",
                    va="center",
                    fontsize=11 if inside else 9,
                    color=ink(colour) if inside else OUTPUT,
                )
        for program in range(-(-n // block)):
            axis.text(
                -0.15,
                (program + 0.5) * block,
                f"program {program}",
                ha="right",
                va="center",
                fontsize=10,
                color=as_text(colours[program % 4]),
            )
        axis.set_title(title, fontsize=10)
        axis.set(xlim=(-1.9, width + 0.2), ylim=(-(-n // block) * block + 0.1, -0.1), aspect="equal")
        axis.axis("off")
    show()


def kernel_tiles(n: int = 13, m: int = 19, block: int = 8) -> None:
    """What the programs of a causal forward kernel compute: a row of tiles each, with slots that don't exist."""
    kinds = ["white", WEIGHT, FAINT_WEIGHT, FAINT_KEY, FAINT_QUERY]
    names = ["skipped", "seen", "hidden: −∞", "no such key: −∞", "no such row: never stored"]
    down, right = -(-n // block), -(-m // block)
    row, key = torch.arange(down * block)[:, None], torch.arange(right * block)
    kind = torch.where(key <= row + m - n, 1, 2).where(key < m, 3).where(row < n, 4)
    figure, axis = plt.subplots(figsize=(9.5, 4.4))
    for i in range(down):
        end = min(m, (i + 1) * block + m - n)
        kind[i * block : (i + 1) * block, -(-end // block) * block :] = 0
        axis.text(
            -0.4,
            (i + 0.5) * block,
            f"program ({i}, pair)\nrows {i * block} … {(i + 1) * block - 1}",
            ha="right",
            va="center",
            fontsize=10,
        )
    axis.imshow(kind, cmap=ListedColormap(kinds), vmin=0, vmax=4, extent=(0, right * block, down * block, 0))
    for j in range(right):
        axis.text(
            (j + 0.5) * block,
            -0.3,
            f"start = {j * block}\nkeys {j * block} … {(j + 1) * block - 1}",
            ha="center",
            fontsize=9.5,
        )
    axis.set_xticks(range(right * block), [], minor=True)
    axis.set_yticks(range(down * block), [], minor=True)
    axis.grid(which="minor", color="white", lw=0.8)
    for i, j in ((i, j) for i in range(down) for j in range(right)):
        axis.add_patch(Rectangle((j * block, i * block), block, block, fill=False, edgecolor="black", lw=1.4, zorder=3))
    axis.set(xticks=[], yticks=[], xlim=(-0.1, right * block + 0.1), ylim=(down * block + 0.1, -0.1))
    axis.tick_params(which="both", length=0)
    axis.spines[:].set_visible(False)
    patches = [
        Patch(facecolor=kind, edgecolor=EDGE, label=name)
        for kind, name in zip(kinds[1:] + kinds[:1], names[1:] + names[:1])
    ]
    axis.legend(handles=patches, frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.45, -0.02), ncols=5)
    show()


# ---------------------------------------------------------------- measured


def _heads(n: int, d: int, heads: int = 1, **options) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(1, heads, n, d, **options) for _ in range(3))


def _counted(function: Callable, *args):
    """One counted call; an answer that isn't written yet, or fails, says so as if it had been called directly."""
    seen = observe(function, args)
    if seen.error:
        raise NotImplementedError if seen.error.kind == "NotImplementedError" else RuntimeError(str(seen.error))
    return seen


@waits_for("flash_attention_forward")
def largest_tensor(forward: Callable, lengths: Sequence[int], d: int, block: int) -> None:
    """Elements of the largest tensor that was ever made, plain and tiled, with the exponents of n."""
    curves = {"standard": [], "yours, tiled": []}
    for n in lengths:
        q, k, v = _heads(n, d)
        curves["standard"].append(_counted(scaled_dot_product_attention, q, k, v).largest)
        curves["yours, tiled"].append(_counted(forward, q, k, v, False, block, block).largest)
    figure, axis = plt.subplots(figsize=(6.5, 3.2))
    for (name, values), colour, mark in zip(curves.items(), (OUTPUT, WEIGHT), "so"):
        axis.loglog(
            lengths, values, mark + "-", color=colour, label=f"{name}: n^{growth.slope(lengths[-3:], values[-3:]):.1f}"
        )
    axis.set(title=f"elements of the largest tensor (d = {d}, tiles of {block})", xlabel="n")
    axis.set_xticks(lengths, lengths)
    axis.minorticks_off()
    axis.legend(frameon=False)
    show()


@waits_for("flash_attention_forward")
def causal_saving(
    forward: Callable, n: int = 240, d: int = 16, sides: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 24)
) -> None:
    """Counted FLOPs of the causal pass over those of the full one, for ever smaller tiles."""
    q, k, v = _heads(n, d)
    shares = []
    for side in sides:
        full, causal = (_counted(forward, q, k, v, flag, n // side, n // side).flops for flag in (False, True))
        shares.append(causal / full)
    figure, axis = plt.subplots(figsize=(6.5, 3))
    axis.plot(
        sides,
        [(side + 1) / (2 * side) for side in sides],
        color=OUTPUT,
        ls="--",
        label="½ (1 + 1/T): triangle of tiles",
    )
    axis.plot(sides, shares, "o", color=WEIGHT, label="yours, counted")
    axis.axhline(0.5, color=MASKED, zorder=0)
    axis.set(
        title="causal FLOPs / full FLOPs", xlabel="T, tiles along one side", ylim=(0.4, 1.1), yticks=[0.5, 0.75, 1]
    )
    axis.legend(frameon=False)
    show()


@waits_for("flash_attention_backward")
def gradients_agree(attention: Callable, n: int = 40, m: int = 50, d: int = 8) -> None:
    """Every entry of dQ, dK and dV: the student's against PyTorch's own gradient of plain attention, in float64."""
    options = {"dtype": torch.float64, "requires_grad": True}
    inputs = [torch.randn(2, length, d, **options) for length in (n, m, m)]
    grad_out = torch.randn(2, n, d, dtype=torch.float64)
    expected = torch.autograd.grad(scaled_dot_product_attention(*inputs), inputs, grad_out)
    got = torch.autograd.grad(attention(*inputs), inputs, grad_out)
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.1))
    for axis, name, want, have, colour in zip(axes, ("dQ", "dK", "dV"), expected, got, (QUERY, KEY, VALUE)):
        reach = want.abs().max().item() * 1.1
        axis.plot([-reach, reach], [-reach, reach], color=MASKED, lw=4, zorder=0)
        axis.plot(want.flatten(), have.flatten(), ".", color=colour, ms=4)
        axis.set_title(f"{name}: differs by at most {(want - have).abs().max():.0e}", fontsize=10)
        axis.set(
            xlabel="PyTorch, through the n × m square", ylabel="yours, tiled" if axis is axes[0] else "", aspect="equal"
        )
    show()


@waits_for("flash_attention_forward")
def time_and_memory(
    ways: dict[str, Callable], lengths: Sequence[int], d: int = 64, kernels: dict[str, Callable] | None = None
) -> None:
    """Measured time and peak memory of kinds of attention over n, one head. `kernels` join on a GPU, if they work."""
    if device().type == "cuda":
        small = _heads(48, d, device=device())
        ways = ways | {name: kernel for name, kernel in (kernels or {}).items() if not observe(kernel, small).error}
    times, peaks = ({name: [] for name in ways} for _ in range(2))
    for n in lengths:
        inputs = _heads(n, d, device=device())
        for name, way in ways.items():
            times[name].append(1e3 * _best_time(functools.partial(way, *inputs)))
            peaks[name].append(peak_bytes(functools.partial(way, *inputs)) / 2**20)
    clock = "milliseconds" if device().type == "cuda" else "milliseconds on one thread"
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 3.8))
    for axis, title, curves in zip(axes, (f"time: {clock}", "peak memory beyond the inputs: MB"), (times, peaks)):
        _growing(axis, title, lengths, curves)
    last = {name: values[-1] for name, values in peaks.items()}
    _apart(axes[1], lengths[-1], *(list(last.values())[place] for place in (0, -1)))
    said = ", ".join(f"{name}: {size:.3g} MB" for name, size in last.items())
    show(
        f"Time and peak memory of {len(ways)} kinds of attention over n, log-log, each with its exponent of n. Peak "
        f"memory at n = {lengths[-1]}: {said}."
    )


def _apart(axis, n: int, most: float, ours: float) -> None:
    """An arrow from one curve's end to the other's, and how many times less the second needs."""
    if most > ours > 0:
        axis.annotate("", (n, ours), (n, most), arrowprops={"arrowstyle": "<->", "color": KEY, "lw": 1.4})
        words = f"{most / ours:.0f} times\nless "
        axis.text(n, math.sqrt(most * ours), words, ha="right", va="center", fontsize=9, color=as_text(KEY))


def _growing(axis, title: str, lengths: Sequence[int], curves: dict[str, Sequence[float]]) -> None:
    """A log-log panel: each curve with its name and its exponent of n, fitted to the last three points, at its end."""
    ends = []
    for (name, values), colour, mark in zip(curves.items(), (OUTPUT, QUERY, WEIGHT, HALF_WEIGHT), "s^oD"):
        axis.loglog(lengths, values, mark + "-", color=colour)
        ends.append((f"{name}: $n^{{{growth.slope(lengths[-3:], values[-3:]):.1f}}}$", values[-1], colour))
    axis.set_title(title, fontsize=10, loc="left")
    axis.set(xlabel="tokens n")
    axis.set_xticks(lengths, lengths)
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.4g}")
    name_lines(axis, lengths[-1], ends, apart=0.09, size=9)


def _best_time(call: Callable[[], object]) -> float:
    """Seconds. On a CPU of this process on one thread: other programs and the number of cores don't count."""
    if device().type == "cuda":
        return seconds(call)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return min(_process_time(call) for _ in range(3))
    finally:
        torch.set_num_threads(threads)


def _process_time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


@waits_for("triton_forward")
def kernel_speed(
    kernel: Callable, tiles: Sequence[tuple[int, int]] = ((32, 32), (64, 64), (128, 64)), d: int = 64
) -> None:
    """On a GPU: TFLOP/s of the kernel for some tile sizes, under the measured ceiling. Elsewhere: interpreted."""
    q, k, v = _heads(48, 16, device=device())
    seen = observe(kernel, (q, k, v))
    if seen.error and seen.error.kind == "NotImplementedError":
        raise NotImplementedError
    if seen.error:
        print(f"The kernel did not run: {seen.error.message or seen.error.kind}")
    elif device().type == "cuda":
        _tflops(kernel, tiles, d)
    else:
        _interpreted(kernel)


def _tflops(kernel: Callable, tiles: Sequence[tuple[int, int]], d: int) -> None:
    """16 heads in float16. A tile size that the GPU has no room for is left out."""
    lengths, ceiling = (1024, 2048, 4096, 8192), this_machine().peak / 1e12
    ways = {f"yours, {a}×{b}": lambda q, k, v, a=a, b=b: kernel(q, k, v, False, a, b) for a, b in tiles}
    ways["SDPA"] = torch.nn.functional.scaled_dot_product_attention
    figure, axis = plt.subplots(figsize=(7.5, 3.8))
    for (name, way), colour in zip(ways.items(), (HALF_WEIGHT, WEIGHT, KEY, QUERY)):
        speeds = []
        for n in lengths:
            q, k, v = _heads(n, d, heads=16, device=device(), dtype=torch.float16)
            try:
                speeds.append(16 * 4 * n**2 * d / seconds(functools.partial(way, q, k, v)) / 1e12)
            except Exception as error:  # Triton has several names for "this does not fit"
                print(f"{name}, n = {n}: {type(error).__name__}")
                break
        axis.plot(lengths[: len(speeds)], speeds, "o-", color=colour, label=name)
    axis.axhline(ceiling, color=OUTPUT, ls="--", label=f"matrix products alone: {ceiling:.0f}")
    axis.set(title=f"forward TFLOP/s, 16 heads, d = {d}, float16", xlabel="n", xscale="log", ylim=(0, None))
    axis.set_xticks(lengths, lengths)
    axis.minorticks_off()
    axis.legend(frameon=False, fontsize=9)
    show()


def _interpreted(kernel: Callable, lengths: Sequence[int] = (32, 48, 64, 96, 128), d: int = 32) -> None:
    """Without a GPU a kernel is simulated: its numbers can be looked at, its speed can't."""
    gaps = []
    for n in lengths:
        q, k, v = _heads(n, d)
        gaps.append((kernel(q, k, v)[0] - scaled_dot_product_attention(q, k, v)).abs().max().item())
    print(f"No GPU here, so the kernel is interpreted. Largest difference from plain attention: {max(gaps):.0e}")
    figure, axis = plt.subplots(figsize=(7, 2.8))
    axis.semilogy(lengths, [max(gap, 1e-9) for gap in gaps], "o-", color=WEIGHT)
    for size, words, side, away in (
        (1e-3, "a slip: 0.001 and more", "bottom", 1.3),
        (torch.finfo(torch.float32).eps, "rounding of float32 near 1", "top", 0.7),  # the curve runs above this one
    ):
        axis.axhline(size, color=OUTPUT, ls=":", lw=1)
        axis.text(lengths[0], size * away, words, fontsize=8.5, color=OUTPUT, va=side)
    axis.set(title="interpreted: how far your kernel is from plain attention (its speed needs a GPU)", ylim=(1e-9, 1))
    axis.set(xlabel="tokens n", ylabel="largest difference", xticks=lengths)
    axis.title.set_fontsize(10)
    show(
        f"Largest difference between the interpreted kernel and plain attention for n from {lengths[0]} to "
        f"{lengths[-1]}: at most {max(gaps):.0e}."
    )
