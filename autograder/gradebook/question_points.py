"""What the gradebook says of every exercise."""

from autograder.course.paths import Course
from autograder.gradebook.database import open_gradebook


def question_points(course: Course, unit: str) -> dict[str, dict[str, float]]:
    """Student → exercise → points, before any late penalty. An answer that waits for its mark has none."""
    with open_gradebook(course) as book:
        return {
            one.student_id: {
                grade.name.removesuffix("_test"): grade.score
                for notebook in one.notebooks
                for grade in notebook.grades
                if not grade.needs_manual_grade
            }
            for one in book.assignment_submissions(unit)
        }
