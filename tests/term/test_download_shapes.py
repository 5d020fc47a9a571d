"""Downloads of other systems: a folder that holds one student's login, id or name; times in names; teams' hand-ins."""

import hashlib
import os
import shutil
from datetime import UTC, datetime

import pytest
from conftest import UNIT
from downloads import folder, gradescope, notebook, put, zipped

from autograder import timestamps
from autograder.course.paths import Course
from autograder.errors import CourseError
from autograder.gradebook import roster as rosters
from autograder.lms import attempts, read_download
from autograder.lms.accounts import counting_attempts
from autograder.lms.collect import collect

ROSTER = """student_id,last_name,first_name,canvas_id,team
alove1,Lovelace,Ada,101,Team 7
bsmith2,Smith,Bob,102,Team 7
cneil3,O'Neill,Cyd,103,Team 8
"""
EVE = "eadams4,Adams,Eve,104,Team 8\n"
ADA, BOB, CYD = "alove1", "bsmith2", "cneil3"


pytestmark = pytest.mark.usefixtures("clock_put_back")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """What is handed in here needs no limits."""
    monkeypatch.setattr(read_download.limited_process, "call", lambda function, *given, **_: function(*given))


def _collect(course, tmp_path, entries, roster=ROSTER, as_zip=False, **options):
    """entries: the path of a notebook → what tells it from others."""
    files = {path: text if isinstance(text, bytes) else notebook(course, text) for path, text in entries.items()}
    at = tmp_path / f"in{len(list(tmp_path.iterdir()))}"
    source = put(at.with_suffix(".zip"), zipped(files)) if as_zip else folder(at, files)
    given = put(tmp_path / "roster.csv", roster.encode()) if roster else None
    return collect(course, [source], given, **options)


def _there(course) -> dict[str, bytes]:
    return {path.parts[-3]: path.read_bytes() for path in course.submitted.glob("*/*/*.ipynb")}


@pytest.fixture(scope="module")
def unchanged(built, tmp_path_factory):
    """A course for dry runs: they write nothing, so one serves many."""
    root = tmp_path_factory.mktemp("dry") / "course"
    shutil.copytree(built.root, root, ignore=shutil.ignore_patterns("class"))
    return Course(root.resolve())


def _would_be(course, *arguments, **options):
    """Who would have which notebook."""
    plan = _collect(course, *arguments, dry_run=True, **options)
    return {step.chosen.student_id: step.chosen.sha256 for step in plan.steps}, plan.problems


def _hashes(course, **texts):
    return {student: hashlib.sha256(notebook(course, text)).hexdigest() for student, text in texts.items()}


def _times(course) -> dict[str, str]:
    kept = attempts.load(course).values()
    return {
        one.student_id: timestamps.format_timestamp(one.submitted)
        for group in kept
        for one in group.values()
        if one.counts
    }


# ---------------------------------------------------------------- every shape


@pytest.mark.parametrize(
    ("ada", "bob"),
    [
        ("Lovelace_Ada_alove1_12345/x.ipynb", "Smith_Bob_bsmith2_12346/x.ipynb"),  # ILIAS
        ("Blatt_02/Abgaben/Lovelace_Ada_alove1_12345/x.ipynb", "Blatt_02/Abgaben/Smith_Bob_bsmith2_12346/x.ipynb"),
        ("Lovelace_Ada/x.ipynb", "Smith_Bob/x.ipynb"),  # an older one
        ("Lovelace_Ada_alove1/x.ipynb", "Smith_Bob_bsmith2/x.ipynb"),  # OLAT
        ("Unit 2/Lovelace, Ada(alove1)/Submission attachment(s)/x.ipynb", "Unit 2/Smith, Bob(bsmith2)/b/x.ipynb"),
        ("123-Ada Lovelace/x.ipynb", "124-Bob Smith/x.ipynb"),  # CodeGrade
        ("Ada Lovelace - 2026-11-29T22:10:03.123456/x.ipynb", "Bob Smith - 2026-11-29T22:11:03/x.ipynb"),
        ("unit-02-alove1/02_small/02_small.ipynb", "unit-02-bsmith2/x.ipynb"),  # GitHub Classroom
        ("attention-f26-unit-02-alove1/x.ipynb", "attention-f26-unit-02-bsmith2/x.ipynb"),  # classroom50
        ("unit-02-ada-lovelace/x.ipynb", "unit-02-bob-smith/x.ipynb"),
        (
            "alove1+02_small+2026-11-29 22:10:03.123456 UTC+ZmF_dA==/x.ipynb",
            "bsmith2+02+2026-11-29 22:11:03 UTC/x.ipynb",
        ),
        ("Unit 2_alove1_attempt_2026-11-29-22-10-03_x.ipynb", "Unit 2_bsmith2_attempt_2026-11-29-22-11-03_x.ipynb"),
        ("Unit_2_alove1_poging_2026-11-29-22-10-03_x.ipynb", "Unit_2_bsmith2_poging_2026-11-29-22-11-03_y.ipynb"),
    ],
)
def test_a_folder_is_its_students(unchanged, tmp_path, ada, bob):
    assert _would_be(unchanged, tmp_path, {ada: "a", bob: "b"}) == (_hashes(unchanged, alove1="a", bsmith2="b"), [])


