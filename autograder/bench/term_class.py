"""The class of a made-up term: a roster, who hands in what, and the archives in which six systems give it out. ILIAS's
are of teams, a folder each; the clocks of Blackboard and Moodle go by zones of their own.

A unit's hand-ins are a dozen: those of the small sample class (`proofs/sample_students.py`). Each student draws one."""

import csv
import io
import random
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from autograder.course.paths import Course
from autograder.gradebook.roster import DROPPED, EXCUSED, Student
from autograder.proofs.sample_class import materials_of
from autograder.proofs.sample_students import a_dozen

LMS = CANVAS, MOODLE, GRADESCOPE, ILIAS, BLACKBOARD, GITHUB = (
    "canvas",
    "moodle",
    "gradescope",
    "ilias",
    "blackboard",
    "github",
)
ZONES = {MOODLE: "Europe/Berlin", BLACKBOARD: "America/New_York"}
"""Where the site's clock is, of those whose downloads name times and no zone."""
TEAM_LINES = 2 * len(LMS)
"""Lines of the roster with one team of two on them."""
TELL_TIMES = (GRADESCOPE, *ZONES)
CUT_OFF, HALF, RIGHT = "a file that was cut off", "the first half done", "all right"
RARE = (CUT_OFF, "a solution cell copied", "a second download", "hostile")
"""How the kinds begin that few students are of."""
ABSENT = 0.03
"""The share of a class that hands nothing in."""


def students(count: int) -> list[Student]:
    """A roster: nobody's name is anybody's. Of every 25 one has dropped the course, and one is excused."""
    return [_student(number) for number in range(1, count + 1)]


def _student(number: int) -> Student:
    letters = "".join(chr(ord("a") + int(digit)) for digit in str(number))
    status = {7: DROPPED, 9: EXCUSED}.get(number % 25, "")
    names = f"Family{letters}", f"Given{letters}", f"s{number}@example.org"
    team = f"Team {number // TEAM_LINES}" if lms(number) == ILIAS else ""
    return Student(f"s{number:03d}", *names, str(10_000 + number), f"SIS{number}", team=team, status=status)


@dataclass(frozen=True)
class HandIn:
    """What one student hands in for one unit. `again`: in the place of something else."""

    at: int
    student: Student
    kind: str
    file: str
    data: bytes
    again: bool = False

    @property
    def lms(self) -> str:
        return lms(self.at)

    @property
    def time(self) -> datetime:
        """When it came."""
        return datetime(2026, 11, 20 + self.again, 10, tzinfo=UTC)

    @property
    def local(self) -> datetime:
        """The same by the clock of the site."""
        return self.time.astimezone(ZoneInfo(ZONES.get(self.lms, "UTC")))

    @property
    def can_be_graded(self) -> bool:
        return self.kind != CUT_OFF


def lms(at: int) -> str:
    """Where the student on this line of the roster (from 1) hands in."""
    return LMS[at % len(LMS)]


def hand_ins(course: Course, unit: str, people: list[Student], seed: int) -> list[HandIn]:
    """Everybody's, in the order of the roster, less those who hand in nothing. The same seed gives the same."""
    (material,), _ = materials_of(course, [unit])
    kinds = [kind for kind, _ in a_dozen()]
    works = {kind: make(material, random.Random(f"{seed} {unit} {kind}")) for kind, make in a_dozen()}
    weights = [1 if kind.startswith(RARE) else 5 for kind in kinds]
    made = []
    for at, student in enumerate(people, 1):
        rng = random.Random(f"{seed} {unit} {student.team or student.student_id}")  # a team hands in one file
        (kind,) = rng.choices(kinds, weights)
        if rng.random() >= ABSENT:
            made.append(HandIn(at, student, kind, works[kind].file, works[kind].text.encode()))
    return made


def second_attempts(course: Course, unit: str, first: list[HandIn], seed: int) -> list[HandIn]:
    """Who was half done, or whose file was cut off, hands in again, and all is right."""
    (material,), _ = materials_of(course, [unit])
    text = dict(a_dozen())[RIGHT](material, random.Random(seed)).text.encode()
    return [HandIn(one.at, one.student, RIGHT, one.file, text, True) for one in first if one.kind in (CUT_OFF, HALF)]


