"""Pages of a cache as a film: sequences grow, fork, write and go; pool, tables and users of each page follow."""

from collections.abc import Callable

import torch

from helpers.board import Board, faint
from helpers.film import film, play
from helpers.style import KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT

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
    board, cache = Board(19.4, 9), PagedCache(PAGES, SIZE, d=1)

    def frame(event: int) -> str:
        said, happen = EVENTS[event]
        before = _held(cache)
        happen(cache)
        board.wipe()
        for page in range(PAGES):
            _page(board, cache, page, before)
        for name, table in cache.table.items():
            _table(board, name, table, cache.length[name])
        board.text(9.7, 8.6, "in full color: written in this step")
        return f"{said} Free pages: {cache.free_pages}."

    described = (
        f"A pool of {PAGES} pages of {SIZE} tokens; sequences a, b and c take pages, share them, copy one when they "
        "write, and give them back. An arrow leads from each place in their tables to its page."
    )
    return film(board, frame, range(len(EVENTS)), described, milliseconds=3500)


def _held(cache: PagedCache) -> dict[tuple[int, int], list[str]]:
    """Page and slot of every token → the tokens that lie there: those of all sequences that share it."""
    held: dict[tuple[int, int], list[str]] = {}
    for name, table in cache.table.items():
        for place in range(cache.length[name]):
            held.setdefault((table[place // SIZE], place % SIZE), []).append(f"{name}{place}")
    return held


def _page(board: Board, cache: PagedCache, page: int, before: dict) -> None:
    """The slots of a page, and how many sequences use it."""
    board.text(_middle(page), 0.7, f"page {page}")
    held, users = _held(cache), cache.users[page]
    for slot in range(SIZE):
        left, tokens = _middle(page) + 0.8 * (slot - SIZE / 2), held.get((page, slot), [])
        board.box(left + 0.03, 1.2, 0.74, 1.4, MASKED)
        for part, token in enumerate(tokens):
            high, colour = 1.4 / len(tokens), faint(COLOURS[token[0]], 0.3 if (page, slot) in before else 1)
            board.box(left + 0.03, 1.2 + part * high, 0.74, high - 0.05, colour, token)
    words = f"{users} user{'s' * (users > 1)}" if users else "free"
    board.text(_middle(page), 3.1, words, colour=WEIGHT if users > 1 else OUTPUT)


def _middle(page: int) -> float:
    return 2.1 + 3.8 * page


def _table(board: Board, name: str, table: list[int], length: int) -> None:
    """The pages of a sequence in their order, each with an arrow to its place in the pool."""
    column = "abc".index(name)
    left = 0.5 + 6.5 * column
    for place, page in enumerate(table):
        x = left + 1.5 * place
        board.box(x, 6, 1.4, 1, faint(COLOURS[name], 0.3), str(page), size=10)
        board.arrow((x + 0.7, 5.9), (_middle(page) + 0.5 * (column - 1), 3.6), COLOURS[name], width=2)
    board.text(left, 7.6, f"table of {name}: {length} tokens", colour=COLOURS[name], ha="left", bold=True)
