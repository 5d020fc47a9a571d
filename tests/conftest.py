"""A small course of one unit in a temporary folder, so that tests of the pipeline stay fast and touch nothing."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
UNIT = "02_small"

LONGEST = ("test_wrong_answers", "test_every_command", "test_hostile", "test_try", "test_mark", "test_grade")
"""The files that take longest, in this order: they start first, so that the workers of `make test` end together."""


def pytest_collection_modifyitems(items):
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture
def clock_put_back(monkeypatch):
    """For tests that set the process's time zone."""
    monkeypatch.setenv("TZ", os.environ.get("TZ", "UTC"))
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session", autouse=True)
def one_call_of_alembic():
    """nbgrader starts `alembic` for every new gradebook, only to ask for the same version: a second each time."""
    from functools import cache

    import nbgrader.api

    nbgrader.api.get_alembic_version = cache(nbgrader.api.get_alembic_version)


def install_wheels(wheels, folder: Path) -> None:
    """These wheels and nothing else, into a folder of their own."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", folder]
    subprocess.run([*pip, *wheels], check=True, capture_output=True)


def make_course(folder: Path):
    """A fresh copy of the small course, not built yet."""
    from autograder.course.paths import Course

    shutil.copytree(ROOT / "tests" / "small_course", folder)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    return Course(folder.resolve())


@pytest.fixture
def fresh_course(tmp_path):
    """The small course as its authors wrote it."""
    return make_course(tmp_path / "course")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The small course, built. Tests must not change it: they copy it (`course`)."""
    from autograder.course.build import build

    course = make_course(tmp_path_factory.mktemp("built") / "course")
    build(course, course.units())
    return course


@pytest.fixture
def course(built, tmp_path):
    """A copy of the small course, built, with an empty class."""
    from autograder.course.paths import Course

    shutil.copytree(built.root, tmp_path / "course", ignore=shutil.ignore_patterns("class"))
    return Course((tmp_path / "course").resolve())


@pytest.fixture
def notebook(course):
    """The small unit, solved by a student."""
    from autograder.proofs.hostile import solved_by_a_student

    return solved_by_a_student(course)


@pytest.fixture(scope="module")
def kernels():
    """One pair of warm processes for a file of tests."""
    from autograder.judge.kernel_manager import KernelManager

    found = KernelManager()
    yield found
    found.close()


@pytest.fixture
def real_course():
    """The course this repository holds."""
    from autograder.course.paths import Course

    return Course(ROOT)


@pytest.fixture
def attn(monkeypatch):
    """Runs `attn` with arguments in a course; returns exit status and everything printed, as one text."""
    from typer.testing import CliRunner

    from autograder.cli import app

    def run(course, *arguments: str):
        monkeypatch.setenv("ATTN_COURSE", str(course.root))
        monkeypatch.setenv("COLUMNS", "200")
        return CliRunner().invoke(app, list(arguments))

    return run


def solutions(notebook) -> dict[str, str]:
    """The solution cells of a notebook: id → source."""
    from autograder import notebooks

    return {notebooks.grade_id(cell): cell.source for cell in notebook.cells if notebooks.flag(cell, "solution")}


def hand_in(course, student: str, answers: dict[str, str] | None = None, edit=None, unit: str = UNIT) -> Path:
    """Hands in the released notebook with these cells filled in. `edit` may change the notebook before it is saved."""
    from autograder import notebooks

    notebook = notebooks.read(course.released(unit))
    for cell in notebook.cells:
        cell.source = (answers or {}).get(notebooks.grade_id(cell), cell.source)
    if edit:
        edit(notebook)
    path = course.submission(student, unit)
    notebooks.write(notebook, path)
    return path


def right_answers(course, unit: str = UNIT) -> dict[str, str]:
    """The model answers: what a student with full points hands in."""
    from autograder import notebooks

    return solutions(notebooks.read(course.solved(unit)))