# ---------------------------------------------------------------- as the systems give it out


def archives(folder: Path, name: str, found: list[HandIn]) -> list[Path]:
    """Writes the downloads of the systems that somebody used, Moodle's worksheet beside its. Returns their paths."""
    made = []
    for system in LMS:
        files = {_name(one): one.data for one in found if one.lms == system}
        if not files:
            continue
        own = [one for one in found if one.lms == system]
        if system == GRADESCOPE:
            files["submission_metadata.yml"] = _metadata(own)
        if system == GITHUB:
            files |= {f"{_name(one).split('/')[0]}/.git/HEAD": b"" for one in own}
        if system == MOODLE:
            times = {one.at: f"{one.local:%A, %d %B %Y, %I:%M %p}" for one in own}
            moodle_worksheet(folder / f"{name}-{system}.csv", {one.at: one.student for one in own}, times)
        made.append(_zip(folder / f"{name}-{system}.zip", files))
    return made


def _name(one: HandIn) -> str:
    who = one.student
    if one.lms == CANVAS:
        stem = f"{who.last_name}{who.first_name}_{who.canvas_id}_{70_000 + 10_000 * one.again + one.at}_".lower()
        return stem + (one.file.replace(".ipynb", "-1.ipynb") if one.again else one.file)
    if one.lms == MOODLE:
        return f"{who.first_name} {who.last_name}_{participant(one.at)}_assignsubmission_file/{one.file}"
    if one.lms == ILIAS:
        first = _student(one.at - (one.at - LMS.index(ILIAS)) % TEAM_LINES)  # who hands in for the team
        folder = f"{first.last_name}_{first.first_name}_{first.student_id}_{first.canvas_id}"
        return f"Unit/Abgaben/{who.team}/{folder}/{one.file}"
    if one.lms == BLACKBOARD:
        return f"Unit_{who.student_id}_attempt_{one.local:%Y-%m-%d-%H-%M-%S}_{one.file}"
    if one.lms == GITHUB:
        return f"the-unit-{who.student_id}/work/{one.file}"
    return f"submission_{one.at + 1000 * one.again}/{one.file}"


def participant(at: int) -> int:
    """Moodle's number of the student on this line of the roster."""
    return 900_000 + at


def _metadata(found: list[HandIn]) -> bytes:
    lines = []
    for one in found:
        lines += [f"{_name(one).split('/')[0]}:", "  :submitters:"]
        lines += [
            f"  - :name: {one.student.first_name} {one.student.last_name}",
            f"    :sid: '{one.student.sis_user_id}'",
        ]
        lines += [f"    :email: {one.student.email}", f"  :created_at: {one.time:%Y-%m-%d %H:%M:%S} Z"]
    return "\n".join(lines).encode()


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


# ---------------------------------------------------------------- tables that the instructor downloads


def canvas_gradebook(path: Path, unit: str, people: list[Student]) -> Path:
    """Canvas's gradebook with an empty column for the unit."""
    rows = [["Student", "ID", "SIS User ID", "Section", f"{unit} (7)"], ["    Points Possible", "", "", "", "30"]]
    rows += [[f"{one.last_name}, {one.first_name}", one.canvas_id, one.sis_user_id, "", ""] for one in people]
    return _table(path, rows)


def moodle_worksheet(path: Path, people: dict[int, Student], times: dict[int, str] | None = None) -> Path:
    """Moodle's grading worksheet of one assignment. people: by their line of the roster; times: when they handed in."""
    header = [
        "Identifier",
        "Full name",
        "Email address",
        "Status",
        "Grade",
        "Maximum Grade",
        "Grade can be changed",
        "Last modified (submission)",
        "Last modified (grade)",
        "Feedback comments",
    ]
    rows = [
        [f"Participant {participant(at)}", f"{one.first_name} {one.last_name}", one.email, "", "", "100.00", "Yes"]
        + [(times or {}).get(at, "-"), "-", ""]
        for at, one in people.items()
    ]
    return _table(path, [header, *rows])


def _table(path: Path, rows: list[list[str]]) -> Path:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    path.write_text(out.getvalue(), encoding="utf-8")
    return path
