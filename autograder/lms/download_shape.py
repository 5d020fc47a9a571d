"""Which learning management system made a download, told by its root alone: the names there are the LMS's, or the
instructor's, and every name below is a student's. Where it can't be told the instructor is asked."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from autograder.lms import filenames
from autograder.lms.archives import PARTS, Member, UnreadableDownload
from autograder.lms.claim import (
    BLACKBOARD,
    BRIGHTSPACE,
    CANVAS,
    FILES,
    FOLDERS,
    GRADESCOPE,
    ILIAS,
    MOODLE,
    NBGRADER,
    SAKAI,
)
from autograder.sanitize_terminal import printable

METADATA = "submission_metadata.yml"
"""Gradescope's, which says whose the numbered folders are."""
SUBMISSION = re.compile(r"submission_([0-9]{1,20})")
SHAPES = (CANVAS, MOODLE, GRADESCOPE, BRIGHTSPACE, BLACKBOARD, ILIAS, SAKAI, NBGRADER, FOLDERS, FILES)
TEAM = re.compile(r"(?i:team|équipe|equipe|equipo|gruppo|zespół) [0-9]{1,20}")
"""A folder of a team's in ILIAS."""


@dataclass(frozen=True)
class Shape:
    """A download's. `lms`: one of SHAPES; `depth`: below how many folders its root lies; `metadata`: Gradescope's;
    `teams`: the folders above are teams'."""

    lms: str
    depth: int
    metadata: Member | None = None
    teams: bool = False

    def entry(self, member: Member) -> str:
        """The entry of the root in which a file lies; "" where it lies above."""
        return member.parts[self.depth] if len(member.parts) > self.depth else ""


@dataclass
class _Level:
    """The entries at one depth: `folders` and `files` that hold, or are, something to collect."""

    folders: set[str]
    files: set[str]
    metadata: Member | None

    @property
    def entries(self) -> set[str]:
        return self.folders | self.files


def shape_of(members: Sequence[Member], people: "People", asked: str = "") -> Shape:
    """The shape of a download; asked: what the instructor says it is. Raises UnreadableDownload where it can't be
    told."""
    depth = _root(members, people, asked)
    level = _level(members, depth)
    lms = asked or _lms(level)
    if lms in (FOLDERS, ILIAS) and _of_teams(members, depth):
        return Shape(ILIAS, depth + 1, teams=True)
    if lms == FOLDERS and not asked:
        depth += _sections(members, depth, people)
    if lms == GRADESCOPE and not level.metadata:
        raise UnreadableDownload(f"it has no {METADATA}, as downloads of Gradescope's have")
    return Shape(lms, depth, level.metadata if lms == GRADESCOPE else None)


@dataclass(frozen=True)
class People:
    """Who is known: `knows`, whether a folder's name is a student's; `holds`, whether a student's is in it; `units`:
    names of folders that are none."""

    knows: Callable[[str], bool]
    holds: Callable[[str], bool]
    units: Collection[str]
    roster: bool


def _level(members: Sequence[Member], depth: int) -> _Level:
    wanted = [one for one in members if len(one.parts) > depth and (one.is_notebook or one.is_zip)]
    folders = {one.parts[depth] for one in wanted if len(one.parts) > depth + 1}
    files = {one.parts[depth] for one in wanted if len(one.parts) == depth + 1}
    metadata = next((one for one in members if len(one.parts) == depth + 1 and one.name == METADATA), None)
    return _Level(folders, files, metadata)


def _root(members: Sequence[Member], people: People, asked: str) -> int:
    """Below how many folders that wrap the whole the root lies."""
    depth = 0
    while depth < PARTS and _wraps(_level(members, depth), _level(members, depth + 1), people, asked):
        depth += 1
    return depth


