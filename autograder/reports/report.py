"""`attn report`: how a class did, as one HTML page without server, network or script. What students wrote is
escaped."""

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.course import repository_url, sections
from autograder.course.paths import Course
from autograder.errors import BAD_INPUT, CourseError
from autograder.gradebook.grades import REJECTED
from autograder.reports import similarity
from autograder.reports.class_statistics import ExerciseStatistics, UnitStatistics, class_statistics
from autograder.reports.remediation_groups import MOST_GROUPS, Group, remediation_groups
from autograder.reports.similarity import Pair
from autograder.sanitize_terminal import printable
from autograder.whole_files import write_whole

BARS = 12
MOST_UNNAMED = 60


def report(
    course: Course, units: Iterable[str], into: Path | None = None, site: str = ""
) -> tuple[Path, list[UnitStatistics]]:
    """Writes the page. site: where the pages of `attn site` stand (address or folder), for links. Raises
    CourseError."""
    found = [class_statistics(course, unit) for unit in units]
    path = into or course.classroom / "report.html"
    try:
        write_whole(path, page(course, found, _pages(course, site)))
    except OSError as error:
        raise CourseError(f"{path} can't be written ({error.strerror}).") from None
    return path, found


def _pages(course: Course, site: str) -> str:
    """The address below which units have their pages; "" where there is none."""
    if re.match(r"https?://", site):
        return site.rstrip("/")
    folder = Path(site).resolve() if site else course.root / "site"
    if (folder / "index.html").is_file():
        return folder.as_uri()
    if site:
        raise CourseError(
            f"{site} has no index.html: make the pages with `attn site {site}`, or give an address.", BAD_INPUT
        )
    return ""


def page(course: Course, found: list[UnitStatistics], pages: str = "") -> str:
    """The HTML of some units. pages: the address of `attn site`'s pages."""
    index = _index(course)
    folder = FileSystemLoader(Path(__file__).parent)
    template = Environment(loader=folder, autoescape=True, undefined=StrictUndefined).get_template("report.html.j2")
    return template.render(
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        gram=similarity.GRAM,
        pages=pages,
        most_groups=MOST_GROUPS,
        units=[_unit(course, one, index) for one in found],
        groups=[_group(one, index) for one in remediation_groups(_held(found))],
        students=list(_students(found, index, pages)),
    )


def _index(course: Course) -> dict[str, list[str]]:
    """Exercise → number and title of its section."""
    path = course.root / sections.INDEX
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _unit(course: Course, one: UnitStatistics, index: dict[str, list[str]]) -> dict[str, Any]:
    most, scores = sum(item.points for item in one.items), one.scores
    return {
        "unit": one.unit,
        "title": one.unit[3:].replace("_", " "),
        "grades": one.grades,
        "scores": scores,
        "most": most,
        "mean": statistics.fmean(scores) if scores else 0.0,
        "median": statistics.median(scores) if scores else 0.0,
        "open": sum(item.open for item in one.items),
        "bars": _bars(scores, most),
        "missing": one.missing,
        "rejected": [grade.student.student_id for grade in one.grades if grade.status == REJECTED],
        "exercises": [_item(course, one.unit, item, index) for item in one.items],
        "misconceptions": one.misconceptions,
        "unnamed": one.unnamed[:MOST_UNNAMED],
        "more_unnamed": len(one.unnamed[MOST_UNNAMED:]),
        "equal": one.equal,
        "pairs": [_sides(pair, one.codes) for pair in one.pairs],
        "repairs": one.repairs,
        "beyond": one.beyond,
        "questions": {name: asked for name, asked in one.questions.items() if asked},
    }


def _held(found: list[UnitStatistics]) -> dict[str, frozenset[tuple[str, str]]]:
    """Student → (exercise, misconception), of all units."""
    held: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in found:
        for exercise, name, who in one.misconceptions:
            for student in who:
                held[student].add((exercise, name))
    return {student: frozenset(items) for student, items in held.items()}


def _group(one: Group, index: dict[str, list[str]]) -> dict[str, Any]:
    rows = [(exercise, *index.get(exercise, ["", ""]), name) for exercise, name in one.shared]
    return {"students": one.students, "share": one.share, "shared": rows}


def _bars(scores: list[float], most: float) -> list[dict[str, Any]]:
    """A histogram; the last bar holds its right edge too."""
    counts = [0] * BARS
    for score in scores:
        counts[min(BARS - 1, max(0, int(BARS * score / most)))] += 1
    highest = max(counts) or 1
    return [{"count": count, "height": round(85 * count / highest, 1)} for count in counts]


def _item(course: Course, unit: str, item: ExerciseStatistics, index: dict[str, list[str]]) -> dict[str, Any]:
    number, title = index.get(item.id, ["", ""])
    url = repository_url.repository_url(course)
    return vars(item) | {
        "number": number,
        "title": title,
        "link": f"{url}/blob/main/notebooks/{unit}/{unit}.ipynb" if url else "",
    }


def _sides(pair: Pair, codes: dict[str, str]) -> dict[str, Any]:
    """Both texts line by line, and whether the other one has a line too."""
    left, right = (
        codes[name].replace(similarity.BETWEEN, "\n\n").splitlines()[:400] for name in (pair.first, pair.second)
    )
    return vars(pair) | {"left": list(_marked(left, right)), "right": list(_marked(right, left))}


def _marked(lines: list[str], others: list[str]) -> Iterator[tuple[bool, str]]:
    there = {"".join(line.split()) for line in others}
    for line in lines:
        plain = "".join(line.split())
        yield len(plain) > 8 and plain in there, line[:300]


def _students(found: list[UnitStatistics], index: dict[str, list[str]], pages: str) -> Iterator[dict[str, Any]]:
    """A row for everybody: for each unit the score, and the sections where points were lost."""
    people = {grade.student.student_id: grade.student for one in found for grade in one.grades}
    scores = [{grade.student.student_id: grade.score for grade in one.grades} for one in found]
    for name, student in people.items():
        full = " ".join(filter(None, (student.first_name, student.last_name)))
        cells = [
            {"score": f"{of[name]:g}", "lost": _lost(one.unit, one.lost.get(name, ()), index, pages)}
            if of.get(name) is not None
            else None
            for one, of in zip(found, scores, strict=True)
        ]
        yield {"name": printable(f"{name} · {full}" if full else name), "cells": cells}


def _lost(unit: str, names: Iterable[str], index: dict[str, list[str]], pages: str) -> list[tuple[str, str]]:
    """Where to read and what it is called: one link for each section."""
    by_section = {index.get(name, [name])[0] or name: name for name in reversed(list(names))}
    return [(_place(unit, name, number, pages), number) for number, name in reversed(by_section.items())]


def _place(unit: str, exercise: str, number: str, pages: str) -> str:
    """A section in the unit's page; where there are no pages, the exercise's row in the report."""
    numbered = pages and number != exercise
    return f"{pages}/{unit}/index.html#s{number.replace('.', '-')}" if numbered else f"#e-{exercise}"
