"""The checks put to the test: every misconception must lose points and be named, every right alternative must pass."""

import difflib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from autograder.course.exercises import Exercise, exercises
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError

POINTS = 8.0
SEED = int(os.environ.get("ATTENTION_COURSE_SEED", secrets.randbits(32)))
"""Fresh in every run, one for all exercises: then a check remembers what its misconceptions do."""

RAISED = re.compile(r"stopped with an error(?:\. | \()(\w+)")  # in full, and of a hidden case
WRONG_SHAPE = ("RuntimeError", "ValueError")
"""What PyTorch raises where shapes don't fit: a wrong answer may do so on some inputs, as a student's does. Whatever
else a misconception raises is a slip in its own code, unless it says so (`raises=`)."""


@dataclass
class Proof:
    """How one exercise's check did: counts of what was tried, in every draw anew. `misses`: what went wrong."""

    misconceptions: int = 0
    caught: int = 0
    named: int = 0
    alternatives: int = 0
    accepted: int = 0
    misses: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("misconceptions", "caught", "named", "alternatives", "accepted")}


def prove(course: Course, units: list[str], only: str | None = None, draws: int = 1) -> dict[str, dict[str, Proof]]:
    """The proofs of the units' exercises: unit → exercise id → Proof. `only`: the one exercise to prove; `draws`: how
    many times over, each with inputs of its own."""
    found = {unit: exercises(course, unit, only) for unit in units}
    if only and not any(found.values()):
        raise CourseError(_unknown(only, [e.id for unit in units for e in exercises(course, unit)]), BAD_INPUT)
    return {
        unit: {exercise.id: prove_exercise(exercise, draws) for exercise in found[unit]}
        for unit in units
        if found[unit] or not only
    }


def prove_exercise(exercise: Exercise, draws: int = 1) -> Proof:
    """Tries every wrong answer and right alternative: on the cases that students see, and with the hidden ones."""
    proof, missed = Proof(), {}
    for seed in range(SEED, SEED + draws):
        for miss in filter(None, _tried(exercise, seed, proof)):
            missed.setdefault(miss, []).append(seed)
    proof.misses = [_told(miss, seeds, draws) for miss, seeds in missed.items()]
    return proof


def _tried(exercise: Exercise, seed: int, proof: Proof) -> Iterator[str]:
    """What went wrong in one draw, counting what was tried."""
    try:
        for name, answers in exercise.wrong_answers():
            yield _try_wrong(exercise, name, answers, seed, proof)
        for style, answers in exercise.alternatives().items():
            yield _try_right(exercise, style, answers, seed, proof)
    except Exception as error:  # of the check's own code: a case that can't be drawn, a reference that fails
        yield f"its check itself fails: {type(error).__name__}: {' '.join(str(error).split())}"
        return
    if not proof.misconceptions:
        yield "has no misconceptions: nothing shows that its check can fail"


def _told(miss: str, seeds: list[int], draws: int) -> str:
    """A miss, and in how many of the draws, where there were several: what a draw hides comes and goes."""
    if draws == 1:
        return miss
    return f"{miss} (in {len(seeds)} of {draws} draws; ATTENTION_COURSE_SEED={seeds[0]} shows it)"


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"There is no exercise {name} that code grades" + (f": is it {near[0]}?" if near else ".")


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


def _try_wrong(exercise: Exercise, name: str, answers: tuple, seed: int, proof: Proof) -> str:
    """What went wrong with a misconception, in a sentence; "" if it loses points and is named."""
    scores = _scores(exercise, answers, seed)
    crash = _crash(exercise, name, scores)
    caught = all(float(score) < POINTS for score in scores)
    named = caught and not crash and all(score.diagnosis == name for score in scores)
    proof.misconceptions, proof.caught, proof.named = (
        proof.misconceptions + 1,
        proof.caught + caught,
        proof.named + named,
    )
    if not caught:
        where = "the visible cases" if float(scores[0]) >= POINTS else "the hidden cases added"
        return f"misconception '{name}' gets full points with {where}"
    if crash:
        return f"misconception '{name}' {crash}"
    given = next((score.diagnosis for score in scores if score.diagnosis != name), name)
    return "" if named else f"misconception '{name}' is diagnosed as {_quoted(given)}"


def _crash(exercise: Exercise, name: str, scores: list[Any]) -> str:
    """What is wrong with a misconception that raises, in a phrase; "" if nothing is. A wrong answer that never gives an
    output shows nothing but that it crashes, and a crash of its own would be taken for every student's."""
    notes = [item.note for score in scores for item in _items(score) if item.counts]
    kinds = {match[1] for note in notes if (match := RAISED.search(note))} - _declared(exercise, name)
    if slips := sorted(kinds.difference(WRONG_SHAPE)):
        note = next((note for note in notes if f"error. {slips[0]}" in note), f"error. {slips[0]}")
        text = " ".join(note.split("error. ", 1)[1].split())
        return f"raises {text}: mend it, or declare it with raises="
    if kinds and all(RAISED.search(note) for note in notes):
        return f"raises {sorted(kinds)[0]} in every case: add one whose shapes it accepts, or declare it with raises="
    return ""


def _items(score: Any) -> Iterator[Any]:
    yield from getattr(score, "items", ())
    for part in getattr(score, "parts", ()):
        yield from _items(part)


def _declared(exercise: Exercise, name: str) -> set[str]:
    """The kinds of errors that a misconception says it stops with."""
    parts = getattr(exercise.check, "parts", {"": exercise.check}).values()
    named = (m for part in parts for m in getattr(part, "misconceptions", ()) if m.name == name)
    return {kind for misconception in named for kind in misconception.raises.split()}


def _try_right(exercise: Exercise, style: str, answers: tuple, seed: int, proof: Proof) -> str:
    wrong = [score for score in _scores(exercise, answers, seed) if float(score) < POINTS]
    proof.alternatives, proof.accepted = proof.alternatives + 1, proof.accepted + (not wrong)
    if not wrong:
        return ""
    message = " ".join(wrong[0].message.split())
    return f"alternative '{style}' gets {float(wrong[0]):g} of {POINTS:g}: {message}"


def _scores(exercise: Exercise, answers: tuple, seed: int) -> list[Any]:
    """The check's scores on the visible cases alone, and with the hidden ones."""
    hidden = exercise.hidden_cases() or ()
    return [exercise.check(*answers, points=POINTS, cases=cases, seed=seed) for cases in ((), hidden)]


def _quoted(name: str | None) -> str:
    return f"'{name}'" if name else "nothing known"
