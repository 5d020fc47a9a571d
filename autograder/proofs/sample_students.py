"""The students of a sample class: right, in several styles; with each misconception; half done; and with files that are
broken, renamed or hostile in usual ways. Each kind is a function that makes one unit's hand-in."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from autograder import notebooks
from autograder.course.exercises import Exercise

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


def answer_source(notebook: NotebookNode, name: str) -> str:
    """A solution cell's source as a student would have written it: without the markers."""
    lines = notebooks.by_id(notebook)[name].source.split("\n")
    return "\n".join(line for line in lines if "### BEGIN SOLUTION" not in line and "### END SOLUTION" not in line)


def a_dozen() -> list[tuple[str, Maker]]:
    """A small class, in which everybody is there for a reason: what it says is shown beside the scores."""
    return [
        ("all right", _right),
        ("all right, in another style", _style(0)),
        ("all right, saved by Colab", _saved_by_colab),
        ("a known mistake in every exercise", _misconception(0)),
        ("another known mistake in every exercise", _misconception(1)),
        ("some right, some wrong, some not begun", ordinary),
        ("the first half done", _half_done),
        ("handed in as it was released", _blank),
        ("a solution cell copied: stock nbgrader stops the batch", _solution_cell_copied),
        ("a file that was cut off", _cut_off),
        ("a second download: the file is called … (1).ipynb", _wrong_file_name),
        ("hostile: puts its own checks in the place of ours", _forges_checks),
    ]


def everybody(materials: list[Material]) -> list[tuple[str, Maker]]:
    """One of each kind of student, the most telling first."""
    wrong = max((len(found) for material in materials for found in material.wrong.values()), default=0)
    styles = max((len(found) for material in materials for found in material.styles.values()), default=0)
    makers: list[tuple[str, Maker]] = [("right", _right)]
    makers += [(f"misconception {number + 1}", _misconception(number)) for number in range(wrong)]
    makers += [(f"right, style {number + 1}, with outputs", _style(number)) for number in range(styles)]
    makers += [("half done", _half_done), ("blank", _blank), ("right, saved by Colab", _saved_by_colab)]
    makers += [
        ("test cell deleted", _test_cell_deleted),
        ("solution cell copied", _solution_cell_copied),
        ("syntax error in a cell", _syntax_error),
        ("prints to stderr", _prints_to_stderr),
        ("not JSON", _not_json),
        ("cut off", _cut_off),
        ("empty file", _empty_file),
        ("wrong file name", _wrong_file_name),
    ]
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
    return {exercise.id: answer_source(material.solved, exercise.id) for exercise in material.exercises}


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


def ordinary(material: Material, rng: random.Random) -> Work:
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


FORGED = """

import helpers

for name in dir(helpers.check):
    setattr(helpers.check, name, lambda *answers, points, **more: float(points))"""


def _forges_checks(material: Material, rng: random.Random) -> Work:
    """No answer at all, and checks that give full points to anybody."""
    notebook = _with_answers(material, {})
    first = material.exercises[0].id
    for cell in notebook.cells:
        if notebooks.grade_id(cell) == first:
            cell.source += FORGED
    return _work(material, notebook)
