"""The pages to read in a real browser: search finds, the theme turns, nothing sticks out, nothing fails. (See
tests/course/test_site.py.)"""

import re

import pytest

from autograder.course.paths import Course
from autograder.site import build

from .accessibility import violations
from .lab import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder, course = tmp_path_factory.mktemp("site") / "pages", Course(ROOT)
    build.build(course, course.units(), folder, pictures=False, told=lambda _: None)
    return folder


def test_search_finds_and_the_theme_turns(site, browser):
    page, said = browser.new_page(viewport={"width": 1200, "height": 900}), []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("scaled dot-product")
    page.locator("#hits a").first.click()
    page.wait_for_url("**/02_qkv_attention/index.html#s2-5")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.close()
    assert said == []


def test_no_page_is_wider_than_a_telephone(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    for path in sorted(site.rglob("index.html")):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.parent.name
    page.close()


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1280)])
def test_no_page_keeps_readers_out(site, browser, theme, width):
    page = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 800}).new_page()
    for path in [*site.glob("*.html"), *sorted(site.glob("0[257]*/index.html"))]:
        page.goto(path.as_uri())
        assert violations(page) == [], path
    page.context.close()


def test_dark_pages_can_be_read_without_scripts(site, browser):
    """axe-core itself is a script: what the page's own did is undone."""
    page = browser.new_context(color_scheme="dark").new_page()
    for path in (site / "index.html", site / "02_qkv_attention" / "index.html"):
        page.goto(path.as_uri())
        page.evaluate("delete document.documentElement.dataset.theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
        assert violations(page) == [], path
    page.context.close()


def test_the_page_on_accessibility_names_the_axe_core_that_was_run(browser):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed").Axe()
    page = browser.new_page()
    version = axe.run(page).response["testEngine"]["version"]
    page.close()
    text = (ROOT / "docs" / "accessibility.md").read_text(encoding="utf-8")
    assert set(re.findall(r"axe-core (\d[\d.]*\d)", text)) == {version}


def test_the_film_of_the_front_page_moves_by_keys_and_by_touch_and_stands_without_scripts(site, browser):
    page = browser.new_context(has_touch=True, viewport={"width": 390, "height": 800}).new_page()
    page.goto((site / "index.html").as_uri())
    film = page.locator("[data-film]")
    said = film.locator("p").inner_text
    film.press("Home")
    assert said() == "“cats” looks mostly at “drink”: 58% of its attention."
    film.get_by_role("button", name="Next").tap()
    opened = said()
    assert "“drink” looks mostly at “milk”" in opened
    page.context.close()
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((site / "index.html").as_uri())
    assert page.locator("[data-film] p").inner_text() == opened
    assert not page.get_by_text("run this cell again").is_visible()
    page.context.close()


def test_brackets_grow_with_the_font_that_the_pages_bring(site, browser):
    page = browser.new_page()
    page.goto((site / "02_qkv_attention" / "index.html").as_uri())
    page.evaluate("document.fonts.ready")
    assert page.evaluate("[...document.fonts].map((one) => one.status)") == ["loaded"]
    heights = "[...document.querySelectorAll('math mo')].map((one) => one.getBoundingClientRect().height)"
    assert max(page.evaluate(heights)) > 40
    page.close()
