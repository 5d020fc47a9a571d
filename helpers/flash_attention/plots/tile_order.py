"""Pictures of unit 09: which tiles are computed, in which order, and by whom."""

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from helpers.masking.masks import causal_mask
from helpers.style import (
    EDGE,
    FAINT_KEY,
    FAINT_QUERY,
    FAINT_WEIGHT,
    HALF_WEIGHT,
    KEY,
    OUTPUT,
    QUERY,
    VALUE,
    WEIGHT,
    as_text,
    ink,
    show,
)

from .tile_walk import subscripted

__all__ = ["backward_walks", "causal_tiles_map", "decoding_splits", "kernel_tiles", "program_offsets"]


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
    """Who may write where: one program per tile of keys walks down a column, one per tile of queries along a row."""
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
    """One query and a long row of keys: who reads which tile of keys when, one worker alone and several together."""
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
                subscripted("K", tile),
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
