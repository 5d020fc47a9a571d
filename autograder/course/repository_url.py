"""Where the course is published: one setting, `[project.urls] Repository` in pyproject.toml. `attn build` carries it
into the notebooks: a badge that opens them in Colab, and a setup cell that fetches `helpers` where it is missing."""

import re
import tomllib

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.paths import Course
from autograder.errors import CourseError

ROW = re.compile(
    r"^(?P<link>\| \[(?P<number>\d\d)\]\([^)]*\))(?P<badge> \[!\[.*?\]\(.*?\)\]\(.*?\))?(?= *\|)", re.MULTILINE
)
"""The beginning of a unit's row in README.md's table, with the badge that `attn build` put there."""

UNSET = "OWNER"  # stands in the address until somebody publishes the course
ADVICE = (
    "Nobody can open the notebooks in Colab yet: put the address of your repository into pyproject.toml "
    "([project.urls] Repository), and run `attn build`."
)
GITHUB = "https://github.com/"
MARK = "import helpers\n"
"""The line of a setup cell in whose place `attn build` writes how `helpers` is found."""

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
    """The address, without a slash at its end; "" while it is not set. CourseError where the file is no TOML."""
    path = course.root / "pyproject.toml"
    try:
        url = str(tomllib.loads(path.read_text(encoding="utf-8"))["project"]["urls"]["Repository"])
    except (OSError, LookupError, TypeError):
        return ""
    except ValueError as error:
        raise CourseError(f"{path} can't be read: {error}") from None
    url = url.rstrip("/").removesuffix(".git")
    return "" if UNSET in url else url


def with_badge_and_setup(notebook: NotebookNode, url: str, unit: str) -> NotebookNode:
    """The notebook with its badge and with a setup cell that finds `helpers`."""
    for cell in notebook.cells:
        if notebooks.grade_id(cell) == "setup":
            cell.source = cell.source.replace(MARK, setup_code(url), 1)
    if url.startswith(GITHUB):
        title, _, rest = notebook.cells[0].source.partition("\n")
        notebook.cells[0].source = f"{title}\n\n{badge(url, unit)}\n{rest}"
    return notebook


def setup_code(url: str) -> str:
    """Python that imports `helpers` wherever it is; a fetched one leaves torch and numpy as they are."""
    otherwise = FETCH.format(url=url) if url else NOT_HERE
    return FIND.format(or_fetch=", or fetch it (Colab)" if url else "", otherwise=otherwise)


def with_badges(readme: str, url: str, units: list[str]) -> str:
    """The text of README.md with a badge in the row of every unit; without any where the address is not GitHub's."""
    by_number = {unit[:2]: unit for unit in units}

    def row(match: re.Match) -> str:
        unit = by_number.get(match["number"], "") if url.startswith(GITHUB) else ""
        return match["link"] + (f" {badge(url, unit)}" if unit else "")

    return ROW.sub(row, readme)


def badge(url: str, unit: str) -> str:
    """Markdown of the button that opens a released notebook in Colab."""
    place = f"{url.removeprefix(GITHUB)}/blob/main/notebooks/{unit}/{unit}.ipynb"
    image = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({image})](https://colab.research.google.com/github/{place})"
