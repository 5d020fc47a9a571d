"""What a released notebook shows before it is run: kept beside the source, in the release however it is made, never out
of date."""

import base64
import io
import json

import pytest
from conftest import ROOT, UNIT
from PIL import Image

from autograder import notebooks
from autograder.course import build, nbgrader_steps, previews, render_previews
from autograder.course.paths import Course

CALL = "plots.row_pairs(n=3, m=4, d=2, row=1, column=2)"
POINTS = [[0.0, 0.0], [4.0, 2.0], [1.0, 3.0]]
COURSE = Course(ROOT)


def _with_cells(course, *sources: str):
    text = course.source(UNIT).read_text().replace("from helpers import check\n", "from helpers import check, plots\n")
    course.source(UNIT).write_text(text + "".join(f"\n# %%\n{source}\n" for source in sources))
    return build.solution_notebook(course.source(UNIT))


def _kept(course, name: str) -> None:
    """A picture for the cell with this id, as if it had been drawn."""
    folder = course.solutions / UNIT / previews.FOLDER
    folder.mkdir()
    picture = io.BytesIO()
    Image.new("RGB", (3, 2), "white").save(picture, "PNG")
    (folder / "a.png").write_bytes(picture.getvalue())
    about = {"file": "a.png", "alt": "rows and columns"}
    listed = {name: {"drawn_from": "long ago", "pictures": [about]}}
    (folder / previews.LIST).write_text(json.dumps(listed))


def _shown(notebook) -> list:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_a_build_and_nbgraders_own_release_hold_the_picture_and_the_solution_does_not(course):
    cell = _with_cells(course, CALL).cells[-1]
    _kept(course, cell.id)
    build.build(course, [UNIT])
    (output,) = _shown(notebooks.read(course.released(UNIT)))
    assert output.data["text/plain"] == "rows and columns" and 'width="2" height="1"' in output.data["text/html"]
    picture = render_previews.PICTURE.search(output.data["text/html"])
    assert Image.open(io.BytesIO(base64.b64decode(picture[1]))).size == (3, 2)
    assert not _shown(notebooks.read(course.solved(UNIT)))
    assert build.drift(course, [UNIT]) == []
    assert [path.name for path in (course.notebooks / UNIT).iterdir()] == [f"{UNIT}.ipynb"]
    before = course.released(UNIT).read_bytes().strip()
    nbgrader_steps.generate_assignment(course, UNIT)
    assert course.released(UNIT).read_bytes().strip() == before


def test_a_cell_that_was_changed_has_no_picture_and_lint_says_what_to_run(course, attn):
    cell = _with_cells(course, CALL).cells[-1]
    _kept(course, cell.id)
    course.source(UNIT).write_text(course.source(UNIT).read_text().replace("row=1", "row=0"))
    build.build(course, [UNIT])
    assert not _shown(notebooks.read(course.released(UNIT)))
    lines = list(previews.problems(build.solution_notebook(course.source(UNIT)), course.source(UNIT).parent, "02"))
    assert len(lines) == 1 and "attn build --pictures 02" in lines[0] and "row=0" in lines[0]


def test_a_picture_is_out_of_date_when_what_draws_it_changes(course, monkeypatch):
    notebook = _with_cells(course, CALL)
    before = previews.drawn_from(notebook)
    assert before == previews.drawn_from(notebook) and len(before) == 1
    monkeypatch.setattr(previews, "_without_comments", lambda code: code.replace("QUERY", "KEY"))
    assert previews.drawn_from(notebook) != before


def test_comments_and_blank_lines_don_t_age_a_picture():
    assert previews._without_comments("a = 1\n\n# why\n    # more\nb = 2\n") == "a = 1\nb = 2"


@pytest.mark.parametrize(
    "source",
    [
        "plots.scores(softmax)",  # an answer
        "from tqdm import tqdm\nplots.course_map()",
        "for n in (1, 2):\n    plots.row_pairs(n=n, m=4, d=2, row=0, column=0)",
        "%matplotlib inline\nplots.course_map()",
        "1 + 1",
    ],
)
def test_cells_that_need_an_answer_or_do_more_than_draw_have_none(course, source):
    assert previews.drawn_from(_with_cells(course, source)) == {}


def test_a_picture_directly_below_a_prediction_is_not_kept(course):
    cells = _with_cells(course, "guess_row = None  # a number", CALL, CALL.replace("row=1", "row=0"))
    assert list(previews.drawn_from(cells)) == [cells.cells[-1].id]


@pytest.mark.parametrize("unit", COURSE.units())
def test_no_released_prediction_has_a_picture_below_it(unit):
    cells = notebooks.read(COURSE.released(unit)).cells
    below = [
        cell.source
        for before, cell in zip(cells, cells[1:])
        if "guess_" in before.source and before.cell_type == "code" and cell.get("outputs")
    ]
    assert below == []


def test_drawing_keeps_figures_without_texts_and_draws_nothing_twice(course):
    notebook = _with_cells(course, f"print(1)\n{CALL}")
    drawn = render_previews.draw(course, UNIT, notebook)
    assert sorted(path.suffix for path in drawn) == [".json", ".png"]
    ((name, kept),) = previews.read(course.source(UNIT).parent).items()
    assert name == notebook.cells[-1].id and "row" in kept["pictures"][0]["alt"]
    assert render_previews.draw(course, UNIT, notebook) == []
    build.build(course, [UNIT])
    assert [output.output_type for output in _shown(notebooks.read(course.released(UNIT)))] == ["display_data"]
    notebook.cells.pop()
    gone = render_previews.draw(course, UNIT, notebook)
    assert sorted(gone) == sorted(drawn) and not any(path.exists() for path in drawn)


def test_a_picture_that_differs_each_time_is_refused(course):
    notebook = _with_cells(course, f"plots.average_of_rows(weights=torch.rand(3).tolist(), rows={POINTS})")
    with pytest.raises(render_previews.CourseError, match="manual_seed"):
        render_previews.draw(course, UNIT, notebook)


@pytest.mark.parametrize("unit", COURSE.units())
def test_every_unit_shows_a_picture_and_stays_small(unit):
    cells = notebooks.read(COURSE.released(unit)).cells
    pictures = [output for cell in cells if not notebooks.nbgrader_metadata(cell) for output in cell.get("outputs", [])]
    assert pictures and len(pictures) == len(_shown(notebooks.read(COURSE.released(unit))))
    assert all('alt="' in output.data["text/html"] and 'alt=""' not in output.data["text/html"] for output in pictures)
    assert sum(len(output.data["text/html"]) for output in pictures) <= previews.LIMIT
