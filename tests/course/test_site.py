"""The pages to read: no answer is in them, no link leads nowhere, nothing is fetched from the web, and search
knows every section. (In a browser: tests/browser/test_site.py.)"""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT, UNIT

from autograder import notebooks
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.site import build, markdown_html

COURSE = Course(ROOT)


class Links(HTMLParser):
    """What a page points to, what it fetches, and the names in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.fetched, self.names = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names |= {found["id"]} if found.get("id") else set()
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        self.fetched |= {found[key] for key in ("src", "href") if tag in ("script", "img", "link") and found.get(key)}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    build.build(COURSE, COURSE.units(), folder, pictures=False, told=lambda _: None)
    return folder


def _answers(unit: str) -> set[str]:
    """The lines of all solutions and rubrics that the released notebook does not have."""
    hidden, inside = set(), False
    for line in COURSE.source(unit).read_text(encoding="utf-8").split("\n"):
        line = line.removeprefix("# ").strip()
        inside = inside or "BEGIN SOLUTION" in line or "BEGIN MARK SCHEME" in line or "BEGIN HIDDEN" in line
        hidden |= {line} if inside else set()
        inside = inside and not line.startswith(("### END", "<!-- END"))
    cells = notebooks.read(COURSE.solved(unit)).cells
    hidden |= {
        line.strip()
        for c in cells
        if notebooks.is_written(c) and notebooks.flag(c, "solution")
        for line in c.source.split("\n")
    }
    released = COURSE.released(unit).read_text(encoding="utf-8")
    return {
        line for line in hidden if len(line) > 25 and json.dumps(line)[1:-1] not in released and line not in released
    }


@pytest.mark.parametrize("unit", COURSE.units())
def test_no_answer_is_in_a_page(site, unit):
    page = markdown_html.plain((site / unit / "index.html").read_text(encoding="utf-8"))
    squeezed, answers = "".join(page.split()), _answers(unit)
    for one in ("BEGIN SOLUTION", "HIDDEN TESTS", "MARK SCHEME", "autograder.hidden"):
        assert one not in page
    found = [line for line in answers if "".join(markdown_html.plain(markdown_html.code(line)).split()) in squeezed]
    assert found == [] and answers
    assert all(path.read_bytes() == COURSE.released(unit).read_bytes() for path in (site / unit).glob("*.ipynb"))


def test_every_link_leads_somewhere_and_nothing_comes_from_the_web(site):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) == 2 + len(COURSE.units())
    for path, page in pages.items():
        assert not [one for one in page.fetched if re.match(r"(?!data:)\w+:|//", one)], path
        for link in page.links | page.fetched:
            if not re.match(r"(https?|mailto|data):", link):
                target, _, name = link.partition("#")
                there = (path.parent / target).resolve() if target else path
                assert there.is_file(), (path, link)
                assert not name or name in pages[there].names, (path, link)


def test_search_knows_every_section_and_leads_there(site):
    places = json.loads((site / "search.js").read_text(encoding="utf-8").removeprefix("const PLACES = ").rstrip(";\n"))
    titles = {place["title"] for place in places}
    index = json.loads((ROOT / "helpers" / "sections.json").read_text(encoding="utf-8"))
    assert {f"{number} {title.removesuffix(f': {name}')}" for name, (number, title) in index.items()} <= titles
    for place in places:
        target, _, name = place["to"].partition("#")
        assert f'id="{name}"' in (site / target).read_text(encoding="utf-8")


def test_formulas_become_mathml_and_none_is_left(site):
    for unit in COURSE.units():
        body = (site / unit / "index.html").read_text(encoding="utf-8").split("<main>")[1]
        text = re.sub(r"<(pre|code|math|summary)\b.*?</\1>", "", body, flags=re.DOTALL)
        assert not re.search(r"<m\w+>[^<]*[&\\](?!#x|amp;lt)", body), (
            unit
        )  # what latex2mathml doesn't know it takes for letters
        assert "<math" in body and not re.search(r"\$[^$\n]{1,80}\$", text), unit


def test_the_font_has_every_letter_of_every_formula(site):
    """A letter that stands alone is drawn in italics, which are letters of their own. (A new one: font/OFL.txt.)"""
    sheet = (site / "style.css").read_text(encoding="utf-8")
    ranges = re.search(r"unicode-range: ([^;]*)", sheet)[1].replace("U+", "").split(", ")
    has = {n for one in ranges for n in range(int(one.split("-")[0], 16), int(one.split("-")[-1], 16) + 1)}
    for path in site.rglob("*.html"):
        for formula in re.findall(r"<math.*?</math>", path.read_text(encoding="utf-8"), re.DOTALL):
            letters = unescape(re.sub(r"<[^>]+>|\s", "", formula))
            assert not [one for one in letters if ord(one) not in has], formula


def test_pictures_are_drawn_with_the_model_answers_and_show_none(tmp_path):
    build.build(COURSE, ["00_start_here"], tmp_path / "site", pictures=True, told=lambda _: None)
    page = Links(text := (tmp_path / "site" / "00_start_here" / "index.html").read_text(encoding="utf-8"))
    drawn = [one for one in page.fetched if one.endswith(".png")]
    assert drawn and all((tmp_path / "site" / "00_start_here" / one).is_file() for one in drawn)
    assert "axis 1 instead of the last" in text  # the card of an answer that is wrong on purpose
    assert "points since this kernel started" not in text and "Ready." not in text


def test_what_others_put_into_a_folder_is_never_deleted(tmp_path, attn):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(CourseError, match="holds other files"):
        build.build(COURSE, ["00_start_here"], tmp_path, pictures=False, told=lambda _: None)
    done = attn(COURSE, "site", str(tmp_path), "--no-pictures", "--unit", "0")
    assert done.exit_code == 2 and (tmp_path / "thesis.txt").read_text() == "mine"
    for _ in range(2):  # its own pages may be made anew
        assert attn(COURSE, "site", str(tmp_path / "new"), "--no-pictures", "--unit", "0").exit_code == 0


@pytest.mark.parametrize(("text", "says"), [(None, "is missing"), ("<<<<<<< ours", "can't be read")])
def test_a_notebook_that_is_not_there_is_one_line(course, attn, tmp_path, text, says):
    course.released(UNIT).unlink()
    if text:
        course.released(UNIT).write_text(text)
    done = attn(course, "site", str(tmp_path / "new"), "--no-pictures")
    assert done.exit_code == 1 and says in done.output and "attn build 02" in done.output
