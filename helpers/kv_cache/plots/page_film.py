"""Pages of a cache as a film: sequences grow, fork, write and go; pool, tables and users of each page follow."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle

from helpers.film import film, play
from helpers.style import KEY, OUTPUT, QUERY, VALUE, WEIGHT, as_text

from ..paged_cache import PagedCache

__all__ = ["page_film"]

COLOURS = {"a": QUERY, "b": KEY, "c": VALUE}
PAGES, SIZE = 5, 4
EVENTS: tuple[tuple[str, Callable[[PagedCache], None]], ...] = (
    ("“a” begins with 3 tokens: it takes page 0.", lambda cache: cache.append("a", torch.zeros(3, 1))),
    (
        "Three more: page 0 is full with one of them, and page 1 is taken for the rest.",
        lambda cache: cache.append("a", torch.zeros(3, 1)),
    ),
    (
        "“b” is forked from “a”: its table is a copy of a's, and not one token is copied. Both pages have two users.",
        lambda cache: cache.fork("a", "b"),
    ),
    (
        "“b” writes a token. Page 1 is shared, so its rows go to page 2 first (copy on write), and b's table changes.",
        lambda cache: cache.append("b", torch.zeros(1, 1)),
    ),
    (
        "“a” writes a token. Nobody else uses page 1 now: nothing is copied.",
        lambda cache: cache.append("a", torch.zeros(1, 1)),
    ),
    (
        "“c” begins with 6 tokens, on pages 3 and 4. The pool is full.",
        lambda cache: cache.append("c", torch.zeros(6, 1)),
    ),
    ("“a” is freed. Page 1 is free again; page 0 stays, because “b” still uses it.", lambda cache: cache.free("a")),
    (
        "“c” writes 3 more: the free page 1 is taken. Its pages are 3, 4, 1: a table needs no order.",
        lambda cache: cache.append("c", torch.zeros(3, 1)),
    ),
)


def page_film() -> None:
    """The life of three sequences in a pool of five pages, one event per frame; the numbers are those of a cache."""
    play(_film())


def _film() -> str:
    cache = PagedCache(PAGES, SIZE, d=1)
    figure, axis = plt.subplots(figsize=(9.5, 2.9), layout="none")
    figure.subplots_adjust(left=0.01, right=0.99, top=0.99, bottom=0.01)

    def frame(event: int) -> str:
        said, happen = EVENTS[event]
        happen(cache)
        axis.clear()
        axis.set(xlim=(-0.3, PAGES * (SIZE + 1)), ylim=(4.9, -0.9))
        axis.axis("off")
        for page in range(PAGES):
            _page(axis, cache, page)
        for row, (name, table) in enumerate(cache.table.items()):
            _table(axis, name, table, cache.length[name], 2.75 + 0.75 * row)
        return f"{said} Free pages: {cache.free_pages}."

    described = (
        f"A pool of {PAGES} pages of {SIZE} tokens; sequences a, b and c take pages, share them, copy one when they "
        "write, and give them back. Their tables and the number of users of each page are shown."
    )
    return film(figure, frame, range(len(EVENTS)), described, milliseconds=3500)


def _page(axis, cache: PagedCache, page: int) -> None:
    """Slots of a page in the colours of those who use them, and how many they are."""
    left, users = page * (SIZE + 1), [name for name, table in cache.table.items() if page in table]
    axis.text(left + SIZE / 2, -0.2, f"page {page}", ha="center", fontsize=9.5, color=OUTPUT)
    for slot in range(SIZE):
        axis.add_patch(Rectangle((left + slot, 0), 1, 1, facecolor="white", edgecolor=OUTPUT, lw=0.8))
        inside = [name for name in users if cache.table[name].index(page) * SIZE + slot < cache.length[name]]
        for part, name in enumerate(inside):
            height = 1 / len(inside)
            axis.add_patch(
                Rectangle(
                    (left + slot + 0.04, part * height + 0.04), 0.92, height - 0.08, facecolor=COLOURS[name], alpha=0.6
                )
            )
            axis.text(left + slot + 0.5, (part + 0.5) * height, name, ha="center", va="center", fontsize=9)
    words = f"users: {cache.users[page]}"
    axis.text(
        left + SIZE / 2,
        1.45,
        words,
        ha="center",
        va="center",
        fontsize=9,
        color=WEIGHT if cache.users[page] > 1 else OUTPUT,
    )


def _table(axis, name: str, table: list[int], length: int, y: float) -> None:
    axis.text(
        0,
        y,
        f"table of {name}, {length} tokens:",
        va="center",
        fontsize=9.5,
        color=as_text(COLOURS[name]),
        weight="bold",
    )
    for place, page in enumerate(table):
        axis.add_patch(
            Rectangle((6.2 + 1.3 * place, y - 0.3), 1.15, 0.6, facecolor="white", edgecolor=COLOURS[name], lw=1.4)
        )
        axis.text(6.775 + 1.3 * place, y, page, ha="center", va="center", fontsize=10)
