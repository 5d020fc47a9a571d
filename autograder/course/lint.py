"""What would go wrong later, found in the sources: one line per problem, with the file, the cell and what to do."""

import ast
import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from nbformat import NotebookNode

from autograder import notebooks
from autograder.course import (
    build,
    cell_headers,
    dependencies,
    exercises,
    hint_files,
    previews,
    prose,
    sections,
    table_of_contents,
)
from autograder.course.paths import PACKAGES, Course
from autograder.course.visibility import companion, room, room_files, syllabus_ids
from autograder.errors import CourseError

REGIONS = ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME")
STUB = "### BEGIN SOLUTION"
TO_FILL_IN = re.compile(r"TO FILL IN (?P<exercise>\w+): (?P<what>[^|\"]*)")
CROSS_REFERENCE = re.compile(r"(?<!, )\b(?:[Ss]ections?|[Ee]xercises?) (\d+\.\d+)\b(?!\.\d)")
"""A section of the course. After a comma, as in "(Vaswani et al., 2017, section 3.2)", it is a paper's."""
ALTERNATIVES = 2
Read = Callable[[Path], NotebookNode]
"""The notebook of a source, which is made once."""


def lint(course: Course, units: list[str]) -> list[str]:
    """The problems of the units, in the order in which they stand in the sources."""
    syllabus = course.syllabus()
    read = cache(build.solution_notebook)  # a text that speaks of another unit's section reads it
    problems = []
    for unit in units:
        source = course.source(unit).relative_to(course.root)
        problems += [f"{source}: {problem}" for problem in _unit(course, unit, syllabus, read)]
        problems += _helpers(course, unit)
        problems += [
            f"{_short(path, course)}:{line}: to fill in: {what}" for path, line, _, what in to_fill_in(course, unit)
        ]
    return problems


def to_fill_in(course: Course, unit: str) -> list[tuple[Path, int, str, str]]:
    """What `attn new` left to write in the files of a unit: file, line, exercise (or unit), and what it is."""
    found, readme = [], course.root / "README.md"
    for path in [course.source(unit), *room_files(unit), *[readme] * readme.is_file()]:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            match = TO_FILL_IN.search(line)
            if match and (path != readme or match["exercise"] == room(unit)):
                found.append((path, number, match["exercise"], match["what"].strip()))
    return found


def _unit(course: Course, unit: str, syllabus: dict, read: Read) -> Iterator[str]:
    unreadable = list(cell_headers.problems(course.source(unit).read_text(encoding="utf-8")))
    yield from unreadable
    if unreadable:  # what else is amiss may follow from these
        return
    try:
        notebook = read(course.source(unit))
    except CourseError as error:
        yield str(error)
        return
    yield from _ids(notebook)
    for cell in notebook.cells:
        yield from (f"cell {_name(cell, notebook)}: {problem}" for problem in _cell(cell))
    for cell in notebooks.tests(notebook):
        yield from (f"cell {_name(cell, notebook)}: {problem}" for problem in _test_cell(cell, unit, notebook))
    if unit in syllabus:
        yield from _against_syllabus(notebook, syllabus[unit])
    else:
        yield f"syllabus.toml has no table [{unit}]: add one"
    yield from sections.problems(course, unit, notebook)
    yield from table_of_contents.problems(notebook)
    yield from previews.problems(notebook, course.source(unit).parent, unit[:2])
    yield from hint_files.problems(unit)
    yield from prose.problems(notebook)
    yield from _cross_references(course, notebook, read)


def _ids(notebook: NotebookNode) -> Iterator[str]:
    counts = Counter(notebooks.grade_id(cell) for cell in notebook.cells if notebooks.grade_id(cell))
    for name, times in counts.items():
        if times > 1:
            yield f"cell {name}: its grade_id is given {times} times; make them different"


def _cell(cell: NotebookNode) -> Iterator[str]:
    """Problems of every kind of cell: metadata that nbgrader refuses, unmatched markers, pictures that nobody draws."""
    metadata = notebooks.nbgrader_metadata(cell)
    if metadata and metadata["schema_version"] != 3:
        yield f"schema_version is {metadata['schema_version']}; write 3"
    if metadata.get("grade") and "points" not in metadata:
        yield "it is graded but has no points; add them to its metadata"
    if metadata.get("solution") and metadata.get("locked"):
        yield "it is a solution cell and locked, so nobody could write in it: set locked to false"
    for region in REGIONS:
        yield from _region(cell, region)
    if cell.cell_type == "code":
        yield from _pictures(cell)


