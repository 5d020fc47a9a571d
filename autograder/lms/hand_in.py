"""A notebook of a student's, as a download holds it."""

from dataclasses import dataclass

from autograder.lms.accounts import realm
from autograder.lms.claim import Claim
from autograder.lms.identify_student import VOUCHED


@dataclass(frozen=True)
class HandIn:
    """A notebook in the staging folder. `why`: why it can't be graded, where it can't; `rank`: how sure it is whose it
    is; `assignment`: the unit that its download is of."""

    student_id: str
    unit: str
    sha256: str
    name: str
    claim: Claim
    why: str = ""
    rank: int = VOUCHED
    assignment: str = ""

    @property
    def account(self) -> tuple[str, tuple[str, str]]:
        """The student, and where an account is theirs."""
        return self.student_id, realm(self.claim.lms, self.assignment)

    @property
    def to_remember(self) -> str:
        """The account; none for a notebook that was handed in for another unit's assignment."""
        same = realm(self.claim.lms, self.assignment) == realm(self.claim.lms, self.unit)
        return self.claim.account if same else ""
