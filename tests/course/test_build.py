"""`attn build`: the same bytes every time, nothing of the solution in the release, drift found and named."""

import json

from conftest import UNIT

from autograder import notebooks
from autograder.course import build
from autograder.course.repository_url import FOLDED


def _bytes(course):
    return {path.relative_to(course.root): path.read_bytes() for path in course.root.rglob("*.ipynb")}


def test_two_builds_make_the_same_bytes(fresh_course):
    build.build(fresh_course, [UNIT])
    first = _bytes(fresh_course)
    for path in fresh_course.root.rglob("*.ipynb"):
        path.unlink()
    build.build(fresh_course, [UNIT])
    assert _bytes(fresh_course) == first and len(first) == 2


def test_a_second_build_writes_nothing(course):
    assert build.build(course, [UNIT]) == []


def test_a_cell_that_moves_keeps_its_id(course):
    before = {cell.source: cell.id for cell in notebooks.read(course.solved(UNIT)).cells}
    source = course.source(UNIT)
    source.write_text("# %% [markdown]\n# A new first cell.\n\n" + source.read_text())
    build.build(course, [UNIT])
    after = {cell.source: cell.id for cell in notebooks.read(course.solved(UNIT)).cells}
    assert {text: after[text] for text in before} == before


def test_equal_cells_have_different_ids(course):
    with course.source(UNIT).open("a") as file:
        file.write("\n# %% [markdown]\n# Again.\n\n# %% [markdown]\n# Again.\n")
    build.build(course, [UNIT])
    ids = [cell.id for cell in notebooks.read(course.released(UNIT)).cells]
    assert len(set(ids)) == len(ids)


def test_the_release_holds_no_solution_no_hidden_test_and_no_mark_scheme(course):
    text = course.released(UNIT).read_text().replace("source_hidden", "")  # a folded cell
    for secret in ("BEGIN", "hidden", "amax", "One point for naming", "dot product, which needs"):
        assert secret not in text
    assert "raise NotImplementedError" in text and "*Your answer here.*" in text


def test_the_pair_has_the_whole_solution_and_no_trace_of_jupytext(course):
    content = json.loads(course.solved(UNIT).read_text())
    assert set(content["metadata"]) == {"kernelspec", "language_info"}
    assert all(set(cell["metadata"]) <= {"nbgrader", "tags", *FOLDED} for cell in content["cells"])
    assert "### BEGIN HIDDEN TESTS" in course.solved(UNIT).read_text()


def test_other_files_of_a_unit_are_released_and_the_source_is_not(course):
    (course.solutions / UNIT / "numbers.csv").write_text("1,2\n")
    build.build(course, [UNIT])
    assert (course.notebooks / UNIT / "numbers.csv").read_text() == "1,2\n"
    assert not list(course.notebooks.rglob("*.py"))
    assert build.drift(course, [UNIT]) == []
    (course.solutions / UNIT / "numbers.csv").unlink()
    build.build(course, [UNIT])
    assert not (course.notebooks / UNIT / "numbers.csv").exists()


def test_check_is_silent_where_nothing_drifted(course, attn):
    assert attn(course, "build", "--check").exit_code == 0


def test_check_names_every_file_that_a_change_of_the_solution_touches(course, attn):
    source = course.source(UNIT)
    source.write_text(source.read_text().replace("Softmax over one axis.", "Softmax."))
    before = _bytes(course)
    result = attn(course, "build", "--check")
    assert result.exit_code == 1
    assert f"solutions/{UNIT}/{UNIT}.ipynb differs" in result.output
    assert f"notebooks/{UNIT}/{UNIT}.ipynb differs" in result.output
    assert _bytes(course) == before


def test_check_names_a_notebook_without_a_source(course, attn):
    (course.notebooks / "09_gone").mkdir()
    (course.notebooks / "09_gone" / "09_gone.ipynb").write_text("{}")
    result = attn(course, "build", "--check")
    assert result.exit_code == 1 and "notebooks/09_gone has no source any more" in result.output


def test_a_source_that_nbgrader_refuses_is_one_clear_line(course, attn):
    source = course.source(UNIT)
    source.write_text(source.read_text().replace("### END SOLUTION", "", 1))
    result = attn(course, "build")
    assert result.exit_code == 1
    assert f"solutions/{UNIT}/{UNIT}.py" in result.output and "Traceback" not in result.output


def test_a_build_touches_no_gradebook(course):
    build.build(course, [UNIT])
    assert not (course.classroom / "gradebook.db").exists()


def test_the_first_cell_lists_sections_minutes_and_points_as_headings_and_cells_have_them(course):
    intro = notebooks.read(course.released(UNIT)).cells[0].source
    assert "4 sections and questions, about 20 min, 9 points" in intro and "| 2.2 Attend | 5 | 3 |" in intro
    assert "What is in it" not in course.source(UNIT).read_text()


def test_a_written_question_has_a_row_of_its_own_so_that_no_section_seems_to_cost_more_than_its_heading_says(course):
    with course.source(UNIT).open("a") as file:
        file.write("\n# %% [markdown]\n# ### Why?  ●○○ · 5 min · 1 point\n#\n# Say it in a sentence.\n")
    build.build(course, [UNIT])
    intro = notebooks.read(course.released(UNIT)).cells[0].source
    assert "– Why? | 5 | 0 |" in intro and "| 2.2 Attend | 5 | 3 |" in intro
