"""Files that are written whole: no reader, no crash and no power cut ever sees half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE, SHARED = 0o600, 0o666
"""Who may read a file: its owner, or whom the umask lets."""


@contextmanager
def replaced(path: Path, mode: int = PRIVATE) -> Iterator[Path]:
    """A new file beside `path` to write to; at the end it is on the disk and takes its place. After an error it is
    gone, and what was there stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".tmp-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        os.close(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield half
        flush_to_disk(half)
        os.replace(half, path)
    except BaseException:
        with suppress(OSError):
            half.unlink()
        raise


def write_whole(path: Path, content: str | bytes, mode: int = PRIVATE) -> None:
    """Writes a file whole."""
    with replaced(path, mode) as half:
        half.write_bytes(encoded(content))


def encoded(content: str | bytes) -> bytes:
    """A text as it is written: in UTF-8, half characters (a name that is not UTF-8 holds some) as their numbers."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")


def flush_to_disk(path: Path) -> None:
    """Or else a power cut could leave the new name on old, empty blocks."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
