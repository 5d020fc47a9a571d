"""Grading while somebody kills its processes: `python -m autograder.bench.crash_recovery`.

Each time a fresh class is graded, and a worker, the warm process or the main process gets SIGKILL at a random moment.
Then `attn grade` runs once more. Every score must be that of an undisturbed run, every page be there, and no process
left."""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from autograder import notebooks
from autograder.course.build import build
from autograder.course.paths import PACKAGES, Course
from autograder.proofs.hostile import UNIT, solved_by_a_student

ATTN = [sys.executable, "-c", "from autograder.cli import app; app()", "grade", "--workers", "2", "--json"]
ON_DASK = ["--scheduler", "local"]  # where workers are processes of their own
VICTIMS = {
    "worker": ("multiprocessing.spawn", ON_DASK),
    "warm process": ("autograder.judge.fork_server", []),
    "main process": ("", []),
}
"""What the command line of a victim holds, and with which options of `attn grade` there is one."""


def main() -> int:
    """Prints a line for each victim; exit status 1 if a score differed, a page was missing, or a process was left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="kills of each victim that hit it (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw, failures = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory(prefix="attn-kills-") as folder:
        original = a_class(Course(Path(folder).resolve() / "class"))
        right, seconds = _undisturbed(_copy(original, "undisturbed"))
        print(f"undisturbed: {seconds:.1f} s, {len(right)} students", flush=True)
        for victim, (words, options) in VICTIMS.items():
            problems, hit, runs = [], 0, 0
            while hit < arguments.times and runs < 3 * arguments.times:
                course = _copy(original, f"{victim.split()[0]}-{runs}")
                there, left = _disturbed(course, words, options, draw.uniform(0.5, seconds))
                hit, runs = hit + there, runs + 1
                problems += [f"{course.root.name}: processes left: {left}"] * bool(left)
                problems += _problems(course, right)
                shutil.rmtree(course.root)
            failures += len(problems)
            print(
                f"{victim}: {hit} killed while it ran, in {runs} runs; {len(problems)} problems",
                *problems,
                sep="\n  ",
                flush=True,
            )
    return failures > 0


def a_class(course: Course, students: int = 8) -> Course:
    """The small course with students of whom no two hand in the same."""
    small_course(course)
    for number in range(students):
        notebook = solved_by_a_student(course)
        for cell in filter(lambda cell: notebooks.flag(cell, "solution"), notebook.cells):
            wrong = notebooks.grade_id(cell) == "attend" and number % 2
            cell.source = f"{'attend = None' if wrong else cell.source}\n# student {number}"
        notebooks.write(notebook, course.submission(f"student-{number}", UNIT))
    return course


def small_course(course: Course) -> None:
    """The course of the tests, built, in a folder that is not there yet."""
    shutil.copytree(PACKAGES / "tests" / "small_course", course.root)
    shutil.copy(PACKAGES / "nbgrader_config.py", course.root)
    build(course, [UNIT])


def _copy(course: Course, name: str) -> Course:
    return Course(Path(shutil.copytree(course.root, course.root.parent / name)))


def start_grading(course: Course, options: Iterable[str] = ()) -> subprocess.Popen:
    """`attn grade`, begun, in a session of its own; what it prints is for `scores_of`."""
    environment = os.environ | {"ATTN_COURSE": str(course.root), "PYTHONPATH": str(PACKAGES)}
    return subprocess.Popen(
        [*ATTN, *options],
        cwd="/",
        env=environment,
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _undisturbed(course: Course) -> tuple[dict[str, float], float]:
    start = time.monotonic()
    told, said = start_grading(course).communicate()
    if not told:
        sys.exit(said)
    return scores_of(told), time.monotonic() - start


def scores_of(told: str) -> dict[str, float]:
    """Student → score."""
    return {name: row["score"] for name, row in json.loads(told)["units"][UNIT]["students"].items()}


def _disturbed(course: Course, words: str, options: list[str], seconds: float) -> tuple[bool, list[int]]:
    """Whether a victim was there after so many seconds, and which processes are left. Without words: the main
    process."""
    run = start_grading(course, options)
    time.sleep(seconds)
    hit, members = False, {}
    while run.poll() is None and not hit:
        members = family(run.pid)
        hit = _kill_one([pid for pid, line in members.items() if words in line and (words or pid == run.pid)])
    run.communicate(timeout=600)
    return hit, still_there(members)


def _kill_one(pids: list[int]) -> bool:
    """Whether one of them, any, was there to be killed."""
    with suppress(IndexError, ProcessLookupError):
        os.kill(random.choice(pids), signal.SIGKILL)
        return True
    return False


def _problems(course: Course, right: dict[str, float]) -> Iterator[str]:
    run = start_grading(course)
    told, said = run.communicate(timeout=600)
    if run.returncode or scores_of(told) != right:
        yield f"{course.root.name}: {said[-300:]} {told[-300:]}"
    pages = [course.feedback / student / UNIT / f"{UNIT}.html" for student in right]
    if missing := [path for path in pages if not path.is_file() or path.stat().st_size < 10_000]:
        yield f"{course.root.name}: {len(missing)} pages are missing"


def family(pid: int) -> dict[int, str]:
    """A process and all that it started, in whatever session, with their command lines."""
    found = {}
    with suppress(psutil.NoSuchProcess):
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with suppress(psutil.Error):  # it has ended
                found[process.pid] = " ".join(process.cmdline())
    return found


def still_there(pids: Iterable[int], seconds: float = 10) -> list[int]:
    """Those of the processes that have not ended after so many seconds."""
    until = time.monotonic() + seconds
    while (left := sorted(filter(_runs, pids))) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def _runs(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


if __name__ == "__main__":
    raise SystemExit(main())
