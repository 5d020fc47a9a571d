"""What a unit leans on in `helpers`, read from the import statements and without running any: its own room, what of
earlier rooms that needs, and all that belongs to no room. A change of anything else can't change the unit's scores."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from autograder.course import visibility
from autograder.course.paths import PACKAGES

PICTURES = "plots"
"""Folders of rooms that no score depends on: while a unit is graded their functions do nothing (see visibility.py)."""

SHARED_BY_PICTURES = tuple("board.py environment.py film.py labels.py palette.py style.py worked_example.py".split())


@cache
def rooms() -> frozenset[str]:
    """The folders of `helpers` that belong to a unit each."""
    return frozenset(path.parent.name for path in visibility.HELPERS.glob("*/checks"))


def score_dependencies(unit: str, imported: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The files of `helpers` and the hidden cases that decide the unit's scores. imported: what its cells import."""
    room = visibility.room(unit)
    own = [path for path in sorted((visibility.HELPERS / room).rglob("*.py")) if not is_picture(path)]
    hidden = PACKAGES / "autograder" / "hidden" / f"{room}.py"
    found = _reached([*_of_no_room(), *own, *([hidden] if hidden.is_file() else []), *imported])
    return tuple(sorted({*found, *(words for path in found if (words := path.with_suffix(".md")).is_file())}))


def is_picture(path: Path) -> bool:
    """Whether a file of `helpers` only draws. (Above `helpers` a folder may be called anything.)"""
    return PICTURES in path.relative_to(visibility.HELPERS).parts


def required_files(units: Iterable[str], imported: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The files of `helpers` that these units' notebooks need: their rooms with pictures, and what those import."""
    own = [path for unit in units for path in sorted((visibility.HELPERS / visibility.room(unit)).rglob("*.py"))]
    found = _reached([*_of_no_room(), *own, *imported])
    return tuple(path for path in found if path.is_relative_to(visibility.HELPERS))


def named_pictures(source: str) -> list[str]:
    """The pictures that a cell calls: the names behind `plots.`, once each."""
    return list(dict.fromkeys(re.findall(r"\bplots\.(\w+)", source)))


def picture_files(names: Iterable[str]) -> tuple[Path, ...]:
    """The files that draw these pictures: their modules, what those import of other pictures, and what all pictures
    share. The references are not among them: their numbers are held by tests, and stay."""
    from helpers import registry  # here, for `helpers` imports torch

    known = registry.offered(PICTURES)
    starts = [PACKAGES / (known[name].replace(".", "/") + ".py") for name in names if name in known]
    shared = [visibility.HELPERS / name for name in SHARED_BY_PICTURES]
    return tuple(path for path in _reached(starts) if path in shared or path.parent.name == PICTURES)


def imported(tree: ast.AST, path: Path | None = None) -> Iterator[Path]:
    """The files of the packages that a piece of code imports. path: its own, for imports with dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _files(name.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level and path is not None:
                base = [*path.relative_to(PACKAGES).parts[: -node.level], *base]
            for name in node.names:
                yield from _files([*base, name.name])


def _of_no_room() -> list[Path]:
    """The modules that every unit may use."""
    every = sorted(visibility.HELPERS.rglob("*.py"))
    return [path for path in every if path.relative_to(visibility.HELPERS).parts[0] not in rooms()]


def _reached(starts: Iterable[Path]) -> tuple[Path, ...]:
    found, waiting = set(), list(starts)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imports_of(path)
    return tuple(sorted(found))


@cache
def _imports_of(path: Path) -> tuple[Path, ...]:
    return tuple(imported(ast.parse(path.read_text(encoding="utf-8")), path))


def _files(parts: list[str]) -> Iterator[Path]:
    """The files that are run when this name is imported: each package on the way, and the module."""
    if parts[0] not in ("helpers", "autograder"):
        return
    place = PACKAGES
    for part in parts:
        place = place / part
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                yield file
