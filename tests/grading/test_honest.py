"""Right answers in notebooks as Colab, VS Code and JupyterLab leave them have full marks, and nothing is said of their
form."""

import copy
import json
import random

from conftest import UNIT, hand_in, right_answers
from rich.progress import Progress

from autograder.course import nbgrader_steps
from autograder.grading import grade, gradebook_writer, intake
from autograder.grading.result_cache import key
from autograder.grading.submission_discovery import Submission


def _code(data):
    return [cell for cell in data["cells"] if cell["cell_type"] == "code"]


def colab(data):
    """Ids in the metadata, outputs with ids, the runtime's settings."""
    data["nbformat_minor"] = 0
    data["metadata"] |= {
        "colab": {"provenance": [], "toc_visible": True, "gpuType": "T4"},
        "accelerator": "GPU",
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
    }
    for cell in data["cells"]:
        cell["metadata"]["id"] = cell.pop("id")
    for cell in _code(data):
        cell["metadata"] |= {"outputId": "0a1b", "colab": {"base_uri": "https://localhost:8080/", "height": 34}}
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["done\n"]}]


def colab_on_github(data):
    colab(data)
    badge = {
        "cell_type": "markdown",
        "metadata": {"id": "view-in-github", "colab_type": "text"},
        "source": ['<a href="https://x.org"/>'],
    }
    data["cells"].insert(0, badge)


def colab_timed(data):
    colab(data)
    for cell in _code(data):
        cell["metadata"]["executionInfo"] = {
            "status": "ok",
            "timestamp": 1763800000000,
            "elapsed": 5,
            "user_tz": -60,
            "user": {"displayName": "", "userId": ""},
        }


def colab_form(data):
    colab(data)
    for cell in _code(data):
        cell["metadata"]["cellView"] = "form"


def colab_picture(data):
    colab(data)
    data["cells"].append(
        {
            "cell_type": "markdown",
            "metadata": {"id": "pic"},
            "source": [f"![image.png](data:image/png;base64,{'A' * 300_000})"],
        }
    )


def photo_of_a_proof(data):
    """Three megabytes, with words around it."""
    data["cells"].append(
        {
            "cell_type": "markdown",
            "metadata": {"id": "photo"},
            "source": [f"By hand:\n\n![proof.jpeg](data:image/jpeg;base64,{'A' * 4_000_000})\n\nQED."],
        }
    )


def vscode(data):
    """Language of each cell, no kernel's name, a long list of outputs' metadata."""
    data["metadata"] = {
        "kernelspec": {"display_name": ".venv", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": "3.13.1", "file_extension": ".py"},
    }
    for cell in data["cells"]:
        cell["metadata"]["vscode"] = {"languageId": "python"}


def vscode_old(data):
    vscode(data)
    data["metadata"]["interpreter"] = {"hash": "aee8b7"}
    data["metadata"]["orig_nbformat"] = 4


def vscode_ids(data):
    """New ids for every cell."""
    vscode(data)
    for number, cell in enumerate(data["cells"]):
        cell["id"] = f"{number:08x}"


def jupyterlab(data):
    data["metadata"] |= {
        "toc-autonumbering": True,
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}, "version_major": 2}},
    }
    for number, cell in enumerate(_code(data)):
        cell["metadata"] |= {
            "execution": {"iopub.status.busy": "2026-11-01T10:00:00Z"},
            "scrolled": True,
            "tags": [],
            "jupyter": {"outputs_hidden": True},
        }
        cell["execution_count"] = number


def jupyterlab_collapsed(data):
    for cell in data["cells"]:
        cell["metadata"] |= {
            "jp-MarkdownHeadingCollapsed": True,
            "editable": True,
            "slideshow": {"slide_type": ""},
            "collapsed": True,
        }


