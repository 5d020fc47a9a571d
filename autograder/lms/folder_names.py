"""Names of folders and files at the root of downloads in which a login stands at a place of its own: ILIAS, Sakai,
Blackboard, nbgrader's exchange; and of plain folders.

ILIAS: from its source; nbgrader: from its own; the others from what programs that read them publish. A display name
stands left of the login, and says nothing about it: who is called like another's login stays who it is."""

import os
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from autograder import timestamps
from autograder.lms.claim import BLACKBOARD, FOLDERS, ILIAS, NBGRADER, SAKAI, Claim

_ILIAS = re.compile(r"(?P<who>.+)_(?P<id>[0-9]{1,20})", re.DOTALL)
_SAKAI = re.compile(r"(?P<name>.+)\((?P<login>[^()]+)\)", re.DOTALL)
_BLACKBOARD = re.compile(
    r"(?P<who>.+?)_(?i:attempt|poging|versuch|tentative|intento|tentativo)"
    r"_(?P<day>\d{4}-\d\d-\d\d)-(?P<clock>\d\d-\d\d-\d\d)(?:[_.].*)?",
    re.DOTALL,
)
_MOMENT = r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<clock>\d\d[:_-]\d\d[:_-]\d\d)(?:\.\d{1,6})?"
_NBGRADER = re.compile(rf"(?P<login>.+)\+[^+]+\+{_MOMENT}(?: (?P<zone>[A-Za-z]{{1,5}}|[+-]\d{{4}}))?(?:\+[\w=-]*)?")
_TIMED = re.compile(rf"(?P<name>.+) - {_MOMENT}", re.DOTALL)
_SAKAI_TIME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)T?(\d\d):?(\d\d):?(\d\d)")


def ilias(entry: str) -> list[Claim]:
    """`Lovelace_Ada_alove1_12345`: the number is a person's, in all exercises; somebody's own folders may look the same
    and be numbered by another rule, so it goes with the login. The archive doesn't say when."""
    if not (found := _ILIAS.fullmatch(entry)) or found["who"].count("_") < 2:
        return []
    logins = _logins(found["who"])
    number = f"{logins[0]}_{found['id']}"
    return [Claim(ILIAS, (found["who"].removesuffix(f"_{logins[0]}"),), number, logins=logins)]


def sakai(entry: str) -> list[Claim]:
    """`Lovelace, Ada(alove1)`; the account is the whole, for `Ada (late)` looks the same."""
    if not (found := _SAKAI.fullmatch(entry)):
        return []
    return [Claim(SAKAI, (found["name"],), entry, logins=(found["login"],))]


def sakai_time(text: str) -> datetime | None:
    """What Sakai writes into the `timestamp.txt` beside a hand-in: `20261129221003123`, or with signs between; UTC."""
    found = _SAKAI_TIME.match(text)
    try:
        return datetime(*map(int, found.groups()), tzinfo=UTC) if found else None  # type: ignore[arg-type,misc]
    except ValueError:
        return None


def blackboard(entry: str) -> list[Claim]:
    """`Unit 2_alove1_attempt_2026-11-29-22-10-03_my work.ipynb`: the time is the site's. The leftmost `attempt` counts,
    for right of it stands what a student chose."""
    if not (found := _BLACKBOARD.fullmatch(entry)) or not (time := _moment(found["day"], found["clock"])):
        return []
    return [Claim(BLACKBOARD, (), found["who"], logins=_logins(found["who"]), time=time, time_from="lms")]


def likeliest_logins(found: dict[str, list[Claim]]) -> dict[str, list[Claim]]:
    """Blackboard's with another likeliest login: what is left of `Unit_2_a_love1` where all begin with `Unit_2_`."""
    people = {one.number for readings in found.values() for one in readings}
    shared = os.path.commonprefix(list(people)).rfind("_") + 1 if len(people) > 1 else 0
    if not shared:
        return found
    return {
        entry: [replace(one, logins=(one.number[shared:], *one.logins)) for one in readings]
        for entry, readings in found.items()
    }


def nbgrader(entry: str) -> list[Claim]:
    """`alove1+02_qkv_attention+2026-11-29 22:10:03.123456 UTC+ZmFzdA==`, as in the exchange's folder `inbound`."""
    if not (found := _NBGRADER.fullmatch(entry)) or not (time := _moment(*found.group("day", "clock", "zone"))):
        return []
    return [Claim(NBGRADER, (), found["login"], logins=(found["login"],), time=time, time_from="lms")]


def folders(entries: Collection[str]) -> dict[str, Claim]:
    """Plain folders, a student's each: `unit-02-alove1` (what all begin with is the assignment's name, the rest a
    login), or with the time behind the name, as CodeGrade writes it: `Ada Lovelace - 2026-11-29T22:10:03.123456`."""
    timed = {entry: _TIMED.fullmatch(entry) for entry in entries}
    bare = {entry: found["name"] if found else entry for entry, found in timed.items()}
    often = Counter(bare.values())
    shared = len(os.path.commonprefix(list(often)).rpartition("-")[0]) if len(often) > 1 else 0
    made = {}
    for entry, found in timed.items():
        time = _moment(found["day"], found["clock"]) if found else None
        number = bare[entry] if often[bare[entry]] == 1 else entry  # two of one name may be two people
        logins = (bare[entry][shared + 1 :],) if shared else ()
        made[entry] = Claim(FOLDERS, (bare[entry],), number, logins=logins, time=time, time_from="lms" if time else "")
    return made


def _logins(who: str) -> tuple[str, ...]:
    """The logins with which `Lovelace_Ada_a_love1` may end, the likeliest first: some have a `_` in them."""
    words = who.split("_")[-5:]
    return tuple("_".join(words[start:]) for start in range(len(words) - 1, -1, -1))


def _moment(day: str, clock: str, zone: str | None = None) -> datetime | None:
    """In UTC. What names no zone that is one everywhere is taken for this machine's, or that of `--zone`."""
    known = "+0000" if zone in ("UTC", "GMT", "Z") else zone if zone and zone[0] in "+-" else ""
    try:
        return timestamps.to_utc(datetime.fromisoformat(f"{day}T{re.sub('[_-]', ':', clock)}{known}"))
    except (ValueError, OverflowError):
        return None
