"""Whose a file is: by what a learning management system or the roster vouches for, remembered from run to run. Nothing
that a student may name decides it."""

import pytest
from conftest import UNIT
from downloads import folder, gradescope, notebook, put, zipped

from autograder.errors import CourseError
from autograder.exports.match_lines import Line, match_lines
from autograder.gradebook import roster as rosters
from autograder.gradebook.grades import GRADED, Grade
from autograder.lms import attempts
from autograder.lms.accounts import counting_attempts
from autograder.lms.attempts import Attempt
from autograder.lms.collect import collect

NAMES = "student_id,last_name,first_name\nada,Lovelace,Ada\nbob,Smith,Bob\neve,Adams,Eve\n"
NUMBERS = "student_id,last_name,first_name,canvas_id\nada,Lovelace,Ada,101\nbob,Smith,Bob,102\neve,Adams,Eve,103\n"
MOODLE = "{}_{}_assignsubmission_file/x.ipynb"
CLASS = {"Ada Lovelace": 900001, "Bob Smith": 900002, "Eve Adams": 900003}


def _there(course) -> dict[str, bytes]:
    return {path.parts[-3]: path.read_bytes() for path in course.submitted.glob("*/*/*.ipynb")}


def _collect(course, tmp_path, files, roster=None, **options):
    given = put(tmp_path / "roster.csv", roster.encode()) if roster else None
    return collect(course, [put(tmp_path / "in.zip", zipped(files))], given, **options)


def _moodle(course, *names: str, **numbers: int) -> dict[str, bytes]:
    return {MOODLE.format(name, CLASS[name]): notebook(course, name) for name in names}


# ---------------------------------------------------------------- the shape is told by the root


def _metadata_of_eve(course, of: str) -> bytes:
    return gradescope(
        {f"submission_{n}": ([(who, "", f"{who}@x.org")], "2020-01-01 00:00:00 Z") for n, who in enumerate(("ada", of))}
    )


@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize("lms", ["moodle", "folders", "gradescope"])
def test_a_students_own_metadata_of_gradescope_is_a_file_like_others(course, tmp_path, lms, as_folder):
    own = {"moodle": MOODLE.removesuffix("/x.ipynb"), "folders": "{0}", "gradescope": "submission_{1}"}[lms]
    ids = {"Ada Lovelace": "ada", "Bob Smith": "bob", "Eve Adams": "eve"}
    folders = {name: own.format(ids[name] if lms == "folders" else name, number) for name, number in CLASS.items()}
    files = {f"{folders[name]}/x.ipynb": notebook(course, name) for name in CLASS}
    evil = {"submission_metadata.yml": _metadata_of_eve(course, "bob"), "submission_1/x.ipynb": notebook(course)}
    files |= {f"{folders['Eve Adams']}/{name}": data for name, data in evil.items()}
    if lms == "gradescope":
        people = {folders[name]: ([(name, "", f"{ids[name]}@x.org")], "2026-11-20 10:00:00 Z") for name in CLASS}
        files["submission_metadata.yml"] = gradescope(people)
    source = folder(tmp_path / "in", files) if as_folder else put(tmp_path / "in.zip", zipped(files))
    roster = put(tmp_path / "roster.csv", NAMES.replace("\n", ",\n").encode())
    collect(course, [source], roster)
    there = _there(course)
    assert there["ada"] == notebook(course, "Ada Lovelace") and there["bob"] == notebook(course, "Bob Smith")
    assert there["eve"] in (notebook(course, "Eve Adams"), notebook(course))


@pytest.mark.parametrize(
    "name",
    [
        "smithbob_102_9009_{}.ipynb",
        "Bob Smith_900002_assignsubmission_file/{}.ipynb",
        "bob/{}.ipynb",
        "ada/bob/{}.ipynb",
    ],
)
def test_however_many_files_one_student_has_the_folders_are_the_instructors(course, tmp_path, name):
    files = {f"{who}/x.ipynb": notebook(course, who) for who in ("ada", "bob")}
    files |= {f"eve/{name.format(number)}": notebook(course, "eve") for number in range(20)}
    plan = _collect(course, tmp_path, files, NUMBERS)
    assert _there(course) == {who: notebook(course, who) for who in ("ada", "bob", "eve")} and not plan.problems


def test_one_folder_called_like_an_lmss_makes_no_download_of_that_lms(course, tmp_path):
    """OLAT writes a display name into the folder's, and this one ends in numbers, as Canvas's files."""
    folders = {"ada": "Ada_Lovelace_ada", "bob": "Bob_Smith_bob", "eve": "Eve_Adams_100_9900_eve"}
    _collect(course, tmp_path, {f"{name}/x.ipynb": notebook(course, who) for who, name in folders.items()}, NUMBERS)
    assert {who: _there(course)[who] for who in ("ada", "bob")} == {
        who: notebook(course, who) for who in ("ada", "bob")
    }


