"""`attn collect`: what students handed in, from the downloads of a learning management system into `submitted/`.

Everything is read and decided first, in a staging folder; then files are moved. Nothing is lost: attempts that don't count, and notebooks
that are replaced, lie in `history/`."""

import hashlib
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import intake
from autograder.grading.reading import Rejected
from autograder.grading.triage import Submission
from autograder.term import attempts, moment
from autograder.term import roster as rosters
from autograder.term.attempts import Attempt
from autograder.term.gather import Gathered, HandIn, gather
from autograder.term.who import Who

NEW, REPLACED, SAME = "new", "replaced", "same"
Known = dict[tuple[str, str], dict[str, Attempt]]


@dataclass
class Step:
    """What is to be done with one student's notebook of one unit. `before`: the hash of what lies there; `aside`: notebooks with other
    names beside it, which go to the history."""

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
    enrolled: int = 0

    def lines(self) -> list[str]:
        """A line for each notebook that is new or takes the place of another."""
        return [f"{step.kind} {step.chosen.student_id} {step.chosen.unit[:2]} ← {step.chosen.name}{', late' * step.late}"
                for step in self.steps if step.kind != SAME]  # fmt: skip

    def summary(self) -> str:
        kinds = Counter(step.kind for step in self.steps)
        parts = [f"{len(self.steps)} collected ({kinds[NEW]} new, {kinds[REPLACED]} replaced, {kinds[SAME]} same)",
                 f"{sum(step.late for step in self.steps)} late", f"{len(self.strangers)} not on the roster"]  # fmt: skip
        parts += [] if self.missing is None else [f"{len(self.missing)} missing"]
        return ", ".join([*parts, f"{len(self.equal)} group{'s' * (len(self.equal) != 1)} of equal files"])


def collect(
    course: Course, downloads: list[Path], roster: Path | None = None, due: str | None = None, dry_run: bool = False
) -> Plan:
    """Collects downloads; with `dry_run` it writes nothing and returns what it would do. Raises CourseError, and then nothing is changed."""
    from autograder.grading.record import only_writer

    given = rosters.read(roster) if roster else None
    deadline = moment.due(due) if due else None
    with nullcontext() if dry_run else only_writer(course), _staging(course) as staging:
        known = attempts.load(course)
        in_use = given or rosters.in_use(course)
        units = {sha: one.unit for group in known.values() for sha, one in group.items()}
        found = gather(course, downloads, Who(in_use), staging, units)
        plan = _plan(course, found, in_use, known, deadline, staging)
        plan.notes += given.notes if given else []
        plan.enrolled = len(in_use.active()) if in_use else 0
        if not dry_run:
            _apply(course, plan, given, known, deadline, staging)
    return plan


@contextmanager
def _staging(course: Course) -> Iterator[Path]:
    course.classroom.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".collecting-", dir=course.classroom) as folder:
        yield Path(folder)


# ---------------------------------------------------------------- the plan


def _plan(
    course: Course,
    found: Gathered,
    roster: rosters.Roster | None,
    known: Known,
    deadline: datetime | None,
    staging: Path,
) -> Plan:
    units = sorted({one.unit for one in found.hand_ins})
    if deadline and len(units) > 1:
        raise CourseError(
            f"--due is for one unit, and the downloads hold {', '.join(units)}: collect them one by one.", BAD_INPUT
        )
    plan = Plan(problems=found.problems, strangers=found.strangers)
    dues = _Dues(course, units, deadline)
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
    plan.missing = _missing(course, units, roster, known) if roster and units and not found.blind & set(units) else None
    plan.equal = _equal(course, units, known)
    plan.notes += _told(plan, dues)
    return plan


def _step(
    course: Course, hand_ins: list[HandIn], group: dict[str, Attempt], due: datetime | None, staging: Path
) -> Step:
    student, unit = hand_ins[0].student_id, hand_ins[0].unit
    there, before, aside = _there(course, student, unit, staging)
    for one in [*(one for one in there if one.sha256 not in group), *map(_attempt, hand_ins)]:
        group[one.sha256] = attempts.merged(group[one.sha256], one) if one.sha256 in group else one
    chosen = attempts.counting((one for one in group.values() if _bytes(course, one, staging)), due)
    for sha, one in group.items():
        group[sha] = replace(one, counts=sha == chosen.sha256)
    kind = NEW if not before else SAME if before == chosen.sha256 else REPLACED
    return Step(group[chosen.sha256], kind, chosen.is_late(due), chosen.timestamp(due), before, aside)


def _attempt(one: HandIn) -> Attempt:
    claim = one.claim
    return Attempt(one.student_id, one.unit, one.sha256, one.name, claim.lms, claim.person, claim.order,
                   datetime.now(UTC).replace(microsecond=0), claim.time, claim.time_from, claim.late)  # fmt: skip


def _there(course: Course, student: str, unit: str, staging: Path) -> tuple[list[Attempt], str, list[Path]]:
    """What lies in `submitted/`: its notebooks as attempts, the hash of the one that counts, and those with other names. Raises Rejected."""
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

    return moment.of_gradebook(parse_utc(text)).replace(microsecond=0) if text else None


def _bytes(course: Course, one: Attempt, staging: Path) -> Path | None:
    """Where the bytes of an attempt lie."""
    staged = staging / f"{one.sha256}.ipynb"
    if staged.is_file():
        return staged
    return next(iter(_history(course, one).glob(f"*-{one.sha256[:12]}.ipynb")), None)


