"""From what an LMS says of a hand-in to a student. First comes what the roster vouches for (a number, an e-mail), then
the account under which somebody was known before, then the display name, which a student may choose: it never stands
against one of the others. Where that is not certain nobody is taken."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autograder.csv_files import normalize_unicode
from autograder.gradebook.roster import Roster, Student, fold, why_unusable
from autograder.lms.accounts import Accounts, realm
from autograder.lms.claim import BLACKBOARD, CANVAS, FILES, FOLDERS, GRADESCOPE, MOODLE, Claim
from autograder.sanitize_terminal import printable

NAMED, LOGGED_IN, REMEMBERED, VOUCHED = range(4)
"""How sure it is, the least first."""
BY_SID = ("sis_user_id", "moodle_idnumber", "sis_login_id")
ALIAS = "alias"
BY_NAME = (ALIAS, "student_id", "sis_login_id", "email", "canvas_id", "sis_user_id", "moodle_idnumber")
"""Where the name of an instructor's folder may stand in the roster, beside the student's own names."""
BY_LOGIN = tuple(column for column in BY_NAME if column != "canvas_id")
"""Where a login, or a part of a folder's name: Canvas's numbers are like those of others."""
SID_OF = {GRADESCOPE: "sis_user_id", MOODLE: "moodle_idnumber"}
"""The column that an LMS's student number belongs into."""


class UnknownStudent(Exception):
    """A hand-in of which nobody can say whose it is; the text says why, and what to do."""


@dataclass(frozen=True)
class Identified:
    """A student, and how sure it is; `claim`: the reading of the download's that says so."""

    student_id: str
    rank: int
    claim: Claim


def name_key(name: str) -> str:
    """A name as systems agree on it: small letters and digits, without accents; `Lovelace, Ada` is lovelaceada."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    return "".join(char for char in bare.casefold() if char.isalnum())


def names_of(student: Student) -> set[str]:
    """The keys of a student's whole name, in both orders."""
    first, last = student.first_name, student.last_name
    return {name_key(name) for name in (first + last, last + first)} - {""}


