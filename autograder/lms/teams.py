"""Hand-ins of teams: what one of a team handed in is everybody's who has the same `team` in the roster."""

from dataclasses import replace

from autograder.lms.claim import CANVAS
from autograder.lms.hand_in import HandIn
from autograder.lms.identify_student import StudentIdentifier


def share_with_teams(found: list[HandIn], who: StudentIdentifier) -> tuple[list[HandIn], list[str]]:
    """The same hand-ins for the other members, and lines about what can't be shared."""
    of_teams, single = [one for one in found if one.claim.team], [one for one in found if not one.claim.team]
    notes = []
    if alone := sorted({one.student_id for one in of_teams if not who.team_of(one.student_id)}):
        notes.append(f"nobody else is in their team in the roster: {', '.join(alone[:20])}")
    if like_teams := {one.claim.entry for one in single if who.is_called_like_a_team(one.claim)}:
        notes.append(f"{len(like_teams)} are called like teams: with --teams each counts for all of its team")
    return [_of(member, one, who) for one in of_teams for member in who.team_of(one.student_id)], notes


def _of(member: str, one: HandIn, who: StudentIdentifier) -> HandIn:
    """The same hand-in as this member's: the account is the other's, the number for feedback their own."""
    number = who.students[member].canvas_id if one.claim.lms == CANVAS else ""
    return replace(one, student_id=member, claim=replace(one.claim, number=number, email="", sid=""))
