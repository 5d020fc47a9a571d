"""A student's first evening, in a real browser: unit 00 opened, a wrong answer, its card, a right one, the progress,
Validate, saved; and the saved file earns its points. ATTENTION_COURSE_PICTURES=FOLDER keeps a picture of every step."""

import json
import os
import re
from pathlib import Path

import pytest

from autograder import notebooks
from autograder.course.paths import Course

from .lab import ROOT

UNIT = "00_start_here"
PICTURES = os.environ.get("ATTENTION_COURSE_PICTURES")
WRONG = "def pairwise_dot(a, b):\n    return b @ a.T"


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    cells = notebooks.read(Course(ROOT).solved(UNIT)).cells
    return {notebooks.grade_id(cell): cell.source for cell in cells if notebooks.flag(cell, "solution")}


class Evening:
    """The open notebook, by the ids of its cells."""

    def __init__(self, page, notebook) -> None:
        self.page, self.places = page, {notebooks.grade_id(cell): n for n, cell in enumerate(notebook.cells)}
        self.last = len(notebook.cells) - 1

    def cell(self, name):
        return self.page.locator(f".jp-Cell >> nth={self.places[name]}")

    def write(self, name: str, source: str) -> None:
        """Types an answer into its cell, and runs that and every cell down to the check."""
        self.cell(name).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)
        for _ in range(self.places[f"{name}_test"] - self.places[name] + 1):
            self.page.keyboard.press("Shift+Enter")

    def card(self, name: str, words: str):
        """The card below a check, when it says so."""
        card = self.cell(f"{name}_test").locator(".jp-OutputArea-output", has_text=words).last
        card.wait_for()
        return card

    def picture(self, name: str) -> None:
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png")


def _saved(page, path: Path) -> Path:
    page.keyboard.press("Escape")
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    return path


def test_from_the_first_card_to_the_hand_in(lab, answers, attn):
    notebook = notebooks.read(Course(ROOT).released(UNIT))
    page = lab.open(notebook, viewport={"width": 1200, "height": 1000})
    evening = Evening(page, notebook)
    lab.run_all(page)
    evening.card("pairwise_dot", "Not attempted yet")

    evening.write("pairwise_dot", WRONG)
    wrong = evening.card("pairwise_dot", "What happened")
    assert "0 of 4 points" in wrong.inner_text()
    wrong.scroll_into_view_if_needed()
    evening.picture("1-wrong")

    evening.write("pairwise_dot", answers["pairwise_dot"])
    right = evening.card("pairwise_dot", "1 of 4 points; next: 0.2 Weighted averages")
    assert "What happened" not in right.inner_text()
    right.scroll_into_view_if_needed()
    evening.picture("2-right")

    for name in ("weighted_rows", "read_shape"):
        evening.write(name, answers[name])
    evening.card("read_shape", "4 of 4 points; all checks of this unit are green")
    end = page.locator(f".jp-Cell >> nth={evening.last}")
    end.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    end.get_by_text("4 of 4 points since this kernel started").wait_for()
    end.scroll_into_view_if_needed()
    evening.picture("3-progress")

    assert page.get_by_text(re.compile("Loading the checks")).count() == 0
    path = _saved(page, next(lab.work.glob("*.ipynb")))
    done = attn(Course(ROOT), "mark", str(path), "--json")
    marks = json.loads(done.output)
    assert (marks["unit"], marks["score"], marks["max"]) == (UNIT, 4, 4)

    validate = page.get_by_role("button", name="Validate")
    if validate.count():  # nbgrader's button, where its extension is there
        validate.first.click()
        dialog = page.locator(".jp-Dialog", has_text="passes all the tests")
        dialog.wait_for()
        evening.picture("4-validated")
