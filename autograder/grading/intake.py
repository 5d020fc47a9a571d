"""Intake: a hand-in is read once. Its notebook, made ready by a process with limits (see submission_parser.py), and its
time go into a staging folder that belongs to the grader; everything after sees that copy alone.

No link is followed, nothing but regular files is opened, other files stay where they are and are mentioned."""

import os
import re
import shutil
import stat
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from autograder import limited_process, notebooks, size_limits
from autograder.course.exercises import solved
from autograder.course.paths import Course
from autograder.grading import submission_parser
from autograder.grading.repair import CODE_STUB, TEXT_STUB
from autograder.grading.submission_discovery import Submission, invalid_character
from autograder.grading.submission_parser import Rejected
from autograder.whole_files import write_whole

TIMESTAMP = "timestamp.txt"
MOST_NOTEBOOKS = 5
"""Notebooks of one hand-in that are looked into."""
MOST_NAMED = 5
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?\s*$", re.IGNORECASE)  # some browsers add what they think it is
_NUMBER = re.compile(r"(?:\((\d+)\)|-(\d+))\s*\.ipynb", re.IGNORECASE)
LITTER = {".ipynb_checkpoints", "__pycache__", ".DS_Store", "__MACOSX"}
KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True)
class NotebookFile:
    """One notebook as it was handed in."""

    name: str
    data: bytes
    saved: int  # nanoseconds

    @property
    def age(self) -> tuple[int, int]:
        """Sorts by time; of two saved at the same time, `name (2).ipynb` is later than `name (1).ipynb`."""
        number = _NUMBER.search(self.name)
        return self.saved, int(next(filter(None, number.groups()))[:6]) if number else 0


@dataclass
class HandIn:
    """What one student handed in for one unit, in memory. `files`: the notebooks, newest last; `time`: "" if
    unknown."""

    files: list[NotebookFile]
    time: str
    notes: list[str] = field(default_factory=list)


def units_of(course: Course) -> dict[str, list[str]]:
    """The grade_ids of every unit that has been built, by which notebooks are told apart."""
    built = [unit for unit in course.units() if course.solved(unit).is_file()]
    return {unit: sorted(notebooks.grade_ids(solved(course, unit))) for unit in built}


# ---------------------------------------------------------------- read, once


def read(course: Course, submission: Submission) -> HandIn:
    """Reads a hand-in from its folder. Raises Rejected where there is no notebook that can be read."""
    if odd := invalid_character(submission.student):
        raise Rejected(f"nbgrader can't take {odd!r} in the name of the student's folder: rename it")
    folder = open_folder(course.submitted, submission.student, submission.unit)
    try:
        return _read_folder(folder, submission)
    finally:
        os.close(folder)


def open_folder(root: Path, *names: str) -> int:
    """A descriptor of a folder below `root`, reached without following a link."""
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            there = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        except OSError as error:
            raise Rejected(_no_folder(here, name, error)) from None
        finally:
            os.close(here)
        here = there
    return here


def _no_folder(here: int, name: str, error: OSError) -> str:
    kind = KINDS.get(stat.S_IFMT(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode), "a file")
    if kind == "a folder":
        return f"the folder {name} can't be read ({error.strerror}): mend its permissions"
    return f"{name} is {kind}, not a folder: hand in the files themselves"


def _read_folder(folder: int, submission: Submission) -> HandIn:
    kinds = {
        entry.name: KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "")
        for entry in os.scandir(folder)
        if entry.name not in LITTER
    }
    wanted = [name for name, kind in kinds.items() if not kind and NOTEBOOK.search(name)]
    if not wanted:
        raise Rejected(_none_there(submission, kinds))
    if len(wanted) > MOST_NOTEBOOKS:
        raise Rejected(f"{len(wanted)} notebooks were handed in: leave the one that counts")
    files = sorted((read_notebook(folder, name) for name in sorted(wanted)), key=lambda file: file.age)
    hand_in = HandIn(files, *_read_time(folder, kinds))
    others = sorted(name for name in kinds if name not in wanted and name != TIMESTAMP)
    if others:
        hand_in.notes.append(f"beside the notebook, not looked at: {_named(others, kinds)}")
    return hand_in


def read_notebook(folder: int, name: str) -> NotebookFile:
    """A regular file of a folder, within the size that a notebook may have. Raises Rejected."""
    data, saved = read_regular(folder, name, size_limits.FILE)
    if len(data) > size_limits.FILE:
        raise Rejected(
            f"{name} has more than {size_limits.FILE // 1_000_000} MB: clear the outputs, make pictures smaller, and "
            "hand it in again"
        )
    return NotebookFile(name, data, saved)


