"""Results of the judge, kept by what they depend on: the cells of the sanitised notebook, the unit, the grader and its
settings. The same work is never done twice, a crash loses nothing, and a changed check asks for new work by itself.
A verdict in doubt is lent, not kept."""

import ast
import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from nbformat import NotebookNode, from_dict

from autograder import notebooks
from autograder.course import dependencies
from autograder.course.paths import PACKAGES
from autograder.judge import outputs
from autograder.judge.config import Limits
from autograder.whole_files import write_whole

GRADER = (
    "autograder/judge",
    "autograder/course/visibility.py",
    "autograder/size_limits.py",
    "autograder/control_characters.py",
    "autograder/sanitize_html.py",
    "autograder/grading/static_checks.py",
    "autograder/grading/judge_notebook.py",
    "autograder/grading/sanitize_text.py",
    "autograder/grading/submission_parser.py",
    "autograder/grading/repair.py",
    "autograder/grading/skipped_cells.py",
)
"""What decides a score in every unit, below the folder of the packages."""
COURSE = ("helpers", "autograder/hidden")


@cache
def grader_version() -> str:
    """A hash of all sources that decide a score in any unit, and of the versions of what computes it."""
    return _hash([*_sources(GRADER), *_sources(COURSE), *_sources(COURSE, "*.md")])


@cache
def unit_version(unit: str, imported: frozenset[Path] = frozenset()) -> str:
    """The same for one unit: a fix in another one regrades nothing. imported: what a notebook imports beside."""
    return _hash([*_sources(GRADER), *dependencies.score_dependencies(unit, imported)])


def _sources(parts: tuple[str, ...], pattern: str = "*.py") -> list[Path]:
    found = (path for part in parts for path in [PACKAGES / part, *(PACKAGES / part).rglob(pattern)])
    return sorted(path for path in found if path.is_file())


def _hash(files: list[Path]) -> str:
    digest = hashlib.sha256(f"torch {version('torch')}".encode())
    for path in files:
        digest.update(f"\0{path.relative_to(PACKAGES)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def key(notebook: NotebookNode, unit: str, limits: Limits) -> str:
    """What the result of judging this notebook depends on. Cell ids are left out: where a notebook has none, nbformat
    draws new ones at every reading."""
    cells = [[cell.cell_type, cell.source, cell.metadata.get("nbgrader", {})] for cell in notebook.cells]
    parts = [cells, unit, unit_version(unit, _imports(notebook)), asdict(limits)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _imports(notebook: NotebookNode) -> frozenset[Path]:
    """The files of the course that the cells' import statements name."""
    found: set[Path] = set()
    for cell in notebook.cells:
        if cell.cell_type == "code" and "helpers" in cell.source:
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                found.update(dependencies.imported(ast.parse(cell.source)))
    return frozenset(found)


_lent: dict[Path, str] = {}  # in this process alone


@dataclass(frozen=True)
class Store:
    """A folder of results, one JSON file each. Written whole or not at all; what is spoilt all the same is not there,
    so that it is judged again."""

    folder: Path

    def __contains__(self, key: str) -> bool:
        """Whether a result is kept, and whole: one that is only lent isn't."""
        try:
            return json.loads(self._path(key).read_text(encoding="utf-8")).keys() >= {"results", "cells"}
        except (OSError, ValueError, AttributeError):
            return False

    def put(self, key: str, notebook: NotebookNode) -> None:
        """Keeps the outputs of a judged notebook, and what its test cells say."""
        write_whole(self._path(key), _text(notebook))

    def lend(self, key: str, notebook: NotebookNode) -> None:
        """Has the result ready, in this process and until `forget`: it is in doubt, and never kept."""
        _lent[self._path(key)] = _text(notebook)

    def forget(self, key: str) -> None:
        """A result that was lent."""
        _lent.pop(self._path(key), None)

    def apply(self, key: str, notebook: NotebookNode) -> bool:
        """Puts the outputs kept under the key into the notebook; False where there are none, or not readable."""
        try:
            pairs = list(zip(notebook.cells, self._load(key)["cells"], strict=True))
        except (OSError, ValueError, KeyError):
            return False
        for cell, kept in pairs:
            if kept is not None:
                cell.update(from_dict(kept))
        return True

    def results(self, key: str) -> list[outputs.Result]:
        """What the test cells under the key say."""
        return [outputs.Result(**result) for result in self._load(key)["results"]]

    def _load(self, key: str) -> dict:
        path = self._path(key)
        return json.loads(_lent.get(path) or path.read_text(encoding="utf-8"))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _text(notebook: NotebookNode) -> str:
    cells = [_shown(cell) if cell.cell_type == "code" else None for cell in notebook.cells]
    results = [asdict(outputs.read_result(cell)) for cell in notebooks.tests(notebook)]
    return json.dumps({"results": results, "cells": cells})


def _shown(cell: NotebookNode) -> dict:
    return {"outputs": cell.outputs, "execution_count": cell.execution_count}