def _pictures(cell: NotebookNode) -> Iterator[str]:
    from helpers import registry

    known = registry.offered("plots")
    for name in dependencies.named_pictures(cell.source):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"is it {near[0]}?" if near else "write it, and name it in its module's __all__"
            yield f"there is no plots.{name} in helpers/*/plots: {advice}"


def _region(cell: NotebookNode, region: str) -> Iterator[str]:
    """Markers as nbgrader takes them: a line that has the words. Two forms are ours: a comment in code, and in
    markdown, where ### would be a heading, an HTML comment."""
    lines = [line.strip() for line in cell.source.split("\n")]
    forms = [{f"### {word} {region}", f"<!-- {word} {region} -->"} for word in ("BEGIN", "END")]
    marks = ["BEGIN" if line in forms[0] else "END" for line in lines if line in forms[0] | forms[1]]
    if marks != ["BEGIN", "END"] * (len(marks) // 2):
        yield f"BEGIN {region} and END {region} don't come in pairs"
    for line in lines:
        if (f"BEGIN {region}" in line or f"END {region}" in line) and line not in forms[0] | forms[1]:
            yield f"'{line}' is no marker: write ### BEGIN {region} or ### END {region} on a line of its own"
    if marks and region == "SOLUTION" and not notebooks.flag(cell, "solution"):
        yield "it has a solution region but is no solution cell: set solution in its metadata"
    if marks and region == "HIDDEN TESTS" and not notebooks.is_test(cell):
        yield "it has hidden tests but is no test cell: set grade in its metadata"
    if marks and region == "MARK SCHEME" and not notebooks.flag(cell, "locked"):
        yield "it has a mark scheme but is not locked, so the scheme would not come back for the marker: lock it"


def _test_cell(cell: NotebookNode, unit: str, notebook: NotebookNode) -> Iterator[str]:
    name = _exercise_of(cell)
    if not notebooks.grade_id(cell).endswith("_test"):
        yield f"a test cell's grade_id is the exercise's id with _test: {name}_test"
    if not notebooks.flag(cell, "locked"):
        yield "a test cell must be locked"
    answer = notebooks.by_id(notebook).get(name)
    if answer is None or not notebooks.flag(answer, "solution"):
        yield f"there is no solution cell with the grade_id {name}"
    elif STUB not in answer.source:
        yield f"solution cell {name} has no ### BEGIN SOLUTION: students would get an empty cell"
    yield from _calls(cell, name, unit)


def _exercise_of(cell: NotebookNode) -> str:
    """The exercise that a test cell means, even where its grade_id ends wrongly: that is one mistake, not seven."""
    return re.sub(r"_(tests?|checks?)$", "", notebooks.grade_id(cell))


def _calls(cell: NotebookNode, name: str, unit: str) -> Iterator[str]:
    try:
        calls = exercises.calls(cell)
    except SyntaxError as error:
        yield f"not Python: {error.msg} in line {error.lineno}"
        return
    visible, hidden = [c for c in calls if not c.hidden], [c for c in calls if c.hidden]
    if len(visible) != 1 or len(hidden) != 1 or "### BEGIN HIDDEN TESTS" not in cell.source:
        yield f"it must call check.{name} twice: once to be seen, once with cases= between the HIDDEN TESTS markers"
    for call in calls:
        if call.check != name:
            yield f"it calls check.{call.check}; by its id it should call check.{name}"
        if call.points != notebooks.points(cell):
            yield f"points={call.points} in the code, {notebooks.points(cell):g} in the metadata: make them equal"
    for call in hidden:
        yield from _hidden(cell, call, name, unit)
    if calls and calls[0].answers != calls[-1].answers:
        yield "the visible and the hidden call are made with different answers"
    try:
        if exercises.find_check(name) is None:
            yield f"there is no check.{name} in helpers/*/checks: write it, and name it in its module's __all__"
        else:
            yield from _companions(unit, name)
    except CourseError as error:
        yield str(error)


def _hidden(cell: NotebookNode, call: exercises.Call, name: str, unit: str) -> Iterator[str]:
    if call.cases != f"hidden.{name}":
        yield f"it is given cases={call.cases}; by its id it should be cases=hidden.{name}"
    line = f"from autograder.hidden import {room(unit)} as hidden"
    if line not in cell.source:
        yield f"its hidden cases must come from this unit: write `{line}` above the call"


def _companions(unit: str, name: str) -> Iterator[str]:
    """What stands in other files under the exercise's name: hidden cases, alternatives, misconceptions."""
    if not hasattr(exercises.load(f"autograder.hidden.{room(unit)}"), name):
        yield f"autograder/hidden/{room(unit)}.py has no {name}: write its hidden cases (an empty list if none)"
    found = getattr(exercises.companion("alternatives", unit, name), name, {})
    if len(found) < ALTERNATIVES:
        yield (
            f"{companion('alternatives', unit, name).replace('.', '/')}.py has {len(found) or 'no'} {name}: "
            f"write right answers in {ALTERNATIVES} other styles at least"
        )
    check = exercises.find_check(name)
    for part in getattr(check, "parts", {name: check}).values():
        counts = Counter(misconception.name for misconception in getattr(part, "misconceptions", ()))
        for slip, times in counts.items():
            if times > 1:
                yield f"check.{name} has {times} misconceptions named '{slip}': give each its own name"


def _against_syllabus(notebook: NotebookNode, table: dict) -> Iterator[str]:
    tests = {_exercise_of(cell) for cell in notebooks.tests(notebook)}
    written = {notebooks.grade_id(cell) for cell in notebook.cells if notebooks.is_written(cell)}
    yield from _compared("exercise", tests, set(table["auto"]) | set(table["quiz"]), "auto or quiz")
    yield from _compared("written answer", written, set(table["written"]), "written")
    for name in sorted(written & set(table["written"])):
        question = notebooks.by_id(notebook).get(f"{name}_question")
        if question is None or "BEGIN MARK SCHEME" not in question.source:
            yield f"cell {name}: no locked question cell {name}_question with a mark scheme"
    points = sections.total(notebook)
    if points != table["points"]:
        yield f"its cells have {points:g} points together, the syllabus says {table['points']}: change one of them"


def _compared(what: str, here: set[str], wanted: set[str], where: str) -> Iterator[str]:
    for name in sorted(wanted - here):
        yield f"{what} {name} of the syllabus is missing: write it"
    for name in sorted(here - wanted):
        yield f"{what} {name} is not in the syllabus: add it to {where} in syllabus.toml"


def _cross_references(course: Course, notebook: NotebookNode, read: Read) -> Iterator[str]:
    """Sections that the text sends its reader to. Those of units that aren't written yet can't be known."""
    written = {str(int(unit[:2])) for unit in course.units()}
    mentioned = {number for cell in notebook.cells for number in CROSS_REFERENCE.findall(cell.source)}
    if mentioned:
        there = {s.number for u in course.units() for s in sections.sections(read(course.source(u)))}
        for number in sorted(mentioned - there):
            if number.split(".")[0] in written:
                yield f"the text speaks of section {number}, and no heading has that number"


def _helpers(course: Course, unit: str) -> Iterator[str]:
    """Pictures of the unit's room that wait for an exercise which nobody gives, or don't say what they show."""
    for path in room_files(unit):
        if path.parent.name == "plots":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            public = _public(tree)
            for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.FunctionDef)):
                problems = [*_waits_for(node), *_says_nothing(node, public)]
                yield from (f"{_short(path, course)}:{node.lineno}: {problem}" for problem in problems)


