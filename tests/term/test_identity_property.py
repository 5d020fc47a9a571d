"""Any class, any adversary: what one student calls themselves and hands in changes nobody else's row. Each example
collects two downloads in a row, once with the adversary and once without.

`ATTN_EXAMPLES=2000` tries that many examples."""

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from conftest import UNIT
from downloads import gradescope, put, zipped
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from autograder import csv_files
from autograder.course.paths import Course
from autograder.exports.match_lines import Line, match_lines
from autograder.gradebook.grades import GRADED, Grade
from autograder.gradebook.roster import Roster, Student
from autograder.grading.submission_parser import Rejected
from autograder.lms import collection_plan, read_download
from autograder.lms.accounts import Accounts, counting_attempts
from autograder.lms.claim import CANVAS, MOODLE
from autograder.lms.download_shape import METADATA
from autograder.lms.identify_student import StudentIdentifier
from autograder.lms.stage_downloads import stage_downloads

OTHER = "03_other"
NAMES = [
    ("Ada", "Lovelace"),
    ("Bob", "Smith"),
    ("Cyd", "O'Neill"),
    ("Dan", "Bär-Öztürk"),
    ("李", "明"),
    ("Fay", "de 2"),
]
EVE = 6
"""Her place in the class; the others' are 0 to 5."""
FORMS = ("canvas", "moodle", "moodle flat", "moodle with worksheet", "brightspace", "gradescope", "folders", "sections")
BY_LOGIN = ("ilias", "ilias teams", "sakai", "blackboard", "nbgrader", "github")
"""Forms with a place for the login; in `olat` it stands among the rest."""


def _id(at: int) -> str:
    return "eve" if at == EVE else f"s{at}"