def _wraps(here: _Level, inside: _Level, people: People, asked: str) -> bool:
    """Whether the one entry here holds the download, and is no student's own folder."""
    if here.metadata or here.files or len(here.folders) != 1:
        return False
    (name,) = here.folders
    if _lms_of(name) or SUBMISSION.fullmatch(name) or people.knows(name) or _is_team(name, inside):
        return False
    if asked in ("", FOLDERS) and people.holds(name):
        _refuse_two_readings(name, inside, people, asked)
        return False
    if inside.metadata or any(map(_lms_of, inside.entries)) or asked == FILES:
        return True
    if inside.files or inside.folders <= set(people.units):
        return False
    if not people.roster and len(inside.folders) == 1 and not people.knows(*inside.folders):
        raise UnreadableDownload(
            "it holds one folder within another: give a roster, or zip the students' folders themselves"
        )
    return True


def _lms(level: _Level) -> str:
    """Every entry must be as one LMS names them: a part of them may be somebody's joke. Of folders a smaller part than
    half is taken for one: no LMS names the others so."""
    if level.metadata:
        if level.files or not all(SUBMISSION.fullmatch(name) for name in level.folders):
            raise _ask(f"beside {METADATA} there are others than Gradescope's folders")
        return GRADESCOPE
    each = [_lms_of(name) for name in level.entries]
    common = set.intersection(*each) if each else set()
    common = common or _like_plain(level)
    if len(common) == 1:
        return common.pop()
    if not any(each):
        if level.files and not level.folders:
            raise _ask(
                "only names that students may choose say whose its files are: --lms files takes them as they are"
            )
        return FOLDERS
    if not level.files and 2 * sum(map(bool, each)) < len(each):
        return FOLDERS
    kinds = " or ".join(sorted(set.union(*each)))
    raise _ask(f"some of its names are like those of {kinds}, others are not")


def _lms_of(name: str) -> set[str]:
    return filenames.lms_of(name) - filenames.LIKE_PLAIN


def _like_plain(level: _Level) -> set[str]:
    """ILIAS or Sakai, where all folders are called like theirs, and their numbers tell them apart."""
    if level.files or not level.folders:
        return set()
    found = set.intersection(*(filenames.lms_of(name) for name in level.folders)) & filenames.LIKE_PLAIN
    return {lms for lms in found if _numbers(lms, level) == len(level.folders)}


def _numbers(lms: str, level: _Level) -> int:
    return len({claim.number for name in level.folders for claim in filenames.READERS[lms](name)})


def _of_teams(members: Sequence[Member], depth: int) -> bool:
    """Whether ILIAS has put those who handed in for a team into folders called `Team 7`."""
    here = _level(members, depth)
    if here.files or not here.folders:
        return False
    below = [one for one in members if len(one.parts) > depth + 1 and one.parts[depth] in here.folders]
    inside = _level(below, depth + 1)
    return all(_is_team(name, inside) for name in here.folders)


def _is_team(name: str, inside: _Level) -> bool:
    ilias = all(ILIAS in filenames.lms_of(one) for one in inside.folders)
    return bool(TEAM.fullmatch(name) and inside.folders and not inside.files and ilias)


def _refuse_two_readings(name: str, inside: _Level, people: People, asked: str) -> None:
    """A folder called like a student's: what lies in it may be named by that student."""
    students = any(people.knows(one) or people.holds(one) for one in inside.folders)
    if students or not asked and (inside.metadata or any(map(_lms_of, inside.entries))):
        raise UnreadableDownload(
            f"its one folder, {printable(name)[:60]}, is called like a student's, and what is in it like a download: "
            "give what is in it, or say what it is with --lms"
        )


def _ask(why: str) -> UnreadableDownload:
    return UnreadableDownload(f"whose download it is can't be told, for {why}. Say it: --lms {'|'.join(SHAPES)}")


def _sections(members: Sequence[Member], depth: int, people: People) -> int:
    """1 where the folders are sections, and those of students lie in them: nobody can have both kinds."""
    here = _level(members, depth)
    if here.files or len(here.folders) < 2 or any(map(people.knows, here.folders)):
        return 0
    below = [
        _level([one for one in members if one.parts[depth : depth + 1] == (name,)], depth + 1) for name in here.folders
    ]
    students = [name for level in below for name in level.folders if people.knows(name)]
    alone = all(any(map(people.knows, level.folders)) and not level.files for level in below)
    return int(alone and len(set(students)) == len(students))
