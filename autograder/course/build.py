"""From a unit's percent source to its solution notebook and its release, the same bytes every time.

The release is nbgrader's own (`generate_assignment` in a throw-away course); build only makes what goes in and writes
what comes out, so what students get is what nbgrader will grade."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from autograder import notebooks
from autograder.course import sections
from autograder.course.paths import LITTER, Course, temporary_course
from autograder.course.repository_url import with_links, with_links_and_setup
from autograder.course.table_of_contents import with_contents
from autograder.errors import CourseError
from autograder.whole_files import SHARED, write_whole


def solution_notebook(source: Path) -> NotebookNode:
    """The notebook of a percent source: no outputs, ids derived from the text, and nothing in the metadata but the
    kernel and what nbgrader needs."""
    try:
        notebook = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent")
    except Exception as error:
        raise CourseError(f"{source}: not a percent notebook: {str(error).splitlines()[0]}") from error
    notebook.metadata = {"kernelspec": notebooks.KERNEL, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in ("nbgrader", "tags") if key in cell.metadata}
    notebooks.assign_cell_ids(notebook.cells)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def render(course: Course, units: Iterable[str]) -> dict[Path, bytes]:
    """Every file that a build of the units makes, by its path below the course folder."""
    made, read = {}, cache(solution_notebook)  # the index reads every source once more
    with temporary_course(course, units := list(units)) as copy:
        for unit in units:
            notebooks.write(
                with_links_and_setup(with_contents(deepcopy(read(course.source(unit)))), course, unit),
                copy.solved(unit),
            )
            _release(copy, unit)
            files = [copy.solved(unit), *_files(copy.notebooks / unit)]
            made |= {path.relative_to(copy.root): _final_bytes(path) for path in files}
    return made | _index(course, read) | _readme(course)


def _index(course: Course, read: Callable[[Path], NotebookNode]) -> dict[Path, bytes]:
    """Where every exercise stands and what it is worth, for `helpers`, which know it from nowhere else."""
    if not (course.root / sections.INDEX).parent.is_dir():
        return {}
    texts = {sections.INDEX: sections.index_text, sections.UNITS: sections.units_text}
    return {path: text(course, read).encode() for path, text in texts.items()}


def _readme(course: Course) -> dict[Path, bytes]:
    """README.md with links in each unit's row, where there is an address."""
    path = course.root / "README.md"
    if not path.is_file():
        return {}
    return {Path(path.name): with_links(path.read_text(encoding="utf-8"), course).encode()}


def build(course: Course, units: Iterable[str]) -> list[Path]:
    """Writes the notebooks of the units. Returns the files that changed, by their paths below the course folder."""
    made = render(course, units := list(units))
    changed = [path for path, content in made.items() if _write_if_changed(course.root / path, content)]
    return changed + [_remove(course, path) for path in _leftovers(course, units, made)]


def drift(course: Course, units: Iterable[str]) -> list[str]:
    """One line for each committed file that a build would change, and for each whose source is gone."""
    made = render(course, units := list(units))
    lines = [
        _difference(course.root / path, path) for path, content in made.items() if _read(course.root / path) != content
    ]
    lines += [f"{path} is made by no source any more" for path in _leftovers(course, units, made)]
    return lines + [f"{path.relative_to(course.root)} has no source any more" for path in orphans(course)]


def orphans(course: Course) -> list[Path]:
    """Unit folders in notebooks/, and solution notebooks, that no source makes."""
    units = set(course.units())
    folders = [folder for folder in _folders(course.notebooks) if folder.name not in units]
    pairs = [path for path in sorted(course.solutions.glob("*/*.ipynb")) if path.parent.name not in units]
    return folders + pairs


def _release(course: Course, unit: str) -> None:
    from autograder.course import (
        nbgrader_steps,  # here, for it brings nbgrader along: whoever only reads sources needs none
    )

    try:
        nbgrader_steps.release(course, unit)
    except nbgrader_steps.StepFailed as error:
        raise CourseError(f"{course.source(unit).relative_to(course.root)}: {error}") from error


def _leftovers(course: Course, units: Iterable[str], made: dict[Path, bytes]) -> list[Path]:
    here = []
    for unit in units:
        here += _files(course.notebooks / unit) + sorted((course.solutions / unit).glob("*.ipynb"))
    return [path.relative_to(course.root) for path in here if path.relative_to(course.root) not in made]


def _difference(path: Path, name: Path) -> str:
    return f"{name} is missing" if not path.exists() else f"{name} differs from what its source makes"


def _final_bytes(path: Path) -> bytes:
    """A release as committed: nbgrader's exporter ends without a newline."""
    return path.read_bytes().rstrip(b"\n") + b"\n" if path.suffix == ".ipynb" else path.read_bytes()


def _write_if_changed(path: Path, content: bytes) -> bool:
    if _read(path) == content:
        return False
    write_whole(path, content, SHARED)
    return True


def _remove(course: Course, path: Path) -> Path:
    (course.root / path).unlink()
    return path


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _files(folder: Path) -> list[Path]:
    """The files below a folder that are part of a unit, in order: no checkpoints, no caches."""
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return sorted(path for path in files if not LITTER(str(path.parent), list(path.relative_to(folder).parts)))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
