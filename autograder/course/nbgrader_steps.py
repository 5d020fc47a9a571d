"""nbgrader's own steps (generate_assignment, sanitise, autograde, generate_feedback), called in this process on one
assignment or one student at a time, with the settings of nbgrader_config.py. What they log is kept and becomes the
text of the error when a step fails."""

import logging
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from glob import escape
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook, InvalidEntry
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import setenv
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from autograder import notebooks
from autograder.course.feedback_grades import FeedbackGrades
from autograder.course.paths import STAGED, Course
from autograder.course.settings import settings
from autograder.errors import CourseError

ON_A_PAGE = ("notebook", "score", "max_score", "late_penalty", "open")
"""What a feedback page says above the notebook."""


class StepFailed(CourseError):
    """A step of nbgrader refused a notebook."""


class GradebookUnusable(CourseError):
    """The gradebook is locked, damaged, read-only, or none at all."""


@contextmanager
def gradebook_errors() -> Iterator[None]:
    """Whatever is wrong with the gradebook is one line."""
    try:
        yield
    except (SQLAlchemyError, InvalidEntry) as error:
        why = " ".join(str(getattr(error, "orig", None) or error).split())[:120]
        raise GradebookUnusable(
            f"The gradebook can't be used ({why}): end what else works on it, or bring back a backup."
        ) from None


@contextmanager
def open_gradebook(course: Course) -> Iterator[Gradebook]:
    """The course's gradebook; made when there is none. nbgrader runs `alembic` to stamp a new one: it must be found.
    Raises GradebookUnusable."""
    _find_scripts()
    course.classroom.mkdir(parents=True, exist_ok=True)
    with gradebook_errors():
        with _ctrl_c_waits():
            gradebook = Gradebook(course.gradebook, settings(course).CourseDirectory.get("course_id", ""))
        with gradebook:
            yield gradebook


def release(course: Course, unit: str) -> None:
    """Writes the release of a unit, and nothing into a gradebook (as `nbgrader generate_assignment --no-db`)."""
    config = settings(course)
    config.SaveCells.enabled, config.GenerateAssignment.no_database = False, True
    _run(course, GenerateAssignment, config, unit)


def generate_assignment(course: Course, unit: str, release: str | None = None) -> None:
    """Writes the release of a unit and its cells into the gradebook. `release`: another folder for the release."""
    config = settings(course)
    if release:
        config.CourseDirectory.release_directory = release
    _run(course, GenerateAssignment, config, unit)


def autograde(course: Course, student: str, unit: str) -> None:
    """Grades into the gradebook what lies sanitised in the staging folder (see autograder/grading/grade.py)."""
    _run(course, _AutogradeSanitised, _staged(course), unit, student)


class _AutogradeSanitised(Autograde):
    """nbgrader's converter without the first of its two passes over a notebook, which `sanitize` has done."""

    def convert_single_notebook(self, notebook_filename: str) -> None:
        whose = self.init_single_notebook_resources(notebook_filename)["nbgrader"]
        copy = Path(self._format_dest(whose["assignment"], whose["student"])) / Path(notebook_filename).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(notebook_filename, copy)
        self._sanitizing = False
        self._init_preprocessors()
        try:
            with setenv(NBGRADER_EXECUTION="autograde"):
                BaseConverter.convert_single_notebook(self, str(copy))
        finally:
            self._sanitizing = True


def _staged(course: Course) -> Config:
    config = settings(course)
    config.CourseDirectory.submitted_directory = STAGED
    return config


def generate_feedback(course: Course, student: str, unit: str) -> None:
    _run(course, GenerateFeedback, settings(course), unit, student)


def page_material(course: Course, student: str, unit: str) -> tuple[str, dict]:
    """What nbgrader makes a feedback page from: the graded notebook's text, with scores and comments in it, and what
    stands above it (score, max_score, late_penalty, …)."""
    converter, log = _converter(course, GenerateFeedback, settings(course), unit, student)
    path = course.graded(student, unit)
    with _quiet(), _one_line_errors(log):
        resources = converter.init_single_notebook_resources(str(path))
        notebook, resources = FeedbackGrades(parent=converter).preprocess(notebooks.read(path), resources)
    return notebooks.to_text(notebook), {name: resources["nbgrader"][name] for name in ON_A_PAGE}


def sanitize(course: Course, student: str, unit: str) -> NotebookNode:
    """The staged submission as nbgrader would execute it: no outputs, locked cells and metadata as in the gradebook."""
    converter, log = _converter(course, Autograde, _staged(course), unit, student)
    converter.exporter = converter.exporter_class(parent=converter, config=converter.config)
    converter._sanitizing = True
    converter._init_preprocessors()
    path = str(course.taken_in(student, unit))
    with _quiet(), _working_directory(course.root), _one_line_errors(log):
        text, _ = converter.exporter.from_filename(path, resources=converter.init_single_notebook_resources(path))
    return notebooks.parse(text)


def _run(course: Course, kind: type[BaseConverter], config: Config, unit: str, student: str = "*") -> None:
    converter, log = _converter(course, kind, config, unit, student)
    converter.force = True
    with _quiet(), _ctrl_c_waits(), _one_line_errors(log):
        converter.start()


def _converter(
    course: Course, kind: type[BaseConverter], config: Config, unit: str, student: str
) -> tuple[BaseConverter, "_Kept"]:
    _find_scripts()
    kept = _Kept()
    log = logging.Logger("nbgrader")  # a private one: nothing of it reaches the terminal
    log.addHandler(kept)
    folder = CourseDirectory(config=config, log=log)
    folder.assignment_id, folder.student_id = unit, escape(student) if student != "*" else student
    return kind(coursedir=folder, config=config, log=log), kept


class _Kept(logging.Handler):
    """Keeps warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self.errors.append(record.getMessage())


@contextmanager
def _one_line_errors(log: _Kept) -> Iterator[None]:
    try:
        yield
    except NbGraderException:
        raise StepFailed(_cause(log.errors)) from None
    except Exception as error:  # whatever a notebook made nbgrader stumble over must not end the batch
        raise StepFailed(f"{type(error).__name__}: {error}".splitlines()[0]) from error


def _cause(errors: list[str]) -> str:
    """The line that says most: the last line of a traceback if there is one, else the first message."""
    for message in errors:
        if "Traceback" in message:
            return message.strip().splitlines()[-1]
    return " ".join(errors[0].split()) if errors else "nbgrader failed without saying why"


@contextmanager
def _quiet() -> Iterator[None]:
    """nbgrader's database layer warns of its own habits at every new submission."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """A terminal sends Ctrl-C to all processes: it would end `alembic`, which nbgrader starts for a new gradebook, and
    that would look like an error. A process inherits the mask of the thread that starts it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _working_directory(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@cache
def _find_scripts() -> None:
    """Puts the folder of this Python's scripts on PATH: nbgrader starts `alembic` by name."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
