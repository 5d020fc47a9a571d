"""Runs a module whose text is packed: nobody meets an answer by accident, in a listing, a traceback or
`inspect.getsource`. `attn release` puts this file into the wheel for a class as `helpers/packed.py`. Who wants to look
can."""

import contextlib
import json
import linecache
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKED = "packed.bin"
"""The file of a folder that holds the texts of its modules and hints, by their names."""


@cache
def texts(folder: Path) -> dict[str, str]:
    """What is packed in a folder."""
    return json.loads(zlib.decompress((folder / PACKED).read_bytes()))


def unpack(module: dict[str, Any]) -> None:
    """Fills the namespace of a module from the packed file beside it."""
    path = Path(module["__file__"])
    text = texts(path.parent)[path.name]
    name = f"<{module['__name__']}>"
    with _readable(name, text):
        exec(compile(text, name, "exec", dont_inherit=True), module)
        for made in list(module.values()):
            if (
                type(made).__name__ == "InterpretedFunction"
            ):  # Triton's interpreter reads a kernel's text, else at its first call
                made.rewrite()


@contextlib.contextmanager
def _readable(name: str, text: str) -> Iterator[None]:
    """Triton reads the text of a kernel when it is made."""
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    try:
        yield
    finally:
        linecache.cache.pop(name, None)
