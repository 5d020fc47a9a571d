"""Limits of wall time. What a submission may use is processor time; wall time only ends what waits for ever, and no
verdict that it gives is final (see `Submission.doubt`).

It is counted as the time in which this process ran: where it was stopped (Ctrl-Z, a suspended machine, a paused
container), or hardly got its turn, two looks at the clock lie far apart, and of such a gap only a second counts."""

import os
import select
import socket
import time
from threading import Lock

STEP = 0.25  # seconds; who waits looks at the clock as often as that
GAP = 1.0  # seconds; no more than this counts between two looks
MOST_PATIENCE = 4.0


class _Clock:
    def __init__(self) -> None:
        self.lock, self.seen, self.counted = Lock(), time.monotonic(), 0.0

    def look(self) -> float:
        with self.lock:
            before, self.seen = self.seen, time.monotonic()
            self.counted += min(self.seen - before, GAP)
            return self.counted


_clock = _Clock()


def now() -> float:
    """Seconds in which this process ran, from some moment on."""
    return _clock.look()


def timeout_factor() -> float:
    """By how much limits of wall time are stretched, 1 to MOST_PATIENCE: on a machine with too much to do, scores must
    come out the same. Limits of processor time are never stretched: load gives nobody more to use up."""
    return min(MOST_PATIENCE, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def wall_limit(processor_seconds: float) -> float:
    """The wall time of what may use so much processor time: so much that a processor of its own uses that up first."""
    return 1.25 * processor_seconds + 3.0


class Deadline:
    """So many seconds from now on, and more where the machine has too much to do by then."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.start, self.factor = seconds, now(), 1.0

    def left(self) -> float:
        self.factor = max(self.factor, timeout_factor())
        return self.start + self.seconds * self.factor - now()

    @property
    def over(self) -> bool:
        return self.left() <= 0

    def extend(self, seconds: float) -> None:
        self.start += seconds


Limit = float | Deadline | None
"""Of a wait: seconds, a deadline that holds for other waits too, or None for any time."""


def deadline(limit: Limit) -> Deadline | None:
    return Deadline(limit) if isinstance(limit, (int, float)) else limit


def wait(sock: socket.socket, event: int, until: Deadline | None) -> bool:
    """Waits for an event of `select.poll`. False where the time is up and there is none: it looks after the clock."""
    poll = select.poll()
    poll.register(sock, event)
    while True:
        left = None if until is None else max(0.0, until.left())
        if poll.poll(None if left is None else 1000 * min(STEP, left)):
            return True
        if left == 0.0:
            return False
