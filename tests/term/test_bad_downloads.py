"""Downloads that are not as they should be: one clear line, nothing written, nothing lost."""

import io
import os
import shutil
import struct
import zipfile

import pytest
from conftest import UNIT
from downloads import folder, gradescope, notebook, put, zipped

from autograder.errors import CourseError
from autograder.lms import archives, stage_downloads
from autograder.lms.collect import collect

GOOD = "x_101_1_02.ipynb"


def _changed(data: bytes, old: bytes, new: bytes, every: bool = True) -> bytes:
    assert old in data and len(old) == len(new)
    return data.replace(old, new) if every else data.replace(old, new, 1)


def _renamed(course, name: str) -> bytes:
    """An archive with a name that zipfile would not write."""
    return _changed(zipped({"Q" * len(name.encode()): notebook(course)}), b"Q" * len(name.encode()), name.encode())


def _with_flags(course, flags: int, method: int | None = None) -> bytes:
    """The good archive, with these flags, or this method of packing, in both of its headers."""
    data = bytearray(zipped({GOOD: notebook(course)}))
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(sign) + at
        data[place : place + 2] = struct.pack("<H", struct.unpack("<H", data[place : place + 2])[0] | flags)
        if method is not None:
            data[place + 2 : place + 4] = struct.pack("<H", method)
    return bytes(data)


def _link(course) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive_:
        info = zipfile.ZipInfo(GOOD)
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive_.writestr(info, "../../../solutions/02_small/02_small.ipynb")
    return out.getvalue()


def _bomb(course) -> bytes:
    """Notebooks that say they have a gigabyte each."""
    data = bytearray(zipped({f"x_{n}_1_02.ipynb": b"x" for n in range(101, 107)}))
    place = -1
    while (place := data.find(b"PK\x01\x02", place + 1)) >= 0:
        data[place + 24 : place + 28] = struct.pack("<I", 1_000_000_000)
    return bytes(data)


def _bad_sum(course) -> bytes:
    data = bytearray(zipped({GOOD: notebook(course)}, zipfile.ZIP_STORED))
    data[200] ^= 0xFF
    return bytes(data)


def _metadata(text: bytes) -> bytes:
    return zipped({"submission_metadata.yml": text, "submission_1/02.ipynb": b"{}"})


def _laughs() -> bytes:
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(12)]
    return ("\n".join(rows) + "\nsubmission_1:\n  :submitters: *a11\n").encode()


WHOLE = {
    "empty": (lambda course: b"", "no zip archive"),
    "text": (lambda course: b"Sign in to continue", "no zip archive"),
    "a web page": (lambda course: b"<!DOCTYPE html>" + b" " * 10_000, "no zip archive"),
    "a tar": (lambda course: b"\x1f\x8b\x08" + os.urandom(500), "no zip archive"),
    "a notebook": (lambda course: notebook(course), "no zip archive"),
    "cut off": (lambda course: zipped({GOOD: notebook(course)})[:-40], "no zip archive"),
    "the end alone": (lambda course: zipped({GOOD: notebook(course)})[-60:], "no zip archive"),
    "a wrong sum": (_bad_sum, "damaged"),
    "a list that is torn": (
        lambda course: _changed(zipped({GOOD: notebook(course)}), b"PK\x01\x02", b"PK\x01\x09"),
        "no zip archive",
    ),
    "a file header that is torn": (
        lambda course: _changed(zipped({GOOD: notebook(course)}), b"PK\x03\x04", b"PK\x03\x09"),
        "damaged",
    ),
    "encrypted": (lambda course: _with_flags(course, 1), "encrypted"),
    "strongly encrypted": (lambda course: _with_flags(course, 0x41), "encrypted"),
    "a method of its own": (lambda course: _with_flags(course, 0, 97), "method 97"),
    "lzma": (lambda course: zipped({GOOD: notebook(course)}, zipfile.ZIP_LZMA), "method 14"),
    "a path upwards": (lambda course: _renamed(course, "../../x_101_1_02.ipynb"), "leads out"),
    "a path upwards, of Windows": (lambda course: _renamed(course, "..\\..\\x_101_1_02.ipynb"), "leads out"),
    "a path from the root": (lambda course: _renamed(course, "/etc/x_101_1_02.ipynb"), "leads out"),
    "a drive": (lambda course: _renamed(course, "C:\\x_101_1_02.ipynb"), "leads out"),
    "metadata that is no YAML": (
        lambda course: _metadata(b"submission_1: [\n :"),
        "submission_metadata.yml can't be read",
    ),
    "metadata that makes objects": (
        lambda course: _metadata(b"submission_1: !!python/object/apply:os.system ['false']\n*x"),
        "can't be read",
    ),
}


