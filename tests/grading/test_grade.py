"""Grading a class: every trap of nbgrader's, work done once, one bad notebook that costs nobody else anything."""

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.grading import grade, gradebook_writer, worker_pool, worker_tasks
from autograder.grading.judge_notebook import judge_notebook
from autograder.grading.repair import repair
from autograder.grading.result_cache import Store, key
from autograder.judge.judge import Limits
from autograder.judge.outputs import normalize_outputs, read_result, read_score
from helpers.engine.mime import MIME

WRONG_SOFTMAX = "def softmax(x, dim):\n    return torch.exp(x) / torch.exp(x).sum(dim, keepdim=True)"


def _grade(course, **settings):
    return grade.grade(course, [UNIT], grade.Settings(**settings), Progress(disable=True))


def _test_cell(*outputs):
    metadata = {"nbgrader": {"grade": True, "solution": False, "grade_id": "softmax_test", "points": 2}}
    return notebooks.nbformat.v4.new_code_cell(
        "check.softmax(softmax, points=2)", metadata=metadata, outputs=list(outputs)
    )


def _value(text, score=None):
    data = {"text/plain": text} | ({MIME: score} if score else {})
    return notebooks.nbformat.v4.new_output("execute_result", data=data)


# ---------------------------------------------------------------------------------- what a test cell's output is worth


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([_value("1.5", {"score": 1.5})], 1.5),
        (
            [
                notebooks.nbformat.v4.new_output("stream", name="stderr", text="a warning"),
                _value("1.5", {"score": 1.5}),
            ],
            1.5,
        ),
        ([], 0),
        ([_value("'done'")], 0),
        ([_value("2.0")], 0),  # a number that no check made
        ([_value("nan", {"score": float("nan")})], 0),
        ([_value("3.0", {"score": 3.0})], 0),
        ([_value("-1.0", {"score": -1.0})], 0),
        ([_value("2.0", {"score": 1.0})], 0),
        ([notebooks.nbformat.v4.new_output("stream", name="stdout", text="2.0")], 0),
    ],
)
def test_nbgrader_reads_a_settled_test_cell_as_the_check_meant_it(outputs, expected):
    from nbgrader.utils import determine_grade

    cell = _test_cell(*outputs)
    normalize_outputs(cell)
    assert determine_grade(cell) == (expected, 2)
    assert read_result(cell).score == expected


def test_a_diagnosis_is_read_from_the_cells_output():
    cell = _test_cell(_value("1.0", {"score": 1.0, "diagnosis": "no scale", "message": "Divide."}))
    assert (read_result(cell).diagnosis, read_result(cell).message) == ("no scale", "Divide.")
    assert read_score(cell)["score"] == 1.0


# -------------------------------------------------------------------------------------------------------------- repair


def _solved_and_handed_in(course, edit):
    notebook = notebooks.read(hand_in(course, "ada", right_answers(course)))
    edit(notebook)
    return notebook, repair(notebook, notebooks.read(course.solved(UNIT)))


def _cell(notebook, name):
    return notebooks.by_id(notebook)[name]


def test_a_copied_cell_is_told_from_the_one_that_counts(course):
    def copied(notebook):
        cell = _cell(notebook, "attend")
        notebook.cells.insert(notebook.cells.index(cell), notebooks.NotebookNode({**copy.deepcopy(cell), "id": "copy"}))

    notebook, lines = _solved_and_handed_in(course, copied)
    assert lines == ["a copy of cell attend was set aside"]
    assert sum(notebooks.grade_id(cell) == "attend" for cell in notebook.cells) == 1


@pytest.mark.parametrize(
    "name", ["setup", "softmax_test", "two_word_example_test", "why_same_size", "why_same_size_question"]
)
def test_a_deleted_cell_comes_back_in_its_place(course, name):
    before = [notebooks.grade_id(c) for c in notebooks.read(course.solved(UNIT)).cells if notebooks.grade_id(c)]
    notebook, lines = _solved_and_handed_in(course, lambda nb: nb.cells.remove(_cell(nb, name)))
    assert lines == [f"cell {name} was missing and has been put back"]
    assert [notebooks.grade_id(c) for c in notebook.cells if notebooks.grade_id(c)] == before
    assert name != "why_same_size" or _cell(notebook, name).source == ""  # nobody is handed the model answer


