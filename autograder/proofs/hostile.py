"""`attn prove --hostile`: hands in every hostile and broken notebook of tests/hostile, and says what came of each.

They are one class of a throw-away course, and take the way that any submission takes: repair, nbgrader's sanitising
steps, the judge. A notebook is held if every item came out as it must, the instructor is told why, nothing leaked, and
neither the gradebook, nor the solutions, nor what others handed in has changed."""

import hashlib
import importlib
import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from nbconvert.filters import ansi2html
from nbformat import NotebookNode

from autograder import locked_ast, notebooks
from autograder.course import nbgrader_steps
from autograder.course.build import build
from autograder.course.paths import PACKAGES, Course
from autograder.grading import gradebook_writer
from autograder.grading.intake import read_and_stage
from autograder.grading.judge_notebook import judge_notebook
from autograder.grading.submission_discovery import Submission
from autograder.grading.submission_parser import Rejected
from autograder.judge import outputs
from autograder.judge.judge import Limits
from autograder.judge.kernel_manager import NAMESPACES, KernelManager
from autograder.judge.sandbox.walls import MB

UNIT = "02_small"
KINDS = ("forging", "outwitting", "honest", "reading", "exhausting", "breaking")
LIMITS = Limits(cell_seconds=2, notebook_seconds=60)
MEMORY = 1500 * MB
CANARY = "CANARY-of-the-grader"


@dataclass(frozen=True)
class HostileResult:
    """What came of one notebook. `told`: the line an instructor reads; `problem`: "" if it was held."""

    name: str
    kind: str
    tries: str
    scores: dict[str, float]
    told: str
    problem: str

    @property
    def held(self) -> bool:
        return not self.problem


def run_hostile(sandbox: str = NAMESPACES, names: tuple[str, ...] = (), workers: int = 2) -> Iterator[HostileResult]:
    """The rows of the table, in its order; `names` picks some. Raises SandboxError where the sandbox does not work."""
    chosen = [(kind, one) for kind, one in notebooks_of_all_kinds() if not names or one.name in names]
    with temporary_class() as course, listeners() as places, canary():
        kernels = KernelManager(sandbox, memory=MEMORY)
        try:
            handed_in = [_hand_in(course, kind, one, places) for kind, one in chosen]
            before = fingerprint(course)
            locked_ast.lock_libraries()
            with ThreadPoolExecutor(workers) as pool:
                for row in pool.map(lambda one: _judged(one, kernels), handed_in):
                    changed = fingerprint(course) != before
                    yield replace(row, problem=row.problem or ("files of the course were changed" if changed else ""))
        finally:
            kernels.close()


def totals(rows: list[HostileResult]) -> dict[str, int]:
    """How many were tried and how many held."""
    return {"tried": len(rows), "held": sum(row.held for row in rows)}


def notebooks_of_all_kinds() -> list[tuple[str, Any]]:
    """Pairs (kind, notebook) as tests/hostile lists them."""
    folder = PACKAGES / "tests" / "hostile"
    sys.modules["hostile_notebooks"] = package = ModuleType("hostile_notebooks")
    package.__path__ = [str(folder)]
    modules = [importlib.import_module(f"hostile_notebooks.{kind}") for kind in KINDS]
    return [(kind, one) for kind, module in zip(KINDS, modules, strict=True) for one in module.NOTEBOOKS]


# ---------------------------------------------------------------- the class


@contextmanager
def temporary_class() -> Iterator[Course]:
    """A throw-away course with the small unit, registered in a gradebook of its own."""
    with TemporaryDirectory(prefix="attn-hostile-") as folder:
        course = Course(Path(folder).resolve())
        copytree(PACKAGES / "tests" / "small_course", course.root, dirs_exist_ok=True)
        (course.root / "nbgrader_config.py").write_bytes((PACKAGES / "nbgrader_config.py").read_bytes())
        build(course, [UNIT])
        gradebook_writer.register(course, UNIT)
        yield course


def solved_by_a_student(course: Course) -> NotebookNode:
    """The released notebook with right answers in it."""
    released, solved = notebooks.read(course.released(UNIT)), notebooks.by_id(notebooks.read(course.solved(UNIT)))
    for cell in released.cells:
        if notebooks.flag(cell, "solution"):
            cell.source = solved[notebooks.grade_id(cell)].source
    return released


def hand_in(course: Course, one: Any, places: dict[str, str]) -> Submission:
    """Writes the notebook into the submitted folder, as a student of its name."""
    submission = Submission(one.name, UNIT, course.submission(one.name, UNIT))
    submission.path.parent.mkdir(parents=True, exist_ok=True)
    content = one.make(solved_by_a_student(course))
    for place, value in {**places, "COURSE": str(course.root), "PACKAGES": str(PACKAGES)}.items():
        content = content.replace(b"{%s}" % place.encode(), value.encode())
    submission.path.write_bytes(content)
    return submission


