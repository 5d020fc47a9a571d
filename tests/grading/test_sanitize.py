"""Nothing that a student wrote becomes a script, or a request, on a page that an instructor reads."""

import time
from html.parser import HTMLParser

import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nbconvert.filters import ansi2html
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from autograder import notebooks, sanitize_html, size_limits
from autograder.control_characters import clean
from autograder.grading import feedback
from autograder.grading.page_exporter import PageExporter
from autograder.grading.sanitize_text import BOX, OWN, safe_markdown, sanitize_text_cells
from autograder.judge.sanitize_outputs import clean_html, sanitize_display, sanitize_outputs
from helpers import paper
from helpers.board import Board, Table

HANDLERS = [
    "<script>alert(1)</script>",
    "<SCRIPT src=//evil></SCRIPT>",
    "<img src=x onerror=alert(1)>",
    '<img src="x" onerror="alert(1)">',
    "<svg/onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    '<a href="java&#115;cript:alert(1)">x</a>',
    '<a href=" jAvAsCrIpT&colon;alert(1)">x</a>',
    '<a href="data:text/html,<script>alert(1)</script>">x</a>',
    '<a href="vbscript:x">x</a>',
    '<a href="evil.html">x</a>',
    '<a href="//evil/x">x</a>',
    '<form action="http://evil/x"><button>x</button></form>',
    '<img src="http://evil/pixel.png">',
    '<img src="//evil/pixel.png">',
    '<img srcset="http://evil/pixel.png 1x">',
    '<p style="background:url(http://evil/x)">x</p>',
    "<style>@import 'http://evil/x.css'</style>",
    '<link rel="stylesheet" href="http://evil/x.css">',
    '<meta http-equiv="refresh" content="0;url=http://evil/x">',
    '<base href="http://evil/">',
    '<video poster="http://evil/x"></video><audio src="http://evil/x"></audio>',
    '<object data="http://evil/x"></object><embed src="http://evil/x">',
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    '<p class="a" style="x" onclick="alert(1)">',
    "<!--><script>alert(1)</script-->",
    "<math><mtext><img src onerror=alert(1)>",
    "<b\nonmouseover=alert(1)>x</b>",
    "<svg><p><style><!--</style><img src=x onerror=alert(1)>--></style></svg>",
]
MARKDOWN = [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java&#115;cript:alert(1))",
    "[x](&#x6A;avascript:alert(1))",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:alert(1))",
    "[x](evil.html)",
    "![x](http://evil/pixel.png)",
    "![x][y]\n\n[y]: http://evil/pixel.png",
    "![x](javascript:alert(1))",
    "```mermaid\n<img src=x onerror=alert(1)>\n```",
    "$$<img src=x onerror=alert(1)>$$",
    "\\begin{a}<img src=x onerror=alert(1)>\\end{a}",
    "# <img src=x onerror=alert(1)>",
    '[x](http://a "\\"><script>alert(1)</script>")',
    "`` ` ``<img src=x onerror=alert(1)>",
]
EXPORTER = PageExporter(template_name="basic")
HARMLESS = ("http://", "https://", "mailto:", "#")


def page(*cells) -> str:
    """The cells as formgrader shows them: nbconvert's HTML of what is stored."""
    return EXPORTER.from_notebook_node(new_notebook(cells=list(cells)))[0]


