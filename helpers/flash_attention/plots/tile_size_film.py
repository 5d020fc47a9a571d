"""The size of a tile as a slider: what it takes on the chip, and what it saves on the way there."""

from collections.abc import Callable

import matplotlib.pyplot as plt

from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, as_text, waits_for

from .. import traffic

__all__ = ["tile_size_film"]

ROWS = (8, 16, 32, 64, 128, 192, 256, 328, 456, 768)
"""128, 328 and 456 rows fill a multiprocessor of a T4, an A100 and an H100 where d = 64 and a number takes 2 bytes."""


@waits_for("hbm_traffic")
def tile_size_film(standard: Callable, tiled: Callable, n: int = 8192, d: int = 64) -> None:
    """The rows B of a tile grow: four tiles fill more of the chip, and keys and values travel less often."""
    play(_film(standard, tiled, n, d))


def _film(standard: Callable, tiled: Callable, n: int, d: int, size: int = 2) -> str:
    held = [4 * rows * d * size for rows in ROWS]  # bytes of a tile each of Q, K, V and O
    moved, far = [tiled(n, d, space, size) for space in held], standard(n, d, size)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), width_ratios=(1, 1.5), layout="none")
    figure.subplots_adjust(left=0.08, right=0.98, top=0.88, bottom=0.16, wspace=0.25)

    def frame(i: int) -> str:
        for axis in axes:
            axis.clear()
        _chip(axes[0], held[i] / 1024)
        _way(axes[1], moved, far, i)
        return _told(ROWS[i], held[i], moved[i], far, -(-n // ROWS[i]))

    described = (
        f"Tiles of {ROWS[0]} to {ROWS[-1]} rows, one after the other: the memory that four of them take on "
        "the chip rises in step, and the bytes that attention moves fall in step."
    )
    return film(figure, frame, range(len(ROWS)), described, milliseconds=2500, still=4)


def _chip(axis, kilobytes: float) -> None:
    """A bar, under the shared memory of three GPUs."""
    axis.bar([0], [kilobytes], width=0.5, color=QUERY)
    for machine, space in traffic.ON_CHIP.items():
        fits = kilobytes <= space / 1024
        axis.axhline(space / 1024, color=OUTPUT, lw=1.5, ls="-" if fits else ":")
        words = f"{machine.name.split()[0]}: {space // 1024} kB{'' if fits else ', too little'}"
        axis.text(1.45, space / 1024 + 4, words, ha="right", fontsize=9, color=as_text(OUTPUT))
    axis.set(xlim=(-0.5, 1.5), ylim=(0, 400), xticks=[], ylabel="kB")
    axis.set_title("four tiles on the chip", fontsize=10.5)


def _way(axis, moved: list[int], far: int, now: int) -> None:
    """Bytes moved over the rows of a tile; the size of now as a dot."""
    megabytes = [value / 1e6 for value in moved]
    axis.loglog(ROWS, megabytes, color=QUERY, lw=2)
    axis.plot(ROWS[now], megabytes[now], "o", ms=10, color=QUERY)
    axis.annotate(
        f"{megabytes[now]:,.0f} MB", (ROWS[now], megabytes[now]), xytext=(8, 6), textcoords="offset points", fontsize=10
    )
    axis.axhline(far / 1e6, color=KEY, lw=3)
    axis.text(ROWS[-1], far / 1e6 * 1.12, f"standard: {far / 1e6:,.0f} MB", ha="right", fontsize=9, color=as_text(KEY))
    axis.set(xlim=(6, 1100), ylim=(min(megabytes) / 2, max(*megabytes, far / 1e6) * 2), xlabel="rows B of a tile")
    axis.set_xticks([8, 16, 32, 64, 128, 256, 512], ["8", "16", "32", "64", "128", "256", "512"])
    axis.set_yticks([30, 100, 300, 1000], ["30", "100", "300", "1000"])
    axis.minorticks_off()
    axis.set_title("MB moved for one head", fontsize=10.5)


def _told(rows: int, held: int, moved: int, far: int, walks: int) -> str:
    """What is to be seen: where it fits, how often keys and values travel, and against standard attention."""
    names = [machine.name.split()[0] for machine, space in traffic.ON_CHIP.items() if held <= space]
    where = f"fit on {'all three' if len(names) == 3 else ' and '.join(names)}" if names else "fit on none of the three"
    ratio = far / moved
    gain = (
        f"{ratio:.1f} times fewer than"
        if ratio > 1.05
        else f"{1 / ratio:.1f} times as many as"
        if ratio < 0.95
        else "as many as"
    )
    return (
        f"Tiles of {rows} rows take {held / 1024:.0f} kB and {where}. Keys and values travel {walks} times: "
        f"{moved / 1e6:,.0f} MB, {gain} the standard way."
    )