def _history(course: Course, one: Attempt) -> Path:
    return course.classroom / "history" / one.student_id / one.unit


class _Dues:
    """Deadlines: of the units, and of students with an extension in the gradebook."""

    def __init__(self, course: Course, units: list[str], deadline: datetime | None) -> None:
        self.units: dict[str, datetime | None] = {unit: deadline for unit in units}
        self.extensions: dict[tuple[str, str], timedelta] = {}
        if (course.classroom / "gradebook.db").is_file():
            self._read(course, deadline)

    def _read(self, course: Course, deadline: datetime | None) -> None:
        from autograder.course import stock

        with stock.open_gradebook(course) as gradebook:
            for assignment in (one for one in gradebook.assignments if one.name in self.units):
                self.units[assignment.name] = deadline or moment.of_gradebook(assignment.duedate)
                for one in gradebook.assignment_submissions(assignment.name):
                    if one.extension:
                        self.extensions[one.student_id, assignment.name] = one.extension

    def of(self, student: str, unit: str) -> datetime | None:
        due = self.units[unit]
        return due and due + self.extensions.get((student, unit), timedelta())


def _missing(course: Course, units: list[str], roster: rosters.Roster, known: Known) -> list[tuple[str, str]]:
    return [(name, unit) for unit in units for name in roster.active()
            if not known.get((name, unit)) and not course.submission(name, unit).parent.exists()]  # fmt: skip


def _equal(course: Course, units: list[str], known: Known) -> list[list[str]]:
    """Who handed in the same bytes; the notebook as it was released is nobody's work."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    released = {
        hashlib.sha256(course.released(unit).read_bytes()).hexdigest()
        for unit in units
        if course.released(unit).is_file()
    }
    for (student, unit), group in sorted(known.items()):
        for sha in (sha for sha, one in group.items() if one.counts and unit in units and sha not in released):
            groups[unit, sha].append(student)
    return [students for students in groups.values() if len(students) > 1]


def _told(plan: Plan, dues: _Dues) -> list[str]:
    lines = [f"equal files: {', '.join(group)}" for group in plan.equal]
    lines += [f"missing {unit[:2]}: {_some([name for name, of in plan.missing or [] if of == unit])}"
              for unit in sorted({unit for _, unit in plan.missing or []})]  # fmt: skip
    lines += [f"late: {_some([step.chosen.student_id for step in plan.steps if step.late])}"] * any(
        step.late for step in plan.steps
    )
    of_files = sum(step.chosen.time_from == "file" for step in plan.steps)
    lines += [f"of {of_files} the time is that of the file, for the download says no other"] * bool(of_files)
    unknown = sum(
        not step.timestamp and bool(dues.units[step.chosen.unit]) and step.chosen.lms == "moodle" for step in plan.steps
    )
    return lines + [
        f"Moodle's archive doesn't say when {unknown} were handed in: none counts as late (name its grading worksheet beside it)"
    ] * bool(unknown)


def _some(names: list[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f", and {len(names) - most} more" if len(names) > most else "")


# ---------------------------------------------------------------- done


def _apply(
    course: Course, plan: Plan, given: rosters.Roster | None, known: Known, deadline: datetime | None, staging: Path
) -> None:
    """History first, then the list of attempts, then `submitted/`: broken off anywhere, a second run completes it."""
    try:
        for step in plan.steps:
            for one in known[step.chosen.place].values():
                if not one.counts:
                    _to_history(course, one, staging)
        attempts.save(course, {place: group for place, group in known.items() if group})
        for step in plan.steps:
            _put(course, step, staging)
        plan.notes += rosters.keep(course, given) if given else []
        _deadline(course, plan, deadline)
    except OSError as error:
        raise CourseError(
            f"{error.filename or course.classroom} can't be written ({error.strerror}): make room, and collect again."
        ) from None


def _to_history(course: Course, one: Attempt, staging: Path) -> None:
    source = _bytes(course, one, staging)
    if source and source.parent == staging and not any(_history(course, one).glob(f"*-{one.sha256[:12]}.ipynb")):
        _copy(source, _history(course, one) / f"{one.submitted or one.seen:%Y-%m-%dT%H%M%SZ}-{one.sha256[:12]}.ipynb")


def _put(course: Course, step: Step, staging: Path) -> None:
    target = course.submission(step.chosen.student_id, step.chosen.unit)
    if step.kind != SAME or step.aside:
        _copy(_bytes(course, step.chosen, staging), target)
    for path in step.aside:
        path.unlink()
    timestamp = target.parent / intake.TIMESTAMP
    if step.timestamp:
        if not timestamp.is_file() or timestamp.read_text(encoding="utf-8", errors="replace").strip() != step.timestamp:
            attempts.sheet.put(timestamp, step.timestamp + "\n")
    else:
        timestamp.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """So that nobody ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f".{target.name}.part")
    shutil.copyfile(source, half)
    os.replace(half, target)


def _deadline(course: Course, plan: Plan, deadline: datetime | None) -> None:
    from autograder.course import stock

    if deadline and plan.steps:
        with stock.open_gradebook(course) as gradebook:
            gradebook.update_or_create_assignment(plan.steps[0].chosen.unit, duedate=deadline.replace(tzinfo=None))
