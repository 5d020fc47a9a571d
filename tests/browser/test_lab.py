"""The harness itself: JupyterLab shows a notebook in both themes, runs it, and cleans what it doesn't trust."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from .lab import ROOT


def _shown(html: str):
    output = new_output("display_data", data={"text/html": html, "text/plain": ""})
    return new_notebook(cells=[new_markdown_cell("# A title"), new_code_cell("1", execution_count=1, outputs=[output])])


def test_a_notebook_opens_in_the_theme_that_was_asked_for(lab):
    page = lab.open(_shown("<p id='here'>shown</p>"), "dark")
    assert page.locator("#here").inner_text() == "shown"
    ground = page.evaluate("getComputedStyle(document.body).getPropertyValue('--jp-layout-color0')").strip()
    assert ground in ("#111111", "#111")


def test_what_is_not_trusted_is_cleaned(lab):
    """Otherwise every measure of a notebook that somebody else ran would be one of a trusted one."""
    page = lab.open(_shown("<p id='here' onclick='1'>shown</p>"), trusted=False)
    assert page.get_by_text("shown", exact=True).get_attribute("onclick") is None


def test_cells_run_with_the_helpers_of_this_repository(lab):
    page = lab.open(new_notebook(cells=[new_code_cell("import helpers\nprint(helpers.__file__)")]))
    lab.run_all(page)
    page.get_by_text(str(ROOT / "helpers")).first.wait_for()
