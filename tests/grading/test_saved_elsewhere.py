"""Notebooks of every unit as other programs save them, and as students rearrange them: the judge gets the same cells,
so the scores are the same. One unit is judged too, by `attn mark`."""

import copy
import json
import shutil
from functools import cache

import jupytext
import pytest
from conftest import ROOT, right_answers
from test_honest import FORMS, colab_timed, jupyterlab, vscode_ids

from autograder import notebooks
from autograder.course.paths import Course
from autograder.grading import intake, submission_parser
from autograder.grading.mark import restore_locked_cells
from autograder.grading.repair import CODE_STUB, TEXT_STUB
from autograder.grading.submission_discovery import Submission
from autograder.judge.config import SPARE

COURSE = Course(ROOT)
UNITS = COURSE.units()


# -------------------------------------------------------------- what programs do: a notebook's JSON is changed in place


def kaggle(data):
    """No ids; its own keys in every cell; the format's number goes back."""
    data["nbformat_minor"] = 4
    data["metadata"] |= {
        "kaggle": {"accelerator": "none", "dataSources": [], "isInternetEnabled": True, "language": "python"}
    }
    for number, cell in enumerate(data["cells"]):
        del cell["id"]
        cell["metadata"] |= {
            "_uuid": f"{number:032x}",
            "trusted": True,
            "execution": {"iopub.execute_input": "2026-11-22T10:00:00Z"},
        }


def deepnote(data):
    """Keys of its own, no ids, sources as one string, another kernel's name."""
    data["nbformat_minor"] = 0
    data["metadata"] = {
        "deepnote_notebook_id": "0a1b",
        "deepnote_execution_queue": [],
        "kernelspec": {"name": "venv", "display_name": "3.13"},
    }
    for number, cell in enumerate(data["cells"]):
        del cell["id"]
        cell["source"] = "".join(cell["source"])
        cell["metadata"] |= {
            "cell_id": f"{number:032x}",
            "deepnote_cell_type": cell["cell_type"],
            "deepnote_app_coordinates": {"x": 0, "y": number},
        }


