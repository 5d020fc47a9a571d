"""A class to try the course on, made from the solution notebooks: students who are right, in several styles; who have
each misconception of each exercise; who are half done or have not begun; and whose files are broken in usual ways.

The same seed makes the same class. `sample.json` beside the gradebook says what each student is."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from autograder import notebooks
from autograder.course.exercises import Exercise, exercises, solved
from autograder.course.paths import Course
from autograder.course.splice import SpliceError, replace_definition, splice
from autograder.errors import CourseError
from autograder.grading.store import write_whole

USUAL_SIZE = 30
WRITTEN = "I think it has to do with the shapes: otherwise the product is not defined."


@dataclass
class Material:
    """What a unit's submissions are made from."""

    unit: str
    released: NotebookNode
    solved: NotebookNode
    exercises: list[Exercise]
    wrong: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """exercise id → (misconception, source of the solution cell that has it)"""
    styles: dict[str, list[str]] = field(default_factory=dict)
    """exercise id → sources of the solution cell in other styles"""


@dataclass
class Work:
    """What a student hands in for one unit: the text of the file, its name, and what should be diagnosed."""

    text: str
    file: str
    expected: dict[str, str] = field(default_factory=dict)


Maker = Callable[[Material, random.Random], Work]


def make_class(course: Course, size: int | None, seed: int) -> tuple[dict, list[str]]:
    """Writes the class into the submitted folder. Returns the manifest, and a line for each wrong answer or style that
    could not be spliced into a notebook."""
    materials, problems = [], []
    for unit in course.units():
        materials.append(_material(course, unit, problems))
    makers = _makers(materials)
    size = size or max(USUAL_SIZE, len(makers))
    if len(makers) > size:
        problems.append(
            f"{len(makers)} students are needed to show every misconception and every broken file; {size} were made"
        )
    names = [f"student-{number:02d}" for number in range(1, size + 1)]
    rng = random.Random(seed)
    kinds = (makers + [("mixed", _mixed)] * size)[:size]
    rng.shuffle(kinds)
    _clear(course)
    manifest = {name: _student(course, name, kind, maker, materials, seed)
                for name, (kind, maker) in zip(names, kinds, strict=True)}  # fmt: skip
    write_whole(_manifest(course), json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
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
        ours = set(json.loads(_manifest(course).read_text(encoding="utf-8")))
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


def _manifest(course: Course) -> Path:
    return course.classroom / "sample.json"


# ---------------------------------------------------------------------------------------------- what work is made from


def _material(course: Course, unit: str, problems: list[str]) -> Material:
    released = course.released(unit)
    if not released.is_file():
        raise CourseError(f"{unit} has not been built yet: run `attn build {unit[:2]}` first.")
    material = Material(unit, notebooks.read(released), solved(course, unit), exercises(course, unit))
    for exercise in material.exercises:
        cell = _answer(material.solved, exercise.id)
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


def _answer(notebook: NotebookNode, name: str) -> str:
    """A solution cell's source as a student would have written it: without the markers."""
    lines = notebooks.by_id(notebook)[name].source.split("\n")
    return "\n".join(line for line in lines if "### BEGIN SOLUTION" not in line and "### END SOLUTION" not in line)


# --------------------------------------------------------------------------------------------------- kinds of students


def _makers(materials: list[Material]) -> list[tuple[str, Maker]]:
    """One of each kind of student, the most telling first."""
    wrong = max((len(found) for material in materials for found in material.wrong.values()), default=0)
    styles = max((len(found) for material in materials for found in material.styles.values()), default=0)
    makers = [("right", _right)]
    makers += [(f"misconception {number + 1}", _misconception(number)) for number in range(wrong)]
    makers += [(f"right, style {number + 1}, with outputs", _style(number)) for number in range(styles)]
    makers += [("half done", _half_done), ("blank", _blank), ("right, saved by Colab", _saved_by_colab)]
    makers += [("test cell deleted", _test_cell_deleted), ("solution cell copied", _solution_cell_copied),
               ("syntax error in a cell", _syntax_error), ("prints to stderr", _prints_to_stderr),
               ("not JSON", _not_json), ("cut off", _cut_off), ("empty file", _empty_file),
               ("wrong file name", _wrong_file_name)]  # fmt: skip
    if len(materials) > 1:
        makers.append(("another unit's notebook", _another_units(materials)))
    return makers


def _with_answers(material: Material, answers: dict[str, str]) -> NotebookNode:
    """The released notebook with these solution cells filled in, and its written questions answered."""
    notebook = notebooks.parse(notebooks.to_text(material.released))
    for cell in notebook.cells:
        if notebooks.is_written(cell):
            cell.source = WRITTEN if answers else cell.source
        else:
            cell.source = answers.get(notebooks.grade_id(cell), cell.source)
    return notebook


def _right_answers(material: Material) -> dict[str, str]:
    return {exercise.id: _answer(material.solved, exercise.id) for exercise in material.exercises}


def _work(material: Material, notebook: NotebookNode, expected: dict[str, str] | None = None) -> Work:
    return Work(notebooks.to_text(notebook), f"{material.unit}.ipynb", expected or {})


def _right(material: Material, rng: random.Random) -> Work:
    return _work(material, _with_answers(material, _right_answers(material)))


def _misconception(number: int) -> Maker:
    """A student with this misconception of every exercise that has as many; right elsewhere."""

    def make(material: Material, rng: random.Random) -> Work:
        chosen = {name: wrong[number] for name, wrong in material.wrong.items() if number < len(wrong)}
        answers = _right_answers(material) | {name: source for name, (_, source) in chosen.items()}
        return _work(material, _with_answers(material, answers), {name: slip for name, (slip, _) in chosen.items()})

    return make


def _style(number: int) -> Maker:
    """Right in another style, and run before it was handed in: outputs and counts are still there."""

    def make(material: Material, rng: random.Random) -> Work:
        chosen = {name: styles[number % len(styles)] for name, styles in material.styles.items() if styles}
        notebook = _with_answers(material, _right_answers(material) | chosen)
        for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
            cell.execution_count = count
            cell.outputs = [new_output("stream", name="stdout", text=f"output of cell {count}\n")]
        return _work(material, notebook)

    return make


def _half_done(material: Material, rng: random.Random) -> Work:
    answers = list(_right_answers(material).items())
    return _work(material, _with_answers(material, dict(answers[: len(answers) // 2])))


def _blank(material: Material, rng: random.Random) -> Work:
    return _work(material, _with_answers(material, {}))


def _mixed(material: Material, rng: random.Random) -> Work:
    """An ordinary student: most answers right, some with a misconception, some not begun."""
    answers, expected = {}, {}
    for name, right in _right_answers(material).items():
        chance = rng.random()
        if chance < 0.65 or not material.wrong[name]:
            answers[name] = right
        elif chance < 0.9:
            expected[name], answers[name] = rng.choice(material.wrong[name])
    return _work(material, _with_answers(material, answers), expected)


def _saved_by_colab(material: Material, rng: random.Random) -> Work:
    """What Colab adds when it saves: ids copied into the metadata, its own blocks, a first cell that links back."""
    notebook = _with_answers(material, _right_answers(material))
    for cell in notebook.cells:
        cell.metadata["id"] = cell.id
        if cell.cell_type == "code":
            cell.metadata["colab"] = {"base_uri": "https://localhost:8080/"}
            cell.metadata["outputId"] = f"{rng.getrandbits(128):032x}"
    link = new_markdown_cell("Open in Colab", metadata={"id": "view-in-github", "colab_type": "text"})
    link.pop("id")
    notebook.cells.insert(0, link)
    notebook.metadata["colab"] = {"provenance": [], "include_colab_link": True}
    return Work(json.dumps(notebook, indent=1), f"{material.unit}.ipynb")


def _test_cell_deleted(material: Material, rng: random.Random) -> Work:
    notebook = _with_answers(material, _right_answers(material))
    notebook.cells.remove(next(notebooks.tests(notebook)))
    return _work(material, notebook)


def _solution_cell_copied(material: Material, rng: random.Random) -> Work:
    notebook = _with_answers(material, _right_answers(material))
    name = material.exercises[-1].id
    index = next(i for i, cell in enumerate(notebook.cells) if notebooks.grade_id(cell) == name)
    copy = NotebookNode({**notebook.cells[index], "id": f"{name}-copy"[:64]})
    notebook.cells.insert(index, copy)
    return _work(material, notebook)


def _syntax_error(material: Material, rng: random.Random) -> Work:
    answers = _right_answers(material)
    last = material.exercises[-1].id
    return _work(material, _with_answers(material, answers | {last: answers[last] + "\nreturn ("}))


def _prints_to_stderr(material: Material, rng: random.Random) -> Work:
    """Right, but the functions warn while the tests call them: nbgrader alone would give 0 for that."""
    first = material.exercises[0]
    noisy = f"""

def _noisy(function):
    import functools
    import sys

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        print("called", function.__name__, file=sys.stderr)
        return function(*args, **kwargs)

    return wrapped


{first.answers[0]} = _noisy({first.answers[0]})"""
    answers = _right_answers(material)
    return _work(material, _with_answers(material, answers | {first.id: answers[first.id] + noisy}))


def _not_json(material: Material, rng: random.Random) -> Work:
    return Work("<!DOCTYPE html>\n<title>Sign in</title>\n", f"{material.unit}.ipynb")


def _cut_off(material: Material, rng: random.Random) -> Work:
    text = _right(material, rng).text
    return Work(text[: len(text) // 2], f"{material.unit}.ipynb")


def _empty_file(material: Material, rng: random.Random) -> Work:
    return Work("", f"{material.unit}.ipynb")


def _wrong_file_name(material: Material, rng: random.Random) -> Work:
    return Work(_right(material, rng).text, f"{material.unit} (1).ipynb")


def _another_units(materials: list[Material]) -> Maker:
    def make(material: Material, rng: random.Random) -> Work:
        other = materials[materials.index(material) - 1]
        return Work(_right(other, rng).text, f"{material.unit}.ipynb")

    return make
