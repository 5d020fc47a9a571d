"""A hand-in is read once, within stated sizes, without following a link; what is wrong with it is one line."""

import json
import os
import socket
import subprocess
import sys

import pytest
from conftest import ROOT, UNIT, hand_in, right_answers

from autograder import limited_process, notebooks, size_limits
from autograder.grading import intake
from autograder.grading.submission_discovery import Submission, submissions
from autograder.grading.submission_parser import Rejected
from autograder.notebooks import STAMP


def _submission(course, student="ada"):
    return Submission(student, UNIT, course.submission(student, UNIT))


def _notebook(course) -> bytes:
    return course.released(UNIT).read_bytes()


def _folder(course, student="ada"):
    folder = course.submission(student, UNIT).parent
    folder.mkdir(parents=True)
    return folder


def _put(course, files: dict, student="ada"):
    folder = _folder(course, student)
    for age, (name, data) in enumerate(files.items()):
        (folder / name).write_bytes(data)
        os.utime(folder / name, (1_700_000_000 + age,) * 2)
    return _submission(course, student)


def _staged(course, student="ada"):
    return notebooks.read(course.taken_in(student, UNIT))


def _refused(course, submission, units=None):
    with pytest.raises(Rejected) as reason:
        intake.read_and_stage(course, submission, units)
    assert not course.taken_in(submission.student, UNIT).parent.exists()
    assert "\n" not in str(reason.value)
    return str(reason.value)


# ---------------------------------------------------------------- what is copied


def test_the_notebook_and_its_time_are_staged_and_nothing_else(course):
    submission = _put(
        course,
        {f"{UNIT}.ipynb": _notebook(course), "timestamp.txt": b"2026-11-01 12:00:00 UTC\n", "big.csv": b"x" * 10**6},
    )
    (course.submitted / "ada" / UNIT / "sub").mkdir()
    assert intake.read_and_stage(course, submission) == ["beside the notebook, not looked at: big.csv, sub (a folder)"]
    folder = course.taken_in("ada", UNIT).parent
    assert sorted(os.listdir(folder)) == [f"{UNIT}.ipynb", "timestamp.txt"]
    assert (folder / "timestamp.txt").read_text() == "2026-11-01 12:00:00 UTC\n"
    assert _staged(course).metadata[STAMP]["repairs"] == []
    assert (course.submitted / "ada" / UNIT / "big.csv").is_file()


def test_outputs_and_foreign_metadata_stay_behind(course):
    data = json.loads(_notebook(course))
    data["metadata"] |= {"widgets": {"x": "y" * 1000}, STAMP: {"result": "forged"}, "attention_course_picture": True}
    for cell in data["cells"]:
        cell["metadata"] |= {"attention_course_picture": True, "raw_mimetype": "text/html"}
        if cell["cell_type"] == "code":
            cell["outputs"] = [
                {"output_type": "display_data", "data": {"text/html": "<script>x</script>"}, "metadata": {}}
            ]
    intake.read_and_stage(course, _put(course, {f"{UNIT}.ipynb": json.dumps(data).encode()}))
    staged = _staged(course)
    assert set(staged.metadata) == {"kernelspec", "language_info", STAMP} and "result" not in staged.metadata[STAMP]
    assert all(set(cell.metadata) <= {"nbgrader", "attention_course_picture"} for cell in staged.cells)
    assert not any(cell.get("outputs") for cell in staged.cells)
    assert not any("attention_course_picture" in cell.metadata for cell in staged.cells if notebooks.grade_id(cell))


def test_a_rejected_hand_in_leaves_no_older_copy_behind(course):
    submission = _put(course, {f"{UNIT}.ipynb": _notebook(course)})
    intake.read_and_stage(course, submission)
    submission.path.write_bytes(b"")
    assert "empty" in _refused(course, submission)


# ---------------------------------------------------------------- what is no regular file


