"""The roster: what spreadsheets make of a table is read, and what is wrong with one is said in a line."""

import pytest

from autograder import csv_files
from autograder.course import nbgrader_steps
from autograder.errors import CourseError
from autograder.gradebook import roster

WHOLE = (
    "student_id,last_name,first_name,email,canvas_id,sis_user_id,sis_login_id,moodle_idnumber,section,status\n"
    "ada,Lovelace,Ada,Ada@Example.org,101,S1,al,M1,A,\n"
    "bob,Bär,Bob,bob@example.org,102,S2,bb,M2,B,dropped\n"
)


def _write(folder, text, encoding="utf-8"):
    path = folder / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def test_every_column_is_read(tmp_path):
    read = roster.read_roster(_write(tmp_path, WHOLE))
    assert read.students["ada"] == roster.Student(
        "ada", "Lovelace", "Ada", "ada@example.org", "101", "S1", "al", "M1", "A", ""
    )
    assert read.active() == ["ada"] and not read.notes


@pytest.mark.parametrize(
    "text",
    [
        "student_id,last_name\nada,Bär\n",
        "\ufeffstudent_id,last_name\r\nada,Bär\r\n",
        "student_id;last_name\nada;Bär\n",
        "Student ID\tLast name\nada\tBär\n",
        "\n\nSTUDENT-ID , last_name\n\n ada , Bär \n,\n",
        'student_id,last_name\n"ada","Bär"',
        "last_name,student_id\nBa\u0308r,ada\n",  # two characters for one
        "student_id;last_name\nada\n".replace("ada", "ada;Bär"),
    ],
)
def test_what_spreadsheets_write_is_read(tmp_path, text):
    assert roster.read_roster(_write(tmp_path, text)).students == {"ada": roster.Student("ada", "Bär")}


def test_unknown_columns_are_named_in_one_line(tmp_path):
    read = roster.read_roster(_write(tmp_path, "student_id,tutor,seat\nada,x,3\n"))
    assert read.notes == ["columns not used: tutor, seat"]


BAD = {
    "empty": "",
    "blank lines alone": "\n \n,,\n",
    "no student_id": "name,mail\nada,a@b\n",
    "a header alone": "student_id,email\n",
    "the same id twice": "student_id\nada\nbob\nada\n",
    "the same id, written in two ways": "student_id\nJo\u0308rg\nJörg\n",
    "the same e-mail twice": "student_id,email\nada,X@b.c\nbob,x@b.c\n",
    "the same Canvas id twice": "student_id,canvas_id\nada,7\nbob,7.0\n",
    "a line without an id": "student_id,email\nada,a@b\n,c@d\n",
    "a path for an id": "student_id\n../../etc\n",
    "a hidden folder for an id": "student_id\n.ada\n",
    "a star in an id": "student_id\na*\n",
    "an id that turns the line": "student_id\na\u202eb\n",
    "an id without an end": "student_id\n" + "a" * 500 + "\n",
    "an unknown status": "student_id,status\nada,sick\n",
    "two columns of one name": "student_id,email,E-mail,email\nada,a,b,c\n",
    "too many cells": "student_id,last_name\nada,Love,lace\n",
    "an open quote": 'student_id,last_name\nada,"Love\n',
    "not UTF-8": "student_id,last_name\nada,Bär\n".encode("cp1252"),
    "UTF-16": "student_id,last_name\nada,Bär\n".encode("utf-16"),
    "a workbook": b"PK\x03\x04" + b"\0" * 100,
    "bytes": b"student_id\n\0\0\0",
    "a cell without an end": "student_id\n" + "a" * 200_000 + "\n",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_roster_is_refused_in_one_line_(tmp_path, kind):
    path = _write(tmp_path, BAD[kind])
    with pytest.raises(CourseError) as refusal:
        roster.read_roster(path)
    assert "\n" not in str(refusal.value) and str(refusal.value).startswith(str(path)) and refusal.value.code == 2


def test_a_roster_that_is_not_there_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "no.csv", tmp_path):
        with pytest.raises(CourseError, match=str(path)):
            roster.read_roster(path)


def test_a_table_far_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LARGEST", 10)
    with pytest.raises(CourseError, match="more than"):
        roster.read_roster(_write(tmp_path, WHOLE))


# ---------------------------------------------------------------- kept


def _names(course):
    with nbgrader_steps.open_gradebook(course) as gradebook:
        return {student.id: (student.first_name, student.last_name, student.email) for student in gradebook.students}


def test_names_reach_the_gradebook_and_what_the_roster_does_not_say_stays(course, tmp_path):
    roster.save_roster(course, roster.read_roster(_write(tmp_path, WHOLE)))
    roster.save_roster(course, roster.read_roster(_write(tmp_path, "student_id,first_name\nada,Augusta\n")))
    assert _names(course) == {
        "ada": ("Augusta", "Lovelace", "ada@example.org"),
        "bob": ("Bob", "Bär", "bob@example.org"),
    }


def test_an_earlier_roster_is_kept_and_who_is_gone_is_said(course, tmp_path):
    assert roster.save_roster(course, roster.read_roster(_write(tmp_path, WHOLE))) == []
    assert roster.save_roster(course, roster.read_roster(_write(tmp_path, WHOLE))) == []
    assert not list((course.classroom / "history").glob("*")) if (course.classroom / "history").exists() else True
    assert roster.save_roster(course, roster.read_roster(_write(tmp_path, "student_id\nada\n"))) == [
        "not on the roster any more: bob"
    ]
    (earlier,) = (course.classroom / "history").glob("roster-*.csv")
    assert set(roster.read_roster(earlier).students) == {"ada", "bob"}


def test_the_copy_of_the_class_runs_no_formula_and_reads_back_the_same(course, tmp_path):
    read = roster.read_roster(_write(tmp_path, "student_id,last_name,first_name\n-a,\"=cmd|'/c calc'!A1\",@x\n"))
    roster.save_roster(course, read)
    text = roster.roster_path(course).read_text(encoding="utf-8")
    assert "'=cmd" in text and "'@x" in text and "'-a" in text
    assert roster.current_roster(course).students == read.students
    assert read.students["-a"].first_name == "@x"
