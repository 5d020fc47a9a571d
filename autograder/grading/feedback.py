"""Feedback pages: nbgrader's, with a Content-Security-Policy. What students wrote has been cleaned before (see
sanitize_text.py and judge/sanitize_outputs.py); the policy is a second wall: a page runs the scripts of its template
and loads MathJax, and nothing else.

`nbgrader generate_feedback` makes them one by one. `attn grade` has them rendered elsewhere, by an exporter that is
built once and remembers the cells of the course (`render`); scores and comments are in the notebook by then."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache, cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbconvert.exporters import html
from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode
from traitlets.config import Config

from autograder import notebooks
from autograder.course.sections import index
from autograder.grading.page_exporter import MATHJAX, PageExporter

_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
NO_GRADES = {"notebook": "", "score": 0, "max_score": 0, "late_penalty": 0, "open": []}
"""What a page says above the notebook."""
EARLIER, FOR_MARKERS = "earlier_answer", "for_markers"
"""The tags of cells that are there for the marker alone (see kept_marks.py and for_markers.py)."""
AS_RELEASED = (
    "<p><b>You handed in the file as it was released: did you download it before your answers were saved?</b></p>"
)


class FeedbackExporter(PageExporter):
    """nbconvert's HTML exporter; every page says what it may do. What was rendered before is not again."""

    def from_notebook_node(self, nb: NotebookNode, resources: dict | None = None, **more) -> tuple[str, dict]:
        nb = NotebookNode(
            nb, cells=[cell for cell in nb.cells if not {EARLIER, FOR_MARKERS} & set(cell.metadata.get("tags", []))]
        )
        page, resources = super().from_notebook_node(nb, resources, **more)
        waiting = resources.get("nbgrader", {}).get("open", [])
        tag = f'<meta http-equiv="Content-Security-Policy" content="{self.policy}">'
        return with_names(page.replace("<head>", f"<head>\n{tag}", 1), nb, waiting), resources

    @cached_property
    def policy(self) -> str:
        """Scripts of the template, by their hashes, and MathJax, which needs `eval`; pictures within the page."""
        scripts = " ".join(f"'sha256-{_hash(text)}'" for text in _SCRIPT.findall(self._template_text()))
        return (
            f"default-src 'none'; script-src {MATHJAX} 'unsafe-eval' {scripts}; style-src 'unsafe-inline' {MATHJAX}; "
            f"img-src data:; font-src data: {MATHJAX}; base-uri 'none'; form-action 'none'"
        )

    def _template_text(self) -> str:
        """A page without a notebook."""
        empty = NotebookNode(nbformat=4, nbformat_minor=5, metadata={}, cells=[])
        return PageExporter(config=self.config).from_notebook_node(empty, {"nbgrader": NO_GRADES})[0]

    @cached_property
    def seen(self) -> dict[Any, str]:
        """What was rendered before: source → HTML."""
        return {}

    @html.contextfilter
    def markdown2html(self, context: Any, source: str) -> str:
        if context.get("cell", {}).get("attachments"):
            return super().markdown2html(context, source)
        if source not in self.seen:
            self.seen[source] = super().markdown2html(context, source)
        return self.seen[source]

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "markdown2html", self.markdown2html
        yield "highlight_code", _Colours(self)


def with_names(page: str, notebook: NotebookNode, waiting: Sequence[str]) -> str:
    """A page whose list of scores names exercises by their headings instead of saying "Test cell" fourteen times, and
    says what waits for a marker. waiting: ids of graded cells."""
    head, body, rest = page.partition('<div class="panel-body">')
    places, graded = index(notebook), [cell for cell in notebook.cells if notebooks.flag(cell, "grade")]
    for cell in graded:
        head = _named(head, cell, places.get(notebooks.exercise_id(cell)), notebooks.grade_id(cell) in waiting)
    if count := len(waiting):
        said = f"; {count} answer{'s wait' if count > 1 else ' waits'} for a marker)</h4>"
        head = head.replace("(Score: ", "(So far: ", 1).replace(")</h4>", said, 1)
    as_released = notebook.metadata.get(notebooks.STAMP, {}).get("as released")
    return head + body + AS_RELEASED * bool(as_released) + rest


def _named(head: str, cell: NotebookNode, place: tuple[str, str] | None, waits: bool) -> str:
    """The line of one graded cell."""
    line = re.compile(rf'(<a href="#{re.escape(notebooks.grade_id(cell))}">)([^<]*)(</a> \()(Score: [^)]*)')
    name = escape(f"{place[0]} {place[1]}") if place else None
    written = ", in words" if notebooks.is_written(cell) else ""
    score = f"waits for a marker; {notebooks.points(cell):g} to earn" if waits else None
    return line.sub(
        lambda found: f"{found[1]}{name + written if name else found[2]}{found[3]}{score or found[4]}", head, count=1
    )


class _Colours:
    """nbconvert's filter for code. A page's code is Python, as the metadata of every graded notebook say."""

    def __init__(self, exporter: FeedbackExporter) -> None:
        self.exporter, self.colour = exporter, Highlight2HTML(pygments_lexer="python", parent=exporter)

    def __call__(self, source: str, language: str | None = None, metadata: dict | None = None) -> str:
        named = (language, (metadata or {}).get("magics_language"), source)
        if named not in self.exporter.seen:
            self.exporter.seen[named] = self.colour(source, language, metadata)
        return self.exporter.seen[named]


def render(notebook: str, grades: dict) -> str:
    """A page. notebook: the text of a graded notebook that holds its scores and comments; grades: see `NO_GRADES`."""
    return _exporter().from_notebook_node(notebooks.parse(notebook), {"nbgrader": grades})[0]


def remember(notebook: str) -> None:
    """Renders the course's own notebook of a unit, so that its cells need not be rendered in every page."""
    text = notebooks.parse(notebook)
    for cell in text.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= {"score": 0, "points": cell.metadata.nbgrader.get("points", 0)}
    render(notebooks.to_text(text), NO_GRADES)


@cache
def _exporter() -> FeedbackExporter:
    """As nbgrader's GenerateFeedback sets it up."""
    config, nbgrader = Config(), find_spec("nbgrader").origin  # type: ignore[union-attr]  # it is there
    templates = Path(nbgrader or "").parent / "server_extensions" / "formgrader"
    config.Exporter.default_preprocessors = []
    config.HTMLExporter.template_name = "feedback"
    config.HTMLExporter.extra_template_basedirs = [str(templates / "templates")]
    config.HTMLExporter.extra_template_paths = [str(templates / "static/node_modules/bootstrap/dist/css")]
    return FeedbackExporter(config=config)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
