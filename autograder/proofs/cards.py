"""`attn cards`: every card that the course's own wrong answers get, and a green one of each exercise, on one page."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from rich.progress import Progress

from autograder.course.exercises import Exercise, exercises
from autograder.course.paths import Course
from helpers.engine.card import title

SEED = 1  # the same page at every run
GREEN = "a right answer"
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 60rem; padding: 1rem 2rem; font: 15px/1.5 system-ui, sans-serif }}
body {{ background: #fff; color: #202124 }}
body.dark {{ background: #111; color: #e3e3e3 }}
body.dark a {{ color: #8ab4f8 }}
nav {{ columns: 3; font-size: 13px }}
nav h2, h3 {{ break-after: avoid }}
nav h2 {{ font-size: 14px; margin: .6em 0 0 }}
h3 {{ margin: 2.5em 0 .5em; border-top: 1px solid #888; padding-top: .5em }}
h4 {{ margin: 1.5em 0 0; font-size: 13px; font-weight: 400 }}
button {{ position: fixed; top: 1rem; right: 1rem }}
</style>
<button onclick="document.body.classList.toggle('dark')">light / dark</button>
<h1>{title}</h1>
<p>{count}</p>
<nav>{index}</nav>
{body}
</html>
"""


@dataclass(frozen=True)
class CardExample:
    """One card: the wrong answer that it was made for, what it names, and its HTML."""

    exercise: Exercise
    answer: str
    named: str | None
    html: str


def cards(course: Course, units: list[str], progress: Progress) -> list[CardExample]:
    """The cards of these units, in the order of the notebooks."""
    found = [exercise for unit in units for exercise in exercises(course, unit)]
    return [card for exercise in progress.track(found, description="cards") for card in _cards(exercise)]


def page(shown: list[CardExample]) -> str:
    """The cards with an index, the number of them, and a switch between a light and a dark ground."""
    wrong = sum(card.answer != GREEN for card in shown)
    units = list(dict.fromkeys(card.exercise.unit for card in shown))
    index = "".join(f"<h2>{unit}</h2>{'<br>'.join(_links(shown, unit))}" for unit in units)
    count = f"{wrong} cards of wrong answers and {len(shown) - wrong} of right ones, in {len(units)} units"
    return PAGE.format(title="The cards of the course", count=count, index=index, body="".join(_sections(shown)))


def _cards(exercise: Exercise) -> Iterator[CardExample]:
    answers = [(GREEN, exercise.references()), *exercise.wrong_answers()]
    for name, functions in answers:
        score = exercise.check(*functions, points=exercise.points, seed=SEED)
        yield CardExample(exercise, name, score.diagnosis, score._repr_mimebundle_()["text/html"])


def _links(shown: list[CardExample], unit: str) -> list[str]:
    names = dict.fromkeys(card.exercise.id for card in shown if card.exercise.unit == unit)
    return [f'<a href="#{name}">{escape(title(name))}</a>' for name in names]


def _sections(shown: list[CardExample]) -> Iterator[str]:
    before = None
    for card in shown:
        if card.exercise.id != before:
            before = card.exercise.id
            yield f'<h3 id="{before}">{escape(title(before))} <small>{before}</small></h3>'
        other = f", named “{card.named}”" if card.answer not in (GREEN, card.named) else ""
        yield f"<h4>{escape(card.answer)}{escape(other)}</h4>{card.html}"
