"""Where the course is published: `[project.urls]` in pyproject.toml, `Repository` and `Homepage`, the pages to read.
`attn build` carries both into the notebooks: a badge that opens them in Colab, a setup cell that fetches `helpers`
where it is missing, a link to the unit's page."""

import re
import tomllib

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.paths import Course
from autograder.errors import CourseError

ROW = re.compile(r"^(?P<link>\| \[(?P<number>\d\d)\]\([^)]*\))(?P<links> \[[^|]*?)?(?= *\|)", re.MULTILINE)
"""The beginning of a unit's row in README.md's table, with the links that `attn build` put there."""

UNSET = "OWNER"  # stands in the address until somebody publishes the course
ADVICE = (
    "Nobody can open the notebooks in Colab yet: put the address of your repository into pyproject.toml "
    "([project.urls] Repository), and run `attn build`."
)
GITHUB = "https://github.com/"
MARK = "import helpers\n"
"""The line of a setup cell in whose place `attn build` writes how `helpers` is found."""

TITLE = "# @title Run this cell first: Shift + Enter\n"
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}
"""What Colab and JupyterLab take for folded."""
FIND = """\
try:
    import helpers
except ModuleNotFoundError:  # not installed: take it from the course's folder{or_fetch}
    import os, sys

    folder = next((path for path in (".", "..", "../..") if os.path.isfile(f"{{path}}/helpers/check.py")), None)
    if folder:
        sys.path.insert(0, os.path.abspath(folder))
    else:
        {otherwise}
"""
FETCH = 'get_ipython().run_line_magic("pip", "install -q --no-deps jaxtyping wadler-lindig git+{url}")'
NOT_HERE = (
    'raise ModuleNotFoundError("Open this notebook in the folder of the course: `helpers` lies there.") from None'
)


def repository_url(course: Course) -> str:
    """Where the repository is, without a slash at its end; "" while that is not set."""
    return _url(course, "Repository").removesuffix(".git")


def _url(course: Course, name: str) -> str:
    """CourseError where the file is no TOML."""
    path = course.root / "pyproject.toml"
    try:
        url = str(tomllib.loads(path.read_text(encoding="utf-8"))["project"]["urls"][name])
    except (OSError, LookupError, TypeError):
        return ""
    except ValueError as error:
        raise CourseError(f"{path} can't be read: {error}") from None
    return "" if UNSET in url else url.rstrip("/")


def with_links_and_setup(notebook: NotebookNode, course: Course, unit: str) -> NotebookNode:
    """The notebook with its links and with a setup cell that finds `helpers`, folded under its first line."""
    for cell in notebook.cells:
        if notebooks.grade_id(cell) == "setup":
            cell.source = TITLE + cell.source.replace(MARK, setup_code(repository_url(course)), 1)
            cell.metadata |= FOLDED
    if found := links(course, unit):
        title, _, rest = notebook.cells[0].source.partition("\n")
        notebook.cells[0].source = f"{title}\n\n{found}\n{rest}"
    return notebook


def setup_code(url: str) -> str:
    """Python that imports `helpers` wherever it is; a fetched one leaves torch and numpy as they are."""
    otherwise = FETCH.format(url=url) if url else NOT_HERE
    return FIND.format(or_fetch=", or fetch it (Colab)" if url else "", otherwise=otherwise)


def with_links(readme: str, course: Course) -> str:
    """The text of README.md with the links of every unit in its row."""
    found = {unit[:2]: links(course, unit) for unit in course.units()}
    return ROW.sub(lambda row: f"{row['link']} {found.get(row['number'], '')}".rstrip(), readme)


def links(course: Course, unit: str) -> str:
    """Markdown of the button that opens a released notebook in Colab, and of the link to its page. "" without both."""
    button, page = colab(course, unit), _url(course, "Homepage")
    image = "https://colab.research.google.com/assets/colab-badge.svg"
    shown = [f"[![Open in Colab]({image})]({button})" * bool(button), f"[Read]({page}/{unit}/)" * bool(page)]
    return " ".join(filter(None, shown))


def colab(course: Course, unit: str) -> str:
    """Where Colab opens a released notebook; "" where the repository is not GitHub's."""
    owner, url = "https://colab.research.google.com/github/", repository_url(course)
    place = f"{url.removeprefix(GITHUB)}/blob/main/notebooks/{unit}/{unit}.ipynb"
    return owner + place if url.startswith(GITHUB) else ""
