"""`attn new`: all the files of a new exercise or unit, from `templates/`.

`TO FILL IN <exercise or unit>: <what>` marks what is left to its author; `attn lint` and `attn try` name every such
line until it is gone."""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.course import build, sections
from autograder.course.paths import SYLLABUS, Course
from autograder.course.visibility import file_of
from autograder.errors import BAD_INPUT, CourseError
from autograder.whole_files import SHARED, write_whole

ENDS = (
    "# ## What you guessed, and what came out",
    "# ## What you have now",
)  # a new section goes before the first that is there
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), keep_trailing_newline=True, undefined=StrictUndefined
)
SETUP = re.compile(r"^# %% nbgrader=.*\"grade_id\": \"setup\".*?(?=\n\n# %%)", re.MULTILINE | re.DOTALL)


def create_exercise(course: Course, unit: str, name: str, points: int = 1) -> list[Path]:
    """Writes the stubs of an exercise. Returns the files that were written or changed; raises before any of them is."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise CourseError(f"'{name}' is no id: letters, digits and _ only.", BAD_INPUT)
    room, module = unit[3:], file_of(name)
    notebook = build.solution_notebook(course.source(unit))
    _must_be_new(course, name, unit, notebook)
    numbered = sum(bool(section.number) for section in sections.sections(notebook))
    words = {
        "id": name,
        "module": module,
        "room": room,
        "points": points,
        "number": f"{int(unit[:2])}.{numbered + 1}",
        "title": name.replace("_", " ").capitalize(),
    }
    made = {
        f"helpers/{room}/{module}.py": _render("reference.py", words),
        f"helpers/{room}/checks/{module}.py": _render("check.py", words),
        f"helpers/{room}/checks/{module}.md": _render("hints.md", words),
        f"tests/units/test_{room}_{module}.py": _render("test.py", words),
    }
    alternatives = f"autograder/alternatives/{room}"
    if (course.root / alternatives).is_dir():
        title = f'"""Right answers of {name} in other styles."""\n\n'
        made[f"{alternatives}/{module}.py"] = title + _render("alternatives.py", words)
    _nothing_in_the_way(course, made)
    more = {
        f"autograder/hidden/{room}.py": lambda text: _appended(
            _importing_random_case(text), _render("hidden_cases.py", words)
        ),
        f"{alternatives}.py": lambda text: _appended(text, _render("alternatives.py", words), 2),
        f"solutions/{unit}/{unit}.py": lambda text: _with_section(text, _render("section.py", words)),
    }
    if name not in course.syllabus()[unit]["auto"] + course.syllabus()[unit]["quiz"]:
        total = course.syllabus()[unit]["points"] + points
        more[f"solutions/{SYLLABUS}"] = lambda text: _in_table(text, unit, name, total)
        more["README.md"] = lambda text: sections.readme_row(unit).sub(rf"\g<1>{total}\g<3>", text)
        section = more[f"solutions/{unit}/{unit}.py"]
        more[f"solutions/{unit}/{unit}.py"] = lambda text: _with_intro(section(text), total)
    return _write(course, made, more)


def create_unit(course: Course, name: str) -> list[Path]:
    """Writes the stubs of a unit without exercises. Returns the files that were written or changed."""
    if not re.fullmatch(r"\d\d_[a-z][a-z0-9_]*", name):
        raise CourseError(f"'{name}' is no unit: two digits, _ and a name in small letters, as in 11_name.", BAD_INPUT)
    for other in course.syllabus():
        if other != name and (other[:2] == name[:2] or other[3:] == name[3:]):
            raise CourseError(f"{name}: there is {other} already; take another number and name.", BAD_INPUT)
    room, table = name[3:], course.syllabus().get(name)
    words = {
        "unit": name,
        "room": room,
        "title": room.replace("_", " ").capitalize(),
        "points": table["points"] if table else 0,
        "setup": _setup(course),
    }
    source = {f"solutions/{name}/{name}.py": _render("unit.py", words)}
    _nothing_in_the_way(course, source)
    rest = {
        f"helpers/{room}/__init__.py": f'"""Unit {name[:2]}: {words["title"]}."""\n',
        f"helpers/{room}/checks/__init__.py": "",
        f"helpers/{room}/plots/__init__.py": "",
        f"autograder/hidden/{room}.py": _importing_random_case(f'"""Hidden cases of unit {name[:2]}."""\n'),
        f"autograder/alternatives/{room}.py": f'"""Right answers of unit {name[:2]} in other styles."""\n',
    }
    made = source | {path: text for path, text in rest.items() if not (course.root / path).exists()}
    more = {"README.md": lambda text: _with_row(text, _render("readme_row.md", words).rstrip())}
    if table is None:
        more["pyproject.toml"] = lambda text: _with_layer(text, room)
        more[f"solutions/{SYLLABUS}"] = lambda text: text.rstrip("\n") + "\n" + _render("syllabus.toml", words)
    return _write(course, made, more)


def _must_be_new(course: Course, name: str, unit: str, notebook) -> None:
    for other, table in course.syllabus().items():
        if other != unit and name in table["auto"] + table["quiz"] + table["written"]:
            raise CourseError(f"{name} is an exercise of {other} already: take another id.", BAD_INPUT)
    if unit not in course.syllabus():
        raise CourseError(f"syllabus.toml has no table [{unit}]: add one, or make the unit with `attn new unit`.")
    if name in sections.index(notebook) or f"{name}_test" in {cell.id for cell in notebook.cells}:
        raise CourseError(f"{unit} has an exercise {name} already: take another id.", BAD_INPUT)


def _nothing_in_the_way(course: Course, made: dict[str, str]) -> None:
    for path in made:
        if (course.root / path).exists():
            raise CourseError(f"{path} exists already: take another name, or move it away.", BAD_INPUT)


def _write(course: Course, made: dict[str, str], more: dict) -> list[Path]:
    """New files, and changes of files that are there."""
    for path, change in more.items():
        file = course.root / path
        if file.exists():  # a course without README is one, too
            made[path] = change(file.read_text(encoding="utf-8"))
    for path, text in made.items():
        write_whole(course.root / path, text, SHARED)
    return [Path(path) for path in made]


def _render(template: str, words: dict) -> str:
    return TEMPLATES.get_template(f"{template}.j2").render(words)


def _appended(text: str, more: str, blank: int = 0) -> str:
    lines = text.rstrip("\n").split("\n")
    blank = max(blank, lines[-1].startswith(("from ", "import ")))
    return "\n".join(lines) + "\n" * (1 + blank) + more


def _importing_random_case(text: str) -> str:
    """Hidden cases with the import that their stub needs."""
    if re.search(r"^from helpers\.engine\.cases import .*\brandom_case\b", text, re.MULTILINE):
        return text
    title, rest = text.split('"""\n', 1)
    return f'{title}"""\n\nfrom helpers.engine.cases import random_case\n{rest}'