@dataclass
class World:
    """A class in an LMS. `vouched`: whether the roster has numbers and e-mails; `enrolled`: whether the adversary is on
    it, None without a roster; `handed_in`: who did, week by week."""

    form: str
    vouched: bool
    enrolled: bool | None
    handed_in: list[list[int]]
    calls_herself: list[str]
    files: list[dict[str, bytes]] = field(default_factory=list)

    def roster(self) -> Roster | None:
        if self.enrolled is None:
            return None
        people = {}
        for at, (first, last) in enumerate([*NAMES, ("Eve", "Adams")][: EVE + self.enrolled]):
            known = (f"{_id(at)}@x.org", f"{100 + at}", f"S{at}") if self.vouched else ("", "", "")
            email, canvas_id, sid = known
            team = f"{at // 2}" if at < EVE else ""
            one = Student(_id(at), last, first, email, canvas_id, sid, moodle_idnumber=sid, team=team)
            people[one.student_id] = one
        return Roster(people)

    def download(self, week: int, with_eve: bool) -> dict[str, bytes]:
        who = [(at, " ".join(NAMES[at]), self.work(at, week)) for at in self.handed_in[week]]
        who += [(EVE, self.calls_herself[week], self.files[week])] * with_eve
        made = {self.path(at, name, file, 10 * week): data for at, name, works in who for file, data in works.items()}
        if self.form == "gradescope":
            rows = {
                f"submission_{10 * week + at}": [(json.dumps(name), f"S{at}", f"{_id(at)}@x.org")]
                for at, name, _ in who
            }
            made[METADATA] = gradescope({key: (row, "2026-11-20 10:00:00 Z") for key, row in rows.items()})
        return made

    def work(self, at: int, week: int) -> dict[str, bytes]:
        """One file, called as students call them; one that can't be read."""
        name = (
            "02_small.ipynb",
            "x.ipynb",
            "02_small (1).ipynb",
            "a b_1_2_c.ipynb",
            "1234567_hw.ipynb",
            "10_a_b.ipynb",
        )[at]
        return {name: b"unreadable" if at == 5 else f"{UNIT} {at} {week}".encode()}

    def path(self, at: int, name: str, file: str, upload: int) -> str:
        """As the LMS writes it: Canvas and Moodle clean names, and keep no folders."""
        if self.form == "canvas":
            bare = re.sub(r"\W", "", re.sub(r"_(\d+)_", r"\1", name)).lower()
            return f"{bare}_{100 + at}_{9_000 + upload + at}_{file.replace('/', '-')}"
        if self.form.startswith("moodle"):
            clean = re.sub(r"[/\\]", "", name.replace("_", " "))
            start = f"{clean}_{900_000 + at}_assignsubmission_file"
            return f"{start}_{file.replace('/', '-')}" if self.form == "moodle flat" else f"{start}/{file}"
        if self.form == "brightspace":
            return f"{70_000 + at}-555 - {name.replace('/', '')} - Nov 20, 2026 1159 PM/{file}"
        if self.form == "gradescope":
            return f"submission_{upload + at}/{file}"
        if self.form in (*BY_LOGIN, "olat"):
            return self.path_with_login(at, re.sub(r"[/\\ ]", "_", name), file, 20 + upload // 10)
        return (
            f"{'section A/' if at % 2 else 'section B/'}{_id(at)}/{file}"
            if self.form == "sections"
            else f"{_id(at)}/{file}"
        )

    def path_with_login(self, at: int, name: str, file: str, day: int) -> str:
        """A login on GitHub is what its owner chose, as long as nobody else has it."""
        login, flat = _id(at), file.replace("/", "-")
        chosen = f"{re.sub('[^0-9A-Za-z]+', '-', name)}-x" if at == EVE else login
        return {
            "ilias": f"{name}__{login}_{7_000 + at}/{file}",
            "ilias teams": f"Abgaben/Team {at // 2}/{name}__{login}_{7_000 + at}/{file}",
            "sakai": f"{name}({login})/Submission attachment(s)/{file}",
            "blackboard": f"Unit 2_{login}_attempt_2026-11-{day}-10-00-00_{flat}",
            "nbgrader": f"{login}+02_small+2026-11-{day} 10:00:00.5 UTC+ZmF_dA==/{file}",
            "github": f"unit-02-{chosen}/{file}",
            "olat": f"{name}_{login}/{file}",
        }[self.form]

    def worksheet(self, week: int) -> str:
        people = [*(" ".join(one) for one in NAMES), self.calls_herself[week]]
        rows = [
            [f"Participant {900_000 + at}", name, f"{_id(at)}@x.org", f"S{at}", ""] for at, name in enumerate(people)
        ]
        header = ["Identifier", "Full name", "Email address", "ID number", "Last modified (submission)"]
        return csv_files.to_csv(header, rows)


# ---------------------------------------------------------------- the adversary

VICTIM = st.integers(0, 5)
WORK = st.sampled_from([b"", b"unreadable", f"{UNIT} eve".encode(), f"{UNIT} 1 0".encode(), OTHER.encode()])
METADATAS = VICTIM.map(
    lambda at: gradescope({"submission_1": ([("x", f"S{at}", f"s{at}@x.org")], "2020-01-01 00:00:00 Z")})
)
PLAIN = [
    "02_small.ipynb",
    "x.ipynb",
    "..\\x.ipynb",
    "a/" * 17 + "x.ipynb",
    "a" * 301 + ".ipynb",
    "x.pdf",
    "timestamp.txt",
]
LIKE_ANOTHERS = VICTIM.flatmap(
    lambda at: st.sampled_from(
        [
            f"s{at}/x.ipynb",
            f"s{at}.ipynb",
            f"{NAMES[at][1]}{NAMES[at][0]}_{100 + at}_9900_x.ipynb",
            f"{100 + at}_9900_x.ipynb",
            f"_{100 + at}_9900_x.ipynb",
            f"{' '.join(NAMES[at])}_{900_000 + at}_assignsubmission_file/x.ipynb",
            f"{70_000 + at}-555 - {' '.join(NAMES[at])} - Nov 29, 2026 1159 PM/x.ipynb",
            f"submission_{at}/x.ipynb",
            f"section A/s{at}/x.ipynb",
            f"../s{at}/x.ipynb",
        ]
    )
)
FILE = st.one_of(
    st.sampled_from(PLAIN), LIKE_ANOTHERS, st.text(min_size=1, max_size=12).map(lambda text: text + ".ipynb")
)
FILES = st.dictionaries(FILE, WORK, max_size=6)
ARCHIVES = FILES.map(lambda files: zipped({name.replace("\0", ""): data for name, data in files.items()}))


@st.composite
def files(draw):
    """What she hands in: notebooks, archives, Gradescope's own file, or sixty of something."""
    made = draw(FILES) | draw(st.dictionaries(LIKE_ANOTHERS.map(lambda name: f"{name}.zip"), ARCHIVES, max_size=2))
    if draw(st.booleans()):
        made[draw(st.sampled_from(["", "submission_1/", "a/"])) + METADATA] = draw(METADATAS)
    if draw(st.integers(0, 9)) == 0:
        made |= {f"s{draw(VICTIM)}/{number}.ipynb": f"{UNIT} {number}".encode() for number in range(60)}
    return {name.replace("\0", "").lstrip("/") or "x": data for name, data in made.items()}


def _names(draw, victim: int) -> str:
    first, last = NAMES[victim]
    return draw(
        st.sampled_from(
            [
                f"{first} {last}",
                f"{last} {first}",
                f"{first} {last}_{100 + victim}",
                f"{first} {last}_{100 + victim}_9900",
                f"{first} {last}_{900_000 + victim}_assignsubmission_file",
                f"{first} {last} - Nov 19, 2026 1159 PM",
                f"Group-{first} {last}",
                f"s{victim}",
                f"s{victim}@x.org",
            ]
        )
    )


@st.composite
def worlds(draw):
    """She takes somebody's name only where that person can be known: from the roster's numbers, or from the first
    week. Of two who come for the first time with one name nobody can say who is who."""
    vouched = draw(st.booleans())
    forms = [one for one in (*FORMS, *BY_LOGIN, "olat") if vouched or one != "moodle with worksheet"]
    form = draw(st.sampled_from(forms))
    enrolled = draw(st.booleans() if vouched or form == "sections" else st.sampled_from([True, False, None]))
    weeks = [sorted(draw(st.sets(VICTIM, min_size=4))) for _ in range(2)]
    own = draw(st.sampled_from(["Eve Adams", "Participant", "_", "*", "Eve_103", "anon", "X" * 300]))
    by_number = vouched and form in ("canvas", "moodle with worksheet", "gradescope")
    by_number = by_number or (form in BY_LOGIN and enrolled is not None)
    first = _names(draw, draw(VICTIM)) if by_number and draw(st.booleans()) else own
    second = _names(draw, draw(VICTIM if by_number else st.sampled_from(weeks[0])))
    names = [first, draw(st.sampled_from([own, second, second]))]
    return World(form, vouched, enrolled, weeks, names, [draw(files()), draw(files())])


# ---------------------------------------------------------------- two weeks, without processes


@pytest.fixture(scope="module")
def pure(built, tmp_path_factory):
    """Reading and planning alone: nothing is graded, no process is started."""
    folder = tmp_path_factory.mktemp("pure")
    shutil.copytree(built.root, folder / "course", ignore=shutil.ignore_patterns("class"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_download.limited_process, "call", lambda function, *arguments, **_: function(*arguments))
        patch.setattr(read_download.intake, "unit_of", _unit_of)
        patch.setattr(read_download.intake, "units_of", lambda course: {UNIT: [], OTHER: []})
        patch.setattr(collection_plan, "Deadlines", _NoDeadlines)
        patch.setattr(collection_plan, "datetime", _Clock)
        yield Course((folder / "course").resolve())


def _unit_of(data: bytes, units) -> str | None:
    if data == b"unreadable":
        raise Rejected("it can't be read")
    return next((unit for unit in units if data.startswith(unit.encode())), None)


class _Clock(datetime):
    """A week goes by between two downloads."""

    week = 0

    @classmethod
    def now(cls, tz=None):
        return datetime(2026, 11, 1 + 7 * cls.week, tzinfo=tz)


class _NoDeadlines:
    def __init__(self, course, units, deadline):
        self.units = dict.fromkeys(units)

    def of(self, student, unit):
        return None


def _two_weeks(course, folder, world: World, with_eve: bool):
    """What is known afterwards, and who is missing."""
    known, missing = {}, []
    for week in range(2):
        _Clock.week = week
        staging = folder / "staging"
        staging.mkdir(parents=True, exist_ok=True)
        downloads = [put(folder / "in.zip", zipped(world.download(week, with_eve)))]
        if world.form == "moodle with worksheet":
            downloads.append(put(folder / "in.csv", world.worksheet(week).encode()))
        who = StudentIdentifier(world.roster(), Accounts.of_attempts(known, world.roster()))
        found = stage_downloads(course, downloads, who, staging, {})
        plan = collection_plan.make_plan(course, found, world.roster(), known, None, staging)
        missing.append({place for place in plan.missing or [] if place[0] != "eve"})
    return known, missing


def _rows(known, others):
    """Everybody else's: the attempt that counts, and all others."""
    return {
        (place, one.sha256): (one.lms, one.lms_id, one.account, one.counts, one.time_from, one.why)
        for place, group in known.items()
        for one in group.values()
        if place[0] in others
    }


def _given_back(world: World, known, lms: str):
    """Whose points and pages each number of the LMS gets."""
    roster, first = world.roster(), 100 if lms == CANVAS else 900_000
    numbers = {student: one.lms_id for student, one in counting_attempts(known, UNIT, lms, roster).items()}
    found = [Grade(UNIT, student, GRADED, score=1.0) for student in roster.students.values()]
    people = [*(" ".join(one) for one in NAMES), world.calls_herself[1]]
    lines = {first + at: Line(str(first + at), {}, name) for at, name in enumerate(people)}
    points = {number: one.student.student_id for number, one in match_lines(lms, lines, found, numbers).of.items()}
    return points, {number: student for student, number in numbers.items()}


@settings(
    max_examples=int(os.environ.get("ATTN_EXAMPLES", 150)),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(world=worlds())
def test_what_one_student_does_changes_nobody_elses_row(pure, tmp_path_factory, world):
    event(world.form)
    folder = tmp_path_factory.mktemp("weeks")
    known, missing = _two_weeks(pure, folder / "with", world, True)
    quiet, quietly_missing = _two_weeks(pure, folder / "without", world, False)
    others = {*map(_id, range(EVE)), *(student for student, _ in quiet)}
    assert _rows(known, others) == _rows(quiet, others)
    assert missing == quietly_missing
    lms = CANVAS if world.form == "canvas" else MOODLE
    if world.enrolled is not None and (world.form == "canvas" or world.form.startswith("moodle")):
        hers = (100 if lms == CANVAS else 900_000) + EVE
        for mine, theirs in zip(_given_back(world, known, lms), _given_back(world, quiet, lms)):
            assert {number: name for number, name in mine.items() if name != "eve"} == {
                number: name for number, name in theirs.items() if name != "eve"
            }
            assert mine.get(hers, "eve") == "eve" and mine.get(str(hers), "eve") == "eve"
    shutil.rmtree(folder)
