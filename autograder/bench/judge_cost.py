"""What the judge costs: `python -m autograder.bench.judge_cost [UNIT] [TIMES]`.

The solution notebook of a unit is run in turn (a) in one sandboxed kernel, test cells and all, as nbgrader would, and
(b) as it is really judged, in the student's kernel and the judge's. Both in the same sandbox, in one run.
"""

import statistics
import sys
import time
from copy import deepcopy

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.build import solution_notebook
from autograder.course.paths import find_course
from autograder.course.reach import exam
from autograder.grading.verdict import judged
from autograder.judge.judge import Limits
from autograder.judge.kernels import JUDGE, NAMESPACES, Kernels

LIMITS = Limits()


def compare(notebook: NotebookNode, unit: str, times: int, kernels: Kernels) -> tuple[float, float]:
    """Median seconds in one kernel, and with the judge."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(times + 1):  # the first of each is not counted: the warm processes start
        for took, run in zip(seconds, (_in_one_kernel, judged), strict=True):
            start = time.perf_counter()
            run(deepcopy(notebook), unit, LIMITS, kernels)
            took.append(time.perf_counter() - start)
    return tuple(statistics.median(took[1:]) for took in seconds)


def _in_one_kernel(notebook: NotebookNode, unit: str, limits: Limits, kernels: Kernels) -> None:
    """Every cell in one kernel that has the checks; outputs are read and dropped."""
    from autograder.judge.wire import read

    kernel = kernels.ready(kernels.start(JUDGE, exam(unit), limits))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            kernel.tell({"ask": "setup", "source": cell.source, "count": 1})
            while "done" not in read(kernel.wire.receive(600)):
                pass
    kernel.close()


def main() -> None:
    course = find_course()
    unit = course.unit(sys.argv[1] if len(sys.argv) > 1 else "02")
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    kernels = Kernels(NAMESPACES)
    try:
        alone, judged = compare(solution_notebook(course.source(unit)), unit, times, kernels)
    finally:
        kernels.close()
    cells = sum(1 for _ in notebooks.tests(solution_notebook(course.source(unit))))
    print(f"{unit} ({cells} test cells), median of {times}: one kernel {alone:.2f} s, with the judge {judged:.2f} s")
    print(f"the judge costs {judged - alone:+.2f} s, ratio {judged / alone:.2f}")


if __name__ == "__main__":
    main()
