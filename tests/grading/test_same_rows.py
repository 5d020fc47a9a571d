"""Recorded at the pace of a class, and by nbgrader's own commands one by one: the same rows, the same notebooks, the
same pages."""

import json
import re
import shutil
import sqlite3

import pytest
from bs4 import BeautifulSoup
from conftest import UNIT, hand_in, right_answers
from nbconvert.exporters import HTMLExporter
from nbgrader.converters import Autograde
from rich.progress import Progress

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.grading import feedback, grade, gradebook_writer, intake
from autograder.grading.open_gradebook import OPEN, open_gradebook
from autograder.grading.submission_discovery import submissions

WRONG_SOFTMAX = "def softmax(x, dim):\n    return torch.exp(x) / torch.exp(x).sum(dim, keepdim=True)"


def _picture(notebook):
    notebook.cells.insert(2, notebooks.nbformat.v4.new_markdown_cell("A **note** with `code`, $x^2$ & <b>more</b>."))


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    """Three students, graded by us; one was late, one has a comment."""
    folder = tmp_path_factory.mktemp("rows") / "course"
    shutil.copytree(built.root, folder, ignore=shutil.ignore_patterns("class"))
    course = Course(folder.resolve())
    right = right_answers(course)
    hand_in(course, "ada", right, edit=_picture)
    hand_in(course, "bea", right | {"softmax": WRONG_SOFTMAX})
    hand_in(course, "cem")
    (course.submission("ada", UNIT).parent / "timestamp.txt").write_text("2026-11-01 12:00:00 UTC")
    grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))
    return course


@pytest.fixture(scope="module")
def by_nbgrader(graded, tmp_path_factory):
    """A copy, recorded anew from the same results by nbgrader's steps, each of which opens what it needs."""
    course = Course((tmp_path_factory.mktemp("stock") / "course").resolve())
    shutil.copytree(graded.root, course.root)
    for folder in (course.autograded, course.feedback):
        shutil.rmtree(folder)
    (course.classroom / "gradebook.db").unlink()
    (course.results / "registered.json").unlink()
    gradebook_writer.register(course, UNIT)
    for submission in submissions(course, UNIT, []):
        intake.read_and_stage(course, submission)  # as it was handed in: nbgrader sanitises it itself
        nbgrader_steps._run(course, Autograde, nbgrader_steps._staged(course), UNIT, submission.student)
        nbgrader_steps.generate_feedback(course, submission.student, UNIT)
    return course


def _rows(course: Course) -> dict[str, list]:
    """All rows of all tables, without the random ids."""
    database = sqlite3.connect(course.classroom / "gradebook.db")
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: sorted(_plain(row) for row in database.execute(f"SELECT * FROM {name}")) for name in names}


def _plain(row: tuple) -> str:
    return re.sub(r"\b[0-9a-f]{32}\b", "ID", repr(row))


def test_the_gradebook_has_the_same_rows(graded, by_nbgrader):
    ours, theirs = _rows(graded), _rows(by_nbgrader)
    assert len(ours["grade"]) == 3 * 4 and len(ours["submitted_assignment"]) == 3
    assert ours == theirs


@pytest.mark.parametrize("student", ["ada", "bea", "cem"])
def test_graded_notebooks_and_pages_are_the_same(graded, by_nbgrader, student):
    for folder in ("autograded", "feedback"):
        ours, theirs = (getattr(course, folder) / student / UNIT for course in (graded, by_nbgrader))
        assert sorted(path.name for path in ours.iterdir()) == sorted(path.name for path in theirs.iterdir())
        for path in ours.iterdir():
            assert _text(path) == _text(theirs / path.name)


def _text(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return [(cell["source"], cell["metadata"], cell.get("outputs")) for cell in json.loads(text)["cells"]]


def test_a_page_says_what_nbconverts_own_exporter_makes_of_it(graded):
    text, grades = nbgrader_steps.page_material(graded, "bea", UNIT)
    exporter = HTMLExporter(config=feedback._exporter().config)
    notebook = notebooks.parse(text)
    notebook.cells = [cell for cell in notebook.cells if feedback.FOR_MARKERS not in cell.metadata.get("tags", [])]
    page = exporter.from_notebook_node(notebook, {"nbgrader": grades})[0]
    theirs = BeautifulSoup(feedback.with_names(page, notebooks.parse(text), grades["open"]), "html.parser")
    ours = BeautifulSoup(feedback.render(text, grades), "html.parser")
    ours.find("meta", attrs={"http-equiv": "Content-Security-Policy"}).decompose()
    ours.find("style", string=re.compile("a:not")).decompose()  # of page_exporter.py
    assert ours.html.attrs.pop("lang") == "en"  # that, too
    assert ours.get_text().split() == theirs.get_text().split()
    assert [(tag.name, sorted(tag.attrs.items())) for tag in ours.find_all()] == [
        (tag.name, sorted(tag.attrs.items())) for tag in theirs.find_all()
    ]


def test_who_handed_in_the_file_as_it_was_released_is_asked_about_it(graded):
    asked = {who: feedback.AS_RELEASED in _page(graded, who) for who in ("ada", "bea", "cem")}
    assert asked == {"ada": False, "bea": False, "cem": True}


def _page(course, student):
    return (course.feedback / student / UNIT / f"{UNIT}.html").read_text(encoding="utf-8")


def test_a_cell_remembered_from_the_course_is_rendered_as_it_was(graded):
    text, grades = nbgrader_steps.page_material(graded, "ada", UNIT)
    before = feedback.render(text, grades)
    feedback.remember(graded.solved(UNIT).read_text(encoding="utf-8"))
    assert feedback.render(text, grades) == before


def test_what_a_broken_off_submission_wrote_is_not_kept(graded, tmp_path):
    course = Course((tmp_path / "course").resolve())
    shutil.copytree(graded.root, course.root)
    before = _rows(course)
    with open_gradebook(course) as gradebook:
        gradebook.find_grade("softmax_test", UNIT, UNIT, "bea").auto_score = 0.25
        gradebook.db.commit()
        gradebook.close()
        assert gradebook.find_grade("softmax_test", UNIT, UNIT, "bea").auto_score == 0.25
        gradebook.drop()
    assert _rows(course) == before and not OPEN
