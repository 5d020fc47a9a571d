"""`attn lint`: each mistake that an author can make is one line with the file, the cell and what to do."""

from dataclasses import replace

import pytest
from conftest import UNIT

from autograder.course import hint_files
from autograder.course import lint as linting
from autograder.course.lint import lint
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

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
        ("cases=hidden.softmax", "cases=hidden.attend", "softmax_test", "by its id it should be cases=hidden.softmax"),
        ("import qkv_attention", "import masking", "softmax_test", "must come from this unit"),
        ('"softmax", "locked": false', '"softmax", "locked": true', "softmax", "nobody could write in it"),
        (
            "from helpers import check\n",
            "from helpers import check\nplots.softmax_step\n",
            "setup",
            "is it softmax_steps?",
        ),
        (
            "check.softmax(softmax, points=2)\n",
            "plots.nothing_like_it()\n",
            "softmax_test",
            "name it in its module's __all__",
        ),
    ],
)
def test_a_mistake_is_named_with_its_cell(fresh_course, old, new, cell, says):
    problems = _lint(fresh_course, old, new)
    assert any(f"cell {cell}:" in problem and says in problem for problem in problems), problems
    assert all(problem.startswith(f"solutions/{UNIT}/{UNIT}.py: ") for problem in problems)


def test_an_exercise_without_check_or_hidden_cases(fresh_course):
    problems = _lint(fresh_course, "attend", "attends", times=-1)
    assert any("there is no check.attends in helpers/*/checks" in problem for problem in problems)
    assert any("exercise attend of the syllabus is missing" in problem for problem in problems)
    assert any("exercise attends is not in the syllabus" in problem for problem in problems)


HEADER = '# %% nbgrader={"grade": false, "grade_id": "softmax", "locked": false, "schema_version": 3, "solution": true}'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            '"grade_id": "softmax", "locked": false',
            '"grade_id": "softmax" "locked": false',
            'no JSON at \'"locked": false',
        ),
        ('"grade_id": "softmax", "locked": false', '"grade_id": "softmax", "locked": False', "no JSON at 'False"),
        ('"grade_id": "softmax"', '"gradeid": "softmax"', "nbgrader knows no key 'gradeid' (is it 'grade_id'?)"),
        ('"locked": false, ', "", "the header lacks locked"),
        ('"locked": false', '"locked": "false"', "'locked' is \"false\", which is no truth value"),
        ("nbgrader=", "nbgrade=", "the header sets 'nbgrade' (is it 'nbgrader'?)"),
    ],
)
def test_a_header_that_cannot_be_read_is_one_line_with_its_number(fresh_course, old, new, says):
    number = fresh_course.source(UNIT).read_text().split("\n").index(HEADER) + 1
    (problem,) = _lint(fresh_course, HEADER, HEADER.replace(old, new))
    assert problem.startswith(f"solutions/{UNIT}/{UNIT}.py: line {number}: ") and says in problem


@pytest.mark.parametrize("ending", ["check", "tests"])
def test_another_ending_of_a_test_cell_is_one_mistake(fresh_course, ending):
    problems = _lint(fresh_course, '"softmax_test"', f'"softmax_{ending}"')
    assert problems == [
        f"solutions/{UNIT}/{UNIT}.py: cell softmax_{ending}: a test cell's grade_id is the exercise's id with _test: "
        f"softmax_test"
    ]


def test_fewer_than_two_alternatives(fresh_course, monkeypatch):
    from autograder.alternatives import qkv_attention

    monkeypatch.setattr(qkv_attention, "attend", dict(list(qkv_attention.attend.items())[:1]))
    monkeypatch.delattr(qkv_attention, "softmax")
    assert lint(fresh_course, [UNIT]) == [
        f"solutions/{UNIT}/{UNIT}.py: cell {name}_test: autograder/alternatives/qkv_attention.py has {count} {name}: "
        "write right answers in 2 other styles at least"
        for name, count in (("softmax", "no"), ("attend", "1"))
    ]


