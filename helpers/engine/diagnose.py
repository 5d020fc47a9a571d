"""Name what went wrong: try every known misconception on the inputs on which the student's answer was tried."""

from .observe import Observation

# A check object and its trials come in, so that this file needs nothing of check.py at import.


def diagnose(check, trials: list, items: list) -> tuple[str | None, str]:
    """The name of the misconception (None where none fits) and a paragraph for the student."""
    forbidden = [item for item in items if item.label == "written without the forbidden function"]
    if forbidden:
        return "forbidden function", f"{forbidden[0].note} The point of this exercise is to write it yourself."
    if all(trial.passed for trial in trials):  # every value is right: something else is amiss
        return None, _first_problem(trials, items)
    found = _same_everywhere(check, trials) or _recognised(check, trials) or _same_somewhere(check, trials)
    if found:
        misconception, lead = found
        return misconception.name, f"{lead} {misconception.name}. {misconception.hint}"
    return None, _first_problem(trials, items)


def _same_everywhere(check, trials):
    for misconception in check.misconceptions:
        if all(_same_outcome(check, misconception, trial) for trial in trials) and _not_denied(misconception, trials):
            return misconception, "Your output is what you get with this slip:"
    return None


def _not_denied(misconception, trials) -> bool:
    """Of two slips that give the same values, the one whose own mark shows."""
    return not misconception.recognise or any(_recognises(misconception, trial.seen) for trial in trials)


def _recognised(check, trials):
    failed = [trial for trial in trials if not trial.passed]
    for misconception in check.misconceptions:
        if misconception.recognise and any(_recognises(misconception, trial.seen) for trial in failed):
            return misconception, "This looks like:"
    return None


def _same_somewhere(check, trials):
    """The misconception that explains the most failing cases, if these are more than half of them."""
    failed = [trial for trial in trials if not trial.passed and trial.seen.error is None]
    explained = {m: sum(_same_outcome(check, m, trial) for trial in failed) for m in check.misconceptions}
    best = max(explained, key=explained.get, default=None)
    if best is None or explained[best] <= len(failed) / 2:
        return None
    return best, f"In {explained[best]} of {len(failed)} failing cases your output is what you get with this slip:"


def _same_outcome(check, misconception, trial) -> bool:
    other = check.recall(misconception.function, trial.seen.args, trial.case.gradient)
    mine = trial.seen
    if mine.error or other.error:
        return bool(mine.error and other.error and mine.error.kind == other.error.kind)
    if mine.output is None or not check.agrees(mine.output, other.output, mine.args):
        return False
    return not trial.case.gradient or _same_reach(mine, other)


def _same_reach(mine: Observation, other: Observation) -> bool:
    return [g is None for g in mine.gradients] == [g is None for g in other.gradients]


def _recognises(misconception, seen: Observation) -> bool:
    try:
        return seen.error is None and bool(misconception.recognise(seen))
    except Exception:  # an output of another form than the predicate expects is not this misconception
        return False


def _first_problem(trials: list, items: list) -> str:
    for trial in trials:
        if not trial.passed:
            return f"With {trial.case.label}: {trial.note}"
    notes = [item.note or f"This does not hold: {item.label}." for item in items if not item.passed]
    return notes[0] if notes else ""
