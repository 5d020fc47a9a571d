"""Downloads of every kind reach `submitted/`: whose they are, which attempt counts, what is late; a second run changes
nothing."""

import os
import time
from datetime import UTC, datetime

import pytest
from conftest import UNIT
from downloads import folder, gradescope, notebook, put, zipped

from autograder import timestamps
from autograder.course import nbgrader_steps
from autograder.errors import CourseError
from autograder.lms import attempts
from autograder.lms.collect import collect

ROSTER = """student_id,last_name,first_name,email,canvas_id,sis_user_id,moodle_idnumber,status
ada,Lovelace,Ada,ada@x.org,101,S1,M1,
bob,Bär-Öztürk,Bob,bob@x.org,102,S2,M2,
cyd,O'Neill,Cyd,cyd@x.org,103,S3,M3,
dan,Gone,Dan,dan@x.org,104,S4,M4,dropped
"""


@pytest.fixture
def roster(tmp_path):
    return put(tmp_path / "roster.csv", ROSTER.encode())


def _there(course):
    """Who has what in `submitted/`, and when."""
    found = {}
    for path in sorted(course.submitted.glob("*/*/*")):
        name, unit = path.relative_to(course.submitted).parts[:2]
        assert path.name in (f"{unit}.ipynb", "timestamp.txt")
        found.setdefault(name, {})[path.suffix] = path.read_bytes()
    return {name: (files.get(".ipynb"), files.get(".txt", b"").decode().strip()) for name, files in found.items()}


def _collect(course, tmp_path, files, roster=None, **options):
    return collect(course, [put(tmp_path / "download.zip", zipped(files))], roster, **options)


# ---------------------------------------------------------------- every learning management system


def test_canvas(course, tmp_path, roster):
    a, b, c = (notebook(course, text) for text in "abc")
    files = {
        "lovelaceada_101_9001_02_small.ipynb": a,
        "bärztürkbob_LATE_102_9002_my work_1_2_final-1.ipynb": b,
        "oneillcyd_103_9003_x.ipynb.txt": c,
        "egoneve_999_9004_02_small.ipynb": b,
        "gonedan_104_9005_essay.pdf": b"%PDF",
    }
    plan = _collect(course, tmp_path, files, roster, due="2026-11-20 23:59 UTC")
    assert _there(course) == {
        "ada": (a, ""),
        "bob": (b, "2026-11-21 00:00:00 UTC"[:0] + "2026-11-20 23:59:01 UTC"),
        "cyd": (c, ""),
    }
    assert (
        plan.summary()
        == "3 collected (3 new, 0 replaced, 0 same), 1 late, 1 not on the roster, 0 missing, 0 groups of equal files"
    )
    assert plan.problems == [
        "egoneve_999_9004_02_small.ipynb: not on the roster (canvas_id 999)",
        "gonedan (104): no notebook was handed in (gonedan_104_9005_essay.pdf)",
    ]
    kept = attempts.load(course)
    assert [(one.lms, one.lms_id, one.order) for one in kept["bob", UNIT].values()] == [("canvas", "102", 9002)]


def test_a_name_of_a_file_or_of_a_student_is_no_other_student(course, tmp_path, roster):
    a = notebook(course, "a")
    files = {"lovelaceada_101_9001_bar_102_9002_x.ipynb": a, "bob_2_3_102_9005_02.ipynb": notebook(course, "b")}
    plan = _collect(course, tmp_path, files, roster)
    assert _there(course) == {"ada": (a, "")} and plan.strangers == {"bob (2)"}


def test_canvas_without_a_roster_and_anonymous(course, tmp_path):
    plan = _collect(
        course,
        tmp_path,
        {"lovelaceada_101_1_a.ipynb": notebook(course, "a"), "LATE_anon_x1Yz2_7_a.ipynb": notebook(course)},
    )
    assert sorted(_there(course)) == ["101", "anon_x1Yz2"] and plan.missing is None


