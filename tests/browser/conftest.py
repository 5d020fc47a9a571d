"""A browser, and a JupyterLab to look into. Both end with the file of tests that asked for them: while Playwright runs,
an event loop runs in this process, and tests of other files start their own."""

import pytest

from autograder.site.browser import CHROMIUM, chromium

from .lab import Lab

TALL = {"width": 1200, "height": 3000}  # nothing to scroll to


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium, driven by Playwright."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH")
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser):
    """An empty page, tall enough to show a whole card."""
    page = browser.new_page(viewport=TALL)
    yield page
    page.close()


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """JupyterLab on an empty folder: `lab.open(notebook, theme="dark")` gives a page."""
    with Lab(tmp_path_factory.mktemp("lab"), browser) as running:
        yield running
