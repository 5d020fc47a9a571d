"""The command itself: help for everything, and one clear line with a status for every bad input."""

from pathlib import Path

import pytest
from conftest import ROOT, UNIT, hand_in

from autograder.cli import app
from autograder.course.paths import find_course
from autograder.errors import CourseError

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(course, attn, command):
    done = attn(course, command, "--help")
    assert done.exit_code == 0 and "Usage" in done.output and len(done.output) > 300


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["build", "nothing"], 2, "Unknown unit 'nothing'"),
        (["lint", "17"], 2, "Unknown unit '17'"),
        (["prove", "nothing"], 2, "Unknown unit"),
        (["grade", "nothing"], 2, "Unknown unit"),
        (["grade"], 2, "nothing has been collected yet"),
        (["mark", "no-such.ipynb"], 2, "There is no file"),
    ],
)
def test_bad_input_is_one_clear_line(course, attn, arguments, status, says):
    done = attn(course, *arguments)
    assert done.exit_code == status and says in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_a_unit_may_be_named_by_number_or_folder(course):
    assert {course.unit(name) for name in ("2", "02", UNIT, f"solutions/{UNIT}/")} == {UNIT}


def test_no_course_at_all(attn, tmp_path):
    from autograder.course.paths import Course

    done = attn(Course(tmp_path), "build")
    assert done.exit_code == 2 and "no course folder" in done.output


def test_a_student_without_a_folder(course, attn):
    hand_in(course, "ada")
    done = attn(course, "grade", "--student", "bob")
    assert done.exit_code == 2 and "Student 'bob' has no folder" in done.output


def test_a_submitted_folder_without_submissions(course, attn):
    (course.submitted / "ada").mkdir(parents=True)
    done = attn(course, "grade")
    assert done.exit_code == 2 and f"No submissions of {UNIT}" in done.output


def test_a_unit_that_was_not_built(fresh_course, attn):
    (fresh_course.submitted / "ada" / UNIT).mkdir(parents=True)
    done = attn(fresh_course, "grade")
    assert done.exit_code == 1 and "run `attn build 02` first" in done.output
    assert attn(fresh_course, "sample-class").exit_code == 1


def test_rejected_and_stray_work_ends_with_status_3_and_the_rest_is_graded(course, attn):
    hand_in(course, "ada")
    hand_in(course, "bob").write_text("")
    (course.submitted / "loose.ipynb").write_text("{}")
    (course.submitted / "cem" / "02_smal").mkdir(parents=True)
    (course.submitted / "cem" / "02_smal" / "02_smal.ipynb").write_text("{}")
    done = attn(course, "grade")
    assert done.exit_code == 3, done.output
    assert "rejected: the file is empty" in done.output and "/ 9" in done.output
    assert "loose.ipynb: not looked at" in done.output and "cem/02_smal/02_smal.ipynb: not looked at" in done.output
    assert "1 notebooks judged now" in done.output
    again = attn(course, "grade")
    assert again.exit_code == 3 and "none was judged again" in again.output


def test_doctor_says_what_the_machine_has(course, attn):
    done = attn(course, "doctor")
    assert done.exit_code == 0
    for thing in (
        "Python",
        "torch",
        "GPU",
        "Triton",
        "nbgrader",
        "user namespaces",
        "cgroup v2",
        "bubblewrap",
        "cores",
        "memory",
        "free disk",
    ):
        assert thing in done.output


def test_the_command_finds_the_course_it_was_installed_for_from_a_folder_inside_it(monkeypatch):
    monkeypatch.delenv("ATTN_COURSE", raising=False)
    for folder in (ROOT / "solutions" / "00_start_here", Path("/")):
        monkeypatch.chdir(folder)
        assert find_course().root == ROOT


def test_a_folder_that_only_looks_like_a_course_is_asked_about(course, monkeypatch):
    monkeypatch.delenv("ATTN_COURSE", raising=False)
    monkeypatch.chdir(course.solutions / UNIT)
    with pytest.raises(CourseError, match="name it: ATTN_COURSE="):
        find_course()
    asked: list[Path] = []
    assert find_course(lambda folder: not asked.append(folder)) == course and asked == [course.root]
    monkeypatch.setenv("ATTN_COURSE", str(course.root))
    assert find_course() == course
