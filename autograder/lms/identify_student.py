"""From what an LMS says of a hand-in to a student of the roster. Where that is not certain nobody is taken."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from autograder.csv_files import normalize_unicode
from autograder.gradebook.roster import Roster, Student, why_unusable
from autograder.lms.filenames import Claim
from autograder.sanitize_terminal import printable

BY_NUMBER = {"canvas": ("canvas_id", "student_id")}
BY_SID = ("sis_user_id", "student_id", "moodle_idnumber", "sis_login_id")
BY_NAME = ("student_id", "sis_login_id", "email", "canvas_id", "sis_user_id", "moodle_idnumber")
"""Where a name of a folder or a file may stand in the roster, beside the student's own names."""
BY_OWN_NAMES = ("canvas", "moodle", "brightspace", "gradescope")
"""Where people choose what to be called: nobody becomes another by taking that one's id for a name."""


class UnknownStudent(Exception):
    """A hand-in of which nobody can say whose it is; the text says why, and what to do."""


def name_key(name: str) -> str:
    """A name as systems agree on it: small letters and digits, without accents; `Lovelace, Ada` is lovelaceada."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    return "".join(char for char in bare.casefold() if char.isalnum())


class StudentIdentifier:
    """Finds students. Without a roster everybody has the id that the LMS gives."""

    def __init__(self, roster: Roster | None) -> None:
        self.roster, self.students = roster, roster.students if roster else {}
        self.by: dict[tuple[str, str], Student] = {}
        self.named: dict[str, set[str]] = defaultdict(set)
        for student in self.students.values():
            for column in ("canvas_id", *BY_SID, "email"):
                if value := getattr(student, column):
                    self.by[column, value.casefold()] = student
            for name in _names(student):
                self.named[name].add(student.student_id)

    def knows(self, name: str) -> bool:
        """Whether a name of a folder is a student's."""
        return bool(self.roster) and bool(self._by_name(name))

    def find(self, claims: list[Claim]) -> str:
        """The student's id. claims: readings of one name, the likeliest first. Raises UnknownStudent."""
        first = claims[0]
        if not self.roster or first.blind:
            return _own_id(first)
        for claim in claims:
            found = self._strong(claim)
            if found and (claim is first or name_key(claim.names[0]) in _names(found)):
                return found.student_id
        return self._one(first)

    def _strong(self, claim: Claim) -> Student | None:
        """By what stands in the roster once."""
        wanted = [(column, claim.person) for column in BY_NUMBER.get(claim.lms, ())]
        wanted += [("email", claim.email), *((column, claim.sid) for column in BY_SID)]
        return next(
            (self.by[place, text.casefold()] for place, text in wanted if text and (place, text.casefold()) in self.by),
            None,
        )

    def _one(self, claim: Claim) -> str:
        own_names = claim.lms in BY_OWN_NAMES
        for name in claim.names:
            candidates = self.named.get(name_key(name), ()) if own_names else self._by_name(name)
            found = {one for one in candidates if self._may_be(one, claim)}
            if len(found) == 1:
                return found.pop()
            if found:
                raise UnknownStudent(
                    f"could be {' or '.join(sorted(found)[:4])}: give the roster a column that tells them apart"
                )
        if claim.lms == "files" and (named := self._within(claim.names[-1])):
            return named
        shown = (
            f"canvas_id {claim.person}"
            if claim.lms == "canvas"
            else claim.sid or claim.email or (claim.names or ("",))[0]
        )
        raise UnknownStudent(f"not on the roster ({printable(shown)[:60]})")

    def _may_be(self, student_id: str, claim: Claim) -> bool:
        """Not somebody with the same name and another number."""
        number = self.students[student_id].canvas_id
        return not (claim.lms == "canvas" and number and number != claim.person)

    def _by_name(self, name: str) -> set[str]:
        text = normalize_unicode(name).casefold()
        found = {self.by[column, text].student_id for column in BY_NAME if (column, text) in self.by}
        return found or set(self.named.get(name_key(name), ()))

    def _within(self, stem: str) -> str:
        """The one student whose id, or whole name, is part of a file's name; "" where that is nobody, or several."""
        words = {word for word in _words(stem) if len(word) > 1}
        found = {one.student_id for (_, value), one in self.by.items() if value in words}
        found = found or {
            one for name, ids in self.named.items() if len(name) > 5 and name in name_key(stem) for one in ids
        }
        return found.pop() if len(found) == 1 else ""


def _names(student: Student) -> set[str]:
    first, last = student.first_name, student.last_name
    return (
        {name_key(name) for name in (first + last, last + first)} - {""}
        if first and last
        else {name_key(first + last)} - {""}
    )


def _words(stem: str) -> set[str]:
    """The parts of a file's name, and every run of neighbours that keeps `_`, `-` or `.` between them."""
    text = normalize_unicode(stem).casefold()
    cuts = [0, *(place + 1 for place, char in enumerate(text) if not char.isalnum()), len(text) + 1][:40]
    return {text[start : end - 1] for start in cuts for end in cuts if start < end - 1}


def _own_id(claim: Claim) -> str:
    """Without a roster: what the LMS says."""
    if claim.lms == "files" and len(claim.names) == 1:
        raise UnknownStudent(
            "the file's name says nothing of whose it is: give a roster, or put it into a folder with the student's id"
        )
    said: Iterable[str] = (claim.person if claim.lms == "canvas" else "", claim.sid, claim.email, *claim.names)
    name = next((normalize_unicode(text) for text in said if text.strip()), "")
    if not name:
        raise UnknownStudent("the download doesn't say whose it is")
    if why := why_unusable(name):
        raise UnknownStudent(f"{printable(name)[:60]!r} as a student's id {why}: give a roster")
    return name
