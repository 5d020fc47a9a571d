"""Downloads: a zip archive or a folder as a list of files that can be read one by one. Nothing is ever unpacked to
where an archive says, no link is followed, and what an archive says of itself is read in a process with limits."""

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder import limited_process
from autograder.grading import intake
from autograder.grading.submission_parser import Rejected
from autograder.sanitize_terminal import printable

FILES = 300_000
"""Files of one download: twenty times what a large class hands in."""
PARTS = 16
"""Folders within each other."""
LONGEST = 300
"""Characters of a file's name, below the root: there an LMS puts several names into one."""
MOST_NOTES = 5
"""Links and the like of one entry of a folder that are named."""
NESTED = 100_000_000
"""Bytes of an archive that a student handed in."""
NO_LINKS = "hand in the files themselves"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UTC_TIME = 0x5455
"""The extra field in which archives say, to the second and in UTC, when a file was saved."""


class UnreadableDownload(Exception):
    """A download that is not read at all; the text says why, in a line."""


@dataclass(frozen=True)
class Member:
    """A file of a download. `parts`: its path; `saved`: when, in UTC; `place`: where its owner finds it; `why`: why it
    is not read, where it isn't; `uid`: whose account it is of, in a folder."""

    parts: tuple[str, ...]
    size: int
    saved: datetime | None
    place: Any = None
    why: str = ""
    uid: int | None = None

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def is_notebook(self) -> bool:
        return intake.NOTEBOOK.search(self.name) is not None

    @property
    def is_zip(self) -> bool:
        return self.name.lower().endswith(".zip")


@dataclass
class Zip:
    """A zip archive: a file, or bytes. Raises UnreadableDownload where it is not as it should be; a member that isn't
    costs itself alone."""

    file: Path | bytes
    members: list[Member] = field(init=False)

    def __post_init__(self) -> None:
        source = self.file if isinstance(self.file, bytes) else str(self.file)
        try:
            found = limited_process.call(listing, source)
        except (limited_process.LimitExceeded, limited_process.CallFailed) as reason:
            raise UnreadableDownload(f"its list of files can't be read: {reason}") from None
        if "refused" in found:
            raise UnreadableDownload(found["refused"])
        self.members = [_member(place, *row) for place, row in found["files"] if not _is_litter(row[0])]
        self._zip: zipfile.ZipFile | None = None

    def read(self, member: Member, most: int) -> bytes:
        """At most one byte more than `most`. Raises UnreadableDownload where the archive is damaged."""
        try:
            if self._zip is None:
                self._zip = zipfile.ZipFile(io.BytesIO(self.file) if isinstance(self.file, bytes) else self.file)
            with self._zip.open(self._zip.infolist()[member.place]) as file:
                return file.read(most + 1)
        except (*BROKEN, zlib.error) as error:
            raise UnreadableDownload(
                f"it is damaged at {printable(member.name)[:80]} ({_said(error)}): download it again"
            ) from None


@dataclass
class Folder:
    """A folder, read without following a link. `notes`: what was left where it is."""

    root: Path
    members: list[Member] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _noted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()
        self._walk(())
        self.members.sort(key=lambda member: member.parts)
        more = {name: count - MOST_NOTES for name, count in self._noted.items() if count > MOST_NOTES}
        self.notes += [f"{name}: {count} more like these were left out" for name, count in more.items()]

    def read(self, member: Member, most: int) -> bytes:
        """At most one byte more than `most` of a regular file. Raises Rejected."""
        folder = intake.open_folder(self.root, *member.parts[:-1])
        try:
            return intake.read_regular(folder, member.name, most)[0]
        finally:
            os.close(folder)

    def _walk(self, parts: tuple[str, ...]) -> None:
        try:
            entries = sorted(os.scandir(self.root.joinpath(*parts)), key=lambda entry: entry.name)
        except OSError as error:
            self._note(parts, f"can't be read ({error.strerror})")
            return
        for entry in (entry for entry in entries if not _is_litter([entry.name])):
            here, status = (*parts, entry.name), entry.stat(follow_symlinks=False)
            if entry.name == ".git":
                self.members.append(Member(here, 0, None))  # of a clone; what is in it isn't handed in
            elif stat.S_ISDIR(status.st_mode) and len(here) < PARTS:
                self._walk(here)
            elif stat.S_ISREG(status.st_mode):
                saved = datetime.fromtimestamp(int(status.st_mtime), UTC)
                self.members.append(Member(here, status.st_size, saved, uid=status.st_uid))
            else:
                kind = intake.KINDS.get(stat.S_IFMT(status.st_mode), "no file")
                self._note(here, f"is {kind} and was left out: {NO_LINKS}")
            if len(self.members) > FILES:
                raise UnreadableDownload(f"it holds more than {FILES:,} files")

    def _note(self, parts: tuple[str, ...], what: str) -> None:
        entry = parts[0] if parts else ""
        self._noted[entry] += 1
        if self._noted[entry] <= MOST_NOTES:
            self.notes.append(f"{'/'.join(parts)[:160] or self.root} {what}")


