"""Threads and processes that a watched call starts: PyTorch's modes hold for one thread alone, so a new thread takes
them along, and that one was started is written down. What a new process does can't be seen at all.

Only where a grader asks for it (`follow_threads`): nobody's own Jupyter is changed.
"""

import _thread
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

AWAY = ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen", "_thread.start_new_thread")
"""Python's audit events for what leaves the thread that is watched."""

_watching: list["Watch"] = []


class Watch:
    """One watched call. modes: makes the context managers that a thread of it must enter; away: whether any started."""

    def __init__(self, modes: Callable[[], Sequence[AbstractContextManager]]):
        self.modes, self.away = modes, False


@contextlib.contextmanager
def watch_threads(modes: Callable[[], Sequence[AbstractContextManager]]) -> Iterator[Watch]:
    """Inside, threads that are started enter these modes, if `follow_threads` was called before."""
    watch = Watch(modes)
    _watching.append(watch)
    try:
        yield watch
    finally:
        _watching.remove(watch)


def follow_threads() -> None:
    """From here on, for good: every start of a thread or a process in a watched call is seen."""
    for module, name in (
        (_thread, "start_new_thread"),
        (threading, "_start_new_thread"),
        (threading, "_start_joinable_thread"),
    ):
        if hasattr(module, name):
            setattr(module, name, _following(getattr(module, name)))
    sys.addaudithook(_heard)


def _heard(event: str, _: tuple) -> None:
    if _watching and event in AWAY:
        _watching[-1].away = True


def _following(start: Callable) -> Callable:
    def start_new_thread(function: Callable, *args: Any, **kwargs: Any) -> Any:
        if not _watching:
            return start(function, *args, **kwargs)
        watch = _watching[-1]
        watch.away = True

        def followed(*inputs: Any, **more: Any) -> Any:
            with ExitStack() as stack:
                for mode in watch.modes():
                    stack.enter_context(mode)
                return function(*inputs, **more)

        return start(followed, *args, **kwargs)

    return start_new_thread
