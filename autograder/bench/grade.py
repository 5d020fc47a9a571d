"""A class graded by stock nbgrader and by `attn grade`: `make bench-grade`, or `python -m autograder.bench.grade
--help`.

Both get copies of one class, made from sample students, and both write feedback. Stock nbgrader runs the cells itself
(its own Execute, one process, one thread, no sandbox); ours runs with sandbox and judge, with one worker and with two.
They take turns in one run, so that what else the machine does meets all of them; medians count. Everything that a
command takes is counted, its start too."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.build import build
from autograder.course.paths import CONFIG, PACKAGES, Course, find_course, temporary_course
from autograder.course.visibility import judge_config
from autograder.grading import gradebook_writer
from autograder.judge.config import NAMESPACES, SPARE, Limits
from autograder.judge.kernel_manager import JUDGE, KernelManager
from autograder.judge.protocol import read
from autograder.proofs import sample_class

STOCK_CONFIG = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.source_directory, c.CourseDirectory.release_directory = "solutions", "notebooks"
for name in ("submitted", "autograded", "feedback"):
    setattr(c.CourseDirectory, f"{{name}}_directory", f"autograder/class/{{name}}")
c.CourseDirectory.db_url = "sqlite:///{root}/autograder/class/gradebook.db"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "[0-9][0-9]_*.py"]
c.ClearMarkScheme.enforce_metadata = False
c.Execute.timeout = 60
"""
FIT_FOR_BOTH = ("right", "misconception", "half done", "blank", "mixed")
MOST_BROKEN = 12  # kinds of sample students with files that stock nbgrader stumbles over
ATTN = "from autograder.cli import app; app()"


