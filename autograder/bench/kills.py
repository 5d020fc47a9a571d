"""Grading while somebody kills its processes: `python -m autograder.bench.kills`.

Each time a fresh class is graded, and a worker, the warm process or the main process gets SIGKILL at a random moment. Then `attn grade`
runs once more. Every score must be that of a run which nobody disturbed, every page must be there, and no process may be left."""

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
from collections.abc import Iterator
from pathlib import Path

from autograder import notebooks
from autograder.course.build import build
from autograder.course.paths import PACKAGES, Course

UNIT = "02_small"
ATTN = [sys.executable, "-c", "from autograder.cli import app; app()", "grade", "--workers", "2", "--json"]
VICTIMS = {"worker": "multiprocessing.spawn", "warm process": "autograder.judge.warm", "main process": ""}
"""What the command line of a victim holds."""


def main() -> int:
    """Prints a line for each victim; exit status 1 if a score differed, a page was missing, or a process was left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="kills of each victim (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw, failures = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory(prefix="attn-kills-") as folder:
        original = a_class(Course(Path(folder).resolve() / "class"))
        right, seconds = _undisturbed(_copy(original, "undisturbed"))
        print(f"undisturbed: {seconds:.1f} s, {len(right)} students", flush=True)
        for victim, words in VICTIMS.items():
            problems, hit = [], 0
            for number in range(arguments.times):
                course = _copy(original, f"{victim.split()[0]}-{number}")
                hit += _disturbed(course, words, draw.uniform(0.5, seconds))
                problems += _problems(course, right)
                shutil.rmtree(course.root)
            failures += len(problems)
            print(
                f"{victim}: {hit} of {arguments.times} killed while it ran; {len(problems)} problems",
                *problems,
                sep="\n  ",
                flush=True,
            )
    return failures > 0


def a_class(course: Course, students: int = 6) -> Course:
    """The small course with students of whom no two hand in the same."""
    shutil.copytree(PACKAGES / "tests" / "small_course", course.root)
    shutil.copy(PACKAGES / "nbgrader_config.py", course.root)
    build(course, [UNIT])
    solved = notebooks.by_id(notebooks.read(course.solved(UNIT)))
    for number in range(students):
        notebook = notebooks.read(course.released(UNIT))
        for cell in notebook.cells:
            if notebooks.flag(cell, "solution") and (notebooks.grade_id(cell) != "attend" or number % 2):
                cell.source = f"{solved[notebooks.grade_id(cell)].source}\n# student {number}"
        notebooks.write(notebook, course.submission(f"student-{number}", UNIT))
    return course


def _copy(course: Course, name: str) -> Course:
    return Course(Path(shutil.copytree(course.root, course.root.parent / name)))


def _start(course: Course) -> subprocess.Popen:
    environment = os.environ | {"ATTN_COURSE": str(course.root), "PYTHONPATH": str(PACKAGES)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(ATTN, cwd="/", env=environment, start_new_session=True, text=True, **pipes)


def _undisturbed(course: Course) -> tuple[dict[str, float], float]:
    start = time.monotonic()
    told, said = _start(course).communicate()
    if not told:
        sys.exit(said)
    return _scores(told), time.monotonic() - start


def _scores(told: str) -> dict[str, float]:
    return {name: row["score"] for name, row in json.loads(told)["units"][UNIT]["students"].items()}


def _disturbed(course: Course, words: str, seconds: float) -> bool:
    """Whether a victim was there after so many seconds. Without words it is the main process."""
    run = _start(course)
    time.sleep(seconds)
    victims = [pid for pid, line in _session(run.pid) if words in line and (words or pid == run.pid)]
    if there := bool(victims) and run.poll() is None:
        os.kill(random.choice(victims), signal.SIGKILL)
    run.communicate(timeout=600)
    return there


def _problems(course: Course, right: dict[str, float]) -> Iterator[str]:
    run = _start(course)
    told, said = run.communicate(timeout=600)
    if run.returncode or _scores(told) != right:
        yield f"{course.root.name}: {said[-300:]} {told[-300:]}"
    pages = [course.feedback / student / UNIT / f"{UNIT}.html" for student in right]
    if missing := [path for path in pages if not path.is_file() or path.stat().st_size < 10_000]:
        yield f"{course.root.name}: {len(missing)} pages are missing"
    if left := _left(str(course.root)):
        yield f"{course.root.name}: processes left: {left}"


def _session(session: int) -> list[tuple[int, str]]:
    """The processes of a session, and of those that they started in sessions of their own, with their command lines."""
    rows = subprocess.run(["ps", "-eo", "pid=,ppid=,sid=,args="], capture_output=True, text=True).stdout.splitlines()
    table = [(int(pid), int(parent), int(sid), line) for pid, parent, sid, line in (row.split(None, 3) for row in rows)]
    found = {pid for pid, _, sid, _ in table if sid == session}
    for _ in range(5):
        found |= {pid for pid, parent, _, _ in table if parent in found}
    return [(pid, line) for pid, _, _, line in table if pid in found]


def _left(root: str) -> int:
    """How many processes still work for a course after ten seconds."""
    for _ in range(100):
        count = sum(f"ATTN_COURSE={root}" in _environment(path) for path in Path("/proc").glob("[0-9]*/environ"))
        if not count:
            return 0
        time.sleep(0.1)
    return count


def _environment(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    raise SystemExit(main())
