"""An instructor's way through formgrader, as it is clicked: the list of units, generate, preview, autograde by the
button, a written answer marked below its rubric, feedback, and the pages of students and assignments. One student
tries to be taken for the course. The unit is one of the course."""

import base64
import re

import pytest
from conftest import ROOT, right_answers
from nbformat.v4 import new_markdown_cell

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course, copy_course
from autograder.grading.sanitize_text import OWN
from autograder.sanitize_html import NO_PICTURE

from .lab import PATIENCE, Lab

UNIT = "02_qkv_attention"
QUESTION, POINTS, COMMENT = "why_same_size", 0.5, "And the second reason?"
ADA, BEA = "ada", "bea"
NOTE = '<details style="color: red"><summary>▸ For the marker: worth 1</summary>Full marks for anything.</details>'
PROGRAM = b'<svg xmlns="http://www.w3.org/2000/svg"><use href="#a"/></svg>'
SVG = f'<img alt="x" src="data:image/svg+xml;base64,{base64.b64encode(PROGRAM).decode()}">'
LINK = "See [Vaswani et al.](http://localhost:8888/formgrader/manage_students/x)."
FORGED = f"The same *size*.\n\n{NOTE}\n\n{SVG}\n\n{LINK}"
VIOLATIONS = []
"""What the browser says of the pages' policy, in all tests."""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The unit, not released yet, and two hand-ins of the model answers; one is called as a second download is."""
    real, copy = Course(ROOT), Course((tmp_path_factory.mktemp("formgrader") / "course").resolve())
    copy.root.mkdir()
    copy_course(real, copy, [UNIT])
    for student in (ADA, BEA):
        notebook = notebooks.read(real.released(UNIT))
        answers = right_answers(real, UNIT)
        for cell in notebook.cells:
            cell.source = answers.get(notebooks.grade_id(cell), cell.source)
        if student == BEA:
            place = next(at for at, cell in enumerate(notebook.cells) if notebooks.grade_id(cell) == QUESTION)
            notebook.cells[place].source = FORGED
            notebook.cells.insert(place, new_markdown_cell(FORGED))
        notebooks.write(notebook, copy.submission(student, UNIT))
    copy.submission(BEA, UNIT).rename(copy.submission(BEA, UNIT).with_name(f"{UNIT} (1).ipynb"))
    return copy


@pytest.fixture(scope="module")
def lab(browser, course, tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab"), browser, course.root) as running:
        yield running


@pytest.fixture(scope="module")
def page(lab):
    """A page of formgrader's without JupyterLab around it. One for all tests: they are one way, in this order."""
    page = lab.browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(1000 * PATIENCE)
    page.on("console", lambda said: VIOLATIONS.append(said.text) if _is_violation(said.text, page, lab) else None)
    yield page
    page.close()


def _is_violation(text, page, lab):
    return "Content Security Policy" in text and page.url.startswith(lab.address)


def _row(frame, text):
    return frame.locator("#main-table tr", has_text=text)


def _succeeds(frame, button):
    """Clicks, and closes what formgrader says about it."""
    button.click()
    said = frame.locator("#success-modal, #error-modal")
    said.locator(".modal-title").wait_for()
    assert said.get_attribute("id") == "success-modal", said.inner_text()
    said.get_by_role("button", name="OK").click()
    said.wait_for(state="detached")


def _wait_for_marks(page):
    """Until formgrader has fetched marks and comments: what is typed before that isn't saved."""
    page.wait_for_function("window.formgrader?.grades?.loaded && formgrader.comments?.loaded")


def test_the_list_generates_and_previews_a_unit(lab, course):
    """In JupyterLab, where a preview opens the folder of the release."""
    page = lab.new_page()
    page.goto(f"{lab.address}/lab?reset")
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Formgrader").click()
    frame = page.frame_locator("iframe")
    row = _row(frame, UNIT)
    assert row.locator(".num-submissions").inner_text() == "2"
    assert row.locator(".preview a").count() == 0 and not course.released(UNIT).exists()
    _succeeds(frame, row.locator(".assign a"))
    row.locator(".preview a").click()
    page.locator(".jp-DirListing-item", has_text=f"{UNIT}.ipynb").wait_for()
    text = course.released(UNIT).read_text()
    assert "raise NotImplementedError" in text and "BEGIN SOLUTION" not in text and "Mark scheme" not in text
    page.close()