def main() -> None:
    arguments = _arguments()
    course, seconds, plain = find_course(), {}, {}
    for unit in course.chosen(arguments.units):
        with temporary_course(course, [unit]) as made:
            _make_class(made, unit, arguments.students)
            seconds[unit] = _take_turns(made, unit, arguments.times)
            plain[unit] = _plain_seconds(made, unit)
    _tell(seconds, plain, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A class graded by stock nbgrader and by attn grade, in turns.")
    parser.add_argument("units", nargs="*", default=["02"], help="units by name or number (default: 02)")
    parser.add_argument("--students", type=int, default=40, help="students of each unit (default: 40)")
    parser.add_argument("--times", type=int, default=3, help="rounds (default: 3)")
    return parser.parse_args()


def _make_class(course: Course, unit: str, students: int) -> None:
    """Sample students, the first so many, without files that stock nbgrader stumbles over; the unit is registered."""
    build(course, [unit])
    manifest, _ = sample_class.make_class(course, students + MOST_BROKEN, 0, [unit])
    fit = [name for name, made in sorted(manifest.items()) if made["kind"].startswith(FIT_FOR_BOTH)]
    for name in set(manifest) - set(fit[:students]):
        shutil.rmtree(course.submitted / name)
    gradebook_writer.register(course, unit)


# ---------------------------------------------------------------- the three that take turns


def _stock(course: Course, unit: str) -> None:
    (course.root / CONFIG).write_text(STOCK_CONFIG.format(root=str(course.root)))
    for step in ("autograde", "generate_feedback"):
        _run(course, [str(Path(sys.executable).parent / "nbgrader"), step, unit])


def _ours(workers: int) -> Callable[[Course, str], None]:
    return lambda course, unit: _run(course, [sys.executable, "-c", ATTN, "grade", unit, "--workers", str(workers)])


WAYS = {"stock nbgrader": _stock, "attn, 1 worker": _ours(1), "attn, 2 workers": _ours(2)}


def _run(course: Course, command: list[str]) -> None:
    scripts = Path(sys.executable).parent
    more = {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(PACKAGES),
        "OMP_NUM_THREADS": "1",
        "ATTN_COURSE": str(course.root),
    }
    done = subprocess.run(command, cwd=course.root, env=os.environ | more, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _take_turns(course: Course, unit: str, times: int) -> dict[str, list[float]]:
    """Seconds of each round, by way."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(times):
        for way, grade in WAYS.items():
            seconds[way].append(_timed(course, unit, grade))
            print(f"{unit}: {way} {seconds[way][-1]:.1f} s", flush=True)
    return seconds


def _timed(course: Course, unit: str, grade: Callable[[Course, str], None]) -> float:
    """Seconds that a fresh copy of the class takes; all of it must be graded."""
    with temporary_course(course, [unit]) as copy:
        shutil.rmtree(copy.classroom)
        shutil.copytree(course.classroom, copy.classroom)
        shutil.copytree(course.notebooks, copy.notebooks)
        start = time.perf_counter()
        grade(copy, unit)
        seconds = time.perf_counter() - start
        pages, handed_in = (len(list(folder.glob(f"*/{unit}"))) for folder in (copy.feedback, copy.submitted))
    if pages != handed_in:
        sys.exit(f"{unit}: {pages} feedback pages for {handed_in} submissions")
    return seconds


# ---------------------------------------------------------------- what nobody can save


def _plain_seconds(course: Course, unit: str) -> float:
    """Seconds that a submission's cells and tests take in a plain kernel that is there already: the class's mean. Cells
    that only draw or measure, which our judge leaves out, are left out here too."""
    kernels, seconds = KernelManager(NAMESPACES), []
    hand_ins = sorted(course.submitted.glob(f"*/{unit}/*.ipynb"))
    try:
        for path in [hand_ins[0], *hand_ins]:  # the first is not counted: the warm process starts
            seconds.append(_in_one_kernel(notebooks.read(path), notebooks.read(course.solved(unit)), unit, kernels))
    finally:
        kernels.close()
    return statistics.mean(seconds[1:])


def _in_one_kernel(notebook: NotebookNode, solved: NotebookNode, unit: str, kernels: KernelManager) -> float:
    """Every cell in one kernel that has the checks; outputs are read and dropped."""
    kernel = kernels.ready(kernels.start(JUDGE, judge_config(unit), Limits()))
    tests = {notebooks.grade_id(cell): cell.source for cell in notebooks.tests(solved)}
    start = time.perf_counter()
    for cell in _needed(notebook, solved):
        source = tests.get(notebooks.grade_id(cell), cell.source) if notebooks.is_test(cell) else cell.source
        kernel.tell({"ask": "setup", "source": source, "count": 1})
        while "done" not in read(kernel.wire.receive(600)):
            pass
    seconds = time.perf_counter() - start
    kernel.close()
    return seconds


def _needed(notebook: NotebookNode, solved: NotebookNode) -> Iterable[NotebookNode]:
    from autograder.grading.skipped_cells import mark_skipped_cells

    copy = deepcopy(notebook)
    mark_skipped_cells(copy, solved)
    return [cell for cell in copy.cells if cell.cell_type == "code" and SPARE not in cell.metadata]


# ---------------------------------------------------------------- what is told


def _tell(seconds: dict[str, dict[str, list[float]]], plain: dict[str, float], arguments: argparse.Namespace) -> None:
    count, ways = arguments.students, list(WAYS)
    print(
        f"\n{count} students a unit, medians of {arguments.times}, seconds a submission (start of the commands "
        f"included)"
    )
    medians = {unit: {way: statistics.median(took) for way, took in found.items()} for unit, found in seconds.items()}
    for unit, median in medians.items():
        told = ", ".join(f"{way} {median[way] / count:.2f}" for way in ways)
        ratios = " and ".join(f"{median[ways[0]] / median[way]:.1f}" for way in ways[1:])
        overhead = median[ways[1]] / count - plain[unit]
        print(
            f"{unit}: {told}; ratios {ratios}; cells and tests in a plain kernel {plain[unit]:.2f}, "
            f"own overhead with 1 worker {overhead:.2f}"
        )
    totals = {way: sum(median[way] for median in medians.values()) for way in ways}
    print(f"throughput ratio, 1 worker: {totals[ways[0]] / totals[ways[1]]:.1f}")
    print(f"throughput ratio, 2 workers: {totals[ways[0]] / totals[ways[2]]:.1f}")


if __name__ == "__main__":
    main()