def jupyterlab_attachment(data):
    data["cells"].append(
        {
            "cell_type": "markdown",
            "id": "att",
            "metadata": {},
            "source": "![a](attachment:a.png)",
            "attachments": {"a.png": {"image/png": "iVBO"}},
        }
    )


def with_error(data):
    """An error and a rich display from an earlier run."""
    _code(data)[-1]["outputs"] = [
        {"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": ["\u001b[0;31mNameError"]},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBO", "text/plain": ["<Figure>"]}},
    ]


def format_4_4(data):
    data["nbformat_minor"] = 4
    for cell in data["cells"]:
        del cell["id"]


def lines(data):
    """Every source as a list of lines, as most programs write it."""
    for cell in data["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)


def no_editable(data):
    for cell in data["cells"]:
        cell["metadata"].pop("editable", None), cell["metadata"].pop("deletable", None)


def empty_cells(data):
    data["cells"] += [
        {"cell_type": "code", "id": f"e{n}", "metadata": {}, "source": "", "outputs": [], "execution_count": None}
        for n in range(5)
    ]


def doubled_ids(data):
    data["cells"][-1]["id"] = data["cells"][0]["id"]


def own_notes(data):
    data["cells"].insert(
        3,
        {
            "cell_type": "markdown",
            "id": "own",
            "metadata": {},
            "source": "My notes: see [here](https://x.org) and `x[0]`",
        },
    )


def own_tries(data):
    data["cells"].append(
        {
            "cell_type": "code",
            "id": "try",
            "metadata": {},
            "outputs": [],
            "execution_count": 9,
            "source": "%matplotlib inline\nprint(softmax)",
        }
    )


def copied_answer(data):
    """A cell copied to try something out."""
    at = next(
        n for n, cell in enumerate(data["cells"]) if cell["metadata"].get("nbgrader", {}).get("grade_id") == "attend"
    )
    data["cells"].insert(at + 1, copy.deepcopy(data["cells"][at]) | {"id": "copy"})


def shuffled_keys(data):
    for cell in data["cells"]:
        items = list(cell.items())
        random.Random(1).shuffle(items)
        cell.clear(), cell.update(items)


FORMS = [
    colab,
    colab_on_github,
    colab_timed,
    colab_form,
    vscode,
    vscode_old,
    vscode_ids,
    jupyterlab,
    jupyterlab_collapsed,
    with_error,
    format_4_4,
    lines,
    no_editable,
    doubled_ids,
    shuffled_keys,
]
ADDITIONS = [colab_picture, jupyterlab_attachment, empty_cells, own_notes, own_tries, copied_answer]


def _hand_in(course, change, windows=False):
    path = hand_in(course, change.__name__, right_answers(course))
    data = json.loads(path.read_text())
    change(data)
    text = json.dumps(data, indent=1)
    path.write_bytes((b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()) if windows else text.encode())
    return Submission(change.__name__, UNIT, path)


def test_what_programs_add_changes_nothing_that_is_graded(course):
    """One result for all: the key of a result hashes every cell's text and marks."""
    gradebook_writer.register(course, UNIT)
    limits, units, keys = grade.limits(course), intake.units_of(course), {}

    def plain(data):
        """As it was released."""

    for change in [plain, *FORMS]:
        submission = _hand_in(course, change, windows=change in FORMS[::5])
        assert intake.read_and_stage(course, submission, units) == [], change.__name__
        keys[change.__name__] = key(nbgrader_steps.sanitize(course, change.__name__, UNIT), UNIT, limits)
    assert {name for name, found in keys.items() if found != keys["plain"]} == set()


def test_what_students_add_costs_no_points(course):
    for change in [FORMS[0], *ADDITIONS]:
        _hand_in(course, change)
    outcome = grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))
    assert not outcome.rejected and not outcome.failed
    assert {name: row["code_score"] for name, row in gradebook_writer.scores(course, UNIT).items()} == {
        change.__name__: 6 for change in [FORMS[0], *ADDITIONS]
    }