def test_links_are_not_followed(course, tmp_path):
    solution = course.solved(UNIT)
    (_folder(course, "ada") / f"{UNIT}.ipynb").symlink_to(solution)
    (course.submitted / "bea").mkdir()
    (course.submitted / "bea" / UNIT).symlink_to(solution.parent)
    hand_in(course, "cem", right_answers(course))
    (course.submitted / "dan").symlink_to(course.submitted / "cem")
    assert [one.student for one in submissions(course, UNIT, [])] == ["ada", "bea", "cem", "dan"]
    assert _refused(course, _submission(course, "ada")) == f"{UNIT}.ipynb is a link: hand in the notebook itself"
    assert (
        _refused(course, _submission(course, "bea")) == f"{UNIT} is a link, not a folder: hand in the files themselves"
    )
    assert _refused(course, _submission(course, "dan")) == "dan is a link, not a folder: hand in the files themselves"


def test_links_beside_the_notebook_are_named_and_left(course):
    submission = _put(course, {f"{UNIT}.ipynb": _notebook(course)})
    secret = course.classroom / "gradebook.db"
    secret.write_text("secret")
    (submission.path.parent / "notes.db").symlink_to(secret)
    (submission.path.parent / "timestamp.txt").symlink_to(secret)
    notes = intake.read_and_stage(course, submission)
    assert notes == [
        "timestamp.txt is a link; the time of the hand-in is not known",
        "beside the notebook, not looked at: notes.db (a link)",
    ]
    assert os.listdir(course.taken_in("ada", UNIT).parent) == [f"{UNIT}.ipynb"]


def test_fifos_sockets_devices_and_folders_are_named_and_never_opened(course):
    path = _folder(course, "fifo") / f"{UNIT}.ipynb"
    os.mkfifo(path)
    (_folder(course, "dir") / f"{UNIT}.ipynb").mkdir()
    before = os.getcwd()
    os.chdir(_folder(course, "sock"))
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{UNIT}.ipynb")
        os.chdir(before)
        assert "is a socket" in _refused(course, _submission(course, "sock"))
    assert "is a FIFO" in _refused(course, _submission(course, "fifo"))
    assert "is a folder" in _refused(course, _submission(course, "dir"))
    if os.geteuid() == 0:
        try:
            os.mknod(_folder(course, "dev") / f"{UNIT}.ipynb", 0o20666, os.makedev(1, 5))
        except PermissionError:
            return
        assert "is a device" in _refused(course, _submission(course, "dev"))


def test_a_file_in_the_place_of_a_folder(course):
    (course.submitted / "ada").mkdir(parents=True)
    (course.submitted / "ada" / UNIT).write_text("x")
    assert "is a file, not a folder" in _refused(course, _submission(course))


def test_what_may_not_be_read_is_named(course, tmp_path):
    """As an ordinary user: root may read everything."""
    code = f"""
import os, sys
sys.path[:] = {[str(ROOT)]!r} + sys.path
from autograder.course.paths import Course
from autograder.grading import intake
from autograder.grading.submission_discovery import Submission, submissions
from pathlib import Path
course = Course(Path({str(tmp_path)!r}) / "open")
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for one in submissions(course, "u", []):
    try:
        intake.read(course, one)
        print(one.student, "read")
    except intake.Rejected as reason:
        print(one.student, reason)
"""
    submitted = tmp_path / "open" / "autograder" / "class" / "submitted"
    for student in ("a", "b", "c"):
        (submitted / student / "u").mkdir(parents=True)
        (submitted / student / "u" / "u.ipynb").write_text("{}")
    (submitted / "a" / "u" / "u.ipynb").chmod(0)
    (submitted / "b" / "u").chmod(0)
    (submitted / "c").chmod(0)
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    for student in ("a", "b", "c"):
        (submitted / student).chmod(0o755)
        (submitted / student / "u").chmod(0o755)
    if "Permission" not in done.stdout:
        pytest.skip(f"an ordinary user can't reach this folder: {done.stderr[-200:]}")
    assert done.stdout.splitlines() == [
        "a u.ipynb can't be read (Permission denied): mend its permissions, or have it handed in again",
        "b the folder u can't be read (Permission denied): mend its permissions",
        "c the folder c can't be read (Permission denied): mend its permissions",
    ]


@pytest.mark.parametrize("name", [b"stud\xff", b"a\x1b[31m", b"a[1]", b"a\nb"])
def test_a_name_that_nbgrader_can_not_take(course, name):
    submission = _put(course, {f"{UNIT}.ipynb": _notebook(course)}, os.fsdecode(name))
    assert _refused(course, submission).endswith("in the name of the student's folder: rename it")


