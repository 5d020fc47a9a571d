"""The processes in a sandbox, seen from its keeper, and what it does to them when it is told to: stop what the kernel
does; end all but the kernel, or all but the fork of it that answers.

So a call that counts runs in the one process that is there: what earlier cells and calls have started can't compute
anything for it, nor tell it anything."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

MOST_ENDED = 1000  # processes: who starts new ones faster than they can be ended is ended as a whole


def interrupt(first: int, depth: int) -> None:
    """Stops the kernel's current cell, as the stop button does."""
    os.kill(_lineage(first, depth)[-1], signal.SIGINT)


def end_others(first: int, depth: int, spared: int = 0) -> None:
    """Ends all processes but the kernel and, if there is one to be spared, that one: then the kernel, with every thread
    in it, does nothing until the next time. Ends the kernel too if there are too many."""
    lineage, ended = _lineage(first, depth), set()
    os.kill(lineage[-1], signal.SIGSTOP)
    while others := [pid for pid in below(first) if pid not in (*lineage, spared) and _lives(pid)]:
        ended.update(others)
        for pid in others if len(ended) < MOST_ENDED else [first]:
            kill(pid)
        time.sleep(0.001)
    if not spared:
        with suppress(ProcessLookupError):
            os.kill(lineage[-1], signal.SIGCONT)


def _lineage(first: int, depth: int) -> list[int]:
    """From the first process down to the kernel, `depth` below it."""
    found = [first]
    for _ in range(depth):
        found.append(next(below(found[-1]), found[-1]))
    return found


def _lives(pid: int) -> bool:
    """Whether it can still do something: one that ended stays until somebody asks what became of it."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def below(pid: int) -> Iterator[int]:
    """The processes started by `pid`, and theirs."""
    for thread in _entries(f"/proc/{pid}/task"):
        for child in read(f"/proc/{pid}/task/{thread}/children").split():
            yield int(child)
            yield from below(int(child))


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:  # gone meanwhile
        return []
