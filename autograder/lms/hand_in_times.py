"""When a hand-in came, where the name of its entry doesn't say: from the time of the file in plain folders, from a
file of Sakai's own beside it; and whose files lie in nbgrader's exchange, where anybody may put some."""

import os
import pwd
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from autograder.grading import intake
from autograder.grading.submission_parser import Rejected
from autograder.lms import folder_names
from autograder.lms.archives import Folder, Member, Zip
from autograder.lms.claim import FILES, FOLDERS, NBGRADER, SAKAI, Claim
from autograder.lms.download_shape import Shape


def dated(readings: list[Claim], member: Member, file_times: bool, written: datetime | None) -> list[Claim]:
    """The readings with a time, where one is known. In plain folders a file's own is all there is."""
    if written:
        return [replace(one, time=written, time_from="lms") for one in readings]
    plain = [one.lms in (FOLDERS, FILES) and not one.time for one in readings]
    if not member.saved or not file_times or not any(plain):
        return readings
    return [replace(one, time=member.saved, time_from="file") for one in readings]


def are_clones(members: Sequence[Member], shape: Shape) -> bool:
    """Whether all folders are clones of repositories: then their files are as old as the clone, whenever they came."""
    inside = [one for one in members if len(one.parts) > shape.depth + 1]
    clones = {shape.entry(one) for one in inside if one.parts[shape.depth + 1] == ".git"}
    return bool(clones) and clones == {shape.entry(one) for one in inside}


def sakai_times(download: Zip | Folder, shape: Shape) -> dict[str, datetime]:
    """What Sakai's own `timestamp.txt` says of each folder: students' files lie one level below."""
    if shape.lms != SAKAI:
        return {}
    beside = [one for one in download.members if one.parts[shape.depth + 1 :] == (intake.TIMESTAMP,) and not one.why]
    times = {shape.entry(one): _written(download, one) for one in beside}
    return {entry: time for entry, time in times.items() if time}


def _written(download: Zip | Folder, member: Member) -> datetime | None:
    try:
        return folder_names.sakai_time(download.read(member, 100).decode("ascii", "replace"))
    except Rejected:
        return None


def checked_owner(member: Member, readings: list[Claim]) -> Member:
    """The file, not to be read where another account of this machine has put it into nbgrader's exchange. A copy is
    the instructor's, and as good as its names."""
    if not readings or readings[0].lms != NBGRADER or member.uid in (None, 0, os.getuid()):
        return member
    try:
        owner = pwd.getpwuid(member.uid).pw_name
    except KeyError:
        owner = f"account {member.uid}"
    if owner == readings[0].number:
        return member
    return replace(member, why=f"it is {owner}'s file, not {readings[0].number}'s: if you trust its name, copy it")