@pytest.mark.parametrize(
    "pattern",
    ["{}_assignsubmission_file/a/b.ipynb", "{}_assignsubmission_file_/b.ipynb", "{}_assignsubmission_file_b.ipynb"],
)
def test_moodle(course, tmp_path, roster, pattern):
    people = {"Ada Lovelace_900001": "a", "Group 7-Bob Bär-Öztürk_900002": "b", "Cyd O'Neill_900003": "c"}
    files = {pattern.format(name): notebook(course, text) for name, text in people.items()}
    files["Ada Lovelace_900001_assignsubmission_onlinetext/onlinetext.html"] = b"<p>"
    plan = _collect(course, tmp_path, files, roster)
    assert {name: found[0] for name, found in _there(course).items()} == {
        "ada": notebook(course, "a"),
        "bob": notebook(course, "b"),
        "cyd": notebook(course, "c"),
    }
    assert plan.problems == [] and plan.missing == []


WORKSHEET = """Identifier,Full name,Last modified (submission),Grade
Participant 900001,Ada Lovelace,"Friday, 20 November 2026, 11:59 PM",
Participant 900002,Bob Bär-Öztürk,"Saturday, 21 November 2026, 12:01 AM",
Participant 900003,Cyd O'Neill,-,
"""


def test_moodles_worksheet_says_when(course, tmp_path, roster):
    people = {"Ada Lovelace_900001": "a", "Bob Bär-Öztürk_900002": "b"}
    files = {f"{name}_assignsubmission_file/x.ipynb": notebook(course, text) for name, text in people.items()}
    download, table = put(tmp_path / "in.zip", zipped(files)), put(tmp_path / "w.csv", WORKSHEET.encode())
    without = collect(course, [download], roster, due="2026-11-20", dry_run=True)
    assert any("doesn't say when 2 were handed in" in line for line in without.notes)
    plan = collect(course, [download, table], roster, due="2026-11-20")
    assert {step.chosen.student_id: step.late for step in plan.steps} == {"ada": False, "bob": True}
    assert _there(course)["bob"][1] == timestamps.format_timestamp(datetime(2026, 11, 21, 0, 1).astimezone())


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "Kennung,Zuletzt\nTeilnehmer 1,gestern\n", WORKSHEET.replace(" November 2026", "/11/26"), ""]
)
def test_a_worksheet_that_says_no_times_is_refused(course, tmp_path, text):
    download = put(tmp_path / "in.zip", zipped({"Ada_1_assignsubmission_file/x.ipynb": notebook(course)}))
    with pytest.raises(CourseError, match="w.csv: "):
        collect(course, [download, put(tmp_path / "w.csv", text.encode())])
    assert not course.submitted.exists()


GERMAN = """Kennung,Vollständiger Name,Zuletzt geändert (Abgabe),Zuletzt geändert (Bewertung)
Teilnehmer/in 900001,Ada Lovelace,"Freitag, 20. November 2026, 23:59",-
Teilnehmer/in 900002,Bob Bär-Öztürk,20/11/26,"Montag, 23. November 2026, 10:00"
"""


