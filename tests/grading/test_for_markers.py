"""A marker sees the model answer and one that earns a part; a student's page shows neither."""

import tomllib

from conftest import ROOT, UNIT, right_answers

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import CALIBRATED
from autograder.grading import feedback
from autograder.grading.for_markers import ForMarkers

QUESTION = "why_same_size"
PARTLY = f"[{QUESTION}]\npoints = 1.5\nanswer = 'Because of <the> product.'\nwhy = 'One of two reasons.'\n"


def _shown(course):
    """A handed-in notebook as formgrader would show it, and the cell before the answer."""
    step = ForMarkers(config=nbgrader_steps.settings(course))
    step.solutions = str(course.solutions)
    notebook, _ = step.preprocess(notebooks.read(course.released(UNIT)), {"nbgrader": {"assignment": UNIT}})
    names = [notebooks.grade_id(cell) for cell in notebook.cells]
    return notebook, notebook.cells[names.index(QUESTION) - 1].source


def test_the_model_answer_and_a_calibrated_one_stand_above_an_answer(course):
    (course.solutions / CALIBRATED).write_text(PARTLY)
    notebook, text = _shown(course)
    assert len(notebook.cells) == 1 + len(notebooks.read(course.released(UNIT)).cells)
    model = right_answers(course)[QUESTION]
    assert "worth 3</summary>" in text and model in text
    assert "worth 1.5</summary>" in text and "“Because of <the> product.”" in text and "One of two reasons" in text
    assert nbgrader_steps.settings(course).ForMarkers.solutions == str(course.solutions)
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= {"score": 0, "points": cell.metadata.nbgrader.get("points", 0)}
    page = feedback.render(notebooks.to_text(notebook), feedback.NO_GRADES)
    assert "For the marker" not in page and "Because of" not in page


def test_a_question_without_a_calibrated_answer_has_its_model_answer(course):
    _, text = _shown(course)
    assert text.count("<details ") == 1 and right_answers(course)[QUESTION] in text


def test_every_written_question_of_the_course_has_one(real_course):
    partly = tomllib.loads((ROOT / "solutions" / CALIBRATED).read_text(encoding="utf-8"))
    most = {}
    for unit in real_course.units():
        cells = notebooks.read(real_course.solved(unit)).cells
        most |= {notebooks.grade_id(cell): notebooks.points(cell) for cell in cells if notebooks.is_written(cell)}
    assert partly.keys() == most.keys()
    for name, example in partly.items():
        assert example.keys() == {"points", "answer", "why"} and 0 < example["points"] < most[name], name