def _refused(course, path) -> str:
    with pytest.raises(CourseError) as refusal:
        collect(course, [path])
    text = str(refusal.value)
    assert "\n" not in text and text.startswith(str(path)) and refusal.value.code == 2
    assert not course.submitted.exists() and not (course.classroom / "collected.csv").exists()
    assert [one.name for one in course.classroom.iterdir()] in ([], [".lock"])
    return text


@pytest.mark.parametrize("kind", WHOLE)
def test_a_bad_archive_is_refused_in_one_line(course, tmp_path, kind):
    make, says = WHOLE[kind]
    assert says in _refused(course, put(tmp_path / "in.zip", make(course)))


def test_a_good_archive_beside_a_bad_one_waits(course, tmp_path):
    good, bad = put(tmp_path / "a.zip", zipped({GOOD: notebook(course)})), put(tmp_path / "b.zip", b"no")
    with pytest.raises(CourseError, match="b.zip"):
        collect(course, [good, bad])
    assert not course.submitted.exists()


def test_too_many_files_are_refused(course, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "FILES", 3)
    files = {f"x_{n}_1_02.ipynb": b"{}" for n in range(5)}
    with pytest.raises(archives.UnreadableDownload, match="more than 3 files"):
        archives.Folder(folder(tmp_path / "in", files))
    assert archives.listing(zipped(files)) == {"refused": "it holds 5 files, more than 3"}


def test_what_is_no_file_is_refused(course, tmp_path):
    os.mkfifo(tmp_path / "pipe.zip")
    assert "neither" in _refused(course, tmp_path / "pipe.zip")
    with pytest.raises(CourseError, match="There is no"):
        collect(course, [tmp_path / "nowhere.zip"])


def test_yaml_that_grows_within_itself_does_no_harm(course, tmp_path):
    plan = collect(course, [put(tmp_path / "in.zip", _metadata(_laughs()))])
    assert not plan.steps and len(plan.problems) == 1


# ---------------------------------------------------------------- one student's file costs that student alone


def _one_of_two(course, tmp_path, name: str, data: bytes) -> str:
    """Collects it beside a good hand-in; returns the line."""
    source = zipped({"x_101_1_02.ipynb": notebook(course), name: data})
    plan = collect(course, [put(tmp_path / "in.zip", source)])
    assert [path.name for path in course.submitted.iterdir()] == ["101"]
    (line,) = plan.problems
    assert "\n" not in line and plan.summary().startswith("1 collected")
    return line


OF_ONE = {
    "no archive": lambda course: b"no",
    "cut off": lambda course: zipped({"02.ipynb": notebook(course)})[:-30],
    "a link": _link,
    "a path upwards": lambda course: _renamed(course, "../../02.ipynb"),
    "encrypted": lambda course: _with_flags(course, 1),
    "a wrong sum": _bad_sum,
    "a bomb": _bomb,
    "nothing in it": lambda course: zipped({}),
    "no notebook in it": lambda course: zipped({"essay.pdf": b"%PDF"}),
    "an archive in it": lambda course: zipped({"again.zip": zipped({"02.ipynb": notebook(course)})}),
    "a hundred notebooks": lambda course: zipped({f"{n}.ipynb": b"{}" for n in range(100)}),
}


@pytest.mark.parametrize("kind", OF_ONE)
def test_a_students_bad_archive_costs_that_student_alone(course, tmp_path, kind):
    assert "102" in _one_of_two(course, tmp_path, "x_102_2_work.zip", OF_ONE[kind](course))


def test_a_notebook_far_too_large_is_named(course, tmp_path):
    assert "more than 10 MB" in _one_of_two(course, tmp_path, "x_102_2_02.ipynb", b" " * 11_000_000)


def test_an_archive_far_too_large_is_named(course, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "NESTED", 1_000)
    assert "MB" in _one_of_two(course, tmp_path, "x_102_2_02.zip", os.urandom(2_000))


@pytest.mark.parametrize("name", ["..", ".hidden", "a*b", "a[1]", "a\u202eb", "a\x07b", "x" * 130])
def test_a_name_that_can_be_no_folder_is_never_a_path(course, tmp_path, name):
    """Without a roster the name would become the student's id."""
    if name == "..":  # an archive that holds it is refused
        people = {"submission_1": ([("'..'", "../../etc", "")], "2026-11-20 10:00:00 Z")}
        source = zipped({"submission_metadata.yml": gradescope(people), "submission_1/02.ipynb": notebook(course)})
    else:
        source = zipped(
            {
                f"{name}_5_assignsubmission_file/x.ipynb": notebook(course),
                "Ada_6_assignsubmission_file/x.ipynb": notebook(course),
            }
        )
    plan = collect(course, [put(tmp_path / "in.zip", source)])
    assert len(plan.problems) == 1 and "\n" not in plan.problems[0] and "\u202e" not in plan.problems[0]
    found = [path.name for path in course.submitted.iterdir()] if course.submitted.exists() else []
    assert found == ([] if name == ".." else ["Ada"])


