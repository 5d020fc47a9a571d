"""What the name of an entry in a download's root says: each learning management system (LMS) writes names, ids and
times into it in its own way.

Canvas and Moodle: from their sources. Brightspace: from what others who read its downloads have published; nothing here
was tried against a living LMS. A student may choose the display name, left of the numbers, and the name of the file,
right of them. Where they make more than one reading possible, all are given."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from statistics import median

from autograder import timestamps
from autograder.lms import folder_names
from autograder.lms.claim import BLACKBOARD, BRIGHTSPACE, CANVAS, ILIAS, MOODLE, NBGRADER, SAKAI, Claim

_CANVAS = re.compile(r"(?=(?P<late>(?i:_LATE))?_(?P<id>[0-9]{1,20})_(?P<file>[0-9]{1,20})_.)", re.DOTALL)
_CANVAS_BLIND = re.compile(r"(?P<late>(?i:LATE_))?(?P<id>anon_[^\W_]{1,20})_(?P<file>[0-9]{1,20})_.+", re.DOTALL)
_MOODLE = re.compile(r"(?P<name>[^_]*)_(?P<id>[0-9]{1,20})_assignsubmission_[a-z0-9]+(?:_.*)?", re.DOTALL)
_DATE = (
    r"- ?(?P<month>[A-Za-z]{3})[A-Za-z]{0,6}\.? (?P<day>\d{1,2}), (?P<year>\d{4}),? (?P<clock>\d{1,2}:?\d{2} ?[AP]M)"
)
_BRIGHTSPACE = re.compile(rf"(?P<id>\d+-\d+) ?- ?(?P<name>.*?) ?{_DATE}(?: ?- ?.+)?", re.DOTALL)


def canvas(entry: str) -> list[Claim]:
    """`lovelaceada_LATE_101_9001_02.ipynb`: the first number is the `ID` of Canvas's gradebook, the second one the
    upload's. The leftmost reading first, and those that a name which ends in a number makes possible."""
    found = list(_CANVAS.finditer(entry))[:9]
    overlap = [
        after.start() == before.end("id") and not after["file"].startswith("0")
        for before, after in zip(found, found[1:])
    ]
    return [_canvas(entry, one) for one in found[: 1 + len(list(takewhile(bool, overlap)))]]


def _canvas(entry: str, found: re.Match) -> Claim:
    return Claim(CANVAS, (entry[: found.start()],), found["id"], late=bool(found["late"]), order=int(found["file"]))


def canvas_blind(entry: str) -> list[Claim]:
    """`LATE_anon_x1Yz2_9001_02.ipynb`, as in an assignment that is marked blind."""
    if not (found := _CANVAS_BLIND.fullmatch(entry)):
        return []
    late, order = bool(found["late"]), int(found["file"])
    return [Claim(CANVAS, (found["id"],), found["id"], late=late, order=order, blind=True)]


def moodle(entry: str) -> list[Claim]:
    """`Ada Lovelace_900001_assignsubmission_file_…`; in group mode the group and a dash stand before the name. Moodle
    leaves no `_` in names. Its number is of this person in this assignment alone."""
    if not (found := _MOODLE.fullmatch(entry)):
        return []
    name, dashes = found["name"], [match.end() for match in re.finditer("-", found["name"])]
    names = (name, *(name[start:] for start in dashes[:5] if name[start:].strip()))
    return [Claim(MOODLE, names, found["id"])]


def brightspace(entry: str) -> list[Claim]:
    """`12345-67890 - Ada Lovelace - Nov 22, 2026 1015 AM`: the time is the site's, taken for this machine's."""
    if not (found := _BRIGHTSPACE.fullmatch(entry)):
        return []
    month, day, year, clock = (found[part] for part in ("month", "day", "year", "clock"))
    digits = re.sub(r"\D", "", clock)
    try:
        time = datetime.strptime(f"{month} {day} {year} {digits[:-2]}:{digits[-2:]} {clock[-2:]}", "%b %d %Y %I:%M %p")
    except ValueError:
        return []
    claim = Claim(BRIGHTSPACE, (found["name"].strip(),), found["id"], time=timestamps.to_utc(time), time_from="lms")
    # a second date is in a name that a student chose: in which of the two can't be told
    return [claim] * min(2, len(re.findall(_DATE, entry)))


READERS: dict[str, Callable[[str], list[Claim]]] = {
    MOODLE: moodle,
    BRIGHTSPACE: brightspace,
    CANVAS: canvas,
    BLACKBOARD: folder_names.blackboard,
    NBGRADER: folder_names.nbgrader,
    ILIAS: folder_names.ilias,
    SAKAI: folder_names.sakai,
}
LIKE_PLAIN = {ILIAS, SAKAI}
"""Folders of a plain download may be called like theirs."""


def lms_of(entry: str) -> set[str]:
    """Each LMS that names entries of a download's root like this: several where a student chose a part of it."""
    found = {lms for lms, reader in READERS.items() if reader(entry)} | ({CANVAS} if canvas_blind(entry) else set())
    return found & {MOODLE, BRIGHTSPACE} or found


def claims(lms: str, entries: Collection[str], known: Callable[[str], bool]) -> dict[str, list[Claim]]:
    """What each entry of the root says: the possible readings. known: whether a name is a student's."""
    if lms == CANVAS and entries and all(canvas_blind(entry) for entry in entries):
        return {entry: canvas_blind(entry) for entry in entries}
    found = {entry: READERS[lms](entry) for entry in entries}
    if lms == CANVAS:
        found = {entry: readings or canvas_blind(entry) for entry, readings in found.items()}
        uploads = _uploads(found)
        return {entry: _possible(readings, uploads) for entry, readings in found.items()}
    if lms == BLACKBOARD:
        return folder_names.likeliest_logins(found)
    return _blind(found, known) if lms == MOODLE else found


def _uploads(found: dict[str, list[Claim]]) -> list[int]:
    """A number of an upload of everybody's."""
    return list({readings[0].number: readings[0].order for readings in found.values() if readings}.values())


def _possible(readings: list[Claim], uploads: list[int]) -> list[Claim]:
    """The readings of `bob_102_103_9005_x.ipynb` in which the second number can be an upload's: uploads of one
    assignment have numbers of one size. Where a class is too small to say so, they are greater than people's."""
    if len(readings) < 2:
        return readings
    if len(uploads) > 2:
        middle = median(uploads)
        return [one for one in readings if middle / 2 <= one.order <= 2 * middle] or readings[:1]
    return [readings[0], *(one for one in readings[1:] if one.order >= int(one.number))]


def _blind(found: dict[str, list[Claim]], known: Callable[[str], bool]) -> dict[str, list[Claim]]:
    """In blind marking Moodle calls everybody by one word, in the site's language: then the number is all there is."""
    said = [one for readings in found.values() for one in readings]
    names, numbers = {one.names[0] for one in said}, {one.number for one in said}
    if len(names) != 1 or (names != {"Participant"} and (len(numbers) == 1 or known(*names))):
        return found
    return {
        entry: [replace(one, names=(f"{one.names[0]} {one.number}",), blind=True) for one in readings]
        for entry, readings in found.items()
    }


def without_suffix(name: str) -> str:
    """`Ada Lovelace - 02.ipynb` without what says the kind of file."""
    return re.sub(r"\.[A-Za-z]{2,5}$", "", name)
