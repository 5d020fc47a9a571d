"""The cell headers of a percent source, `# %% nbgrader={…}`, looked at before jupytext reads them: what it can't read
it takes for a title, and the mistake would show far from its place."""

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

HEADER = re.compile(r"^# %%(?P<rest>.*)$")
ENTRY = re.compile(r"(\w+) *= *(?=[\[{])")
KEYS: dict[str, type | tuple[type, ...]] = {
    "grade": bool,
    "solution": bool,
    "locked": bool,
    "task": bool,
    "schema_version": int,
    "grade_id": str,
    "points": (int, float),
    "checksum": str,
    "cell_type": str,
}
NEEDED = ("grade", "solution", "locked", "schema_version", "grade_id")
JSON_WORDS = "JSON writes true and false, double quotes, and a comma between entries"


def problems(text: str) -> Iterator[str]:
    """Headers that nobody could read, and keys that nbgrader doesn't know, each with its line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if match := HEADER.match(line):
            yield from (f"line {number}: {problem}" for problem in _header(match["rest"]))


def _header(rest: str) -> Iterator[str]:
    for match in ENTRY.finditer(re.sub(r'"[^"]*"', lambda text: "_" * len(text[0]), rest)):
        if match[1] not in ("nbgrader", "tags"):
            yield f"the header sets '{match[1]}'{_near(match[1], ('nbgrader', 'tags'))}: only nbgrader and tags count"
        elif match[1] == "nbgrader":
            yield from _metadata(rest[match.end() :])


def _metadata(text: str) -> Iterator[str]:
    try:
        metadata, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        yield f"the header is no JSON at '{text[error.pos : error.pos + 20]}' ({error.msg}): {JSON_WORDS}"
        return
    for key, value in metadata.items():
        if key not in KEYS:
            yield f"nbgrader knows no key '{key}'{_near(key, KEYS)}"
        elif not isinstance(value, KEYS[key]) or isinstance(value, bool) != (KEYS[key] is bool):
            yield f"'{key}' is {json.dumps(value)}, which is no {_kind(KEYS[key])}"
    known = {_nearest(key, KEYS) for key in metadata}
    if missing := [key for key in NEEDED if key not in known]:
        yield f"the header lacks {', '.join(missing)}"


def _nearest(key: str, known) -> str:
    return next(iter(difflib.get_close_matches(key, known, n=1)), key)


def _near(key: str, known) -> str:
    nearest = _nearest(key, known)
    return f" (is it '{nearest}'?)" if nearest != key else ""


def _kind(kind: Any) -> str:
    return {bool: "truth value", str: "text"}.get(kind, "number")
