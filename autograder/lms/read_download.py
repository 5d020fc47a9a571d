"""One download, read person by person into a staging folder. Whatever a person's files are, it costs these alone:
what they may be is counted and weighed for each person before it is read."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder import limited_process, size_limits
from autograder.grading import intake
from autograder.grading.submission_parser import Rejected
from autograder.lms import archives, filenames, folder_names, gradescope_metadata
from autograder.lms.archives import Folder, Member, UnreadableDownload, Zip
from autograder.lms.claim import FILES, FOLDERS, GRADESCOPE, MOODLE, Claim
from autograder.lms.download_shape import METADATA, People, Shape, shape_of
from autograder.lms.hand_in_times import are_clones, checked_owner, dated, sakai_times
from autograder.lms.moodle_worksheet import Participant
from autograder.sanitize_terminal import printable

LONGEST_METADATA = 50_000_000
"""Bytes of Gradescope's submission_metadata.yml, which holds the output of every test."""
METADATA_SECONDS = 60.0
FOREIGN = "no cell of it is one of this course's"
MOST_SAID = 5
"""Lines about one person's files."""


@dataclass(frozen=True)
class FoundNotebook:
    """A notebook in the staging folder. `readings`: what the download says of whose it is; `person`: tells people of
    this download apart; `unit`: "" where its cells don't tell, and `why` says so; `assignment`: the unit that the
    download is of."""

    readings: tuple[Claim, ...]
    person: str
    path: str
    name: str
    sha256: str
    unit: str
    why: str
    assignment: str = ""


@dataclass
class Reading:
    """What is read with the same eyes. `known`: units of notebooks seen before, by hash; `asked`: what the instructor
    says the downloads are; `teams`: each hand-in is a whole team's; `problems`: lines; `empty`: lines about who handed
    in no notebook."""

    units: dict[str, list[str]]
    people: People
    staging: Path
    known: dict[str, str]
    participants: dict[str, Participant]
    asked: str = ""
    teams: bool = False
    problems: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    def read(self, download: Zip | Folder) -> list[FoundNotebook]:
        """The notebooks of a download. Raises UnreadableDownload."""
        self.problems += getattr(download, "notes", [])
        shape = shape_of(download.members, self.people, self.asked)
        claims = self._claims(download, shape)
        of: dict[str, list[tuple[Member, list[Claim]]]] = defaultdict(list)
        file_times, written = not are_clones(download.members, shape), sakai_times(download, shape)
        for member in download.members:
            if (entry := shape.entry(member)) and member is not shape.metadata:
                readings = [replace(one, entry=entry, team=self.teams or shape.teams) for one in claims.get(entry, [])]
                when = dated(readings, member, file_times, written.get(entry))
                of[_person(readings, entry)].append((checked_owner(member, readings), when))
        return [one for person, files in of.items() for one in _Person(self, download, person, files).notebooks()]

    def _claims(self, download: Zip | Folder, shape: Shape) -> dict[str, list[Claim]]:
        entries = {shape.entry(member): len(member.parts) > shape.depth + 1 for member in download.members}
        if shape.metadata:
            people = _submitters(download, shape.metadata)
            return {entry: gradescope_metadata.claims(entry, people) for entry in entries}
        if shape.lms in (FOLDERS, FILES):
            plain = folder_names.folders([entry for entry, is_folder in entries.items() if is_folder])
            return {entry: [plain[entry]] if entry in plain else _file(entry, shape.lms) for entry in entries}
        named = [entry for entry in entries if shape.lms in filenames.lms_of(entry)]
        found = filenames.claims(shape.lms, named, self.people.knows)
        return {entry: [self._known_to_moodle(one) for one in readings] for entry, readings in found.items()}

    def _known_to_moodle(self, claim: Claim) -> Claim:
        if claim.lms != MOODLE or not (one := self.participants.get(claim.number)):
            return claim
        claim = replace(claim, email=one.email, sid=one.idnumber)
        return replace(claim, time=one.time, time_from="lms") if one.time else claim

    def unit(self, sha: str, data: bytes) -> tuple[str, str]:
        """The unit of a notebook; "" and why where its cells don't tell."""
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


def _file(entry: str, lms: str) -> list[Claim]:
    """Files that carry a name, as Google Classroom's `Ada Lovelace - Title.ipynb`."""
    stem = filenames.without_suffix(entry)
    before, dash, _ = stem.partition(" - ")
    return [Claim(FILES, (before, stem) if dash else (stem,))] if lms == FILES else []


def _person(readings: Sequence[Claim], entry: str) -> str:
    one = readings[0] if len(readings) == 1 else Claim(GRADESCOPE)
    return entry if one.lms in (GRADESCOPE, FOLDERS, FILES) else f"{one.lms} {one.number}"


def _submitters(download: Zip | Folder, metadata: Member) -> dict[str, list[dict]]:
    data = download.read(metadata, LONGEST_METADATA)
    if len(data) > LONGEST_METADATA:
        raise UnreadableDownload(f"its {METADATA} has more than {LONGEST_METADATA // 1_000_000} MB")
    try:
        return limited_process.call(gradescope_metadata.submitters, data, seconds=METADATA_SECONDS)
    except (limited_process.LimitExceeded, limited_process.CallFailed) as reason:
        raise UnreadableDownload(f"its {METADATA} can't be read: {' '.join(str(reason).split())[:100]}") from None


