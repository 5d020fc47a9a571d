"""Which submissions there are, and which can't be graded, each with a line that says why and how to mend it."""

import json
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError

MOST_BYTES = 50_000_000


class Rejected(Exception):
    """A submission that can't be graded as it is; the text says why and what to do."""


@dataclass(frozen=True)
class Submission:
    """What a student handed in for a unit. Where `path` is missing, its folder holds no notebook of the right name."""

    student: str
    unit: str
    path: Path


def submissions(course: Course, unit: str, students: list[str]) -> list[Submission]:
    """All students' submissions of a unit, or those of the named students, in order."""
    folders = _student_folders(course, students)
    return [Submission(folder.name, unit, course.submission(folder.name, unit))
            for folder in folders if (folder / unit).is_dir()]  # fmt: skip


def strays(course: Course) -> list[str]:
    """One line for each notebook in the submitted folder that lies where no student's submission of a unit would."""
    units, lines = set(course.units()), []
    for path in sorted(course.submitted.rglob("*.ipynb")):
        parts = path.relative_to(course.submitted).parts
        if ".ipynb_checkpoints" not in parts and (len(parts) < 3 or parts[1] not in units):
            lines.append(f"{'/'.join(parts)}: not looked at; a submission lies in STUDENT/UNIT/UNIT.ipynb")
    return lines


def open_submission(course: Course, submission: Submission) -> NotebookNode:
    """The notebook that was handed in; raises Rejected where it can't be graded."""
    if not submission.path.is_file():
        raise Rejected(_misnamed(submission))
    notebook = open_notebook(submission.path)
    found = recognise(course, notebook)
    if found is None:
        raise Rejected("no cell carries the course's marks (nbgrader metadata): hand in the course's own notebook")
    if found != submission.unit:
        raise Rejected(f"this is the notebook of unit {found}, handed in as {submission.unit}")
    return notebook


def open_notebook(path: Path) -> NotebookNode:
    """The notebook in a file; raises Rejected where it is none."""
    size = path.stat().st_size
    if size == 0:
        raise Rejected("the file is empty: hand the notebook in again")
    if size > MOST_BYTES:
        raise Rejected(f"the file has {size / 1e6:.0f} MB: clear the outputs and hand it in again")
    _check_json(path)
    try:
        notebook = notebooks.read(path)
        notebooks.to_text(notebook)
        return notebook
    except Exception as error:  # nbformat stumbles in many ways over JSON that is no notebook
        raise Rejected(f"not a notebook that Jupyter could read ({type(error).__name__})") from error


def recognise(course: Course, notebook: NotebookNode) -> str | None:
    """The unit whose marked cells the notebook has most of; None where it has none."""
    here = notebooks.grade_ids(notebook) - {"setup"}  # every unit has a setup cell
    built = [unit for unit in course.units() if course.solved(unit).is_file()]
    shared = {unit: len(here & unit_ids(course, unit)) for unit in built}
    best = max(shared, key=shared.get, default=None)
    return best if best and shared[best] else None


def unit_ids(course: Course, unit: str) -> set[str]:
    """The grade_ids of a unit."""
    return notebooks.grade_ids(solved(course, unit))


def _student_folders(course: Course, students: list[str]) -> list[Path]:
    if not course.submitted.is_dir():
        raise CourseError(f"There is no folder {course.submitted}: nothing has been collected yet.", BAD_INPUT)
    missing = [student for student in students if not (course.submitted / student).is_dir()]
    if missing:
        raise CourseError(f"Student '{missing[0]}' has no folder in {course.submitted}.", BAD_INPUT)
    folders = sorted(path for path in course.submitted.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [folder for folder in folders if not students or folder.name in students]


def _misnamed(submission: Submission) -> str:
    found = sorted(path.name for path in submission.path.parent.glob("*.ipynb"))
    wanted = submission.path.name
    return f"no file {wanted} (found {', '.join(found)}: rename it)" if found else f"no file {wanted}"


def _check_json(path: Path) -> None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise Rejected("not a notebook: the file is no text") from None
    except json.JSONDecodeError as error:
        raise Rejected(f"not a notebook, or one cut off: no valid JSON at line {error.lineno}") from None
    except RecursionError:
        raise Rejected("not a notebook: its JSON is nested too deep") from None
    if not isinstance(content, dict) or not ("cells" in content or "worksheets" in content):
        raise Rejected("not a notebook: the JSON has no cells")
