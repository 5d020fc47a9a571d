"""Large pages of memory, for processes that are forked often."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

LARGE = 2 << 20  # bytes
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def use_huge_pages() -> None:
    """Puts this process's memory into pages of 2 MB. A fork copies a table of pages, and ends by giving it back: with
    pages of 4 KB, for each call of a student's function, that is most of the time a submission takes. Where the system
    has no large pages (before Linux 6.1, or switched off) nothing happens."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in _own_memory():
        advise(start, end - start, MADV_HUGEPAGE)
        for page in range(start, end, LARGE):
            advise(page, LARGE, MADV_COLLAPSE)


def _own_memory() -> Iterator[tuple[int, int]]:
    """Where the memory lies that this process has written, in whole large pages."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, _, _, *name = line.split(maxsplit=5)
        first, last = (int(part, 16) for part in place.split("-"))
        start, end = -(-first // LARGE) * LARGE, last // LARGE * LARGE
        if rights == "rw-p" and name in ([], ["[heap]"]) and start < end:
            yield start, end