def test_a_second_run_knows_the_first(course, tmp_path):
    files = {"Lovelace_Ada_alove1_12345/x.ipynb": "a", "Smith_Bob_bsmith2_12346/x.ipynb": "b"}
    assert not _collect(course, tmp_path, files).problems
    again = _collect(course, tmp_path, files, None)
    assert again.summary().startswith("2 collected (0 new, 0 replaced, 2 same)") and not again.problems


def test_a_clone_is_one_students_and_does_not_say_when(course, tmp_path):
    plan = _collect(course, tmp_path, {"unit-02-alove1/x.ipynb": "a", "unit-02-alove1/.git/x": b""}, due="2020-01-01")
    assert list(_there(course)) == [ADA] and not plan.steps[0].late and _times(course) == {ADA: ""}
    assert any(line.startswith("a clone of a repository doesn't say when 1 were") for line in plan.notes)


def test_a_git_folder_of_one_student_changes_no_time(course, tmp_path):
    files = {"alove1/x.ipynb": "a", "alove1/.git/x": b"", "bsmith2/x.ipynb": "b"}
    plan = _collect(course, tmp_path, files, due="2020-01-01")
    assert [step.late for step in plan.steps] == [True, True]


# ---------------------------------------------------------------- times in names


@pytest.mark.parametrize(
    ("name", "zone", "time"),
    [
        ("U_alove1_attempt_2026-11-29-22-10-03_x.ipynb", "Europe/Berlin", "2026-11-29 21:10:03 UTC"),
        ("U_alove1_attempt_2026-11-29-22-10-03_x.ipynb", "America/New_York", "2026-11-30 03:10:03 UTC"),
        ("Ada Lovelace - 2026-11-29T22:10:03.5/x.ipynb", "Europe/Berlin", "2026-11-29 21:10:03 UTC"),
        ("alove1+02+2026-11-29 22:10:03 UTC/x.ipynb", "Europe/Berlin", "2026-11-29 22:10:03 UTC"),
        ("alove1+02+2026-11-29 22_10_03 +0300/x.ipynb", "Europe/Berlin", "2026-11-29 19:10:03 UTC"),
        ("alove1+02+2026-11-29 22:10:03 CET/x.ipynb", "Europe/Berlin", "2026-11-29 21:10:03 UTC"),
    ],
)
def test_a_time_in_a_name_is_of_the_zone_that_it_names_or_that_is_given(
    monkeypatch, course, tmp_path, name, zone, time
):
    plan = _collect(course, tmp_path, {name: "a"}, zone=zone)
    assert _times(course) == {ADA: time}
    named = "nbgrader's times were read in the zone that they name."
    assert (named if "+02+" in name else f"Times that name no zone were read in {zone}.") in plan.notes


def test_sakais_own_file_says_when_and_a_students_does_not(course, tmp_path):
    own = {
        "Lovelace, Ada(alove1)/timestamp.txt": b"20261129221003123",
        "Smith, Bob(bsmith2)/x/timestamp.txt": b"20200101000000",
    }
    _collect(course, tmp_path, own | {"Lovelace, Ada(alove1)/x/x.ipynb": "a", "Smith, Bob(bsmith2)/x/x.ipynb": "b"})
    assert _times(course) == {ADA: "2026-11-29 22:10:03 UTC", BOB: ""}


