"""`attn grade --preview`: the class as it is, copied, and graded there. What changes is what would change; the class
itself stays as it was, except that the judge's results are kept, so that grading then has nothing left to judge."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from autograder.course.copy_gradebook import copy_gradebook
from autograder.course.paths import Course, temporary_course
from autograder.grading import grade as grading
from autograder.grading import gradebook_writer, regrade_log
from autograder.grading.regrade_log import Change
from autograder.whole_files import write_whole

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
            copy_gradebook(course.classroom / GRADEBOOK, copy.classroom / GRADEBOOK)
        copy.submitted.symlink_to(course.submitted)
        yield copy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=False)


def _keep_results(copy: Course, course: Course) -> None:
    for made in copy.results.glob("??/*.json") if copy.results.is_dir() else ():
        kept = course.results / made.relative_to(copy.results)
        if not kept.exists():
            write_whole(kept, made.read_bytes())
