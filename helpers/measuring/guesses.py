"""A unit's guesses beside what came out. Nothing of this is graded, and an unwritten guess (None) is no error."""

from collections.abc import Mapping
from typing import Any

NEAR = 1.25  # a guessed quantity is near if it is off by no more than this factor
SMALL = 10  # of two numbers below it nobody needs the quotient
UNWRITTEN = """No guess is written yet. The cells `guess_… = None` wait for yours:
the number, or the words in quotes, that their comment names."""


def guesses(rows: Mapping[str, tuple[object, object]]) -> None:
    """Print question, guess and outcome of every guess that is written. rows: question → (guess, outcome).

    An outcome may be a function without arguments: it is called only where a guess is written, since it may need an
    answer of the student's. A whole number is right or not; another number may be off by a quarter."""
    written = {question: row for question, row in rows.items() if row[0] is not None}
    if not written:
        print(UNWRITTEN)
        return
    table = [(question, _words(guess), *_judged(guess, outcome)) for question, (guess, outcome) in written.items()]
    widths = [max(len(row[column]) for row in [HEAD, *table]) for column in range(len(HEAD))]
    for row in [HEAD, *table]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"\n{_summary([row[-1] for row in table], len(rows) - len(written))}")


HEAD = ("question", "you", "it is", "")


def _judged(guess: object, outcome: object) -> tuple[str, str]:
    """The outcome in words, and what is to be said of the guess."""
    try:
        found = outcome() if callable(outcome) else outcome
    except NotImplementedError:
        return "(waits for your function)", ""
    except Exception as error:  # a student's function that isn't right yet
        return f"(your function stops: {type(error).__name__})", ""
    return _words(found), _verdict(guess, found)


def _verdict(guess: Any, found: Any) -> str:
    if not (_is_number(guess) and _is_number(found)):
        return "✓" if _plain(guess) == _plain(found) else "✗"
    if guess == found:
        return "✓"
    if min(guess, found) <= 0:
        return "✗"
    factor = max(guess, found) / min(guess, found)
    if factor <= NEAR and not isinstance(found, int):
        return "✓ near enough"
    if max(guess, found) < SMALL:
        return "✗"
    times = f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"
    return f"✗ {times} times too {'much' if guess > found else 'little'}"


def _summary(verdicts: list[str], unwritten: int) -> str:
    right, judged = sum("✓" in verdict for verdict in verdicts), sum(bool(verdict) for verdict in verdicts)
    lines = [f"{right} of {judged} came out as you guessed."]
    if right < judged:
        lines.append("Look at the others once more: can you say now why they came out otherwise?")
    if unwritten:
        lines.append(f"({unwritten} more {'guess is' if unwritten == 1 else 'guesses are'} not written.)")
    return "\n".join(lines)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if _is_number(value) else str(value)


def _plain(value: object) -> str:
    """What was meant, whatever the case, the spaces and the kind of brackets; True and False are yes and no."""
    value = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return "".join(str(value).casefold().split()).translate(str.maketrans("[]", "()"))
