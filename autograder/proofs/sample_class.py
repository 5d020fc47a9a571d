"""A class to try the course on, made from the solution notebooks: students who are right, in several styles; who have
each misconception of each exercise; who are half done or have not begun; and whose files are broken in usual ways.

The same seed makes the same class. `sample.json` beside the gradebook says what each student is."""

import json
import random
import shutil
from collections.abc import Iterable

from autograder import notebooks
from autograder.course.exercises import Exercise, exercises, solved
from autograder.course.paths import Course
from autograder.course.standalone_source import SpliceError, replace_definition, splice
from autograder.errors import CourseError
from autograder.proofs.sample_manifest import manifest_of
from autograder.proofs.sample_students import Maker, Material, a_dozen, answer_source, everybody, ordinary
from autograder.whole_files import write_whole

USUAL_SIZE = 30
SHOWN = ("00", "02")
"""The units of the small class."""


def small_class(course: Course, seed: int) -> tuple[dict, list[str]]:
    """Writes a dozen students of two short units, each there for a reason, as submitted. Returns as `make_class`."""
    units = [unit for unit in course.units() if unit[:2] in SHOWN] or course.units()
    return _write(course, a_dozen(), *materials_of(course, units), seed)


def make_class(course: Course, size: int | None, seed: int, units: Iterable[str] = ()) -> tuple[dict, list[str]]:
    """Writes a class that shows everything into the submitted folder, or as much of it as `size` students can. Returns
    the manifest, and a line for each wrong answer or style that could not be spliced into a notebook."""
    materials, problems = materials_of(course, list(units) or course.units())
    makers = everybody(materials)
    size = size or max(USUAL_SIZE, len(makers))
    if len(makers) > size:
        problems.append(
            f"{len(makers)} students are needed to show every misconception and every broken file; {size} were made"
        )
    return _write(course, (makers + [("mixed", ordinary)] * size)[:size], materials, problems, seed)


def materials_of(course: Course, units: list[str]) -> tuple[list[Material], list[str]]:
    problems: list[str] = []
    return [_material(course, unit, problems) for unit in units], problems


def _write(
    course: Course, makers: list, materials: list[Material], problems: list[str], seed: int
) -> tuple[dict, list[str]]:
    rng = random.Random(seed)
    names = [f"student-{number:02d}" for number in range(1, len(makers) + 1)]
    rng.shuffle(makers)
    _clear(course)
    manifest = {
        name: _student(course, name, kind, maker, materials, seed)
        for name, (kind, maker) in zip(names, makers, strict=True)
    }
    write_whole(manifest_of(course), json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    return manifest, problems


def is_empty(course: Course) -> bool:
    """Whether nobody has handed anything in."""
    return not course.submitted.is_dir() or not any(path.is_dir() for path in course.submitted.iterdir())


def _student(course: Course, name: str, kind: str, maker: Maker, materials: list[Material], seed: int) -> dict:
    expected = {}
    for material in materials:
        work = maker(material, random.Random(f"{seed} {name} {material.unit}"))
        path = course.submitted / name / material.unit / work.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(work.text, encoding="utf-8")
        expected[material.unit] = work.expected
    return {"kind": kind, "expected": expected}


def _clear(course: Course) -> None:
    """Removes the sample class that was made before; refuses where anybody else's work lies there."""
    if is_empty(course):
        return
    try:
        ours = set(json.loads(manifest_of(course).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        ours = set()
    students = [path for path in course.submitted.iterdir() if path.is_dir()]
    others = sorted(path.name for path in students if path.name not in ours)
    if others:
        raise CourseError(
            f"{course.submitted} holds work that is not of a sample class ({others[0]}, …): move it away first."
        )
    for path in students:
        shutil.rmtree(path)


# ---------------------------------------------------------------------------------------------- what work is made from


def _material(course: Course, unit: str, problems: list[str]) -> Material:
    released = course.released(unit)
    if not released.is_file():
        raise CourseError(f"{unit} has not been built yet: run `attn build {unit[:2]}` first.")
    material = Material(unit, notebooks.read(released), solved(course, unit), exercises(course, unit))
    for exercise in material.exercises:
        cell = answer_source(material.solved, exercise.id)
        material.wrong[exercise.id], material.styles[exercise.id] = [], []
        for name, answers in exercise.wrong_answers():
            with _Noting(problems, exercise, name):
                material.wrong[exercise.id].append((name, _spliced(cell, exercise, answers)))
        for style, answers in exercise.alternatives().items():
            with _Noting(problems, exercise, style):
                material.styles[exercise.id].append(_spliced(cell, exercise, answers))
    return material


class _Noting:
    """Turns a refusal to splice into a line among the problems."""

    def __init__(self, problems: list[str], exercise: Exercise, name: str) -> None:
        self.problems, self.where = problems, f"{exercise.unit}, {exercise.id}, '{name}'"

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> bool:
        if kind is not None and issubclass(kind, SpliceError):
            self.problems.append(f"{self.where}: left out of the class: {error}")
            return True
        return False


def _spliced(source: str, exercise: Exercise, answers: tuple) -> str:
    """The solution cell with those of the answers that differ from the references in the place of its own."""
    for name, answer, reference in zip(exercise.answers, answers, exercise.references(), strict=True):
        if answer is not reference:
            source = replace_definition(source, name, splice(answer, name))
    return source
