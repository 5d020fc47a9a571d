"""Downloads read into a staging folder: which notebook is of which unit, and whose. What can't be placed is a line, and
stays in the download. A bad download ends the whole, before anything is written elsewhere."""

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from autograder import limited_process, size_limits
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.grading import intake
from autograder.grading.submission_parser import Rejected
from autograder.lms import archives, filenames, gradescope_metadata, moodle_worksheet
from autograder.lms.archives import Folder, Member, UnreadableDownload, Zip
from autograder.lms.filenames import Claim
from autograder.lms.identify_student import StudentIdentifier, UnknownStudent
from autograder.sanitize_terminal import printable

LONGEST_METADATA = 50_000_000
"""Bytes of Gradescope's submission_metadata.yml, which holds the output of every test."""
METADATA_SECONDS = 60.0
FOREIGN = "no cell of it is one of this course's"
MOST_INSIDE = 50
"""Notebooks of an archive that a student handed in."""


@dataclass(frozen=True)
class HandIn:
    """A notebook in the staging folder. `unit`: "" where its cells don't tell, and `why` says so."""

    student_id: str
    unit: str
    sha256: str
    name: str
    claim: Claim
    why: str = ""


@dataclass
class StagedDownloads:
    """What the downloads hold. `strangers`: who is not on the roster; `blind`: units that were marked blind."""

    hand_ins: list[HandIn] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)
    blind: set[str] = field(default_factory=set)


def stage_downloads(
    course: Course, downloads: list[Path], who: StudentIdentifier, staging: Path, known: dict[str, str]
) -> StagedDownloads:
    """Reads downloads; a CSV among them is Moodle's grading worksheet, which says when. known: the units of notebooks
    seen before, by hash. Raises CourseError where one is refused."""
    found = StagedDownloads()
    times = {
        number: time
        for path in downloads
        if _is_table(path)
        for number, time in moodle_worksheet.submission_times(path).items()
    }
    units = intake.units_of(course)
    if not units:
        raise CourseError("No unit has been built yet: run `attn build` first.")
    for path in (path for path in downloads if not _is_table(path)):
        if not path.exists():
            raise CourseError(f"There is no {path}.", BAD_INPUT)
        try:
            for download in _parts(archives.open_download(path)):
                _Reading(units, who, staging, known, times, found).read(download)
        except UnreadableDownload as reason:
            raise CourseError(f"{path}: {printable(reason)}. Nothing was collected.", BAD_INPUT) from None
        except OSError as error:
            raise CourseError(
                f"{path}: it can't be read ({error.strerror}). Nothing was collected.", BAD_INPUT
            ) from None
    return found


