"""One look for all pictures, and one way to say that a picture has to wait for an exercise."""

import functools
import io
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.text import Text

from . import paper
from .palette import (
    EDGE,
    FAINT_KEY,
    FAINT_QUERY,
    FAINT_WEIGHT,
    HALF_KEY,
    HALF_WEIGHT,
    KEY,
    MASKED,
    MAY_ATTEND,
    OCHRE,
    OUTPUT,
    PINK,
    QUERY,
    RED,
    SKY,
    VALUE,
    WEIGHT,
    as_text,
    ink,
)
from .sections import section

SHARP = 2
"""Pixels of a picture to one of the page."""
LETTERS = 11.0, 13.5
"""The smallest and the largest, in pixels of the page."""
WAITING = "This picture needs your answer to"
MASK = ListedColormap([MASKED, MAY_ATTEND])  # of a matrix of truth values: may attend?


def waits_for(*exercises: str) -> Callable:
    """Let a picture that uses a student's answer to these exercises (ids) say so where that isn't written yet, instead
    of raising."""

    def decorate(draw: Callable) -> Callable:
        @functools.wraps(draw)
        def picture(*args, **kwargs) -> None:
            try:
                draw(*args, **kwargs)
            except NotImplementedError:
                plt.close()
                print(f"{WAITING} {_sections(exercises)}. Write it, then run this cell again.")

        return picture

    return decorate


_SHOWS: ContextVar[str] = ContextVar("_SHOWS", default="")


def described(draw: Callable) -> Callable:
    """A picture whose figures say what they show in the words of its docstring."""

    @functools.wraps(draw)
    def picture(*args, **kwargs) -> Any:
        before = _SHOWS.set(" ".join((draw.__doc__ or "").split("\n\n")[0].split()))
        try:
            return draw(*args, **kwargs)
        finally:
            _SHOWS.reset(before)

    return picture


def show(described: str = "") -> None:
    """Show the figures. described: what they show, for those who can't see it; else what the picture's docstring says.

    As HTML: of a bare picture JupyterLab, nbconvert and VS Code leave the words out.
    """
    if not plt.get_backend().lower().endswith("inline"):
        plt.show()
        return
    from IPython.display import display  # there in every notebook, and needed nowhere else

    words = described or _SHOWS.get()
    for figure in map(plt.figure, plt.get_fignums()):
        _one_size(figure)
        display({"text/html": paper.image(_png(figure), words, SHARP), "text/plain": words}, raw=True)
    plt.close("all")


def _one_size(figure: Figure) -> None:
    """Letters that neither shout nor whisper on the page, however wide the picture is."""
    figure.draw_without_rendering()  # before that an axis may have no numbers yet
    points = 0.72 * max(1.0, 100 * figure.get_figwidth() / paper.COLUMN)  # to a pixel of the page
    for text in figure.findobj(Text):
        text.set_fontsize(min(max(text.get_fontsize(), LETTERS[0] * points), LETTERS[1] * points))


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=SHARP * figure.get_dpi(), bbox_inches="tight", facecolor="white")
    return file.getvalue()


def _sections(exercises: tuple[str, ...]) -> str:
    """The exercises by number and title of their sections: "exercise 3.13 (The zoo)"."""
    words = list(dict.fromkeys(map(section, exercises)))
    listed = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return f"exercise{'s' * (len(words) > 1)} {listed}"


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
