"""Which account in a learning management system is whose, as earlier runs of `attn collect` found: the memory that a
display name is held against. All that goes back (grades, pages) goes by it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from autograder.gradebook.roster import Roster, fold
from autograder.lms.attempts import Attempt
from autograder.lms.claim import BLACKBOARD, BRIGHTSPACE, CANVAS, FOLDERS, MOODLE

Known = dict[tuple[str, str], dict[str, Attempt]]
OF_ONE_ASSIGNMENT = (MOODLE, BRIGHTSPACE, BLACKBOARD, FOLDERS)
"""Their numbers are other ones in every assignment; Canvas's, and Gradescope's e-mails, are a person's."""


def realm(lms: str, unit: str) -> tuple[str, str]:
    """Within which a person has one account."""
    return lms, unit if lms in OF_ONE_ASSIGNMENT else ""


@dataclass
class Accounts:
    """`owner`: realm and account → student; `of`: realm and student → accounts; `ids`: students by folded id."""

    owner: dict[tuple[tuple[str, str], str], str] = field(default_factory=dict)
    of: dict[tuple[tuple[str, str], str], set[str]] = field(default_factory=lambda: defaultdict(set))
    ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_attempts(cls, known: Known, roster: Roster | None) -> "Accounts":
        """What the attempts that count say; of students on the roster, where there is one."""
        found = cls()
        for (student, unit), group in known.items():
            found.ids.setdefault(fold(student), student)
            if roster is None or student in roster.students:
                for one in _saying(group.values()):
                    found.owner[realm(one.lms, unit), one.account] = student
                    found.of[realm(one.lms, unit), student].add(one.account)
        return found


def _saying(group: Iterable[Attempt]) -> list[Attempt]:
    """The attempt that counts; where it came without an account (by hand), those that have one."""
    said = [one for one in group if one.account]
    return [one for one in said if one.counts] or said


def counting_attempts(known: Known, unit: str, lms: str, roster: Roster | None) -> dict[str, Attempt]:
    """Student → the attempt that counts, with its number in an LMS, to give something back under. A number that two
    have, or that the roster gives to nobody or another one, is nobody's."""
    found = {
        student: one
        for (student, of), group in known.items()
        for one in group.values()
        if of == unit and one.counts and one.lms == lms and one.lms_id and _agrees(student, one, roster)
    }
    numbers = [one.lms_id for one in found.values()]
    return {student: one for student, one in found.items() if numbers.count(one.lms_id) == 1}


def _agrees(student: str, one: Attempt, roster: Roster | None) -> bool:
    if one.lms != CANVAS or roster is None:
        return True
    here = roster.students.get(student)
    others = (other.canvas_id for other in roster.students.values() if other is not here)
    return one.lms_id not in others and (not here or here.canvas_id in ("", one.lms_id))