def open_download(path: Path) -> Zip | Folder:
    """The download at a path. Raises UnreadableDownload."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UnreadableDownload(f"it can't be read ({error.strerror})") from None
    if stat.S_ISDIR(mode):
        return Folder(path)
    if not stat.S_ISREG(mode):
        raise UnreadableDownload("it is neither a zip archive nor a folder")
    return Zip(path)


def open_inner(outer: Zip | Folder, member: Member) -> Zip:
    """An archive within a download. Raises UnreadableDownload."""
    try:
        data = outer.read(member, NESTED)
    except Rejected as reason:
        raise UnreadableDownload(str(reason)) from None
    if len(data) > NESTED:
        raise UnreadableDownload(f"it has more than {NESTED // 1_000_000} MB")
    return Zip(data)


def _is_litter(parts: list[str]) -> bool:
    return bool(intake.LITTER & set(parts)) or parts[-1].startswith("._")


def _member(place: int, parts: list[str], size: int, saved: float | None, why: str) -> Member:
    return Member(tuple(parts), size, None if saved is None else datetime.fromtimestamp(saved, UTC), place, why)


# ---------------------------------------------------------------- in a process with limits

BROKEN = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)


def listing(source: str | bytes) -> dict:
    """{"files": [place, [parts, size, saved, why]] …} of an archive, or {"refused": why}."""
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            infos = archive.infolist()
            if len(infos) > FILES:
                return {"refused": f"it holds {len(infos):,} files, more than {FILES:,}"}
            sign = _separator(infos)
            return {"files": [[place, _row(info, sign)] for place, info in enumerate(infos) if not info.is_dir()]}
    except UnreadableDownload as reason:
        return {"refused": str(reason)}
    except BROKEN as error:
        return {
            "refused": f"it is no zip archive, or a damaged one ({_said(error)}): download it again, or give the folder"
        }


def _said(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)[:100]


def _row(info: zipfile.ZipInfo, sign: str) -> list:
    shown = printable(info.filename)[:80]
    if info.flag_bits & 0x1:
        raise UnreadableDownload(f"{shown} in it is encrypted: unpack it with its password, and give the folder")
    if info.compress_type not in _METHODS:
        raise UnreadableDownload(
            f"{shown} in it is packed in a way (method {info.compress_type}) that no LMS uses: unpack it, and give "
            "the folder"
        )
    parts = _parts(info, sign)
    why = f"it is a link: {NO_LINKS}" if stat.S_ISLNK(info.external_attr >> 16) else _odd(parts)
    return [_short(parts) if why else parts, info.file_size, _saved(info), why]


def _short(parts: list[str]) -> list[str]:
    """What is needed to say whose a file is, and what it is called: somebody may have named it to fill the memory."""
    kept = [*parts[:8], *parts[8:][-1:]]
    return [part if len(part) < 2_000 else part[:1_900] + part[-100:] for part in kept]


def _separator(infos: list[zipfile.ZipInfo]) -> str:
    """Old programs of Windows write `\\` between folders, in every name; elsewhere it is a letter in a student's."""
    names = [info.orig_filename for info in infos]
    return "\\" if names and all("\\" in name and "/" not in name for name in names) else "/"


def _parts(info: zipfile.ZipInfo, sign: str) -> list[str]:
    """The path of a file in an archive: text to read, never a place to write to. Raises UnreadableDownload where the
    first part leads out, for then nothing says whose it is."""
    first, *rest = _name(info).split(sign)
    if first in ("", "..") or re.match("[A-Za-z]:$", first):
        raise UnreadableDownload(
            f"{printable(info.filename)[:80]!r} in it is a path that leads out of it: no LMS makes such archives"
        )
    parts = [part for part in (first, *rest) if part not in ("", ".")]
    return parts or [first]


def _odd(parts: list[str]) -> str:
    """What is wrong with the path of a file, as no honest program writes it; "" for nothing."""
    if ".." in parts or any("\0" in part or re.search(r"\.\.\\|\\\.\.", part) for part in parts):
        return "it has a path that leads out"
    if len(parts) > PARTS:
        return f"it lies more than {PARTS} folders deep"
    too_long = len(parts[0]) > 2 * LONGEST or any(len(part) > LONGEST for part in parts[1:])
    return "its name has no end" if too_long else ""


def _name(info: zipfile.ZipInfo) -> str:
    """Many programs write UTF-8 and don't say so."""
    if info.flag_bits & 0x800:
        return info.orig_filename
    try:
        return info.orig_filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.orig_filename


def _saved(info: zipfile.ZipInfo) -> float | None:
    """Seconds since 1970 in UTC; an archive's own clock has no time zone, and is taken for this machine's."""
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == _UTC_TIME and size >= 5 and extra[4] & 1:
            return float(struct.unpack("<i", extra[5:9])[0])
        extra = extra[4 + size :]
    try:
        return datetime(*info.date_time).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None