def test_a_file_beside_the_notebook_whose_name_is_not_utf8(course):
    submission = _put(course, {f"{UNIT}.ipynb": _notebook(course), os.fsdecode(b"x\xff"): b"x"})
    assert len(intake.read_and_stage(course, submission)) == 1


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        f"{UNIT} (1).ipynb",
        f"{UNIT}-2.ipynb",
        f"Copy of {UNIT}.ipynb",
        f"doe_LATE_12_34_{UNIT}.ipynb",
        f"{UNIT.upper()}.IPYNB",
        f" {UNIT} .ipynb ",
        f"{UNIT}.ipynb.txt",
        f"Kopie von {UNIT}.ipynb.json",
        "Übung [2].ipynb",
    ],
)
def test_a_notebook_of_any_name_is_taken_with_a_note(course, name):
    notes = intake.read_and_stage(course, _put(course, {name: _notebook(course)}))
    assert notes == [f"the file is called {name}, not {UNIT}.ipynb; it was graded all the same"]
    assert course.taken_in("ada", UNIT).is_file()


def test_of_two_the_one_saved_last_counts(course):
    old, new = _notebook(course), _notebook(course).replace(b"raise NotImplementedError", b"return 'new'")
    notes = intake.read_and_stage(course, _put(course, {f"{UNIT}.ipynb": old, f"{UNIT} (1).ipynb": new}))
    assert notes == [f"{UNIT} (1).ipynb was graded, the last one saved of this unit; not graded: {UNIT}.ipynb"]
    assert any("return 'new'" in cell.source for cell in _staged(course).cells)


def test_of_two_saved_at_the_same_time_the_browsers_number_tells(course):
    submission = _put(
        course, {f"{UNIT} ({number}).ipynb": _notebook(course) for number in (10, 2)} | {f"{UNIT}.ipynb": b"{}"}
    )
    for path in submission.path.parent.iterdir():
        os.utime(path, (1_700_000_000,) * 2)
    (note,) = intake.read_and_stage(course, submission)
    assert note.startswith(f"{UNIT} (10).ipynb was graded")


def test_a_notebook_of_another_unit_beside_it_is_no_candidate(course):
    other = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    (note,) = intake.read_and_stage(course, _put(course, {f"{UNIT}.ipynb": _notebook(course), "03_other.ipynb": other}))
    assert note.startswith(f"{UNIT}.ipynb was graded") and "03_other.ipynb" in note


def test_of_many_none_is_guessed(course):
    assert "6 notebooks" in _refused(course, _put(course, {f"{n}.ipynb": _notebook(course) for n in range(6)}))


def test_a_notebook_of_another_unit_is_rejected(course):
    units = {UNIT: ["a"], "03_other": sorted(notebooks.grade_ids(notebooks.read(course.solved(UNIT))))}
    assert (
        _refused(course, _put(course, {f"{UNIT}.ipynb": _notebook(course)}), units)
        == f"this is the notebook of unit 03_other, handed in as {UNIT}"
    )


# ---------------------------------------------------------------- content


def test_a_byte_order_mark_is_no_mistake(course):
    assert intake.read_and_stage(course, _put(course, {f"{UNIT}.ipynb": b"\xef\xbb\xbf" + _notebook(course)})) == []


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (b"2026-11-01 12:00:00 UTC", None),
        (b"2026-11-01T12:00:00+01:00", None),
        (b"\xef\xbb\xbf2026-11-01", None),
        (b"", None),
        (b"yesterday evening", "holds no date"),
        (b"\xff\xfe", "holds no date"),
        (b"9" * 5_000, "holds no date"),
        (b"2026-99-99", "holds no date"),
    ],
)
def test_the_time_of_a_hand_in(course, text, note):
    notes = intake.read_and_stage(course, _put(course, {f"{UNIT}.ipynb": _notebook(course), "timestamp.txt": text}))
    assert bool(notes) == bool(note) and (not note or note in notes[0])
    assert (course.taken_in("ada", UNIT).parent / "timestamp.txt").exists() == (not note and bool(text))


