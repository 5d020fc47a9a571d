"""Where things lie in a course folder, and which units it has. Nothing else in the package builds a path by hand."""

import os
import re
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import BAD_INPUT, CourseError

PACKAGES = Path(__file__).resolve().parents[2]
"""The folder from which this `autograder` (and the `helpers` beside it) is imported."""

CONFIG = "nbgrader_config.py"
SYLLABUS = "syllabus.toml"
CALIBRATED = "calibrated.toml"
STAGED = "autograder/class/staged"


@dataclass(frozen=True)
class Course:
    """A course folder. All paths are absolute."""

    root: Path

    @property
    def solutions(self) -> Path:
        return self.root / "solutions"

    @property
    def notebooks(self) -> Path:
        return self.root / "notebooks"

    @property
    def classroom(self) -> Path:
        return self.root / "autograder" / "class"

    @property
    def submitted(self) -> Path:
        return self.classroom / "submitted"

    @property
    def staged(self) -> Path:
        """Where intake puts the one copy of a hand-in that grading looks at. It belongs to the grader."""
        return self.root / STAGED

    @property
    def autograded(self) -> Path:
        return self.classroom / "autograded"

    @property
    def feedback(self) -> Path:
        return self.classroom / "feedback"

    @property
    def results(self) -> Path:
        return self.classroom / "results"

    @property
    def regrades(self) -> Path:
        """Every change of an earlier score."""
        return self.classroom / "regrades.csv"

    @property
    def gradebook(self) -> str:
        """The gradebook's SQLAlchemy address."""
        return f"sqlite:///{self.classroom / 'gradebook.db'}"

    def source(self, unit: str) -> Path:
        """The percent source of a unit, which people write."""
        return self.solutions / unit / f"{unit}.py"

    def solved(self, unit: str) -> Path:
        """The solution notebook of a unit, made from its source by `attn build`."""
        return self.solutions / unit / f"{unit}.ipynb"

    def released(self, unit: str) -> Path:
        """The notebook that students get."""
        return self.notebooks / unit / f"{unit}.ipynb"

    def submission(self, student: str, unit: str) -> Path:
        return self.submitted / student / unit / f"{unit}.ipynb"

    def taken_in(self, student: str, unit: str) -> Path:
        return self.staged / student / unit / f"{unit}.ipynb"

    def graded(self, student: str, unit: str) -> Path:
        return self.autograded / student / unit / f"{unit}.ipynb"

    def units(self) -> list[str]:
        """The units that have a source, in order."""
        if not self.solutions.is_dir():
            return []
        folders = (folder.name for folder in self.solutions.iterdir() if folder.is_dir())
        return sorted(name for name in folders if re.fullmatch(r"\d\d_\w+", name) and self.source(name).is_file())

    def unit(self, name: str) -> str:
        """The unit that `name` means: its folder name, or its number (`02` or `2`)."""
        wanted = name.strip("/").removeprefix("solutions/").removeprefix("notebooks/")
        for unit in self.units():
            if wanted == unit or (wanted.isdigit() and int(wanted) == int(unit[:2])):
                return unit
        known = ", ".join(self.units()) or "none yet"
        raise CourseError(f"Unknown unit '{name}'. Units of this course: {known}.", BAD_INPUT)

    def chosen(self, names: Iterable[str]) -> list[str]:
        """The units that the names mean; all of them where none is named."""
        chosen = sorted({self.unit(name) for name in names}) or self.units()
        if not chosen:
            raise CourseError(f"No unit has a source in {self.solutions}.", BAD_INPUT)
        return chosen

    def syllabus(self) -> dict[str, dict]:
        """The tables of syllabus.toml: unit → points, auto, quiz, written."""
        path = self.solutions / SYLLABUS
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CourseError(f"{path} is missing: it lists the exercises of every unit.") from None
        except tomllib.TOMLDecodeError as error:
            raise CourseError(f"{path} can't be read: {error}.") from None


def find_course(is_trusted: Callable[[Path], bool] = lambda folder: False) -> Course:
    """The course that a command is about: the one that ATTN_COURSE names, else the one that this package lies in.

    A folder above the working directory that only looks like a course is taken if `is_trusted` says yes, and else
    refused: the configuration of a course is a program, and anybody can hand in, or share, a folder with one."""
    if named := os.environ.get("ATTN_COURSE"):
        return _course_in(Path(named).resolve())
    found = next(filter(_looks_like_a_course, _here_and_above()), PACKAGES)
    if found == PACKAGES or is_trusted(found):
        return _course_in(found)
    raise CourseError(
        f"{found} looks like a course, but this command was not installed for it, so its {CONFIG} was not run. If "
        f"it is yours, name it: ATTN_COURSE={shlex.quote(str(found))}.",
        BAD_INPUT,
    )


def _here_and_above() -> list[Path]:
    try:
        return [Path.cwd(), *Path.cwd().parents]
    except FileNotFoundError:
        raise CourseError("The folder that you are in is gone: go to another one.", BAD_INPUT) from None


def _course_in(folder: Path) -> Course:
    if not _looks_like_a_course(folder):
        raise CourseError(f"{folder} is no course folder (no {CONFIG} and solutions/ in it).", BAD_INPUT)
    return Course(folder)


def _looks_like_a_course(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / "solutions").is_dir()


@contextmanager
def temporary_course(course: Course, units: Iterable[str], within: Path | None = None) -> Iterator[Course]:
    """A throw-away copy of a course with the given units and an empty class, for work that must not touch the real
    gradebook. nbgrader_config.py finds its own folder, so the copy needs no settings of its own. within: the folder
    to make it in; default: the system's for temporary files."""
    with tempfile.TemporaryDirectory(prefix=".attn-" if within else "attn-", dir=within) as folder:
        copy = Course(Path(folder).resolve())
        copy_course(course, copy, units)
        yield copy


def copy_course(course: Course, copy: Course, units: Iterable[str]) -> None:
    """Settings, syllabus and sources of the units into another course's empty folder; without its class."""
    copy.solutions.mkdir()
    copy.classroom.mkdir(parents=True)
    shutil.copy(course.root / CONFIG, copy.root)
    shutil.copy(course.solutions / SYLLABUS, copy.solutions)
    if (course.solutions / CALIBRATED).is_file():
        shutil.copy(course.solutions / CALIBRATED, copy.solutions)
    for unit in units:
        shutil.copytree(course.solutions / unit, copy.solutions / unit, ignore=LITTER)


LITTER = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__", "*.pyc", ".*")
