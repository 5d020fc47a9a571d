"""A class kept in an archive comes back as it was; a bad archive changes nothing."""

import json
import os
import sqlite3
import zipfile

import pytest
from conftest import UNIT
from downloads import put, zipped

from autograder.backup import MANIFEST, backup, restore
from autograder.course import nbgrader_steps
from autograder.errors import CourseError


@pytest.fixture
def classroom(course):
    """A class with a hand-in, its history, a mark in the gradebook."""
    put(course.submission("ada", UNIT), b"{}")
    put(course.classroom / "history" / "ada" / UNIT / "x.ipynb", b"old")
    put(course.classroom / "roster.csv", "student_id\nBär\n".encode())
    put(course.feedback / "ada" / "page.html", b"<p>")
    with nbgrader_steps.open_gradebook(course) as gradebook:
        gradebook.add_student("ada", first_name="Ada")
    return course


def _state(course):
    files = {
        path.relative_to(course.classroom).as_posix(): path.read_bytes()
        for path in course.classroom.rglob("*")
        if path.is_file()
    }
    return {
        name: data
        for name, data in files.items()
        if name not in (".lock", "gradebook.db") and not name.startswith("feedback")
    }


def _names(course):
    with nbgrader_steps.open_gradebook(course) as gradebook:
        return [student.first_name for student in gradebook.students]


def test_a_class_comes_back_as_it_was_and_what_was_there_is_moved_aside(classroom, tmp_path):
    before = _state(classroom)
    path, count, notes = backup(classroom, tmp_path / "b.zip")
    assert count == len(before) + 1 and not notes
    put(classroom.submission("ada", UNIT), b"changed")
    put(classroom.submission("bob", UNIT), b"new")
    with nbgrader_steps.open_gradebook(classroom) as gradebook:
        gradebook.update_or_create_student("ada", first_name="Nobody")
    restored, _, aside = restore(classroom, path)
    assert restored == count and _state(classroom) == before and _names(classroom) == ["Ada"]
    assert (aside / "submitted" / "bob" / UNIT / f"{UNIT}.ipynb").read_bytes() == b"new"


def test_a_backup_is_whole_while_somebody_writes(classroom, tmp_path):
    with sqlite3.connect(classroom.classroom / "gradebook.db") as writer:
        writer.execute("UPDATE student SET first_name = 'half done'")
        path, _, _ = backup(classroom, tmp_path / "b.zip")
        writer.rollback()
    restore(classroom, path)
    assert _names(classroom) == ["Ada"]


def test_the_command_says_where_and_never_overwrites(classroom, attn):
    kept = attn(classroom, "backup")
    (path,) = (classroom.root / "backups").glob("class-*.zip")
    assert kept.exit_code == 0 and str(path) in kept.output
    again = attn(classroom, "backup", str(path))
    assert again.exit_code == 2 and "exists" in again.output and again.output.count("\n") == 1
    assert attn(classroom, "restore", str(path)).exit_code == 0


def test_a_link_is_left_out_and_named(classroom, tmp_path):
    os.symlink("/etc", classroom.submitted / "bob")
    _, _, notes = backup(classroom, tmp_path / "b.zip")
    assert notes == ["submitted/bob is no file and was left out"]
    assert not any("passwd" in name for name in zipfile.ZipFile(tmp_path / "b.zip").namelist())


def test_an_empty_class_is_not_kept(course, tmp_path):
    with pytest.raises(CourseError, match="nothing in"):
        backup(course, tmp_path / "b.zip")


def _said(names: dict[str, str]) -> bytes:
    return json.dumps({"made": "", "sha256": names}).encode()


BAD = {
    "nothing": b"",
    "text": b"no archive",
    "another archive": zipped({"a.txt": b"x"}),
    "a manifest that is none": zipped({MANIFEST: b"[]"}),
    "a file that is missing": zipped({MANIFEST: _said({"roster.csv": "0"})}),
    "a file that was changed": zipped({MANIFEST: _said({"roster.csv": "0" * 64}), "roster.csv": b"x"}),
    "a path upwards": zipped({MANIFEST: _said({"../../x": "0"}), "../../x": b"x"}),
    "a path from the root": zipped({MANIFEST: _said({"/tmp/x": "0"}), "/tmp/x": b"x"}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_backup_changes_nothing(classroom, tmp_path, kind):
    before = _state(classroom)
    path = put(tmp_path / "b.zip", BAD[kind])
    with pytest.raises(CourseError) as refusal:
        restore(classroom, path)
    assert "\n" not in str(refusal.value) and refusal.value.code == 2
    assert _state(classroom) == before and not list(classroom.classroom.parent.glob("class.before*"))


def test_a_backup_cut_off_changes_nothing(classroom, tmp_path):
    path, _, _ = backup(classroom, tmp_path / "b.zip")
    put(path, path.read_bytes()[:-200])
    with pytest.raises(CourseError, match="damaged"):
        restore(classroom, path)
    with pytest.raises(CourseError, match="There is no file"):
        restore(classroom, tmp_path / "no.zip")