def _with_section(text: str, section: str) -> str:
    """The section goes before the summary of the unit, or to the end where there is none."""
    end = next((heading for heading in ENDS if heading in text), None)
    if end is None:
        return _appended(text, section, 1)
    before, after = text.rsplit(end, 1)
    before = re.sub(r"(?:# %% \[markdown\]\n)?(?:#\n)*$", "", before).rstrip("\n")
    return f"{before}\n\n{section}\n# %% [markdown]\n{end}{after}"


def _with_intro(text: str, total: int) -> str:
    """The intro may break its line between the number and `points to earn`."""
    return re.sub(r"\b\d+(\s+(?:# )?points?\s+(?:# )?to\s+(?:# )?earn)", rf"{total}\1", text, count=1)


def _in_table(text: str, unit: str, name: str, total: int) -> str:
    """The syllabus with the id at the end of the unit's `auto`, and the unit's new sum."""
    start = text.index(f"[{unit}]")
    end = text.find("\n[", start) if "\n[" in text[start:] else len(text)
    table = re.sub(r"points = [\d.]+", f"points = {total}", text[start:end], count=1)
    table = re.sub(r"(auto = \[)(.*?)(\n?)\]", lambda m: _with_id(m, name), table, count=1, flags=re.DOTALL)
    return text[:start] + table + text[end:]


def _with_id(match: re.Match, name: str) -> str:
    opening, ids, newline = match.groups()
    if newline:
        return f'{opening}{ids}\n    "{name}",\n]'
    return f'{opening}{ids}{", " if ids else ""}"{name}"]'


def _with_row(text: str, row: str) -> str:
    """The table of units with one row more, in the order of their numbers."""
    lines = text.split("\n")
    rows = [i for i, line in enumerate(lines) if re.match(r"\| \[\d\d\]\(", line)]
    if any(lines[i][:6] == row[:6] for i in rows) or not rows:
        return text
    place = next((i for i in rows if lines[i] > row), rows[-1] + 1)
    return "\n".join([*lines[:place], row, *lines[place:]])


def _with_layer(text: str, room: str) -> str:
    """The layers of import-linter's contract with the room above all others: a unit may import those before it."""
    if f'"helpers.{room}"' in text or f'"(helpers.{room})"' in text:
        return text
    return re.sub(
        r'(^layers = \[\n)(?=    "\(?helpers\.)', rf'\1    "helpers.{room}",\n', text, count=1, flags=re.MULTILINE
    )


def _setup(course: Course) -> str:
    """The setup cell of the course's last unit."""
    for other in reversed(course.units()):
        if match := SETUP.search(course.source(other).read_text(encoding="utf-8")):
            return match[0].rstrip("\n")
    raise CourseError("No unit has a setup cell to copy.")
