"""Many kernels from one warm process, two at a time: `python -m autograder.bench.many_kernels 300`.

Each leaves marks wherever a student's code can leave one, and looks for those of the others. Afterwards there may be no
process and no open file that was not there before, and the warm processes may not have grown."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import psutil
from nbformat.v4 import new_code_cell, new_notebook

from autograder.grading.judge_notebook import judge_notebook
from autograder.judge.config import Limits
from autograder.judge.kernel_manager import KernelManager
from autograder.proofs.hostile import UNIT

MARKS = """
import builtins, os, pathlib, threading, torch
places = [pathlib.Path(folder) / "mark" for folder in (".", "/tmp", "/dev/shm")]
seen = [hasattr(builtins, "mark"), hasattr(torch, "mark"), "MARK" in os.environ, *(place.exists() for place in places)]
builtins.mark = torch.mark = os.environ["MARK"] = "left"
for place in places:
    try:
        place.write_text("left")
    except OSError:
        pass
threading.Thread(target=threading.Event().wait, daemon=True).start()
kept = open("/dev/null")
sum(seen)
"""


@dataclass
class Use:
    """What the grader and its warm processes hold: processes, open files, megabytes of their own."""

    processes: int = 0
    files: int = 0
    megabytes: float = 0.0


def main() -> int:
    """Prints what was held before and after; exit status 1 if a mark was seen or something was left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", default=300, help="kernels (default: 300)")
    kernels = KernelManager()
    try:
        before, after, seen = many(kernels, parser.parse_args().number)
    finally:
        kernels.close()
    print(f"before: {before}\nafter:  {after}\nmarks seen: {seen}")
    return int(bool(seen) or leaked(before, after))


def many(kernels: KernelManager, number: int) -> tuple[Use, Use, int]:
    """What is held before and after so many kernels, and how many of their marks others saw."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: _marks_seen(kernels), range(4)))  # first use imports and keeps
        before = _at_rest()
        seen = sum(pool.map(lambda _: _marks_seen(kernels), range(number)))
        return before, _at_rest(), seen


def leaked(before: Use, after: Use, megabytes: float = 5.0) -> bool:
    """Whether there is more of anything; of memory, more than so much."""
    more = after.megabytes - before.megabytes
    return after.processes > before.processes or after.files > before.files or more > megabytes


def _marks_seen(kernels: KernelManager) -> int:
    notebook = new_notebook(cells=[new_code_cell(MARKS)])
    judge_notebook(notebook, UNIT, Limits(cell_seconds=60, notebook_seconds=200), kernels)
    return int(notebook.cells[0].outputs[-1]["data"]["text/plain"])


def _at_rest(seconds: float = 0.5) -> Use:
    """What is held when nothing ends any more: a kernel needs a moment for that."""
    before, now = None, _use()
    while before is None or (before.processes, before.files) != (now.processes, now.files):
        time.sleep(seconds)
        before, now = now, _use()
    return now


def _use() -> Use:
    found = Use()
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            with process.oneshot():
                files, own = process.num_fds(), process.memory_full_info().uss
            found = Use(found.processes + 1, found.files + files, found.megabytes + own / 1e6)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
