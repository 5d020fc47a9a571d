"""Deadlines: in nbgrader's gradebook, with the extensions that students were given there."""

from datetime import datetime, timedelta

from autograder import timestamps
from autograder.course.paths import Course
from autograder.gradebook.database import open_gradebook


class Deadlines:
    """Deadlines: of the units, and of students with an extension in the gradebook."""

    def __init__(self, course: Course, units: list[str], deadline: datetime | None) -> None:
        self.units: dict[str, datetime | None] = {unit: deadline for unit in units}
        self.extensions: dict[tuple[str, str], timedelta] = {}
        if (course.classroom / "gradebook.db").is_file():
            self._read(course, deadline)

    def _read(self, course: Course, deadline: datetime | None) -> None:
        with open_gradebook(course) as book:
            for assignment in (one for one in book.assignments if one.name in self.units):
                self.units[assignment.name] = deadline or timestamps.from_gradebook(assignment.duedate)
                for one in book.assignment_submissions(assignment.name):
                    if one.extension:
                        self.extensions[one.student_id, assignment.name] = one.extension

    def of(self, student: str, unit: str) -> datetime | None:
        """A student's deadline of a unit; None where there is none."""
        due = self.units[unit]
        return due and due + self.extensions.get((student, unit), timedelta())


def set_deadline(course: Course, unit: str, deadline: datetime) -> None:
    """Writes a unit's deadline into the gradebook, where nbgrader looks for it."""
    with open_gradebook(course) as book:
        book.update_or_create_assignment(unit, duedate=deadline.replace(tzinfo=None))
