"""A solution notebook run from top to bottom in this process: its model answers must earn all points, its pictures must
draw, and have words.

The cells share one namespace, as in a kernel. It is our own code that runs here; what students write never does."""

import ast
import contextlib
import io
import linecache
import re
import symtable
import traceback
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.sections import HEADING

IMAGE = re.compile("<img [^>]*>")


@dataclass
class SolutionRun:
    """What came of a notebook. `earned`: exercise id → points of its model answer. `misses`: exercise id ("" for a cell
    that belongs to none) and a line that says what went wrong."""

    earned: dict[str, float] = field(default_factory=dict)
    misses: list[tuple[str, str]] = field(default_factory=list)
    cells: int = 0
    pictures: int = 0


def run_solution(notebook: NotebookNode, only: str | None = None) -> SolutionRun:
    """Run a solution notebook; or what one exercise needs of it: its section, and the cells that define what it
    uses."""
    played, module = SolutionRun(), types.ModuleType("__main__")
    with _on_paper() as shown:
        for number, cell in _chosen(notebook, only):
            _run(cell, number, module.__dict__, played, shown)
    return played


def _run(cell: NotebookNode, number: int, namespace: dict, played: SolutionRun, shown: list[str]) -> None:
    """One cell. What it writes to stderr counts as a miss in a test cell: nbgrader gives 0 for it."""
    name = notebooks.exercise_id(cell) if notebooks.is_test(cell) else notebooks.grade_id(cell) or ""
    where = f"cell {notebooks.grade_id(cell) or f'number {number + 1}'}"
    said, complaints = io.StringIO(), io.StringIO()
    shown.clear()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints):
            scores = _execute(cell.source, f"<{where}>", namespace)
    except Exception as error:
        line = next(
            (
                f" in line {frame.lineno}"
                for frame in traceback.extract_tb(error.__traceback__)[::-1]
                if frame.filename == f"<{where}>"
            ),
            "",
        )
        played.misses.append((name, f"{where} raises {type(error).__name__}{line}: {' '.join(str(error).split())}"))
        return
    pictures = [image for html in shown for image in IMAGE.findall(html)]
    played.cells, played.pictures = played.cells + 1, played.pictures + len(pictures)
    if any('alt=""' in image or "alt=" not in image for image in pictures):
        played.misses.append((name, f"{where} shows a picture without words for those who can't see it"))
    if notebooks.is_test(cell):
        _mark(cell, name, scores, complaints.getvalue(), played)
    played.misses += [(name, f"{where}: {line}") for line in said.getvalue().split("\n") if _waits(line)]


def _mark(cell: NotebookNode, name: str, scores: list[Any], complaints: str, played: SolutionRun) -> None:
    played.earned[name] = min(map(float, scores), default=0.0)
    for score in scores:
        if float(score) < notebooks.points(cell):
            message = " ".join(getattr(score, "message", "").split())
            played.misses.append((name, f"the model answer gets {score!r} of {notebooks.points(cell):g}: {message}"))
            break
    if complaints.strip():
        last = complaints.strip().splitlines()[-1].strip()
        played.misses.append((name, f"its test cell writes to stderr, for which nbgrader gives 0: {last}"))


def _execute(source: str, filename: str, namespace: dict) -> list[Any]:
    """Run a cell; the values of the calls of checks that stand alone in a line. Triton asks for a function's source, so
    it is kept where Python looks for it."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    values = []
    for statement in ast.parse(source, filename).body:
        if isinstance(statement, ast.Expr) and ast.unparse(statement).startswith("check."):
            values.append(eval(compile(ast.Expression(statement.value), filename, "eval"), namespace))
        else:
            exec(compile(ast.Module([statement], []), filename, "exec"), namespace)
    return values


@contextlib.contextmanager
def _on_paper() -> Iterator[list[str]]:
    """What is shown is drawn, and goes nowhere; the list holds its HTML since it was cleared."""
    import IPython.display
    import matplotlib.pyplot as plt

    shown: list[str] = []

    def display(value: Any, **_: Any) -> Any:
        shown.append(value.get("text/html", "") if isinstance(value, dict) else getattr(value, "data", ""))
        return types.SimpleNamespace(update=lambda *_, **__: None)

    before, backend = (IPython.display.display, plt.get_backend), plt.get_backend()
    plt.switch_backend("Agg")
    IPython.display.display, plt.get_backend = display, lambda: "inline"
    try:
        with plt.rc_context(), warnings.catch_warnings():
            yield shown
    finally:
        IPython.display.display, plt.get_backend = before
        plt.close("all")
        plt.switch_backend(backend)


def _waits(line: str) -> bool:
    from helpers.style import WAITING

    return line.startswith(WAITING)


def _chosen(notebook: NotebookNode, only: str | None) -> list[tuple[int, NotebookNode]]:
    """The code cells to run, with their places in the notebook."""
    cells = [(number, cell) for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    if only is None:
        return cells
    here = _section_of(notebook, only)
    wanted = {number for number, cell in cells if number in here and not _is_other_test(cell, only)}
    needed = set().union(*(_names(cell)[0] for number, cell in cells if number in wanted))
    for number, cell in reversed(cells):
        read, bound = _names(cell)
        if number not in wanted and not notebooks.is_test(cell) and bound & needed:
            wanted.add(number)
            needed |= read
    return [(number, cell) for number, cell in cells if number in wanted]


def _is_other_test(cell: NotebookNode, only: str) -> bool:
    return notebooks.is_test(cell) and notebooks.exercise_id(cell) != only


def _section_of(notebook: NotebookNode, only: str) -> range:
    """From the heading above the exercise's test cell to the next one."""
    headed = [
        i
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "markdown" and any(map(HEADING.match, cell.source.split("\n")))
    ]
    test = notebook.cells.index(notebooks.by_id(notebook)[f"{only}_test"])
    first = max((i for i in headed if i <= test), default=0)
    return range(first, min((i for i in headed if i > test), default=len(notebook.cells)))


def _names(cell: NotebookNode) -> tuple[set[str], set[str]]:
    """The names of the notebook that a cell reads, and those that it binds."""
    top = symtable.symtable(cell.source, "cell", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    read, tables = set(), [top]
    while tables:
        table = tables.pop()
        read |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global())}
        tables += table.get_children()
    return read, bound
