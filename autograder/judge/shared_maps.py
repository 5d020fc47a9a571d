"""Shared memory in a sandbox is a file: maps that belong to none are refused there, for nobody could count them."""

import mmap
import tempfile
from typing import Any


class SharedMap(mmap.mmap):
    """`mmap.mmap(-1, length)` as a map of a nameless file. Other maps are as ever."""

    def __new__(cls, fileno: int, length: int, *rest: Any, **named: Any) -> "SharedMap":
        flags = rest[0] if rest else named.get("flags", mmap.MAP_SHARED)
        if fileno != -1 or not flags & mmap.MAP_SHARED or named.get("access") == mmap.ACCESS_COPY:
            return super().__new__(cls, fileno, length, *rest, **named)
        if "access" not in named:
            rest, named = rest[1:], named | {"flags": flags & ~mmap.MAP_ANONYMOUS}
            named |= {"prot": rest[0]} if rest else {}
        with tempfile.TemporaryFile() as file:
            file.truncate(length)
            return super().__new__(cls, file.fileno(), length, **named)


def share_by_files() -> None:
    mmap.mmap = SharedMap  # type: ignore[misc]