class StudentIdentifier:
    """Finds students. Without a roster everybody has the id that the LMS gives."""

    def __init__(
        self, roster: Roster | None, accounts: Accounts | None = None, aliases: dict[str, str] | None = None
    ) -> None:
        self.roster, self.students = roster, roster.students if roster else {}
        self.accounts = accounts or Accounts()
        self.ids = dict(self.accounts.ids)
        self.by: dict[tuple[str, str], str] = {}
        self.named: dict[str, set[str]] = defaultdict(set)
        self.teams: dict[str, list[str]] = defaultdict(list)
        self.knows_logins = False
        for student in self.students.values():
            self.by |= {
                (column, fold(value)): student.student_id
                for column in BY_NAME
                if (value := getattr(student, column, ""))
            }
            for name in names_of(student):
                self.named[name].add(student.student_id)
            if student.team:
                self.teams[name_key(student.team)].append(student.student_id)
        said = {text: student for text, student in (aliases or {}).items() if student in self.students or not roster}
        self.by |= {(ALIAS, fold(text)): student for text, student in said.items()}

    def knows(self, name: str) -> bool:
        """Whether the name of a folder is a student's."""
        return bool(self._by_folder(name)) if self.roster else fold(name) in self.accounts.ids

    def holds(self, name: str) -> bool:
        """Whether a student's id, or whole name, is part of the name of a folder."""
        return bool(self._within(name))

    def look_at(self, claims: Iterable[Claim]) -> None:
        """Whether the roster has the logins of a download, most of them: then who has another is nobody on it, whatever
        the name."""
        logins = {claim.logins for claim in claims if claim.logins}
        known = [each for each in logins if any(self._by_text(one, BY_LOGIN) for one in each)]
        self.knows_logins = bool(known) and 2 * len(known) >= len(logins)

    def find(self, readings: list[Claim], assignment: str) -> Identified:
        """The student of a hand-in for the assignment of a unit. Raises UnknownStudent."""
        claim, *others = readings
        if aliased := self._by_text(claim.entry, (ALIAS,)):
            return Identified(aliased.pop(), VOUCHED, claim)
        if others:
            raise UnknownStudent("its name can be read in several ways, so whose it is can't be told: rename it")
        vouched = self._vouched(claim)
        if len(vouched) > 1:
            raise UnknownStudent(f"its numbers are those of {' and '.join(sorted(vouched)[:4])}")
        if vouched:
            return Identified(vouched.pop(), VOUCHED, replace(claim, number="") if claim.lms == FOLDERS else claim)
        before = self.accounts.owner.get((realm(claim.lms, assignment), claim.account)) if claim.account else None
        if before and not self._differs(before, claim):
            return Identified(self._remembered(before, claim), REMEMBERED, claim)
        logged_in, team = self._logged_in(claim), self._team(claim)
        claim = replace(claim, team=claim.team or bool(team))
        student = logged_in or team or (self._one(claim) if self.roster and not claim.blind else self._own_id(claim))
        self._refuse_another_account(student, claim, assignment)
        return Identified(student, LOGGED_IN if logged_in else NAMED, claim)

    def _vouched(self, claim: Claim) -> set[str]:
        """By what stands in the roster once, and nobody can choose."""
        number = self._by_text(claim.number, ("canvas_id",)) if claim.lms == CANVAS else set()
        sid = self._by_text(claim.sid, BY_SID) if claim.lms != GRADESCOPE else set()
        folder = self._by_text(claim.names[0], BY_NAME) if claim.lms == FOLDERS else set()
        alias = {one for login in claim.logins for one in self._by_text(login, (ALIAS,))}
        return number | sid | folder | alias | self._by_text(claim.email, ("email",))

    def _by_text(self, text: str, columns: Iterable[str]) -> set[str]:
        return {self.by[column, fold(text)] for column in columns if (column, fold(text)) in self.by}

    def _remembered(self, before: str, claim: Claim) -> str:
        named = self._called(claim) | self._by_login(claim)
        if named and before not in named:
            raise UnknownStudent(
                f"number {printable(claim.account)[:40]} is {before}'s, and the name is "
                f"{' or '.join(sorted(named)[:4])}'s: nobody's work is replaced by it"
            )
        return before

    def _logged_in(self, claim: Claim) -> str:
        """Whose login it is; "" for nobody's. Raises UnknownStudent where the name is another student's."""
        found = self._by_login(claim)
        named = self._called(claim) if claim.lms != FOLDERS else set()
        if len(found | named) > 1 and found:
            raise UnknownStudent(f"could be {' or '.join(sorted(found | named)[:4])}")
        return found.pop() if found else ""

    def _by_login(self, claim: Claim) -> set[str]:
        return {student for login in claim.logins for student in self._by_text(login, BY_LOGIN)}

    def _team(self, claim: Claim) -> str:
        """The first of the team that a folder or a login names; what students call themselves names one only where the
        instructor says that the hand-ins are teams'."""
        names = (claim.entry,) if claim.lms == FOLDERS else claim.logins if claim.lms == BLACKBOARD else ()
        keys = map(name_key, (*names, *((*claim.names, *claim.logins) if claim.team else ())))
        return next((self.teams[key][0] for key in keys if key in self.teams), "")

    def is_called_like_a_team(self, claim: Claim) -> bool:
        """Whether the name, in whatever form the LMS gives it, is a team's."""
        return any(name_key(name) in self.teams for name in (*claim.names, *claim.logins))

    def team_of(self, student_id: str) -> list[str]:
        """The others of a student's team."""
        team = self.students[student_id].team if student_id in self.students else ""
        return [one for one in self.teams.get(name_key(team), []) if one != student_id] if team else []

    def _refuse_another_account(self, student: str, claim: Claim, assignment: str) -> None:
        earlier = self.accounts.of.get((realm(claim.lms, assignment), student), set()) if claim.account else set()
        if earlier and claim.account not in earlier:
            raise UnknownStudent(
                f"called like {student}, who was collected under number {', '.join(sorted(earlier)[:3])}, but this is "
                f"{printable(claim.account)[:40]}: somebody else's, until the roster says so"
            )

    def _called(self, claim: Claim) -> set[str]:
        """Whose display name it is, as far as the name goes."""
        if not self.roster:
            own = (self.ids.get(fold(normalize_unicode(name))) for name in claim.names)
            return {one for one in own if one} if claim.lms != CANVAS and not claim.blind else set()
        return self._by_text(claim.sid, BY_SID).union(*(self._holding(claim, name) for name in claim.names))

    def _one(self, claim: Claim) -> str:
        """By the name alone; in Gradescope by the student number, which who joins with a code may write there."""
        if len(by_sid := self._by_text(claim.sid, BY_SID)) == 1:
            return self._typed(by_sid.pop(), claim)
        other = ""
        for name in claim.names if not (claim.logins and self.knows_logins) else ():
            own = self._by_folder(name) if claim.lms == FILES else self._holding(claim, name)
            found = {one for one in own if not self._differs(one, claim)}
            found = {one for one in found if fold(one) in (fold(claim.number), fold(claim.sid))} or found
            if len(found) == 1:
                return found.pop()
            if found:
                raise UnknownStudent(
                    f"could be {' or '.join(sorted(found)[:4])}: give the roster a column that tells them apart"
                )
            other = other or next(
                (f": called like {one}, with another {self._differs(one, claim)}" for one in sorted(own)), ""
            )
        if claim.lms == FILES and len(named := self._within(claim.names[-1])) == 1:
            return named.pop()
        raise UnknownStudent(f"not on the roster ({printable(self._shown(claim))[:60]}{other})")

    def _holding(self, claim: Claim, name: str) -> set[str]:
        """Whose whole name it is; in that of a plain folder it may stand among other words, unless these are logins."""
        if claim.lms == FOLDERS:
            return self._within(name) if not (claim.logins and self.knows_logins) else set()
        return self.named.get(name_key(name), set())

    def _typed(self, student_id: str, claim: Claim) -> str:
        """Whose number somebody has typed: theirs, if neither an e-mail nor the name says otherwise."""
        names = {name for name, ids in self.named.items() if student_id in ids}
        other = self._differs(student_id, claim)
        if not other and claim.email and names and not names.intersection(map(name_key, claim.names)):
            other = "name"
        if other:
            raise UnknownStudent(
                f"its student number is {student_id}'s, with another {other}: whose it is, the roster must say"
            )
        return student_id

    def _shown(self, claim: Claim) -> str:
        if claim.lms == CANVAS:
            return f"canvas_id {claim.number}"
        return claim.sid or claim.email or (*claim.logins[:1], *claim.names, "")[0]

    def _differs(self, student_id: str, claim: Claim) -> str:
        """The column by which somebody with the same name is another one; "" for none."""
        student = self.students.get(student_id, Student(student_id))
        said = {"email": claim.email, SID_OF.get(claim.lms, ""): claim.sid}
        said |= {"canvas_id": claim.number} if claim.lms == CANVAS else {}
        here = {column: getattr(student, column, "") for column in said}
        return next(
            (column for column, text in said.items() if text and here[column] and fold(text) != fold(here[column])), ""
        )

    def _by_folder(self, name: str) -> set[str]:
        text = fold(normalize_unicode(name))
        return self._by_text(text, BY_NAME) or set(self.named.get(name_key(name), ()))

    def _within(self, text: str) -> set[str]:
        """Whose id, or first and last name, stands in a name as whole words."""
        words = {word for word in _words(text) if len(word) > 1}
        found = {one for (column, value), one in self.by.items() if value in words and column in BY_LOGIN}
        named = {one for word in words for one in self.named.get(name_key(word), ())}
        return found | {one for one in named if self.students[one].first_name and self.students[one].last_name}

    def _own_id(self, claim: Claim) -> str:
        """Without a roster: what the LMS says; the same in other letters is the same."""
        if claim.lms == FILES and len(claim.names) == 1:
            raise UnknownStudent(
                "the file's name says nothing of whose it is: give a roster, or put it into a folder with the "
                "student's id"
            )
        login = claim.logins[:1] if claim.lms != FOLDERS else ()
        said: Iterable[str] = (
            claim.number if claim.lms == CANVAS else "",
            *login,
            claim.sid,
            claim.email,
            *claim.names,
        )
        name = next((normalize_unicode(text) for text in said if text.strip()), "")
        if not name:
            raise UnknownStudent("the download doesn't say whose it is")
        if why := why_unusable(name):
            raise UnknownStudent(f"{printable(name)[:60]!r} as a student's id {why}: give a roster")
        return self.ids.setdefault(fold(name), name)


def _words(name: str) -> set[str]:
    """The parts of a name, and every run of neighbours that keeps `_`, `-` or `.` between them; none of one with very
    many, for those that are left unread may say something else."""
    text = fold(normalize_unicode(name))
    cuts = [0, *(place + 1 for place, char in enumerate(text) if not char.isalnum()), len(text) + 1]
    return {text[start : end - 1] for start in cuts for end in cuts if start < end - 1} if len(cuts) <= 40 else set()
