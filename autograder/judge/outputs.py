"""What a test cell's outputs are worth, read in one place, and put in a form that nbgrader can't misread.

nbgrader gives 0 for any text on stderr, full marks for a test cell without output or with a value that is no number,
and stops the batch when a number is above the maximum. So after execution every test cell is settled: either it shows
one score between 0 and its points, or an error."""

import math
from dataclasses import dataclass

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder import notebooks

MIME = "application/vnd.attention-course.score+json"
"""As in helpers/engine/mime.py (a test compares them): from there it would bring PyTorch along."""


@dataclass(frozen=True)
class Result:
    """One test cell: `diagnosis` names the misconception, `message` is what the student is told."""

    exercise: str
    score: float
    points: float
    diagnosis: str | None
    message: str


def normalize_outputs(cell: NotebookNode) -> None:
    """Leaves a test cell with outputs that nbgrader scores as the check meant it."""
    for output in cell.outputs:
        if output.output_type == "stream":
            output.name = "stdout"  # a warning that torch prints is no reason to lose the points
    errors = [output for output in cell.outputs if output.output_type == "error"]
    if not errors and read_score(cell) is None:
        errors = [error_output("NoScore", "the test cell gave no score between 0 and its points")]
    others = [output for output in cell.outputs if output.output_type != "error"]
    cell.outputs = errors + others  # nbgrader goes by what comes first: an error after a value would not count


def read_score(cell: NotebookNode) -> dict | None:
    """The score that a check put into a test cell's output, if it is one: a finite number within the cell's points."""
    for output in cell.outputs:
        if output.output_type == "execute_result":
            found = output.data.get(MIME)
            return found if isinstance(found, dict) and _agrees(output, found, notebooks.points(cell)) else None
    return None


def _agrees(output: NotebookNode, found: dict, points: float) -> bool:
    """Whether the number that nbgrader reads is the check's own, and a possible one."""
    try:
        score, shown = float(found["score"]), float(output.data["text/plain"])
    except (KeyError, TypeError, ValueError):
        return False
    return math.isfinite(score) and score == shown and 0 <= score <= points


def read_result(cell: NotebookNode) -> Result:
    """What a settled test cell says."""
    exercise, points = notebooks.exercise_id(cell), notebooks.points(cell)
    errors = [output for output in cell.outputs if output.output_type == "error"]
    if errors:
        return Result(exercise, 0.0, points, None, f"{errors[0].ename}: {errors[0].evalue}".strip(": "))
    found = read_score(cell) or {}
    return Result(exercise, float(found["score"]), points, found.get("diagnosis"), str(found.get("message", "")))


def error_output(name: str, text: str) -> NotebookNode:
    """An output that says that a cell did not do what it should; nbgrader gives 0 for it."""
    return new_output("error", ename=name, evalue=text, traceback=[f"\x1b[0;31m{name}\x1b[0m: {text}"])