def read_regular(folder: int, name: str, most: int) -> tuple[bytes, int]:
    """At most one byte more than `most` of a regular file, and when it was saved."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise Rejected(
            f"{name} can't be read ({error.strerror}): mend its permissions, or have it handed in again"
        ) from None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Rejected(f"{name} is no file: hand in the notebook itself")
        try:
            return opened.read(most + 1), status.st_mtime_ns
        except OSError as error:
            raise Rejected(f"{name} can't be read ({error.strerror}): have it handed in again") from None


def _none_there(submission: Submission, kinds: dict[str, str]) -> str:
    wanted = submission.path.name
    odd = {name: kind for name, kind in kinds.items() if kind and NOTEBOOK.search(name)}
    if odd:
        name, kind = min(odd.items())
        return f"{name} is {kind}: hand in the notebook itself"
    return f"no file {wanted}" + (f" (found {_named(sorted(kinds), kinds)})" if kinds else "")


def _named(names: list[str], kinds: dict[str, str]) -> str:
    shown = [f"{name[:80]} ({kinds[name]})" if kinds[name] else name[:80] for name in names[:MOST_NAMED]]
    return ", ".join(shown) + (f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _read_time(folder: int, kinds: dict[str, str]) -> tuple[str, list[str]]:
    """When it was handed in, as timestamp.txt says, or "" and a note."""
    if TIMESTAMP not in kinds:
        return "", []
    from nbgrader.utils import parse_utc  # takes a second to import, and `attn mark` needs none of it

    try:
        if kinds[TIMESTAMP]:
            raise Rejected(f"{TIMESTAMP} is {kinds[TIMESTAMP]}")
        text = read_regular(folder, TIMESTAMP, size_limits.TIMESTAMP)[0].decode("utf-8-sig").strip()
        if text and not isinstance(parse_utc(text[: size_limits.TIMESTAMP]), datetime):
            raise ValueError
        return text, []
    except Rejected as reason:
        return "", [f"{reason}; the time of the hand-in is not known"]
    except Exception:  # dateutil stumbles in many ways over what is no date
        return "", [
            f"{TIMESTAMP} holds no date: write one such as 2026-11-30 23:59:00 UTC; until then the time is not known"
        ]


# ---------------------------------------------------------------- made ready, and put into the staging folder


def stage(course: Course, submission: Submission, hand_in: HandIn, units: dict[str, list[str]]) -> None:
    """Puts the notebook, made ready, and the time into the staging folder. Adds to the notes; raises Rejected."""
    target = course.taken_in(submission.student, submission.unit)
    unstage(course, submission)
    text = prepare_notebook(course, submission.unit, _chosen(hand_in, submission, units).data, units)
    if hand_in.time:
        write_whole(target.parent / TIMESTAMP, hand_in.time + "\n")
    write_whole(target, text)


def prepare_notebook(course: Course, unit: str, data: bytes, units: dict[str, list[str]] | None = None) -> str:
    """The text of a handed-in notebook that can be graded. Raises Rejected."""
    original = course.solved(unit).read_text(encoding="utf-8")
    return _within_limits(submission_parser.parse_submission, data, unit, original, units or units_of(course))[
        "notebook"
    ]


def unstage(course: Course, submission: Submission) -> None:
    """Takes an earlier copy out of the staging folder."""
    shutil.rmtree(course.taken_in(submission.student, submission.unit).parent, ignore_errors=True)


def _chosen(hand_in: HandIn, submission: Submission, units: dict[str, list[str]]) -> NotebookFile:
    """The notebook that counts: the newest of the unit's."""
    files = hand_in.files
    if len(files) > 1:
        files = [file for file in files if is_of(submission.unit, file.data, units)]
        if not files:
            raise Rejected(f"none of the {len(hand_in.files)} notebooks is one of {submission.unit}")
    file, wanted = files[-1], submission.path.name
    if len(hand_in.files) > 1:
        others = ", ".join(other.name[:80] for other in hand_in.files if other is not file)
        hand_in.notes.append(f"{file.name[:80]} was graded, the last one saved of this unit; not graded: {others}")
    elif file.name != wanted:
        hand_in.notes.append(f"the file is called {file.name[:80]}, not {wanted}; it was graded all the same")
    return file


def is_of(unit: str, data: bytes, units: dict[str, list[str]]) -> bool:
    """Whether a file is a notebook of a unit, if not of that one alone. False for one that can't be read."""
    try:
        return unit in _units_in(data, units)
    except Rejected:
        return False


def unit_of(data: bytes, units: dict[str, list[str]]) -> str | None:
    """The unit whose marked cells a notebook has most of; None for a notebook of something else. Raises Rejected."""
    return next(iter(_units_in(data, units)), None)


def _units_in(data: bytes, units: dict[str, list[str]]) -> list[str]:
    return _within_limits(submission_parser.units_in, data, units)["units"]


def is_as_released(course: Course, unit: str, data: bytes) -> bool:
    """Whether a file is the notebook of a unit as it was given out. False for one that can't be read, and where the
    unit is gone."""
    if not any(stub.encode() in data for stub in (CODE_STUB, TEXT_STUB)):  # most of a class: nothing need be read
        return False
    try:
        original = course.solved(unit).read_text(encoding="utf-8")
        return _within_limits(submission_parser.as_released, data, original)["as released"]
    except (Rejected, FileNotFoundError):
        return False


def _within_limits(function, *arguments) -> dict:
    try:
        answer = limited_process.call(function, *arguments)
    except limited_process.LimitExceeded as reason:
        raise Rejected(f"reading the notebook was given up: {reason}") from None
    except limited_process.CallFailed as reason:
        raise Rejected(f"not a notebook that can be read: {reason}") from None
    if "rejected" in answer:
        raise Rejected(answer["rejected"])
    return answer


def read_and_stage(course: Course, submission: Submission, units: dict[str, list[str]] | None = None) -> list[str]:
    """Reads and stages a hand-in. Returns the notes; raises Rejected."""
    try:
        hand_in = read(course, submission)
        stage(course, submission, hand_in, units_of(course) if units is None else units)
    except Rejected:
        unstage(course, submission)
        raise
    return hand_in.notes


def read_file(course: Course, path: Path) -> tuple[bytes, str | None]:
    """Any file, and the unit that it is a notebook of; None if it is of none. Raises Rejected, OSError."""
    path = path.resolve(strict=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        data = read_notebook(folder, path.name).data
    finally:
        os.close(folder)
    return data, unit_of(data, units_of(course))