def test_a_root_that_is_partly_an_lmss_is_asked_about(course, tmp_path, attn):
    files = {
        f"{name}{who}_{n}_9{n}_x.ipynb": notebook(course, who)
        for name, who, n in (("lovelace", "ada", 101), ("smith", "bob", 102))
    }
    mixed = files | {"Eve Adams.ipynb": notebook(course, "eve")}
    with pytest.raises(CourseError, match="--lms") as refusal:
        _collect(course, tmp_path, mixed, NUMBERS)
    assert "\n" not in str(refusal.value) and not course.submitted.exists()
    plan = _collect(course, tmp_path, mixed, NUMBERS, lms="canvas")
    assert set(_there(course)) == {"ada", "bob"} and plan.problems == [
        "Eve Adams.ipynb: nothing in its path says whose it is"
    ]
    refused = attn(course, "collect", str(tmp_path / "in.zip"), "--lms", "schoology")
    assert refused.exit_code == 2 and "no LMS 'schoology'" in refused.output


def test_a_display_name_makes_no_download_blind(course, tmp_path):
    files = _moodle(course, "Ada Lovelace", "Bob Smith") | {
        MOODLE.format("Participant", 900003): notebook(course, "eve")
    }
    _collect(course, tmp_path, files, NAMES)
    assert set(_there(course)) == {"ada", "bob"}


def test_a_display_name_that_ends_in_anothers_number_is_nobodys_number(course, tmp_path):
    """Canvas leaves `smithbob_102` as it is: then `_102_103_` reads like bob's number and an upload's."""
    files = {
        f"{who}_{n}_{9000 + n}_02_small.ipynb": notebook(course, who)
        for who, n in (("lovelaceada", 101), ("smithbob", 102))
    }
    files |= {"smithbob_102_103_9200_x.ipynb": notebook(course, "eve")}
    _collect(course, tmp_path, files, NUMBERS)
    assert _there(course)["bob"] == notebook(course, "smithbob")
    assert _there(course).get("eve", notebook(course, "eve")) == notebook(course, "eve")


def test_what_the_units_file_is_called_is_no_number_in_canvas(course, tmp_path):
    """Names of files that begin with numbers: the unit's own, a student's, a year's."""
    names = ["02_small.ipynb", "10_a_b.ipynb", "2026_11_x.ipynb", "1234567_hw.ipynb"]
    roster = "student_id,canvas_id\n" + "\n".join(f"s{n},{100 + n}" for n in range(4))
    files = {f"x_{100 + n}_{9_000_000 + n}_{name}": notebook(course, name) for n, name in enumerate(names)}
    plan = _collect(course, tmp_path, files, roster)
    assert len(_there(course)) == 4 and not plan.problems


# ---------------------------------------------------------------- who somebody is is remembered


@pytest.mark.parametrize("with_roster", [True, False])
@pytest.mark.parametrize("data", [None, b"{", "Bob Smith"])
@pytest.mark.parametrize("came_before", [True, False])
def test_another_number_under_a_known_name_is_named_and_replaces_nothing(
    course, tmp_path, with_roster, data, came_before
):
    """Eve is called Bob Smith in the second download: with other work, an unreadable file, or bob's own bytes."""
    names = ["Ada Lovelace", "Bob Smith", *["Eve Adams"] * came_before]
    _collect(course, tmp_path, _moodle(course, *names), NAMES if with_roster else None)
    before, known = _there(course), attempts.load(course)
    work = notebook(course, data or "evil") if data != b"{" else b"{"
    plan = _collect(course, tmp_path, {MOODLE.format("Bob Smith", 900003): work} | _moodle(course, "Ada Lovelace"))
    assert _there(course) == before and attempts.load(course) == known
    assert len(plan.problems) == 1 and "900003" in plan.problems[0] and len(plan.strangers) == 1


def test_who_changes_the_display_name_stays_who_it_was(course, tmp_path):
    _collect(course, tmp_path, _moodle(course, "Ada Lovelace", "Bob Smith"), NAMES)
    plan = _collect(course, tmp_path, {MOODLE.format("Ada King", 900001): notebook(course, "again")})
    assert not plan.problems and {step.chosen.student_id for step in plan.steps} == {"ada"}
    assert len(attempts.load(course)["ada", UNIT]) == 2


