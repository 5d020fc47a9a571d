"""What a run of `attn collect` is to do: for every student and unit the attempt that counts, what it takes the place
of, whether it is late; and who is missing. Nothing is changed here."""

import hashlib
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from autograder import timestamps
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.gradebook.deadlines import Deadlines
from autograder.gradebook.roster import Roster
from autograder.grading import intake
from autograder.grading.submission_discovery import Submission
from autograder.grading.submission_parser import Rejected
from autograder.lms import attempts
from autograder.lms.accounts import Known
from autograder.lms.attempts import Attempt
from autograder.lms.claim import FOLDERS, ILIAS, MOODLE
from autograder.lms.hand_in import HandIn
from autograder.lms.stage_downloads import StagedDownloads

NEW, REPLACED, SAME = "new", "replaced", "same"
UNDATED = {
    MOODLE: ("Moodle's archive", " (name its grading worksheet beside it)"),
    ILIAS: ("ILIAS's archive", ""),
    FOLDERS: ("a clone of a repository", ""),
}
"""Whose downloads may not say when something came, and what helps."""


@dataclass
class Step:
    """What is to be done with one student's notebook of one unit. `before`: the hash of what lies there; `aside`:
    notebooks with other names beside it, which go to the history."""

    chosen: Attempt
    kind: str
    late: bool
    timestamp: str
    before: str = ""
    aside: list[Path] = field(default_factory=list)


@dataclass
class Plan:
    """What a run of `attn collect` does, or would do."""

    steps: list[Step] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)
    missing: list[tuple[str, str]] | None = None
    equal: list[list[str]] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    enrolled: int = 0

    def lines(self) -> list[str]:
        """A line for each notebook that is new or takes the place of another."""
        changed = [(step, step.chosen) for step in self.steps if step.kind != SAME]
        return [
            f"{step.kind} {one.student_id} {one.unit[:2]} ← {one.name}{', late' * step.late}" for step, one in changed
        ]

    def summary(self) -> str:
        kinds = Counter(step.kind for step in self.steps)
        parts = [
            f"{len(self.steps)} collected ({kinds[NEW]} new, {kinds[REPLACED]} replaced, {kinds[SAME]} same)",
            f"{sum(step.late for step in self.steps)} late",
            f"{len(self.strangers)} not on the roster",
        ]
        parts += [] if self.missing is None else [f"{len(self.missing)} missing"]
        return ", ".join([*parts, f"{len(self.equal)} group{'s' * (len(self.equal) != 1)} of equal files"])


def make_plan(
    course: Course,
    found: StagedDownloads,
    roster: Roster | None,
    known: Known,
    deadline: datetime | None,
    staging: Path,
) -> Plan:
    """What to do with what was found. `known` takes up the new attempts. Raises CourseError."""
    if deadline:
        _keep_one_unit(found)
    units = sorted({one.unit for one in found.hand_ins})
    plan = Plan(problems=found.problems, notes=found.notes, strangers=found.strangers)
    dues = Deadlines(course, units, deadline)
    places: dict[tuple[str, str], list[HandIn]] = defaultdict(list)
    for one in found.hand_ins:
        places[one.student_id, one.unit].append(one)
    for place, hand_ins in sorted(places.items()):
        try:
            plan.steps.append(_step(course, hand_ins, known.setdefault(place, {}), dues.of(*place), staging))
        except Rejected as reason:
            plan.problems.append(
                f"{place[0]} {place[1][:2]}: not collected, for what lies in submitted/ can't be moved: {reason}"
            )
    everybodys = _of_several(found.hand_ins)
    plan.missing = (
        _missing(course, everybodys, roster, known) if roster and units and not found.blind & set(units) else None
    )
    plan.equal = _equal(course, units, known, roster)
    plan.unchanged = _unchanged(course, plan.steps, staging)
    plan.enrolled = len(roster.active()) if roster else 0
    plan.notes += _told(plan, dues)
    return plan


def _people(hand_ins: list[HandIn]) -> Counter[str]:
    """Unit → how many people handed it in."""
    return Counter(unit for _, unit in {(one.student_id, one.unit) for one in hand_ins})


def _keep_one_unit(found: StagedDownloads) -> None:
    """A deadline is for the unit that most people handed in; what else somebody put there is named. Raises
    CourseError where there is no such unit."""
    count, everybody = _people(found.hand_ins), len({one.student_id for one in found.hand_ins})
    unit = next((unit for unit, people in count.items() if 2 * people > everybody), "")
    if len(count) > 1 and not unit:
        raise CourseError(
            f"--due is for one unit, and the downloads hold {', '.join(sorted(count))}: collect them one by one.",
            BAD_INPUT,
        )
    others = [one for one in found.hand_ins if one.unit != unit]
    found.problems += [
        f"{one.student_id}, {one.name}: left out: it is of {one.unit}, and --due is for {unit}" for one in others
    ]
    found.hand_ins = [one for one in found.hand_ins if one.unit == unit]


def _of_several(hand_ins: list[HandIn]) -> list[str]:
    """The units that are asked of everybody: one that a single person handed in is that person's matter."""
    count = _people(hand_ins)
    return sorted(unit for unit, people in count.items() if people > 1 or len(count) == 1)


