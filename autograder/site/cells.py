"""The cells of a released notebook as pieces of a page, with what its drawing cells show."""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from autograder import notebooks
from autograder.errors import CourseError
from autograder.site import markdown_html
from autograder.site.markdown_html import Heading

ANSWER, CHECK, SETUP, PLAIN = "answer", "check", "setup", "plain"
SECONDS = 600
PICTURE = re.compile(r'src="data:image/(png|svg)(?:\+xml)?;base64,([^"]+)"')
COLOURED = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Page:
    """A unit's page: its body, its headings, and the words under each for search."""

    unit: str
    title: str
    body: str = ""
    headings: list[Heading] = field(default_factory=list)
    found: list[tuple[Heading, str]] = field(default_factory=list)

    @property
    def picture(self) -> str:
        """Its first picture, as the front page names it; "" where it has none."""
        first = re.search(r'src="\.\./(pictures/[^"]+)"', self.body)
        return first[1] if first else ""


def draw(released: NotebookNode, solved: NotebookNode, folder: Path) -> None:
    """Gives the cells of a released notebook the outputs that they have with the model answers: a picture doesn't give
    the code away. CourseError where a cell fails."""
    solved.cells = [cell for cell in solved.cells if not notebooks.is_test(cell)]
    try:
        NotebookClient(
            solved, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}, extra_arguments=["--log-level=40"]
        ).execute()
    except CellExecutionError as error:
        raise CourseError(f"a cell of the solution fails: {error.ename}: {error.evalue}") from None
    drawn = {cell.id: cell.outputs for cell in solved.cells if cell.cell_type == "code"}
    for cell in released.cells:
        if cell.cell_type == "code":
            cell.outputs = drawn.get(cell.id, [])


def page(unit: str, notebook: NotebookNode, pictures: Path) -> Page:
    """The page of a released notebook. pictures: the folder to which images are written."""
    made = Page(unit, notebook.cells[0].source.split("\n")[0].removeprefix("# "))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            body, headings = markdown_html.html(cell.source)
            made.headings += headings
            made.body += f'<section class="text">{body}</section>\n'
        else:
            body = _code(cell, pictures)
            made.body += body
        if made.headings:
            made.found.append((made.headings[-1], markdown_html.plain(body)))
    return made


def _kind(cell: NotebookNode) -> str:
    if notebooks.grade_id(cell) == "setup":
        return SETUP
    return CHECK if notebooks.is_test(cell) else ANSWER if notebooks.flag(cell, "solution") else PLAIN


def _code(cell: NotebookNode, pictures: Path) -> str:
    kind, source = _kind(cell), markdown_html.code(cell.source)
    if kind == SETUP:
        return f'<details class="setup"><summary>The setup cell</summary>{source}</details>\n'
    label = {ANSWER: "Your answer goes here", CHECK: "The check"}.get(kind, "")
    shown = "" if kind != PLAIN or cell.source.startswith("check.progress(") else _outputs(cell, pictures)
    return f'<figure class="cell {kind}">{f"<figcaption>{label}</figcaption>" * bool(label)}{source}{shown}</figure>\n'


def _outputs(cell: NotebookNode, pictures: Path) -> str:
    body = "".join(_output(output, pictures) for output in cell.get("outputs", []))
    return f'<div class="outputs">{body}</div>' if body else ""


def _output(output: NotebookNode, pictures: Path) -> str:
    if output.output_type == "stream":
        return (
            f'<pre tabindex="0">{escape(COLOURED.sub("", output.text).split(chr(13))[-1])}</pre>'
            if output.name == "stdout"
            else ""
        )
    data = output.get("data", {})
    if "text/html" in data:
        shown = PICTURE.sub(lambda found: _saved(found[1], found[2], pictures), data["text/html"])
        return f'<div class="made">{shown}</div>'
    return f'<pre tabindex="0">{escape(data["text/plain"])}</pre>' if "text/plain" in data else ""


def _saved(kind: str, picture: str, pictures: Path) -> str:
    """Writes a picture that a page holds, and says where it is."""
    content = base64.b64decode(picture)
    name = hashlib.sha256(content).hexdigest()[:16] + f".{kind}"
    pictures.mkdir(parents=True, exist_ok=True)
    (pictures / name).write_bytes(content)
    return f'src="../pictures/{name}" loading="lazy"'