def test_metadata_that_was_changed_is_reset(course):
    def forge(notebook):
        _cell(notebook, "softmax_test").metadata.nbgrader.points = 100
        _cell(notebook, "attend_test").metadata.nbgrader.grade = False
        _cell(notebook, "setup").metadata.nbgrader = {"grade_id": "setup", "nonsense": True}
        notebook.cells[0].metadata.nbgrader = {}

    notebook, _ = _solved_and_handed_in(course, forge)
    assert notebooks.points(_cell(notebook, "softmax_test")) == 2
    assert [notebooks.exercise_id(cell) for cell in notebooks.tests(notebook)] == [
        "softmax",
        "attend",
        "two_word_example",
    ]


def test_a_retyped_cell_gets_its_type_back(course):
    def retype(notebook):
        index = notebook.cells.index(_cell(notebook, "softmax"))
        old = notebook.cells[index]
        notebook.cells[index] = notebooks.nbformat.v4.new_markdown_cell(old.source, metadata=old.metadata, id=old.id)

    notebook, lines = _solved_and_handed_in(course, retype)
    assert lines == ["cell softmax was turned back into a code cell"] and _cell(notebook, "softmax").cell_type == "code"


# ------------------------------------------------------------------------------------------------ the judge, the store


CHECK = """
import types

class Score(float):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(float(self)), "application/vnd.attention-course.score+json": {"score": float(self)}}

def look(answer, points, cases=()):
    return Score(points if answer(1) == 1 else 0)

check = types.SimpleNamespace(softmax=look, attend=look)
"""


def _notebook(course, answers):
    """A notebook of two exercises that starts fast: its check is a stand-in, and right is what gives 1 for 1."""
    notebook = notebooks.read(course.solved(UNIT))
    keep = ("setup", "softmax", "softmax_test", "attend", "attend_test")
    notebook.cells = [cell for cell in notebook.cells if notebooks.grade_id(cell) in keep]
    right = {"setup": CHECK, "softmax": "softmax = lambda x: x", "attend": "attend = lambda x: x"}
    for cell in notebook.cells:
        cell.source = (right | answers).get(notebooks.grade_id(cell), cell.source.split("\n")[0])
    return notebook


def _scores(notebook):
    return {item.exercise: item.score for item in map(read_result, notebooks.tests(notebook))}


@pytest.mark.parametrize(
    ("softmax", "says"),
    [
        ("import os\ndef softmax(x):\n    os._exit(1)", "KernelDied"),
        ("def softmax(x):\n    while True: pass", "the call"),
        ("while True: pass", "NameError"),
        ("def softmax(x)", "NameError"),
        ("def softmax(x):\n    return 0", ""),
    ],
)
def test_a_cell_that_ends_or_blocks_its_kernel_costs_its_own_points_only(course, softmax, says):
    judge_notebook(graded := _notebook(course, {"softmax": softmax}), UNIT, Limits(cell_seconds=4))
    assert _scores(graded) == {"softmax": 0, "attend": 3}
    assert says in read_result(next(notebooks.tests(graded))).message
    assert all(cell.outputs or cell.execution_count for cell in graded.cells if cell.cell_type == "code")


def test_a_notebook_that_uses_up_its_time_has_an_error_in_every_cell_left(course):
    judge_notebook(graded := _notebook(course, {}), UNIT, Limits(notebook_seconds=0))
    assert _scores(graded) == {"softmax": 0, "attend": 0}
    assert all(cell.outputs[0].ename == "NotExecuted" for cell in notebooks.tests(graded))


