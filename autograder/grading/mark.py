"""One notebook graded without touching the gradebook: the whole path of `attn grade`, in a throw-away course."""

from pathlib import Path

from rich.progress import Progress

from autograder import notebooks
from autograder.course.exercises import solved
from autograder.course.paths import Course, temporary_course
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import grade, intake, record
from autograder.grading.reading import Rejected
from autograder.grading.triage import Submission
from autograder.judge.outputs import Result

STUDENT = "student"


def mark(course: Course, path: Path) -> dict:
    """The marks as plain data: {"unit", "score", "max", "items": {id: {"score", "max", "diagnosis", "message"}}}.

    A written answer's score is None, and not part of "score"; its points are part of "max".
    """
    data, unit = _read(course, path)
    with temporary_course(course, [unit]) as copy:
        target = copy.submission(STUDENT, unit)
        target.parent.mkdir(parents=True)
        target.write_bytes(data)
        outcome = grade.grade(copy, [unit], grade.Settings(workers=1), Progress(disable=True))
        submission = Submission(STUDENT, unit, target)
        problem = {**outcome.rejected, **outcome.failed}.get(submission)
        if problem:
            raise CourseError(f"{path} can't be graded: {problem}.")
        total = record.scores(copy, unit)[STUDENT]
        return _marks(unit, total, _items(solved(copy, unit), outcome.results[submission]))


def _read(course: Course, path: Path) -> tuple[bytes, str]:
    """The file, and the unit that it is a notebook of."""
    try:
        data, unit = intake.read_file(course, path)
    except FileNotFoundError:
        raise CourseError(f"There is no file {path}.", BAD_INPUT) from None
    except (Rejected, OSError) as reason:
        raise CourseError(f"{path}: {reason}.", BAD_INPUT) from None
    if unit is None:
        raise CourseError(f"{path}: not a notebook of this course (no cell of it is one of a unit's).", BAD_INPUT)
    return data, unit


def _items(original, results: list[Result]) -> dict[str, dict]:
    """The exercises in the order in which they stand in the notebook."""
    found = {result.exercise: result for result in results}
    items = {}
    for cell in original.cells:
        if notebooks.is_test(cell):
            result = found[notebooks.exercise_id(cell)]
            items[result.exercise] = {"score": result.score, "max": result.points, "diagnosis": result.diagnosis,
                                      "message": result.message}  # fmt: skip
        elif notebooks.is_written(cell):
            items[notebooks.grade_id(cell)] = {"score": None, "max": notebooks.points(cell), "diagnosis": None,
                                               "message": "marked by a person"}  # fmt: skip
    return items


def _marks(unit: str, total: dict, items: dict[str, dict]) -> dict:
    return {"unit": unit, "score": total["score"], "max": total["max_score"], "items": items}
