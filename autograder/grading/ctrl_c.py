"""Ctrl-C that is not lost. A module written in C that imports another drops whatever is raised meanwhile, a KeyboardInterrupt too;
grading would then go on as if nobody had pressed anything."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Within it Ctrl-C raises KeyboardInterrupt as ever; the function that it gives raises it again, for whoever did not see it.
    In any other thread than the main one, where no signal arrives, nothing changes."""
    pressed: list[int] = []

    def press(number: int, frame: Any) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    if current_thread() is not main_thread():
        yield check
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
