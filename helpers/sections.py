"""Where an exercise stands in the course: number and title of its section, as in the headings of the notebooks."""

import json
from functools import cache
from pathlib import Path

SECTIONS = Path(__file__).with_name("sections.json")  # `attn build` makes it from those headings


def section(exercise: str) -> str:
    """Number and title in a sentence: "3.13 (The zoo)"; the exercise's name where it stands in no section."""
    number, title = _all().get(exercise, ("", exercise))
    return f"{number} ({title})" if number else f"`{title}`"


def heading(exercise: str) -> str:
    """Number and title as above the section: "3.13 The zoo"; "" where the exercise stands in none."""
    return " ".join(_all().get(exercise, ()))


@cache
def _all() -> dict[str, list[str]]:
    return json.loads(SECTIONS.read_text(encoding="utf-8"))
