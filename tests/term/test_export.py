"""What leaves the gradebook: every number is the gradebook's, files of a learning management system keep what is
theirs."""

import csv
import io
import os
import shutil
from datetime import datetime

import pytest
from conftest import UNIT
from downloads import put
from nbgrader.api import Assignment, Grade

from autograder import csv_files, notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.exports.export import LONG, export
from autograder.gradebook import grades
from autograder.gradebook import roster as rosters
from autograder.grading import gradebook_writer
from autograder.lms import attempts
from autograder.lms.attempts import Attempt

ROSTER = """student_id,last_name,first_name,email,canvas_id,sis_user_id,section,status
ada,Lovelace,Ada,ada@x.org,101,S1,A,
bob,"=HYPERLINK(""http://x"")",Bob,bob@x.org,102,S2,A,
cyd,O'Neill,Cyd,cyd@x.org,,S3,B,
dan,Gone,Dan,dan@x.org,104,S4,B,dropped
eva,Sick,Eva,eva@x.org,105,S5,B,excused
fay,Away,Fay,fay@x.org,106,S6,B,
"""
POINTS = {"ada": (3.0, 2.75, 1.0, 0.5), "bob": (1 / 3, 0.0, 0.0, 2.0), "dan": (1.0, 1.0, 1.0, 1.0)}
"""Student → points of the unit's cells, in the gradebook's order."""


def _grade(course, student: str, points, late_penalty=None, manual: bool = True, **more):
    """A submission in the gradebook as `attn grade` and a marker leave it."""
    with nbgrader_steps.open_gradebook(course) as gradebook:
        gradebook.update_or_create_student(student)
        submission = gradebook.update_or_create_submission(UNIT, student, **more)
        (notebook,) = submission.notebooks
        notebook.late_submission_penalty = late_penalty
        for value, cell in zip(points, sorted(notebook.grades, key=lambda one: one.name), strict=False):
            if cell.cell_type == "code":
                cell.auto_score, cell.needs_manual_grade = value, False
            elif manual:
                cell.manual_score, cell.needs_manual_grade = value, False
            else:
                cell.auto_score, cell.needs_manual_grade = None, True
        gradebook.db.commit()


@pytest.fixture(scope="module")
def graded_once(built, tmp_path_factory):
    """A class of six, graded and marked. Tests change copies of it."""
    folder = tmp_path_factory.mktemp("graded")
    shutil.copytree(built.root, folder / "course", ignore=shutil.ignore_patterns("class"))
    course = Course((folder / "course").resolve())
    gradebook_writer.register(course, UNIT)
    rosters.save_roster(course, rosters.read_roster(put(folder / "roster.csv", ROSTER.encode())))
    for student, points in POINTS.items():
        _grade(course, student, points)
    put(course.submission("cyd", UNIT), b"broken")
    return course


@pytest.fixture
def graded(graded_once, tmp_path):
    shutil.copytree(graded_once.root, tmp_path / "course")
    return Course((tmp_path / "course").resolve())


def _score(course, student):
    """As nbgrader's own export has it."""
    with nbgrader_steps.open_gradebook(course) as gradebook:
        one = gradebook.find_submission(UNIT, student)
        return max(0.0, one.score - (one.late_submission_penalty or 0.0))


def _rows(text: str, separator=","):
    return list(csv.DictReader(io.StringIO(text.lstrip("\ufeff")), delimiter=separator))


def _long(course, **options):
    done = export(course, [UNIT], "csv", None, None, options.get("with_open", False))
    return {row["student_id"]: row for row in _rows(done.path.read_text(encoding="utf-8"))}, done


# ---------------------------------------------------------------- the long table


def test_the_long_table_says_what_the_gradebook_says(graded):
    rows, done = _long(graded)
    assert list(rows) == ["ada", "bob", "cyd", "dan", "eva", "fay"] and list(rows["ada"]) == list(LONG)
    for student in POINTS:
        assert float(rows[student]["score"]) == _score(graded, student)
        assert float(rows[student]["code_score"]) + float(rows[student]["written_score"]) == pytest.approx(
            _score(graded, student)
        )
    assert {name: row["status"] for name, row in rows.items()} == {
        "ada": "graded",
        "bob": "graded",
        "cyd": "rejected",
        "dan": "dropped",
        "eva": "excused",
        "fay": "missing",
    }
    assert [rows[name]["score"] for name in ("cyd", "eva", "fay")] == ["", "", ""]
    assert rows["ada"]["max_score"] == "9" and rows["ada"]["section"] == "A"
    assert any("cyd" in line for line in done.notes)