def test_of_two_attempts_in_blackboard_the_newer_counts_whenever_it_was_downloaded(course, tmp_path):
    name = "Unit 2_alove1_attempt_2026-11-{}-22-10-03_{}"
    files = {name.format(29, "a.ipynb"): "new", name.format(28, "b (2).ipynb"): "old", name.format(29, "x.txt"): b""}
    for number, path in enumerate(sorted(files)):
        at = put(tmp_path / "in" / path, files[path] if path.endswith("txt") else notebook(course, files[path]))
        os.utime(at, (datetime(2026, 12, 1 + number, tzinfo=UTC).timestamp(),) * 2)
    plan = collect(
        course, [tmp_path / "in"], put(tmp_path / "r.csv", ROSTER.encode()), due="2026-11-30 UTC", zone="UTC"
    )
    assert _there(course) == {ADA: notebook(course, "new")} and not plan.steps[0].late
    early = _collect(course, tmp_path, {name.format(27, "c.ipynb"): "older"}, zone="UTC")
    assert early.steps[0].kind == "same" and _times(course) == {ADA: "2026-11-29 22:10:03 UTC"}


# ---------------------------------------------------------------- nobody's, and placed by hand


@pytest.mark.parametrize("name", ["x-alove1 bsmith2/x.ipynb", "Ada Lovelace with bsmith2/x.ipynb", "octocat/x.ipynb"])
def test_what_is_nobodys_or_twos_is_not_placed_and_an_alias_places_it(course, tmp_path, attn, name):
    first = _collect(course, tmp_path, {name: "a"})
    assert not _there(course) and len(first.problems) == 1
    entry = name.split("/")[0]
    assert f"What could not be placed, you can: attn collect … --alias '{entry}=STUDENT_ID'" in first.notes
    alone = _collect(course, tmp_path, {name: "a"}, aliases=[f"{entry}={CYD}"])
    assert _there(course) == {CYD: notebook(course, "a")} and not alone.problems
    again = _collect(course, tmp_path, {name: "b"}, None)
    assert not again.problems and list(_there(course)) == [CYD] and len(attempts.load(course)[CYD, UNIT]) == 2


def test_an_alias_is_a_login_in_every_later_download(course, tmp_path):
    for week in ("02", "03"):
        files = {f"unit-{week}-octocat/x.ipynb": f"a {week}", f"unit-{week}-cneil3/x.ipynb": "c"}
        plan = _collect(course, tmp_path, files, aliases=["octocat=alove1"] * (week == "02"))
    assert len(attempts.load(course)[ADA, UNIT]) == 2
    assert len(plan.problems) == 1 and "unit-03-cneil3" in plan.problems[0]  # another folder in the same assignment


@pytest.mark.parametrize(
    ("text", "why"),
    [("octocat", "is FOLDER=student_id"), ("=alove1", "is FOLDER"), ("x=nobody", "no student 'nobody'")],
)
def test_an_alias_that_is_none_is_one_line(course, tmp_path, text, why):
    with pytest.raises(CourseError, match=why) as refusal:
        _collect(course, tmp_path, {"octocat/x.ipynb": "a"}, aliases=[text])
    assert "\n" not in str(refusal.value) and not (course.classroom / "aliases.csv").exists()


# ---------------------------------------------------------------- who is called like another


