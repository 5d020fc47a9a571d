"""Where a student stands: counted in a notebook alone, never where a score is made."""

import json
from types import SimpleNamespace

import pytest
from conftest import ROOT

from autograder import notebooks
from helpers import check, progress
from helpers.engine.mime import MIME

RIGHT = {
    "pairwise_dot": lambda a, b: a @ b.T,
    "read_shape": lambda: ((2, 3, 5), (2, 6, 3, 8), (2, 3, 6, 7), (4,), (5, 3)),
}


@pytest.fixture
def kernel(monkeypatch):
    """A notebook's kernel that has seen nothing yet. Gives what it displays."""
    import IPython

    shown = []
    handle = SimpleNamespace(update=shown.append)
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", lambda what, display_id: shown.append(what) or handle)
    monkeypatch.setattr(progress, "_seen", {})
    monkeypatch.setattr(progress.Door, "first", True)
    return shown


def html(score) -> str:
    return score._repr_mimebundle_()["text/html"]


def test_a_line_below_the_card_says_the_sum_and_the_next_step(kernel):
    score = check.pairwise_dot(RIGHT["pairwise_dot"], points=1)
    assert score.below == "1 of 4 points; next: 0.2 Weighted averages" and score.below in html(score)
    wrong = check.pairwise_dot(lambda a, b: b @ a.T, points=1)  # what was checked last counts
    assert wrong.below == f"{float(wrong):g} of 4 points" and float(wrong) < 1
    assert check.read_shape(RIGHT["read_shape"], points=1).below.endswith("; next: 0.1 All dot products")


def test_the_first_check_says_that_it_loads_and_takes_the_words_back(kernel):
    for _ in range(2):
        check.pairwise_dot(RIGHT["pairwise_dot"], points=1)
    assert [one.data for one in kernel] == [f'<span style="opacity:.75">{progress.LOADING}</span>', ""]


def test_what_earns_nothing_leaves_no_line(kernel):
    assert check.row_means(lambda x: x.mean(-1), points=1).below == "" and progress._seen == {}


def test_the_table_tells_done_open_and_what_a_person_reads(kernel):
    assert "No check has run" in repr(check.progress())
    check.softmax(check.softmax.reference, points=2)
    table = check.progress()
    words = repr(table)
    assert "2 of 30 points since this kernel started" in words and "marked by a person" in words
    states = {one.id: one.state for one in table.graded}
    assert (
        states["softmax"] == "done" and states["attend"] == "open" and states["why_same_size"] == "marked by a person"
    )
    assert repr(check.progress(unit=2)) == words == repr(check.progress("02_qkv_attention"))
    page = table._repr_html_()
    assert all(one.id in page for one in table.graded) and "next" in page.lower()
    assert "There is no unit 77" in repr(check.progress(77))


def test_where_everything_is_green_it_says_so(kernel):
    check.pairwise_dot(RIGHT["pairwise_dot"], points=1)
    check.read_shape(RIGHT["read_shape"], points=1)
    score = check.weighted_rows(lambda w, x: w @ x / w.sum(-1, keepdim=True), points=2)
    assert score.below == "4 of 4 points; all checks of this unit are green"
    assert "save, and hand in" in repr(check.progress())


def test_no_part_of_a_score(kernel):
    """A program reads of a score what it read before; with the grader's cases nothing is counted."""
    score = check.pairwise_dot(RIGHT["pairwise_dot"], points=1)
    assert (
        "below" not in json.dumps(score._repr_mimebundle_()[MIME]) and score._repr_mimebundle_()["text/plain"] == "1.0"
    )
    progress._seen.clear()
    assert check.pairwise_dot(RIGHT["pairwise_dot"], points=1, cases=[check.pairwise_dot.cases[0]]).below == ""
    assert progress._seen == {}


def test_outside_of_a_notebook_a_check_is_itself():
    assert not isinstance(check.pairwise_dot, progress.Door)
    assert check.pairwise_dot(RIGHT["pairwise_dot"], points=1).below == "" and progress._seen == {}


def test_a_name_that_no_check_has_is_told_the_nearest(kernel):
    with pytest.raises(AttributeError, match="pairwise_dot"):
        check.pairwise_dots  # noqa: B018


def test_every_graded_cell_is_counted_with_its_points(real_course):
    for unit in real_course.units():
        cells = [
            c for c in notebooks.read(ROOT / "notebooks" / unit / f"{unit}.ipynb").cells if notebooks.flag(c, "grade")
        ]
        found = progress.graded(unit[:2])
        assert [(one.id, one.points, one.written) for one in found] == [
            (notebooks.exercise_id(c), notebooks.points(c), notebooks.is_written(c)) for c in cells
        ]
        assert all(one.number.startswith(f"{int(unit[:2])}.") for one in found)


def test_every_unit_ends_with_it(real_course):
    for unit in real_course.units():
        assert notebooks.read(real_course.released(unit)).cells[-1].source == f"check.progress(unit={int(unit[:2])})"
