"""The checks put to the test: every misconception must lose points and be named, every right alternative must pass."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from autograder.course.exercises import Exercise, exercises
from autograder.course.paths import Course

POINTS = 8.0
SEED = secrets.randbits(32)  # fresh in every run, one for all: then a check remembers what its misconceptions do


@dataclass
class Proof:
    """How one exercise's check did. `misses` are lines that say what went wrong."""

    misconceptions: int = 0
    caught: int = 0
    named: int = 0
    alternatives: int = 0
    accepted: int = 0
    misses: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("misconceptions", "caught", "named", "alternatives", "accepted")}


def prove(course: Course, units: list[str]) -> dict[str, dict[str, Proof]]:
    """The proofs of the units' exercises: unit → exercise id → Proof."""
    return {unit: {exercise.id: prove_exercise(exercise) for exercise in exercises(course, unit)} for unit in units}


def prove_exercise(exercise: Exercise) -> Proof:
    """Tries every wrong answer and right alternative: on the cases that students see, and with the hidden ones."""
    proof = Proof()
    for name, answers in exercise.wrong_answers():
        _try_wrong(exercise, name, answers, proof)
    for style, answers in exercise.alternatives().items():
        _try_right(exercise, style, answers, proof)
    if not proof.misconceptions:
        proof.misses.append("has no misconceptions: nothing shows that its check can fail")
    return proof


def totals(proofs: dict[str, dict[str, Proof]]) -> dict[str, int]:
    """The counts of all exercises together."""
    every = [proof.counts() for unit in proofs.values() for proof in unit.values()]
    return {name: sum(counts[name] for counts in every) for name in Proof().counts()}


def as_json(proofs: dict[str, dict[str, Proof]]) -> dict:
    """{"exercises": {id: counts and misses}, "total": counts}"""
    found = {
        name: proof.counts() | {"misses": proof.misses} for unit in proofs.values() for name, proof in unit.items()
    }
    return {"exercises": found, "total": totals(proofs)}


def _try_wrong(exercise: Exercise, name: str, answers: tuple, proof: Proof) -> None:
    scores = _scores(exercise, answers)
    caught = all(float(score) < POINTS for score in scores)
    named = caught and all(score.diagnosis == name for score in scores)
    proof.misconceptions, proof.caught, proof.named = (
        proof.misconceptions + 1,
        proof.caught + caught,
        proof.named + named,
    )
    if not caught:
        where = "the visible cases" if float(scores[0]) >= POINTS else "the hidden cases added"
        proof.misses.append(f"misconception '{name}' gets full points with {where}")
    elif not named:
        given = next(score.diagnosis for score in scores if score.diagnosis != name)
        proof.misses.append(f"misconception '{name}' is diagnosed as {_quoted(given)}")


def _try_right(exercise: Exercise, style: str, answers: tuple, proof: Proof) -> None:
    wrong = [score for score in _scores(exercise, answers) if float(score) < POINTS]
    proof.alternatives, proof.accepted = proof.alternatives + 1, proof.accepted + (not wrong)
    if wrong:
        message = " ".join(wrong[0].message.split())
        proof.misses.append(f"alternative '{style}' gets {float(wrong[0]):g} of {POINTS:g}: {message}")


def _scores(exercise: Exercise, answers: tuple) -> list[Any]:
    """The check's scores on the visible cases alone, and with the hidden ones."""
    hidden = exercise.hidden_cases() or ()
    return [exercise.check(*answers, points=POINTS, cases=cases, seed=SEED) for cases in ((), hidden)]


def _quoted(name: str | None) -> str:
    return f"'{name}'" if name else "nothing known"