def test_a_worksheet_in_another_language_is_read_and_a_line_that_is_not_is_named(course, tmp_path, roster):
    people = {"Ada Lovelace_900001": "a", "Bob Bär-Öztürk_900002": "b"}
    files = {f"{name}_assignsubmission_file/x.ipynb": notebook(course, text) for name, text in people.items()}
    download, table = put(tmp_path / "in.zip", zipped(files)), put(tmp_path / "w.csv", GERMAN.encode())
    plan = collect(course, [download, table], roster, due="2026-11-21")
    assert _there(course)["ada"][1] == timestamps.format_timestamp(datetime(2026, 11, 20, 23, 59).astimezone())
    assert plan.problems == ["w.csv, line 3: the time '20/11/26' can't be read, so it is not known"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/New_York"])
def test_a_hand_in_is_in_time_whatever_the_clock_of_the_machine(monkeypatch, course, tmp_path, roster, zone):
    """A deadline and a worksheet in the zone of the course, collected on a machine in another one."""
    files = {"Ada Lovelace_900001_assignsubmission_file/x.ipynb": notebook(course, "a")}
    download, table = put(tmp_path / "in.zip", zipped(files)), put(tmp_path / "w.csv", WORKSHEET.encode())
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        plan = collect(course, [download, table], roster, due="2026-11-20 23:59", zone="Europe/Berlin")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [step.late for step in plan.steps] == [False]
    assert _there(course)["ada"][1] == "2026-11-20 22:59:00 UTC"
    assert "Times that name no zone were read in Europe/Berlin." in plan.notes


def test_a_zone_that_is_none_is_one_line(course):
    with pytest.raises(CourseError, match="no time zone 'Berlin'"):
        collect(course, [], zone="Berlin")


def test_moodle_marked_blind(course, tmp_path, roster):
    for word in ("Participant", "Teilnehmer"):
        files = {f"{word}_90000{n}_assignsubmission_file/x.ipynb": notebook(course, str(n)) for n in (1, 2)}
        plan = _collect(course, tmp_path, files, roster)
        assert plan.missing is None and not plan.problems
    assert sorted(_there(course)) == [
        "Participant 900001",
        "Participant 900002",
        "Teilnehmer 900001",
        "Teilnehmer 900002",
    ]


def test_two_people_with_one_name_are_left_to_the_instructor(course, tmp_path, roster):
    files = {f"Ada Lovelace_90000{n}_assignsubmission_file/x.ipynb": notebook(course, str(n)) for n in (1, 2)}
    plan = _collect(course, tmp_path, files | {"Cyd O'Neill_9_assignsubmission_file/x.ipynb": notebook(course)}, roster)
    assert list(_there(course)) == ["cyd"] and "2 people" in plan.problems[0]


def test_gradescope_with_a_group_and_times(course, tmp_path, roster):
    people = {
        "submission_11": ([("A. Lovelace", "S1", "ada@x.org")], "2026-11-20 23:58:59.861687000 Z"),
        "submission_12": ([("B", "S2", ""), ("C", "", "CYD@x.org")], "2026-11-20 16:00:00.5 -08:00"),
    }
    files = {
        "assignment_1_export/submission_metadata.yml": gradescope(people),
        "assignment_1_export/submission_11/02.ipynb": notebook(course, "a"),
        "assignment_1_export/submission_12/work.zip": zipped({"deep/er/02.ipynb": notebook(course, "b")}),
    }
    plan = _collect(course, tmp_path, files, roster, due="2026-11-20 23:59:00 UTC")
    assert {name: time for name, (_, time) in _there(course).items()} == {
        "ada": "2026-11-20 23:58:59 UTC",
        "bob": "2026-11-21 00:00:00 UTC",
        "cyd": "2026-11-21 00:00:00 UTC",
    }
    assert [step.late for step in plan.steps] == [False, True, True] and plan.equal == [["bob", "cyd"]]


@pytest.mark.parametrize(
    "pattern", ["12-34 - {} - Nov 20, 2026 1159 PM/x - y.ipynb", "12-34 - {}- Nov 20, 2026 11:59 PM - x.ipynb"]
)
def test_brightspace(course, tmp_path, roster, pattern):
    files = {pattern.format("Ada Lovelace"): notebook(course, "a"), "index.html": b"<html>"}
    plan = _collect(course, tmp_path, files, roster, due="2026-11-20 23:58")
    local = datetime(2026, 11, 20, 23, 59).astimezone()
    assert _there(course) == {"ada": (notebook(course, "a"), timestamps.format_timestamp(local))} and plan.steps[0].late


def test_google_classroom(course, tmp_path, roster):
    files = {
        "Unit 02/Ada Lovelace - Unit 02.ipynb": notebook(course, "a"),
        "Unit 02/bob@x.org 02.ipynb": notebook(course, "b"),
        "Unit 02/Untitled.ipynb": notebook(course, "c"),
    }
    plan = _collect(course, tmp_path, files, roster, lms="files")
    assert sorted(_there(course)) == ["ada", "bob"]
    assert len(plan.problems) == 1 and plan.problems[0].startswith("Unit 02/Untitled.ipynb: not on the roster")


@pytest.mark.parametrize(
    "paths",
    [
        ["ada/02_small.ipynb", "bob/x.ipynb"],
        ["a/b/ada/02_small/02_small.ipynb", "a/b/102/02_small/x.ipynb"],
        ["section A/Lovelace Ada/x.ipynb", "section B/S2/x.ipynb"],
        ["ada.ipynb", "02-bob.ipynb"],  # files, with --lms files
    ],
)
@pytest.mark.parametrize("as_folder", [False, True])
def test_plain_folders(course, tmp_path, roster, paths, as_folder):
    files = dict(zip(paths, (notebook(course, "a"), notebook(course, "b")), strict=True))
    source = folder(tmp_path / "in", files) if as_folder else put(tmp_path / "in.zip", zipped(files))
    plan = collect(course, [source], roster, lms="" if "/" in paths[0] else "files")
    assert {name: found[0] for name, found in _there(course).items()} == {
        "ada": notebook(course, "a"),
        "bob": notebook(course, "b"),
    }
    assert not plan.problems


@pytest.mark.parametrize(
    "paths",
    [["ada/02_small/02_small.ipynb"], ["in/ada/x.ipynb", "in/bob/x.ipynb"], ["in/ada - 02.ipynb", "in/bob - 02.ipynb"]],
)
def test_plain_folders_without_a_roster(course, tmp_path, paths):
    download = put(tmp_path / "in.zip", zipped({path: notebook(course, path) for path in paths}))
    collect(course, [download], lms="files" if " - " in paths[0] else "")
    assert sorted(_there(course)) == ["ada", "bob"][: len(paths)]


def test_several_downloads_of_several_systems(course, tmp_path, roster):
    files = {
        "canvas.zip": zipped({"x_101_1_x.ipynb": notebook(course, "a")}),
        "moodle.zip": zipped({"Bob Bär-Öztürk_1_assignsubmission_file/x.ipynb": notebook(course, "b")}),
    }
    inside = folder(tmp_path / "in", files)
    with pytest.raises(CourseError, match="--lms"):  # an archive that a student may have named is no download
        collect(course, [inside], roster)
    collect(course, sorted(inside.iterdir()), roster)
    assert sorted(_there(course)) == ["ada", "bob"]


def test_names_in_other_forms_are_the_same(course, tmp_path):
    put(tmp_path / "roster.csv", "student_id,last_name,first_name\nj,Jørgensen,Zoë\nl,李,明\n".encode())
    files = {
        "Zoe\u0308 Jørgensen_1_assignsubmission_file/x.ipynb": notebook(course, "a"),
        "明 李_2_assignsubmission_file/x.ipynb": notebook(course, "b"),
    }
    collect(course, [put(tmp_path / "in.zip", zipped(files))], tmp_path / "roster.csv")
    assert sorted(_there(course)) == ["j", "l"]


# ---------------------------------------------------------------- attempts, deadlines, a second run


def _at(day: int, name: str, data: bytes, root, student="ada"):
    path = put(root / student / name, data)
    os.utime(path, (datetime(2026, 11, day, tzinfo=UTC).timestamp(),) * 2)


def test_the_last_before_the_deadline_counts_and_the_others_are_kept(course, tmp_path, roster):
    first, second, third = (notebook(course, text) for text in ("1", "2", "3"))
    for day, data in ((1, first), (2, second), (4, third)):
        _at(day, f"x ({day}).ipynb", data, tmp_path / "in")
    plan = collect(course, [tmp_path / "in"], roster, due="2026-11-03")
    assert _there(course)["ada"] == (second, "2026-11-02 00:00:00 UTC") and not plan.steps[0].late
    history = {path.read_bytes() for path in (course.classroom / "history" / "ada" / UNIT).glob("*.ipynb")}
    assert history == {first, third}
    later = collect(course, [tmp_path / "in"], due="2026-11-05")
    assert _there(course)["ada"][0] == third and later.steps[0].kind == "replaced"
    assert {path.read_bytes() for path in (course.classroom / "history" / "ada" / UNIT).glob("*.ipynb")} == {
        first,
        second,
        third,
    }


def test_where_none_was_in_time_the_last_counts_as_late(course, tmp_path, roster):
    for day, text in ((5, "1"), (6, "2")):
        _at(day, f"{day}.ipynb", notebook(course, text), tmp_path / "in")
    plan = collect(course, [tmp_path / "in"], roster, due="2026-11-03")
    assert _there(course)["ada"][0] == notebook(course, "2") and plan.steps[0].late


def test_an_extension_in_the_gradebook_counts(course, tmp_path, roster):
    from autograder.grading.gradebook_writer import register

    register(course, UNIT)
    with nbgrader_steps.open_gradebook(course) as gradebook:
        gradebook.add_student("ada")
        gradebook.add_submission(UNIT, "ada")
        gradebook.grant_extension(UNIT, "ada", days=2)
    for student in ("ada", "bob"):
        _at(4, "x.ipynb", notebook(course, student), tmp_path / "in", student)
    plan = collect(course, [tmp_path / "in"], roster, due="2026-11-03 00:00 UTC")
    assert {step.chosen.student_id: step.late for step in plan.steps} == {"ada": False, "bob": True}
    with nbgrader_steps.open_gradebook(course) as gradebook:
        assert gradebook.find_assignment(UNIT).duedate == datetime(2026, 11, 3)
        assert gradebook.find_assignment(UNIT).notebooks


def test_a_deadline_outlives_the_first_run_of_grading(course, tmp_path):
    """Collected before the unit's cells are in the gradebook."""
    from autograder.grading.gradebook_writer import register

    _collect(course, tmp_path, {"x_101_1_a.ipynb": notebook(course)}, due="2026-11-03 00:00 UTC")
    register(course, UNIT)
    with nbgrader_steps.open_gradebook(course) as gradebook:
        assignment = gradebook.find_assignment(UNIT)
        assert assignment.duedate == datetime(2026, 11, 3) and assignment.notebooks


def _state(course):
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(course.submitted.rglob("*"))
        if path.is_file()
    }


