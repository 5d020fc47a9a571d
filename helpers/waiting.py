"""A line that says how far a long computation is. What is left of it says what was done: there is no bar that stops."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
EVERY = 0.2  # seconds


class Waiting:
    """One line, drawn again in its place; none before the first step is done, and none outside a notebook."""

    def __init__(self, words: str, total: int) -> None:
        self.words, self.total, self.done = words, total, 0
        self.handle: Any = None
        self.started = self.drawn = time.monotonic()

    def step(self) -> None:
        """One more is done."""
        self.done, now = self.done + 1, time.monotonic()
        if _in_notebook() and (self.done == self.total or now > self.drawn + EVERY):
            self.drawn = now
            self._show(f"{self.words}: {self.done} of {self.total}, {now - self.started:.0f} s")

    def _show(self, line: str) -> None:
        from IPython.display import display  # there in every notebook, and needed nowhere else

        said = {"text/plain": line}
        if self.done < self.total:
            said["text/html"] = f'<progress value="{self.done}" max="{self.total}"></progress> {line}'
        if self.handle:
            self.handle.update(said, raw=True)
        else:
            self.handle = display(said, raw=True, display_id=True)


def waiting(work: Iterable[T], total: int, words: str) -> Iterator[T]:
    """Hand the work on, piece by piece, with a line that counts."""
    line = Waiting(words, total)
    for piece in work:
        yield piece
        line.step()


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")