def test_moodles_numbers_are_other_ones_in_the_next_assignment(course, tmp_path, monkeypatch):
    from autograder.grading import intake

    monkeypatch.setattr(intake, "unit_of", lambda data, units: "03_other" if data.startswith(b"3") else UNIT)
    for first, unit in ((900_000, b"2"), (950_000, b"3")):
        files = {MOODLE.format(name, first + at): unit + name.encode() for at, name in enumerate(CLASS)}
        assert not _collect(course, tmp_path, files, NAMES).problems


def test_what_the_roster_says_stands_above_what_was_known(course, tmp_path):
    """Eve was first, under bob's name; then the instructor gives the roster Canvas's numbers."""
    eves = {"smithbob_103_9001_x.ipynb": notebook(course, "eve")}
    _collect(course, tmp_path, eves, NAMES)
    bobs = {"smithbob_102_9002_x.ipynb": notebook(course, "bob")}
    assert "103" in _collect(course, tmp_path, bobs).problems[0]
    _collect(course, tmp_path, bobs | eves, NUMBERS)
    assert _there(course) == {"bob": notebook(course, "bob"), "eve": notebook(course, "eve")}


def test_moodles_worksheet_says_who_is_who(course, tmp_path):
    roster = "student_id,last_name,first_name,email\nada,Lovelace,Ada,ada@x.org\nbob,Smith,Bob,bob@x.org\n"
    files = {MOODLE.format("Bob Smith", number): notebook(course, str(number)) for number in (900002, 900003)}
    files |= _moodle(course, "Ada Lovelace")
    sheet = "Identifier,Full name,Email address,Last modified (submission)\nParticipant 900002,Bob Smith,bob@x.org,-\n"
    sheet += "Participant 900003,Bob Smith,eve@x.org,-\n"
    paths = [put(tmp_path / "in.zip", zipped(files)), put(tmp_path / "w.csv", sheet.encode())]
    plan = collect(course, paths, put(tmp_path / "roster.csv", roster.encode()))
    assert _there(course)["bob"] == notebook(course, "900002") and len(plan.problems) == 1


def test_an_e_mail_that_is_anothers_is_not_overruled_by_a_name(course, tmp_path):
    """Gradescope: whoever has the course's code may join under any name."""
    roster = "student_id,last_name,first_name,email\nbob,Smith,Bob,bob@x.org\n"
    people = {"submission_1": ([("Bob Smith", "", "eve@x.org")], "2026-11-20 10:00:00 Z")}
    files = {"submission_metadata.yml": gradescope(people), "submission_1/x.ipynb": notebook(course)}
    plan = _collect(course, tmp_path, files, roster)
    assert not _there(course) and "with another email" in plan.problems[0]


def test_a_student_number_that_somebody_typed_does_not_stand_against_an_account(course, tmp_path):
    """Gradescope asks who joins with a code for it."""
    roster = "student_id,last_name,first_name,email,sis_user_id\nbob,Smith,Bob,bob@x.org,S2\ncyd,,Cyd,,S3\n"

    def download(week: int, **people: str) -> dict[str, bytes]:
        rows = {
            f"submission_{10 * week + at}": [(name, sid, f"{name}@x.org")]
            for at, (name, sid) in enumerate(people.items())
        }
        files = {f"{where}/x.ipynb": notebook(course, f"{row[0][0]} {week}") for where, row in rows.items()}
        return files | {
            "submission_metadata.yml": gradescope({at: (row, "2026-11-20 10:00:00 Z") for at, row in rows.items()})
        }

    _collect(course, tmp_path, download(1, bob="S2", cyd="S3", eve="S2"), roster)
    assert _there(course) == {"bob": notebook(course, "bob 1"), "cyd": notebook(course, "cyd 1")}
    plan = _collect(course, tmp_path, download(2, eve="S3"))
    assert _there(course)["cyd"] == notebook(course, "cyd 1") and "cyd's, with another name" in plan.problems[0]


@pytest.mark.parametrize(
    ("columns", "other"),
    [("bob,Smith,Bob,bob@x.org,S2", "email"), ("bob,Smith,Bob,,S2", "name"), ("bob,,,bob@x.org,S2", "email")],
)
def test_a_typed_number_with_anothers_e_mail_or_name_is_nobodys(course, tmp_path, columns, other):
    """Before the real one has come: then the real one would stand against an account."""
    roster = f"student_id,last_name,first_name,email,sis_user_id\n{columns}\n"
    for week, (name, email) in enumerate([("Eve Adams", "evil@x.org"), ("Bob Smith", "bob@x.org")]):
        people = {f"submission_{week}": ([(name, "S2", email)], "2026-11-20 10:00:00 Z")}
        files = {"submission_metadata.yml": gradescope(people), f"submission_{week}/x.ipynb": notebook(course, name)}
        plan = _collect(course, tmp_path, files, roster)
        if not week:
            assert not _there(course) and f"bob's, with another {other}" in plan.problems[0]
    assert _there(course) == {"bob": notebook(course, "Bob Smith")}


