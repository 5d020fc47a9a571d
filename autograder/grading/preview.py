"""`attn grade --preview`: the class as it is, copied, and graded there. What changes is what would change; the class
itself stays as it was, except that the judge's results are kept, so that grading then has nothing left to judge."""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.progress import Progress

from autograder.course.paths import Course, temporary_course
from autograder.grading import grade as grading
from autograder.grading import gradebook_writer, regrade_log
from autograder.grading.regrade_log import Change

LINKED = ("autograded", "feedback", "results", "answers", "staged")
"""Folders whose files are replaced and never written into: a second name for each does for a copy."""


GRADEBOOK = "gradebook.db"


def preview(
    course: Course, units: Iterable[str], settings: grading.Settings, progress: Progress
) -> tuple[grading.Outcome, list[Change]]:
    """What `grade` would do, and the earlier scores that it would change."""
    with gradebook_writer.gradebook_lock(course), _copy(course, units := list(units)) as copy:
        known = len(regrade_log.read(copy.regrades))
        try:
            outcome = grading.grade(copy, units, settings, progress)
        finally:
            _keep_results(copy, course)
        return outcome, regrade_log.read(copy.regrades)[known:]


@contextmanager
def _copy(course: Course, units: list[str]) -> Iterator[Course]:
    with temporary_course(course, units, course.classroom.parent) as copy:  # on the same file system, for links
        for name in LINKED:
            if (course.classroom / name).is_dir():
                shutil.copytree(course.classroom / name, copy.classroom / name, copy_function=_link)
        if course.regrades.is_file():
            shutil.copy(course.regrades, copy.classroom)
        if (course.classroom / GRADEBOOK).is_file():
            _copy_gradebook(course.classroom / GRADEBOOK, copy.classroom / GRADEBOOK)
        copy.submitted.symlink_to(course.submitted)
        yield copy


def _copy_gradebook(path: Path, target: Path) -> None:
    """By SQLite itself: a marker may be at work in formgrader."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source, closing(sqlite3.connect(target)) as new:
        source.backup(new)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=False)


def _keep_results(copy: Course, course: Course) -> None:
    for made in copy.results.glob("??/*.json") if copy.results.is_dir() else ():
        kept = course.results / made.relative_to(copy.results)
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            half = kept.with_name(f".{kept.name}.part")
            shutil.copyfile(made, half)
            os.replace(half, kept)
