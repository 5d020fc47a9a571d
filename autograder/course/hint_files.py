"""What is amiss in the Markdown beside checks: each wrong answer with a key has a hint, each hint a wrong answer."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from autograder.course import exercises
from autograder.course.visibility import HELPERS, room
from autograder.errors import CourseError


def problems(unit: str) -> Iterator[str]:
    """Lines for the author of a unit."""
    parts = [part for check in _checks(unit) for part in getattr(check, "parts", {"": check}).values()]
    wrong = [one for part in parts for one in getattr(part, "misconceptions", ()) if getattr(one, "key", "")]
    for one in wrong:
        if not one.hint:
            yield f"wrong answer {one.key} has no hint: write `## {one.key}: its name` and the hint beside its check"
    used = {one.key for one in wrong}
    for path in sorted((HELPERS / room(unit) / "checks").glob("*.md")):
        yield from (f"{path.relative_to(HELPERS.parent)}: {problem}" for problem in _file(path, used))


def _checks(unit: str) -> Iterator[Any]:
    """All checks of the unit. One that can't be imported is a problem of its test cell."""
    from helpers import registry  # here, for `helpers` imports torch

    for name, module in registry.offered("checks").items():
        if module.startswith(f"helpers.{room(unit)}."):
            with suppress(CourseError):
                yield exercises.find_check(name)


def _file(path: Path, used: set[str]) -> Iterator[str]:
    from helpers.engine.hints import HEADING, keys_beside

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        yield "is no UTF-8 text"
        return
    for line in re.findall(r"^#.*\n?", text, re.MULTILINE):
        if not HEADING.match(line if line.endswith("\n") else line + "\n"):
            yield f"`{line.strip()}` is no heading of a hint: write `## key: name`"
    for key, times in Counter(keys_beside(str(path))).items():
        if times > 1:
            yield f"{key} stands there {times} times"
        elif key not in used:
            yield f"{key} belongs to no wrong answer"
