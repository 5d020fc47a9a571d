"""A copy of the gradebook that is whole, whoever writes to it meanwhile: SQLite makes it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from autograder.errors import CourseError

PATIENCE, PAUSE = 5.0, 0.1
"""Seconds: how long somebody else may hold the gradebook, and between two looks."""


def copy_gradebook(path: Path, target: Path) -> None:
    """Raises CourseError where somebody holds it for long, or it is no gradebook."""
    try:
        source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(target)) as copy:
            source.backup(copy, progress=_Patience(), sleep=PAUSE)
    except sqlite3.Error as error:
        raise CourseError(f"The gradebook can't be copied ({error}): end what else works on it.") from None


class _Patience:
    """SQLite itself would wait for ever."""

    def __init__(self) -> None:
        self.tries = 0

    def __call__(self, status: int, remaining: int, total: int) -> None:
        self.tries = self.tries + 1 if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else 0
        if self.tries * PAUSE > PATIENCE:
            raise sqlite3.OperationalError("database is locked")
