"""Whose a line of an LMS's table is. The same as in `attn collect`: a number or an e-mail that the roster or an earlier
hand-in vouches for; a display name only where nothing speaks against it. A line that two could have is nobody's."""

from collections import defaultdict
from dataclasses import dataclass, field

from autograder.gradebook import grades
from autograder.gradebook.grades import Grade
from autograder.gradebook.roster import fold
from autograder.lms.claim import CANVAS
from autograder.lms.identify_student import name_key, names_of


@dataclass(frozen=True)
class Line:
    """What a line says of whose it is. `said`: column of the roster → text."""

    number: str
    said: dict[str, str]
    name: str


@dataclass
class MatchedLines:
    """`of`: place of a line → the grade that belongs there; `unclear`: students of whom several lines speak."""

    of: dict[int, Grade] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)

    def notes(self, found: list[Grade]) -> list[str]:
        """Lines about grades that went nowhere."""
        there = {one.student.student_id for one in self.of.values()} | set(self.unclear)
        left = [one.student.student_id for one in found if grades.exported_score(one) is not None]
        left = [name for name in left if name not in there]
        notes = [f"with a grade, but not in the file: {grades.shorten_list(left)}"] if left else []
        if self.unclear:
            notes.append(
                "left out, for which line is theirs can't be told (numbers, e-mails and what was collected say "
                f"different things): {grades.shorten_list(self.unclear)}"
            )
        return notes


def match_lines(lms: str, lines: dict[int, Line], found: list[Grade], numbers: dict[str, str]) -> MatchedLines:
    """numbers: student → the LMS's number under which their work was collected."""
    keys = {one.student.student_id: _keys(lms, one, numbers) for one in found}
    vouched = {at: {student for student, own in keys.items() if own & _said(line)} for at, line in lines.items()}
    places: dict[str, list[int]] = defaultdict(list)
    for at, students in vouched.items():
        for student in students:
            places[student].append(at)
    unclear = {student for student, at in places.items() if len(at) > 1 or len(vouched[at[0]]) > 1}
    matched = {at[0]: student for student, at in places.items() if student not in unclear}
    matched |= _by_name(
        lms, {at: lines[at] for at, students in vouched.items() if not students}, found, places, numbers
    )
    by_id = {one.student.student_id: one for one in found}
    return MatchedLines({at: by_id[student] for at, student in matched.items()}, sorted(unclear))


def _keys(lms: str, one: Grade, numbers: dict[str, str]) -> set[tuple[str, str]]:
    who = one.student
    own = {name: getattr(who, name) for name in ("sis_user_id", "sis_login_id", "email", "moodle_idnumber")}
    number = (who.canvas_id if lms == CANVAS else "") or numbers.get(who.student_id, "")
    return {(name, fold(text)) for name, text in (own | {"number": number}).items() if text}


def _said(line: Line) -> set[tuple[str, str]]:
    return {(name, fold(text)) for name, text in (line.said | {"number": line.number}).items() if text}


def _by_name(
    lms: str, lines: dict[int, Line], found: list[Grade], placed: dict[str, list[int]], numbers: dict[str, str]
) -> dict[int, str]:
    """Who has no line yet, and a name that nobody else has and no other line says."""
    could: dict[int, list[str]] = {
        at: [
            one.student.student_id
            for one in found
            if name_key(line.name) in names_of(one.student) and not _differs(lms, line, one, numbers)
        ]
        for at, line in lines.items()
    }
    # Canvas's number may be the student_id: then it tells those of one name apart
    could = {
        at: [name for name in names if fold(name) == fold(lines[at].number)] or names for at, names in could.items()
    }
    wanted = [name for names in could.values() for name in names]
    return {
        at: names[0]
        for at, names in could.items()
        if len(names) == 1 and wanted.count(names[0]) == 1 and names[0] not in placed
    }


def _differs(lms: str, line: Line, one: Grade, numbers: dict[str, str]) -> bool:
    """Whether it is somebody else of this name."""
    said, own = dict(_said(line)), dict(_keys(lms, one, numbers))
    return any(own[name] != text for name, text in said.items() if name in own)
