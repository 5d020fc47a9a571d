"""The sample class: the same every time, with everything in it; and splicing, which it is made by."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from conftest import UNIT, hand_in

from autograder import notebooks
from autograder.course.exercises import exercises
from autograder.course.standalone_source import SpliceError, replace_definition, splice
from autograder.proofs.sample_class import make_class, small_class
from autograder.proofs.sample_manifest import kinds

# ------------------------------------------------------------------------------------------------------------- splicing

OFFSET = 3
THINGS = SimpleNamespace(a=1)


def _twice(x):
    return 2 * x


def _four_times(x):
    return _twice(_twice(x))


def with_helpers(x):
    """A docstring with the word _twice in it."""
    return _four_times(x) + _twice(x) + OFFSET


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def with_defaults(x, *more, scale=OFFSET, **named):
    return x * scale + sum(more) + sum(named.values())


def shadowing(x):
    _twice = 5
    return x + _twice


class Scaled(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.full((d,), 2.0))

    def forward(self, x):
        return _twice(x) * self.scale + F.relu(x)


def make_scaled(factor):
    return lambda x: factor * x


def make_from(function):
    return lambda x: function(x)


pair = (lambda x: x + 1), (lambda x: x + 2)
nested = lambda x: (lambda y: y * 2)(x + 1)  # noqa: E731
curried = lambda x: lambda y: x - y  # noqa: E731
by_torch = lambda x: torch.softmax(torch.tensor([float(x), 0.0], dtype=torch.float64), dim=0)[0].item()  # noqa: E731
with_math = lambda x: math.sqrt(x) if x > 4 else [_twice(i) for i in range(x)]  # noqa: E731


def _spliced(function, name="answer"):
    space = {}
    exec(splice(function, name), space)
    return space[name]


@pytest.mark.parametrize(
    "function",
    [
        with_helpers,
        factorial,
        with_defaults,
        shadowing,
        *pair,
        nested,
        by_torch,
        with_math,
        make_scaled(7),
        make_scaled(0.5),
    ],
)
def test_spliced_source_behaves_as_the_function(function):
    for x in (1, 3, 5, 8):
        assert _spliced(function)(x) == function(x)


def test_arguments_with_defaults_stars_and_names_come_over():
    assert _spliced(with_defaults)(2, 1, 1, scale=5, a=3) == with_defaults(2, 1, 1, scale=5, a=3)


def test_a_lambda_that_returns_a_lambda_is_told_from_the_one_inside():
    assert _spliced(curried)(5)(3) == 2


def test_a_class_comes_over_with_what_it_uses():
    x = torch.randn(3)
    torch.testing.assert_close(_spliced(Scaled, "Layer")(3)(x), Scaled(3)(x))


def test_what_comes_along_cannot_overwrite_another_answer():
    space = {}
    exec(splice(with_helpers, "answer"), space)
    assert "_twice" not in space and "_twice_for_answer" in space


@pytest.mark.parametrize("function", [make_from(_twice), torch.softmax, max, lambda x: THINGS.a + x])
def test_what_cannot_be_carried_over_is_handled_or_refused(function):
    try:
        source = splice(function, "answer")
    except SpliceError as error:
        assert str(error) and "\n" not in str(error)
    else:
        space = {}
        exec(source, space)
        assert space["answer"](3) == function(3)


def test_what_is_the_courses_own_is_carried_over_and_not_imported():
    from helpers.engine.answers import steps
    from helpers.qkv_attention.softmax import softmax as ours

    source = splice(lambda q, k, v: ours(steps.attend(steps.Attention(), q, k, v)[0], -1), "answer")
    space = {}
    exec(source, space)
    q, k, v = torch.randn(3, 2, 4)
    assert "helpers" not in source
    torch.testing.assert_close(space["answer"](q, k, v), ours(steps.attend(steps.Attention(), q, k, v)[0], -1))


def test_a_definition_is_replaced_and_the_rest_of_the_cell_stays():
    cell = "import math\n\ndef a(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n\ndef b(x):\n    ..."
    new = replace_definition(cell, "a", "def a(x):\n    return -x\n")
    assert new == "import math\n\ndef a(x):\n    return -x\n\ndef b(x):\n    ..."
    assert replace_definition("x = 1", "a", "def a(): ...").endswith("\n\n\ndef a(): ...")


# ------------------------------------------------------------------------------------------------------------ the class


def _files(course):
    return {
        path.relative_to(course.classroom): path.read_bytes() for path in course.classroom.rglob("*") if path.is_file()
    }


def test_the_same_seed_makes_the_same_class(course):
    make_class(course, None, 1)
    first = _files(course)
    make_class(course, None, 1)
    assert _files(course) == first
    make_class(course, None, 2)
    assert _files(course) != first


def test_the_class_has_every_misconception_of_every_exercise(course):
    manifest, problems = make_class(course, None, 0)
    assert problems == []
    shown = {(exercise, name) for entry in manifest.values() for exercise, name in entry["expected"][UNIT].items()}
    wanted = {(exercise.id, name) for exercise in exercises(course, UNIT) for name, _ in exercise.wrong_answers()}
    assert shown == wanted
    assert json.loads((course.classroom / "sample.json").read_text()) == manifest


def test_the_class_has_every_kind_of_work(course):
    manifest, _ = make_class(course, None, 0)
    kinds = {entry["kind"] for entry in manifest.values()}
    whole = {"right", "blank", "half done", "right, saved by Colab", "right, style 1, with outputs"}
    mended = {"solution cell copied", "test cell deleted", "syntax error in a cell", "prints to stderr"}
    assert whole | mended | {"not JSON", "cut off", "empty file", "wrong file name"} <= kinds


def test_spliced_notebooks_are_diagnosed_as_they_should_be(course):
    """Every spliced solution cell, run as a notebook would run it, gets the diagnosis that the manifest promises."""
    manifest, _ = make_class(course, None, 0)
    by_id = {exercise.id: exercise for exercise in exercises(course, UNIT)}
    for student, entry in manifest.items():
        for name, slip in entry["expected"][UNIT].items():
            notebook = notebooks.read(course.submission(student, UNIT))
            space = {}
            exec("import math\nimport torch\n" + notebooks.by_id(notebook)[name].source, space)
            answers = [space[answer] for answer in by_id[name].answers]
            assert by_id[name].check(*answers, points=4).diagnosis == slip, (student, name)


def test_a_notebook_saved_by_colab_has_what_colab_adds(course):
    manifest, _ = make_class(course, None, 0)
    student = next(name for name, entry in manifest.items() if entry["kind"] == "right, saved by Colab")
    content = json.loads(course.submission(student, UNIT).read_text())
    assert content["metadata"]["colab"] and "id" not in content["cells"][0]
    assert content["cells"][1]["metadata"]["id"]


def test_a_small_class_says_what_it_leaves_out(course, attn):
    result = attn(course, "sample-class", "-n", "4")
    assert result.exit_code == 0 and "4 students made" in result.output and "students are needed" in result.output
    assert len(list(course.submitted.iterdir())) == 4


def test_a_large_class_is_filled_up_with_mixed_students(course):
    manifest, _ = make_class(course, 60, 0)
    assert len(manifest) == 60 and sum(entry["kind"] == "mixed" for entry in manifest.values()) > 10


def test_if_empty_leaves_submissions_alone(course, attn):
    path = hand_in(course, "ada")
    result = attn(course, "sample-class", "--if-empty")
    assert result.exit_code == 0 and "no sample class was made" in result.output
    assert [p.name for p in course.submitted.iterdir()] == ["ada"] and path.is_file()


def test_real_work_is_never_overwritten(course, attn):
    hand_in(course, "ada")
    result = attn(course, "sample-class")
    assert result.exit_code == 1 and "ada" in result.output and "Traceback" not in result.output
    assert [p.name for p in course.submitted.iterdir()] == ["ada"]


def test_with_two_units_one_student_hands_in_the_other_ones_notebook(course):
    from autograder.course.build import build

    folder = course.solutions / "03_more"
    folder.mkdir()
    text = course.source(UNIT).read_text()
    (folder / "03_more.py").write_text(text.replace('"why_same_size', '"why_more'))
    build(course, course.units())
    manifest, _ = make_class(course, None, 0)
    student = next(name for name, entry in manifest.items() if entry["kind"] == "another unit's notebook")
    assert "why_more" in course.submission(student, UNIT).read_text()


def test_the_small_class_is_a_dozen_who_are_there_for_a_reason(course):
    manifest, problems = small_class(course, 0)
    assert problems == [] and len(manifest) == 12
    assert kinds(course) == {name: entry["kind"] for name, entry in manifest.items()}
    assert len(set(kinds(course).values())) == 12 and any("hostile" in kind for kind in kinds(course).values())
