"""All pages of the course in one folder, which any web server, and any browser without one, can show."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbformat import NotebookNode
from nbformat.reader import NotJSONError

from autograder import notebooks
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.course.repository_url import colab
from autograder.errors import BAD_INPUT, CourseError
from autograder.site import cells, markdown_html
from autograder.site.cells import Page
from autograder.site.front_film import front_film
from autograder.whole_files import SHARED, write_whole

HERE = Path(__file__).parent
ROW = re.compile(
    r"^\| \[(\d\d)\]\([^)]*\)(?: [^|]*)?\|(?P<about>[^|]*)\|(?P<needs>[^|]*)\|(?P<hours>[^|]*)\|(?P<points>[^|]*)\|$",
    re.MULTILINE,
)
MARK = "made by attn site"
LONGEST = 4_000
"""Characters of a section that search looks at."""


def build(course: Course, units: list[str], folder: Path, pictures: bool, told: Callable[[str], None]) -> Path:
    """Writes the site. pictures: run the solutions for what they draw. Returns the first page."""
    _make_room(folder)
    pages = []
    for unit in units:
        told(unit)
        pages.append(_page(course, unit, folder, pictures))
    _write(folder, "style.css", (HERE / "style.css").read_text(encoding="utf-8") + markdown_html.colours())
    _write(folder, "site.js", (HERE / "site.js").read_text(encoding="utf-8"))
    _write(folder, "search.js", f"const PLACES = {json.dumps(_places(pages), ensure_ascii=False)};\n")
    shutil.copytree(HERE / "font", folder / "font")
    tested = _accessibility(course)
    shown = _templates(mark=MARK, pages=pages, accessible=tested is not None).get_template
    about, names = _about(course), [(page.unit, page.title) for page in pages]
    for place, page in enumerate(pages):
        around = {
            "before": names[place - 1] if place else None,
            "after": names[place + 1] if place + 1 < len(names) else None,
        }
        text = shown("page.html").render(
            page=page, home="../", about=about.get(page.unit[:2]), colab=colab(course, page.unit), **around
        )
        _write(folder, f"{page.unit}/index.html", text)
        shutil.copy(course.released(page.unit), folder / page.unit)
    if tested:
        text = shown("page.html").render(page=tested, home="", about=None, colab="", before=None, after=None)
        _write(folder, "accessibility.html", text)
    _write(folder, "index.html", shown("home.html").render(page=None, home="", about=about, film=front_film()))
    return folder / "index.html"


def _make_room(folder: Path) -> None:
    """An empty folder. What somebody else put there is never deleted."""
    if folder.is_dir() and any(folder.iterdir()):
        index = folder / "index.html"
        if not (index.is_file() and MARK in index.read_text(encoding="utf-8", errors="replace")):
            raise CourseError(f"{folder} holds other files: name a new folder, or empty it.", BAD_INPUT)
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _page(course: Course, unit: str, folder: Path, pictures: bool) -> Page:
    notebook = _released(course, unit)
    if pictures:
        with tempfile.TemporaryDirectory(prefix="attn-site-") as scratch:
            try:
                cells.draw(notebook, solved(course, unit), Path(scratch))
            except CourseError as error:
                raise CourseError(f"{unit}: {error}") from None
    return cells.page(unit, notebook, folder / "pictures")


def _released(course: Course, unit: str) -> NotebookNode:
    try:
        return notebooks.read(course.released(unit))
    except (OSError, ValueError, NotJSONError) as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else "can't be read"
        raise CourseError(f"{course.released(unit)} {reason}: run `attn build {unit[:2]}` first.") from None


def _places(pages: list[Page]) -> list[dict[str, str]]:
    """What search knows: the words of every section."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for page in pages:
        for heading, text in page.found:
            place = found.setdefault(
                (page.unit, heading.name),
                {
                    "unit": page.title,
                    "title": heading.title,
                    "text": "",
                    "to": f"{page.unit}/index.html#{heading.name}",
                },
            )
            place["text"] = f"{place['text']} {text}"[:LONGEST].strip()
    return list(found.values())


def _about(course: Course) -> dict[str, dict[str, str]]:
    """What README.md's table says of the units: about, needs, hours, points."""
    readme = course.root / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    return {row[1]: {name: value.strip() for name, value in row.groupdict().items()} for row in ROW.finditer(text)}


def _accessibility(course: Course) -> Page | None:
    """The page that says what was tested."""
    path = course.root / "docs" / "accessibility.md"
    if not path.is_file():
        return None
    body, headings = markdown_html.html(path.read_text(encoding="utf-8"))
    return Page("", headings[0].title, f'<section class="text">{body}</section>')


def _templates(**all_pages: Any) -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals |= all_pages
    return made


def _write(folder: Path, name: str, text: str) -> None:
    write_whole(folder / name, text, SHARED)