def _hand_in(course: Course, kind: str, one: Any, places: dict[str, str]) -> tuple[str, Any, Any]:
    """The kind, the notebook's description, and what the judge gets: the sanitised notebook or the reason why not."""
    submission = hand_in(course, one, places)
    try:
        read_and_stage(course, submission)
        return kind, one, nbgrader_steps.sanitize(course, one.name, UNIT)
    except (Rejected, nbgrader_steps.StepFailed) as reason:
        return kind, one, f"{reason}"
    except Exception as error:  # of the grader itself, and the very thing that this table is to find
        return kind, one, error


@contextmanager
def listeners() -> Iterator[dict[str, str]]:
    """A server on loopback and one on an abstract Unix socket, for notebooks that look for one."""
    with socket.socket() as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(("127.0.0.1", 0))
        abstract.bind(f"\0attn-{os.getpid()}")
        for one in (server, abstract):
            one.listen()
        yield {"PORT": str(server.getsockname()[1]), "ABSTRACT": f"attn-{os.getpid()}", "GRADER": str(os.getpid())}


@contextmanager
def canary() -> Iterator[None]:
    os.environ["ATTN_CANARY"] = CANARY
    try:
        yield
    finally:
        del os.environ["ATTN_CANARY"]


def fingerprint(course: Course, *folders: str) -> str:
    """A hash of every file of the course, or of these folders of it."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders or ("",) for path in (course.root / folder).rglob("*")):
        if path.is_file():
            digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- what came of it


def _judged(handed_in: tuple[str, Any, Any], kernels: KernelManager) -> HostileResult:
    kind, one, notebook = handed_in
    if isinstance(notebook, Exception):
        problem = f"the grader stumbled: {type(notebook).__name__}: {notebook}"
        return HostileResult(one.name, kind, one.tries, {}, "", problem)
    if isinstance(notebook, str):
        problem = (
            ""
            if one.rejected and one.says in notebook
            else "rejected, and should not be"
            if not one.rejected
            else f"does not say '{one.says}'"
        )
        return HostileResult(one.name, kind, one.tries, {}, notebook, problem)
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    return HostileResult(one.name, kind, one.tries, *evaluate(one, notebook))


def evaluate(one: Any, notebook: NotebookNode) -> tuple[dict[str, float], str, str]:
    """The scores, the line that was said, and what is wrong with them, of a judged notebook."""
    results = [outputs.read_result(cell) for cell in notebooks.tests(notebook)]
    scores = {result.exercise: result.score for result in results}
    told = next((result.message for result in results if result.score < result.points), "") or _first_error(notebook)
    return scores, " ".join(told.split())[:200], _problem(one, notebook, scores)


def _problem(one: Any, notebook: NotebookNode, scores: dict[str, float]) -> str:
    if one.rejected:
        return "was graded, and should be rejected"
    if scores != one.expected():
        return f"scores {scores} instead of {one.expected()}"
    shown = "\n".join(_texts(notebook))
    if one.says not in shown:
        return f"nobody is told '{one.says}'"
    if any(line.startswith("LEAK") for line in shown.splitlines()) or CANARY in shown:
        return "something leaked: " + next(
            line for line in shown.splitlines() if line.startswith("LEAK") or CANARY in line
        )
    return _unshowable(notebook) or _script(notebook)


def _unshowable(notebook: NotebookNode) -> str:
    """Whether writing or showing it stumbles over its characters."""
    try:
        notebooks.to_text(notebook).encode()
        for cell in notebook.cells:
            for output in cell.get("outputs", ()):
                plain = output.get("text", ""), output.get("data", {}).get("text/plain", "")
                ansi2html("\n".join([*plain, *output.get("traceback", ())]))
    except Exception as error:
        return f"no page can show it: {type(error).__name__}"
    return ""


def _texts(notebook: NotebookNode) -> Iterator[str]:
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            yield output.get("text", "")
            yield f" {output.get('ename', '')}: {output.get('evalue', '')}"
            yield from (str(value) for mime, value in output.get("data", {}).items() if mime != "image/png")


def _first_error(notebook: NotebookNode) -> str:
    errors = (output for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type == "error")
    return next((f"{error.ename}: {error.evalue}" for error in errors), "")


def _script(notebook: NotebookNode) -> str:
    """Whether a browser would run something of what is shown."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            html = "".join(str(data.get(mime, "")) for mime in ("text/html", "text/markdown", "image/svg+xml")).lower()
            if (
                "application/javascript" in data
                or "<script" in html
                or "onerror=" in html.replace("onerror=&quot;", "")
            ):
                return "a script is in the outputs"
    return ""
