"""One notebook graded without touching the gradebook: the way of `attn grade` from intake to the judge, and no further.
Nothing is recorded, so it needs no nbgrader."""

from pathlib import Path

from nbformat import NotebookNode

from autograder import limited_process, notebooks
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.course.settings import limits
from autograder.course.visibility import judge_config
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import intake
from autograder.grading.submission_parser import Rejected
from autograder.judge import outputs
from autograder.judge.config import BUBBLEWRAP
from autograder.judge.fork_server_client import start_ahead


def mark(course: Course, path: Path) -> dict:
    """The marks as plain data: {"unit", "score", "max", "items": {id: {"score", "max", "diagnosis", "message"}},
    "doubts": why they may not be the notebook's own doing}.

    A written answer's score is None, and not part of "score"; its points are part of "max"."""
    allowed = limits(course)
    if allowed.sandbox != BUBBLEWRAP:
        start_ahead()  # which takes longest, for it imports PyTorch
    limited_process.prepare("autograder.grading.submission_parser")  # another process imports it meanwhile
    from autograder.grading.judge_notebook import judge_notebook, prepare
    from autograder.judge.kernel_manager import kernel_manager

    data, unit = _read(course, path)
    prepare()
    original = solved(course, unit)
    kernel_manager(allowed.sandbox).prepare(judge_config(unit))
    notebook = _ready(course, path, data, unit)
    restore_locked_cells(notebook, original)
    doubts = judge_notebook(notebook, unit, allowed)
    items = _items(original, notebook)
    earned = sum(item["score"] or 0 for item in items.values())
    most = sum(item["max"] for item in items.values())
    return {"unit": unit, "score": earned, "max": most, "items": items, "doubts": doubts}


def _read(course: Course, path: Path) -> tuple[bytes, str]:
    """The file, and the unit that it is a notebook of."""
    try:
        data, unit = intake.read_file(course, path)
    except FileNotFoundError:
        raise CourseError(f"There is no file {path}.", BAD_INPUT) from None
    except (Rejected, OSError, RuntimeError) as reason:  # RuntimeError: a link to itself, before Python 3.13
        raise CourseError(f"{path}: {reason}.", BAD_INPUT) from None
    if unit is None:
        raise CourseError(f"{path}: not a notebook of this course (no cell of it is one of a unit's).", BAD_INPUT)
    return data, unit


def _ready(course: Course, path: Path, data: bytes, unit: str) -> NotebookNode:
    """The notebook as intake would stage it."""
    try:
        return notebooks.parse(intake.prepare_notebook(course, unit, data))
    except Rejected as reason:
        raise CourseError(f"{path} can't be graded: {reason}.") from None


def restore_locked_cells(notebook: NotebookNode, original: NotebookNode) -> None:
    """Locked cells say again what the course says there: nbgrader does it from its gradebook (OverwriteCells)."""
    ours = notebooks.by_id(original)
    for cell in notebook.cells:
        name, ours_to_say = notebooks.grade_id(cell), notebooks.flag(cell, "grade") or notebooks.flag(cell, "locked")
        if name in ours and ours_to_say and not notebooks.flag(cell, "solution"):
            cell.source = ours[name].source


def _items(original: NotebookNode, judged: NotebookNode) -> dict[str, dict]:
    """The exercises in the order in which they stand in the notebook."""
    found = {result.exercise: result for result in map(outputs.read_result, notebooks.tests(judged))}
    items = {}
    for cell in original.cells:
        if notebooks.is_test(cell):
            result = found[notebooks.exercise_id(cell)]
            items[result.exercise] = {
                "score": result.score,
                "max": result.points,
                "diagnosis": result.diagnosis,
                "message": result.message,
            }
        elif notebooks.is_written(cell):
            items[notebooks.grade_id(cell)] = {
                "score": None,
                "max": notebooks.points(cell),
                "diagnosis": None,
                "message": "marked by a person",
            }
    return items
