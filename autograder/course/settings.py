"""What nbgrader_config.py of a course sets, read without nbgrader: it takes a second to import."""

import sys

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.course.paths import CONFIG, Course
from autograder.judge.config import Limits


def settings(course: Course) -> Config:
    """What nbgrader_config.py of the course sets."""
    path_before = list(sys.path)
    try:
        return PyFileConfigLoader(CONFIG, path=str(course.root)).load_config()
    finally:
        sys.path[:] = path_before


def limits(course: Course) -> Limits:
    """The limits among them; what is not set is as `JudgedExecute` has it."""
    config = settings(course)
    timeout, judged = config.Execute.get("timeout", NBGRADERS_TIMEOUT), config.JudgedExecute
    standard = Limits()
    return Limits(
        cell_seconds=judged.get("timeout", timeout),
        notebook_seconds=judged.get("notebook_timeout", standard.notebook_seconds),
        sandbox=judged.get("sandbox", standard.sandbox),
    )


NBGRADERS_TIMEOUT = 30
"""Seconds a cell, by nbgrader's own default."""
