"""A class in which four students use up the machine: `python -m autograder.bench.noisy_class`.

One burns processors in sessions of its own, one takes pseudo-terminals, one hides memory, one floods outputs. The class
is graded with the real limits, and once more with Ctrl-Z, a pause and `fg` meanwhile. Every honest score must be that
of a class in which they are alone, and the grader's own memory stay below a gigabyte."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from nbformat.v4 import new_code_cell

from autograder import notebooks
from autograder.bench.crash_recovery import family, scores_of, small_course, start_grading, still_there
from autograder.course.paths import Course
from autograder.proofs.hostile import UNIT, solved_by_a_student

MB = 1 << 20
MOST = 1000 * MB
BURNS = """
import os, time
for _ in range(78):
    if os.fork() == 0:
        os.setsid()
        while True: pass
time.sleep(40)
"""
TAKES_TERMINALS = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        held = []
        try:
            while True: held.append(os.openpty())
        finally: time.sleep(1000)
time.sleep(40)
"""
HIDES_MEMORY = """
import mmap, time
held = []
for _ in range({megabytes} // 256):
    held.append(mmap.mmap(-1, 256 << 20))
    for at in range(0, 256 << 20, 4096): held[-1][at] = 1
    held[-1].madvise(mmap.MADV_DONTNEED)
time.sleep(40)
"""
FLOODS = "print('x' * 900_000)"
HONEST = "said = !echo hello\nassert said == ['hello']\n"
"""Before an answer: it needs a pseudo-terminal."""


def main() -> int:
    """Prints a line for each run; exit status 1 if an honest score differed or the grader grew too large."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--honest", type=int, default=36, help="honest students (default: 36)")
    parser.add_argument("--pause", type=float, default=90, help="seconds of the pause (default: 90)")
    parser.add_argument("--after", type=float, default=25, help="seconds until it begins (default: 25)")
    parser.add_argument("--hidden", type=int, default=5120, help="megabytes that are hidden (default: 5120)")
    parser.add_argument("--cells", type=int, default=400, help="cells that are flooded (default: 400)")
    wanted, problems = parser.parse_args(), []
    noisy = {
        "burner": [BURNS],
        "terminals": [TAKES_TERMINALS],
        "hider": [HIDES_MEMORY.format(megabytes=wanted.hidden)],
        "flooder": [FLOODS] * wanted.cells,
    }
    with tempfile.TemporaryDirectory(prefix="attn-noisy-") as folder:
        courses = [Course(Path(folder).resolve() / name) for name in ("quiet", "noisy", "paused")]
        for course, others in zip(courses, ({}, noisy, noisy), strict=True):
            _a_class(course, wanted.honest, others)
        right = _graded(courses[0], problems)
        for course, pauses in zip(courses[1:], ((), (wanted.after, wanted.pause)), strict=True):
            scores = _graded(course, problems, *pauses)
            problems += [
                f"{course.root.name}: {name} {scores.get(name)} instead of {score}"
                for name, score in right.items()
                if scores.get(name) != score
            ]
    print(f"{len(right)} honest students, {len(problems)} problems", *problems, sep="\n  ")
    return bool(problems)


def _a_class(course: Course, honest: int, others: dict[str, list[str]]) -> None:
    """No two hand in the same; every second honest one has an answer that is wrong."""
    small_course(course)
    for number in range(honest):
        _hand_in(course, f"student-{number:02}", partial(_honest, number))
    for name, cells in others.items():
        _hand_in(course, name, partial(_right, name), cells)


def _right(student: str, _: str, source: str) -> str:
    return f"{source}\n# {student}"


def _honest(number: int, name: str, source: str) -> str:
    return f"{HONEST}{'attend = None' if name == 'attend' and number % 2 else source}\n# student {number}"


def _hand_in(course: Course, student: str, answer: Callable[[str, str], str], before: list[str] | None = None) -> None:
    notebook = solved_by_a_student(course)
    for cell in filter(lambda cell: notebooks.flag(cell, "solution") and cell.cell_type == "code", notebook.cells):
        cell.source = answer(notebooks.grade_id(cell), cell.source)
    setup = next(at for at, cell in enumerate(notebook.cells) if notebooks.grade_id(cell) == "setup")
    notebook.cells[setup + 1 : setup + 1] = [new_code_cell(source) for source in before or ()]
    notebooks.write(notebook, course.submission(student, UNIT))


def _graded(course: Course, problems: list[str], after: float = 0.0, pause: float = 0.0) -> dict[str, float]:
    """The scores of a class, graded, with a pause if one is wanted."""
    start, name = time.monotonic(), course.root.name
    run = start_grading(course)
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(_watch, run, after, pause)
        told, said = run.communicate()
    peak, members = watching.result()
    if not told:
        sys.exit(said)
    left = still_there(members)
    notes = [line.strip() for line in told.splitlines() if "not for good" in line]
    print(f"{name}: {time.monotonic() - start:.0f} s, the grader had {peak / MB:.0f} MB at most", *notes, sep="\n  ")
    problems += [f"{name}: the grader had more than {MOST / MB:.0f} MB"] * (peak > MOST)
    problems += [f"{name}: processes left: {left}"] * bool(left)
    return scores_of(told)


def _watch(run: subprocess.Popen, after: float, pause: float) -> tuple[int, dict[int, str]]:
    """Until the run ends: its peak of memory, and the processes that were there."""
    peak, members, start = 0, {}, time.monotonic()
    while run.poll() is None:
        peak, members = max(peak, _peak(run.pid)), members | family(run.pid)
        time.sleep(0.25)
        if pause and time.monotonic() - start > after:
            os.killpg(run.pid, signal.SIGSTOP)  # as a terminal does: the kernels, in sessions of their own, go on
            time.sleep(pause)
            os.killpg(run.pid, signal.SIGCONT)
            pause = 0.0
    return peak, members


def _peak(pid: int) -> int:
    """The most bytes that a process has held so far; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    raise SystemExit(main())
