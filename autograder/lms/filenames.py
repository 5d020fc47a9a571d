"""What the paths in a download say: each learning management system (LMS) writes names, ids and times into them in
its own way.

Canvas and Moodle: from their sources. Gradescope, Brightspace and Google Classroom: from what others who read their
downloads have published; nothing here was tried against a living LMS. The leftmost match counts, and only in the
folder where the whole download has it: what a student may name is always further right."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from autograder import timestamps
from autograder.lms.archives import Member


@dataclass(frozen=True)
class Claim:
    """Whose a file is, as the LMS says. `names`: any of them, the likeliest first; `person`: the LMS's number of this
    student; `sid`: a student number; `order`: grows with every upload; `blind`: nobody is meant to know who it is."""

    lms: str
    names: tuple[str, ...] = ()
    person: str = ""
    sid: str = ""
    email: str = ""
    time: datetime | None = None
    time_from: str = ""
    late: bool = False
    order: int = 0
    blind: bool = False


CANVAS = re.compile(r"(?=(?P<late>_LATE)?_(?P<id>[0-9]{1,20})_(?P<file>[0-9]{1,20})_.)", re.DOTALL)
CANVAS_BLIND = re.compile(r"(?P<late>LATE_)?(?P<id>anon_[^\W_]{1,20})_(?P<file>[0-9]{1,20})_.+", re.DOTALL)
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>[0-9]{1,20})_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL)
BRIGHTSPACE = re.compile(
    r"\d+-\d+ ?- ?(?P<name>.+?) ?- ?(?P<month>[A-Za-z]{3})[A-Za-z]{0,6}\.? (?P<day>\d{1,2}), (?P<year>\d{4}),? "
    r"(?P<clock>\d{1,2}:?\d{2} ?[AP]M)(?: ?- ?.+)?",
    re.DOTALL,
)


def canvas(part: str) -> list[Claim]:
    """`lovelaceada_LATE_101_9001_02.ipynb`: the first number is the `ID` of Canvas's gradebook, the second one the
    upload's. All readings, the leftmost first: a name may hold numbers, too."""
    if found := CANVAS_BLIND.fullmatch(part):
        return [
            Claim("canvas", (found["id"],), found["id"], late=bool(found["late"]), order=int(found["file"]), blind=True)
        ]
    claims = []
    for found in CANVAS.finditer(part):
        name = part[: found.start()]
        if name and (found["late"] or not name.endswith("_LATE")):
            claims.append(Claim("canvas", (name,), found["id"], late=bool(found["late"]), order=int(found["file"])))
    return claims[:5]


def moodle(part: str) -> list[Claim]:
    """`Ada Lovelace_900001_assignsubmission_file_…`; in group mode the group and a dash stand before the name."""
    if not (found := MOODLE.fullmatch(part)):
        return []
    name, dashes = found["name"], [match.end() for match in re.finditer("-", found["name"])]
    names = (name, *(name[start:] for start in dashes[:5] if name[start:].strip()))
    return [Claim("moodle", names, found["id"], blind=name == "Participant")]


def brightspace(part: str) -> list[Claim]:
    """`12345-67890 - Ada Lovelace - Nov 22, 2026 1015 AM`: the time is the site's, taken for this machine's."""
    if not (found := BRIGHTSPACE.fullmatch(part)):
        return []
    month, day, year, clock = (found[part] for part in ("month", "day", "year", "clock"))
    digits = re.sub(r"\D", "", clock)
    try:
        time = datetime.strptime(f"{month} {day} {year} {digits[:-2]}:{digits[-2:]} {clock[-2:]}", "%b %d %Y %I:%M %p")
    except ValueError:
        return []
    return [Claim("brightspace", (found["name"].strip(),), time=timestamps.to_utc(time), time_from="lms")]


SHAPES: dict[str, Callable[[str], list[Claim]]] = {"moodle": moodle, "brightspace": brightspace, "canvas": canvas}
DEPTHS = range(4)
"""How deep below the download's root the folder may lie in which the LMS's names stand."""


def claimed(members: Sequence[Member], known: Callable[[str], bool], units: set[str]) -> dict[Member, list[Claim]]:
    """What each file's path says of whose it is; empty where it says nothing. known: whether a name is a student's."""
    shape, depth = _lms(members)
    if not shape:
        depth = _depth(members, known, units)
        return {member: _plain(member, depth) for member in members}
    found = {member: SHAPES[shape](member.parts[depth]) if len(member.parts) > depth else [] for member in members}
    return _blind(found) if shape == "moodle" else found


def _lms(members: Sequence[Member]) -> tuple[str, int]:
    """The shape that at least half of the hand-ins have, and in which folder; ("", 0) for none."""
    handed_in = [member for member in members if member.is_notebook or member.is_zip] or list(members)
    best = Counter(
        {
            (name, depth): sum(len(one.parts) > depth and bool(shape(one.parts[depth])) for one in handed_in)
            for name, shape in SHAPES.items()
            for depth in DEPTHS
        }
    )
    (place, count), *_ = best.most_common(1)
    return place if count and 2 * count >= len(handed_in) else ("", 0)


def _blind(found: dict[Member, list[Claim]]) -> dict[Member, list[Claim]]:
    """In blind marking Moodle calls everybody by one word, in the site's language: then the number is all there is."""
    people = {(claim.names[0], claim.person) for claims in found.values() for claim in claims}
    if not (len({name for name, _ in people}) == 1 < len(people) or any(name == "Participant" for name, _ in people)):
        return found
    return {
        member: [Claim("moodle", (f"{one.names[0]} {one.person}",), one.person, blind=True) for one in claims]
        for member, claims in found.items()
    }


# ---------------------------------------------------------------- folders, Google Drive


def _plain(member: Member, depth: int) -> list[Claim]:
    """A folder for each student; or files that carry a name, as Google Classroom's `Ada Lovelace - Title.ipynb`."""
    claim = partial(Claim, time=member.saved, time_from="file" if member.saved else "")
    if len(member.parts) > depth + 1:
        return [claim("folder", (member.parts[depth],))]
    stem = re.sub(r"\.[A-Za-z]{2,5}$", "", member.name)
    before, dash, _ = stem.partition(" - ")
    return [claim("files", (before, stem) if dash else (stem,))]


def _depth(members: Sequence[Member], known: Callable[[str], bool], units: set[str]) -> int:
    """How deep the students' folders lie: where most names are known, else below what all files share."""
    paths = [member.parts for member in members if member.is_notebook or member.is_zip]
    hits = [sum(len(path) > depth + 1 and known(path[depth]) for path in paths) for depth in DEPTHS]
    if any(hits):
        return hits.index(max(hits))
    for depth in DEPTHS:
        if len({path[: depth + 1] for path in paths}) > 1 or any(len(path) <= depth + 1 for path in paths):
            return depth
        inside = {path[depth + 1] for path in paths}
        if inside <= units or (len(paths) == 1 and len(paths[0]) == depth + 2):
            return depth
    return 0
