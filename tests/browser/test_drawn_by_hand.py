"""A mask that is drawn in the page: by keyboard, and by mouse; a page without scripts says what to do."""

from helpers.masking.plots.draw_mask import _page

from .accessibility import violations

HEAD = "<!doctype html><html lang=en><meta charset=utf-8><title>A mask</title><main><h1>A mask</h1>"


def test_a_causal_mask_is_drawn(page):
    page.set_content(HEAD + _page(["cats", "drink", "cold"], queries=2) + "</main>")
    assert "0 of 2" in page.locator("p").inner_text() and violations(page) == []
    for name in ("drink looks at cats", "drink looks at drink", "cold looks at cats", "cold looks at drink"):
        page.get_by_role("button", name=name).click()
    assert "1 of 2" in page.locator("p").inner_text()
    page.get_by_role("button", name="cold looks at cold").press("Enter")
    assert page.locator("p").inner_text() == "That is the mask. Now write it for all sizes."
    assert page.get_by_role("button", name="drink looks at cold").get_attribute("aria-pressed") == "false"


def test_without_scripts_it_says_what_to_do(browser):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.set_content(HEAD + _page(["cats", "drink"], queries=2))
    assert page.locator("p").inner_text() == "Run this cell again, and you can draw."
    page.context.close()