def databricks(data):
    """Its own keys in the notebook and in every cell, ids that are numbers, another language's name in front."""
    data["nbformat_minor"] = 0
    data["metadata"] = {
        "application/vnd.databricks.v1+notebook": {"dashboards": [], "language": "python", "widgets": {}},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(data["cells"]):
        del cell["id"]
        cell["metadata"]["application/vnd.databricks.v1+cell"] = {
            "cellMetadata": {"byteLimit": 2048000, "rowLimit": 10000},
            "inputWidgets": {},
            "nuid": f"{number:08x}-0000-4000-8000-000000000000",
            "showTitle": False,
            "title": "",
        }


def marimo(data):
    """`marimo export ipynb`: its version, ids of four letters, a name and settings for each cell."""
    data["metadata"] = {"marimo": {"marimo_version": "0.18.0"}}
    for number, cell in enumerate(data["cells"]):
        cell["metadata"] |= {"marimo": {"name": "_", "config": {"hide_code": False}}, "id": cell.pop("id")}
        cell["id"] = f"c{number:03d}"


def notebook_6(data):
    """The classic one with its extensions: a table of contents, a list of variables, hidden input, raw keys of 2017."""
    data["nbformat_minor"] = 2
    data["metadata"] |= {
        "hide_input": False,
        "toc": {"base_numbering": 1, "nav_menu": {}, "number_sections": True, "sideBar": True, "toc_cell": False},
        "varInspector": {"cols": {"lenName": 16, "lenType": 16, "lenVar": 40}, "window_display": False},
    }
    for number, cell in enumerate(data["cells"]):
        del cell["id"]
        cell["metadata"] |= {"collapsed": True, "hidden": True, "heading_collapsed": True, "scrolled": False}
        if cell["cell_type"] == "code":
            cell["execution_count"] = number


def dataspell(data):
    """JetBrains' notebooks: the first line of a cell as its name, Python 2 as the editor's mode, no ids."""
    data["nbformat_minor"] = 0
    data["metadata"] = {
        "kernelspec": {"name": "pycharm-1a2b", "language": "python", "display_name": "PyCharm (course)"},
        "language_info": {"name": "python", "codemirror_mode": {"name": "ipython", "version": 2}, "version": "2.7.6"},
        "pycharm": {"stem_cell": {"cell_type": "raw", "source": [], "metadata": {"collapsed": False}}},
    }
    for cell in data["cells"]:
        del cell["id"]
        mark = "#%% md\n" if cell["cell_type"] == "markdown" else "#%%\n"
        cell["metadata"] |= {"collapsed": False, "pycharm": {"name": mark, "is_executing": False}}


def jupytext_round_trip(data):
    """Paired with a script, and made from it again: no outputs, no ids, marks in the headers of the script's cells."""
    script = jupytext.writes(notebooks.parse(json.dumps(data)), fmt="py:percent")
    made = json.loads(notebooks.to_text(jupytext.reads(script, fmt="py:percent")))
    data.clear()
    data.update(made)


def widget_states(data):
    """Progress bars leave their state in the notebook: megabytes of it."""
    state = {f"{number:032x}": {"model_name": "HTMLModel", "state": {"value": "x" * 2000}} for number in range(1500)}
    data["metadata"]["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {"state": state, "version_major": 2, "version_minor": 0}
    }


def windows_lines(data):
    """Line ends of Windows inside the cells, as a text editor leaves them."""
    for cell in data["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")


def megabytes_of_output(data):
    for cell in data["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 50_000}]


def trailing_spaces(data):
    """A formatter ran over the markdown of the unit's text; graded cells keep theirs."""
    for cell in data["cells"]:
        if not cell["metadata"].get("nbgrader") and cell["cell_type"] == "markdown":
            cell["source"] = "".join(cell["source"]) + "\n"


FRONT_ENDS = {
    colab_timed: "Copy of {}.ipynb",
    kaggle: "notebook5f1c2a.ipynb",
    deepnote: "{}.ipynb",
    databricks: "{} (1).ipynb",
    marimo: "{}.py.ipynb",
    vscode_ids: "{}.ipynb",
    jupyterlab: "{}-Copy1.ipynb",
    notebook_6: "{}.ipynb.txt",
    dataspell: "{}.ipynb",
    jupytext_round_trip: "{}_final.ipynb",
}
"""Ten programs, and how a file from each may be called."""
OTHERS = [widget_states, windows_lines, megabytes_of_output]
PROGRAMS = list(dict.fromkeys([*FORMS, *FRONT_ENDS, *OTHERS]))


# ---------------------------------------------------------------- what students do


def is_marked(cell, *flags):
    marks = cell["metadata"].get("nbgrader", {})
    return bool(marks) and all(marks.get(flag) for flag in flags)


def _is_answer(cell):
    return is_marked(cell, "solution") and cell["cell_type"] == "code"


def own(cell, number):
    """A copy as JupyterLab pastes it: the same marks, another id."""
    return copy.deepcopy(cell) | {"id": f"pasted-{number}"}


def copied_below(data):
    data["cells"] = [
        one
        for number, cell in enumerate(data["cells"])
        for one in ([cell, own(cell, number)] if is_marked(cell, "solution") else [cell])
    ]


def checks_deleted(data):
    data["cells"] = [cell for cell in data["cells"] if not is_marked(cell, "grade", "locked")]


def locked_cells_edited(data):
    for cell in data["cells"]:
        if is_marked(cell, "locked"):
            cell["source"] = "print('mine now')" if cell["cell_type"] == "code" else "gone"


def turned_round(data):
    data["cells"] = data["cells"][::-1]


def merged_with_the_test(data):
    """JupyterLab's *Merge Cell Below* on an answer and the hints and check under it: the first one's marks stay."""
    kept = []
    for cell in data["cells"]:
        if is_marked(cell, "grade", "locked") and cell["cell_type"] == "code":
            answer = next(one for one in reversed(kept) if is_marked(one, "solution") and one["cell_type"] == "code")
            answer["source"] = "".join(answer["source"]) + "\n\n" + "".join(cell["source"])
        else:
            kept.append(cell)
    data["cells"] = kept


def answered_in_two_copies(data):
    """Every second answer was written in another copy of the notebook and pasted above the stub, which is still
    there."""
    released = notebooks.by_id(notebooks.read(COURSE.released(_unit(data))))
    cells = []
    for number, cell in enumerate(data["cells"]):
        stub = is_marked(cell, "solution") and copy.deepcopy(released[cell["metadata"]["nbgrader"]["grade_id"]])
        cells += [cell] if not stub or number % 2 else [own(cell, number), dict(stub)]
    data["cells"] = cells


STUDENTS = [checks_deleted, locked_cells_edited, turned_round, answered_in_two_copies]


# ---------------------------------------------------------------- the same for the judge


@cache
def _ids():
    return {unit: sorted(notebooks.grade_ids(notebooks.read(COURSE.solved(unit)))) for unit in UNITS}


def _unit(data):
    names = {cell["metadata"]["nbgrader"]["grade_id"] for cell in data["cells"] if is_marked(cell)} - {"setup"}
    return max(UNITS, key=lambda unit: len(names & set(_ids()[unit])))


@cache
def _handed_in(unit: str) -> str:
    """The released notebook with all right answers, as JSON."""
    notebook, answers = notebooks.read(COURSE.released(unit)), right_answers(COURSE, unit)
    for cell in notebook.cells:
        cell.source = answers.get(notebooks.grade_id(cell), cell.source)
    return notebooks.to_text(notebook)


def _changed(unit, change):
    data = json.loads(_handed_in(unit))
    change(data)
    return data


def _for_the_judge(unit, change, of=lambda cell: True):
    return _parsed(unit, _changed(unit, change), of)


def _answer(unit, data):
    original = COURSE.solved(unit).read_text(encoding="utf-8")
    return submission_parser.parse_submission(json.dumps(data).encode(), unit, original, _ids())


def _parsed(unit, data, of):
    """What the judge would get: type, text, marks, and whether it need not run, of every cell."""
    answer = _answer(unit, data)
    assert "rejected" not in answer, answer
    notebook, original = notebooks.parse(answer["notebook"]), notebooks.read(COURSE.solved(unit))
    restore_locked_cells(notebook, original)
    return [
        (c.cell_type, c.source, c.metadata.get("nbgrader"), SPARE in c.metadata) for c in notebook.cells if of(c)
    ], answer


def as_released(data):
    """Nothing is done to it."""


@pytest.mark.parametrize("unit", UNITS)
def test_what_programs_do_to_a_notebook_changes_nothing_for_the_judge(unit):
    plain, _ = _for_the_judge(unit, as_released)
    for change in PROGRAMS:
        found, answer = _for_the_judge(unit, change)
        assert found == plain, change.__name__
        assert answer["repairs"] == [], change.__name__


@pytest.mark.parametrize("unit", ["00_start_here", "02_qkv_attention", "08_kv_cache"])
def test_files_of_ten_front_ends_are_staged_as_the_plain_file_is(unit, tmp_path):
    """What is staged is all that the judge and the gradebook see; one of them is judged below."""
    course = Course(tmp_path.resolve())
    shutil.copytree(COURSE.solutions / unit, course.solutions / unit)
    staged = {as_released: _staged(course, as_released, unit, f"{unit}.ipynb")}
    staged |= {change: _staged(course, change, unit, name.format(unit)) for change, name in FRONT_ENDS.items()}
    assert len(staged) == 11
    for change, cells in staged.items():
        assert cells == staged[as_released] and cells, change.__name__


def _staged(course, change, unit, name):
    hand_in = Submission(change.__name__, unit, course.submission(change.__name__, unit))
    path = hand_in.path.with_name(name)
    path.parent.mkdir(parents=True)
    data = _changed(unit, change)
    if change is colab_timed:
        widget_states(data)
    path.write_text(json.dumps(data, ensure_ascii=change is kaggle), encoding="utf-8")
    intake.read_and_stage(course, hand_in, _ids())
    cells = notebooks.read(course.taken_in(hand_in.student, unit)).cells
    return [(cell.cell_type, cell.source, cell.metadata) for cell in cells]


@pytest.mark.parametrize("unit", UNITS)
def test_what_students_do_to_its_form_leaves_every_graded_cell_as_it_was(unit):
    marked = lambda cell: notebooks.grade_id(cell)  # noqa: E731
    plain, _ = _for_the_judge(unit, as_released, marked)
    for change in STUDENTS:
        found, answer = _for_the_judge(unit, change, marked)
        assert [cell[:3] for cell in found] == [cell[:3] for cell in plain], change.__name__
        assert answer["repairs"] or change is locked_cells_edited, change.__name__


@pytest.mark.parametrize("unit", UNITS)
def test_a_copy_below_runs_as_the_students_own_and_merged_checks_come_back(unit):
    plain = {marks["grade_id"]: source for _, source, marks, _ in _for_the_judge(unit, as_released)[0] if marks}
    cells, _ = _for_the_judge(unit, copied_below)
    assert {marks["grade_id"]: source for _, source, marks, _ in cells if marks} == plain
    mine = [source for kind, source, marks, spare in cells if kind == "code" and not marks and not spare]
    assert all(right_answers(COURSE, unit)[name] in mine for name in plain if f"{name}_test" in plain)
    cells, _ = _for_the_judge(unit, merged_with_the_test)
    found = {marks["grade_id"]: source for _, source, marks, _ in cells if marks}
    assert found.keys() == plain.keys() and all(found[name].startswith(plain[name]) for name in plain)


@pytest.mark.parametrize("keeps_the_id", [0, 1])
@pytest.mark.parametrize("unit", UNITS)
def test_the_halves_of_a_split_answer_both_run_in_their_order(unit, keeps_the_id):
    """JupyterLab's *Split Cell*: both halves have the marks, one of them the id."""

    def split(data):
        cells = []
        for number, cell in enumerate(data["cells"]):
            halves = [own(cell, f"{number}-{half}") for half in (0, 1)]
            halves[keeps_the_id]["id"] = cell["id"]
            halves[0]["source"] = f"first_half_of_{number} = 1"
            cells += halves if _is_answer(cell) else [cell]
        data["cells"] = cells

    plain = [source for kind, source, marks, _ in _for_the_judge(unit, as_released)[0] if kind == "code" and marks]
    cells, _ = _for_the_judge(unit, split)
    names = [marks["grade_id"] for _, _, marks, _ in cells if marks]
    assert len(names) == len(set(names))
    running = [source for kind, source, _, spare in cells if kind == "code" and not spare]
    assert [source for source in running if source in plain] == plain
    halves = [source for source in running if source.startswith("first_half_of_")]
    assert len(halves) == sum(map(_is_answer, json.loads(_handed_in(unit))["cells"]))


def test_the_stubs_are_those_of_the_settings():
    settings = (ROOT / "nbgrader_config.py").read_text()
    assert f'{{"python": "{CODE_STUB}"}}' in settings and f'text_stub = "{TEXT_STUB}"' in settings


def without_marks(data):
    """A tool for clean diffs strips the metadata; the ids stay."""
    for cell in data["cells"]:
        cell["metadata"] = {}


def without_marks_and_ids(data):
    """The same for a format that has no ids: texts, checks and definitions are left."""
    without_marks(data)
    data["nbformat_minor"] = 4
    for cell in data["cells"]:
        del cell["id"]


@pytest.mark.parametrize("change", [without_marks, without_marks_and_ids])
@pytest.mark.parametrize("unit", UNITS)
def test_a_notebook_whose_metadata_were_stripped_is_graded(unit, change):
    """Written answers stand where they stood."""
    plain, _ = _for_the_judge(unit, as_released, notebooks.grade_id)
    data = _changed(unit, change)
    for cell in data["cells"]:
        if "".join(cell["source"]) == TEXT_STUB:
            cell["source"] = f"My answer.\n\n{TEXT_STUB}"
    cells, answer = _parsed(unit, data, notebooks.grade_id)
    assert [kind for kind, *_ in cells] == [kind for kind, *_ in plain]
    for (_, source, marks, _), (_, wanted, *_) in zip(cells, plain, strict=True):
        assert source == (f"My answer.\n\n{TEXT_STUB}" if wanted == TEXT_STUB else wanted), marks
    assert any("had lost their marks and were recognised" in line for line in answer["repairs"])


@pytest.mark.parametrize("pasted_by", ["colab", "jupyterlab"])
def test_a_photo_of_a_proof_is_kept_and_one_that_is_too_large_costs_no_words(pasted_by):
    unit, sizes = "02_qkv_attention", (3_500_000, 5_500_000)

    def with_photos(data):
        cell = next(one for one in data["cells"] if one["id"] == "select_one_value_why")
        urls = [f"data:image/jpeg;base64,{'/9j/' * (size // 4)}" for size in sizes]
        if pasted_by == "jupyterlab":
            cell["attachments"] = {f"{n}.jpeg": {"image/jpeg": url.split(",")[1]} for n, url in enumerate(urls)}
            urls = [f"attachment:{name}" for name in cell["attachments"]]
        cell["source"] = f"First ![one]({urls[0]}) then ![two]({urls[1]}) so there."

    cells, answer = _for_the_judge(unit, with_photos, lambda cell: notebooks.grade_id(cell) == "select_one_value_why")
    text = cells[0][1]
    assert text.count("data:image/jpeg") == 1 and len(text) > sizes[0]
    assert "First" in text and "is missing" in text and "so there." in text
    assert answer["repairs"] == ["a picture in select_one_value_why was left out: it has 4.1 MB, more than 4"]


def test_a_notebook_of_nothing_known_is_told_what_to_do():
    data = {
        "nbformat": 4,
        "nbformat_minor": 4,
        "metadata": {},
        "cells": [{"cell_type": "raw", "source": "", "metadata": {}}],
    }
    assert "can be told to be one of the course's" in _answer(UNITS[0], data)["rejected"]


@pytest.mark.parametrize(
    "change", [jupytext_round_trip, answered_in_two_copies, merged_with_the_test], ids=lambda change: change.__name__
)
def test_its_score_is_the_same(change, attn, tmp_path):
    unit = UNITS[0]
    path = tmp_path / "any.ipynb"
    path.write_text(json.dumps(_changed(unit, change)), encoding="utf-8")
    marks = json.loads(attn(COURSE, "mark", str(path), "--json").output)
    assert marks["unit"] == unit and marks["score"] == marks["max"] == 4
