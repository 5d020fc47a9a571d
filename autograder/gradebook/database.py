"""The gradebook, for who imports nbgrader only when it is opened: that takes a second."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autograder.course.paths import Course

if TYPE_CHECKING:
    from nbgrader.api import Gradebook


@contextmanager
def open_gradebook(course: Course) -> "Iterator[Gradebook]":
    """nbgrader's gradebook. Raises CourseError where it is locked, or no gradebook."""
    from autograder.course import nbgrader_steps

    with nbgrader_steps.open_gradebook(course) as opened:
        yield opened
