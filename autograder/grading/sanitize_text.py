"""A student's own text, made harmless: formgrader and feedback show a markdown cell as whatever its rendering holds.

The rendering is what is cleaned. Plain text stays the markdown it is; what holds a link, a picture or HTML is stored as
its cleaned rendering, on one line, which renders to itself. Cells that a student added, or course text that a student
changed, stand in a box that says so, which no student can write: what has none is the course's, or an answer, of which
the page itself says whose it is."""

import re
from html import escape

from nbconvert.filters.markdown_mistune import InvalidNotebook, IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from autograder import limited_process, notebooks, sanitize_html

SECONDS = 2.0  # to render one cell
STARTS_SOMETHING = re.compile(r"[<\[&]|://|mermaid")
"""What a markdown text needs to become anything but formatted text; nbconvert lets mermaid's text through as it is."""
OWN = "The student’s own text"
BOX = (
    '<div style="border-left: 3px dashed #767676; padding-left: 1em">'
    f'<small style="color: #595959">{OWN}</small>{{}}</div>'
)


def safe_markdown(source: str, attachments: dict | None = None, box: str = "") -> str:
    """Markdown that shows what `source` shows, as far as that is harmless and does not take too long. box: HTML around
    it, with {} in its place."""
    try:
        return limited_process.cpu_time_limit(SECONDS, _harmless, source, attachments or {}, box)
    except TimeoutError:
        return _told("showing it takes too long")
    except Exception as error:  # mistune's own failures
        return _told(f"it can't be rendered ({type(error).__name__})")


def _harmless(source: str, attachments: dict, box: str) -> str:
    if not box and not STARTS_SOMETHING.search(source):
        render_markdown(source)  # whether it takes too long
        return source
    box = box or "<div>{}</div>"
    stored = box.format(_on_one_line(sanitize_html.sanitize_or_explain(render_markdown(source, attachments)).strip()))
    if render_markdown(stored).strip() != stored:  # what is shown would not be what was cleaned
        stored = box.format(_on_one_line(sanitize_html.text_as_html(source)))
    return stored if render_markdown(stored).strip() == stored else _told("it can't be shown safely")


def _on_one_line(html: str) -> str:
    return html.replace("\r", "").replace("\n", "&#10;")


def _told(reason: str) -> str:
    return f"*(This text is left out: {reason}.)*"


def render_markdown(source: str, attachments: dict | None = None) -> str:
    """The HTML that nbconvert, and with it formgrader and feedback, makes of a markdown cell."""
    return MarkdownWithMath(renderer=_Renderer(escape=False, attachments=attachments or {})).render(source)


class _Renderer(IPythonRenderer):
    """nbconvert's, but a missing attachment is no error."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        try:
            return super().image(text, url, title)
        except InvalidNotebook:
            return f"<em>(picture {escape(url.removeprefix('attachment:'))} is missing)</em>"


def sanitize_text_cells(notebook: NotebookNode, released: set[str]) -> None:
    """Makes every text cell of a student's harmless. `released`: the course's own cells, which stay as they are."""
    for cell in notebook.cells:
        if cell.cell_type == "raw":  # pages show raw text as the HTML it may be
            cell.cell_type, cell.source = "markdown", BOX.format(_on_one_line(sanitize_html.text_as_html(cell.source)))
        elif cell.cell_type == "markdown" and cell.source not in released and not notebooks.flag(cell, "locked"):
            box = "" if notebooks.flag(cell, "solution") else BOX  # pages say above a solution whose it is
            cell.source = safe_markdown(cell.source, cell.get("attachments"), box)
        cell.pop("attachments", None)