def _step(
    course: Course, hand_ins: list[HandIn], group: dict[str, Attempt], due: datetime | None, staging: Path
) -> Step:
    student, unit = hand_ins[0].student_id, hand_ins[0].unit
    there, before, aside = _there(course, student, unit, staging)
    for one in [*(one for one in there if one.sha256 not in group), *map(_attempt, hand_ins)]:
        group[one.sha256] = attempts.merge_attempts(group[one.sha256], one) if one.sha256 in group else one
    chosen = attempts.counting_attempt((one for one in group.values() if read_attempt(course, one, staging)), due)
    for sha, one in group.items():
        group[sha] = replace(one, counts=sha == chosen.sha256)
    kind = NEW if not before else SAME if before == chosen.sha256 else REPLACED
    return Step(group[chosen.sha256], kind, chosen.is_late(due), chosen.timestamp(due), before, aside)


def _attempt(one: HandIn) -> Attempt:
    claim, now = one.claim, datetime.now(UTC).replace(microsecond=0)
    who = one.student_id, one.unit, one.sha256, one.name, claim.lms, claim.number
    return Attempt(*who, claim.order, now, claim.time, claim.time_from, claim.late, one.why, account=one.to_remember)


def _there(course: Course, student: str, unit: str, staging: Path) -> tuple[list[Attempt], str, list[Path]]:
    """What lies in `submitted/`: its notebooks as attempts, the counting one's hash, those with other names. Raises
    Rejected."""
    folder = course.submission(student, unit).parent
    if folder.parent.is_symlink() or folder.is_symlink():
        raise Rejected(f"{folder} is a link")
    if not folder.is_dir() or not any(intake.NOTEBOOK.search(name) for name in os.listdir(folder)):
        return [], "", []
    hand_in = intake.read(course, Submission(student, unit, course.submission(student, unit)))
    time = _time(hand_in.time)
    found = []
    for file in hand_in.files:
        sha = hashlib.sha256(file.data).hexdigest()
        saved = datetime.fromtimestamp(file.saved // 10**9, UTC)
        found.append(
            Attempt(
                student, unit, sha, file.name, seen=saved, submitted=time, time_from="timestamp.txt" if time else ""
            )
        )
        (staging / f"{sha}.ipynb").write_bytes(file.data)
    named = next((one for one in found if one.name == f"{unit}.ipynb"), found[-1])
    return found, named.sha256, [folder / one.name for one in found if one.name != f"{unit}.ipynb"]


def _time(text: str) -> datetime | None:
    from nbgrader.utils import parse_utc

    return timestamps.to_utc(parse_utc(text).replace(tzinfo=UTC)) if text else None


def read_attempt(course: Course, one: Attempt, staging: Path) -> Path | None:
    """Where the bytes of an attempt lie."""
    staged = staging / f"{one.sha256}.ipynb"
    if staged.is_file():
        return staged
    return next(iter(history_folder(course, one).glob(f"*-{one.sha256[:12]}.ipynb")), None)


def history_folder(course: Course, one: Attempt) -> Path:
    """The folder of a student's notebooks of a unit that don't count."""
    return course.classroom / "history" / one.student_id / one.unit


def _missing(course: Course, units: list[str], roster: Roster, known: Known) -> list[tuple[str, str]]:
    return [
        (name, unit)
        for unit in units
        for name in roster.active()
        if not known.get((name, unit)) and not course.submission(name, unit).parent.exists()
    ]


def _equal(course: Course, units: list[str], known: Known, roster: Roster | None) -> list[list[str]]:
    """Who handed in the same bytes, of one team or not at all; the notebook as it was released is nobody's work."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    released = {
        hashlib.sha256(course.released(unit).read_bytes()).hexdigest()
        for unit in units
        if course.released(unit).is_file()
    }
    for (student, unit), group in sorted(known.items()):
        for sha in (sha for sha, one in group.items() if one.counts and unit in units and sha not in released):
            groups[unit, sha].append(student)
    teams = {name: one.team or name for name, one in roster.students.items()} if roster else {}
    return [students for students in groups.values() if len({teams.get(name, name) for name in students}) > 1]


def _unchanged(course: Course, steps: list[Step], staging: Path) -> list[str]:
    """Who handed in what was given out, which says nothing of their work: there is time to ask again."""
    found: dict[str, bool] = {}
    for one in (step.chosen for step in steps):
        path = None if one.sha256 in found else read_attempt(course, one, staging)
        if path:
            found[one.sha256] = intake.is_as_released(course, one.unit, path.read_bytes())
    return [step.chosen.student_id for step in steps if found.get(step.chosen.sha256)]


def _told(plan: Plan, dues: Deadlines) -> list[str]:
    """What a person should look at: one line for each kind of thing."""
    lines = [f"equal files: {', '.join(group)}" for group in plan.equal]
    missing = plan.missing or []
    for unit in sorted({unit for _, unit in missing}):
        lines.append(f"missing {unit[:2]}: {_some([name for name, of in missing if of == unit])}")
    if plan.unchanged:
        lines.append(f"unchanged since release: {_some(plan.unchanged)}")
    if late := [step.chosen.student_id for step in plan.steps if step.late]:
        lines.append(f"late: {_some(late)}")
    if of_files := sum(step.chosen.time_from == "file" for step in plan.steps):
        lines.append(f"of {of_files} the time is that of the file, for the download says no other")
    for lms, (what, advice) in UNDATED.items():
        untold = [step for step in plan.steps if step.chosen.lms == lms and not step.timestamp]
        if any(dues.units[step.chosen.unit] for step in untold):
            lines.append(f"{what} doesn't say when {len(untold)} were handed in: none counts as late{advice}")
    return lines


def _some(names: list[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f", and {len(names) - most} more" if len(names) > most else "")