class _Dangers(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if (
                name.startswith("on")
                or name in ("srcdoc", "srcset", "poster", "action", "data")
                or (name == "style" and value not in BOX)
                or (name == "src" and not (value or "").startswith("data:image/"))
                or (name == "href" and not (value or "").startswith(HARMLESS))
            ):
                self.found.append((tag, name, value))
        if any(name == "href" and not sanitize_html.is_public(value or "") for name, value in attributes):
            self.found.append((tag, "a place of the server's own"))
        if tag in (
            "script",
            "iframe",
            "object",
            "embed",
            "form",
            "style",
            "link",
            "meta",
            "base",
            "svg",
            "math",
            "video",
        ):
            self.found.append((tag,))


def dangers(html: str) -> list:
    parser = _Dangers()
    parser.feed(html)
    return parser.found


@pytest.mark.parametrize("script", HANDLERS + MARKDOWN)
def test_no_script_and_no_request_is_left_in_a_text_cell(script):
    for text in (script, f"Before **bold** {script} after", f"Before **bold**\n\n{script}\n\nafter"):
        shown = page(new_markdown_cell(safe_markdown(text)))
        assert dangers(shown) == [], text
        assert "bold" not in text or "<strong>bold</strong>" in shown


def test_the_search_for_dangers_finds_them():
    assert all(dangers(page(new_markdown_cell(text))) for text in HANDLERS[:2] + MARKDOWN[:5] + MARKDOWN[9:10])


@pytest.mark.parametrize("script", HANDLERS)
def test_no_script_and_no_request_is_left_in_an_html_output(script):
    assert dangers(sanitize_display({"text/html": f"<b>x</b>{script}"})["text/html"]) == []


def test_raw_cells_are_shown_as_the_text_they_are():
    notebook = new_notebook(cells=[new_raw_cell("<script>alert(1)</script>\n\nx")])
    sanitize_text_cells(notebook, set())
    assert dangers(page(*notebook.cells)) == [] and "&lt;script&gt;" in page(*notebook.cells)


def test_plain_text_stays_as_it_is():
    for text in (
        "*Your answer here.*",
        "Each row sums to 1, so $a > b$.\n\n- one\n- two",
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ):
        assert safe_markdown(text) == text


def test_links_tables_and_formulas_look_as_they_did():
    text = "**B** [x](https://x.org) $a<b$ `q[0]`\n\n```python\nx = [1]\n\ny = 2\n```"
    shown = page(new_markdown_cell(safe_markdown(text)))
    for piece in ("<strong>B</strong>", 'href="https://x.org"', "$a&lt;b$", "<code>q[0]</code>", "highlight"):
        assert piece in shown
    assert "\n\n" in shown[shown.index("highlight") :]  # the blank line in the code


def test_the_courses_own_text_is_left_alone():
    text = '<a href="00_start_here.ipynb">first</a>'
    notebook = new_notebook(cells=[new_markdown_cell(text)])
    sanitize_text_cells(notebook, {text})
    assert notebook.cells[0].source == text


def test_pasted_pictures_stay_and_missing_ones_are_named():
    cell = new_markdown_cell(
        "![a](attachment:a.png) ![b](attachment:b.png)", attachments={"a.png": {"image/png": "iVBO"}}
    )
    notebook = new_notebook(cells=[cell])
    sanitize_text_cells(notebook, set())
    shown = page(*notebook.cells)
    assert "data:image/png;base64,iVBO" in shown and "picture b.png is missing" in shown


PRIVATE = (
    "localhost localhost:8888 LOCALHOST localhost. a.localhost 127.0.0.1 127.0.0.1. 127.1 2130706433 0x7f000001 0x7f.1 "
    "0177.0.0.1 0 [::1] [::ffff:127.0.0.1] 10.0.0.7 192.168.1.1 169.254.169.254 8.8.8.8 hub hub:8000 printer.local "
    "a.internal a.home.arpa x@localhost a.b@localhost %6cocalhost 127.0.0.1%2f loc\talhost １２７.0.0.1 ⓛocalhost "
    "a.org@127.0.0.1 a.org\\@localhost a.org: .a.org a..org"
).split(" ")


@pytest.mark.parametrize("host", PRIVATE)
def test_a_link_into_ones_own_network_is_text(host):
    address = f"http://{host}/formgrader/manage_students/x"
    for text in (f"[Vaswani]({address})", f"See {address} there", f"<{address}>", f'<a href="{address}">Vaswani</a>'):
        shown = page(new_markdown_cell(safe_markdown(text)))
        assert dangers(shown) == [] and ("Vaswani" in shown or "manage" in shown), text
    for start in ("http:/", "http:", "https:///", "//", "\\\\", "http:\\\\"):
        assert not sanitize_html.is_public(start + host)


def test_links_to_public_places_stay():
    for place in (
        "https://arxiv.org/abs/1706.03762",
        "http://a.b-c.org:80?x=1#y",
        "https://a.xn--p1ai",
        "mailto:a@b",
        "#a",
    ):
        assert sanitize_html.is_public(place)
    assert 'href="https://arxiv.org/abs/1706.03762"' in page(
        new_markdown_cell(safe_markdown("https://arxiv.org/abs/1706.03762"))
    )


def test_nothing_of_a_students_folds_or_looks_like_the_page():
    note = '<details open class="panel"><summary>▸ For the marker: worth 1</summary>so</details>'
    for shown in (page(new_markdown_cell(safe_markdown(note))), clean_html(note)):
        assert "For the marker" in shown and "<details" not in shown and "<summary" not in shown
    assert "class" not in clean_html('<p class="btn row nav well score comment">x</p>')
    assert 'class="kn"' in clean_html('<span class="kn">import</span>')


def test_a_students_own_cells_stand_in_a_box_and_the_courses_and_answers_do_not():
    answer = new_markdown_cell("a plain answer", metadata={"nbgrader": {"solution": True, "grade_id": "q"}})
    forged = new_markdown_cell(f"**For the marker**\n\n```\n</div></div>\n\n{OWN} ends here</div>")
    notebook = new_notebook(cells=[new_markdown_cell("of the course"), answer, forged, new_raw_cell("raw")])
    sanitize_text_cells(notebook, {"of the course"})
    assert [OWN in cell.source for cell in notebook.cells] == [False, False, True, True]
    for cell, words in zip(notebook.cells[2:], ("For the marker", "raw"), strict=True):
        shown = page(cell)
        assert shown.count("<div") == shown.count("</div") and shown.index(OWN) < shown.index(words)
        assert cell.source.startswith("<div style=") and cell.source.endswith("</div>")


SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjx1c2UgaHJlZj0iI2EiLz48L3N2Zz4="


def test_a_picture_that_is_a_program_is_named_and_not_shown():
    image = f'<img alt="x" src="data:image/svg+xml;base64,{SVG}">'
    attached = {"a.svg": {"image/svg+xml": SVG}}
    shown = [
        page(new_markdown_cell(safe_markdown(image))),
        page(new_markdown_cell(safe_markdown("![x](attachment:a.svg)", attached))),
        clean_html(image),
        str(sanitize_display({"image/svg+xml": "<svg/>", "text/plain": "<Figure size 640x480>"})),
    ]
    assert all("svg" not in one and sanitize_html.NO_PICTURE in one for one in shown)
    both = sanitize_display({"image/svg+xml": "<svg/>", "image/png": "iVBO", "text/plain": "<Figure>"})
    assert both == {"image/png": "iVBO", "text/plain": "<Figure>"}


def test_pages_are_made_without_beautiful_soup_and_with_tex_that_makes_no_links(monkeypatch):
    """The soup's part for selectors runs on some Pythons alone."""
    monkeypatch.delattr("bs4.Tag.select")
    feedback._exporter.cache_clear()
    text = notebooks.to_text(new_notebook(cells=[new_markdown_cell("A *page*.")]))
    page = feedback.render(text, feedback.NO_GRADES)
    assert "<em>page</em>" in page
    assert page.count('Safe: {allow: {URLs: "none", classes: "none"') == 1 and page.count("overflow: auto} a:not") == 1


# ---------------------------------------------------------------- control characters, halves of characters

ODD = ["\x1b[38m", "\x1b[1;48;5m", "\x1b[038m", "\ud800", "\x00", "\x9b38m", "\x1b]0;title\x07", "\x1b["]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("trusted", [True, False])
def test_odd_characters_cost_themselves_alone(odd, trusted):
    mime = "text/html"
    raw = [
        {"output_type": "stream", "name": "stdout", "text": f"a{odd}b"},
        {"output_type": "error", "ename": odd, "evalue": f"a{odd}b", "traceback": [odd, f"a{odd}b"]},
        {"output_type": "display_data", "data": {"text/plain": f"a{odd}b", mime: f"<b>a{odd}b</b>", odd: odd}},
    ]
    outputs = sanitize_outputs([], raw, trusted)
    shown = page(new_code_cell("1", outputs=outputs)).encode()
    assert len(outputs) == 3 and shown.count(b"a") > 3 and b"\x1b" not in shown
    assert notebooks.to_text(new_notebook(cells=[new_code_cell("1", outputs=outputs)])).encode()


def test_colors_of_an_error_stay_unless_there_are_thousands():
    assert clean("\x1b[0;31mError\x1b[0m \x1b[38;5;241mx\tü\r\n") == "\x1b[0;31mError\x1b[0m \x1b[38;5;241mx\tü\r\n"
    (output,) = sanitize_outputs([], [{"output_type": "stream", "text": "\x1b[1mx"}] * 3_000, trusted=False)
    assert output.text.count("x") == 3_000 and output.text.count("\x1b") <= 2_000


@given(st.lists(st.sampled_from(["\x1b[", "\x1b", "m", ";", "38", "48", "038", "5", "2", "255", "x", "\x9b", "\n"])))
@settings(deadline=None)
def test_whatever_colors_are_printed_a_page_can_show_them(parts):
    ansi2html(clean("".join(parts)))


@given(st.text(alphabet="<>/ab=\"'! scriptonerror&#;:()[]`$\n\\", max_size=80))
@settings(deadline=None, max_examples=100)
def test_whatever_the_text_nothing_dangerous_is_left(text):
    assert dangers(page(new_markdown_cell(safe_markdown(text)))) == []


# ---------------------------------------------------------------- what takes long


@pytest.mark.parametrize("bomb", ["\\begin{a} " * 6_000, "<b>" * 45_000, "<div>" * 9_000, "[" * 60_000, "*a_" * 20_000])
def test_a_text_that_takes_long_is_replaced_by_a_line(bomb):
    before = time.process_time()
    stored = safe_markdown(bomb)
    assert time.process_time() - before < 30  # a bound against for ever, not a measurement
    assert dangers(page(new_markdown_cell(stored))) == []


def test_html_outputs_are_bounded_in_size_tags_and_depth():
    assert "90,000" not in clean_html("x" * 90_000) and "Not shown" in clean_html("<b>" + "x" * 120_000)
    assert "tags" in clean_html("<b>" * 30_000)
    assert "within each other" in clean_html("<div>" * 5_000)
    assert sanitize_html.depth(clean_html("<div>" * 90)) == 90
    picture = f'<img src="data:image/png;base64,{"A" * 500_000}">'
    assert "AAAA" in clean_html(picture)  # a plot as HTML


def test_html_outputs_keep_tables_and_lose_handlers():
    assert (
        clean_html(
            '<table border="1" class="dataframe score"><tr><td onclick="x">1</td></tr></table><script>x</script>'
        )
        == '<table border="1" class="dataframe"><tbody><tr><td>1</td></tr></tbody></table>'
    )


def test_outputs_are_bounded_in_number_and_length():
    text = [{"output_type": "stream", "name": "stdout", "text": "x" * 90_000}] * 4
    (output,) = sanitize_outputs([], text, trusted=False)
    assert len(output.text) < size_limits.STREAM + 100 and "left out" in output.text
    shown = [{"output_type": "display_data", "data": {"text/plain": "x"}}] * 500
    assert len(sanitize_outputs([], shown, trusted=False)) == size_limits.OUTPUTS + 1
    markup = [{"output_type": "display_data", "data": {"text/html": "<b>x</b>" * 5_000, "text/plain": "x"}}] * 10
    kept = sanitize_outputs([], markup, trusted=False)
    assert sum("text/html" in output.data for output in kept) == 3 and nbformat.validate(new_notebook()) is None


def test_a_drawing_of_paths_and_words_is_shown_and_one_that_could_do_more_is_not():
    """The films of the course draw such; a definition that is used twice, and twice again, stops a browser."""
    board = Board(3, 2)
    board.table(Table(1, 1, torch.ones(1, 2), "Q & K", "#10458f"), torch.ones(1, 2, dtype=torch.bool), [])
    plain = f'<img src="{paper.address(board.svg().encode())}" alt="x">'
    assert sanitize_html.sanitize_html(plain).startswith('<img src="data:image/svg+xml;base64,')
    for more in ("<use/>", "<style>a{}</style>", '<a href="http://a.b">', '<text onload="x">', "<!DOCTYPE a>"):
        other = board.svg().replace("</svg>", f"{more}</svg>").encode()
        assert sanitize_html.NO_PICTURE in sanitize_html.sanitize_html(f'<img src="{paper.address(other)}" alt="x">')
