"""Pages and scores on their way back: each importer finds in a file's name whose it is; Gradescope's container finds
all it needs."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT, UNIT, install_wheels
from test_export import graded, graded_once  # noqa: F401 (fixtures)

from autograder import notebooks
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.exports import gradescope_autograder, return_feedback
from autograder.grading import gradebook_writer
from autograder.lms import attempts
from autograder.lms.attempts import Attempt


def _collected(course, student, lms, number, order=0):
    known = attempts.load(course)
    one = Attempt(student, UNIT, "0" * 64, "x.ipynb", lms=lms, lms_id=number, order=order, counts=True)
    attempts.save(course, known | {one.place: {one.sha256: one}})


@pytest.fixture
def with_pages(graded, monkeypatch):  # noqa: F811
    """Pages are as new as the marks."""
    for student in ("ada", "bob", "dan"):
        page = graded.feedback / student / UNIT / f"{UNIT}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"page of {student}")
    monkeypatch.setattr(gradebook_writer, "outdated_page", lambda *_: "")
    return graded


def _of_moodle(name: str) -> int:
    """As `is_valid_filename_for_import` reads it."""
    for part in name.split("/"):
        info = part.split("_", 4)
        if len(info) >= 4 and info[1].isdigit():
            assert info[2:4] == ["assignfeedback", "file"]
            return int(info[1])
    raise AssertionError(name)


def _of_canvas(name: str) -> tuple[str, str]:
    """As `infer_comment_context_from_filename` reads it."""
    user, attachment = [part for part in name.split("_") if re.fullmatch(r"\d+", part)][:2]
    return user, attachment


def test_moodle_finds_whose_each_page_is(with_pages):
    _collected(with_pages, "ada", "moodle", "900001")
    _collected(with_pages, "bob", "moodle", "900002")
    path, count, notes = return_feedback.return_feedback(with_pages, UNIT, "moodle")
    archive = zipfile.ZipFile(path)
    found = {_of_moodle(name): archive.read(name).decode() for name in archive.namelist()}
    assert found == {900001: "page of ada", 900002: "page of bob"} and count == 2
    assert "dan" in notes[0]


def test_canvas_finds_whose_each_page_is(with_pages):
    _collected(with_pages, "ada", "canvas", "101", 7001)
    path, _, _ = return_feedback.return_feedback(with_pages, UNIT, "canvas")
    archive = zipfile.ZipFile(path)
    assert {_of_canvas(name): archive.read(name).decode() for name in archive.namelist()} == {
        ("101", "7001"): "page of ada"
    }


def test_what_can_not_go_back_is_one_line(with_pages, monkeypatch, attn):
    with pytest.raises(CourseError, match="Nobody's number in Canvas"):
        return_feedback.return_feedback(with_pages, UNIT, "canvas")
    with pytest.raises(CourseError, match="choose moodle, canvas"):
        return_feedback.return_feedback(with_pages, UNIT, "blackboard")
    _collected(with_pages, "ada", "canvas", "101", 7001)
    assert attn(with_pages, "return", "02", "--format", "canvas").exit_code == 0
    monkeypatch.setattr(gradebook_writer, "outdated_page", lambda *_: "newer")
    with pytest.raises(CourseError, match="older than marks and comments"):
        return_feedback.return_feedback(with_pages, UNIT, "canvas")


# ---------------------------------------------------------------- Gradescope


@pytest.fixture(scope="module")
def container():
    """/autograder as Gradescope lays it out, with the zip unpacked and its wheels installed, where all users get to."""
    folder = Path(tempfile.mkdtemp(prefix="attn-gradescope-test-"))
    folder.chmod(0o755)
    base = folder / "autograder"
    path = gradescope_autograder.make_autograder(Course(ROOT), "00_start_here", folder / "00.zip")
    for name in ("source", "submission", "results", "site"):
        (base / name).mkdir(parents=True)
    zipfile.ZipFile(path).extractall(base / "source")
    install_wheels((base / "source" / "wheels").glob("*.whl"), base / "site")
    yield base
    shutil.rmtree(folder)


def _for_all_users() -> list[str]:
    """A command that runs another one where all users can read this Python, as Gradescope's can: a folder above it that
    only root may enter is replaced for that command."""
    python = Path(sys.base_prefix).resolve()
    closed = next((folder for folder in [*python.parents][::-1] if not folder.stat().st_mode & 0o001), None)
    if closed is None:
        return []
    lines = [
        "set -e; kept=$(mktemp -d)",
        f"mount --bind {python} $kept; mount -t tmpfs -o mode=755 none {closed}",
        f'mkdir -p {python}; mount --move $kept {python}; rmdir $kept; exec "$@"',
    ]
    return ["unshare", "--mount", "bash", "-c", "; ".join(lines), "bash"]


def _run(base, notebook: bytes | None, *wrapped: str, **more: str):
    for old in (base / "submission").iterdir():
        old.unlink()
    if notebook is not None:
        (base / "submission" / "whatever.ipynb").write_bytes(notebook)
    environment = {
        "AUTOGRADER": str(base),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(base / "site"),
        "PATH": os.environ["PATH"],
    }
    command = [*wrapped, "bash", str(base / "source" / "run_autograder")]
    done = subprocess.run(command, env=environment | more, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((base / "results" / "results.json").read_text())


def test_a_submission_is_marked_in_a_clean_folder(container):
    solved = notebooks.read(Course(ROOT).solved("00_start_here"))
    found = _run(container, notebooks.to_text(solved).encode())
    assert found["tests"] and found["score"] == sum(test["max_score"] for test in found["tests"])
    assert {"name", "score", "max_score", "output", "visibility"} == set(found["tests"][0])
    files = [
        path.relative_to(container / "source").as_posix()
        for path in (container / "source").rglob("*")
        if path.is_file()
    ]
    assert {
        "setup.sh",
        "run_autograder",
        "constraints.txt",
        "course/nbgrader_config.py",
        "course/solutions/syllabus.toml",
    } < set(files)
    assert not [name for name in files if "class" in name.split("/")]


@pytest.mark.parametrize(("notebook", "told"), [(None, "Hand in one notebook"), (b"{", "notebook")])
def test_what_is_wrong_with_a_submission_is_a_line_for_the_student(container, notebook, told):
    found = _run(container, notebook)
    assert found["score"] == 0 and told in found["output"] and found["tests"] == []


def test_a_grader_that_is_killed_leaves_results_that_say_so(container, tmp_path):
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    found = _run(container, b"{}", PYTHON=str(killed))
    assert found["score"] == 0 and found["output"] == gradescope_autograder.BROKEN_OFF and found["tests"] == []


@pytest.mark.parametrize("name", ["setup.sh", "run_autograder"])
def test_its_scripts_are_bash(container, name):
    subprocess.run(["bash", "-n", str(container / "source" / name)], check=True)


def test_the_command_says_what_to_set_at_gradescope(course, attn):
    assert gradescope_autograder.TO_SET in attn(course, "gradescope-zip", "02").output.replace("\n", " ")


def test_written_answers_are_no_tests():
    items = {
        "a": {"score": 1.5, "max": 2, "message": "no"},
        "b": {"score": None, "max": 3, "message": "marked by a person"},
    }
    found = gradescope_autograder.as_results({"items": items})
    assert (
        found["score"] == 1.5 and [test["name"] for test in found["tests"]] == ["a"] and "1 written" in found["output"]
    )


FORGER = """
import json, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open({mark!r}, "w").write(str(os.getpid()))
    while True:
        try:
            json.dump({{"score": 1000, "tests": []}}, open({results!r}, "w"))
        except OSError:
            pass
        time.sleep(0.01)
