"""`attn backup` and `attn restore`: the class folder as one archive, and back. The gradebook is copied by SQLite
itself, so that a backup is whole even while a class is graded. What a restore replaces is moved aside."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from autograder.course.copy_gradebook import copy_gradebook
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.sanitize_terminal import printable
from autograder.whole_files import flush_to_disk

GRADEBOOK = "gradebook.db"
MANIFEST = "attn-backup.json"
LEFT_OUT = ("feedback", "staged", "registered")
"""Folders that `attn grade` and `nbgrader generate_feedback` make again."""
CHUNK = 1 << 20


def backup(course: Course, target: Path | None) -> tuple[Path, int, list[str]]:
    """Writes an archive of the class folder. Returns its path, how many files it holds, and a line for each thing
    that is no file. Raises CourseError."""
    if not course.classroom.is_dir() or not any(course.classroom.iterdir()):
        raise CourseError(f"There is nothing in {course.classroom} to keep.", BAD_INPUT)
    path = target or course.root / "backups" / f"class-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.zip"
    if path.exists():
        raise CourseError(f"{path} exists: name another file.", BAD_INPUT)
    half = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        count, notes = _write(course, half)
        flush_to_disk(half)
        os.link(half, path)  # unlike a rename it never overwrites
    except OSError as error:
        raise CourseError(f"{path} can't be written ({error.strerror or error}).") from None
    finally:
        with suppress(OSError):
            half.unlink()
    return path, count, notes


def _write(course: Course, path: Path) -> tuple[int, list[str]]:
    hashes, notes = {}, []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as folder:
        for name, file in _files(course, notes):
            source = _gradebook(file, Path(folder)) if name == GRADEBOOK else file
            try:
                hashes[name] = _add(archive, name, source)
            except FileNotFoundError:  # a run of grading has replaced it just now
                continue
        said = {"made": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", "commit": _commit(course), "sha256": hashes}
        archive.writestr(MANIFEST, json.dumps(said, indent=1))
    return len(hashes), notes


def _files(course: Course, notes: list[str]) -> Iterator[tuple[str, Path]]:
    """Name and path of every regular file that is kept; no link is followed."""
    for folder, folders, names in os.walk(course.classroom):
        here = Path(folder)
        if here == course.classroom:
            folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith(".")]
        links = [name for name in folders if (here / name).is_symlink()]
        for name in sorted(names) + links:
            path = here / name
            inside = path.relative_to(course.classroom).as_posix()
            if name.startswith(".") or name.startswith(f"{GRADEBOOK}-"):
                continue
            if stat.S_ISREG(path.lstat().st_mode):
                yield inside, path
            else:
                notes.append(f"{printable(inside)} is no file and was left out")


def _gradebook(path: Path, folder: Path) -> Path:
    copy_gradebook(path, folder / GRADEBOOK)
    return folder / GRADEBOOK


def _add(archive: zipfile.ZipFile, name: str, path: Path) -> str:
    """Writes a file into the archive; returns the hash of what was written."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        info = zipfile.ZipInfo.from_file(path, _member(name), strict_timestamps=False)
        info.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(info, "w", force_zip64=True) as target:
            while data := source.read(CHUNK):
                digest.update(data)
                target.write(data)
    return digest.hexdigest()


def _member(name: str) -> str:
    """The name in the archive, which is text there: a name that is not UTF-8 stands in the manifest, and as a number
    here. (No other file that is kept lies in a folder with such a name.)"""
    try:
        name.encode()
    except UnicodeEncodeError:
        return f".bytes/{os.fsencode(name).hex()}"
    return name


def _commit(course: Course) -> str:
    """The commit of the course that graded; "" where git doesn't know."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=course.root, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# ---------------------------------------------------------------- and back


def restore(course: Course, path: Path) -> tuple[int, str, Path | None]:
    """Makes the class folder what it was. Returns how many files came back, when the backup was made, and where the
    folder lies that was there. Raises CourseError, and then nothing is changed."""
    from autograder.grading.gradebook_writer import gradebook_lock

    with (
        gradebook_lock(course),
        tempfile.TemporaryDirectory(prefix=".restoring-", dir=course.classroom.parent) as folder,
    ):
        fresh = Path(folder) / "class"
        try:
            count, made = _read(path, fresh)
            aside = _swap(course, fresh)
        except OSError as error:
            raise CourseError(f"{error.filename or path} can't be read or written ({error.strerror}).") from None
    return count, made, aside


def _read(path: Path, fresh: Path) -> tuple[int, str]:
    """Unpacks an archive; every file must be what the manifest says."""
    try:
        with zipfile.ZipFile(path) as archive:
            said = json.loads(archive.read(MANIFEST))
            hashes, made = dict(said["sha256"]), str(said["made"])
            for name, wanted in hashes.items():
                if _unpacked(archive, name, fresh) != wanted:
                    raise _refused(path, f"{name} in it is not what was kept")
    except FileNotFoundError:
        raise CourseError(f"There is no file {path}.", BAD_INPUT) from None
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refused(path, f"it is no backup of a class, or a damaged one ({error})") from None
    return len(hashes), made


def _refused(path: Path, why: str) -> CourseError:
    return CourseError(f"{path}: {printable(why)[:200]}. Nothing was changed.", BAD_INPUT)


def _unpacked(archive: zipfile.ZipFile, name: str, fresh: Path) -> str:
    target = fresh / name
    if name.startswith("/") or ".." in Path(name).parts or not target.is_relative_to(fresh):
        raise ValueError(f"{name} leads out of it")
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with archive.open(_member(name)) as source, target.open("xb") as file:
        while data := source.read(CHUNK):
            digest.update(data)
            file.write(data)
    moment = datetime(*archive.getinfo(_member(name)).date_time).timestamp()
    os.utime(target, (moment, moment))
    return digest.hexdigest()


def _swap(course: Course, fresh: Path) -> Path | None:
    """Puts the fresh folder into the place of the old one, which gets another name."""
    aside = course.classroom.with_name(f"class.before-{datetime.now(UTC):%Y-%m-%dT%H%M%S%f}")
    fresh.mkdir(parents=True, exist_ok=True)
    os.rename(course.classroom, aside)
    try:
        os.rename(fresh, course.classroom)
    except OSError:
        os.rename(aside, course.classroom)
        raise
    if [one.name for one in aside.iterdir()] in ([], [".lock"]):
        shutil.rmtree(aside)
        return None
    return aside