def test_the_button_autogrades(lab, page):
    page.goto(f"{lab.address}/formgrader/manage_submissions/{UNIT}")
    for student in (ADA, BEA):
        row = _row(page, student)
        assert row.locator(".status").inner_text() == "needs autograding"
        _succeeds(page, row.locator(".autograde a"))
        row.get_by_text("needs manual grading").wait_for()
        assert row.locator(".score").inner_text() == "25 / 30"


def test_a_marker_sees_no_name_and_the_rubric_above_the_answer(lab, page):
    page.goto(f"{lab.address}/formgrader/gradebook/{UNIT}/{UNIT}")
    listed = _row(page, "Submission #1")
    listed.wait_for()
    assert not page.get_by_text(ADA, exact=True).is_visible() and not page.get_by_text(BEA, exact=True).is_visible()
    listed.get_by_role("link", name="Submission #1").click()
    points = page.locator(f"input.score#{QUESTION}")
    points.wait_for()
    assert page.locator(".breadcrumb").inner_text().strip().endswith("Submission #1")
    rubric = page.get_by_text("two of these, or another good reason")
    assert rubric.bounding_box()["y"] < points.bounding_box()["y"] < rubric.bounding_box()["y"] + 600


def test_a_mark_and_its_comment_are_kept(lab, page, course):
    points, comment = page.locator(f"input.score#{QUESTION}"), page.locator(f"textarea#{QUESTION}-comment")
    _wait_for_marks(page)
    with page.expect_response(re.compile("/api/grade/")):
        points.fill(str(POINTS))
        points.press("Tab")
    with page.expect_response(re.compile("/api/comment/")):
        comment.fill(COMMENT)
        comment.press("Tab")
    page.reload()
    _wait_for_marks(page)
    assert float(points.input_value()) == POINTS and comment.input_value() == COMMENT
    marked, open_ = _marks(course)
    assert marked == {QUESTION: POINTS} and len(open_) == 4


def _marks(course):
    """What was marked, and what waits, of the student whose submission is the first."""
    with nbgrader_steps.open_gradebook(course) as book:
        first = min(book.notebook_submissions(UNIT, UNIT), key=lambda one: one.id)
        done = {cell.name: cell.manual_score for cell in first.grades if cell.manual_score is not None}
        return done, [cell.name for cell in first.grades if cell.needs_manual_grade]


def test_nothing_of_a_students_is_taken_for_the_courses(lab, page, course):
    with nbgrader_steps.open_gradebook(course) as book:
        bea = book.find_submission_notebook(UNIT, UNIT, BEA).id
    page.goto(f"{lab.address}/formgrader/submissions/{bea}/")
    own = page.locator(".text_cell_render > div", has_text=OWN)
    answer = page.locator(".nbgrader_cell", has=page.locator(f"#{QUESTION}-comment"))
    for place in (own, answer):
        assert "Full marks for anything" in place.inner_text() and NO_PICTURE in place.inner_text()
        assert place.locator("details, summary, a[href], img, [style*=background]").count() == 0
    assert own.evaluate("element => getComputedStyle(element).borderLeftStyle") == "dashed"
    notes = page.locator("details")
    assert notes.count() >= 5 and "Full marks for anything" not in "".join(notes.all_inner_texts())


def test_feedback_has_the_mark(lab, page, course):
    with nbgrader_steps.open_gradebook(course) as book:
        student = min(book.notebook_submissions(UNIT, UNIT), key=lambda one: one.id).student.id
    page.goto(f"{lab.address}/formgrader/manage_submissions/{UNIT}")
    _succeeds(page, _row(page, student).locator(".generate-feedback a"))
    page.goto((course.feedback / student / UNIT / f"{UNIT}.html").as_uri())
    said = page.locator("body").inner_text()
    assert COMMENT in said and "25.5" in said and "4 answers wait for a marker" in said


def test_the_pages_of_students_and_assignments(lab, page):
    page.goto(f"{lab.address}/formgrader/gradebook")
    _row(page, UNIT).wait_for()
    assert _row(page, UNIT).locator(".num-submissions").inner_text() == "2"
    page.goto(f"{lab.address}/formgrader/manage_students")
    for student in (ADA, BEA):
        assert re.fullmatch(r"25(\.5)? / 30", _row(page, student).locator(".score").inner_text())
    page.goto(f"{lab.address}/formgrader/manage_students/{ADA}")
    _row(page, UNIT).get_by_role("link", name=UNIT).click()
    _row(page, UNIT).get_by_role("link", name=UNIT).click()
    page.locator(f"input.score#{QUESTION}").wait_for()


def test_the_policy_stood_in_the_way_of_nothing(page):
    assert VIOLATIONS == []
