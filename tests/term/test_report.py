"""The report: its numbers are the gradebook's, it says who and what, and nothing that a student wrote does anything in
it."""

import html
import re
import shutil
import statistics

import pytest
from conftest import UNIT, right_answers
from downloads import put

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.gradebook import roster as rosters
from autograder.grading import gradebook_writer
from autograder.reports import class_statistics, report, similarity, suspicious_code
from autograder.reports.oral_questions import MOST, QUESTIONS, oral_questions
from autograder.reports.remediation_groups import remediation_groups
from autograder.site import markdown_html
from helpers.engine.mime import MIME

EVIL = "</pre><script>alert(1)</script>"
OWN = """def softmax(x, dim):
    table = {}
    for place in range(x.shape[dim]):
        table[place] = (x.select(dim, place) * 3 + 1, place ** 2)
        if place % 7 == 3 and len(table) > 4:
            table.pop(place - 3)
    while len(table) > 2:
        first, second = table.popitem(), table.popitem()
        table[first[0] + second[0]] = first[1][0] - second[1][0] / (1 + abs(first[0]))
    return [table.get(key, None) for key in sorted(table)][-1]
"""
RENAMED = (
    OWN.replace("table", "data").replace("place", "i").replace("first", "a").replace("second", "b").replace("key", "k")
)
# points of softmax, attend, two_word_example, why_same_size; diagnosis of softmax; its source; the written answer
CLASS = {
    "ada": ((2, 3, 1, 3), None, None, "The score is a dot product. " * 5),
    "bea": ((0.5, 3, 1, 2), "no maximum", "def softmax(x, dim):\n    return x.exp()", "one"),
    "cem": ((0.5, 0, 1, 1), "no maximum", "def softmax(x, dim):\n    return inspect.getsource(x)", "two"),
    "dan": ((0, 3, 0, 0), None, OWN, EVIL * 3),
    "eve": ((0, 0, 0, 0), None, RENAMED, EVIL * 3),
    EVIL[6:]: ((0, 0, 1, 1), None, f"# {EVIL}\ndef softmax(x, dim): return x", "three"),
}


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    course = Course((tmp_path_factory.mktemp("report") / "course").resolve())
    shutil.copytree(built.root, course.root, ignore=shutil.ignore_patterns("class"))
    gradebook_writer.register(course, UNIT)
    roster = "student_id,last_name,first_name\n" + "".join(f"{name},L,F\n" for name in ("ada", "zoe"))
    rosters.save_roster(course, rosters.read_roster(put(course.root / "roster.csv", roster.encode())))
    for student, row in CLASS.items():
        _put(course, student.replace("/", "|"), *row)
    return course


def _put(course, student, points, diagnosis, source, written):
    """A student as `attn grade` leaves one behind."""
    with nbgrader_steps.open_gradebook(course) as gradebook:
        gradebook.update_or_create_student(student)
        one = gradebook.update_or_create_submission(UNIT, student)
        named = dict(
            zip(("softmax_test", "attend_test", "two_word_example_test", "why_same_size"), points, strict=True)
        )
        for grade in one.notebooks[0].grades:
            by_hand = grade.name == "why_same_size"
            setattr(grade, "manual_score" if by_hand else "auto_score", float(named[grade.name]))
            grade.needs_manual_grade = False
        gradebook.db.commit()
    notebook = notebooks.read(course.released(UNIT))
    answers = right_answers(course) | {"why_same_size": written} | ({"softmax": source} if source else {})
    for cell in notebook.cells:
        name = notebooks.grade_id(cell)
        cell.source = answers.get(name, cell.source)
        if notebooks.is_test(cell):
            said = {
                "score": float(named[name]),
                "points": notebooks.points(cell),
                "diagnosis": diagnosis if name == "softmax_test" else None,
                "message": "your answer is 7",
                "failed": ["rows sum to 1"],
            }
            cell.outputs = [notebooks.nbformat.v4.new_output("execute_result", data={MIME: said})]
    if diagnosis:
        notebook.metadata[notebooks.STAMP] = {"repairs": ["cell attend_test was missing and has been put back"] * 2}
    notebooks.write(notebook, course.graded(student, UNIT))


@pytest.fixture(scope="module")
def found(graded):
    return class_statistics.class_statistics(graded, UNIT)


def test_difficulty_and_discrimination(found):
    items = {item.id: item for item in found.items}
    assert list(items) == ["softmax", "attend", "two_word_example", "why_same_size"]
    attend = [points[1] for points, *_ in CLASS.values()]
    rest = [sum(points) - points[1] for points, *_ in CLASS.values()]
    assert items["attend"].difficulty == pytest.approx(sum(attend) / 3 / len(attend))
    assert items["attend"].discrimination == pytest.approx(statistics.correlation(attend, rest))
    assert (items["attend"].full, items["attend"].none) == (3, 3)
    assert class_statistics.correlation([1.0, 1.0], [0.0, 2.0]) is None


def test_misconceptions_and_behaviours(found):
    assert found.misconceptions == [("softmax", "no maximum", ["bea", "cem"])]
    first = found.unnamed[0]
    assert first.exercise in ("attend", "softmax") and len(first.students) == 3 and first.failed == ("rows sum to 1",)
    groups = {one.exercise: set(one.students) for one in found.unnamed}
    assert {"dan", "eve"} < groups["softmax"] and groups["two_word_example"] == {"dan", "eve"}
    assert found.missing == ["zoe"] and found.lost["cem"] == ["softmax", "attend", "why_same_size"]


