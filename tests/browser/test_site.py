"""The pages to read in a real browser: search finds, the theme turns, nothing sticks out, nothing fails. (See
tests/course/test_site.py.)"""

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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_keeps_readers_out(site, browser, theme):
    page = browser.new_context(color_scheme=theme).new_page()
    for path in [site / "index.html", *sorted(site.glob("0[257]*/index.html"))]:
        page.goto(path.as_uri())
        assert violations(page) == [], path.parent.name
    page.context.close()