def test_a_second_run_changes_nothing_and_a_third_replaces_what_is_new(course, tmp_path, roster):
    files = {"x_101_1_a.ipynb": notebook(course, "a"), "x_102_2_b.ipynb": notebook(course, "b")}
    _collect(course, tmp_path, files, roster)
    before = _state(course)
    assert _collect(course, tmp_path, files).summary().startswith("2 collected (0 new, 0 replaced, 2 same)")
    assert _state(course) == before
    plan = _collect(
        course,
        tmp_path,
        files | {"x_101_7_a-1.ipynb": notebook(course, "better"), "x_103_8_c.ipynb": notebook(course, "b")},
    )
    assert (
        plan.summary()
        == "3 collected (1 new, 1 replaced, 1 same), 0 late, 0 not on the roster, 0 missing, 1 group of equal files"
    )
    assert _there(course)["ada"][0] == notebook(course, "better")
    (kept,) = (course.classroom / "history" / "ada" / UNIT).glob("*.ipynb")
    assert kept.read_bytes() == notebook(course, "a")


def test_who_handed_in_the_file_as_it_was_given_out_is_named_each_time(course, tmp_path, roster):
    saved = notebook(course).replace(b'"nbformat_minor": 5', b'"nbformat_minor": 4')
    files = {"x_101_1_a.ipynb": notebook(course), "x_102_2_b.ipynb": saved, "x_103_3_c.ipynb": notebook(course, "c")}
    for _ in range(2):
        plan = _collect(course, tmp_path, files, roster)
        assert "unchanged since release: ada, bob" in plan.notes and plan.equal == []


