"""`attn collect`: what students handed in, from the downloads of a learning management system into `submitted/`.

Everything is read and decided first, in a staging folder; then files are moved. Nothing is lost: attempts that don't
count, and notebooks that are replaced, lie in `history/`."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path

from autograder import csv_files, timestamps
from autograder.course.paths import Course
from autograder.course.settings import settings
from autograder.errors import CourseError
from autograder.gradebook import deadlines
from autograder.gradebook import roster as rosters
from autograder.grading import intake
from autograder.lms import attempts
from autograder.lms import collection_plan as plans
from autograder.lms.accounts import Accounts, Known
from autograder.lms.aliases import load_aliases, parse_aliases, save_aliases
from autograder.lms.attempts import Attempt
from autograder.lms.claim import NBGRADER, TIMES_WITHOUT_ZONE
from autograder.lms.collection_plan import SAME, Plan, Step, history_folder, read_attempt
from autograder.lms.identify_student import StudentIdentifier
from autograder.lms.stage_downloads import StagedDownloads, stage_downloads
from autograder.whole_files import SHARED, replaced


def collect(
    course: Course,
    downloads: list[Path],
    roster: Path | None = None,
    due: str | None = None,
    dry_run: bool = False,
    lms: str = "",
    zone: str = "",
    aliases: Iterable[str] = (),
    teams: bool = False,
) -> Plan:
    """Collects downloads; with `dry_run` it only returns what it would do. lms: whose they are, where the instructor
    says so; zone: of times that name none, else as the course's settings say; aliases: `FOLDER=student_id`; teams: each
    hand-in is a whole team's. Raises CourseError; then nothing is changed."""
    given = rosters.read_roster(roster) if roster else None
    try:
        zone = timestamps.use_zone(zone or settings(course).Collect.get("zone", ""))
        deadline = timestamps.parse_deadline(due) if due else None
        with nullcontext() if dry_run else _alone(course), _staging(course) as staging:
            known = attempts.load(course)
            in_use = given or rosters.current_roster(course)
            units = {sha: one.unit for group in known.values() for sha, one in group.items() if not one.why}
            said = load_aliases(course) | parse_aliases(aliases, in_use)
            who = StudentIdentifier(in_use, Accounts.of_attempts(known, in_use), said)
            found = stage_downloads(course, downloads, who, staging, units, lms, teams)
            plan = plans.make_plan(course, found, in_use, known, deadline, staging)
            plan.notes += given.notes if given else []
            plan.notes += _zones(found, zone, due or any(path.suffix.lower() == ".csv" for path in downloads))
            if not dry_run and said:
                save_aliases(course, said)
            if not dry_run:
                _apply(course, plan, given, known, deadline, staging)
            return plan
    except OSError as error:
        where = error.filename or course.classroom
        raise CourseError(
            f"{where} can't be used ({error.strerror}): mend that, or make room, and collect again."
        ) from None


def _zones(found: StagedDownloads, zone: str, other_times: object) -> list[str]:
    """Lines about the clocks by which times were read."""
    timed = {one.claim.lms for one in found.hand_ins if one.claim.time_from == "lms"}
    lines = ["nbgrader's times were read in the zone that they name."] if NBGRADER in timed else []
    local = other_times or timed & TIMES_WITHOUT_ZONE
    return [*lines, f"Times that name no zone were read in {zone}."] if local else lines


def _alone(course: Course) -> AbstractContextManager[None]:
    from autograder.grading.gradebook_writer import gradebook_lock

    return gradebook_lock(course)


@contextmanager
def _staging(course: Course) -> Iterator[Path]:
    course.classroom.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".collecting-", dir=course.classroom) as folder:
        yield Path(folder)


# ---------------------------------------------------------------- done


def _apply(
    course: Course, plan: Plan, given: rosters.Roster | None, known: Known, deadline: datetime | None, staging: Path
) -> None:
    """History first, then the list of attempts, then `submitted/`: broken off anywhere, a second run completes it."""
    for step in plan.steps:
        for one in known[step.chosen.place].values():
            if not one.counts:
                _to_history(course, one, staging)
    attempts.save(course, {place: group for place, group in known.items() if group})
    for step in plan.steps:
        _put(course, step, staging)
    plan.notes += rosters.save_roster(course, given) if given else []
    if deadline and plan.steps:
        deadlines.set_deadline(course, plan.steps[0].chosen.unit, deadline)


def _to_history(course: Course, one: Attempt, staging: Path) -> None:
    source = read_attempt(course, one, staging)
    if source and source.parent == staging and not any(history_folder(course, one).glob(f"*-{one.sha256[:12]}.ipynb")):
        _copy(
            source,
            history_folder(course, one) / f"{one.submitted or one.seen:%Y-%m-%dT%H%M%SZ}-{one.sha256[:12]}.ipynb",
        )


def _put(course: Course, step: Step, staging: Path) -> None:
    target = course.submission(step.chosen.student_id, step.chosen.unit)
    if step.kind != SAME or step.aside:
        _copy(read_attempt(course, step.chosen, staging), target)  # type: ignore[arg-type]  # it is there
    for path in step.aside:
        path.unlink()
    timestamp = target.parent / intake.TIMESTAMP
    if step.timestamp:
        if not timestamp.is_file() or timestamp.read_text(encoding="utf-8", errors="replace").strip() != step.timestamp:
            csv_files.write_csv(timestamp, step.timestamp + "\n")
    else:
        timestamp.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    with replaced(target, SHARED) as half:
        shutil.copyfile(source, half)
