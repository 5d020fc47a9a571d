"""A grader that is killed, a gradebook that is locked, a disk that is full: after the next run every score is there."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder.bench.crash_recovery import family, still_there
from autograder.course import nbgrader_steps
from autograder.course.paths import PACKAGES, Course
from autograder.errors import CourseError
from autograder.grading import grade, gradebook_writer

CLASS = {"ada": 6, "bea": 6, "cem": 0}
GRADE = f"""
from pathlib import Path
from rich.progress import Progress
from autograder.course.paths import Course
from autograder.grading import grade
grade.grade(Course(Path({{root!r}})), [{UNIT!r}], grade.Settings(workers=1), Progress(disable=True))
"""


def _grade(course):
    return grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))


def _scores(course):
    return {student: row["code_score"] for student, row in gradebook_writer.scores(course, UNIT).items()}


@pytest.fixture(scope="module")
def judged(built, tmp_path_factory):
    """Three students, judged once, so that the tests below only record."""
    course = Course((tmp_path_factory.mktemp("faults") / "course").resolve())
    shutil.copytree(built.root, course.root, ignore=shutil.ignore_patterns("class"))
    hand_in(course, "ada", right_answers(course))
    hand_in(course, "bea", right_answers(course), edit=lambda notebook: notebook.cells[0].update(source="My own"))
    hand_in(course, "cem")
    _grade(course)
    return course


@pytest.fixture
def course(judged, tmp_path):
    """A copy in which the unit is registered, and nothing recorded."""
    copy = Course((tmp_path / "course").resolve())
    shutil.copytree(judged.root, copy.root)
    for folder in (copy.autograded, copy.feedback, copy.staged):
        shutil.rmtree(folder)
    for file in (copy.classroom / "gradebook.db", *copy.results.glob("*.json")):
        file.unlink()
    gradebook_writer.register(copy, UNIT)
    return copy


def _is_whole(course):
    assert _scores(course) == CLASS
    assert all((course.feedback / student / UNIT / f"{UNIT}.html").stat().st_size > 10_000 for student in CLASS)


def test_a_locked_gradebook_is_one_line_and_costs_nothing(course):
    holder = sqlite3.connect(course.classroom / "gradebook.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(
        CourseError, match=r"The gradebook can't be used \(database is locked\).*What is graded is kept"
    ):
        _grade(course)
    holder.close()
    _grade(course)
    _is_whole(course)


def test_a_full_disk_costs_nothing_once_there_is_room(course):
    course.autograded.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "none", course.autograded], capture_output=True)
    if mounted.returncode:
        pytest.skip("only who may mount can have a small disk")
    try:
        outcome = _grade(course)
        assert outcome.failed and all("\n" not in reason for reason in outcome.failed.values())
    finally:
        subprocess.run(["umount", course.autograded], check=True)
    assert _grade(course).failed == {}
    _is_whole(course)


def test_a_grader_that_is_killed_leaves_whole_submissions(course):
    draw = random.Random(0)
    for _ in range(2):
        run = subprocess.Popen([sys.executable, "-c", GRADE.format(root=str(course.root))], cwd=PACKAGES)
        until = time.monotonic() + draw.uniform(0.0, 0.5)
        while run.poll() is None and not (course.classroom / "staged").is_dir():
            time.sleep(0.01)
        while run.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
        run.wait()
    _grade(course)
    _is_whole(course)


def test_a_process_is_known_by_its_whole_command_line():
    mark = "x" * 300  # `ps` cuts lines at 80 characters where nobody says otherwise
    with subprocess.Popen([sys.executable, "-c", f"input() # {mark}"], stdin=subprocess.PIPE) as process:
        assert mark in family(os.getpid())[process.pid]
        process.communicate(b"\n")


@pytest.mark.parametrize(
    ("options", "moment", "count"),
    [
        (["--workers", "1"], "autograder.judge.fork_server", 1),
        (["--workers", "2"], "autograder.judge.fork_server", 5),  # a root, two branches, kernels
        (["--scheduler", "local", "--workers", "2"], "multiprocessing.spawn", 2),  # while Dask's workers start
    ],
)
def test_ctrl_c_says_how_to_go_on_and_leaves_no_process(course, options, moment, count):
    shutil.rmtree(course.results)  # to be judged once more
    shutil.rmtree(course.submitted / "cem")
    hand_in(course, "cem", {"softmax": "import time\ntime.sleep(20)\n" + right_answers(course)["softmax"]})
    attn = [sys.executable, "-c", "from autograder.cli import app; app()", "grade", *options]
    environment = os.environ | {"ATTN_COURSE": str(course.root), "PYTHONPATH": str(PACKAGES)}
    run = subprocess.Popen(
        attn,
        cwd="/",
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started = {}
    while run.poll() is None and sum(moment in line for line in started.values()) < count:
        time.sleep(0.05)
        started = family(run.pid)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: all of its processes at once
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and "goes on with the rest" in said and "Traceback" not in said, said
    assert len(started) > count and still_there(started) == []
    shutil.rmtree(course.submitted / "cem")
    hand_in(course, "cem")
    _grade(course)
    _is_whole(course)


def test_ctrl_c_that_an_import_drops_is_heard_after_it(course):
    drops = (
        "import os, signal, time\ndef press(*_):\n try:\n  os.kill(os.getpid(), signal.SIGINT); time.sleep(1)\n"
        " except KeyboardInterrupt: pass\n"
    )
    attn = (
        f"{drops}from autograder.grading import preload\npreload.start_if_wanted = press\n"
        f"from autograder.cli import app; app(['grade'])"
    )
    environment = os.environ | {"ATTN_COURSE": str(course.root), "PYTHONPATH": str(PACKAGES)}
    run = subprocess.run([sys.executable, "-c", attn], cwd="/", env=environment, capture_output=True, text=True)
    assert run.returncode == 130 and "goes on with the rest" in run.stderr, run.stderr


def test_ctrl_c_does_not_end_what_nbgrader_starts_for_a_new_gradebook(course, monkeypatch):
    pressed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"]
    found = []
    for place, name in ((nbgrader_steps, "Gradebook"), (nbgrader_steps.GenerateAssignment, "start")):
        before = getattr(place, name)
        monkeypatch.setattr(
            place, name, lambda *a, before=before: (found.append(subprocess.run(pressed).returncode), before(*a))[1]
        )
    with nbgrader_steps.open_gradebook(course):
        pass
    nbgrader_steps.generate_assignment(course, UNIT)
    assert found == [0, 0]
