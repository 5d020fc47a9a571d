"""The rounds of a scan as a film: sums that double their reach."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from helpers.film import film, play
from helpers.style import KEY, MASKED, OUTPUT, QUERY, ink

__all__ = ["scan_film"]

NUMBERS = (3, 1, 4, 1, 5, 9, 2, 6)


def scan_film() -> None:
    """Running sums of eight numbers in three rounds (Hillis & Steele, 1986), one round per frame."""
    play(_film())


def rounds(numbers: tuple[int, ...] = NUMBERS) -> list[list[int]]:
    """The row of partial sums before the first round and after each."""
    rows, reach = [list(numbers)], 1
    while reach < len(numbers):
        last = rows[-1]
        rows.append([value + (last[i - reach] if i >= reach else 0) for i, value in enumerate(last)])
        reach *= 2
    return rows


def _film() -> str:
    rows, n = rounds(), len(NUMBERS)
    figure, axis = plt.subplots(figsize=(9, 3.4), layout="none")
    figure.subplots_adjust(left=0.09, right=0.99, top=0.98, bottom=0.02)

    def frame(now: int) -> str:
        axis.clear()
        axis.set(xlim=(-0.6, n - 0.4), ylim=(len(rows) - 0.5, -0.5))
        axis.axis("off")
        for step, row in enumerate(rows[: now + 1]):
            axis.text(
                -0.62, step, f"round {step}" if step else "start", ha="right", va="center", color=OUTPUT, fontsize=9
            )
            for i, value in enumerate(row):
                _cell(axis, i, step, value, complete=i < 2**step)
                if step and i >= 2 ** (step - 1):
                    _arrow(axis, i - 2 ** (step - 1), i, step, KEY)
                    _arrow(axis, i, i, step, OUTPUT)
        return _said(now, rows)

    described = (
        "Eight numbers, and below them the rows of partial sums after each of three rounds; the share that is "
        "complete doubles."
    )
    return film(figure, frame, range(len(rows)), described, milliseconds=2500, still=1)


def _cell(axis, i: int, step: int, value: int, *, complete: bool) -> None:
    box = {"boxstyle": "round,pad=0.03", "facecolor": QUERY if complete else MASKED, "edgecolor": "white"}
    axis.add_patch(FancyBboxPatch((i - 0.25, step - 0.17), 0.5, 0.34, **box))
    axis.text(
        i, step, value, ha="center", va="center", color=ink(QUERY) if complete else "black", fontsize=11, zorder=4
    )


def _arrow(axis, source: int, target: int, step: int, colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9}
    axis.annotate("", (target, step - 0.2), (source, step - 0.8), arrowprops=style)


def _said(now: int, rows: list[list[int]]) -> str:
    if now == 0:
        return f"Eight numbers. Wanted: all running sums. The first one, {rows[0][0]}, is complete as it stands (blue)."
    reach, n = 2 ** (now - 1), len(rows[0])
    last = f"{rows[now - 1][-1 - reach]} + {rows[now - 1][-1]} = {rows[now][-1]}"
    said = (
        f"Round {now}: every number adds "
        f"{f'the one {reach} places to its left' if reach > 1 else 'its left neighbor'}, all at once; the last is "
        f"{last}. A number covers up to {2 * reach} elements now, and {min(2 * reach, n)} of {n} are complete."
    )
    return said + (f" A chain would need {n - 1} rounds." if 2 * reach >= n else "")
