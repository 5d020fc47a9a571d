"""Ctrl-C that is neither lost nor heard at a bad moment. Python drops whatever is raised while a module written in C
imports another, or while a weak reference is cleared: grading would go on as if nobody had pressed anything."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


class Interrupts:
    """Ctrl-C as pressed so far: heard at the next `check`, at once within `heard_at_once` and when pressed again."""

    def __init__(self) -> None:
        self.pressed, self.at_once = 0, False

    def press(self, number: int, frame: Any) -> None:
        self.pressed += 1
        if self.at_once or self.pressed > 1:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt if there was one."""
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def heard_at_once(self) -> Iterator[None]:
        """For whoever waits."""
        self.at_once = True
        try:
            self.check()
            yield
        finally:
            self.at_once = False


@contextmanager
def ctrl_c() -> Iterator[Interrupts]:
    """Within it Ctrl-C is what it gives. In other threads than the main one nothing changes."""
    presses = Interrupts()
    if current_thread() is not main_thread():
        yield presses
        return
    before = signal.signal(signal.SIGINT, presses.press)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)
