"""Pictures of the first notebook: all pairs of rows, and weighted averages of rows."""

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle

from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text, show

__all__ = ["average_of_rows", "row_pairs"]


def row_pairs(n: int, m: int, d: int, row: int, column: int) -> None:
    """a, b and the table of all dot products of their rows, with one entry and the two rows that make it filled in."""
    figure, axis = plt.subplots(figsize=(8, 2.7))
    _grid(axis, 0, n, d, QUERY, f"a: {n}×{d}", lambda i, j: i == row)
    _grid(axis, d + 2, m, d, KEY, f"b: {m}×{d}", lambda i, j: i == column)
    _grid(axis, 2 * d + 4, n, m, WEIGHT, f"result: {n}×{m}", lambda i, j: (i, j) == (row, column))
    axis.text(d + 1, max(n, m) / 2, "and", ha="center", va="center", color=OUTPUT)
    axis.text(2 * d + 3, max(n, m) / 2, "→", ha="center", va="center", fontsize=16, color=OUTPUT)
    _finish(axis, 2 * d + 4 + m, max(n, m))


def average_of_rows(weights: list[float], rows: list[list[float]]) -> None:
    """Points in the plane, as large as their weights, and their weighted average among them."""
    w, points = torch.tensor(weights), torch.tensor(rows)
    average = w @ points / w.sum()
    figure, axis = plt.subplots(figsize=(5, 3))
    axis.scatter(*points.T, s=160 * w, color=QUERY, alpha=0.6)
    for weight, point in zip(weights, rows, strict=True):
        axis.annotate(f"weight {weight:g}", point, xytext=(13, 9), textcoords="offset points", color=QUERY)
    axis.scatter(*average, marker="X", s=110, color=VALUE)
    axis.annotate("average", average.tolist(), xytext=(11, -4), textcoords="offset points", color=as_text(VALUE))
    axis.margins(0.3)
    axis.grid(alpha=0.3)
    axis.set(xlabel="feature 0", ylabel="feature 1", title="rows as points, and their weighted average")
    show()


def _grid(axis, x: float, rows: int, columns: int, colour: str, name: str, filled) -> None:
    for i in range(rows):
        for j in range(columns):
            strength = 0.85 if filled(i, j) else 0.2
            axis.add_patch(Rectangle((x + j, i), 1, 1, facecolor=colour, alpha=strength, edgecolor="white"))
    axis.text(x + columns / 2, -0.3, name, ha="center", va="bottom")


def _finish(axis, width: float, height: float) -> None:
    axis.set(xlim=(-0.2, width + 0.2), ylim=(height + 0.2, -1.2), aspect="equal")
    axis.axis("off")
    show()