def test_a_name_that_is_a_formula_is_none(graded):
    _, done = _long(graded)
    text = done.path.read_text(encoding="utf-8")
    assert "'=HYPERLINK" in text and ",=" not in text and ',"=' not in text


def test_late_hand_ins_cost_what_nbgrader_says(graded):
    with nbgrader_steps.open_gradebook(graded) as gradebook:
        gradebook.update_or_create_assignment(UNIT, duedate=datetime(2026, 11, 1))
    _grade(graded, "ada", POINTS["ada"], 1.25, timestamp="2026-11-02 01:02:03 UTC")
    _grade(graded, "bob", POINTS["bob"], 100.0, timestamp="2026-10-31 00:00:00 UTC")
    rows, _ = _long(graded)
    assert (rows["ada"]["late"], rows["ada"]["late_penalty"], rows["ada"]["score"]) == (
        "yes",
        "1.25",
        csv_files.format_number(_score(graded, "ada")),
    )
    assert (rows["ada"]["submitted"], rows["ada"]["due"]) == ("2026-11-02 01:02:03 UTC", "2026-11-01 00:00:00 UTC")
    assert (rows["bob"]["late"], rows["bob"]["score"]) == ("", "0")


def test_open_marks_are_refused_unless_asked_for(graded, attn):
    _grade(graded, "ada", POINTS["ada"], manual=False)
    refused = attn(graded, "export", "02")
    assert refused.exit_code == 1 and not (graded.classroom / "grades.csv").exists()
    assert "1 written answer of 1 student of 02_small is not marked (ada)" in refused.output
    done = attn(graded, "export", "02", "--open")
    assert done.exit_code == 0
    row = _rows((graded.classroom / "grades.csv").read_text(encoding="utf-8"))[0]
    assert (row["status"], row["written_unmarked"]) == ("to_mark", "1") and float(row["score"]) == _score(graded, "ada")


def test_an_export_that_lies_there_gets_another_name(graded, tmp_path):
    first = put(tmp_path / "out.csv", b"mine")
    export(graded, [UNIT], "csv", first, None, False)
    (kept,) = tmp_path.glob("out.before-*.csv")
    assert kept.read_bytes() == b"mine" and first.read_text(encoding="utf-8").startswith("unit,")


def test_who_handed_in_again_is_named(graded):
    put(graded.graded("ada", UNIT), b"old")
    put(graded.submission("ada", UNIT), b"new")
    os.utime(graded.graded("ada", UNIT), (1, 1))
    _, done = _long(graded)
    assert any("again" in line and "ada" in line for line in done.notes)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "blackboard"], "no format"),
        (["--format", "canvas"], "--into"),
        (["--format", "moodle"], "--into"),
        (["--format", "canvas", "--into", "no.csv"], "no file"),
        (["99"], "Unknown unit"),
    ],
)
def test_what_can_not_be_exported_is_said_in_a_line(graded, attn, arguments, says):
    done = attn(graded, "export", *arguments)
    assert done.exit_code == 2 and says in done.output and done.output.count("\n") == 1


def test_a_unit_that_was_never_graded_is_said(course, attn):
    with pytest.raises(CourseError, match="attn grade 02"):
        grades.grades(course, UNIT)
    assert "No unit has grades yet" in attn(course, "export").output


def test_all_units_with_grades_are_exported_where_none_is_named(graded, attn):
    assert attn(graded, "export").output.splitlines()[-1] == f"3 grades: {graded.classroom / 'grades.csv'}"


# ---------------------------------------------------------------- a column an exercise


def test_every_exercise_has_a_column_beside_the_units_score(graded, attn):
    done = attn(graded, "export", "--questions")
    assert done.exit_code == 0 and "3 grades: " in done.output
    text = (graded.classroom / "questions.csv").read_text(encoding="utf-8")
    header, rows = text.splitlines()[0].split(","), {row["student_id"]: row for row in _rows(text)}
    who = ["student_id", "last_name", "first_name", "email", "section"]
    assert header == [*who, UNIT, *(_question(name) for name in _graded_cells(graded))]
    assert list(rows) == ["ada", "bob", "cyd", "dan", "eva", "fay"]
    for student, points in POINTS.items():
        found = {name: float(rows[student][_question(name)]) for name in sorted(_graded_cells(graded))}
        assert [*found.values()] == [*points] and float(rows[student][UNIT]) == _score(graded, student)
    assert all(not value for name in ("cyd", "eva", "fay") for value in [*rows[name].values()][len(who) :])


