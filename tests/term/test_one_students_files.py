"""What one student hands in costs that student alone, whatever its number, size, depth or name: it is named, and all
others are collected."""

import io
import os
import struct
import zipfile

import pytest
from conftest import UNIT
from downloads import folder, notebook, put, zipped

from autograder import size_limits
from autograder.lms.collect import collect

CLASS = [f"s{number:02d}" for number in range(1, 41)]
SEVEN = ["archives", "deep", "long", "longname", "zeros", "upwards", "many"]


@pytest.fixture
def roster(tmp_path):
    lines = [f"{name},{name},Given,{100 + at}" for at, name in enumerate([*CLASS, *SEVEN])]
    return put(tmp_path / "roster.csv", "\n".join(["student_id,last_name,first_name,canvas_id", *lines]).encode())


def _moodle(student: str, file: str) -> str:
    return f"Given {student}_{900_000 + [*CLASS, *SEVEN].index(student)}_assignsubmission_file/{file}"


def _canvas(student: str, file: str, upload: int = 9_000) -> str:
    number = [*CLASS, *SEVEN].index(student)
    return f"{student}given_{100 + number}_{upload + number}_{file}"


def _fifty() -> bytes:
    """Fifty notebooks of as many bytes as one may have, in half a megabyte."""
    return zipped({f"{number}.ipynb": b" " * size_limits.FILE for number in range(50)})


def _says_4_gb(archive: bytes, name: str) -> bytes:
    data = bytearray(archive)
    place = data.rindex(name.encode()) - 46
    data[place + 24 : place + 28] = struct.pack("<I", 4_000_000_000)
    return bytes(data)


def _collected(course) -> set[str]:
    return {path.parts[-3] for path in course.submitted.glob("*/*/*.ipynb")}


def test_seven_hand_ins_that_ended_collect_once(course, tmp_path, roster):
    work = notebook(course, "bad")
    files = {_moodle(name, "02.ipynb"): notebook(course, name) for name in CLASS}
    files |= dict.fromkeys((_moodle("archives", f"{number}.zip") for number in range(9)), _fifty())
    files |= {
        _moodle("deep", "a/" * 17 + "02.ipynb"): work,
        _moodle("long", "a" * 295 + ".ipynb"): work,
        _moodle("longname", "b" * 60_000 + ".ipynb"): work,
        _moodle("zeros", "zeros.ipynb"): work,
        _moodle("upwards", "..\\x.ipynb"): work,
    }
    files |= {_moodle("many", f"f/{number}.ipynb"): b"" for number in range(20_001)}
    archive = _says_4_gb(zipped(files), _moodle("zeros", "zeros.ipynb"))
    plan = collect(course, [put(tmp_path / "in.zip", archive)], roster)
    assert _collected(course) == set(CLASS) and {name for name, _ in plan.missing} == set(SEVEN)
    assert len(plan.problems) == 7 and all("\n" not in line for line in plan.problems)
    assert all(any(f"Given {name}" in line for line in plan.problems) for name in SEVEN)


def test_the_same_in_canvas_where_every_file_lies_in_the_root(course, tmp_path, roster):
    files = {_canvas(name, "02_small.ipynb"): notebook(course, name) for name in CLASS}
    files |= {
        _canvas("longname", "b" * 600 + ".ipynb"): notebook(course),
        _canvas("upwards", "..\\x.ipynb"): notebook(course),
        _canvas("zeros", "zeros.ipynb"): notebook(course),
    }
    files |= {_canvas("many", f"{number}.ipynb", 9_000 + number): b"" for number in range(20_001)}
    archive = _says_4_gb(zipped(files), _canvas("zeros", "zeros.ipynb"))
    plan = collect(course, [put(tmp_path / "in.zip", archive)], roster)
    assert _collected(course) == set(CLASS) and len(plan.problems) == 4


def test_the_same_in_a_folder(course, tmp_path, roster):
    files = {f"{name}/02.ipynb": notebook(course, name) for name in CLASS}
    root = folder(tmp_path / "in", files | {"deep/" + "a/" * 17 + "02.ipynb": notebook(course)})
    folder(root, {f"many/{number}.ipynb": b"" for number in range(60)})
    (root / "upwards").mkdir()
    for number in range(60):
        os.symlink(course.solved(UNIT), root / "upwards" / f"{number}.ipynb")
    plan = collect(course, [root], roster)
    assert _collected(course) == set(CLASS)
    assert len(plan.problems) == 1 + 1 + 6  # a folder, a student, five links and how many more