def _is_table(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _parts(download: Zip | Folder) -> list[Zip | Folder]:
    """A folder of downloads is several."""
    zipped = [one for one in download.members if len(one.parts) == 1 and one.is_zip]
    named_by_lms = any(shape(one.name) for shape in filenames.SHAPES.values() for one in zipped)
    if not isinstance(download, Folder) or not zipped or named_by_lms:
        return [download]
    download.members = [one for one in download.members if one not in zipped]
    rest = [download] if any(one.is_notebook for one in download.members) else []
    return [*(Zip(download.root / one.name) for one in zipped), *rest]


@dataclass
class _Reading:
    """One download. `times`: when participants handed in; `empty`, `full`: who handed in no notebook, and who did."""

    units: dict[str, list[str]]
    who: StudentIdentifier
    staging: Path
    known: dict[str, str]
    times: dict[str, datetime]
    found: StagedDownloads
    here: list[HandIn] = field(default_factory=list)
    empty: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    full: set[str] = field(default_factory=set)
    size: int = 0

    def read(self, download: Zip | Folder) -> None:
        self.found.problems += getattr(download, "notes", [])
        for member, claims in self._claims(download).items():
            if member.is_notebook:
                self._notebook(download, member, claims)
            elif member.is_zip and claims:
                self._inner(download, member, claims)
            elif claims and claims[0].lms not in ("folder", "files"):
                self.empty[_label(claims)].append(member.name)
        self._tell_empty()
        self._settle_units()
        self._same_person()
        self.found.hand_ins += self.here

    def _claims(self, download: Zip | Folder) -> dict[Member, list[Claim]]:
        members = download.members
        if people := self._gradescope(download):
            return {member: gradescope_metadata.claims(member, people) for member in members}
        claimed = filenames.claimed(members, self.who.knows, set(self.units))
        return {member: [self._timed(claim) for claim in claims] for member, claims in claimed.items()}

    def _timed(self, claim: Claim) -> Claim:
        time = self.times.get(claim.person) if claim.lms == "moodle" else None
        return replace(claim, time=time, time_from="lms") if time else claim

    def _gradescope(self, download: Zip | Folder) -> dict[str, list[dict]]:
        member = next(
            (one for one in download.members if one.name == gradescope_metadata.METADATA and len(one.parts) <= 2), None
        )
        if member is None:
            return {}
        data = download.read(member, LONGEST_METADATA)
        if len(data) > LONGEST_METADATA:
            raise UnreadableDownload(
                f"its {gradescope_metadata.METADATA} has more than {LONGEST_METADATA // 1_000_000} MB"
            )
        try:
            return limited_process.call(gradescope_metadata.submitters, data, seconds=METADATA_SECONDS)
        except (limited_process.LimitExceeded, limited_process.CallFailed) as reason:
            raise UnreadableDownload(
                f"its {gradescope_metadata.METADATA} can't be read: {' '.join(str(reason).split())[:100]}"
            ) from None

    # ---------------------------------------------------------------- one file

    def _notebook(self, download: Zip | Folder, member: Member, claims: list[Claim]) -> None:
        if not claims:
            return self._problem(member, "nothing in its path says whose it is")
        self.full.add(_label(claims))
        try:
            data = download.read(member, size_limits.FILE)
        except Rejected as reason:
            return self._problem(member, str(reason))
        self.size += len(data)
        if self.size > archives.UNPACKED:
            raise UnreadableDownload("its notebooks unpack to more than any class hands in")
        if len(data) > size_limits.FILE:
            return self._problem(
                member, f"it has more than {size_limits.FILE // 1_000_000} MB: have it handed in again without outputs"
            )
        self._place(member, claims, data)

    def _place(self, member: Member, claims: list[Claim], data: bytes) -> None:
        sha = hashlib.sha256(data).hexdigest()
        unit, why = self._unit(sha, data)
        if why == FOREIGN and claims[0].lms in ("folder", "files"):
            return self._problem(member, "it is no notebook of this course")
        for readings in [[one] for one in claims] if claims[0].lms == "gradescope" else [claims]:
            try:
                student = self.who.find(readings)
            except UnknownStudent as reason:
                self.found.strangers.add(_label(readings))
                self._problem(member, str(reason))
                continue
            self.here.append(HandIn(student, unit, sha, printable(member.name)[:200], readings[0], why))
            path = self.staging / f"{sha}.ipynb"
            if not path.exists():
                path.write_bytes(data)

    def _unit(self, sha: str, data: bytes) -> tuple[str, str]:
        if sha in self.known:
            return self.known[sha], ""
        try:
            unit = intake.unit_of(data, self.units)
        except Rejected as reason:
            return "", str(reason)
        if unit is None:
            return "", FOREIGN
        self.known[sha] = unit
        return unit, ""

    def _inner(self, download: Zip | Folder, member: Member, claims: list[Claim]) -> None:
        """An archive that a student handed in: whatever is wrong with it costs this student's notebooks alone."""
        try:
            inside = archives.open_inner(download, member)
            notebooks = [one for one in inside.members if one.is_notebook]
            if len(notebooks) > MOST_INSIDE:
                raise UnreadableDownload(f"it holds {len(notebooks)} notebooks")
            for one in notebooks:
                self._notebook(inside, one, claims)
        except UnreadableDownload as reason:
            self.full.add(_label(claims))
            return self._problem(member, str(reason))
        if not notebooks:
            self.empty[_label(claims)].append(member.name)

    def _problem(self, member: Member, why: str) -> None:
        self.found.problems.append(f"{printable('/'.join(member.parts))[:160]}: {printable(why)}")

    # ---------------------------------------------------------------- the download as a whole

    def _tell_empty(self) -> None:
        for label, names in self.empty.items():
            if label not in self.full:
                shown = ", ".join(printable(name)[:60] for name in names[:3]) + ", …" * (len(names) > 3)
                self.found.problems.append(f"{printable(label)}: no notebook was handed in ({shown})")

    def _settle_units(self) -> None:
        """A file whose cells don't tell is of the unit in its name, or of the one that all others are of."""
        others = {one.unit for one in self.here if one.unit}
        settled = []
        for one in self.here:
            unit = one.unit or _named(one.name, self.units) or (next(iter(others)) if len(others) == 1 else "")
            if one.why:
                self.found.problems.append(
                    f"{one.student_id}, {one.name}: {'no grade is possible' if unit else 'left out'}: {one.why}"
                )
            if unit:
                settled.append(replace(one, unit=unit))
        self.found.blind |= {one.unit for one in settled if one.claim.blind}
        self.here = settled

    def _same_person(self) -> None:
        """Two people of whom the roster makes one are none."""
        people: dict[str, set[str]] = defaultdict(set)
        for one in self.here:
            if one.claim.lms in ("canvas", "moodle") and one.claim.person:
                people[one.student_id].add(one.claim.person)
        for student, numbers in sorted(people.items()):
            if len(numbers) > 1:
                self.here = [one for one in self.here if one.student_id != student]
                shown = ", ".join(sorted(numbers)[:4])
                self.found.problems.append(
                    f"{student}: {len(numbers)} people in the download have this name (numbers {shown}): give the "
                    "roster a column that tells them apart"
                )


def _label(claims: list[Claim]) -> str:
    first = claims[0]
    return " ".join(filter(None, ((first.names or (first.email,))[0], first.person and f"({first.person})")))


def _named(name: str, units: dict[str, list[str]]) -> str | None:
    """The unit whose whole name is part of a file's name."""
    return next((unit for unit in units if re.search(rf"(?<![0-9a-z]){unit}(?![0-9a-z])", name.lower())), None)