def test_the_store_gives_back_what_was_put_in(course, tmp_path):
    store, notebook = Store(tmp_path), _notebook(course, {})
    name = key(notebook, UNIT, Limits())
    for cell in notebook.cells:
        cell.outputs = [_value("2.0", {"score": 2.0, "diagnosis": "d"})] if notebooks.is_test(cell) else []
    assert name not in store and not store.apply(name, notebook)
    store.put(name, notebook)
    other = _notebook(course, {})
    assert store.apply(name, other) and other == notebook
    assert [item.diagnosis for item in store.results(name)] == ["d", "d"]
    next(tmp_path.rglob("*.json")).write_text("{cut off")
    assert not store.apply(name, other)


def test_the_key_depends_on_what_decides_the_score_and_on_nothing_else(course, monkeypatch):
    from autograder.grading import result_cache

    base = key(_notebook(course, {}), UNIT, Limits())
    renamed = _notebook(course, {})
    renamed.cells[0].id, renamed.metadata["x"] = "another", 1
    assert key(renamed, UNIT, Limits()) == base
    assert key(_notebook(course, {"softmax": "x"}), UNIT, Limits()) != base
    assert key(_notebook(course, {}), "03_more", Limits()) != base
    assert key(_notebook(course, {}), UNIT, Limits(cell_seconds=1)) != base
    monkeypatch.setattr(result_cache, "unit_version", lambda *_: "another grader")
    assert key(_notebook(course, {}), UNIT, Limits()) != base


def _all(scheduler, *jobs, workers=1):
    """The scores of notebooks judged by a fleet, by their names; or what they failed with."""
    found = {}
    with worker_pool.worker_pool(workers, scheduler) as workers:
        for name, notebook in jobs:
            workers.submit(name, worker_tasks.judge_text, notebooks.to_text(notebook), UNIT, Limits())
        for name, result in workers.results():
            try:
                found[name] = _scores(notebooks.parse(result()["notebook"]))
            except worker_pool.TaskFailed as error:
                found[name] = str(error)
    return found


def test_a_scheduler_elsewhere_does_the_work(course):
    from distributed import LocalCluster

    job = "k", _notebook(course, {"attend": "attend = lambda x: 0"})
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        assert _all(cluster.scheduler_address, job) == {"k": {"softmax": 2, "attend": 0}}


def test_workers_that_do_not_answer_are_one_clear_line(course, monkeypatch):
    from autograder.errors import CourseError

    monkeypatch.setattr(worker_pool, "SECONDS_TO_ANSWER", 2)
    with pytest.raises(CourseError, match="No Dask scheduler answers at tcp://127.0.0.1:9"):
        _all("tcp://127.0.0.1:9", ("k", _notebook(course, {})))


# ------------------------------------------------------------------------------------------------- a class, end to end


def _copy_cell(notebook):
    cell = _cell(notebook, "attend")
    notebook.cells.insert(0, notebooks.NotebookNode({**copy.deepcopy(cell), "id": "copy"}))


def _delete_test(notebook):
    notebook.cells.remove(_cell(notebook, "softmax_test"))


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    """A class of nine, graded twice; the outcomes of both runs. Tests must not change it."""
    folder = tmp_path_factory.mktemp("graded") / "course"
    shutil.copytree(built.root, folder, ignore=shutil.ignore_patterns("class"))
    course = Course(folder.resolve())
    right = right_answers(course)
    hand_in(course, "ada", right)
    hand_in(course, "bea", right | {"softmax": WRONG_SOFTMAX})
    hand_in(course, "cem")
    hand_in(course, "dan")
    hand_in(course, "eva", right, edit=_copy_cell)
    hand_in(course, "fay", right, edit=_delete_test)
    noisy = right["softmax"] + "\n    import sys; print('hello', file=sys.stderr)\n"
    hand_in(
        course,
        "gus",
        right | {"softmax": noisy.replace("### BEGIN SOLUTION", "import sys; print('hi', file=sys.stderr)")},
    )
    hand_in(course, "hal", right).write_text('{"cells": [')
    hand_in(course, "ida", right).rename(course.submitted / "ida" / UNIT / "mine.ipynb")
    return course, _grade(course, workers=2), _grade(course)


def _score(course, student):
    return gradebook_writer.scores(course, UNIT)[student]["code_score"]