@pytest.mark.parametrize("enrolled", [True, False])
@pytest.mark.parametrize("bob_too", [True, False])
@pytest.mark.parametrize(
    ("ada", "bob", "eve"),
    [
        ("Lovelace_Ada_alove1_1", "Smith_Bob_bsmith2_2", "Smith_bsmith2_eadams4_3"),
        ("Lovelace_Ada_alove1_1", "Smith_Bob_bsmith2_2", "Smith_Bob_eadams4_3"),
        ("Lovelace, Ada(alove1)", "Smith, Bob(bsmith2)", "bsmith2, Smith(bsmith2)(eadams4)"),
        ("unit-02-alove1", "unit-02-bsmith2", "unit-02-bob-bsmith2"),
        ("unit-02-alove1", "unit-02-bsmith2", "unit-02-bob-smith"),
        (
            "U_alove1_attempt_2026-11-29-22-10-03_x",
            "U_bsmith2_attempt_2026-11-29-22-10-03_x",
            "U_eadams4_attempt_2026-11-29-22-10-03_U_bsmith2_attempt_2026-11-29-23-10-03_x",
        ),
    ],
)
def test_a_display_name_or_file_with_anothers_id_takes_nothing_from_anybody(
    unchanged, tmp_path, ada, bob, eve, enrolled, bob_too
):
    end = ".ipynb" if ada.startswith("U_") else "/y/x.ipynb"
    files = {f"{ada}{end}": "ada", f"{eve}{end}": "eve"} | ({f"{bob}{end}": "bob"} if bob_too else {})
    found, _ = _would_be(unchanged, tmp_path, files, ROSTER + EVE * enrolled)
    found.pop("eadams4", None)
    assert found == _hashes(unchanged, alove1="ada", **({"bsmith2": "bob"} if bob_too else {}))


def test_a_folder_with_very_many_words_is_nobodys(course, tmp_path):
    plan = _collect(course, tmp_path, {f"bsmith2 {'a ' * 50}eadams4/x.ipynb": "eve"}, ROSTER + EVE)
    assert not _there(course) and len(plan.problems) == 1


@pytest.mark.parametrize("name", ["adams_103_9005_U_bsmith2_attempt_2026-11-29-22-10-03_x.ipynb"])
def test_a_root_that_may_be_two_systems_is_asked_about(course, tmp_path, name):
    with pytest.raises(CourseError, match="blackboard or canvas"):
        _collect(course, tmp_path, {name: "a"})
    others = {name: "a", "lovelaceada_101_9001_x.ipynb": "b"}
    _collect(course, tmp_path, others)
    assert _there(course) == {CYD: notebook(course, "a"), ADA: notebook(course, "b")}


def test_two_folders_of_one_name_are_nobodys(course, tmp_path):
    name = "Ada Lovelace - 2026-11-29T22:10:0{}"
    plan = _collect(course, tmp_path, {f"{name.format(n)}/x.ipynb": str(n) for n in (1, 2)})
    assert not _there(course) and "2 people in the download have this name" in plan.problems[0]


def test_a_file_of_another_account_in_nbgraders_exchange_is_not_read(monkeypatch, course, tmp_path):
    from autograder.lms import hand_in_times

    monkeypatch.setattr(hand_in_times.os, "getuid", lambda: 4_000_000)
    monkeypatch.setattr(hand_in_times.pwd, "getpwuid", lambda uid: type("Owner", (), {"pw_name": BOB}))
    own = os.stat(tmp_path).st_uid
    monkeypatch.setattr(
        read_download,
        "checked_owner",
        lambda one, of: hand_in_times.checked_owner(
            one if one.uid != own else type(one)(one.parts, one.size, one.saved, uid=4_000_001), of
        ),
    )
    names = {f"{who}+02+2026-11-29 22:10:03 UTC/x.ipynb": who for who in (ADA, BOB)}
    plan = _collect(course, tmp_path, names)
    assert list(_there(course)) == [BOB] and "it is bsmith2's file, not alove1's" in plan.problems[0]


def test_a_wrapper_that_is_called_like_a_student_is_asked_about(course, tmp_path):
    with pytest.raises(CourseError, match="is called like a student's"):
        _collect(course, tmp_path, {f"for alove1/{who}/x.ipynb": who for who in (BOB, CYD)})


# ---------------------------------------------------------------- teams


