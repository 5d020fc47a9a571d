"""Cells that only draw are left out while grading; a cell that anything depends on never is."""

from nbformat.v4 import new_code_cell, new_notebook

from autograder.grading.skipped_cells import mark_skipped_cells
from autograder.judge.submission import SPARE

SOLUTION = {"nbgrader": {"grade_id": "softmax", "solution": True}}
DRAWS, DEFINES, LEANS = "x = data(3)\nplots.bars(x)", "scale = 2\nbase = 3", "import helpers\nscale_of = lambda: base"


def noted(*sources, marked="def softmax(x):\n    return x"):
    released = new_notebook(cells=[new_code_cell(source) for source in (DRAWS, DEFINES, LEANS)])
    cells = [new_code_cell(source) for source in sources]
    notebook = new_notebook(cells=[*cells, new_code_cell(marked, metadata=SOLUTION)])
    mark_skipped_cells(notebook, released)
    return [SPARE in cell.metadata for cell in notebook.cells]


def test_released_cells_that_define_nothing_of_use_need_not_run():
    assert noted(DRAWS, DEFINES) == [True, True, False]


def test_a_local_name_is_not_a_global_one():
    assert noted(DRAWS, marked="def softmax(x):\n    return x + 1") == [True, False]


def test_what_an_answer_reads_runs_and_so_does_what_that_leans_on():
    assert noted(DRAWS, DEFINES, marked="def softmax(x):\n    return x * scale") == [True, False, False]
    assert noted(DEFINES, LEANS, marked="def softmax(x):\n    return scale_of()") == [False, False, False]


def test_changed_and_new_cells_run():
    assert noted(DRAWS + " ", "print(1)") == [False, False, False]


def test_nothing_is_left_out_where_a_cell_cannot_be_read():
    assert noted(DRAWS, "%timeit softmax(1)") == [False, False, False]


def test_a_students_own_mark_counts_for_nothing():
    released = new_notebook()
    notebook = new_notebook(cells=[new_code_cell("def softmax(x): ...", metadata={SPARE: True})])
    mark_skipped_cells(notebook, released)
    assert SPARE not in notebook.cells[0].metadata
