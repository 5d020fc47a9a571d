"""nbgrader's step that puts scores and comments into a feedback page, and which answers wait for a marker besides: a
page that is made before all is marked must not look final (see grading/feedback.py)."""

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades


class FeedbackGrades(GetGrades):
    """`open` in the resources are the ids of the answers that a person has not marked yet."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb, resources = super().preprocess(nb, resources)
        resources["nbgrader"].setdefault("open", [])
        return nb, resources

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        if "open" not in resources["nbgrader"]:  # once a page: the gradebook is open now
            page = self.gradebook.find_submission_notebook(self.notebook_id, self.assignment_id, self.student_id)
            resources["nbgrader"]["open"] = [grade.name for grade in page.grades if grade.needs_manual_grade]


PREPROCESSORS = [FeedbackGrades, CSSHTMLHeaderPreprocessor]
"""nbgrader's, with ours in the place of its GetGrades. Classes, not names: nbgrader wants to know their settings."""