def _public(tree: ast.Module) -> list[str]:
    """The names in a module's `__all__`."""
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return [name for each in lists for name in ast.literal_eval(each)]


def _says_nothing(node: ast.AST, public: list[str]) -> Iterator[str]:
    """A figure without a text for those who can't see it: `style.show` takes it from the docstring, or is given one."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("plt.show", "pyplot.show"):
        yield "plt.show() shows a figure without saying what it shows: call show() of helpers.style"
    if isinstance(node, ast.FunctionDef) and node.name in public and not ast.get_docstring(node):
        yield (
            f"{node.name} has no docstring, and that is what a reader who can't see the picture is told: say what it "
            f"shows"
        )


def _waits_for(node: ast.AST) -> Iterator[str]:
    if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "waits_for"):
        return
    names = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
    for name in names or [None]:
        if name not in syllabus_ids():
            near = difflib.get_close_matches(str(name), syllabus_ids(), n=1)
            yield f"waits_for takes ids of exercises, and {name!r} is none" + (f": is it {near[0]!r}?" if near else "")


def _short(path: Path, course: Course) -> Path:
    return next((path.relative_to(folder) for folder in (course.root, PACKAGES) if path.is_relative_to(folder)), path)


def _name(cell: NotebookNode, notebook: NotebookNode) -> str:
    return notebooks.grade_id(cell) or f"number {notebook.cells.index(cell) + 1}"
