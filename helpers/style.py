"""One look for all pictures, and one way to say that a picture has to wait for an exercise."""

import functools
from collections.abc import Callable

import matplotlib.pyplot as plt

QUERY, KEY, VALUE, WEIGHT, OUTPUT = "#2166ac", "#d66011", "#1a7f4b", "#7b3fa0", "#5f6368"


def waits_for(title: str) -> Callable:
    """Let a picture that uses a student's function say so where that function isn't written yet, instead of raising."""

    def decorate(draw: Callable) -> Callable:
        @functools.wraps(draw)
        def picture(*args, **kwargs) -> None:
            try:
                draw(*args, **kwargs)
            except NotImplementedError:
                plt.close()
                print(f"This picture needs your answer to {title}. Write it, then run this cell again.")

        return picture

    return decorate


def heatmap(
    axis, matrix, title: str, *, rows: str = "", columns: str = "", numbers: bool = False, cmap="Purples", **limits
):
    """A matrix as coloured cells, with its numbers in them where they fit."""
    image = axis.imshow(matrix, cmap=cmap, **limits)
    axis.set(title=title, xlabel=columns, ylabel=rows, xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    if numbers:
        middle = (image.norm.vmin + image.norm.vmax) / 2
        for (i, j), value in _entries(matrix):
            dark = value > middle if cmap != "RdBu" else abs(value) > 0.6 * image.norm.vmax
            axis.text(
                j,
                i,
                f"{round(value, 2) + 0.0:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
    return image


def _entries(matrix):
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            yield (i, j), value
