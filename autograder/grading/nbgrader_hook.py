"""The door through which nbgrader's own `autograde`, on the command line and behind formgrader's button, takes
hand-ins: intake first (see intake.py), then nbgrader's steps on the staging folder alone. nbgrader_config.py hangs it
in.

nbgrader copies and reads a student's folder before the first step that can be configured, so its class is replaced."""

import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path

from nbgrader.converters import Autograde, NbGraderException
from nbgrader.utils import temp_attrs

from autograder.course.paths import STAGED, Course
from autograder.grading import intake
from autograder.grading.submission_discovery import Submission, submissions
from autograder.grading.submission_parser import Rejected
from autograder.sanitize_terminal import printable

FORMGRADER = "nbgrader.server_extensions.formgrader.handlers"
COMMANDS = ("nbgrader.apps.autogradeapp", "nbgrader.apps.api")


def install() -> None:
    """Puts the class below in the place of nbgrader's in the commands that use it, where they are loaded; and ours in
    the place of formgrader's pages."""
    for name in COMMANDS:
        if name in sys.modules:
            vars(sys.modules[name])["Autograde"] = StagedAutograde
    if FORMGRADER in sys.modules:
        from autograder.grading import formgrader_pages

        formgrader_pages.install()


class StagedAutograde(Autograde):
    """nbgrader's converter; what it calls submitted is what intake has staged."""

    def start(self) -> None:
        course, unit = Course(Path(self.coursedir.root).resolve()), self.coursedir.assignment_id
        found = [one for one in submissions(course, unit, []) if fnmatch(one.student, self.coursedir.student_id)]
        self._sweep(course, unit)
        rejected = self._stage(course, found)
        if rejected < len(found):
            with temp_attrs(self.coursedir, submitted_directory=STAGED):
                super().start()
        if rejected or not found:
            raise NbGraderException(f"{rejected} of {len(found)} submissions of {unit} were rejected.")

    def _stage(self, course: Course, found: list[Submission]) -> int:
        """Takes the hand-ins in; says what is wrong with them. Returns how many were rejected."""
        units, rejected = intake.units_of(course), 0
        for submission in found:
            try:
                for note in intake.read_and_stage(course, submission, units):
                    self.log.warning("%s: %s", printable(submission.student), printable(note))
            except Exception as reason:  # whatever a hand-in does to us costs it alone
                kind = "" if isinstance(reason, Rejected) else f"{type(reason).__name__}: "
                self.log.error("%s was rejected: %s%s", printable(submission.student), kind, printable(reason))
                rejected += 1
        if not found:
            self.log.error("No submissions of '%s' were found in %s.", self.coursedir.assignment_id, course.submitted)
        return rejected

    def _sweep(self, course: Course, unit: str) -> None:
        """Takes out what was staged before."""
        for folder in course.staged.glob(f"*/{unit}"):
            if fnmatch(folder.parent.name, self.coursedir.student_id):
                shutil.rmtree(folder)
