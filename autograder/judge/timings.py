"""Where the time of one submission goes, in seconds of wall time."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Clock:
    """parts: name → seconds. "kernels": started, set up and ended; "cells": the student's cells; "tests": the test
    cells, with the student's functions that they call; "border": the fresh copies of the student's kernel that answer
    those calls. cells: index of a code cell → seconds, a test cell's with its border."""

    parts: Counter[str] = field(default_factory=Counter)
    cells: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def part(self, name: str, cell: int | None = None) -> Iterator[None]:
        """What runs within it counts for this part, and for no part around it."""
        start, others = time.perf_counter(), self.parts.total()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.parts[name] += seconds - (self.parts.total() - others)  # type: ignore[assignment]  # of floats
            if cell is not None:
                self.cells[cell] += seconds  # type: ignore[assignment]  # as above