def test_links_and_pipes_in_a_folder_are_left_where_they_are(course, tmp_path):
    root = folder(tmp_path / "in", {"ada/02.ipynb": notebook(course)})
    (root / "bob").mkdir()
    os.symlink(course.solved(UNIT), root / "bob" / "02.ipynb")
    os.symlink(course.solutions, root / "cyd")
    os.mkfifo(root / "ada" / "pipe.ipynb")
    plan = collect(course, [root])
    assert [path.name for path in course.submitted.iterdir()] == ["ada"]
    assert sorted(line.split(" and ")[0] for line in plan.problems) == [
        "ada/pipe.ipynb is a FIFO",
        "bob/02.ipynb is a link",
        "cyd is a link",
    ]


def test_a_link_in_submitted_is_not_followed(course, tmp_path):
    outside = folder(tmp_path / "outside", {f"{UNIT}/{UNIT}.ipynb": b"mine"})
    course.submitted.mkdir(parents=True)
    os.symlink(outside, course.submitted / "101")
    plan = collect(course, [put(tmp_path / "in.zip", zipped({GOOD: notebook(course)}))])
    assert "is a link" in plan.problems[0] and not plan.steps
    assert (outside / UNIT / f"{UNIT}.ipynb").read_bytes() == b"mine"


def test_two_units_and_one_deadline_are_refused(course, tmp_path, monkeypatch):
    monkeypatch.setattr(
        stage_downloads.intake, "unit_of", lambda data, units: "02_small" if data == b"1" else "03_other"
    )
    path = put(tmp_path / "in.zip", zipped({"x_101_1_a.ipynb": b"1", "x_102_1_a.ipynb": b"2"}))
    with pytest.raises(CourseError, match="--due is for one unit"):
        collect(course, [path], due="2026-11-30")
    assert not course.submitted.exists()


def test_a_disk_that_is_full_loses_nothing(course, tmp_path, monkeypatch):
    import errno

    from autograder.lms import collect as module

    path = put(tmp_path / "in.zip", zipped({GOOD: notebook(course), "x_102_1_02.ipynb": notebook(course)}))
    copy, calls = module._copy, []

    def full(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        copy(source, target)

    monkeypatch.setattr(module, "_copy", full)
    with pytest.raises(CourseError, match="No space left"):
        collect(course, [path])
    monkeypatch.setattr(module, "_copy", copy)
    assert collect(course, [path]).summary().startswith("2 collected (1 new, 0 replaced, 1 same)")


def test_a_gradebook_that_is_none_or_locked_is_a_line(course, tmp_path):
    put(course.classroom / "gradebook.db", b"no gradebook" * 100)
    with pytest.raises(CourseError, match="The gradebook can't be used"):
        collect(course, [put(tmp_path / "in.zip", zipped({GOOD: notebook(course)}))], due="2026-11-30")
    assert not course.submitted.exists()


def test_a_class_folder_that_is_a_file_is_a_line(course, tmp_path):
    shutil.rmtree(course.classroom, ignore_errors=True)
    put(course.classroom, b"")
    with pytest.raises(CourseError, match="can't be used"):
        collect(course, [put(tmp_path / "in.zip", zipped({GOOD: notebook(course)}))])


def test_a_course_that_was_not_built_says_so(fresh_course, tmp_path):
    with pytest.raises(CourseError, match="attn build"):
        collect(fresh_course, [put(tmp_path / "in.zip", zipped({GOOD: b"{}"}))])


def test_a_run_beside_another_waits(course, tmp_path):
    from autograder.grading.gradebook_writer import gradebook_lock

    with gradebook_lock(course), pytest.raises(CourseError, match="wait until it is done"):
        collect(course, [put(tmp_path / "in.zip", zipped({GOOD: notebook(course)}))])


def test_a_list_of_attempts_that_somebody_broke_is_named(course, tmp_path):
    course.classroom.mkdir(parents=True, exist_ok=True)
    put(course.classroom / "collected.csv", b"student_id,unit\nada,02_small\n")
    with pytest.raises(CourseError, match="collected.csv: line 2"):
        collect(course, [put(tmp_path / "in.zip", zipped({GOOD: notebook(course)}))])
