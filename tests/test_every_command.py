"""Every command under every bad condition: names that are not UTF-8, streams that are closed, full or ASCII, a
gradebook that is locked or none, files of which half is there, a class that can't be written, a full disk, a planted
course. Nothing ends with a traceback, what went wrong has its line, and what was graded is still there.

A new command is in the table by itself; an argument of a new kind needs a value here. Each command meets a share of
the conditions, another at every place in the list; with ATTN_EVERY=1 in the environment all of them."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT, UNIT, hand_in, right_answers
from rich.progress import Progress
from typer.main import get_command

from autograder import backup
from autograder.cli import app
from autograder.course import copy_gradebook
from autograder.course.paths import CONFIG, Course
from autograder.grading import grade, gradebook_writer
from autograder.lms import attempts
from autograder.lms.attempts import Attempt

BYTES = os.fsdecode(b"stud\xff")
"""A name that is not UTF-8."""
VALUES = {
    "UNIT": UNIT,
    "FILE.ipynb": "{out}/{unit}.ipynb",
    "FILE.zip": "{out}/kept.zip",
    "DIR": "{out}/new",
    "STUDENT": "ada",
    "EXERCISE": "softmax",
    "POINTS": "1",
    "REASON": "because",
    "ID": "brand_new",
    "NN_NAME": "11_brand_new",
}
"""What stands for an argument that a command needs, by its name in the help."""
OPTIONS = {
    "return": ["--format", "moodle", "--open"],
    "export": ["--open"],
    "collect": ["{out}/downloads"],
    "backup": ["{out}/class.zip"],
    "cards": ["--into", "{out}/cards.html"],
    "site": ["{out}/site", "--no-pictures"],
    "prove": ["--only", "softmax"],
}
"""What a command is given beside that, where it would else do nothing, take long, or write into this folder."""


def _commands(group=None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            needed = [one.metavar for one in command.params if one.required and one.param_type_name == "argument"]
            values = [VALUES[metavar] for metavar in needed] + OPTIONS.get(name, [])
            yield " ".join((*path, name)), [*path, name, *values]


COMMANDS = dict(_commands())


class Place(NamedTuple):
    """A course with a graded class, and a folder for what commands read and write beside it."""

    course: Course
    out: Path


@pytest.fixture(scope="module")
def template(built, tmp_path_factory) -> Place:
    folder = tmp_path_factory.mktemp("every")
    place = Place(Course((folder / "course").resolve()), folder / "out")
    shutil.copytree(built.root, place.course.root, ignore=shutil.ignore_patterns("class"))
    for name in ("LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, place.course.root)
    hand_in(place.course, "ada", right_answers(place.course))
    hand_in(place.course, "Bär")
    one = Attempt("ada", UNIT, "0" * 64, "x.ipynb", lms="moodle", lms_id="7", counts=True)
    attempts.save(place.course, {one.place: {one.sha256: one}})
    _grade(place.course)
    place.out.mkdir()
    shutil.copy(place.course.released(UNIT), place.out)
    shutil.copytree(place.course.submitted / "ada", place.out / "downloads" / "dan")
    backup.backup(place.course, place.out / "kept.zip")
    return place


@pytest.fixture
def place(template, tmp_path) -> Place:
    shutil.copytree(template.course.root.parent, tmp_path / "here")
    return Place(Course((tmp_path / "here" / "course").resolve()), tmp_path / "here" / "out")


def _grade(course):
    grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))


def _scores(course):
    return {student: row["score"] for student, row in gradebook_writer.scores(course, UNIT).items()}


def _run(place: Place, command: str, monkeypatch, stdout=None) -> tuple[int, str]:
    """Exit status, and what was said: to standard error, or if that was nothing to standard output."""
    arguments = [part.format(out=place.out, unit=UNIT) for part in COMMANDS[command]]
    files = [place.out / name for name in ("stdout", "stderr")]
    with monkeypatch.context() as patch, files[0].open("w") as said, files[1].open("w") as errors:
        patch.setattr(sys, "argv", ["attn", *arguments])
        out = said if stdout is None else stdout()
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", errors)
        with pytest.raises(SystemExit) as end:
            app()
    return end.value.code or 0, files[1].read_text() or files[0].read_text()


CALM: dict[str, int] = {}


@pytest.fixture
def calm(template, tmp_path, monkeypatch) -> Callable[[str], int]:
    """The status of a command where nothing is wrong."""

    def status(command: str) -> int:
        if command not in CALM:
            shutil.copytree(template.course.root.parent, tmp_path / "calm")
            calm = Place(Course((tmp_path / "calm" / "course").resolve()), tmp_path / "calm" / "out")
            with monkeypatch.context() as patch:
                patch.setenv("ATTN_COURSE", str(calm.course.root))
                CALM[command], _ = _run(calm, command, monkeypatch)
        return CALM[command]

    return status


# ---------------------------------------------------------------- streams


def _to_nobody():
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


STREAMS = {
    "ascii": lambda: open(os.devnull, "w", encoding="ascii"),
    "a reader that has gone": _to_nobody,
    "closed": lambda: None,
    "full": lambda: open("/dev/full", "w"),
}


def _share(conditions: dict, of: int) -> list[tuple[str, str]]:
    """(condition, command): every `of`-th pair, and of each condition and each command some."""
    return [
        (condition, command)
        for row, condition in enumerate(conditions)
        for column, command in enumerate(COMMANDS)
        if os.environ.get("ATTN_EVERY") or (row + column) % of == 0
    ]


@pytest.mark.parametrize(("stream", "command"), _share(STREAMS, 4))
def test_what_reads_the_output_changes_nothing(place, calm, monkeypatch, stream, command):
    before = os.dup(1)
    monkeypatch.setenv("ATTN_COURSE", str(place.course.root))
    monkeypatch.setenv("COLUMNS", "100")
    try:
        status, said = _run(place, command, monkeypatch, STREAMS[stream])
    finally:
        os.dup2(before, 1)
        os.close(before)
    expected = calm(command)
    assert status == (expected or 1 if stream == "full" else expected), said
    assert stream != "full" or expected or "can't be written (No space left on device)" in said


# ---------------------------------------------------------------- files


@contextmanager
def _names(place: Place) -> Iterator[None]:
    (place.course.submitted / BYTES / UNIT).mkdir(parents=True)
    shutil.copy(place.course.submission("ada", UNIT), place.course.submission(BYTES, UNIT))
    (place.course.submission("ada", UNIT).parent / BYTES).write_text("x")
    shutil.copytree(place.out / "downloads" / "dan", place.out / "downloads" / BYTES)
    yield


@contextmanager
def _locked(place: Place) -> Iterator[None]:
    with closing(sqlite3.connect(place.course.classroom / "gradebook.db", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def _no_database(place: Place) -> Iterator[None]:
    (place.course.classroom / "gradebook.db").write_text("no database " * 1000)
    yield


@contextmanager
def _half_a_database(place: Place) -> Iterator[None]:
    _halve(place.course.classroom / "gradebook.db")
    yield


@contextmanager
def _half_files(place: Place) -> Iterator[None]:
    course = place.course
    for folder in (course.results, course.autograded, course.feedback, course.staged, course.classroom / "answers"):
        for path in filter(Path.is_file, folder.rglob("*")):
            _halve(path)
    yield


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@contextmanager
def _mounted(place: Place, *options: str) -> Iterator[None]:
    mounted = subprocess.run(["mount", *options, place.course.classroom], capture_output=True)
    if mounted.returncode:
        pytest.skip("only who may mount can have such a folder")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place.course.classroom], check=True)


@contextmanager
def _read_only(place: Place) -> Iterator[None]:
    with _mounted(place, "--bind", place.course.classroom):
        remounted = ["mount", "-o", "remount,bind,ro", place.course.classroom]
        subprocess.run(remounted, check=True, capture_output=True)
        yield


@contextmanager
def _full(place: Place) -> Iterator[None]:
    kept = shutil.copytree(place.course.classroom, place.out / "class")
    with _mounted(place, "-t", "tmpfs", "-o", "size=20m", "none"):
        shutil.copytree(kept, place.course.classroom, dirs_exist_ok=True)
        with pytest.raises(OSError, match="No space"), (place.course.classroom / "filler").open("wb") as filler:
            while True:
                filler.write(bytes(4096))
        yield


CONDITIONS = {
    "names": _names,
    "a locked gradebook": _locked,
    "no gradebook": _no_database,
    "half a gradebook": _half_a_database,
    "half files": _half_files,
    "a read-only class": _read_only,
    "a full disk": _full,
}
LOST = ("no gradebook", "half a gradebook")


@pytest.mark.parametrize(("condition", "command"), _share(CONDITIONS, 4))
def test_whatever_is_wrong_has_its_line_and_costs_nothing(place, calm, monkeypatch, condition, command):
    scores, connect = _scores(place.course), sqlite3.connect
    monkeypatch.setenv("ATTN_COURSE", str(place.course.root))
    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *a, **k: connect(*a, **k | {"timeout": 0.05}))
    monkeypatch.setattr(copy_gradebook, "PATIENCE", 0.1)
    with CONDITIONS[condition](place):
        status, said = _run(place, command, monkeypatch)
    assert status == calm(command) or (status in (1, 2, 3) and said), said
    assert "Traceback" not in said
    if condition not in LOST and command not in ("override", "restore"):
        if command == "grade":
            shutil.rmtree(place.course.submitted / BYTES, ignore_errors=True)
            _grade(place.course)
        assert _scores(place.course).items() >= scores.items()


@pytest.mark.parametrize("command", ["export", "report", "backup", "return"])
def test_a_name_that_is_not_utf_8_stops_nobody(place, monkeypatch, command):
    monkeypatch.setenv("ATTN_COURSE", str(place.course.root))
    with _names(place):
        assert _run(place, command, monkeypatch)[0] == 0
    backup.backup(place.course, place.out / "names.zip")
    shutil.rmtree(place.course.submitted / BYTES)
    backup.restore(place.course, place.out / "names.zip")
    assert place.course.submission(BYTES, UNIT).is_file()


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_the_configuration_of_the_folder_it_is_called_in(place, monkeypatch, command):
    planted = place.out / "eve"
    (planted / "solutions").mkdir(parents=True)
    (planted / CONFIG).write_text(f"open({str(planted / 'ran')!r}, 'w')")
    monkeypatch.delenv("ATTN_COURSE", raising=False)
    monkeypatch.chdir(planted)
    status, said = _run(place, command, monkeypatch)
    assert status == 2 and "was not run" in said and said.count("\n") == 1 and not (planted / "ran").exists()


def test_what_a_command_starts_imports_nothing_from_the_folder_it_is_called_in(place, monkeypatch):
    (place.out / "multiprocessing.py").write_text("")  # Dask's workers begin with an import of it
    monkeypatch.setenv("ATTN_COURSE", str(place.course.root))
    monkeypatch.chdir(place.out)
    _run(place, "doctor", monkeypatch)
    assert subprocess.run([sys.executable, "-c", "import multiprocessing.spawn"]).returncode == 0