"""


def _with_cell(source: str) -> bytes:
    notebook = notebooks.read(Course(ROOT).solved("00_start_here"))
    notebook.cells.insert(1, nbformat.v4.new_code_cell(source))
    return notebooks.to_text(notebook).encode()


def _full(found: dict) -> bool:
    return found["score"] == sum(test["max_score"] for test in found["tests"]) > 0


@pytest.mark.parametrize("wrapped", [[], _for_all_users()], ids=["same user", "another user"])
def test_what_student_code_leaves_behind_is_ended_before_the_results_are_written(container, wrapped):
    mark = Path(tempfile.mkdtemp()) / "process"
    mark.parent.chmod(0o777)
    forger = FORGER.format(mark=str(mark), results=str(container / "results" / "results.json"))
    assert _full(_run(container, _with_cell(forger), *wrapped, ATTN_SANDBOX="none"))
    assert not Path("/proc", mark.read_text()).exists()
    shutil.rmtree(mark.parent)


LOOKS = """
import pathlib, sys
def tried(act):
    try:
        return str(act())
    except OSError as error:
        return type(error).__name__
site, base = pathlib.Path(sys.modules["helpers"].__file__).parents[1], pathlib.Path({base!r})
seen = [tried(look) for look in (
    lambda: (site / "autograder" / "hidden" / "start_here.py").read_text(),
    lambda: list((base / "source").rglob("*")) or "nothing",
    lambda: list((base / "source" / "wheels").iterdir()),
    lambda: (base / "results" / "more.json").write_text("x"),
    lambda: __import__("os").kill(__import__("os").getppid(), 9),
)]
open({mark!r}, "w").write(repr(seen))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give student code another user id")
def test_as_another_user_student_code_reads_no_hidden_case_and_writes_no_result(container):
    mark = Path(tempfile.mkdtemp()) / "seen"
    mark.parent.chmod(0o777)
    looks = _with_cell(LOOKS.format(base=str(container), mark=str(mark)))
    assert _full(_run(container, looks, *_for_all_users(), ATTN_SANDBOX="none"))
    seen = ast.literal_eval(mark.read_text())
    assert seen[0] == seen[2] == seen[3] == "PermissionError" and seen[1] in ("nothing", "PermissionError"), seen
    shutil.rmtree(mark.parent)
