"""What stands at the top of a built notebook: its sections with their minutes and points, from the headings and the
metadata. Nobody writes this table, so it can't be wrong; the hours in the intro are compared with it."""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from autograder.course.sections import Section, sections

HOURS = re.compile(r"You have about (?:(?P<half>half an hour)|(?P<whole>\d+)(?P<more>½)? hours?)\b")
AIMS = "**After this unit you can**"  # the table stands behind this list, or at the end of the cell


def with_contents(notebook: NotebookNode) -> NotebookNode:
    """The notebook with its table of sections, folded, in the cell of its title."""
    intro, found = _intro(notebook), table(notebook)
    if intro and found:
        before, aims, after = intro.source.partition(AIMS)
        listed, gap, rest = after.partition("\n\n")
        intro.source = f"{before}{aims}{listed}\n\n{found}{gap}{rest}"
    return notebook


def table(notebook: NotebookNode) -> str:
    """Markdown of the table, with the sums in the line that stays visible; empty where no section is numbered."""
    rows = _rows(sections(notebook))
    if not rows:
        return ""
    minutes, points = sum(row[1] for row in rows), sum(row[2] for row in rows)
    lines = [f"| {title} | {'' if not some else some} | {worth:g} |" for title, some, worth in rows]
    summary = f"What is in it: {len(rows)} sections and questions, about {_time(minutes)}, {points:g} points"
    head = "| section | minutes | points |\n|---|---:|---:|"
    return "\n".join([f"<details><summary>{summary}</summary>\n", head, *lines, "</details>\n<br>"])


def problems(notebook: NotebookNode) -> Iterator[str]:
    """Hours in the intro that are not the sum of the sections' minutes, to half an hour."""
    minutes = sum(row[1] for row in _rows(sections(notebook)))
    intro = _intro(notebook)
    said = HOURS.search(" ".join(intro.source.split())) if intro else None
    if not said or not minutes:
        return
    hours = 0.5 if said["half"] else int(said["whole"]) + 0.5 * bool(said["more"])
    if abs(hours - minutes / 60) > 0.25 + 1e-9:
        yield f"the intro says '{said[0]}', and the headings have {_time(minutes)} together: change the intro"


def _intro(notebook: NotebookNode) -> NotebookNode | None:
    """The first cell with a title."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "markdown")
    return next((cell for cell in cells if re.search("^# ", cell.source, re.MULTILINE)), None)


def _rows(found: list[Section]) -> list[tuple[str, int, float]]:
    """Title, minutes and points of every numbered section, and of every written question below the section it belongs
    to: what a row says is what the heading says."""
    first = next((place for place, section in enumerate(found) if section.number), len(found))
    return [(_title(section), section.minutes, section.points) for section in found[first:]]


def _title(section: Section) -> str:
    return f"{section.number} {section.title}" if section.number else f"– {section.title}"


def _time(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return " ".join(filter(None, (f"{hours} h" * bool(hours), f"{rest} min" * bool(rest))))
