"""What a whole machine may have run out of while a cell ran, so that the cell failed by no fault of its own. Sandboxes
bound what each may take of it; this is for what they can't bound, and for all else that runs on the machine."""

from collections.abc import Callable
from pathlib import Path

PROC = Path("/proc")


def _numbers(name: str) -> list[int]:
    return [int(word) for word in _text(name).split()]


def _text(name: str) -> str:
    try:
        return (PROC / name).read_text()
    except OSError:  # not every Linux says it
        return ""


def _no_terminals() -> bool:
    """A sandbox has its own /dev/pts, for which some of the machine's are reserved for others."""
    have, most, reserved = (_numbers(f"sys/kernel/pty/{name}") for name in ("nr", "max", "reserve"))
    return bool(have and most and reserved) and have[0] >= most[0] - reserved[0]


def _no_files() -> bool:
    have = _numbers("sys/fs/file-nr")
    return len(have) == 3 and have[0] >= have[2]


def _out_of_memory() -> int:
    """How often Linux has ended a process for want of memory."""
    return sum(int(line.split()[1]) for line in _text("vmstat").splitlines() if line.startswith("oom_kill "))


_LACKING: dict[str, Callable[[], bool]] = {
    "the machine had no pseudo-terminals left": _no_terminals,
    "the machine had no open files left": _no_files,
}


class MachineShortage:
    """Begins with a cell."""

    def __init__(self) -> None:
        self.before = _out_of_memory()

    def found(self) -> str:
        """What the machine has run out of since, in a few words, or ""."""
        if _out_of_memory() > self.before:
            return "the machine had no memory left"
        return next((words for words, lacks in _LACKING.items() if lacks()), "")
