"""`attn export --questions`: a line for each student, with every unit's score and, behind it, the points of each of its
exercises. Nothing stands where there is no grade, or where an answer waits for its mark."""

from autograder import csv_files, notebooks
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.csv_files import format_cell
from autograder.gradebook.grades import Grade
from autograder.gradebook.question_points import question_points
from autograder.gradebook.roster import EXCUSED

WHO = ("student_id", "last_name", "first_name", "email", "section")


def questions_table(course: Course, found: dict[str, list[Grade]]) -> tuple[str, int]:
    """The text of the table, and how many units' scores are in it."""
    people = {one.student.student_id: one.student for of_unit in found.values() for one in of_unit}
    exercises = {unit: _exercises(course, unit) for unit in found}
    scores = {(one.student.student_id, one.unit): one for of_unit in found.values() for one in of_unit}
    points = {unit: question_points(course, unit) for unit in found}

    def cells(name: str, unit: str) -> list[str]:
        one = scores.get((name, unit))
        graded = points[unit].get(name, {}) if one and one.status != EXCUSED else {}
        values = [one.score if one else None, *(graded.get(exercise) for exercise in exercises[unit])]
        return [format_cell(value) for value in values]

    rows = [
        [*(getattr(who, what) for what in WHO), *(cell for unit in found for cell in cells(name, unit))]
        for name, who in people.items()
    ]
    header = [*WHO, *(title for unit in found for title in (unit, *exercises[unit]))]
    return csv_files.to_csv(header, rows), sum(one.score is not None for one in scores.values())


def _exercises(course: Course, unit: str) -> list[str]:
    """In the order of the notebook."""
    return [notebooks.exercise_id(cell) for cell in solved(course, unit).cells if notebooks.flag(cell, "grade")]