def test_every_student_has_the_score_earned(graded):
    course, _, _ = graded
    scores = {student: _score(course, student) for student in ("ada", "cem", "dan", "eva", "fay", "gus")}
    assert scores == {"ada": 6, "cem": 0, "dan": 0, "eva": 6, "fay": 6, "gus": 6}
    assert 0 < _score(course, "bea") < 6


def test_rejected_work_is_named_with_the_reason_and_costs_nobody_else(graded):
    _, first, second = graded
    assert {s.student: reason for s, reason in first.rejected.items()} == {
        "hal": "not a notebook, or one cut off: no valid JSON at line 1"
    }
    assert first.failed == {} and second.rejected.keys() == first.rejected.keys()


def test_who_was_rejected_stands_in_the_gradebook_even_if_nobody_else_is_recorded(course):
    hand_in(course, "hal").write_text('{"cells": [')
    assert _grade(course).recorded == 0
    with nbgrader_steps.open_gradebook(course) as gradebook:
        assert [student.id for student in gradebook.students] == ["hal"]


def test_a_notebook_of_another_name_is_graded_with_a_note(graded):
    course, first, second = graded
    notes = {submission.student: lines for submission, lines in first.notes.items() if lines}
    assert notes == {"ida": [f"the file is called mine.ipynb, not {UNIT}.ipynb; it was graded all the same"]}
    assert _score(course, "ida") == 6 and second.notes == first.notes


def test_equal_notebooks_are_judged_once_and_a_second_run_judges_none(graded):
    _, first, second = graded
    assert first.recorded == first.feedback == 8
    assert first.judged == 5  # cem and dan handed in the same, and so did ada, ida and fay, once repaired
    assert (second.judged, second.recorded, second.feedback) == (0, 0, 0)
    assert second.results == first.results


def test_misconceptions_are_counted(graded):
    _, first, _ = graded
    assert first.misconceptions() == {(UNIT, "softmax", "no maximum is subtracted"): 1}


def test_feedback_shows_the_partial_score_the_card_and_the_mark_scheme(graded):
    course, _, _ = graded
    page = (course.feedback / "bea" / UNIT / f"{UNIT}.html").read_text()
    cell = json.loads(course.graded("bea", UNIT).read_text())
    card = next(
        out["data"]["text/html"] for c in cell["cells"] for out in c.get("outputs", []) if MIME in out.get("data", {})
    )
    assert "no maximum is subtracted" in page and "One point for naming the dot product" in page
    assert "no maximum is subtracted" in "".join(card)
    score = next(
        item.score
        for item in map(read_result, notebooks.tests(notebooks.read(course.graded("bea", UNIT))))
        if item.exercise == "softmax"
    )
    assert 0 < score < 2 and f"Score: {score} / 2.0" in page


def test_a_page_names_exercises_and_says_what_waits_for_a_marker(graded, tmp_path):
    course = _copy(graded, tmp_path)

    def page() -> str:
        return (course.feedback / "ada" / UNIT / f"{UNIT}.html").read_text()

    assert "Test cell" not in page() and ">2.1 Softmax</a> (Score: 2.0 / 2.0)" in page()
    assert "(So far: 6.0 / 9.0; 1 answer waits for a marker)" in page() and "(waits for a marker; 3 to earn)" in page()
    with nbgrader_steps.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("why_same_size", UNIT, UNIT, "ada")
        grade.manual_score, grade.needs_manual_grade = 2, False
        gradebook.db.commit()
    _grade(course)
    assert "So far" not in page() and "(Score: 8.0 / 9.0)" in page()


def test_written_answers_wait_for_a_marker_and_untouched_ones_have_0(graded):
    course, _, _ = graded
    rows = gradebook_writer.scores(course, UNIT)
    assert rows["ada"]["needs_manual_grade"] and not rows["cem"]["needs_manual_grade"]