def test_two_downloads_of_one_run_are_one_class(course, tmp_path):
    one, two = (
        put(tmp_path / f"{n}.zip", zipped({MOODLE.format("Bob Smith", n): notebook(course, str(n))})) for n in (1, 2)
    )
    plan = collect(course, [one, two], put(tmp_path / "roster.csv", NAMES.encode()))
    assert not _there(course) and "2 people" in plan.problems[0]


# ---------------------------------------------------------------- the roster


@pytest.mark.parametrize(
    "pair", [("Anna", "anna"), ("straße", "strasse"), ("STRASSE", "straße"), ("caf\u00e9", "CAFE\u0301"), ("ﬁ", "fi")]
)
def test_ids_that_are_equal_when_folded_are_refused(tmp_path, pair):
    path = put(tmp_path / "roster.csv", "\n".join(["student_id", *pair]).encode())
    with pytest.raises(CourseError, match="differ only in how they are written") as refusal:
        rosters.read_roster(path)
    assert "\n" not in str(refusal.value) and "line 2" in str(refusal.value) and "line 3" in str(refusal.value)


def test_a_number_that_is_a_student_id_alone_needs_the_name_too(course, tmp_path):
    """Canvas's numbers and the school's are not the same ones."""
    roster = "student_id,last_name,first_name\n101,Smith,Bob\n7,Lovelace,Ada\n"
    files = {
        "lovelaceada_101_9001_x.ipynb": notebook(course, "ada"),
        "smithbob_55_9002_x.ipynb": notebook(course, "bob"),
    }
    plan = _collect(course, tmp_path, files, roster)
    assert _there(course) == {"7": notebook(course, "ada"), "101": notebook(course, "bob")} and not plan.problems
    stranger = _collect(course, tmp_path, {"nobody_7_9003_x.ipynb": notebook(course, "x")})
    assert "not on the roster" in stranger.problems[0]


# ---------------------------------------------------------------- on the way back


def _known(*attempts_of: tuple[str, str, bool]) -> dict:
    known = {}
    for at, (student, number, counts) in enumerate(attempts_of):
        one = Attempt(student, UNIT, f"{at}" * 64, "x", "moodle", number, counts=counts, account=number)
        known.setdefault(one.place, {})[one.sha256] = one
    return known


def test_only_the_number_of_the_attempt_that_counts_goes_back():
    found = counting_attempts(_known(("bob", "2", True), ("bob", "3", False)), UNIT, "moodle", None)
    assert {student: one.lms_id for student, one in found.items()} == {"bob": "2"}
    assert not counting_attempts(_known(("bob", "2", True), ("eve", "2", True)), UNIT, "moodle", None)


def _matched(lms: str, lines: dict[int, Line], numbers=None, **more) -> dict[int, str]:
    people = [rosters.Student("bob", "Smith", "Bob", **more), rosters.Student("ada", "Lovelace", "Ada")]
    done = match_lines(lms, lines, [Grade(UNIT, one, GRADED, score=1.0) for one in people], numbers or {})
    return {at: one.student.student_id for at, one in done.of.items()}


def test_a_grade_goes_to_no_line_that_has_the_name_alone():
    bobs, eves = Line("2", {}, "Bob Smith"), Line("3", {}, "Bob Smith")
    assert _matched("moodle", {0: bobs, 1: eves}, {"bob": "2"}) == {0: "bob"}
    assert _matched("moodle", {1: eves}, {"bob": "2"}) == {}
    assert _matched("moodle", {0: bobs, 1: eves}) == {}
    assert _matched("moodle", {1: Line("3", {"email": "eve@x.org"}, "Bob Smith")}, email="bob@x.org") == {}
    assert _matched("moodle", {0: bobs, 1: Line("5", {}, "Lovelace Ada")}) == {0: "bob", 1: "ada"}


def test_what_contradicts_itself_gets_nothing_and_is_named():
    """Bob's work came under number 2; the line with bob's e-mail is another one."""
    lines = {0: Line("2", {}, "X"), 1: Line("3", {"email": "bob@x.org"}, "Y")}
    people = [Grade(UNIT, rosters.Student("bob", "Smith", "Bob", "bob@x.org"), GRADED, score=1.0)]
    done = match_lines("moodle", lines, people, {"bob": "2"})
    assert not done.of and done.unclear == ["bob"] and "bob" in done.notes(people)[0]