def test_a_late_hand_in_does_not_replace_one_in_time_and_the_same_again_is_not_late(course, tmp_path, roster):
    a = notebook(course, "a")
    _collect(course, tmp_path, {"x_101_1_a.ipynb": a}, roster)
    _collect(course, tmp_path, {"x_LATE_101_2_a.ipynb": notebook(course, "late")}, due="2026-11-03")
    assert _there(course)["ada"] == (a, "")
    _collect(course, tmp_path, {"x_LATE_101_3_a.ipynb": a})
    assert _there(course)["ada"] == (a, "")


def test_what_lay_there_before_is_kept(course, tmp_path, roster):
    by_hand = notebook(course, "by hand")
    put(course.submission("ada", UNIT), by_hand)
    put(course.submission("ada", UNIT).with_name("copy.ipynb"), notebook(course, "copy"))
    _collect(course, tmp_path, {"x_101_1_a.ipynb": notebook(course, "new")}, roster)
    assert _there(course)["ada"][0] == notebook(course, "new")
    history = {path.read_bytes() for path in (course.classroom / "history" / "ada" / UNIT).glob("*.ipynb")}
    assert history == {by_hand, notebook(course, "copy")}


def test_a_students_own_timestamp_moves_nothing(course, tmp_path, roster):
    files = {"ada/02_small.ipynb": notebook(course), "ada/timestamp.txt": b"2020-01-01 00:00:00 UTC\n"}
    collect(course, [put(tmp_path / "in.zip", zipped(files))], roster, due="2026-11-01")
    assert _there(course)["ada"][1].startswith("2026-11-22")