def _with(course, change) -> bytes:
    data = json.loads(_notebook(course))
    return json.dumps(change(data) or data).encode()


def _add(source, cell_type="code"):
    cell = {"cell_type": cell_type, "metadata": {}, "source": source} | (
        {"outputs": [], "execution_count": None} if cell_type == "code" else {}
    )
    return lambda data: data["cells"].append(cell)


def test_a_number_of_thousands_of_digits(course):
    data = _notebook(course).replace(b'"nbformat": 4', b'"x": ' + b"9" * 5_000 + b', "nbformat": 4')
    assert "thousands of digits" in _refused(course, _put(course, {f"{UNIT}.ipynb": data}))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda c: b"x" * (size_limits.FILE + 1), "10 MB"),
        (lambda c: b'{"cells": ' + b"[" * 200_000, "nested too deep"),
        (lambda c: _with(c, lambda d: d.update(cells=d["cells"] * 500)), "cells, more than 2,000"),
        (lambda c: _with(c, _add(["x = 1\n"] * 200_000)), "characters of text, more than"),
        (lambda c: _with(c, lambda d: d.update(cells=7)), "no list of cells"),
        (lambda c: _with(c, lambda d: d["cells"].append({"cell_type": ["x"]})), "a cell of type"),
        (lambda c: _with(c, lambda d: d["cells"][0].update(source={"a": 1})), "no text"),
        (lambda c: b'{"worksheets": 3, "nbformat": 3}', "hand in the course's own notebook"),
    ],
)
def test_what_is_too_large_or_no_notebook_is_one_line(course, make, says):
    assert says in _refused(course, _put(course, {f"{UNIT}.ipynb": make(course)}))


def test_a_bomb_of_json_beside_the_cells_is_never_built_into_a_notebook(course):
    data = _notebook(course).rstrip().removesuffix(b"}") + b', "bomb": [' + b"[]," * 3_000_000 + b"[]]}"
    assert intake.read_and_stage(course, _put(course, {f"{UNIT}.ipynb": data})) == []
    assert course.taken_in("ada", UNIT).stat().st_size < 100_000


@pytest.mark.parametrize(
    ("source", "kind"),
    [("x = [" + "0, " * 60_000 + "]", "code"), ("\\begin{a} " * 9_000, "markdown"), ("<b>" * 45_000, "markdown")],
)
def test_a_cell_that_is_too_large_or_slow_is_replaced_and_the_rest_is_taken(course, source, kind):
    submission = _put(course, {f"{UNIT}.ipynb": _with(course, _add(source, kind))})
    intake.read_and_stage(course, submission)
    last = _staged(course).cells[-1].source
    assert "left out" in last or "Not shown" in last
    assert len(_staged(course).cells) > 5


def test_code_that_ends_the_reader_costs_the_hand_in_alone(course, monkeypatch):
    submission = _put(course, {f"{UNIT}.ipynb": _notebook(course)})

    def spoilt(*_):
        raise limited_process.LimitExceeded("it takes too long")

    monkeypatch.setattr(intake.limited_process, "call", spoilt)
    assert _refused(course, submission, {}) == "reading the notebook was given up: it takes too long"


# ---------------------------------------------------------------- the process with limits


def test_a_call_ends_at_its_limits_and_the_next_one_works():
    with pytest.raises(limited_process.LimitExceeded, match="too long"):
        limited_process.call(sum, range(10**15), seconds=0.2)
    with pytest.raises(limited_process.LimitExceeded, match="memory"):
        limited_process.call(bytes, 1 << 34)
    with pytest.raises(limited_process.LimitExceeded, match="crashes"):
        limited_process.call(os._exit, 3)
    with pytest.raises(limited_process.CallFailed, match="ValueError"):
        limited_process.call(int, "x")
    with pytest.raises(limited_process.CallFailed, match="not JSON serializable"):
        limited_process.call(bytes, 3)
    assert limited_process.call(len, "abc") == 3


def test_a_server_that_was_ended_is_started_again():
    assert limited_process.call(len, "abc") == 3
    limited_process._server.server.kill()
    limited_process._server.server.wait()
    assert limited_process.call(len, "abc") == 3