def test_two_misconceptions_with_one_name(fresh_course, monkeypatch):
    from helpers import check

    first, second, *rest = check.softmax.misconceptions
    monkeypatch.setattr(check.softmax, "misconceptions", (first, replace(second, name=first.name), *rest))
    (problem,) = lint(fresh_course, [UNIT])
    assert f"check.softmax has 2 misconceptions named '{first.name}'" in problem


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "5 min · 2 points",
            "5 min · 3 points",
            "section 2.1 'Softmax' states 3 points, the metadata of softmax_test 2",
        ),
        (
            "5 min · 1 point",
            "5 min",
            "section 2.3 'Two words' states no points, the metadata of two_word_example_test 1",
        ),
        ("9 points to earn", "8 points to earn", "the intro says '8 points to earn', and the unit's cells have 9"),
        ("You have 9 points to earn.", "", "the intro says nowhere 'N points to earn'"),
        ("# ## 2.2 Attend", "# ## 2.3 Attend", "the heading of section 2.3 should be numbered 2.2"),
        (
            "# ## 2.1 Softmax",
            "# Another one.\n#\n# ### 2.8 Softmax\n#\n# ## 2.1 Softmax",
            "section 2.8 must be of the second level",
        ),
        (
            "You have 9 points",
            "You have about 2½ hours, and 9 points",
            "the intro says 'You have about 2½ hours', and the headings have 20 min together",
        ),
        ("# ## 2.2 Attend", "# As in section 2.9.\n#\n# ## 2.2 Attend", "speaks of section 2.9, and no heading has"),
    ],
)
def test_points_and_numbers_in_the_text_are_those_of_the_cells(fresh_course, old, new, says):
    (problem,) = _lint(fresh_course, old, new)
    assert says in problem


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("What exactly is checked</summary>\n#\n# - Any shape", "Terms</summary>\n#\n# - Any", "one fold, the last of"),
        ("any `dim`.\n# </details>\n", "any `dim`.\n# </details>\n#\n# And more.\n", "one fold, the last of its cell"),
        ("# - Any shape and any `dim`.\n", "# Any shape.\n", "has 0 lines that begin with `- `; write 1 to 8"),
        ("# - Any shape", 8 * "# - Any.\n" + "# - Any shape", "has 9 lines that begin with `- `"),
        ('"""Softmax over one axis."""', f'"""{90 * "x"}"""', "a line of the stub has 100 columns"),
        ("# Why must", "# Softmax normalises. Why must", "“normalises”: American spelling has -ize"),
        ("# Why must", "# In 2.1 it is so, in 2.2 alone. Why must", "“in 2.2 alone”: English says `only in 2.5`"),
        ("# Why must", "# It holds 8 bytes a token. Why must", "“bytes a token”: say `per`"),
    ],
)
def test_terms_stand_in_their_fold_and_words_are_american(fresh_course, old, new, says):
    problems = _lint(fresh_course, old, new)
    assert len(problems) == 1 and says in problems[0], problems


def test_a_long_line_of_the_answer_and_code_in_the_text_are_let_alone(fresh_course):
    assert _lint(fresh_course, "    e = (x", f"    # {90 * 'x'}\n    e = (x") == []
    assert _lint(fresh_course, "# Why must", "# `normalised` $colour$ Why must") == []


@pytest.mark.parametrize(
    ("row", "says"), [("| x | 9 |", ""), ("| x | 7 |", "README.md says 7"), ("", "has no row for it")]
)
def test_the_points_in_the_table_of_the_readme(fresh_course, row, says):
    line = f"| [02](notebooks/{UNIT}/{UNIT}.ipynb) {row}\n" if row else "No table.\n"
    (fresh_course.root / "README.md").write_text(line)
    problems = lint(fresh_course, [UNIT])
    assert (says in problems[0] and len(problems) == 1) if says else problems == []


def test_a_picture_that_waits_for_an_unknown_exercise(fresh_course, tmp_path, monkeypatch):
    folder = tmp_path / "plots"
    folder.mkdir()
    (folder / "a.py").write_text('@waits_for("softmx")\ndef a(): ...\n\n\n@waits_for("softmax")\ndef b(): ...\n')
    monkeypatch.setattr(linting, "room_files", lambda unit: [folder / "a.py"])
    assert lint(fresh_course, [UNIT]) == [
        f"{folder / 'a.py'}:1: waits_for takes ids of exercises, and 'softmx' is none: is it 'softmax'?"
    ]


def test_a_picture_that_does_not_say_what_it_shows(fresh_course, tmp_path, monkeypatch):
    folder = tmp_path / "plots"
    folder.mkdir()
    (folder / "a.py").write_text('__all__ = ["a"]\n\n\ndef a():\n    plt.show()\n\n\ndef _part(): ...\n')
    monkeypatch.setattr(linting, "room_files", lambda unit: [folder / "a.py"])
    first, second = lint(fresh_course, [UNIT])
    assert first.startswith(f"{folder / 'a.py'}:4: a has no docstring") and second.startswith(
        f"{folder / 'a.py'}:5: plt.show()"
    )


def test_what_is_to_be_filled_in_is_named_with_its_line(fresh_course):
    assert _lint(fresh_course, '"""Softmax over one axis."""', '"""TO FILL IN softmax: what it does."""') == [
        f"solutions/{UNIT}/{UNIT}.py:17: to fill in: what it does."
    ]


def test_the_points_of_a_unit_are_those_of_the_syllabus(fresh_course):
    problems = _lint(fresh_course, '"points": 3, ' + WRITTEN, '"points": 4, ' + WRITTEN)
    assert problems[0] == (
        f"solutions/{UNIT}/{UNIT}.py: its cells have 10 points together, the syllabus says 9: change one of them"
    )
    assert len(problems) == 3 and "heading" in problems[1] and "intro" in problems[2]


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


def test_hints_beside_a_check(monkeypatch, tmp_path):
    folder = tmp_path / "helpers" / "qkv_attention" / "checks"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text(
        "## one: the first\nWords.\n\n## one: again\nWords.\n\n# two\n\n## three: nobody's\nWords.\n"
    )
    monkeypatch.setattr(hint_files, "HELPERS", tmp_path / "helpers")
    monkeypatch.setattr(hint_files, "_checks", lambda unit: [Check(len, [], wrong_answers("no.py", one=len))])
    assert [problem.split(": ", 1)[1] for problem in list(hint_files.problems(UNIT))[1:]] == [
        "`# two` is no heading of a hint: write `## key: name`",
        "one stands there 2 times",
        "three belongs to no wrong answer",
    ]
