"""Which submissions there are, and where files lie that are none."""

from dataclasses import dataclass
from pathlib import Path

from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable


@dataclass(frozen=True)
class Submission:
    """What a student handed in for a unit; `path` is where a notebook of the right name would lie."""

    student: str
    unit: str
    path: Path


def submissions(course: Course, unit: str, students: list[str]) -> list[Submission]:
    """All students' submissions of a unit, or the named students', in order. A link counts: intake says what it is."""
    return [
        Submission(name, unit, course.submission(name, unit))
        for name in _student_folders(course, students)
        if _is_there(course.submitted / name, unit)
    ]


def misplaced_notebooks(course: Course) -> list[str]:
    """One line for each notebook in the submitted folder that lies where no student's submission of a unit would."""
    units, lines = set(course.units()), []
    for path in sorted(course.submitted.rglob("*.ipynb")):
        parts = path.relative_to(course.submitted).parts
        if ".ipynb_checkpoints" not in parts and (len(parts) < 3 or parts[1] not in units):
            lines.append(f"{'/'.join(parts)}: not looked at; a submission lies in STUDENT/UNIT/UNIT.ipynb")
    return lines


def _student_folders(course: Course, students: list[str]) -> list[str]:
    if not course.submitted.is_dir():
        raise CourseError(f"There is no folder {course.submitted}: nothing has been collected yet.", BAD_INPUT)
    missing = [student for student in students if not (course.submitted / student).is_dir()]
    if missing:
        raise CourseError(f"Student '{missing[0]}' has no folder in {course.submitted}.", BAD_INPUT)
    names = sorted(path.name for path in course.submitted.iterdir() if not path.name.startswith("."))
    return [name for name in names if not students or name in students]


def _is_there(folder: Path, unit: str) -> bool:
    """Whether a student's folder holds something of the unit's name, or can't be looked into: then intake says so."""
    try:
        (folder / unit).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def invalid_character(name: str) -> str | None:
    """The first character of a student's name that nbgrader can't take in the name of a folder."""
    return next((char for char in name if char in "[]*?" or printable(char) != char), None)
