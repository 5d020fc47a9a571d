"""Nothing that a student wrote becomes a script, or a request, on a page that an instructor reads."""

import time
from html.parser import HTMLParser

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_markdown_cell, new_notebook, new_raw_cell

from autograder import sanitize_html, size_limits
from autograder.grading.sanitize_text import safe_markdown, sanitize_text_cells
from autograder.judge.sanitize_outputs import clean_html, sanitize_display, sanitize_outputs

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
EXPORTER = HTMLExporter(template_name="basic")
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
                or name in ("srcdoc", "srcset", "style", "poster", "action", "data")
                or (name == "src" and not (value or "").startswith("data:image/"))
                or (name == "href" and not (value or "").startswith(HARMLESS))
            ):
                self.found.append((tag, name, value))
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


def test_links_pictures_tables_details_and_formulas_look_as_they_did():
    text = (
        "**B** [x](https://x.org) <details><summary>Why</summary>so</details> $a<b$ `q[0]`\n\n```python\nx = [1]\n\n"
        "y = 2\n```"
    )
    shown = page(new_markdown_cell(safe_markdown(text)))
    for piece in (
        "<strong>B</strong>",
        'href="https://x.org"',
        "<details><summary>Why</summary>so</details>",
        "$a&lt;b$",
        "<code>q[0]</code>",
        "highlight",
    ):
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
