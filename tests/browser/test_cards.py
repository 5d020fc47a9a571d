"""Cards can be read wherever they are shown: every piece of their text has a contrast of 4.5 or more, measured on the
page as Chromium renders it."""

import re

import pytest
import torch
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder import notebooks
from autograder.grading.feedback import NO_GRADES, render
from helpers import check

from .accessibility import violations
from .contrast import ENOUGH, contrasts

CARD = "[role=group][aria-label]"
GROUNDS = {"black": "#111", "Colab": "#383838", "VS Code": "#1f1f1f"}
SHEETS = (  # what such pages say of tables, code and links in outputs
    "body, td, th, summary {color: #e3e3e3} a {color: #8ab4f8}"
    "table {border: 1px solid; width: 100%} tr:nth-child(even) {background: #222} tr:hover {background: #444}"
    "code {color: #fff; background: #333} details {background: #222} div, span, b, i {background: transparent}"
)


def _wrong(student_q, student_k, student_v):
    return torch.softmax(student_q @ student_k.mT, -1) @ student_v


def _fails(*_):
    raise ValueError("the `sizes` don't fit")


def _not_yet(*_):
    raise NotImplementedError


@pytest.fixture(scope="module")
def scores():
    """Cards of all kinds: numbers, masks, moved numbers, a wrong shape, an error, nothing yet, partly right, a table,
    several parts, all right."""
    parts = check.mask_zoo.parts.values()
    table = check.layer_types.reference
    return {
        "numbers": check.scaled_dot_product_attention(_wrong, points=4, seed=0),
        "mask": check.causal_mask(lambda n, m=None: torch.ones(n, m or n).bool().triu(), points=2, seed=0),
        "moved": check.split_heads(lambda x, h: x.reshape(len(x), h, x.shape[1], -1), points=2, seed=0),
        "shape": check.merge_heads(lambda x: x.sum(dim=1), points=2, seed=0),
        "NaN": check.softmax(lambda x, dim=-1: x.exp() / x.exp().sum(dim, keepdim=True), points=2, seed=0),
        "error": check.softmax(_fails, points=2, seed=0),
        "stub": check.softmax(_not_yet, points=2),
        "amber": check.row_means(lambda x: x.mean(dim=1), points=1),
        "table": check.layer_types(lambda *a: table(*a) | {"recurrent": (1, 2, 3)}, points=3, seed=0),
        "parts": check.mask_zoo(*(part.misconceptions[0].function for part in parts), points=6, seed=0),
        "right": check.softmax(check.softmax.reference, points=2, seed=0),
    }


@pytest.fixture(scope="module")
def notebook(scores):
    def cell(score):
        data = score._repr_mimebundle_()
        return new_code_cell(
            "check", execution_count=1, outputs=[new_output("execute_result", data=data, execution_count=1)]
        )

    return new_notebook(cells=[new_markdown_cell("# Cards"), *map(cell, scores.values())])


def _can_be_read(page, count):
    cards = page.locator(CARD)
    cards.nth(count - 1).wait_for()
    assert cards.count() == count
    pieces = [piece for card in cards.all() for piece in contrasts(card)]
    assert len(pieces) > 300 and min(pieces)[0] >= ENOUGH, sorted(pieces)[:5]
    return min(pieces)[0]


@pytest.mark.parametrize(("theme", "trusted"), [("light", True), ("dark", True), ("dark", False)])
def test_in_jupyterlab(lab, notebook, scores, theme, trusted):
    page = lab.open(notebook, theme, trusted=trusted)
    if not trusted:  # cleaning takes attributes such as `role`
        page.add_script_tag(
            content="document.querySelectorAll('.jp-OutputArea-output > div').forEach(e => {e.role = 'group'; "
            "e.ariaLabel = 'x'})"
        )
    _can_be_read(page, len(scores))


@pytest.mark.parametrize(("template", "theme"), [("lab", "light"), ("lab", "dark"), ("classic", "light")])
def test_on_a_static_page(page, notebook, scores, template, theme, tmp_path):
    body, _ = HTMLExporter(template_name=template, theme=theme).from_notebook_node(notebook)
    _open(page, body, tmp_path)
    _can_be_read(page, len(scores))


def test_on_a_feedback_page(page, notebook, scores, tmp_path):
    _open(page, render(notebooks.to_text(notebook), NO_GRADES | {"notebook": "02"}), tmp_path)
    _can_be_read(page, len(scores))
    assert violations(page) == []


@pytest.mark.parametrize("ground", GROUNDS.values(), ids=GROUNDS)
def test_on_a_dark_page_with_a_sheet_of_its_own(page, scores, ground):
    cards = "".join(score._repr_mimebundle_()["text/html"] for score in scores.values())
    page.set_content(f"<style>{SHEETS}</style><body style='background:{ground};color:#fff'>{cards}")
    _can_be_read(page, len(scores))


def test_the_measure_finds_what_cannot_be_read(page):
    """Translucent cells over dark rows, as cards once had them."""
    page.set_content(
        "<body style='background:#111'><table id=t><tr style='background:#222'><td style='color:#202124;"
        "background:rgba(33,102,172,.2)'>1.00"
    )
    ((worst, *_),) = contrasts(page.locator("#t"))
    assert worst < 2


def test_every_element_of_a_card_has_a_ground_and_a_colour(scores):
    """So that no page's own sheet decides: a text can be read where both are told, and only there."""
    for score in scores.values():
        for tag in re.findall(r"<(?!/|br|i>|style>)[^>]+>", score._repr_mimebundle_()["text/html"]):
            assert "color:#" in tag and "background:#" in tag or "<span " in tag, tag


def _open(page, body, folder):
    path = folder / "page.html"
    path.write_text(body)
    page.goto(path.as_uri(), wait_until="domcontentloaded")