@pytest.mark.parametrize(
    ("path", "teams"),
    [
        ("Blatt/Abgaben/Team 7/Lovelace_Ada_alove1_12345/x.ipynb", False),  # ILIAS
        ("Team 7/x.ipynb", False),  # OLAT, or by hand
        ("Unit 2_Team 7_attempt_2026-11-29-22-10-03_x.ipynb", False),  # Blackboard
        ("team7_101_9001_x.ipynb", True),  # Canvas
        ("Team 7-Ada Lovelace_900001_assignsubmission_file/x.ipynb", True),  # Moodle
        ("unit-02-alove1/x.ipynb", True),
    ],
)
def test_a_teams_file_is_every_members(course, tmp_path, path, teams):
    other = path.replace("Team 7", "Team 8").replace("team7_101", "team8_103").replace("alove1", "cneil3")
    other = other.replace("Lovelace_Ada", "ONeill_Cyd").replace("Ada Lovelace_900001", "Cyd O'Neill_900002")
    plan = _collect(course, tmp_path, {path: "a", other: "c"}, teams=teams)
    a, c = notebook(course, "a"), notebook(course, "c")
    assert _there(course) == {ADA: a, BOB: a, CYD: c} and not plan.problems and not plan.missing and not plan.equal
    kept = {one.student_id: one.lms_id for group in attempts.load(course).values() for one in group.values()}
    assert kept[ADA] != kept[BOB] and (kept[BOB] == "102" or "_101_" not in path)


def test_a_teams_page_goes_back_to_each_member(course, tmp_path):
    _collect(course, tmp_path, {"team7_101_9001_x.ipynb": "a"}, teams=True)
    roster = rosters.current_roster(course)
    found = counting_attempts(attempts.load(course), UNIT, "canvas", roster)
    assert {student: (one.lms_id, one.order) for student, one in found.items()} == {
        ADA: ("101", 9001),
        BOB: ("102", 9001),
    }


def test_without_being_told_nobody_hands_in_for_a_team_by_a_name(course, tmp_path):
    files = {"team7_101_9001_x.ipynb": "a", "smithbob_102_9002_x.ipynb": "b"}
    plan = _collect(course, tmp_path, files)
    assert _there(course) == {ADA: notebook(course, "a"), BOB: notebook(course, "b")}
    assert "1 are called like teams: with --teams each counts for all of its team" in plan.notes


def test_a_display_name_that_is_a_teams_is_nobodys(unchanged, tmp_path):
    roster = ROSTER.replace("101", "").replace("102", "")
    for teams in (False, True):
        found, _ = _would_be(unchanged, tmp_path, {"team7_999_9001_x.ipynb": "a"}, roster, teams=teams)
        assert sorted(found) == [ADA, BOB] * teams


def test_who_has_no_team_hands_in_alone(course, tmp_path):
    roster = ROSTER.replace("103,Team 8", "103,")
    plan = _collect(course, tmp_path, {"x_103_9001_x.ipynb": "c"}, roster, teams=True)
    assert list(_there(course)) == [CYD] and f"nobody else is in their team in the roster: {CYD}" in plan.notes


@pytest.mark.parametrize("roster", [None, "student_id\na_b\nc_b\n"])
def test_logins_that_end_alike_are_two_students(course, tmp_path, roster):
    files = {f"Unit_2_{who}_attempt_2026-11-29-22-10-03_x.ipynb": who for who in ("a_b", "c_b")}
    assert not _collect(course, tmp_path, files, roster).problems
    assert _there(course) == {who: notebook(course, who) for who in ("a_b", "c_b")}


def test_a_students_own_metadata_of_gradescope_is_no_download(course, tmp_path):
    evil = gradescope({"submission_1": ([("x", "", "bsmith2")], "2020-01-01 00:00:00 Z")})
    files = {"unit-02-alove1/submission_metadata.yml": evil, "unit-02-alove1/submission_1/x.ipynb": "a"}
    with pytest.raises(CourseError, match="is called like a student's"):
        _collect(course, tmp_path, files)
    _collect(course, tmp_path, files | {"unit-02-bsmith2/x.ipynb": "b"})
    assert _there(course) == {ADA: notebook(course, "a"), BOB: notebook(course, "b")}


@pytest.mark.parametrize("name", ["week_{}_{}_1", "{} {} (late)"])
def test_own_folders_that_look_like_an_lmss_are_nobody_elses_later(course, tmp_path, name):
    """What ILIAS and Sakai would call a person's number is here the instructor's own."""
    for week, who in enumerate((ADA, "stranger", BOB)):
        first = ("Ada Lovelace", "Some Body", "Bob Smith")[week]
        path = name.format(week, who) if "week" in name else name.format(*first.split())
        _collect(course, tmp_path, {f"{path}/x.ipynb": who})
    assert _there(course) == {ADA: notebook(course, ADA), BOB: notebook(course, BOB)}
