"""What a download says of whose a file is: one form for all learning management systems (LMS)."""

from dataclasses import dataclass
from datetime import datetime

CANVAS, MOODLE, GRADESCOPE, BRIGHTSPACE = "canvas", "moodle", "gradescope", "brightspace"
BLACKBOARD, ILIAS, SAKAI, NBGRADER = "blackboard", "ilias", "sakai", "nbgrader"
FOLDERS, FILES = "folders", "files"
TIMES_WITHOUT_ZONE = {BRIGHTSPACE, BLACKBOARD, FOLDERS}
"""Whose names hold times of a clock that they don't name."""


@dataclass(frozen=True)
class Claim:
    """Whose a file is, as the LMS says. `names`: any of them, the likeliest first; `number`: the LMS's number of this
    student, or of Gradescope's submission; `sid`: a student number; `logins`: what a login may be, at a place where no
    display name stands; `order`: grows with every upload; `blind`: nobody is meant to know who it is; `entry`: the name
    at the download's root; `team`: it is the whole team's."""

    lms: str
    names: tuple[str, ...] = ()
    number: str = ""
    sid: str = ""
    email: str = ""
    time: datetime | None = None
    time_from: str = ""
    late: bool = False
    order: int = 0
    blind: bool = False
    logins: tuple[str, ...] = ()
    entry: str = ""
    team: bool = False

    @property
    def account(self) -> str:
        """What tells people apart in this LMS, and nobody can choose; in plain folders their names, "" where that is
        a student's id."""
        return (self.email or self.sid) if self.lms == GRADESCOPE else self.number

    @property
    def label(self) -> str:
        """For people to read."""
        name = (*self.names, self.email)[0]
        return " ".join(filter(None, (name, f"({self.number})" if self.number not in ("", name) else "")))