def _question(cell: str) -> str:
    return cell.removesuffix("_test")


def _graded_cells(course) -> list[str]:
    """In the order of the notebook."""
    cells = notebooks.read(course.solved(UNIT)).cells
    return [notebooks.grade_id(cell) for cell in cells if notebooks.flag(cell, "grade")]


def test_a_question_that_waits_for_its_mark_is_empty(graded):
    _grade(graded, "ada", POINTS["ada"], manual=False)
    done = export(graded, [UNIT], "csv", None, None, True, questions=True)
    row = _rows(done.path.read_text(encoding="utf-8"))[0]
    assert [row[_question(name)] == "" for name in sorted(_graded_cells(graded))].count(True) == 1
    with pytest.raises(CourseError, match="--questions makes a table of its own"):
        export(graded, [UNIT], "gradescope", None, None, True, questions=True)


# ---------------------------------------------------------------- Canvas

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Unit 1 (344),02 Small (345),Current Score\r
,,,,,Manual Posting,,(read only)\r
    Points Possible,,,,,10,9,(read only)\r
"Lovelace, Ada",101,S1,ada,A,3,,30\r
"Bär, Bob",102,S2,bob,"A, B",,1,\r
"O'Neill, Cyd",777,S3,cyd,B,,7,\r
"Gone, Dan",104,S4,dan,B,2,2,\r
"Sick, Eva",105,S5,eva,B,,,\r
"Student, Test",999,,,A,,,\r
"""


def test_one_column_of_canvas_is_filled_and_nothing_else_changes(graded, tmp_path):
    path = put(tmp_path / "Grades.csv", CANVAS.encode())
    done = export(graded, [UNIT], "canvas", path, None, False)
    assert (
        path.read_bytes() == CANVAS.encode()
        and done.path.name == "Grades.filled.csv"
        and done.column == "02 Small (345)"
    )
    text = done.path.read_bytes().decode()
    before, after = (list(csv.reader(io.StringIO(one, newline=""))) for one in (CANVAS, text))
    changed = {
        (row[0], at) for row, old in zip(after, before, strict=True) for at in range(len(row)) if row[at] != old[at]
    }
    assert changed == {("Lovelace, Ada", 6), ("Bär, Bob", 6), ("Sick, Eva", 6)}
    rows = {row["ID"]: row for row in _rows(text)}
    assert float(rows["101"]["02 Small (345)"]) == _score(graded, "ada")
    assert float(rows["102"]["02 Small (345)"]) == _score(graded, "bob")
    assert [rows[number]["02 Small (345)"] for number in ("777", "104", "105", "999")] == ["7", "2", "EX", ""]
    assert text.startswith("\ufeff") and text.count("\r\n") == text.count("\n")


def test_canvas_knows_students_by_the_number_they_were_collected_under(graded, tmp_path):
    rosters.roster_path(graded).unlink()
    one = Attempt("ada", UNIT, "0" * 64, "x.ipynb", "canvas", "555", counts=True)
    attempts.save(graded, {one.place: {one.sha256: one}})
    text = CANVAS.replace("101,S1,ada", "555,,").replace("Lovelace, Ada", "Somebody").replace("02 Small", "Final")
    done = export(graded, [UNIT], "canvas", put(tmp_path / "g.csv", text.encode()), "Final (345)", False)
    assert float(_rows(done.path.read_text(encoding="utf-8"))[2]["Final (345)"]) == _score(graded, "ada")


def test_canvas_with_semicolons_and_commas_keeps_them(graded, tmp_path):
    table = "Student;ID;Section;02 Small (345)\n    Points Possible;;;9,00\nLovelace, Ada;101;A;\n"
    done = export(graded, [UNIT], "canvas", put(tmp_path / "g.csv", table.encode()), None, False)
    assert (
        done.path.read_text(encoding="utf-8")
        == table[:-1] + csv_files.format_number(_score(graded, "ada")).replace(".", ",") + "\n"
    )


def test_other_points_possible_are_said(graded, tmp_path):
    path = put(tmp_path / "g.csv", CANVAS.replace(",10,9,", ",10,20,").encode())
    assert any("20 points" in line for line in export(graded, [UNIT], "canvas", path, None, False).notes)


CANVAS_BAD = {
    "another table": ("a,b\n1,2\n", None, "no gradebook of Canvas"),
    "no column is meant": (CANVAS.replace("02 Small", "Exam"), None, "can't be told"),
    "two may be meant": (CANVAS.replace("Unit 1", "Quiz 2"), None, "can't be told"),
    "no such column": (CANVAS, "Nothing (1)", "no column is called"),
    "nobody of ours": ("Student,ID,Unit 2 (3)\nX,9,\n", None, "no line of it"),
    "nobody at all": ("Student,ID,Unit 2 (3)\n", None, "no line of it"),
}


@pytest.mark.parametrize("kind", CANVAS_BAD)
def test_a_table_of_canvas_that_can_not_be_filled_is_refused(graded, tmp_path, kind):
    text, column, says = CANVAS_BAD[kind]
    path = put(tmp_path / "g.csv", text.encode())
    with pytest.raises(CourseError, match=says) as refusal:
        export(graded, [UNIT], "canvas", path, column, False)
    assert "\n" not in str(refusal.value) and not path.with_name("g.filled.csv").exists()


# ---------------------------------------------------------------- Moodle

MOODLE = """Identifier;Full name;Email address;Status;Grade;Maximum Grade;Grade can be changed;\
Last modified (submission);Last modified (grade);Feedback comments
Participant 900001;Ada Lovelace;ada@x.org;Submitted;;9,00;Yes;Sunday, 22 November 2026, 10:15 AM;-;well done
Participant 900002;Bob;BOB@x.org;Submitted;1,00;9,00;No;-;-;
Participant 900003;Cyd O'Neill;;No submission;;9,00;Yes;-;-;
Participant 900004;Somebody Else;z@x.org;No submission;;9,00;Yes;-;-;
"""


def test_moodles_worksheet_is_filled_with_its_own_comma(graded, tmp_path):
    path = put(tmp_path / "worksheet.csv", MOODLE.encode())
    done = export(graded, [UNIT], "moodle", path, None, False)
    rows = _rows(done.path.read_text(encoding="utf-8"), ";")
    assert (
        rows[0]["Grade"] == csv_files.format_number(_score(graded, "ada")).replace(".", ",") and "," in rows[0]["Grade"]
    )
    assert [row["Grade"] for row in rows[1:]] == ["1,00", "", ""]
    for row, before in zip(rows, _rows(MOODLE, ";"), strict=True):
        assert {**row, "Grade": ""} == {**before, "Grade": ""}


def test_moodle_knows_blind_students_by_their_number(graded, tmp_path):
    """The folder in the download and the worksheet have one number."""
    one = Attempt("bob", UNIT, "0" * 64, "x.ipynb", "moodle", "900009", counts=True)
    attempts.save(graded, {one.place: {one.sha256: one}})
    text = "Kennung,Status,Bewertung\nTeilnehmer/in 900009,x,\nTeilnehmer/in 900010,x,\n"
    done = export(graded, [UNIT], "moodle", put(tmp_path / "w.csv", text.encode()), "Bewertung", False)
    assert [row["Bewertung"] for row in _rows(done.path.read_text(encoding="utf-8"))] == [
        csv_files.format_number(_score(graded, "bob")),
        "",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\nx,y\n", "no grading worksheet"),
        ("Identifier,Mark\nParticipant 1,\n", "--column"),
        ("Identifier,Grade\nParticipant 1,\n", "no line of it"),
    ],
)
def test_a_worksheet_that_can_not_be_filled_is_refused(graded, tmp_path, text, says):
    with pytest.raises(CourseError, match=says):
        export(graded, [UNIT], "moodle", put(tmp_path / "w.csv", text.encode()), None, False)


# ---------------------------------------------------------------- Gradescope


def test_gradescopes_columns(graded):
    done = export(graded, [UNIT], "gradescope", None, None, False)
    rows = {row["SID"]: row for row in _rows(done.path.read_text(encoding="utf-8"))}
    assert {sid: row["Status"] for sid, row in rows.items()} == {
        "S1": "Graded",
        "S2": "Graded",
        "S3": "Missing",
        "S4": "Graded",
        "S5": "Missing",
        "S6": "Missing",
    }
    assert float(rows["S1"]["Total Score"]) == _score(graded, "ada") and rows["S4"]["Total Score"] == ""


def test_the_gradebook_holds_what_these_tests_think(graded):
    """Four cells, one of them written."""
    with nbgrader_steps.open_gradebook(graded) as gradebook:
        assert gradebook.db.query(Assignment).count() == 1
        assert gradebook.db.query(Grade).count() == 4 * len(POINTS)
