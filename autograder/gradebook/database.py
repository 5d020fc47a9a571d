"""The gradebook, opened so that whatever is wrong with it is a line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autograder.course.paths import Course
from autograder.errors import CourseError

if TYPE_CHECKING:
    from nbgrader.api import Gradebook


@contextmanager
def open_gradebook(course: Course) -> "Iterator[Gradebook]":
    """nbgrader's gradebook. Raises CourseError where it is locked, or no gradebook."""
    from nbgrader.api import InvalidEntry
    from sqlalchemy.exc import SQLAlchemyError

    from autograder.course import nbgrader_steps

    try:
        with nbgrader_steps.open_gradebook(course) as opened:
            yield opened
    except (SQLAlchemyError, InvalidEntry) as error:
        why = " ".join(str(getattr(error, "orig", None) or error).split())[:120]
        raise CourseError(
            f"The gradebook can't be used ({why}): end what else works on it, or bring back a backup."
        ) from None
