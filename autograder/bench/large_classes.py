"""Large classes of the small course: `python -m autograder.bench.large_classes`.

Growth: classes of 25, 100 and 400, all different: seconds a submission and the main process's memory should stay the
same. With `--hostile` that share of the class hands in hostile or broken notebooks instead, and with `--serial` the
same class is graded once more by one worker: no score may be lost, doubled, or another than it ought to be."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nbgrader.api import Gradebook

from autograder import notebooks
from autograder.bench.crash_recovery import small_course
from autograder.course.paths import PACKAGES, Course
from autograder.proofs.hostile import UNIT, hand_in, notebooks_of_all_kinds, solved_by_a_student

ATTN = [sys.executable, "-c", "from autograder.cli import app; app()", "grade", "--json"]
ANSWERS = {
    "right": ("", 6.0),
    "wrong": ("attend = lambda query, keys, values: values.mean(0)", 3.25),
    "crashing": ("1 / 0", 3.0),
}
"""What stands in the cell of `attend`, and what the notebook earns."""
SLOW = "exhausting"  # hostile notebooks that use up their time, which says nothing of a class


def main() -> int:
    """A line for each class; exit status 1 if a score was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[25, 100, 400], help="students (default: 25 100 400)")
    parser.add_argument("--hostile", type=float, default=0.0, help="share of hostile hand-ins (default: 0)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--serial", action="store_true", help="grade the class with one worker too, and compare")
    arguments, problems = parser.parse_args(), 0
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(prefix="attn-soak-") as folder:
            course = Course(Path(folder).resolve() / "class")
            expected = a_class(course, size, arguments.hostile)
            twin = Course(Path(shutil.copytree(course.root, course.root.with_name("serial"))))
            found = _graded(course, arguments.workers)
            wrong = [*_wrong(expected, found), *_doubled(course), *found["reasons"]]
            if arguments.serial:
                serial = _graded(twin, 1)["scores"]
                wrong += [
                    f"{name}: one worker gives {serial.get(name)}"
                    for name in expected
                    if serial.get(name) != found["scores"].get(name)
                ]
            print(
                f"{size} students: {found['seconds']:.0f} s, {found['seconds'] / size:.3f} s each, main process at "
                f"most "
                f"{found['mb']:.0f} MB; {len(found['scores'])} scores, {len(wrong)} wrong",
                *wrong,
                sep="\n  ",
                flush=True,
            )
            problems += len(wrong)
    return problems > 0


def a_class(course: Course, size: int, hostile: float = 0.0) -> dict[str, float | None]:
    """Hands in, no two alike. Returns what each must earn; None for what can't be graded."""
    small_course(course)
    bad = round(size * hostile)
    expected: dict[str, float | None] = {
        f"student-{number:04d}": _honest(course, number) for number in range(size - bad)
    }
    chosen = [one for kind, one in notebooks_of_all_kinds() if kind != SLOW]
    step = max(1, len(chosen) // max(bad, 1))
    for one in islice(chosen[::step], bad):
        hand_in(course, one, {})
        expected[one.name] = None if one.rejected else sum(one.expected().values())
    return expected


def _honest(course: Course, number: int) -> float:
    answer, score = list(ANSWERS.values())[number % len(ANSWERS)]
    notebook = solved_by_a_student(course)
    cell = notebooks.by_id(notebook)["attend"]
    cell.source = f"{answer or cell.source}\n# student {number}"
    notebooks.write(notebook, course.submission(f"student-{number:04d}", UNIT))
    return score


def _graded(course: Course, workers: int) -> dict:
    """{"seconds", "mb": the main process's most memory, "scores": by student, "reasons": why there are none}."""
    environment = os.environ | {"ATTN_COURSE": str(course.root), "PYTHONPATH": str(PACKAGES)}
    start, most = time.monotonic(), 0.0
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as said:
        run = subprocess.Popen([*ATTN, "--workers", str(workers)], cwd="/", env=environment, stdout=told, stderr=said)
        while run.poll() is None:
            most = max(most, _megabytes(run.pid))
            time.sleep(0.5)
        seconds = time.monotonic() - start
        said.seek(0)
        reasons = [line for line in said if "not graded" in line]
        told.seek(0)
        students = json.load(told)["units"][UNIT]["students"]
    return {
        "seconds": seconds,
        "mb": most,
        "scores": {name: row["score"] for name, row in students.items()},
        "reasons": reasons,
    }


def _megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _wrong(expected: dict[str, float | None], found: dict) -> Iterator[str]:
    for name in sorted(expected | found["scores"]):
        score = found["scores"].get(name)
        if (expected.get(name) or 0) != (score or 0):
            yield f"{name}: {score}, and {expected.get(name)} ought to be"


def _doubled(course: Course) -> Iterator[str]:
    """Students with more than one submission, or a test cell with more than one grade."""
    with Gradebook(f"sqlite:///{course.classroom / 'gradebook.db'}") as gradebook:
        for submission in gradebook.assignment_submissions(UNIT):
            names = [grade.name for notebook in submission.notebooks for grade in notebook.grades]
            if len(submission.notebooks) > 1 or len(names) != len(set(names)):
                yield f"{submission.student_id}: graded more than once"


if __name__ == "__main__":
    raise SystemExit(main())