def test_a_dry_run_writes_nothing_and_says_the_same(course, tmp_path, roster, attn):
    path = put(tmp_path / "in.zip", zipped({"x_101_1_a.ipynb": notebook(course), "x_9_1_a.ipynb": notebook(course)}))
    shown = attn(course, "collect", str(path), "--roster", str(roster), "--due", "2026-11-30", "--dry-run")
    assert (
        shown.exit_code == 3
        and "new ada 02 ← a.ipynb" not in shown.output
        and "new ada 02 ← x_101_1_a.ipynb" in shown.output
    )
    assert list(course.classroom.iterdir()) == []
    done = attn(course, "collect", str(path), "--roster", str(roster), "--due", "2026-11-30")
    assert done.output.splitlines()[-1] == shown.output.splitlines()[-1]
    assert (
        done.output.splitlines()[-1]
        == "1 collected (1 new, 0 replaced, 0 same), 0 late, 1 not on the roster, 2 missing, 0 groups of equal files"
    )


def test_a_broken_notebook_is_collected_so_that_grading_can_say_why(course, tmp_path, roster):
    _collect(course, tmp_path, {"x_101_1_a.ipynb": notebook(course), "x_102_2_b.ipynb": b'{"cells": ['}, roster)
    assert _there(course)["bob"][0] == b'{"cells": ['


def test_a_broken_file_beside_a_good_one_counts_for_nothing(course, tmp_path, roster):
    files = {"x_101_1_a.ipynb": notebook(course, "a"), "x_101_2_b.ipynb": b"{", "x_101_3_c.ipynb": b'{"cells": []}'}
    plan = _collect(course, tmp_path, files, roster)
    assert _there(course) == {"ada": (notebook(course, "a"), "")}
    assert [line.split(": ")[1] for line in plan.problems] == ["no grade is possible"] * 2
    again = _collect(course, tmp_path, {"x_101_9_02_small.ipynb": b"{"})
    assert _there(course) == {"ada": (notebook(course, "a"), "")} and again.steps[0].kind == "same"
    assert _collect(course, tmp_path, files).problems == plan.problems


def test_nobody_becomes_another_by_taking_an_id_for_a_name(course, tmp_path, roster):
    files = {
        f"{name}_{n}_assignsubmission_file/x.ipynb": notebook(course, name)
        for n, name in enumerate(("bob", "cyd@x.org", "M1", "102"))
    }
    plan = _collect(course, tmp_path, files, roster)
    assert not plan.steps and len(plan.strangers) == 4


def test_units_are_told_apart_by_their_cells(course, tmp_path, roster):
    other = b'{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}'
    plan = _collect(
        course, tmp_path, {"x_101_1_holiday.ipynb": notebook(course), "x_102_2_02_small.ipynb": other}, roster
    )
    assert plan.problems == ["bob, x_102_2_02_small.ipynb: no grade is possible: no cell of it is one of this course's"]
    plain = collect(
        course, [folder(tmp_path / "in", {"cyd/notes.ipynb": other, "cyd/x.ipynb": notebook(course)})], roster
    )
    assert plain.problems == ["cyd/notes.ipynb: it is no notebook of this course"]
    assert _there(course)["cyd"][0] == notebook(course)


def test_the_list_of_attempts_reads_back_as_it_was(course, tmp_path):
    files = {"=1+1/x.ipynb": notebook(course, "a"), '@b/y, "z".ipynb': notebook(course, "b")}
    collect(course, [put(tmp_path / "in.zip", zipped(files))])
    known = attempts.load(course)
    before = (course.classroom / "collected.csv").read_text(encoding="utf-8")
    attempts.save(course, known)
    assert (course.classroom / "collected.csv").read_text(encoding="utf-8") == before
    assert {place[0] for place in known} == {"=1+1", "@b"} and "\n=" not in before and "\n@" not in before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2026-13-01",
        "2026-11-30 25:00",
        "2026-11-30 23:59 Mars/Base",
        "30.11.2026",
        "2026-11-30 23:59 ../../etc",
    ],
)
def test_a_deadline_that_is_none_is_refused(course, tmp_path, text):
    with pytest.raises(CourseError, match="is no date"):
        _collect(course, tmp_path, {"x_101_1_a.ipynb": notebook(course)}, due=text or " ")
    assert not course.submitted.exists()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-30 23:59 UTC", "2026-11-30 23:59:00 UTC"),
        ("2026-11-30T23:59+01:00", "2026-11-30 22:59:00 UTC"),
        ("2026-11-30 Asia/Tokyo", "2026-11-30 14:59:59 UTC"),
    ],
)
def test_a_deadline_in_every_form(text, meant):
    assert timestamps.format_timestamp(timestamps.parse_deadline(text)) == meant