@dataclass(frozen=True)
class _Place:
    """Where a notebook is read; `path`: for people, from the root of the download that they know."""

    source: Zip | Folder
    member: Member
    readings: list[Claim]
    path: str


@dataclass
class _Person:
    """All that one person has in a download. `said`: lines about it."""

    reading: Reading
    download: Zip | Folder
    person: str
    files: list[tuple[Member, list[Claim]]]
    said: list[str] = field(default_factory=list)

    def notebooks(self) -> list[FoundNotebook]:
        wanted = [(one, readings) for one, readings in self.files if one.is_notebook or one.is_zip]
        found = self._read(wanted) if wanted else []
        more = len(self.said) - MOST_SAID
        self.reading.problems += self.said[:MOST_SAID] + [f"{self._label()}: {more} more like these"] * (more > 0)
        if not found and not self.said:
            self._tell_empty()
        return found

    def _read(self, wanted: list[tuple[Member, list[Claim]]]) -> list[FoundNotebook]:
        if not wanted[0][1]:
            self._problem(_path(wanted[0][0]), "nothing in its path says whose it is" + _more(len(wanted) - 1))
            return []
        if self._too_much(member for member, _ in wanted):
            return []
        opened: list[_Place] = []
        for member, readings in wanted:
            if member.why:
                self._problem(_path(member), member.why)
            elif member.is_zip:
                opened += self._inside(member, readings)
            else:
                opened.append(_Place(self.download, member, readings, _path(member)))
        if self._too_much(place.member for place in opened):
            return []
        return [found for place in opened for found in self._notebook(place)]

    def _too_much(self, members: Iterable[Member]) -> bool:
        members = list(members)
        size = sum(member.size for member in members)
        why = ""
        if len(members) > size_limits.HANDED_IN:
            why = f"{len(members):,} notebooks and archives, more than {size_limits.HANDED_IN}"
        elif size > size_limits.HANDED_IN_BYTES:
            why = (
                f"notebooks and archives of {size / 1e6:,.0f} MB, more than {size_limits.HANDED_IN_BYTES // 1_000_000}"
            )
        if why:
            self.said = [f"{self._label()}: left out, for these are {why}: have the one that counts handed in alone"]
        return bool(why)

    def _inside(self, outer: Member, readings: list[Claim]) -> list[_Place]:
        """The notebooks of an archive that a student handed in."""
        try:
            inside = archives.open_inner(self.download, outer)
        except UnreadableDownload as reason:
            self._problem(_path(outer), str(reason))
            return []
        places = [
            _Place(inside, one, readings, f"{_path(outer)}/{_path(one)}") for one in inside.members if one.is_notebook
        ]
        for place in places:
            if place.member.why:
                self._problem(place.path, place.member.why)
        return [place for place in places if not place.member.why]

    def _notebook(self, place: _Place) -> list[FoundNotebook]:
        most = size_limits.FILE
        try:
            large = place.member.size > most
            data = b"" if large else place.source.read(place.member, most)
        except (Rejected, UnreadableDownload) as reason:
            if isinstance(reason, UnreadableDownload) and place.source is self.download:
                raise
            self._problem(place.path, str(reason))
            return []
        if large or len(data) > most:
            why = f"it has more than {most // 1_000_000} MB: have it handed in again without outputs"
            self._problem(place.path, why)
            return []
        return self._found(place, data)

    def _found(self, place: _Place, data: bytes) -> list[FoundNotebook]:
        sha, readings = hashlib.sha256(data).hexdigest(), place.readings
        unit, why = self.reading.unit(sha, data)
        if why == FOREIGN and readings[0].lms in (FOLDERS, FILES):
            self._problem(place.path, "it is no notebook of this course")
            return []
        if not (path := self.reading.staging / f"{sha}.ipynb").exists():
            path.write_bytes(data)
        groups = [(one,) for one in readings] if readings[0].lms == GRADESCOPE else [tuple(readings)]
        name = printable(place.member.name)[:200]
        return [FoundNotebook(group, self.person, place.path, name, sha, unit, why) for group in groups]

    def _problem(self, path: str, why: str) -> None:
        self.said.append(f"{path}: {printable(why)}")

    def _tell_empty(self) -> None:
        readings = self.files[0][1]
        zips = any(member.is_zip for member, _ in self.files)
        if readings and (zips or readings[0].lms not in (FOLDERS, FILES)):
            names = [printable(member.name)[:60] for member, _ in self.files]
            shown = ", ".join(names[:3]) + ", …" * (len(names) > 3)
            self.reading.empty.append(f"{self._label()}: no notebook was handed in ({shown})")

    def _label(self) -> str:
        readings = self.files[0][1]
        return printable(readings[0].label if readings else self.person)[:160]


def _path(member: Member) -> str:
    return printable("/".join(member.parts))[:160]


def _more(count: int) -> str:
    return f" (nor in {count} more there)" * (count > 0)
