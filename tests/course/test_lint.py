"""`attn lint`: each mistake that an author can make is one line with the file, the cell and what to do."""

import pytest
from conftest import UNIT

from autograder.course.lint import lint

WRITTEN = '"schema_version": 3, "solution": true'
SCHEME = "# ### BEGIN MARK SCHEME\n# One point for naming the dot product.\n# ### END MARK SCHEME\n"


def _lint(course, old: str, new: str, times: int = 1) -> list[str]:
    source = course.source(UNIT)
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new, times))
    return lint(course, [UNIT])


def test_the_small_course_is_clean(fresh_course):
    assert lint(fresh_course, [UNIT]) == []


@pytest.mark.parametrize(
    ("old", "new", "cell", "says"),
    [
        ('"grade_id": "attend"', '"grade_id": "softmax"', "softmax", "given 2 times"),
        ("softmax, points=2)\n", "softmax, points=3)\n", "softmax_test", "points=3 in the code"),
        ("points=2, cases", "points=1, cases", "softmax_test", "points=1 in the code, 2 in the metadata"),
        ("### END SOLUTION", "", "softmax", "BEGIN SOLUTION and END SOLUTION don't come in pairs"),
        ("### BEGIN SOLUTION", "## BEGIN SOLUTION", "softmax", "is no marker"),
        ("### END MARK SCHEME", "", "why_same_size_question", "don't come in pairs"),
        ("### BEGIN HIDDEN TESTS", "", "softmax_test", "don't come in pairs"),
        ("check.attend(attend", "check.softmax(attend", "attend_test", "should call check.attend"),
        ("points=2, cases=hidden.softmax", "points=2", "softmax_test", "must call check.softmax twice"),
        ("(softmax, points=2, cases", "(attend, points=2, cases", "softmax_test", "different answers"),
        ('"softmax_test", "locked": true', '"softmax_test", "locked": false', "softmax_test", "locked"),
        ('"points": 3, ' + WRITTEN, WRITTEN, "why_same_size", "no points"),
        ("check.softmax(softmax, points=2)\n", "check.softmax(softmax points=2)\n", "softmax_test", "not Python"),
        (SCHEME, "#\n", "why_same_size", "mark scheme"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_cell(fresh_course, old, new, cell, says):
    problems = _lint(fresh_course, old, new)
    assert any(f"cell {cell}:" in problem and says in problem for problem in problems), problems
    assert all(problem.startswith(f"solutions/{UNIT}/{UNIT}.py: ") for problem in problems)


def test_an_exercise_without_check_or_hidden_cases(fresh_course):
    problems = _lint(fresh_course, "attend", "attends", times=-1)
    assert any("there is no check.attends in helpers/*/checks" in problem for problem in problems)
    assert any("exercise attend of the syllabus is missing" in problem for problem in problems)
    assert any("exercise attends is not in the syllabus" in problem for problem in problems)


def test_the_points_of_a_unit_are_those_of_the_syllabus(fresh_course):
    problems = _lint(
        fresh_course,
        '"points": 3, ' + WRITTEN,
        '"points": 4, ' + WRITTEN,
    )
    assert problems == [
        f"solutions/{UNIT}/{UNIT}.py: its cells have 10 points together, the syllabus says 9: change one of them"
    ]


def test_mark_schemes_may_be_html_comments(fresh_course):
    text = fresh_course.source(UNIT).read_text()
    for word in ("BEGIN", "END"):
        text = text.replace(f"# ### {word} MARK SCHEME", f"# <!-- {word} MARK SCHEME -->")
    fresh_course.source(UNIT).write_text(text)
    assert lint(fresh_course, [UNIT]) == []


def test_the_command_exits_1_and_counts(fresh_course, attn):
    _lint(fresh_course, "### END SOLUTION", "")
    result = attn(fresh_course, "lint")
    assert result.exit_code == 1 and "problem" in result.output and "Traceback" not in result.output


def test_the_course_itself_is_clean(real_course):
    assert lint(real_course, real_course.units()) == []
