"""Standard streams that bear anything: text that their encoding has not, a reader that has gone, a full disk, and being
closed. What a command does, and its exit status, never depend on who reads what it prints."""

import io
import os
import sys
from typing import Any


class Outlet(io.FileIO):
    """A descriptor to write to that never fails; the first error is kept."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            self.error = self.error or error
            return len(data)


def make_sturdy() -> None:
    """Makes this process's streams so."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed: the next file to be opened would get its number, and what is printed
            _open(descriptor, name)
    sys.stdout, sys.stderr = _sturdy(sys.stdout), _sturdy(sys.stderr)


def lost_output() -> OSError | None:
    """Why what was printed could not be written; None where nobody is there to read it, or it was written."""
    sys.stdout.flush()
    outlet = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    error = outlet.error if isinstance(outlet, Outlet) else None
    return None if isinstance(error, BrokenPipeError) else error


def _open(descriptor: int, name: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    os.set_inheritable(descriptor, True)
    setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


def _sturdy(stream: Any) -> Any:
    try:
        descriptor = stream.fileno()
        stream.flush()
    except (OSError, ValueError):  # none of the system's
        stream.reconfigure(errors="backslashreplace")
        return stream
    buffer = io.BufferedWriter(Outlet(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=True)