def test_a_renamed_copy_is_found_and_what_everybody_may_write_is_not(found):
    assert [(pair.first, pair.second) for pair in found.pairs] == [("dan", "eve")]
    assert found.pairs[0].share == 1.0
    assert [(name, who) for name, who, _ in found.equal] == [("why_same_size", ["dan", "eve"])]


def test_no_two_answers_of_a_class_in_its_own_styles_are_similar():
    """What a tenth of the class has is a way to write it."""
    code = OWN + OWN.replace("3", "4")
    assert similarity.similar_pairs({f"s{n}": code for n in range(40)}, []) == []
    assert len(similarity.similar_pairs({f"s{n}": code for n in range(2)}, [])) == 1
    assert similarity.similar_pairs({"a": OWN, "b": OWN}, [OWN]) == []
    assert similarity.fingerprints("def broken(:\n  '''") == set() and similarity.fingerprints("") == set()


def test_the_page_shows_it_and_runs_nothing(graded, found):
    text = report.page(graded, [found])
    assert "<script" not in text and "alert(1)" in text and html.escape(EVIL, quote=False)[:12] in text
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", text) and "default-src 'none'" in text
    assert "dan and eve" in text and "no proof" in text and "point-biserial" in text
    assert "<b>Nothing handed in (1):</b> zoe" in text


def test_who_shares_misconceptions_is_taught_together():
    held = {"ada": "abc", "bea": "abd", "cem": "ab", "dan": "cd", "eve": "cd", "fay": "e", "gus": ""}
    groups = remediation_groups({name: frozenset(items) for name, items in held.items()})
    assert [(one.students, one.shared) for one in groups] == [
        (("ada", "bea", "cem"), ("a", "b")),
        (("dan", "eve"), ("c", "d")),
    ]
    assert groups[1].share == 1.0 and groups[0].share == pytest.approx((2 / 4 + 2 / 3 + 2 / 3) / 3)
    assert remediation_groups({}) == [] and remediation_groups({"ada": frozenset("ab")}) == []


def test_code_that_reaches_for_more_is_listed_and_what_everybody_was_given_is_not():
    code = (
        "import inspect, torch\nimport helpers\ny = check.softmax(f, points=2)  # inspect\ncheck.softmax = print\n"
        "'eval'\n"
    )
    code += (
        "setattr(\n    helpers.check, 'softmax', print)\nsetattr(self, 'weight', 1)\nmodel.eval()\neval('1')\nwhile ((("
    )
    told = ["import inspect, torch", "check.softmax = print", "setattr(", "eval('1')"]
    assert suspicious_code.suspicious_lines(code) == told
    assert suspicious_code.suspicious_lines(code, ["import  inspect, torch"]) == told[1:]


def test_repairs_and_reaching_code_stand_on_the_page(graded, found):
    assert found.repairs == [("cell attend_test was missing and has been put back", ["bea", "cem"])]
    assert found.beyond == [("cem", ["return inspect.getsource(x)"])]
    text = report.page(graded, [found])
    assert "attend_test was missing" in text and "inspect.getsource" in text and "No two students share" in text


def test_questions_are_about_lines_that_the_student_wrote(graded, found):
    for student, asked in found.questions.items():
        code = "\n".join([CLASS[student.replace("|", "/")][2] or "", *right_answers(graded).values()])
        assert all(line in code and question in QUESTIONS.values() for line, question in asked)
    asked = oral_questions(OWN)
    assert 0 < len(asked) <= MOST and all(line in OWN for line, _ in asked) and asked == oral_questions(OWN)
    assert len({question for _, question in asked}) == len(asked)
    assert oral_questions(OWN, OWN.splitlines()) == oral_questions("def (") == []
    assert "Questions to ask" in report.page(graded, [found])


def test_what_to_revise_leads_into_the_pages_of_the_site(graded, found, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_index", lambda _: {"softmax": ["2.1", "Softmax"], "attend": ["2.3", "Mixing"]})
    text = report.page(graded, [found], "https://example.org/course")
    assert f'<a href="https://example.org/course/{UNIT}/index.html#s2-1">2.1</a>' in text
    assert 'href="#e-softmax">2.1</a>' in report.page(graded, [found])
    with pytest.raises(CourseError, match="has no index.html"):
        report.report(graded, [UNIT], tmp_path / "r.html", str(tmp_path))
    (tmp_path / "index.html").write_text("")
    report.report(graded, [UNIT], tmp_path / "r.html", str(tmp_path))
    assert f"{tmp_path.as_uri()}/{UNIT}/index.html#s2-1" in (tmp_path / "r.html").read_text()


def test_the_names_of_sections_are_those_of_the_site():
    assert markdown_html.html("## 2.4 Make attention choose  ●●○ · 15 min · 3 points")[1][0].name == "s2-4"


def test_the_command(graded, attn, tmp_path):
    done = attn(graded, "report", "02", "--into", str(tmp_path / "r.html"))
    assert done.exit_code == 0 and (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