def test_a_marked_written_answer_leads_to_a_new_feedback_page_only(graded, tmp_path):
    course = _copy(graded, tmp_path)
    with nbgrader_steps.open_gradebook(course) as gradebook:
        gradebook.find_grade("why_same_size", UNIT, UNIT, "ada").manual_score = 2
        gradebook.db.commit()
    outcome = _grade(course)
    assert (outcome.judged, outcome.recorded, outcome.feedback) == (0, 0, 1)
    assert gradebook_writer.scores(course, UNIT)["ada"]["score"] == 8


def test_only_what_changed_is_graded_again(graded, tmp_path):
    course = _copy(graded, tmp_path)
    answers = right_answers(course)
    hand_in(course, "cem", {"attend": answers["attend"]})
    outcome = _grade(course)
    assert (outcome.judged, outcome.recorded, outcome.feedback) == (1, 1, 1)
    assert _score(course, "cem") == 3


def test_a_later_hand_in_of_the_same_work_is_recorded_with_its_time(graded, tmp_path):
    course = _copy(graded, tmp_path)
    (course.submission("ada", UNIT).parent / "timestamp.txt").write_text("2026-11-01 12:00:00 UTC")
    outcome = _grade(course)
    assert (outcome.judged, outcome.recorded) == (0, 1)


def test_a_lost_gradebook_is_filled_from_the_store(graded, tmp_path):
    course = _copy(graded, tmp_path)
    (course.classroom / "gradebook.db").unlink()
    outcome = _grade(course)
    assert (outcome.judged, outcome.recorded) == (0, 8)
    assert _score(course, "ada") == 6


def test_two_runs_at_once_are_told_apart(graded):
    course, _, _ = graded
    with gradebook_writer.gradebook_lock(course), pytest.raises(Exception, match="Another `attn grade`"):
        _grade(course)


def _copy(graded, folder):
    shutil.copytree(graded[0].root, folder / "course")
    return Course((folder / "course").resolve())


# --------------------------------------------------------------------------------------------- nbgrader's own commands


@pytest.fixture(scope="module")
def by_nbgrader(graded, tmp_path_factory):
    """The same class graded by nbgrader's own commands alone, in a copy without gradebook and results."""
    course = Course((tmp_path_factory.mktemp("stock") / "course").resolve())
    shutil.copytree(graded[0].root, course.root)
    for name in ("autograded", "feedback", "results", "registered"):
        shutil.rmtree(course.classroom / name)
    (course.classroom / "gradebook.db").unlink()
    for student in ("dan", "eva", "fay", "gus", "hal", "ida"):
        shutil.rmtree(course.submitted / student)
    return course


def _nbgrader(course, *arguments):
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [scripts / "nbgrader", *arguments], cwd=course.root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_nbgraders_own_commands_give_the_same(graded, by_nbgrader):
    course = by_nbgrader
    released = course.released(UNIT).read_bytes()
    _nbgrader(course, "generate_assignment", UNIT, "--force")
    assert course.released(UNIT).read_bytes().strip() == released.strip()
    _nbgrader(course, "autograde", UNIT)
    _nbgrader(course, "generate_feedback", UNIT)
    _nbgrader(course, "export", "--to", str(course.root / "grades.csv"))
    for student in ("ada", "bea", "cem"):
        assert _score(course, student) == _score(graded[0], student)
        assert "Score" in (course.feedback / student / UNIT / f"{UNIT}.html").read_text()
    assert "bea" in (course.root / "grades.csv").read_text()
    assert not (course.root / "gradebook.db").exists()


def test_nbgrader_validates_the_solution(course):
    said = _nbgrader(course, "validate", str(course.solved(UNIT)))
    assert "Success" in said
    assert "VALIDATION FAILED" in _nbgrader(course, "validate", str(course.released(UNIT)))


def test_formgraders_autograde_button_gives_the_same(graded, tmp_path):
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    course = _copy(graded, tmp_path)
    settings = nbgrader_steps.settings(course)
    api = NbGraderAPI(coursedir=CourseDirectory(config=settings), config=settings)
    done = api.autograde(UNIT, "bea")
    assert done["success"], done
    assert _score(course, "bea") == _score(graded[0], "bea")
