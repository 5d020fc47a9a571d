"""A student's own text, made harmless: formgrader and feedback show a markdown cell as whatever its rendering holds.

The rendering is what is cleaned. Plain text stays the markdown it is; what holds a link, a picture or HTML is stored as
its cleaned rendering, on one line, which renders to itself."""

from html import escape

from nbconvert.filters.markdown_mistune import InvalidNotebook, IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from autograder import limited_process, notebooks, sanitize_html

SECONDS = 2.0  # to render one cell
STARTS_SOMETHING = set("<[&")
"""Characters of which a markdown text needs one to become anything but formatted text and links to http and https."""


def safe_markdown(source: str, attachments: dict | None = None) -> str:
    """Markdown that shows what `source` shows, as far as that is harmless and does not take too long."""
    try:
        return limited_process.cpu_time_limit(SECONDS, _harmless, source, attachments or {})
    except TimeoutError:
        return _told("showing it takes too long")
    except Exception as error:  # mistune's own failures
        return _told(f"it can't be rendered ({type(error).__name__})")


def _harmless(source: str, attachments: dict) -> str:
    rendered = render_markdown(source, attachments)
    if not STARTS_SOMETHING & set(source) and "mermaid" not in source:  # nbconvert lets mermaid's text through as it is
        return source
    stored = (
        "<div>"
        + sanitize_html.sanitize_or_explain(rendered).strip().replace("\r", "").replace("\n", "&#10;")
        + "</div>"
    )
    if render_markdown(stored).strip() != stored:  # what is shown would not be what was cleaned
        stored = sanitize_html.text_as_html(source).replace("\n", "&#10;")
    return stored if render_markdown(stored).strip() == stored else _told("it can't be shown safely")


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
            cell.cell_type, cell.source = "markdown", sanitize_html.text_as_html(cell.source).replace("\n", "&#10;")
        elif cell.cell_type == "markdown" and cell.source not in released and not notebooks.flag(cell, "locked"):
            cell.source = safe_markdown(cell.source, cell.get("attachments"))
        cell.pop("attachments", None)