def _renamed(course, name: str) -> bytes:
    """An archive with a name that zipfile would not write."""
    length = len(name.encode())
    return zipped({"Q" * length: notebook(course)}).replace(b"Q" * length, name.encode())


ODD = ["../../02.ipynb", "a/../../02.ipynb", "x_\0.ipynb", "a/" * 40 + "02.ipynb", "a" * 5_000 + ".ipynb"]


@pytest.mark.parametrize("name", ODD)
def test_a_path_that_no_program_writes_costs_its_owner_alone(course, tmp_path, name):
    """In the download itself, and in an archive that a student handed in."""
    owner = "Eve_6_assignsubmission_file/"
    data = _renamed(course, owner + name)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.infolist()[0].orig_filename == owner + name
    outer = _both(data, zipped({"Ada_5_assignsubmission_file/x.ipynb": notebook(course)}))
    plan = collect(course, [put(tmp_path / "outer.zip", outer)])
    inner = zipped({"Bob_7_assignsubmission_file/x.ipynb": notebook(course), owner + "my.zip": _renamed(course, name)})
    again = collect(course, [put(tmp_path / "inner.zip", inner)])
    assert _collected(course) == {"Ada", "Bob"}
    assert all(len(one.problems) == 1 and one.problems[0].startswith(owner) for one in (plan, again))


def _both(first: bytes, second: bytes) -> bytes:
    """One archive with the one file of each, names as they are."""
    lists, files, offset = b"", b"", 0
    for data in (first, second):
        place = data.index(b"PK\x01\x02")
        entry = bytearray(data[place : data.rindex(b"PK\x05\x06")])
        entry[42:46] = struct.pack("<I", offset)
        files, lists, offset = files + data[:place], lists + bytes(entry), offset + place
    return files + lists + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, len(lists), offset, 0)


def test_a_link_in_the_download_is_its_owners(course, tmp_path):
    """Gradescope's exports may hold some: it unpacks what students hand in."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("Eve_6_assignsubmission_file/02.ipynb")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
        archive.writestr("Ada_5_assignsubmission_file/x.ipynb", notebook(course))
    plan = collect(course, [put(tmp_path / "in.zip", out.getvalue())])
    assert _collected(course) == {"Ada"} and "is a link" in plan.problems[0]


def test_what_lies_in_an_archive_is_named_below_the_archive(course, tmp_path, roster):
    """A file in eve's archive that is called like ada's is eve's, in the lines too."""
    bad = zipped({_moodle("s01", "02.ipynb"): b" " * 11_000_000})
    files = {_moodle("s01", "02.ipynb"): notebook(course, "a"), _moodle("s02", "my.zip"): bad}
    (line,) = collect(course, [put(tmp_path / "in.zip", zipped(files))], roster).problems
    assert line.startswith(_moodle("s02", "my.zip"))


def test_a_notebook_of_another_unit_ends_no_deadline(course, tmp_path, roster, monkeypatch):
    from autograder.grading import intake

    monkeypatch.setattr(intake, "unit_of", lambda data, units: "03_other" if data == b"other" else UNIT)
    files = {_moodle(name, "x.ipynb"): name.encode() for name in CLASS[:3]} | {_moodle("many", "x.ipynb"): b"other"}
    plan = collect(course, [put(tmp_path / "in.zip", zipped(files))], roster, due="2026-11-30")
    assert _collected(course) == set(CLASS[:3]) and "--due is for 02_small" in plan.problems[0]


def test_a_notebook_of_another_unit_makes_nobody_miss_it(course, tmp_path, roster, monkeypatch):
    from autograder.grading import intake

    monkeypatch.setattr(intake, "unit_of", lambda data, units: "03_other" if data == b"other" else UNIT)
    files = {_moodle(name, "x.ipynb"): name.encode() for name in CLASS[:3]} | {_moodle("many", "x.ipynb"): b"other"}
    plan = collect(course, [put(tmp_path / "in.zip", zipped(files))], roster)
    assert {unit for _, unit in plan.missing} == {UNIT}
