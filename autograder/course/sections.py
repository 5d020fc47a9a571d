"""A unit's sections: their numbers, titles and points as the headings state them, and the graded cells below each.

The heading is where a section's number stands; everything else that tells it is made from there (`index`). Points are
given in the metadata of the graded cell; headings, intro, README and syllabus repeat them; `attn lint` compares."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course.paths import Course

HEADING = re.compile(r"^## (?P<number>\d+\.\d+) +(?P<title>.*?)(?:  +(?P<about>[●○]{3}.*))?$")
QUESTION = re.compile(r"^### (?!\d+\.\d)(?P<title>.+?)  +(?P<about>[●○]{3} .*)$")
OTHER_LEVEL = re.compile(r"^#(?:#{2,})? (\d+\.\d+) ", re.MULTILINE)
STATED = re.compile(r"(\d+(?:\.\d+)?) points?\b")
MINUTES = re.compile(r"(\d+) min\b")
INTRO = re.compile(r"(\d+(?:\.\d+)?) points? to earn")
INDEX = Path("helpers") / "sections.json"
UNITS = Path("helpers") / "units.json"
TITLE = re.compile(r"# \d\d · (?P<title>.+)")


@dataclass
class Section:
    """A numbered heading (H2), or a written question inside a section (H3; `number` is empty), and what is graded
    below."""

    number: str
    title: str
    stated: float
    minutes: int = 0
    graded: list[NotebookNode] = field(default_factory=list)

    @property
    def points(self) -> float:
        return sum(notebooks.points(cell) for cell in self.graded)


def sections(notebook: NotebookNode) -> list[Section]:
    """The sections and written questions of a unit, in order."""
    found: list[Section] = []
    for cell in notebook.cells:
        lines = cell.source.split("\n") if cell.cell_type == "markdown" else []
        found += [_section(match) for line in lines if (match := HEADING.match(line) or QUESTION.match(line))]
        if found and notebooks.flag(cell, "grade") and "points" in notebooks.nbgrader_metadata(cell):
            found[-1].graded.append(cell)
    return found


def index(notebook: NotebookNode) -> dict[str, tuple[str, str]]:
    """Exercise id → number and title of the section in which it stands, and its own name where several have a check
    there."""
    numbered, found = None, {}
    for section in sections(notebook):
        numbered = section if section.number else numbered
        ids = [notebooks.exercise_id(cell) for cell in section.graded]
        several = sum(map(notebooks.is_test, section.graded)) > 1
        found |= {name: (numbered.number, numbered.title + f": {name}" * several) for name in ids if numbered}
    return found


def index_text(course: Course, notebook_of) -> str:
    """What `helpers/sections.json` holds: the index of all units. notebook_of: the notebook of a source."""
    entries = {}
    for unit in course.units():
        entries |= index(notebook_of(course.source(unit)))
    lines = [f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in entries.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def units_text(course: Course, notebook_of) -> str:
    """What `helpers/units.json` holds: every unit's title and what is graded in it, in order, with its points."""
    entries = {unit[:2]: _unit_entry(unit, notebook_of(course.source(unit))) for unit in course.units()}
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _unit_entry(unit: str, notebook: NotebookNode) -> dict:
    first = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), "")
    title, places = TITLE.match(first), index(notebook)
    found = [cell for section in sections(notebook) for cell in section.graded]
    return {"title": title["title"] if title else unit[3:], "graded": [_graded_entry(cell, places) for cell in found]}


def _graded_entry(cell: NotebookNode, places: dict[str, tuple[str, str]]) -> dict:
    name, points = notebooks.exercise_id(cell), notebooks.points(cell)
    number, title = places.get(name, ("", name))
    points = int(points) if points == int(points) else points
    return {"id": name, "number": number, "title": title, "points": points, "written": notebooks.is_written(cell)}


def problems(course: Course, unit: str, notebook: NotebookNode) -> Iterator[str]:
    """Numbers that are out of order, and points that are not those of the graded cells."""
    found = sections(notebook)
    for section in found:
        if section.stated != section.points:
            name = f"section {section.number}".strip() if section.number else "question"
            cells = ", ".join(notebooks.grade_id(cell) for cell in section.graded) or "no graded cell"
            yield (
                f"{name} '{section.title}' states {_points(section.stated)}, the metadata of {cells} "
                f"{section.points:g}: change the heading"
            )
    for cell in notebook.cells:
        for number in OTHER_LEVEL.findall(cell.source) if cell.cell_type == "markdown" else ():
            yield f"the heading of section {number} must be of the second level: ## {number}"
    numbers = [section.number for section in found if section.number]
    for number, wanted in zip(numbers, (f"{int(unit[:2])}.{i}" for i in range(1, len(numbers) + 1)), strict=True):
        if number != wanted:
            yield f"the heading of section {number} should be numbered {wanted}"
            break
    yield from _sums(course, unit, notebook) if numbers else ()


def total(notebook: NotebookNode) -> float:
    """The points of all graded cells."""
    return sum(notebooks.points(cell) for cell in notebook.cells if notebooks.flag(cell, "grade"))


def readme_row(unit: str) -> re.Pattern:
    """The unit's row in the table of README.md; group 2 is its points."""
    return re.compile(rf"^(\| \[{unit[:2]}\]\(.*\| *)(\d+(?:\.\d+)?)( *\|)$", re.MULTILINE)


def _sums(course: Course, unit: str, notebook: NotebookNode) -> Iterator[str]:
    earned = total(notebook)
    words = " ".join(notebook.cells[0].source.split())
    if not (match := INTRO.search(words)) or float(match[1]) != earned:
        says = f"'{match[0]}'" if match else "nowhere 'N points to earn'"
        yield f"the intro says {says}, and the unit's cells have {earned:g} points together: change the intro"
    readme = course.root / "README.md"
    row = readme_row(unit).search(readme.read_text(encoding="utf-8")) if readme.is_file() else None
    if readme.is_file() and (row is None or float(row[2]) != earned):
        says = f"says {row[2]}" if row else "has no row for it"
        yield f"the unit's cells have {earned:g} points together, the table of README.md {says}: change the table"


def _section(match: re.Match) -> Section:
    groups = match.groupdict()
    stated, minutes = (pattern.search(groups["about"] or "") for pattern in (STATED, MINUTES))
    return Section(
        groups.get("number") or "",
        groups["title"].strip(),
        float(stated[1]) if stated else 0.0,
        int(minutes[1]) if minutes else 0,
    )


def _points(number: float) -> str:
    return f"{number:g} point{'s' * (number != 1)}" if number else "no points"
