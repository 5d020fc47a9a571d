"""What `attn grade` begins before it imports nbgrader: the processes that import PyTorch, for they take longest."""

import json
from collections.abc import Iterable

from autograder.course.paths import Course
from autograder.course.settings import limits
from autograder.grading.submission_discovery import Submission, submissions
from autograder.judge.config import BUBBLEWRAP
from autograder.judge.fork_server_client import start_ahead


def start_if_wanted(course: Course, units: Iterable[str], students: list[str]) -> None:
    """Starts the root of the warm processes where somebody has handed in what was never read."""
    handed_in = [one for unit in units for one in submissions(course, unit, students)]
    if limits(course).sandbox != BUBBLEWRAP and anything_new(handed_in, staged(course)):
        start_ahead()


def anything_new(handed_in: Iterable[Submission], staged: dict[str, str]) -> bool:
    return any(f"{one.student}/{one.unit}" not in staged for one in handed_in)


def staged(course: Course) -> dict[str, str]:
    """What intake has noted of every hand-in that it staged, by student/unit."""
    try:
        return json.loads((course.results / "intake.json").read_text(encoding="utf-8"))["staged"]
    except (OSError, ValueError, KeyError):
        return {}
