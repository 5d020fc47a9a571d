"""Downloads read into a staging folder: which notebook is of which unit, and whose. What can't be placed is a line, and
stays in the download. A bad download ends the whole, before anything is written elsewhere; a bad hand-in doesn't."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import intake
from autograder.lms import archives, moodle_worksheet
from autograder.lms.archives import UnreadableDownload
from autograder.lms.claim import FOLDERS
from autograder.lms.download_shape import SHAPES, People
from autograder.lms.hand_in import HandIn
from autograder.lms.identify_student import Identified, StudentIdentifier, UnknownStudent
from autograder.lms.read_download import FoundNotebook, Reading
from autograder.lms.teams import share_with_teams
from autograder.sanitize_terminal import printable


@dataclass
class StagedDownloads:
    """What the downloads hold. `strangers`: who is not on the roster; `unplaced`: entries of the downloads of which
    nobody can say whose they are; `blind`: units that were marked blind."""

    hand_ins: list[HandIn] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)
    unplaced: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blind: set[str] = field(default_factory=set)


def stage_downloads(
    course: Course,
    downloads: list[Path],
    who: StudentIdentifier,
    staging: Path,
    known: dict[str, str],
    asked: str = "",
    teams: bool = False,
) -> StagedDownloads:
    """Reads downloads; a CSV among them is Moodle's grading worksheet, which says who, and when. known: the units of
    notebooks seen before, by hash; asked: which LMS's they are; teams: each is a whole team's. Raises CourseError where
    one is refused."""
    if asked and asked not in SHAPES:
        raise CourseError(f"There is no LMS '{printable(asked)[:30]}': choose {', '.join(SHAPES)}.", BAD_INPUT)
    participants, unread = {}, []
    for path in filter(_is_table, downloads):
        lines, problems = moodle_worksheet.participants(path)
        participants |= lines
        unread += problems
    units = intake.units_of(course)
    if not units:
        raise CourseError("No unit has been built yet: run `attn build` first.")
    people = People(who.knows, who.holds, units, who.roster is not None)
    reading = Reading(units, people, staging, known, participants, asked, teams)
    notebooks = [one for path in downloads if not _is_table(path) for one in _settled(_read(path, reading), reading)]
    found = StagedDownloads(problems=[*unread, *reading.problems])
    _identify(notebooks, who, found)
    found.problems += reading.empty
    _one_account_each(found)
    shared, notes = share_with_teams(found.hand_ins, who)
    found.hand_ins += shared
    found.notes += notes
    _tell_how_to_place(found)
    found.blind = {one.unit for one in found.hand_ins if one.claim.blind}
    return found


def _is_table(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _read(path: Path, reading: Reading) -> list[FoundNotebook]:
    if not path.exists():
        raise CourseError(f"There is no {path}.", BAD_INPUT)
    try:
        return reading.read(archives.open_download(path))
    except UnreadableDownload as reason:
        raise CourseError(f"{path}: {printable(reason)}. Nothing was collected.", BAD_INPUT) from None
    except OSError as error:
        raise CourseError(f"{path}: it can't be read ({error.strerror}). Nothing was collected.", BAD_INPUT) from None


def _settled(found: list[FoundNotebook], reading: Reading) -> list[FoundNotebook]:
    """A file of two units is of the one that most people's are of; one whose cells don't tell is of the unit in its
    name, or of that one too."""
    of = {(one.person, one.unit) for one in found if one.unit}
    count, everybody = Counter(unit for _, unit in of), len({person for person, _ in of})
    most = next((unit for unit, people in count.items() if 2 * people > everybody), "")
    units_of = [_unit(one, most, reading) or _named(one.name, reading.units) or most for one in found]
    return [replace(one, unit=unit, assignment=most or unit) for one, unit in zip(found, units_of, strict=True)]


def _unit(one: FoundNotebook, most: str, reading: Reading) -> str:
    if one.unit in ("", most) or not most:
        return one.unit
    data = (reading.staging / f"{one.sha256}.ipynb").read_bytes()
    return most if intake.is_of(most, data, reading.units) else one.unit


def _named(name: str, units: dict[str, list[str]]) -> str | None:
    """The unit whose whole name is part of a file's name."""
    return next((unit for unit in units if re.search(rf"(?<![0-9a-z]){unit}(?![0-9a-z])", name.lower())), None)


def _identify(notebooks: list[FoundNotebook], who: StudentIdentifier, found: StagedDownloads) -> None:
    who.look_at(claim for one in notebooks for claim in one.readings)
    for one in notebooks:
        try:
            student = who.find(list(one.readings), one.assignment)
        except UnknownStudent as reason:
            found.strangers.add(one.readings[0].label)
            found.unplaced.append(one.readings[0].entry)
            found.problems.append(f"{one.path}: {printable(reason)}")
            continue
        if one.why:
            done = "no grade is possible" if one.unit else "left out"
            found.problems.append(f"{student.student_id}, {one.name}: {done}: {one.why}")
        if one.unit:
            found.hand_ins.append(_hand_in(one, student))


def _hand_in(one: FoundNotebook, student: Identified) -> HandIn:
    who = student.student_id, one.unit, one.sha256, one.name, student.claim
    return HandIn(*who, one.why, student.rank, one.assignment)


def _one_account_each(found: StagedDownloads) -> None:
    """Two accounts of which one student is made: the one of which it is surest counts, and none if that is no one."""
    accounts: dict[tuple, dict[str, int]] = defaultdict(dict)
    for one in found.hand_ins:
        if one.claim.account or one.claim.lms == FOLDERS:
            ranks = accounts[one.account]
            ranks[one.claim.account] = max(one.rank, ranks.get(one.claim.account, 0))
    for (student, where), ranks in sorted(accounts.items()):
        best = [account for account, rank in ranks.items() if rank == max(ranks.values())]
        wrong = set(ranks) - set(best) if len(best) == 1 else set(ranks)
        if wrong:
            out = [one for one in found.hand_ins if one.account == (student, where) and one.claim.account in wrong]
            found.hand_ins = [one for one in found.hand_ins if one not in out]
            found.unplaced += [one.claim.entry for one in out]
            found.problems.append(_two_people(student, ranks, wrong))


def _tell_how_to_place(found: StagedDownloads) -> None:
    if found.unplaced:
        shown = printable(found.unplaced[0])[:160]
        found.notes.append(f"What could not be placed, you can: attn collect … --alias '{shown}=STUDENT_ID'")


def _two_people(student: str, ranks: dict[str, int], wrong: set[str]) -> str:
    shown = ", ".join(printable(account)[:60] or student for account in sorted(wrong)[:4])
    if len(wrong) < len(ranks):
        return f"{student}: number {shown} has this name too, and is somebody else's: left out"
    return (
        f"{student}: {len(ranks)} people in the download have this name (numbers {shown}): give the roster a column "
        "that tells them apart (with Moodle: e-mails or moodle_idnumber, and its worksheet beside the download)"
    )
